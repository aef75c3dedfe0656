//! The most 512-bit registers can do.

use super::encode::{Lanes, Philox};
use crate::arch::portable::ceiling as portable;
use crate::arch::x86_64::memory::load512;
use aleatron_core::StreamAddress;
use std::arch::x86_64::{
    _mm512_add_epi32, _mm512_reduce_add_epi64, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_xor_si512,
};
use std::hint::black_box;

/// Some number that depends on all words, read in eight registers at a time.
#[target_feature(enable = "avx512f")]
pub(crate) fn read(words: &[u64]) -> u64 {
    let (blocks, rest) = words.as_chunks::<8>();
    let (groups, last) = blocks.as_chunks::<8>();
    let mut sums = [_mm512_setzero_si512(); 8];
    for group in groups {
        for (sum, block) in sums.iter_mut().zip(group) {
            *sum = _mm512_xor_si512(*sum, load512(block));
        }
    }
    let mut total = _mm512_setzero_si512();
    for sum in sums {
        total = _mm512_xor_si512(total, sum);
    }
    for block in last {
        total = _mm512_xor_si512(total, load512(block));
    }
    (_mm512_reduce_add_epi64(total) as u64) ^ portable::read(rest)
}

/// Draws and throws away, two draws of sixteen words at a time. The compiler must not see what the counters are.
#[target_feature(enable = "avx512f")]
pub(crate) fn philox(draws: usize) -> u32 {
    let philox = Philox::new(black_box(StreamAddress::input(1, 2, 3)));
    let (words, units) = black_box(([0u32; 16], [1u32; 16]));
    let mut lanes =
        Lanes { words: load512(&words), units: load512(&units), thresholds: _mm512_setzero_si512() };
    let mut sum = _mm512_setzero_si512();
    for _ in 0..draws / 32 {
        for planes in philox.draw::<2>(&lanes, 0) {
            for plane in planes {
                sum = _mm512_xor_si512(sum, plane);
            }
        }
        lanes.words = _mm512_add_epi32(lanes.words, _mm512_set1_epi32(16));
    }
    _mm512_reduce_add_epi64(sum) as u32
}
