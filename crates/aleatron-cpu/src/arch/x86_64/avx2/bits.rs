//! Packing and unpacking with comparisons of bytes.

use crate::arch::portable::bits as portable;
use crate::arch::x86_64::memory::{load256, store256};
use std::arch::x86_64::{
    _mm256_and_si256, _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_setr_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8,
};

/// Packs bytes, any byte other than 0 is a 1, 64 to a word; `out` holds `bits.len().div_ceil(64)`
/// words.
#[target_feature(enable = "avx2")]
pub(crate) fn pack(bits: &[u8], out: &mut [u64]) {
    let (blocks, rest) = bits.as_chunks::<64>();
    let (words, last) = out.split_at_mut(blocks.len());
    for (word, block) in words.iter_mut().zip(blocks) {
        let (halves, _) = block.as_chunks::<32>();
        let zeros = |half: &[u8; 32]| {
            let zero = _mm256_cmpeq_epi8(load256(half), _mm256_setzero_si256());
            u64::from(_mm256_movemask_epi8(zero) as u32)
        };
        *word = !(zeros(&halves[0]) | zeros(&halves[1]) << 32);
    }
    portable::pack(rest, last);
}

/// Unpacks bits to bytes; `words` holds at least `out.len().div_ceil(64)` words.
#[target_feature(enable = "avx2")]
pub(crate) fn unpack(words: &[u64], out: &mut [u8]) {
    // Byte k of a register gets byte k / 8 of the 32 bits, and keeps bit k % 8 of it.
    let source =
        _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let one = _mm256_set1_epi8(1);
    let (blocks, rest) = out.as_chunks_mut::<64>();
    let (full, last) = words.split_at(blocks.len());
    for (&word, block) in full.iter().zip(blocks) {
        let (halves, _) = block.as_chunks_mut::<32>();
        for (half, bits) in halves.iter_mut().zip([word as i32, (word >> 32) as i32]) {
            let spread = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), source);
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
            store256(half, _mm256_and_si256(set, one));
        }
    }
    portable::unpack(last, rest);
}
