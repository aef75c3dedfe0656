//! Maps filled with permutations of bytes, which exist on every processor with popcounts of 64-bit
//! lanes and lanes of bytes.
//!
//! A row for 8-bit thresholds has 256 entries and one more for the stream of ones. Their low bytes
//! fill four registers, and so do their high bytes; a permutation of two registers looks 64
//! thresholds up by their low seven bits, and the eighth selects one of two results.

use crate::arch::portable::map::{self as portable, LANES};
use crate::arch::x86_64::memory::{load512, store512};
use std::arch::x86_64::{
    __m512i, _mm512_and_si512, _mm512_mask_blend_epi8, _mm512_mask_mov_epi16,
    _mm512_mask_sub_epi16, _mm512_movepi8_mask, _mm512_movepi16_mask, _mm512_packus_epi16,
    _mm512_permutex2var_epi8, _mm512_set1_epi16, _mm512_setzero_si512, _mm512_test_epi16_mask,
    _mm512_unpackhi_epi8, _mm512_unpacklo_epi8,
};

/// Number of entries of a row: one for each 8-bit threshold, and one for 2^8.
const ENTRIES: usize = 257;

/// Number of blocks of thresholds prepared at a time.
const BLOCKS: usize = 16;

/// The positions of the low bytes of 64 entries in two registers, and of the high ones.
const BYTES: [[u8; LANES]; 2] = {
    let mut bytes = [[0; LANES]; 2];
    let mut k = 0;
    while k < LANES {
        bytes[0][k] = 2 * k as u8;
        bytes[1][k] = 2 * k as u8 + 1;
        k += 1;
    }
    bytes
};

/// Writes `rows[k][thresholds[j]]` to entry `j` of map `k`, negated if the threshold has its
/// highest bit set.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn fill(rows: &[&[u16]], thresholds: &[u16], maps: &mut [u16]) {
    let (blocks, _) = thresholds.as_chunks::<LANES>();
    for (blocks, first) in blocks.chunks(BLOCKS).zip((0..).step_by(BLOCKS * LANES)) {
        let mut ready = [Thresholds::new(&[0; LANES]); BLOCKS];
        let ready = &mut ready[..blocks.len()];
        ready.iter_mut().zip(blocks).for_each(|(ready, block)| *ready = Thresholds::new(block));
        for (row, map) in rows.iter().zip(maps.chunks_exact_mut(thresholds.len())) {
            let map = &mut map[first..][..blocks.len() * LANES];
            let Ok(row) = <&[u16; ENTRIES]>::try_from(*row) else {
                portable::fill(&[row], &thresholds[first..][..map.len()], map);
                continue;
            };
            let row = Row::new(row);
            let maps = map.as_chunks_mut::<32>().0.as_chunks_mut::<2>().0;
            for (map, thresholds) in maps.iter_mut().zip(&*ready) {
                let entries = row.look_up(thresholds);
                for (k, (map, entries)) in map.iter_mut().zip(entries).enumerate() {
                    let (zero, negative) = (_mm512_setzero_si512(), thresholds.negative[k]);
                    store512(map, _mm512_mask_sub_epi16(entries, negative, zero, entries));
                }
            }
        }
    }
}

/// A block of thresholds.
#[derive(Clone, Copy)]
struct Thresholds {
    /// The low bytes, in the order in which the bytes of two registers of entries are unpacked.
    bytes: __m512i,
    /// Masks: thresholds in the upper half of the row, and, for the first and the second 32,
    /// thresholds equal to 2^8 and thresholds with the highest bit.
    upper: u64,
    ones: [u32; 2],
    negative: [u32; 2],
}

impl Thresholds {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new(block: &[u16; LANES]) -> Self {
        let (halves, _) = block.as_chunks::<32>();
        let (first, second) = (load512(&halves[0]), load512(&halves[1]));
        let (low, one) = (_mm512_set1_epi16(0xff), _mm512_set1_epi16(0x100));
        let bytes =
            _mm512_packus_epi16(_mm512_and_si512(first, low), _mm512_and_si512(second, low));
        Self {
            bytes,
            upper: _mm512_movepi8_mask(bytes),
            ones: [_mm512_test_epi16_mask(first, one), _mm512_test_epi16_mask(second, one)],
            negative: [_mm512_movepi16_mask(first), _mm512_movepi16_mask(second)],
        }
    }
}

/// A row in registers: its low bytes and its high bytes.
struct Row {
    planes: [[__m512i; 4]; 2],
    last: __m512i,
}

impl Row {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn new(row: &[u16; ENTRIES]) -> Self {
        let mut planes = [[_mm512_setzero_si512(); 4]; 2];
        for (plane, bytes) in planes.iter_mut().zip(&BYTES) {
            let bytes = load512(bytes);
            for (plane, [first, second]) in
                plane.iter_mut().zip(row.as_chunks::<32>().0.as_chunks::<2>().0)
            {
                *plane = _mm512_permutex2var_epi8(load512(first), bytes, load512(second));
            }
        }
        Self { planes, last: _mm512_set1_epi16(row[ENTRIES - 1] as i16) }
    }

    /// Looks up the entries of the first and the second half of a block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn look_up(&self, thresholds: &Thresholds) -> [__m512i; 2] {
        let bytes = thresholds.bytes;
        let look_up = |[a, b, c, d]: [__m512i; 4]| {
            let lower = _mm512_permutex2var_epi8(a, bytes, b);
            _mm512_mask_blend_epi8(thresholds.upper, lower, _mm512_permutex2var_epi8(c, bytes, d))
        };
        let (low, high) = (look_up(self.planes[0]), look_up(self.planes[1]));
        let (first, second) = (_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high));
        let [a, b] = thresholds.ones;
        [_mm512_mask_mov_epi16(first, a, self.last), _mm512_mask_mov_epi16(second, b, self.last)]
    }
}
