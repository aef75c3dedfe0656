//! Corrections of counts for complemented streams, in registers of 512 bits: one for 32 weight
//! rows.

use crate::arch::portable::signed::LANES;
use crate::arch::x86_64::memory::{load512, store512};
use std::arch::x86_64::{
    __m512i, _mm512_add_epi16, _mm512_and_si512, _mm512_mask_add_epi16, _mm512_movepi16_mask,
    _mm512_set1_epi16, _mm512_setzero_si512,
};

/// Sums the ones of inputs under negative weights.
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn ones_of_negative<const S: usize>(
    values: &[[i16; LANES]],
    ones: [&[i16]; S],
) -> [[i16; LANES]; S] {
    let ones = ones.map(|ones| &ones[..values.len()]);
    let mut sums = [_mm512_setzero_si512(); S];
    for i in 0..values.len() {
        let negative = _mm512_movepi16_mask(load512(&values[i]));
        for s in 0..S {
            sums[s] =
                _mm512_mask_add_epi16(sums[s], negative, sums[s], _mm512_set1_epi16(ones[s][i]));
        }
    }
    stored(sums)
}

/// Sums the same, and the ones of weights under negative inputs.
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn ones_of_either<const S: usize>(
    values: &[[i16; LANES]],
    ones: [&[i16]; S],
    masks: [&[i16]; S],
) -> [[i16; LANES]; S] {
    let [ones, masks] = [ones, masks].map(|rows| rows.map(|row| &row[..values.len()]));
    let mut sums = [_mm512_setzero_si512(); S];
    for i in 0..values.len() {
        let value = load512(&values[i]);
        let negative = _mm512_movepi16_mask(value);
        for s in 0..S {
            let of_weight = _mm512_and_si512(value, _mm512_set1_epi16(masks[s][i]));
            let sum = _mm512_add_epi16(sums[s], of_weight);
            sums[s] = _mm512_mask_add_epi16(sum, negative, sum, _mm512_set1_epi16(ones[s][i]));
        }
    }
    stored(sums)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn stored<const S: usize>(sums: [__m512i; S]) -> [[i16; LANES]; S] {
    let mut out = [[0; LANES]; S];
    for s in 0..S {
        store512(&mut out[s], sums[s]);
    }
    out
}
