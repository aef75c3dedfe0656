//! 256-bit registers of 32-bit lanes.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "an `Avx2` proves that the machine has the instructions"
)]

use crate::arch::vector::simd::{Lanes, Simd};
use crate::arch::x86_64::harley_seal::CountOnes;
use crate::arch::x86_64::memory::{load256, store256};
use std::arch::x86_64::{
    __m256i, _mm_cvtsi32_si128, _mm256_add_epi8, _mm256_add_epi32, _mm256_add_epi64,
    _mm256_and_si256, _mm256_andnot_si256, _mm256_blend_epi32, _mm256_castsi256_ps,
    _mm256_cmpeq_epi32, _mm256_movemask_ps, _mm256_mul_epu32, _mm256_or_si256,
    _mm256_permutevar8x32_epi32, _mm256_sad_epu8, _mm256_set1_epi8, _mm256_set1_epi32,
    _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_sll_epi32,
    _mm256_slli_epi32, _mm256_slli_epi64, _mm256_srai_epi32, _mm256_srli_epi16, _mm256_srli_epi64,
    _mm256_xor_si256,
};

/// Proof that the machine has AVX2 and POPCNT.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn new() -> Self {
        Self(())
    }
}

/// For each mask, its lanes, moved to the front.
static COMPRESSED: [[u32; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut lane, mut at) = (0, 0);
        while lane < 8 {
            if mask >> lane & 1 == 1 {
                table[mask][at] = lane;
                at += 1;
            }
            lane += 1;
        }
        mask += 1;
    }
    table
};

impl Simd for Avx2 {
    type V = __m256i;
    const WORDS: usize = 4;

    #[inline(always)]
    fn load_words(self, words: &[u64]) -> __m256i {
        match words.first_chunk::<4>() {
            Some(block) => unsafe { load256(block) },
            None => self.zero(),
        }
    }

    #[inline(always)]
    fn store_words(self, v: __m256i, words: &mut [u64]) {
        if let Some(block) = words.first_chunk_mut::<4>() {
            unsafe { store256(block, v) }
        }
    }

    #[inline(always)]
    fn zero(self) -> __m256i {
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_xor_si256(a, b) }
    }
}

impl Lanes for Avx2 {
    #[inline(always)]
    fn load(self, lanes: &[u32]) -> __m256i {
        match lanes.first_chunk::<8>() {
            Some(block) => unsafe { load256(block) },
            None => self.zero(),
        }
    }

    #[inline(always)]
    fn store(self, v: __m256i, lanes: &mut [u32]) {
        if let Some(block) = lanes.first_chunk_mut::<8>() {
            unsafe { store256(block, v) }
        }
    }

    #[inline(always)]
    fn splat(self, word: u32) -> __m256i {
        unsafe { _mm256_set1_epi32(word as i32) }
    }

    #[inline(always)]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    fn digit(self, v: __m256i, m: u32) -> __m256i {
        unsafe { _mm256_srai_epi32::<31>(_mm256_sll_epi32(v, _mm_cvtsi32_si128(m as i32))) }
    }

    #[inline(always)]
    fn times_8(self, v: __m256i) -> __m256i {
        unsafe { _mm256_slli_epi32::<3>(v) }
    }

    #[inline(always)]
    fn less(self, plane: __m256i, below: __m256i, digit: __m256i) -> __m256i {
        let (either, both) =
            unsafe { (_mm256_or_si256(below, digit), _mm256_and_si256(below, digit)) };
        unsafe { _mm256_or_si256(_mm256_andnot_si256(plane, either), both) }
    }

    #[inline(always)]
    fn same(self, equal: __m256i, plane: __m256i, digit: __m256i) -> __m256i {
        unsafe { _mm256_andnot_si256(_mm256_xor_si256(plane, digit), equal) }
    }

    #[inline(always)]
    fn nonzero(self, v: __m256i) -> u32 {
        let zero = unsafe { _mm256_cmpeq_epi32(v, _mm256_setzero_si256()) };
        unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(zero)) as u32 ^ 0xff }
    }

    #[inline(always)]
    fn compress(self, mask: u32, v: __m256i) -> __m256i {
        let lanes = self.load(&COMPRESSED[mask as usize % 256]);
        unsafe { _mm256_permutevar8x32_epi32(v, lanes) }
    }

    type Counters = [__m256i; 2];
    type Products = [__m256i; 2];

    /// Splits even and odd lanes into the low halves of 64-bit lanes; the high halves are never
    /// read.
    #[inline(always)]
    fn lanes_to_counters(self, lanes: __m256i) -> [__m256i; 2] {
        [lanes, unsafe { _mm256_srli_epi64::<32>(lanes) }]
    }

    #[inline(always)]
    fn pairs_to_counters(self, lanes: __m256i) -> [__m256i; 2] {
        [lanes, lanes]
    }

    #[inline(always)]
    fn counters_to_lanes(self, [a, b]: [__m256i; 2]) -> __m256i {
        unsafe { _mm256_blend_epi32::<0b1010_1010>(a, _mm256_slli_epi64::<32>(b)) }
    }

    #[inline(always)]
    fn splat_counters(self, word: u32) -> [__m256i; 2] {
        [self.splat(word); 2]
    }

    #[inline(always)]
    fn multiply(self, counters: [__m256i; 2], factors: [__m256i; 2]) -> [__m256i; 2] {
        unsafe {
            [_mm256_mul_epu32(counters[0], factors[0]), _mm256_mul_epu32(counters[1], factors[1])]
        }
    }

    #[inline(always)]
    fn high(self, products: [__m256i; 2]) -> [__m256i; 2] {
        unsafe { [_mm256_srli_epi64::<32>(products[0]), _mm256_srli_epi64::<32>(products[1])] }
    }

    #[inline(always)]
    fn low(self, products: [__m256i; 2]) -> [__m256i; 2] {
        products
    }

    #[inline(always)]
    fn xor_counters(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        [self.xor(a[0], b[0]), self.xor(a[1], b[1])]
    }

    #[inline(always)]
    fn xor3_counters(self, a: [__m256i; 2], b: [__m256i; 2], c: [__m256i; 2]) -> [__m256i; 2] {
        self.xor_counters(a, self.xor_counters(b, c))
    }
}

impl CountOnes for Avx2 {
    #[inline(always)]
    fn carry_save(self, a: __m256i, b: __m256i, c: __m256i) -> (__m256i, __m256i) {
        unsafe {
            let differ = _mm256_xor_si256(a, b);
            let carry = _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(differ, c));
            (_mm256_xor_si256(differ, c), carry)
        }
    }

    /// Looks up the counts of nibbles.
    #[inline(always)]
    fn popcount(self, v: __m256i) -> __m256i {
        unsafe {
            let counts = _mm256_setr_epi8(
                0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3,
                2, 3, 3, 4,
            );
            let nibble = _mm256_set1_epi8(0x0f);
            let low = _mm256_shuffle_epi8(counts, _mm256_and_si256(v, nibble));
            let high =
                _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi16::<4>(v), nibble));
            _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256())
        }
    }

    #[inline(always)]
    fn add_words(self, a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_add_epi64(a, b) }
    }

    #[inline(always)]
    fn sum_words(self, v: __m256i) -> u64 {
        let mut lanes = [0u64; 4];
        self.store_words(v, &mut lanes);
        lanes.iter().sum()
    }
}
