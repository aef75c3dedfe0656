//! Comparison of the integers of a sequence with a threshold, packed to bytes whose highest bits
//! are gathered.

use crate::arch::portable::sequence as portable;
use crate::arch::x86_64::memory::load256;
use std::arch::x86_64::{
    __m256i, _mm256_cmpeq_epi32, _mm256_min_epu32, _mm256_movemask_epi8, _mm256_packs_epi16,
    _mm256_packs_epi32, _mm256_permutevar8x32_epi32, _mm256_set1_epi32, _mm256_setr_epi32,
};

/// Sets bit k of a word if `values[k] < threshold`, 64 values to a word; `out` holds
/// `values.len().div_ceil(64)` words.
#[target_feature(enable = "avx2")]
pub(crate) fn compare(values: &[u32], threshold: u32, out: &mut [u64]) {
    // There is no comparison of unsigned integers, but a value is below the threshold if it is its
    // own minimum with the greatest integer below the threshold.
    let Some(greatest) = threshold.checked_sub(1) else { return out.fill(0) };
    let greatest = _mm256_set1_epi32(greatest as i32);
    let (blocks, rest) = values.as_chunks::<64>();
    let (words, last) = out.split_at_mut(blocks.len());
    for (word, block) in words.iter_mut().zip(blocks) {
        let (halves, _) = block.as_chunks::<32>();
        let [low, high] = [half(&halves[0], greatest), half(&halves[1], greatest)];
        *word = u64::from(low) | u64::from(high) << 32;
    }
    portable::compare(rest, threshold, last);
}

/// Returns a bit for each of 32 values, 1 if it is at most `greatest`.
#[inline]
#[target_feature(enable = "avx2")]
fn half(values: &[u32; 32], greatest: __m256i) -> u32 {
    let (registers, _) = values.as_chunks::<8>();
    let below = |i: usize| {
        let values = load256(&registers[i]);
        _mm256_cmpeq_epi32(_mm256_min_epu32(values, greatest), values)
    };
    let words = [_mm256_packs_epi32(below(0), below(1)), _mm256_packs_epi32(below(2), below(3))];
    // Packing works on each half of a register separately: it leaves groups of four values in the
    // order 0 2 4 6 1 3 5 7.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words[0], words[1]), order);
    _mm256_movemask_epi8(bytes) as u32
}
