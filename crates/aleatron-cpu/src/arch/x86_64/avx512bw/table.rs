//! Count look-up in a row held in registers.
//!
//! A row for 8-bit thresholds has 256 entries of 16 bits, eight registers, and one more for the
//! stream of ones. A permutation of two registers looks 32 thresholds up by their low six bits; the
//! bits above select among the four results.

use crate::arch::portable::table as portable;
use crate::arch::x86_64::memory::{load512, store512};
use std::arch::x86_64::{
    __m512i, _mm512_add_epi16, _mm512_castsi256_si512, _mm512_cvtepi32_epi16, _mm512_inserti64x4,
    _mm512_mask_add_epi16, _mm512_mask_blend_epi16, _mm512_mask_sub_epi16, _mm512_movepi16_mask,
    _mm512_permutex2var_epi16, _mm512_set1_epi16, _mm512_setzero_si512, _mm512_test_epi16_mask,
};

/// Number of entries of a row: one for each 8-bit threshold, and one for 2^8.
pub(super) const ENTRIES: usize = 257;

/// Number of thresholds looked up together.
pub(super) const LANES: usize = 32;

/// Adds `rows[k][thresholds[k][j]]` for every `k` to each `sums[j]`.
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn look_up(rows: [&[u32]; 4], thresholds: [&[u16]; 4], sums: &mut [u16]) {
    let Some(registers) = narrow(rows) else {
        return portable::look_up(rows, thresholds, sums);
    };
    let (blocks, _) = sums.as_chunks_mut::<LANES>();
    let whole = blocks.len() * LANES;
    for (row, thresholds) in registers.into_iter().zip(thresholds) {
        let row = Row::new(row);
        for (sums, thresholds) in blocks.iter_mut().zip(thresholds.as_chunks::<LANES>().0) {
            let sum = _mm512_add_epi16(load512(sums), row.look_up(load512(thresholds)));
            store512(sums, sum);
        }
    }
    portable::look_up(rows, thresholds.map(|thresholds| &thresholds[whole..]), &mut sums[whole..]);
}

/// Looks up as [`look_up`], and subtracts the entries of thresholds whose highest bit is set.
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn look_up_signed(rows: [&[u32]; 4], thresholds: [&[u16]; 4], sums: &mut [u16]) {
    let Some(registers) = narrow(rows) else {
        return portable::look_up_signed(rows, thresholds, sums);
    };
    let (blocks, _) = sums.as_chunks_mut::<LANES>();
    let whole = blocks.len() * LANES;
    for (row, thresholds) in registers.into_iter().zip(thresholds) {
        let row = Row::new(row);
        for (sums, thresholds) in blocks.iter_mut().zip(thresholds.as_chunks::<LANES>().0) {
            let (sum, thresholds) = (load512(sums), load512(thresholds));
            let (entry, negative) = (row.look_up(thresholds), _mm512_movepi16_mask(thresholds));
            let sum = _mm512_mask_add_epi16(sum, !negative, sum, entry);
            store512(sums, _mm512_mask_sub_epi16(sum, negative, sum, entry));
        }
    }
    portable::look_up_signed(
        rows,
        thresholds.map(|thresholds| &thresholds[whole..]),
        &mut sums[whole..],
    );
}

/// Returns the rows as arrays that fit registers; `None` for wider or narrower sequences.
fn narrow(rows: [&[u32]; 4]) -> Option<[&[u32; ENTRIES]; 4]> {
    let [a, b, c, d] = rows.map(|row| <&[u32; ENTRIES]>::try_from(row).ok());
    Some([a?, b?, c?, d?])
}

/// A row in registers.
pub(super) struct Row {
    entries: [__m512i; 8],
    last: __m512i,
}

impl Row {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new(row: &[u32; ENTRIES]) -> Self {
        let mut entries = [_mm512_setzero_si512(); 8];
        for (entries, [low, high]) in
            entries.iter_mut().zip(row.as_chunks::<16>().0.as_chunks::<2>().0)
        {
            let (low, high) =
                (_mm512_cvtepi32_epi16(load512(low)), _mm512_cvtepi32_epi16(load512(high)));
            *entries = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        }
        Self { entries, last: _mm512_set1_epi16(row[ENTRIES - 1] as i16) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn from_narrow(row: &[u16; ENTRIES]) -> Self {
        let mut entries = [_mm512_setzero_si512(); 8];
        for (entries, row) in entries.iter_mut().zip(row.as_chunks::<LANES>().0) {
            *entries = load512(row);
        }
        Self { entries, last: _mm512_set1_epi16(row[ENTRIES - 1] as i16) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn look_up(&self, thresholds: __m512i) -> __m512i {
        let bit = |value: i16| _mm512_test_epi16_mask(thresholds, _mm512_set1_epi16(value));
        let of = |k: usize| {
            _mm512_permutex2var_epi16(self.entries[2 * k], thresholds, self.entries[2 * k + 1])
        };
        let (sixth, seventh, eighth) = (bit(1 << 6), bit(1 << 7), bit(1 << 8));
        let low = _mm512_mask_blend_epi16(sixth, of(0), of(1));
        let high = _mm512_mask_blend_epi16(sixth, of(2), of(3));
        _mm512_mask_blend_epi16(eighth, _mm512_mask_blend_epi16(seventh, low, high), self.last)
    }
}
