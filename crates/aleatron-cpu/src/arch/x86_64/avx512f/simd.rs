//! 512-bit registers of 32-bit lanes.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "an `Avx512f` proves that the machine has the instructions"
)]

use crate::arch::vector::simd::{Lanes, Simd};
use crate::arch::x86_64::memory::{load512, store512};
use std::arch::x86_64::{
    __m512i, _mm_cvtsi32_si128, _mm512_add_epi32, _mm512_and_si512, _mm512_mask_shuffle_epi32,
    _mm512_maskz_compress_epi32, _mm512_mul_epu32, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_sll_epi32, _mm512_slli_epi32, _mm512_srai_epi32, _mm512_srli_epi64,
    _mm512_ternarylogic_epi32, _mm512_test_epi32_mask, _mm512_xor_si512,
};

/// Proof that the machine has AVX-512F and POPCNT.
#[derive(Clone, Copy)]
pub(crate) struct Avx512f(());

impl Avx512f {
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn new() -> Self {
        Self(())
    }
}

// Truth tables of three inputs: bit 4a + 2b + c is the output.
const XOR: i32 = 0x96;
const MAJORITY_OF_NOT_A_B_C: i32 = 0x8e;
const A_AND_B_XNOR_C: i32 = 0x90;

impl Simd for Avx512f {
    type V = __m512i;
    const WORDS: usize = 8;

    #[inline(always)]
    fn load_words(self, words: &[u64]) -> __m512i {
        match words.first_chunk::<8>() {
            Some(block) => unsafe { load512(block) },
            None => self.zero(),
        }
    }

    #[inline(always)]
    fn store_words(self, v: __m512i, words: &mut [u64]) {
        if let Some(block) = words.first_chunk_mut::<8>() {
            unsafe { store512(block, v) }
        }
    }

    #[inline(always)]
    fn zero(self) -> __m512i {
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_xor_si512(a, b) }
    }
}

impl Lanes for Avx512f {
    #[inline(always)]
    fn load(self, lanes: &[u32]) -> __m512i {
        match lanes.first_chunk::<16>() {
            Some(block) => unsafe { load512(block) },
            None => self.zero(),
        }
    }

    #[inline(always)]
    fn store(self, v: __m512i, lanes: &mut [u32]) {
        if let Some(block) = lanes.first_chunk_mut::<16>() {
            unsafe { store512(block, v) }
        }
    }

    #[inline(always)]
    fn splat(self, word: u32) -> __m512i {
        unsafe { _mm512_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    fn times_8(self, v: __m512i) -> __m512i {
        unsafe { _mm512_slli_epi32::<3>(v) }
    }

    #[inline(always)]
    fn digit(self, v: __m512i, m: u32) -> __m512i {
        unsafe { _mm512_srai_epi32::<31>(_mm512_sll_epi32(v, _mm_cvtsi32_si128(m as i32))) }
    }

    #[inline(always)]
    fn less(self, plane: __m512i, below: __m512i, digit: __m512i) -> __m512i {
        unsafe { _mm512_ternarylogic_epi32::<MAJORITY_OF_NOT_A_B_C>(plane, below, digit) }
    }

    #[inline(always)]
    fn same(self, equal: __m512i, plane: __m512i, digit: __m512i) -> __m512i {
        unsafe { _mm512_ternarylogic_epi32::<A_AND_B_XNOR_C>(equal, plane, digit) }
    }

    #[inline(always)]
    fn nonzero(self, v: __m512i) -> u32 {
        unsafe { _mm512_test_epi32_mask(v, v) }.into()
    }

    #[inline(always)]
    fn compress(self, mask: u32, v: __m512i) -> __m512i {
        unsafe { _mm512_maskz_compress_epi32(mask as u16, v) }
    }

    type Counters = [__m512i; 2];
    type Products = [__m512i; 2];

    /// Splits even and odd lanes into the low halves of 64-bit lanes; the high halves are never
    /// read.
    #[inline(always)]
    fn lanes_to_counters(self, lanes: __m512i) -> [__m512i; 2] {
        [lanes, unsafe { _mm512_srli_epi64::<32>(lanes) }]
    }

    #[inline(always)]
    fn pairs_to_counters(self, lanes: __m512i) -> [__m512i; 2] {
        [lanes, lanes]
    }

    #[inline(always)]
    fn counters_to_lanes(self, [a, b]: [__m512i; 2]) -> __m512i {
        unsafe { _mm512_mask_shuffle_epi32::<0b10_10_00_00>(a, 0xaaaa, b) }
    }

    #[inline(always)]
    fn splat_counters(self, word: u32) -> [__m512i; 2] {
        [self.splat(word); 2]
    }

    #[inline(always)]
    fn multiply(self, counters: [__m512i; 2], factors: [__m512i; 2]) -> [__m512i; 2] {
        unsafe {
            [_mm512_mul_epu32(counters[0], factors[0]), _mm512_mul_epu32(counters[1], factors[1])]
        }
    }

    #[inline(always)]
    fn high(self, products: [__m512i; 2]) -> [__m512i; 2] {
        unsafe { [_mm512_srli_epi64::<32>(products[0]), _mm512_srli_epi64::<32>(products[1])] }
    }

    #[inline(always)]
    fn low(self, products: [__m512i; 2]) -> [__m512i; 2] {
        products
    }

    #[inline(always)]
    fn xor_counters(self, a: [__m512i; 2], b: [__m512i; 2]) -> [__m512i; 2] {
        [self.xor(a[0], b[0]), self.xor(a[1], b[1])]
    }

    #[inline(always)]
    fn xor3_counters(self, a: [__m512i; 2], b: [__m512i; 2], c: [__m512i; 2]) -> [__m512i; 2] {
        unsafe {
            [
                _mm512_ternarylogic_epi32::<XOR>(a[0], b[0], c[0]),
                _mm512_ternarylogic_epi32::<XOR>(a[1], b[1], c[1]),
            ]
        }
    }
}
