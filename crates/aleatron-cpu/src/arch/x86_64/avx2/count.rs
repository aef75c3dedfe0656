//! Counting ones in registers of 256 bits.

use crate::arch::portable::count as portable;
use crate::arch::x86_64::harley_seal::harley_seal;
use crate::arch::x86_64::memory::{load256 as load, store256};
use std::arch::x86_64::{
    __m256i, _mm256_add_epi8, _mm256_add_epi64, _mm256_and_si256, _mm256_or_si256, _mm256_sad_epu8,
    _mm256_set1_epi8, _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
    _mm256_xor_si256,
};

harley_seal!("avx2,popcnt", __m256i, 4);

#[inline]
#[target_feature(enable = "avx2")]
fn zero() -> __m256i {
    _mm256_setzero_si256()
}

#[inline]
#[target_feature(enable = "avx2")]
fn and(a: __m256i, b: __m256i) -> __m256i {
    _mm256_and_si256(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(a: __m256i, b: __m256i) -> __m256i {
    _mm256_add_epi64(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
fn double(a: __m256i) -> __m256i {
    _mm256_add_epi64(a, a)
}

#[inline]
#[target_feature(enable = "avx2")]
fn carry_save(a: __m256i, b: __m256i, c: __m256i) -> (__m256i, __m256i) {
    let differ = _mm256_xor_si256(a, b);
    let carry = _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(differ, c));
    (_mm256_xor_si256(differ, c), carry)
}

/// Ones per 64-bit lane, by looking up the counts of nibbles.
#[inline]
#[target_feature(enable = "avx2")]
fn popcount(v: __m256i) -> __m256i {
    let counts = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    );
    let nibble = _mm256_set1_epi8(0x0f);
    let low = _mm256_shuffle_epi8(counts, _mm256_and_si256(v, nibble));
    let high = _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi16::<4>(v), nibble));
    _mm256_sad_epu8(_mm256_add_epi8(low, high), zero())
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum_lanes(v: __m256i) -> u64 {
    let mut lanes = [0u64; 4];
    store256(&mut lanes, v);
    lanes.iter().sum()
}
