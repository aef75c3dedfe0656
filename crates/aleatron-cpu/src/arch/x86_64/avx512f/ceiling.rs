//! Peak throughput of 512-bit registers.

use crate::arch::portable::ceiling as portable;
use crate::arch::x86_64::memory::load512;
use std::arch::x86_64::{_mm512_reduce_add_epi64, _mm512_setzero_si512, _mm512_xor_si512};

/// Returns a number that depends on all words, read in eight registers at a time.
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
