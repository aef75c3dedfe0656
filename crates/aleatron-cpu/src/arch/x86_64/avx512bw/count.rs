//! Counting ones in registers of 512 bits without a popcount instruction.

use super::simd::Avx512bw;
use crate::arch::x86_64::harley_seal;

/// Counts the ones of `words`.
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
pub(crate) fn ones(words: &[u64]) -> u64 {
    harley_seal::ones(Avx512bw::new(), words)
}

/// Counts the ones that `a` and `b`, of one length, share.
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
pub(crate) fn and_ones(a: &[u64], b: &[u64]) -> u64 {
    harley_seal::and_ones(Avx512bw::new(), a, b)
}
