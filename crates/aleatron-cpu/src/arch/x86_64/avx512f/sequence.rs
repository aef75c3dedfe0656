//! Comparison of the integers of a sequence with a threshold, sixteen to a mask.

use crate::arch::portable::sequence as portable;
use crate::arch::x86_64::memory::load512;
use std::arch::x86_64::{_mm512_cmplt_epu32_mask, _mm512_set1_epi32};

/// Sets bit k of a word if `values[k] < threshold`, 64 values to a word; `out` holds
/// `values.len().div_ceil(64)` words.
#[target_feature(enable = "avx512f")]
pub(crate) fn compare(values: &[u32], threshold: u32, out: &mut [u64]) {
    let (blocks, rest) = values.as_chunks::<64>();
    let (words, last) = out.split_at_mut(blocks.len());
    let thresholds = _mm512_set1_epi32(threshold as i32);
    for (word, block) in words.iter_mut().zip(blocks) {
        *word = 0;
        for (i, values) in block.as_chunks::<16>().0.iter().enumerate() {
            *word |= u64::from(_mm512_cmplt_epu32_mask(load512(values), thresholds)) << (16 * i);
        }
    }
    portable::compare(rest, threshold, last);
}
