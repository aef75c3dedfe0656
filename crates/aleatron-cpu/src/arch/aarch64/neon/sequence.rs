//! Comparing the integers of a sequence with a threshold, sixteen at a time narrowed to bytes.

use crate::arch::aarch64::memory::load_u32;
use crate::arch::portable::sequence as portable;
use std::arch::aarch64::{
    uint8x16_t, uint16x8_t, uint32x4_t, vandq_u8, vcltq_u32, vdupq_n_u32, vdupq_n_u64,
    vgetq_lane_u64, vpaddq_u8, vreinterpretq_u8_u16, vreinterpretq_u8_u64, vreinterpretq_u16_u32,
    vreinterpretq_u64_u8, vuzp1q_u8, vuzp1q_u16,
};

/// Sets bit k of a word if `values[k] < threshold`, 64 values to a word; `out` holds
/// `values.len().div_ceil(64)` words.
#[target_feature(enable = "neon")]
pub(crate) fn compare(values: &[u32], threshold: u32, out: &mut [u64]) {
    let thresholds = vdupq_n_u32(threshold);
    let (blocks, rest) = values.as_chunks::<64>();
    let (words, last) = out.split_at_mut(blocks.len());
    for (word, block) in words.iter_mut().zip(blocks) {
        let (quarters, _) = block.as_chunks::<16>();
        // Adding neighbours three times gathers eight bits in a byte and preserves the order of
        // bytes.
        let low = vpaddq_u8(bits(&quarters[0], thresholds), bits(&quarters[1], thresholds));
        let high = vpaddq_u8(bits(&quarters[2], thresholds), bits(&quarters[3], thresholds));
        let both = vpaddq_u8(low, high);
        *word = vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(both, both)));
    }
    portable::compare(rest, threshold, last);
}

/// Sets bit k % 8 of byte k if value k is below the threshold.
#[inline]
#[target_feature(enable = "neon")]
fn bits(values: &[u32; 16], thresholds: uint32x4_t) -> uint8x16_t {
    let (registers, _) = values.as_chunks::<4>();
    let half = |i: usize| -> uint16x8_t {
        let low = vcltq_u32(load_u32(&registers[i]), thresholds);
        let high = vcltq_u32(load_u32(&registers[i + 1]), thresholds);
        vuzp1q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high))
    };
    let bytes = vuzp1q_u8(vreinterpretq_u8_u16(half(0)), vreinterpretq_u8_u16(half(2)));
    vandq_u8(bytes, vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201)))
}
