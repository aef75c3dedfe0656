//! Transposition of squares of bytes and of 16-bit words in 128-bit registers.
#![expect(clippy::undocumented_unsafe_blocks, reason = "every x86-64 processor has SSE2")]

use crate::arch::vector::transpose::Square;
use crate::arch::x86_64::memory::{load128, store128};
use std::arch::x86_64::{
    __m128i, _mm_unpackhi_epi8, _mm_unpackhi_epi16, _mm_unpacklo_epi8, _mm_unpacklo_epi16,
};

/// Transposes with 128-bit registers.
pub(crate) struct Registers;

impl Square<u8, 16> for Registers {
    type Row = __m128i;

    #[inline(always)]
    fn load(row: &[u8; 16]) -> __m128i {
        load128(row)
    }

    #[inline(always)]
    fn store(row: __m128i) -> [u8; 16] {
        let mut bytes = [0; 16];
        store128(&mut bytes, row);
        bytes
    }

    #[inline(always)]
    fn interleave(a: __m128i, b: __m128i) -> [__m128i; 2] {
        unsafe { [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)] }
    }
}

impl Square<i16, 8> for Registers {
    type Row = __m128i;

    #[inline(always)]
    fn load(row: &[i16; 8]) -> __m128i {
        load128(row)
    }

    #[inline(always)]
    fn store(row: __m128i) -> [i16; 8] {
        let mut words = [0; 8];
        store128(&mut words, row);
        words
    }

    #[inline(always)]
    fn interleave(a: __m128i, b: __m128i) -> [__m128i; 2] {
        unsafe { [_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)] }
    }
}
