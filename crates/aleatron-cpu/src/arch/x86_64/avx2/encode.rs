//! Bernoulli encoding, eight 32-bit stream words at a time. See [`slots`](crate::arch::x86_64::slots).

use crate::arch::x86_64::memory::{load256, store256};
use crate::arch::x86_64::slots::{Cursor, FIRST_DRAWS, Slots, add_bits, finish};
use aleatron_core::address::{DRAWS, PLANES_PER_DRAW};
use aleatron_core::philox::{KEY_INCREMENTS, MULTIPLIERS, ROUNDS};
use aleatron_core::{Length, StreamAddress, Threshold};
use std::arch::x86_64::{
    __m256i, _mm_cvtsi32_si128, _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_si256, _mm256_blend_epi32,
    _mm256_mul_epu32, _mm256_or_si256, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi32,
    _mm256_setzero_si256, _mm256_sll_epi32, _mm256_slli_epi32, _mm256_slli_epi64, _mm256_srai_epi32,
    _mm256_srli_epi64, _mm256_testz_si256, _mm256_xor_si256,
};

/// Slots per register.
const LANES: usize = 8;

/// Words filled between lists being emptied: slots inside must be indexed by `u32`.
const CHUNK: usize = 1 << 20;

/// Encodes the streams of `thresholds` at consecutive units from `address` on; `out` holds their words.
#[target_feature(enable = "avx2")]
pub(crate) fn encode(thresholds: &[Threshold], length: Length, address: StreamAddress, out: &mut [u64]) {
    let mut cursor = Cursor::new(thresholds, length, address);
    for chunk in out.chunks_mut(CHUNK) {
        let mut undecided = Undecided::new();
        let mut first_slot = 0;
        for start in (0..chunk.len()).step_by(LANES / 2) {
            let end = chunk.len().min(start + LANES / 2);
            let lanes = Lanes::at(&mut cursor);
            let (below, open) = lanes.first_planes(address);
            let mut block = [0u64; LANES / 2];
            store256(&mut block, below);
            chunk[start..end].copy_from_slice(&block[..end - start]);
            undecided.push(&lanes, open, 2 * (end - start), first_slot);
            if undecided.len >= LANES {
                undecided.settle(address, chunk);
            }
            first_slot += LANES as u32;
        }
        undecided.settle(address, chunk);
    }
    finish(thresholds, length, out);
}

/// What eight slots draw and compare with, one per 32-bit lane.
struct Lanes {
    words: __m256i,
    units: __m256i,
    thresholds: __m256i,
}

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn at(cursor: &mut Cursor<'_>) -> Self {
        match cursor.next::<LANES>() {
            Slots::OneStream { word, unit, threshold } => Self {
                words: _mm256_add_epi32(
                    _mm256_set1_epi32(word as i32),
                    _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                ),
                units: _mm256_set1_epi32(unit as i32),
                thresholds: _mm256_set1_epi32(threshold as i32),
            },
            Slots::Mixed { words, units, thresholds } => {
                Self { words: load256(&words), units: load256(&units), thresholds: load256(&thresholds) }
            }
        }
    }

    /// The bits after the first eight planes: those below their threshold, and those that equal it so far.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn first_planes(&self, address: StreamAddress) -> (__m256i, __m256i) {
        let draws = self.draw::<FIRST_DRAWS>(0, address);
        let (mut below, mut equal) = (_mm256_setzero_si256(), _mm256_set1_epi32(-1));
        // From the last plane up: a bit is below if this plane says so, or it is equal here and below further down.
        macro_rules! planes {
            ($($m:literal)*) => {$(
                let plane = draws[$m / 4][$m % 4];
                let digit = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<$m>(self.thresholds));
                let either = _mm256_andnot_si256(plane, _mm256_or_si256(below, digit));
                below = _mm256_or_si256(either, _mm256_and_si256(below, digit));
                equal = _mm256_andnot_si256(_mm256_xor_si256(plane, digit), equal);
            )*};
        }
        planes!(7 6 5 4 3 2 1 0);
        (below, equal)
    }

    /// Draws `first`, `first + 1`, … of every slot: four planes each.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn draw<const N: usize>(&self, first: u32, address: StreamAddress) -> [[__m256i; 4]; N] {
        // A multiplication takes the low halves of 64-bit lanes: the even slots as they lie, the odd ones shifted down.
        let mut counters = [[[_mm256_setzero_si256(); 4]; 2]; N];
        let (row, tag) = (splat(address.row), splat(address.tag()));
        for (counters, draw) in counters.iter_mut().zip(first..) {
            let c0 = _mm256_or_si256(_mm256_slli_epi32::<3>(self.words), _mm256_set1_epi32(draw as i32));
            counters[0] = [c0, self.units, row, tag];
            counters[1] = [_mm256_srli_epi64::<32>(c0), _mm256_srli_epi64::<32>(self.units), row, tag];
        }
        let [mut k0, mut k1] = address.key();
        let (m0, m1) = (splat(MULTIPLIERS[0]), splat(MULTIPLIERS[1]));
        for _ in 0..ROUNDS {
            let key = [splat(k0), splat(k1)];
            for [c0, c1, c2, c3] in counters.as_flattened_mut() {
                let (p0, p1) = (_mm256_mul_epu32(*c0, m0), _mm256_mul_epu32(*c2, m1));
                *c0 = _mm256_xor_si256(_mm256_srli_epi64::<32>(p1), _mm256_xor_si256(*c1, key[0]));
                *c2 = _mm256_xor_si256(_mm256_srli_epi64::<32>(p0), _mm256_xor_si256(*c3, key[1]));
                // The high halves of these products are left in place: nothing reads them.
                (*c1, *c3) = (p1, p0);
            }
            k0 = k0.wrapping_add(KEY_INCREMENTS[0]);
            k1 = k1.wrapping_add(KEY_INCREMENTS[1]);
        }
        let mut draws = [[_mm256_setzero_si256(); 4]; N];
        for (planes, [even, odd]) in draws.iter_mut().zip(&counters) {
            for i in 0..4 {
                planes[i] = _mm256_blend_epi32::<0xaa>(even[i], _mm256_slli_epi64::<32>(odd[i]));
            }
        }
        draws
    }
}

/// Slots with bits still equal to their threshold, waiting to fill a register.
struct Undecided {
    len: usize,
    slots: [u32; 2 * LANES],
    words: [u32; 2 * LANES],
    units: [u32; 2 * LANES],
    thresholds: [u32; 2 * LANES],
    equal: [u32; 2 * LANES],
}

impl Undecided {
    fn new() -> Self {
        let none = [0; 2 * LANES];
        Self { len: 0, slots: none, words: none, units: none, thresholds: none, equal: none }
    }

    /// Puts the lanes with open bits on the list, unless their threshold has only zeros left to compare with.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn push(&mut self, lanes: &Lanes, equal: __m256i, filled: usize, first_slot: u32) {
        if _mm256_testz_si256(equal, equal) == 1 {
            return;
        }
        let (words, units) = (spill(lanes.words), spill(lanes.units));
        let (thresholds, equal) = (spill(lanes.thresholds), spill(equal));
        for i in 0..filled {
            let at = self.len;
            (self.slots[at], self.equal[at]) = (first_slot + i as u32, equal[i]);
            (self.words[at], self.units[at], self.thresholds[at]) = (words[i], units[i], thresholds[i]);
            let rest = thresholds[i] << (FIRST_DRAWS as u32 * PLANES_PER_DRAW);
            self.len += usize::from(equal[i] != 0 && rest != 0);
        }
    }

    /// Decides up to eight slots from the end of the list.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn settle(&mut self, address: StreamAddress, out: &mut [u64]) {
        let start = self.len.saturating_sub(LANES);
        let count = self.len - start;
        self.len = start;
        // Lanes past the end of the list hold what was there before.
        self.equal[start + count..].fill(0);
        let at = |list: &[u32; 2 * LANES]| match list[start..].first_chunk::<LANES>() {
            Some(block) => load256(block),
            None => _mm256_setzero_si256(),
        };
        let lanes =
            Lanes { words: at(&self.words), units: at(&self.units), thresholds: at(&self.thresholds) };
        let (mut below, mut equal) = (_mm256_setzero_si256(), at(&self.equal));
        for draw in FIRST_DRAWS as u32..DRAWS {
            if _mm256_testz_si256(equal, equal) == 1 {
                break;
            }
            let [planes] = lanes.draw::<1>(draw, address);
            for (plane, m) in planes.into_iter().zip(PLANES_PER_DRAW * draw..) {
                let digit =
                    _mm256_srai_epi32::<31>(_mm256_sll_epi32(lanes.thresholds, _mm_cvtsi32_si128(m as i32)));
                let less = _mm256_and_si256(_mm256_andnot_si256(plane, equal), digit);
                below = _mm256_or_si256(below, less);
                equal = _mm256_andnot_si256(_mm256_xor_si256(plane, digit), equal);
            }
        }
        for (&slot, bits) in self.slots[start..].iter().zip(spill(below)).take(count) {
            add_bits(out, slot, bits);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: u32) -> __m256i {
    _mm256_set1_epi64x(word.into())
}

#[inline]
#[target_feature(enable = "avx2")]
fn spill(v: __m256i) -> [u32; LANES] {
    let mut lanes = [0; LANES];
    store256(&mut lanes, v);
    lanes
}
