//! Peak counting throughput of 512-bit registers.

use super::count::add_shared;
use std::arch::asm;
use std::arch::x86_64::{
    __m512i, _mm512_reduce_add_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
};

/// ANDs, counts and adds registers that are never loaded: sixteen sums, as in a tile of four by
/// four.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
pub(crate) fn count(words: usize) -> u64 {
    let mut rows = [_mm512_set1_epi64(0x5555_5555_5555_5555); 4];
    let mut others = [_mm512_set1_epi64(0x3333_3333_3333_3333); 4];
    for other in &mut others {
        opaque(other);
    }
    let mut sums = [[_mm512_setzero_si512(); 4]; 4];
    for _ in 0..words / (8 * 16) {
        for (row, sums) in rows.iter_mut().zip(&mut sums) {
            opaque(row);
            for (sum, other) in sums.iter_mut().zip(others) {
                *sum = add_shared(*sum, *row, other);
            }
        }
    }
    let mut total = 0u64;
    for sum in sums.as_flattened() {
        total = total.wrapping_add(_mm512_reduce_add_epi64(*sum) as u64);
    }
    total
}

/// Makes a register opaque to the compiler, so that it is counted again.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(register: &mut __m512i) {
    // SAFETY: the assembly is empty.
    unsafe {
        asm!("/* {0} */", inout(zmm_reg) * register, options(nomem, nostack, preserves_flags))
    };
}
