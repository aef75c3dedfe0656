//! The product of one row and a matrix whose columns are contiguous along k, as the weights of
//! layers often do: for the tiles of `kernel.rs` they would have to be copied, which is too slow
//! for one row. Squares of them are transposed in registers instead, so that every element is the
//! same chain as in a tile.

use super::Beta;
use super::kernel::{Four, Kernel, MOST_WIDTH, Vector};

/// The number of floats of each column that are read at a time: a cache line.
const LINE: usize = 16;

/// The column stride, in floats, at which all columns map to one set of the first-level cache.
const CACHE_WAY: isize = 1024;

/// One row and some columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowProduct {
    pub(super) k: usize,
    /// The row, without gaps.
    pub(super) left: *const f32,
    /// The first column, without gaps, and the step to the next.
    pub(super) right: *const f32,
    pub(super) column_step: isize,
    pub(super) columns: usize,
}

/// A vector of columns, read along k.
pub(super) trait Columns: Vector {
    /// Adds [`LINE`] products of each of as many columns as the vector has floats.
    ///
    /// # Safety
    /// `left` and the columns, `step` apart, must be valid for that many floats, and the machine
    /// must have the instructions.
    unsafe fn add_lines(self, left: *const f32, right: *const f32, step: isize) -> Self;
}

impl Columns for Four {
    #[inline(always)]
    unsafe fn add_lines(self, left: *const f32, right: *const f32, step: isize) -> Self {
        // SAFETY: guaranteed by the caller.
        (0..LINE).fold(self, |sum, i| unsafe {
            let y: Self = std::array::from_fn(|j| *right.wrapping_offset(j as isize * step).add(i));
            sum.add_product(Self::splat(*left.add(i)), y)
        })
    }
}

impl Kernel {
    /// Computes a row.
    ///
    /// # Safety
    /// The operands must be valid for k and the columns, and the result for the columns; nothing
    /// else may refer to it.
    pub(super) unsafe fn row(self, row: RowProduct, out: *mut f32, beta: Beta) {
        // SAFETY: guaranteed by the caller; the machine has the tier's instructions.
        unsafe { (self.row)(row, out, beta) };
    }
}

/// # Safety
/// As for [`Kernel::row`].
pub(super) unsafe fn baseline(row: RowProduct, out: *mut f32, beta: Beta) {
    // SAFETY: guaranteed by the caller.
    unsafe { compute::<Four>(row, out, beta) };
}

/// # Safety
/// As for [`Kernel::row`], and the machine must have the vector's instructions.
#[inline(always)]
unsafe fn compute<V: Columns>(row: RowProduct, out: *mut f32, beta: Beta) {
    let mut column = 0;
    while column < row.columns {
        let right = row.right.wrapping_offset(column as isize * row.column_step);
        let (rest, left) = (RowProduct { right, ..row }, row.columns - column);
        // SAFETY: the columns are some of the row's.
        unsafe {
            let out = out.add(column);
            if left >= 2 * V::WIDTH && row.column_step % CACHE_WAY != 0 {
                chains::<V, 2>(rest, 2 * V::WIDTH, out, beta);
                column += 2 * V::WIDTH;
            } else if left >= V::WIDTH {
                chains::<V, 1>(rest, V::WIDTH, out, beta);
                column += V::WIDTH;
            } else {
                // The same column in all lanes.
                chains::<V, 1>(RowProduct { column_step: 0, ..rest }, 1, out, beta);
                column += 1;
            }
        }
    }
}

/// Computes the columns of G vectors, of which `count` are written.
///
/// # Safety
/// As for [`compute`].
#[inline(always)]
unsafe fn chains<V: Columns, const G: usize>(
    row: RowProduct,
    count: usize,
    out: *mut f32,
    beta: Beta,
) {
    let RowProduct { k, left, right, column_step: step, .. } = row;
    // SAFETY: all addresses are of the operands and the result.
    unsafe {
        let mut sums = [V::splat(0.0); G];
        let lines = k / LINE * LINE;
        for i in (0..lines).step_by(LINE) {
            for (g, sum) in sums.iter_mut().enumerate() {
                let right = right.wrapping_offset((g * V::WIDTH) as isize * step);
                *sum = sum.add_lines(left.add(i), right.add(i), step);
            }
        }
        for i in lines..k {
            for (g, sum) in sums.iter_mut().enumerate() {
                let right = right.wrapping_offset((g * V::WIDTH) as isize * step).add(i);
                let mut y = [0.0f32; MOST_WIDTH];
                for (j, y) in y.iter_mut().enumerate().take(V::WIDTH) {
                    *y = *right.wrapping_offset(j as isize * step);
                }
                *sum = sum.add_product(V::splat(*left.add(i)), V::load(y.as_ptr()));
            }
        }
        let mut values = [0.0f32; 2 * MOST_WIDTH];
        for (g, sum) in sums.into_iter().enumerate() {
            sum.store(values.as_mut_ptr().add(g * V::WIDTH));
        }
        let out = std::slice::from_raw_parts_mut(out, count);
        beta.write(&values, out);
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86_64 {
    use std::arch::x86_64::*;

    use super::{Beta, Columns, LINE, RowProduct, Vector, compute};

    impl Columns for __m256 {
        #[inline(always)]
        unsafe fn add_lines(self, left: *const f32, right: *const f32, step: isize) -> Self {
            let mut sum = self;
            for i in (0..LINE).step_by(4) {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    // Columns j and j + 4.
                    let [a, b, c, d] = [0, 1, 2, 3].map(|j: isize| {
                        let low = _mm_loadu_ps(right.wrapping_offset(j * step).add(i));
                        let high = _mm_loadu_ps(right.wrapping_offset((j + 4) * step).add(i));
                        _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
                    });
                    let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
                    let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
                    let y = [
                        _mm256_shuffle_ps::<0x44>(ab, cd),
                        _mm256_shuffle_ps::<0xee>(ab, cd),
                        _mm256_shuffle_ps::<0x44>(ab_high, cd_high),
                        _mm256_shuffle_ps::<0xee>(ab_high, cd_high),
                    ];
                    for (j, y) in y.into_iter().enumerate() {
                        sum = sum.add_product(Self::splat(*left.add(i + j)), y);
                    }
                }
            }
            sum
        }
    }

    /// # Safety
    /// As for `Kernel::row`, and the machine must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(in super::super) unsafe fn fma(row: RowProduct, out: *mut f32, beta: Beta) {
        // SAFETY: guaranteed by the caller.
        unsafe { compute::<__m256>(row, out, beta) };
    }
}
