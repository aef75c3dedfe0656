//! Packing and unpacking with masks, 64 bytes to a word at once.

use crate::arch::portable::bits as portable;
use crate::arch::x86_64::memory::{load512, store512};
use std::arch::x86_64::{_mm512_maskz_set1_epi8, _mm512_test_epi8_mask};

/// Packs bytes, any byte other than 0 is a 1, 64 to a word; `out` holds `bits.len().div_ceil(64)`
/// words.
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn pack(bits: &[u8], out: &mut [u64]) {
    let (blocks, rest) = bits.as_chunks::<64>();
    let (words, last) = out.split_at_mut(blocks.len());
    for (word, block) in words.iter_mut().zip(blocks) {
        let bytes = load512(block);
        *word = _mm512_test_epi8_mask(bytes, bytes);
    }
    portable::pack(rest, last);
}

/// Unpacks bits to bytes; `words` holds at least `out.len().div_ceil(64)` words.
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn unpack(words: &[u64], out: &mut [u8]) {
    let (blocks, rest) = out.as_chunks_mut::<64>();
    let (full, last) = words.split_at(blocks.len());
    for (&word, block) in full.iter().zip(blocks) {
        store512(block, _mm512_maskz_set1_epi8(word, 1));
    }
    portable::unpack(last, rest);
}
