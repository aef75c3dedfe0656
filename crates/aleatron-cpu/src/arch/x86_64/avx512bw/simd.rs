//! 512-bit registers of bytes.
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "an `Avx512bw` proves that the machine has the instructions"
)]

use crate::arch::vector::simd::Simd;
use crate::arch::x86_64::harley_seal::CountOnes;
use crate::arch::x86_64::memory::{load512, store512};
use std::arch::x86_64::{
    __m512i, _mm_setr_epi8, _mm512_add_epi8, _mm512_add_epi64, _mm512_and_si512,
    _mm512_broadcast_i32x4, _mm512_reduce_add_epi64, _mm512_sad_epu8, _mm512_set1_epi8,
    _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_srli_epi16, _mm512_ternarylogic_epi64,
    _mm512_xor_si512,
};

/// Proof that the machine has AVX-512F, AVX-512BW and POPCNT.
#[derive(Clone, Copy)]
pub(crate) struct Avx512bw(());

impl Avx512bw {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,popcnt")]
    pub(super) fn new() -> Self {
        Self(())
    }
}

impl Simd for Avx512bw {
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

impl CountOnes for Avx512bw {
    /// Computes two truth tables: the parity and the majority of three bits. The instruction
    /// overwrites its first operand, which is therefore the running sum.
    #[inline(always)]
    fn carry_save(self, a: __m512i, b: __m512i, c: __m512i) -> (__m512i, __m512i) {
        unsafe {
            (_mm512_ternarylogic_epi64::<0x96>(c, a, b), _mm512_ternarylogic_epi64::<0xe8>(c, a, b))
        }
    }

    /// Looks up the counts of nibbles.
    #[inline(always)]
    fn popcount(self, v: __m512i) -> __m512i {
        unsafe {
            let counts = _mm512_broadcast_i32x4(_mm_setr_epi8(
                0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
            ));
            let nibble = _mm512_set1_epi8(0x0f);
            let low = _mm512_shuffle_epi8(counts, _mm512_and_si512(v, nibble));
            let high =
                _mm512_shuffle_epi8(counts, _mm512_and_si512(_mm512_srli_epi16::<4>(v), nibble));
            _mm512_sad_epu8(_mm512_add_epi8(low, high), _mm512_setzero_si512())
        }
    }

    #[inline(always)]
    fn add_words(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi64(a, b) }
    }

    #[inline(always)]
    fn sum_words(self, v: __m512i) -> u64 {
        unsafe { _mm512_reduce_add_epi64(v) as u64 }
    }
}
