//! Corrections of counts for complemented streams, in registers of 256 bits: two of them for 32
//! weight rows.

use crate::arch::portable::signed::LANES;
use crate::arch::x86_64::memory::{load256, store256};
use std::arch::x86_64::{
    __m256i, _mm256_add_epi16, _mm256_and_si256, _mm256_set1_epi16, _mm256_setzero_si256,
    _mm256_srai_epi16,
};

/// Lanes of a register.
const HALF: usize = LANES / 2;

/// Sums the ones of inputs under negative weights.
#[target_feature(enable = "avx2")]
pub(crate) fn ones_of_negative<const S: usize>(
    values: &[[i16; LANES]],
    ones: [&[i16]; S],
) -> [[i16; LANES]; S] {
    let ones = ones.map(|ones| &ones[..values.len()]);
    let mut sums = [[_mm256_setzero_si256(); 2]; S];
    for i in 0..values.len() {
        let [low, high] = halves(&values[i]);
        let negative = [_mm256_srai_epi16::<15>(low), _mm256_srai_epi16::<15>(high)];
        for s in 0..S {
            let ones = _mm256_set1_epi16(ones[s][i]);
            for h in 0..2 {
                sums[s][h] = _mm256_add_epi16(sums[s][h], _mm256_and_si256(ones, negative[h]));
            }
        }
    }
    stored(sums)
}

/// Sums the same, and the ones of weights under negative inputs.
#[target_feature(enable = "avx2")]
pub(crate) fn ones_of_either<const S: usize>(
    values: &[[i16; LANES]],
    ones: [&[i16]; S],
    masks: [&[i16]; S],
) -> [[i16; LANES]; S] {
    let [ones, masks] = [ones, masks].map(|rows| rows.map(|row| &row[..values.len()]));
    let mut sums = [[_mm256_setzero_si256(); 2]; S];
    for i in 0..values.len() {
        let value = halves(&values[i]);
        let negative = [_mm256_srai_epi16::<15>(value[0]), _mm256_srai_epi16::<15>(value[1])];
        for s in 0..S {
            let (ones, mask) = (_mm256_set1_epi16(ones[s][i]), _mm256_set1_epi16(masks[s][i]));
            for h in 0..2 {
                let sum = _mm256_add_epi16(sums[s][h], _mm256_and_si256(value[h], mask));
                sums[s][h] = _mm256_add_epi16(sum, _mm256_and_si256(ones, negative[h]));
            }
        }
    }
    stored(sums)
}

#[inline]
#[target_feature(enable = "avx2")]
fn halves(values: &[i16; LANES]) -> [__m256i; 2] {
    let (halves, _) = values.as_chunks::<HALF>();
    [load256(&halves[0]), load256(&halves[1])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn stored<const S: usize>(sums: [[__m256i; 2]; S]) -> [[i16; LANES]; S] {
    let mut out = [[0; LANES]; S];
    for s in 0..S {
        let (halves, _) = out[s].as_chunks_mut::<HALF>();
        store256(&mut halves[0], sums[s][0]);
        store256(&mut halves[1], sums[s][1]);
    }
    out
}
