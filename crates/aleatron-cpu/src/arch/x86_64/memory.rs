//! Loads, stores and gathers: where intrinsics meet pointers. Each takes a reference to exactly what it touches, so each
//! is safe to call wherever its instructions exist.

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_loadu_si128, _mm_storeu_si128, _mm256_loadu_si256, _mm256_storeu_si256,
    _mm512_loadu_si512, _mm512_maskz_loadu_epi64, _mm512_storeu_si512,
};

/// Plain-data arrays that fill a 512-bit register.
pub(super) trait Block512: Copy {}
impl Block512 for [u64; 8] {}
impl Block512 for [u32; 16] {}
impl Block512 for [u16; 32] {}
impl Block512 for [u8; 64] {}

/// Plain-data arrays that fill a 256-bit register.
pub(super) trait Block256: Copy {}
impl Block256 for [u64; 4] {}
impl Block256 for [u32; 8] {}
impl Block256 for [u8; 32] {}

/// Plain-data arrays that fill a 128-bit register.
pub(super) trait Block128: Copy {}
impl Block128 for [i16; 8] {}
impl Block128 for [u8; 16] {}

/// Reads a block.
#[inline(always)]
pub(super) fn load128(block: &impl Block128) -> __m128i {
    // SAFETY: a block is 16 readable bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(std::ptr::from_ref(block).cast()) }
}

/// Writes a block.
#[inline(always)]
pub(super) fn store128(block: &mut impl Block128, value: __m128i) {
    // SAFETY: a block is 16 writable bytes of plain data; the store needs no alignment.
    unsafe { _mm_storeu_si128(std::ptr::from_mut(block).cast(), value) }
}

/// Reads a block.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load512(block: &impl Block512) -> __m512i {
    // SAFETY: a block is 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(std::ptr::from_ref(block).cast()) }
}

/// Writes a block.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store512(block: &mut impl Block512, value: __m512i) {
    // SAFETY: a block is 64 writable bytes of plain data; the store needs no alignment.
    unsafe { _mm512_storeu_si512(std::ptr::from_mut(block).cast(), value) }
}

/// Reads up to eight words and zeros after them.
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
pub(super) fn load256(block: &impl Block256) -> __m256i {
    // SAFETY: a block is 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(std::ptr::from_ref(block).cast()) }
}

/// Writes a block.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store256(block: &mut impl Block256, value: __m256i) {
    // SAFETY: a block is 32 writable bytes of plain data; the store needs no alignment.
    unsafe { _mm256_storeu_si256(std::ptr::from_mut(block).cast(), value) }
}
