//! Counting ones in registers of 512 bits, without a popcount of their own.

use crate::arch::portable::count as portable;
use crate::arch::x86_64::harley_seal::harley_seal;
use crate::arch::x86_64::memory::load512 as load;
use std::arch::x86_64::{
    __m512i, _mm_setr_epi8, _mm512_add_epi8, _mm512_add_epi64, _mm512_and_si512, _mm512_broadcast_i32x4,
    _mm512_reduce_add_epi64, _mm512_sad_epu8, _mm512_set1_epi8, _mm512_setzero_si512, _mm512_shuffle_epi8,
    _mm512_srli_epi16, _mm512_ternarylogic_epi64,
};

harley_seal!("avx512f,avx512bw,popcnt", __m512i, 8);

#[inline]
#[target_feature(enable = "avx512f")]
fn zero() -> __m512i {
    _mm512_setzero_si512()
}

#[inline]
#[target_feature(enable = "avx512f")]
fn and(a: __m512i, b: __m512i) -> __m512i {
    _mm512_and_si512(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi64(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn double(a: __m512i) -> __m512i {
    _mm512_add_epi64(a, a)
}

/// Two truth tables: the parity and the majority of three bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn carry_save(a: __m512i, b: __m512i, c: __m512i) -> (__m512i, __m512i) {
    (_mm512_ternarylogic_epi64::<0x96>(a, b, c), _mm512_ternarylogic_epi64::<0xe8>(a, b, c))
}

/// Ones per 64-bit lane, by looking up the counts of nibbles.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn popcount(v: __m512i) -> __m512i {
    let counts = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    let nibble = _mm512_set1_epi8(0x0f);
    let low = _mm512_shuffle_epi8(counts, _mm512_and_si512(v, nibble));
    let high = _mm512_shuffle_epi8(counts, _mm512_and_si512(_mm512_srli_epi16::<4>(v), nibble));
    _mm512_sad_epu8(_mm512_add_epi8(low, high), zero())
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sum_lanes(v: __m512i) -> u64 {
    _mm512_reduce_add_epi64(v) as u64
}
