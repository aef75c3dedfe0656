//! Peak throughput of 128-bit registers.

use super::count::add_ones;
use crate::arch::aarch64::memory::{load_u64, store_u64};
use crate::arch::portable::ceiling as portable;
use std::arch::aarch64::{uint64x2_t, vaddlvq_u16, vandq_u64, vdupq_n_u16, vdupq_n_u64, veorq_u64};
use std::arch::asm;

/// Returns the XOR of all words, read in eight registers at a time.
#[target_feature(enable = "neon")]
pub(crate) fn read(words: &[u64]) -> u64 {
    let (blocks, rest) = words.as_chunks::<2>();
    let (groups, last) = blocks.as_chunks::<8>();
    let mut sums = [vdupq_n_u64(0); 8];
    for group in groups {
        for (sum, block) in sums.iter_mut().zip(group) {
            *sum = veorq_u64(*sum, load_u64(block));
        }
    }
    let mut total = vdupq_n_u64(0);
    for sum in sums {
        total = veorq_u64(total, sum);
    }
    let mut lanes = [0; 2];
    store_u64(&mut lanes, total);
    portable::read(&lanes) ^ portable::read(last.as_flattened()) ^ portable::read(rest)
}

/// Number of registers in a trial before its 16-bit sums could overflow.
const ROUND: usize = u16::MAX as usize / 16;

/// ANDs, counts and adds registers that are never loaded: sixteen sums, as in a tile of four by
/// four.
#[target_feature(enable = "neon")]
pub(crate) fn count(words: usize) -> u64 {
    let mut rows = [vdupq_n_u64(0x5555_5555_5555_5555); 4];
    let mut others = [vdupq_n_u64(0x3333_3333_3333_3333); 4];
    for other in &mut others {
        opaque(other);
    }
    let (mut left, mut total) = (words / (2 * 16), 0);
    while left > 0 {
        let mut sums = [[vdupq_n_u16(0); 4]; 4];
        for _ in 0..left.min(ROUND) {
            for (row, sums) in rows.iter_mut().zip(&mut sums) {
                opaque(row);
                for (sum, other) in sums.iter_mut().zip(others) {
                    *sum = add_ones(*sum, vandq_u64(*row, other));
                }
            }
        }
        left -= left.min(ROUND);
        total +=
            sums.as_flattened().iter().fold(0, |total, sum| total + u64::from(vaddlvq_u16(*sum)));
    }
    total
}

/// Makes a register opaque to the compiler, so that it is counted again.
#[inline]
#[target_feature(enable = "neon")]
fn opaque(register: &mut uint64x2_t) {
    // SAFETY: the assembly is empty.
    unsafe {
        asm!("/* {0:v} */", inout(vreg) * register, options(nomem, nostack, preserves_flags))
    };
}
