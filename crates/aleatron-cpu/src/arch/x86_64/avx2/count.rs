//! Counting ones in registers of 256 bits.

use super::simd::Avx2;
use crate::arch::x86_64::harley_seal;

/// Counts the ones of `words`.
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn ones(words: &[u64]) -> u64 {
    harley_seal::ones(Avx2::new(), words)
}

/// Counts the ones that `a` and `b`, of one length, share.
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn and_ones(a: &[u64], b: &[u64]) -> u64 {
    harley_seal::and_ones(Avx2::new(), a, b)
}
