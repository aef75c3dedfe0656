//! Counting ones in registers of 128 bits.
//!
//! The processor counts the ones of each byte, and adds pairs of bytes to sums of 16 bits: two
//! instructions for a register. Carry-save adders, which pay off if counting is costly, would take
//! three.

use crate::arch::aarch64::memory::load_u64;
use crate::arch::portable::count as portable;
use std::arch::aarch64::{
    uint16x8_t, uint64x2_t, vaddlvq_u16, vandq_u64, vcntq_u8, vdupq_n_u16, vdupq_n_u64, vpadalq_u8,
    vreinterpretq_u8_u64,
};

/// Number of words counted in one sum: 2048 registers, each of which adds at most 16 to each of its
/// 16-bit lanes.
const SUM_WORDS: usize = 1 << 12;

/// Number of registers counted in an iteration of the loop, in four sums, so that no addition waits
/// for the previous one.
const UNROLLED: usize = 16;

/// Number of iterations after which four sums are full.
const SUM_BLOCKS: usize = 4 * SUM_WORDS / (2 * UNROLLED);

/// Counts the ones of `words`.
#[target_feature(enable = "neon")]
pub(crate) fn ones(words: &[u64]) -> u64 {
    let (blocks, rest) = words.as_chunks::<{ 2 * UNROLLED }>();
    let mut total = portable::ones(rest);
    for blocks in blocks.chunks(SUM_BLOCKS) {
        let mut sums = [vdupq_n_u16(0); 4];
        for block in blocks {
            for (i, words) in block.as_chunks::<2>().0.iter().enumerate() {
                sums[i % 4] = add_ones(sums[i % 4], load_u64(words));
            }
        }
        total += total_of(&sums);
    }
    total
}

/// Counts the ones that `a` and `b`, of one length, share.
#[target_feature(enable = "neon")]
pub(crate) fn and_ones(a: &[u64], b: &[u64]) -> u64 {
    let (a, a_rest) = a.as_chunks::<{ 2 * UNROLLED }>();
    let (b, b_rest) = b.as_chunks::<{ 2 * UNROLLED }>();
    let mut total = portable::and_ones(a_rest, b_rest);
    for (a, b) in a.chunks(SUM_BLOCKS).zip(b.chunks(SUM_BLOCKS)) {
        let mut sums = [vdupq_n_u16(0); 4];
        for (a, b) in a.iter().zip(b) {
            let words = a.as_chunks::<2>().0.iter().zip(b.as_chunks::<2>().0);
            for (i, (a, b)) in words.enumerate() {
                sums[i % 4] = add_ones(sums[i % 4], vandq_u64(load_u64(a), load_u64(b)));
            }
        }
        total += total_of(&sums);
    }
    total
}

/// Counts the ones that each of `N` rows shares with each of `S` others, all of one length: `N * S`
/// sums stay in registers, so a loaded register is used for `N` or `S` products.
#[target_feature(enable = "neon")]
pub(crate) fn tile<const N: usize, const S: usize>(
    rows: [&[u64]; N],
    others: [&[u64]; S],
) -> [[u64; S]; N] {
    // Few sums leave registers for an unrolled loop, which loads pairs of them.
    if N * S <= 4 { tile_by::<N, S, 16>(rows, others) } else { tile_by::<N, S, 2>(rows, others) }
}

/// Runs [`tile`] with `W` words of each row at a time.
#[inline]
#[target_feature(enable = "neon")]
fn tile_by<const N: usize, const S: usize, const W: usize>(
    rows: [&[u64]; N],
    others: [&[u64]; S],
) -> [[u64; S]; N] {
    let len = rows[0].len();
    let mut counts = [[0; S]; N];
    for start in (0..len).step_by(SUM_WORDS) {
        let words = start..len.min(start + SUM_WORDS);
        let blocks = words.len() / W;
        let (mut row_blocks, mut other_blocks) = ([&[][..]; N], [&[][..]; S]);
        for (blocked, row) in row_blocks.iter_mut().zip(rows) {
            *blocked = &row[words.clone()].as_chunks::<W>().0[..blocks];
        }
        for (blocked, other) in other_blocks.iter_mut().zip(others) {
            *blocked = &other[words.clone()].as_chunks::<W>().0[..blocks];
        }
        let mut sums = [[vdupq_n_u16(0); S]; N];
        for i in 0..blocks {
            for k in 0..W / 2 {
                let mut other = [vdupq_n_u64(0); S];
                for s in 0..S {
                    other[s] = load_u64(&other_blocks[s][i].as_chunks().0[k]);
                }
                for n in 0..N {
                    let row = load_u64(&row_blocks[n][i].as_chunks().0[k]);
                    for s in 0..S {
                        sums[n][s] = add_ones(sums[n][s], vandq_u64(row, other[s]));
                    }
                }
            }
        }
        for n in 0..N {
            for s in 0..S {
                counts[n][s] += u64::from(vaddlvq_u16(sums[n][s]));
            }
        }
    }
    for last in len - len % W..len {
        for n in 0..N {
            for s in 0..S {
                counts[n][s] += u64::from((rows[n][last] & others[s][last]).count_ones());
            }
        }
    }
    counts
}

/// Returns the total of all sums.
#[inline]
#[target_feature(enable = "neon")]
fn total_of(sums: &[uint16x8_t]) -> u64 {
    sums.iter().fold(0, |total, &sum| total + u64::from(vaddlvq_u16(sum)))
}

/// Adds the ones of a register to a sum.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn add_ones(sum: uint16x8_t, words: uint64x2_t) -> uint16x8_t {
    vpadalq_u8(sum, vcntq_u8(vreinterpretq_u8_u64(words)))
}
