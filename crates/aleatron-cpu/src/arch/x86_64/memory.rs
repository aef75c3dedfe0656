//! Loads and stores, which convert pointers for intrinsics. Each takes a reference to exactly the
//! memory it accesses, so each is safe to call wherever its instructions exist.

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_storeu_si128,
    _mm256_loadu_si256, _mm256_storeu_si256, _mm512_loadu_si512, _mm512_maskz_loadu_epi64,
    _mm512_storeu_si512,
};

/// An array of integers that fills a register of `BYTES` bytes.
///
/// # Safety
/// The type is exactly `BYTES` bytes long, all of them initialized, and any bytes make a value of
/// it.
pub(super) unsafe trait Block<const BYTES: usize>: Copy {}

/// Implements [`Block`] for arrays of integers, which have no padding and no invalid values; their
/// size is checked here.
macro_rules! blocks {
    ($($bytes:literal: $($block:ty),+;)+) => {$($(
        const _: () = assert!(size_of::<$block>() == $bytes);
        // SAFETY: an array of integers, of the size asserted above.
        unsafe impl Block<$bytes> for $block {}
    )+)+};
}

blocks! {
    64: [u64; 8], [u32; 16], [u16; 32], [i16; 32], [u8; 64];
    32: [u64; 4], [u32; 8], [i16; 16], [u8; 32];
    16: [i16; 8], [u8; 16];
}

/// Reads a block.
#[inline(always)]
pub(super) fn load128(block: &impl Block<16>) -> __m128i {
    // SAFETY: a block is 16 readable bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(std::ptr::from_ref(block).cast()) }
}

/// Writes a block.
#[inline(always)]
pub(super) fn store128(block: &mut impl Block<16>, value: __m128i) {
    // SAFETY: a block is 16 writable bytes of plain data; the store needs no alignment.
    unsafe { _mm_storeu_si128(std::ptr::from_mut(block).cast(), value) }
}

/// Reads a block.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load512(block: &impl Block<64>) -> __m512i {
    // SAFETY: a block is 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(std::ptr::from_ref(block).cast()) }
}

/// Writes a block.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store512(block: &mut impl Block<64>, value: __m512i) {
    // SAFETY: a block is 64 writable bytes of plain data; the store needs no alignment.
    unsafe { _mm512_storeu_si512(std::ptr::from_mut(block).cast(), value) }
}

/// Prefetches the cache line of a block `blocks` blocks further on, which need not exist.
#[inline(always)]
pub(super) fn prefetch<const BYTES: usize>(block: &impl Block<BYTES>, blocks: usize) {
    let ahead = std::ptr::from_ref(block).wrapping_add(blocks);
    // SAFETY: a prefetch is a hint that never faults, whatever the address; every x86-64 processor
    // has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead.cast()) }
}

/// Reads up to eight words, padded with zeros.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load512_partial(words: &[u64]) -> __m512i {
    let mask = if words.len() >= 8 { u8::MAX } else { (1 << words.len()) - 1 };
    // SAFETY: lanes outside the mask are not read, and the mask covers `words` at most.
    unsafe { _mm512_maskz_loadu_epi64(mask, words.as_ptr().cast()) }
}

/// Reads a block.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load256(block: &impl Block<32>) -> __m256i {
    // SAFETY: a block is 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(std::ptr::from_ref(block).cast()) }
}

/// Writes a block.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store256(block: &mut impl Block<32>, value: __m256i) {
    // SAFETY: a block is 32 writable bytes of plain data; the store needs no alignment.
    unsafe { _mm256_storeu_si256(std::ptr::from_mut(block).cast(), value) }
}
