//! Squares of bytes and of 16-bit words transposed in registers: interleaving the first half of the rows with the second,
//! log2(rows) times, turns rows into columns.

use crate::arch::portable::transpose::Transpose;
use crate::arch::x86_64::memory::{load128, store128};
use std::arch::x86_64::{
    _mm_setzero_si128, _mm_unpackhi_epi8, _mm_unpackhi_epi16, _mm_unpacklo_epi8, _mm_unpacklo_epi16,
};

/// Transposes with 128-bit registers.
pub(crate) struct Registers;

impl Transpose for Registers {
    #[inline(always)]
    fn bytes<const W: usize>(rows: &[[u8; W]; 16], group: usize, column: impl FnMut(usize, [u8; 16])) {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { bytes(rows, group, column) }
    }

    #[inline(always)]
    fn words<const W: usize>(rows: &[[i16; W]; 8], group: usize, column: impl FnMut(usize, [i16; 8])) {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { words(rows, group, column) }
    }
}

/// Defines the transposition of squares of `$n` rows, where `2^$log2` is `$n`.
macro_rules! transpose {
    ($name:ident, $element:ty, $n:literal, $log2:literal, $low:ident, $high:ident) => {
        #[inline]
        #[target_feature(enable = "sse2")]
        fn $name<const W: usize>(
            rows: &[[$element; W]; $n],
            group: usize,
            mut column: impl FnMut(usize, [$element; $n]),
        ) {
            let mut lines = [_mm_setzero_si128(); $n];
            for (line, row) in lines.iter_mut().zip(rows) {
                *line = load128(&row.as_chunks::<$n>().0[group]);
            }
            for _ in 0..$log2 {
                let halves = lines;
                for i in 0..$n / 2 {
                    lines[2 * i] = $low(halves[i], halves[i + $n / 2]);
                    lines[2 * i + 1] = $high(halves[i], halves[i + $n / 2]);
                }
            }
            for (i, line) in lines.into_iter().enumerate() {
                let mut values = [0; $n];
                store128(&mut values, line);
                column(i, values);
            }
        }
    };
}

transpose!(bytes, u8, 16, 4, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
transpose!(words, i16, 8, 3, _mm_unpacklo_epi16, _mm_unpackhi_epi16);
