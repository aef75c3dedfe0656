//! Products of matrices of 32-bit floats.
//!
//! An element of a product is a sum of chains of 256 multiplications and additions, in the order of
//! k, for any sizes, strides of the operands and tile (`gemm/kernel.rs`). So it depends on its row
//! and its column alone, however threads divide either. The crate `matrixmultiply` (0.3.11) gives
//! the same bits, but takes 1.1 of the time at 1024 and 3 times as long for 8 rows; the crate
//! `gemm` (0.19) is as fast at 1024, but chooses its blocks and the order of sums by the sizes and
//! the steps. Unsafe code: the loops, which take pointers and trust their steps.
#![allow(unsafe_code)]

mod blocks;
mod kernel;
mod pack;
mod row;

use blocks::{Operand, Out};
use kernel::Kernel;

use super::simd::add_dots;
use crate::error::{Error, Result};

/// A matrix inside a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) offset: usize,
    pub(crate) row_step: isize,
    pub(crate) column_step: isize,
}

impl Matrix<'_> {
    /// Returns the submatrix from a row on.
    pub(crate) fn at_row(self, row: usize) -> Self {
        Self { offset: (self.offset as isize + row as isize * self.row_step) as usize, ..self }
    }

    /// Returns the submatrix from a column on.
    pub(crate) fn at_column(self, column: usize) -> Self {
        self.t().at_row(column).t()
    }

    /// Returns the transposed matrix.
    pub(crate) fn t(self) -> Self {
        Self { row_step: self.column_step, column_step: self.row_step, ..self }
    }

    /// Checks that a matrix of these sizes lies inside the slice.
    fn check(self, rows: usize, columns: usize) -> Result<()> {
        let [mut low, mut high] = [self.offset as i128; 2];
        for (size, step) in [(rows, self.row_step), (columns, self.column_step)] {
            let reach = (size as i128 - 1) * step as i128;
            if reach < 0 { low += reach } else { high += reach }
        }
        if low >= 0 && high < self.data.len() as i128 {
            return Ok(());
        }
        Err(Error::argument("matmul", "layout", (rows, columns), "it reaches outside its storage"))
    }
}

/// Whether a product replaces the result or is added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beta {
    /// The product replaces the result.
    Overwrite,
    /// The product is added to the result.
    Accumulate,
}

impl Beta {
    /// Writes sums to elements of the result.
    fn write(self, sums: &[f32], out: &mut [f32]) {
        match self {
            Self::Overwrite => out.iter_mut().zip(sums).for_each(|(out, &sum)| *out = sum),
            Self::Accumulate => out.iter_mut().zip(sums).for_each(|(out, &sum)| *out += sum),
        }
    }
}

/// Multiplies an m x k and a k x n matrix, with rows `out_step` apart in `out`.
pub(crate) fn gemm(
    [m, k, n]: [usize; 3],
    left: Matrix<'_>,
    right: Matrix<'_>,
    beta: Beta,
    out: &mut [f32],
    out_step: usize,
) -> Result<()> {
    if m == 0 || n == 0 {
        return Ok(());
    }
    let last = (m - 1) as u128 * out_step as u128 + n as u128;
    if last > out.len() as u128 || (m > 1 && out_step < n) {
        return Err(Error::argument(
            "matmul",
            "rows of the result",
            (m, n, out_step),
            "they do not fit",
        ));
    }
    if k == 0 {
        if beta == Beta::Overwrite {
            out.chunks_mut(out_step.max(1)).take(m).for_each(|row| row[..n].fill(0.0));
        }
        return Ok(());
    }
    left.check(m, k)?;
    right.check(k, n)?;
    // SAFETY: both operands lie inside their slices for all rows and columns, as was checked; the
    // rows of the result lie in `out` one behind the other without overlap.
    unsafe {
        call([m, k, n], left, right, Out { start: out.as_mut_ptr(), row_step: out_step, beta })
    }
}

/// # Safety
/// The operands must lie inside their slices for all rows and columns, and the result must be valid
/// for m rows of n elements that nothing else refers to.
unsafe fn call(sizes: [usize; 3], left: Matrix<'_>, right: Matrix<'_>, out: Out) -> Result<()> {
    let [left, right] = [left, right].map(|matrix| Operand {
        start: matrix.data.as_ptr().wrapping_add(matrix.offset),
        row_step: matrix.row_step,
        column_step: matrix.column_step,
    });
    // SAFETY: guaranteed by the caller.
    unsafe { blocks::multiply(Kernel::current(), sizes, left, right, out) }
}

/// The number of columns whose dot products are added together.
const DOT_COLUMNS: usize = 4;

/// Exclusive access to some columns of a row-major matrix.
#[derive(Debug)]
pub(crate) struct ColumnsMut<'a> {
    start: *mut f32,
    rows: usize,
    /// The number of columns of the whole matrix.
    step: usize,
    first: usize,
    columns: usize,
    matrix: std::marker::PhantomData<&'a mut [f32]>,
}

// SAFETY: it has exclusive access to its elements, which are plain floats.
unsafe impl Send for ColumnsMut<'_> {}

/// Cuts a row-major matrix of `rows` rows into blocks of up to `columns` columns.
pub(crate) fn split_columns<'a>(
    matrix: &'a mut [f32],
    rows: usize,
    columns: usize,
) -> impl Iterator<Item = ColumnsMut<'a>> {
    let step = matrix.len() / rows.max(1);
    let start = matrix.as_mut_ptr();
    let columns = columns.max(1);
    (0..step.div_ceil(columns)).map(move |block| {
        let first = block * columns;
        let columns = columns.min(step - first);
        // Blocks have different columns, so no element belongs to two of them.
        ColumnsMut { start, rows, step, first, columns, matrix: std::marker::PhantomData }
    })
}

impl ColumnsMut<'_> {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the index of the first column in the whole matrix.
    pub(crate) fn first_column(&self) -> usize {
        self.first
    }

    /// Returns the columns of a row. Rows past the last are empty.
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        if row >= self.rows {
            return &mut [];
        }
        // SAFETY: the row is one of the matrix and the columns are inside it; only this block has
        // them, and it is borrowed mutably.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.start.add(row * self.step + self.first),
                self.columns,
            )
        }
    }

    /// Adds the dot products of rows of `k` elements: one left row, `left_step` apart, for each row
    /// of this block, and one right row for each column.
    pub(crate) fn add_dots(
        &mut self,
        k: usize,
        left: &[f32],
        left_step: usize,
        right: &[f32],
        beta: Beta,
    ) {
        if beta == Beta::Overwrite {
            (0..self.rows).for_each(|row| self.row_mut(row).fill(0.0));
        }
        // Some right rows at a time, which stay in the first-level cache for all left rows.
        for (first, right) in (0..).step_by(DOT_COLUMNS).zip(right.chunks(DOT_COLUMNS * k.max(1))) {
            for row in 0..self.rows {
                let out = self.row_mut(row);
                let last = out.len().min(first + DOT_COLUMNS);
                add_dots(k, &left[row * left_step..][..k], right, &mut out[first..last]);
            }
        }
    }

    /// Multiplies a matrix of `k` columns and one of `k` rows into this block.
    pub(crate) fn gemm(
        &mut self,
        k: usize,
        left: Matrix<'_>,
        right: Matrix<'_>,
        beta: Beta,
    ) -> Result<()> {
        if k == 0 || self.rows == 0 || self.columns == 0 {
            if beta == Beta::Overwrite {
                (0..self.rows).for_each(|row| self.row_mut(row).fill(0.0));
            }
            return Ok(());
        }
        left.check(self.rows, k)?;
        right.check(k, self.columns)?;
        // SAFETY: both operands lie inside their slices, as was checked; the elements written are
        // those of this block, to which it has exclusive access.
        unsafe {
            let out = Out { start: self.start.add(self.first), row_step: self.step, beta };
            call([self.rows, k, self.columns], left, right, out)
        }
    }
}
