//! Peak throughput of plain Rust.

use super::count;
use aleatron_core::philox::philox4x32;

/// Returns the XOR of all words.
pub(crate) fn read(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum ^ word)
}

/// Counts pairs of words that never leave the first-level cache.
pub(crate) fn count_nothing(words: usize, and_ones: impl Fn(&[u64], &[u64]) -> u64) -> u64 {
    let (a, b) = ([0x5555_5555_5555_5555; 512], [0x3333_3333_3333_3333; 512]);
    let blocks = words.div_ceil(a.len());
    (0..blocks).map(|_| and_ones(std::hint::black_box(&a), std::hint::black_box(&b))).sum()
}

/// Runs [`count_nothing`] with this module's counting.
pub(crate) fn count(words: usize) -> u64 {
    count_nothing(words, count::and_ones)
}

/// Draws and discards random words.
pub(crate) fn philox(draws: usize) -> u32 {
    (0..draws as u32)
        .fold(0, |sum, i| sum ^ philox4x32([i, 0, 0, 0], [1, 2]).into_iter().fold(0, |a, b| a ^ b))
}
