//! The most 256-bit registers can do.

use super::count;
use super::encode::{Lanes, Philox};
use crate::arch::portable::ceiling as portable;
use crate::arch::x86_64::memory::{load256, store256};
use aleatron_core::StreamAddress;
use std::arch::x86_64::{_mm256_add_epi32, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_xor_si256};
use std::hint::black_box;

/// The XOR of all words, read in eight registers at a time.
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

/// Draws and throws away, a draw of eight words at a time. The compiler must not see what the counters are.
#[target_feature(enable = "avx2")]
pub(crate) fn philox(draws: usize) -> u32 {
    let philox = Philox::new(black_box(StreamAddress::input(1, 2, 3)));
    let (words, units) = black_box(([0u32; 8], [1u32; 8]));
    let zero = _mm256_setzero_si256();
    let mut lanes = Lanes { words: load256(&words), units: load256(&units), thresholds: zero };
    let mut sum = zero;
    for _ in 0..draws / 8 {
        for planes in philox.draw::<1>(&lanes, 0) {
            for plane in planes {
                sum = _mm256_xor_si256(sum, plane);
            }
        }
        lanes.words = _mm256_add_epi32(lanes.words, _mm256_set1_epi32(8));
    }
    let mut words = [0u64; 4];
    store256(&mut words, sum);
    portable::read(&words) as u32
}
