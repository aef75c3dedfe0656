//! Packing and unpacking with comparisons of bytes, sixteen at a time.

use crate::arch::aarch64::memory::{load_u8, store_u8};
use crate::arch::portable::bits as portable;
use std::arch::aarch64::{
    vandq_u8, vdupq_n_u8, vdupq_n_u64, vgetq_lane_u64, vpaddq_u8, vqtbl1q_u8, vreinterpretq_u8_u64,
    vreinterpretq_u64_u8, vtstq_u8,
};

/// Bit k in byte k.
const BITS: u64 = 0x8040_2010_0804_0201;

/// Packs bytes, any byte other than 0 is a 1, 64 to a word; `out` holds `bits.len().div_ceil(64)`
/// words.
#[target_feature(enable = "neon")]
pub(crate) fn pack(bits: &[u8], out: &mut [u64]) {
    let bit = vreinterpretq_u8_u64(vdupq_n_u64(BITS));
    let (blocks, rest) = bits.as_chunks::<64>();
    let (words, last) = out.split_at_mut(blocks.len());
    for (word, block) in words.iter_mut().zip(blocks) {
        let (quarters, _) = block.as_chunks::<16>();
        let mut ones = [bit; 4];
        for (ones, quarter) in ones.iter_mut().zip(quarters) {
            let bytes = load_u8(quarter);
            *ones = vandq_u8(vtstq_u8(bytes, bytes), bit);
        }
        // Adding neighbours three times gathers eight bits in a byte and preserves the order of
        // bytes.
        let (low, high) = (vpaddq_u8(ones[0], ones[1]), vpaddq_u8(ones[2], ones[3]));
        let both = vpaddq_u8(low, high);
        *word = vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(both, both)));
    }
    portable::pack(rest, last);
}

/// Unpacks bits to bytes; `words` holds at least `out.len().div_ceil(64)` words.
#[target_feature(enable = "neon")]
pub(crate) fn unpack(words: &[u64], out: &mut [u8]) {
    let bit = vreinterpretq_u8_u64(vdupq_n_u64(BITS));
    let one = vdupq_n_u8(1);
    // Byte k of quarter q gets byte 2 q + k / 8 of the word, and keeps bit k % 8 of it.
    let sources: [[u8; 16]; 4] =
        std::array::from_fn(|q| std::array::from_fn(|k| (2 * q + k / 8) as u8));
    let mut source = [bit; 4];
    for (register, bytes) in source.iter_mut().zip(&sources) {
        *register = load_u8(bytes);
    }
    let (blocks, rest) = out.as_chunks_mut::<64>();
    let (full, last) = words.split_at(blocks.len());
    for (&word, block) in full.iter().zip(blocks) {
        let word = vreinterpretq_u8_u64(vdupq_n_u64(word));
        let (quarters, _) = block.as_chunks_mut::<16>();
        for (quarter, source) in quarters.iter_mut().zip(source) {
            let set = vtstq_u8(vqtbl1q_u8(word, source), bit);
            store_u8(quarter, vandq_u8(set, one));
        }
    }
    portable::unpack(last, rest);
}
