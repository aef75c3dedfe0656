//! Peak throughput of 256-bit registers.

use super::count;
use crate::arch::portable::ceiling as portable;
use crate::arch::x86_64::memory::{load256, store256};
use std::arch::x86_64::{_mm256_setzero_si256, _mm256_xor_si256};

/// Returns the XOR of all words, read in eight registers at a time.
#[target_feature(enable = "avx2")]
pub(crate) fn read(words: &[u64]) -> u64 {
    let (blocks, rest) = words.as_chunks::<4>();
    let (groups, last) = blocks.as_chunks::<8>();
    let mut sums = [_mm256_setzero_si256(); 8];
    for group in groups {
        for (sum, block) in sums.iter_mut().zip(group) {
            *sum = _mm256_xor_si256(*sum, load256(block));
        }
    }
    let mut total = _mm256_setzero_si256();
    for sum in sums {
        total = _mm256_xor_si256(total, sum);
    }
    for block in last {
        total = _mm256_xor_si256(total, load256(block));
    }
    let mut lanes = [0u64; 4];
    store256(&mut lanes, total);
    portable::read(&lanes) ^ portable::read(rest)
}

/// Counts pairs of words that never leave the first-level cache.
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn count(words: usize) -> u64 {
    portable::count_nothing(words, |a, b| count::and_ones(a, b))
}
