//! Counting ones in registers of 512 bits.

use crate::arch::portable::count as portable;
use crate::arch::x86_64::memory::{load512, load512_partial, prefetch};
use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_popcnt_epi64, _mm512_reduce_add_epi64,
    _mm512_setzero_si512,
};

/// Counts the ones of `words`, in four sums so that no addition waits for the previous one.
/// Prefetching the next lines gains some percent beyond the second-level cache.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(crate) fn ones(words: &[u64]) -> u64 {
    let (blocks, rest) = words.as_chunks::<8>();
    let (quads, blocks) = blocks.as_chunks::<4>();
    let mut sums = [_mm512_setzero_si512(); 4];
    for quad in quads {
        for (sum, block) in sums.iter_mut().zip(quad) {
            prefetch(block, quad.len());
            *sum = _mm512_add_epi64(*sum, _mm512_popcnt_epi64(load512(block)));
        }
    }
    let mut sum =
        _mm512_add_epi64(_mm512_add_epi64(sums[0], sums[1]), _mm512_add_epi64(sums[2], sums[3]));
    for block in blocks {
        sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(load512(block)));
    }
    sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(load512_partial(rest)));
    _mm512_reduce_add_epi64(sum) as u64
}

/// Counts the ones of each stream of `per_stream` words: the portable loop, compiled for these
/// registers.
#[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
pub(crate) fn stream_ones(words: &[u64], per_stream: usize, out: &mut [u64]) {
    portable::stream_ones(words, per_stream, out);
}

/// Counts the ones that `a` and `b`, of one length, share.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(crate) fn and_ones(a: &[u64], b: &[u64]) -> u64 {
    tile([a], [b])[0][0]
}

/// Counts the ones that each of `N` rows shares with each of `S` others, all of one length: `N * S`
/// sums stay in registers, so a loaded block is used for `N` or `S` products.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(crate) fn tile<const N: usize, const S: usize>(
    rows: [&[u64]; N],
    others: [&[u64]; S],
) -> [[u64; S]; N] {
    let len = rows[0].len();
    let (blocks, tail) = (len / 8, len - len % 8);
    let (mut row_blocks, mut other_blocks) = ([&[][..]; N], [&[][..]; S]);
    for (blocked, row) in row_blocks.iter_mut().zip(rows) {
        *blocked = &row.as_chunks::<8>().0[..blocks];
    }
    for (blocked, other) in other_blocks.iter_mut().zip(others) {
        *blocked = &other.as_chunks::<8>().0[..blocks];
    }
    let mut sums = [[_mm512_setzero_si512(); S]; N];
    for i in 0..blocks {
        let mut other = [_mm512_setzero_si512(); S];
        for s in 0..S {
            other[s] = load512(&other_blocks[s][i]);
        }
        for n in 0..N {
            let row = load512(&row_blocks[n][i]);
            for s in 0..S {
                sums[n][s] = add_shared(sums[n][s], row, other[s]);
            }
        }
    }
    if tail < len {
        let mut other = [_mm512_setzero_si512(); S];
        for s in 0..S {
            other[s] = load512_partial(&others[s][tail..]);
        }
        for n in 0..N {
            let row = load512_partial(&rows[n][tail..]);
            for s in 0..S {
                sums[n][s] = add_shared(sums[n][s], row, other[s]);
            }
        }
    }
    let mut counts = [[0; S]; N];
    for n in 0..N {
        for s in 0..S {
            counts[n][s] = _mm512_reduce_add_epi64(sums[n][s]) as u64;
        }
    }
    counts
}

#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(super) fn add_shared(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi64(sum, _mm512_popcnt_epi64(_mm512_and_si512(a, b)))
}
