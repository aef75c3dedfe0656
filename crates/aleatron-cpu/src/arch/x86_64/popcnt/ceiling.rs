//! Peak counting throughput of one `popcnt` per word.

use super::count;
use crate::arch::portable::ceiling as portable;

/// Counts pairs of words that never leave the first-level cache.
#[target_feature(enable = "popcnt")]
pub(crate) fn count(words: usize) -> u64 {
    portable::count_nothing(words, |a, b| count::and_ones(a, b))
}
