//! Counting ones with one instruction per word.

use crate::arch::portable::count as portable;

/// Counts the ones of `words`.
#[target_feature(enable = "popcnt")]
pub(crate) fn ones(words: &[u64]) -> u64 {
    portable::ones(words)
}

/// Counts the ones of each stream of `per_stream` words.
#[target_feature(enable = "popcnt")]
pub(crate) fn stream_ones(words: &[u64], per_stream: usize, out: &mut [u64]) {
    portable::stream_ones(words, per_stream, out);
}

/// Counts the ones that `a` and `b`, of one length, share.
#[target_feature(enable = "popcnt")]
pub(crate) fn and_ones(a: &[u64], b: &[u64]) -> u64 {
    portable::and_ones(a, b)
}
