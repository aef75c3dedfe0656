//! Peak counting throughput of 512-bit registers without a popcount instruction.

use super::count;
use crate::arch::portable::ceiling as portable;

/// Counts pairs of words that never leave the first-level cache.
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
pub(crate) fn count(words: usize) -> u64 {
    portable::count_nothing(words, |a, b| count::and_ones(a, b))
}
