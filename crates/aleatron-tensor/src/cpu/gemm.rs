//! Products of matrices of 32-bit floats through the crate `matrixmultiply`.
//!
//! Its blocks have fixed sizes, so an element of a product depends on its row and its column alone, wherever the rows are cut. The
//! crate `gemm` (0.19) takes 0.95 of the time at 1024, but chooses its blocks by the sizes: of 400 products of random sizes, 28 had
//! other bits when their rows were cut, and so would those of another number of threads.
//! Unsafe code: the call, which takes pointers and trusts their steps.
#![allow(unsafe_code)]

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
    /// The same from a row on.
    pub(crate) fn at_row(self, row: usize) -> Self {
        Self { offset: (self.offset as isize + row as isize * self.row_step) as usize, ..self }
    }

    /// Rows and columns exchanged.
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

/// What a product does to the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Into {
    /// It replaces it.
    Empty,
    /// It is added to it.
    Sums,
}

/// The product of an m x k and a k x n matrix, with rows `out_step` apart in `out`.
pub(crate) fn gemm(
    [m, k, n]: [usize; 3],
    left: Matrix<'_>,
    right: Matrix<'_>,
    into: Into,
    out: &mut [f32],
    out_step: usize,
) -> Result<()> {
    if m == 0 || n == 0 {
        return Ok(());
    }
    let last = (m - 1) as u128 * out_step as u128 + n as u128;
    if last > out.len() as u128 || (m > 1 && out_step < n) {
        return Err(Error::argument("matmul", "rows of the result", (m, n, out_step), "they do not fit"));
    }
    if k == 0 {
        if into == Into::Empty {
            out.chunks_mut(out_step.max(1)).take(m).for_each(|row| row[..n].fill(0.0));
        }
        return Ok(());
    }
    left.check(m, k)?;
    right.check(k, n)?;
    // SAFETY: both operands lie inside their slices for all rows and columns, as was checked; the rows of the result lie in `out`
    // one behind the other without overlap.
    unsafe { call([m, k, n], left, right, into, out.as_mut_ptr(), out_step) };
    Ok(())
}

/// Calls the crate. With a product that replaces the result, the result is not read.
///
/// # Safety
/// The operands must lie inside their slices for all rows and columns, and `out` must be valid for m rows of n elements, `out_step` apart,
/// that nothing else refers to.
unsafe fn call(
    [m, k, n]: [usize; 3],
    left: Matrix<'_>,
    right: Matrix<'_>,
    into: Into,
    out: *mut f32,
    out_step: usize,
) {
    let beta = match into {
        Into::Empty => 0.0,
        Into::Sums => 1.0,
    };
    // SAFETY: as the caller says.
    unsafe {
        matrixmultiply::sgemm(
            m,
            k,
            n,
            1.0,
            left.data.as_ptr().add(left.offset),
            left.row_step,
            left.column_step,
            right.data.as_ptr().add(right.offset),
            right.row_step,
            right.column_step,
            beta,
            out,
            out_step as isize,
            1,
        );
    }
}

/// Some columns of a row-major matrix, which others may have other columns of.
#[derive(Debug)]
pub(crate) struct ColumnsMut<'a> {
    start: *mut f32,
    rows: usize,
    /// The columns of the whole matrix.
    step: usize,
    first: usize,
    columns: usize,
    matrix: std::marker::PhantomData<&'a mut [f32]>,
}

// SAFETY: it stands for exclusive access to its elements, which are plain floats.
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

    /// The first of its columns in the whole matrix.
    pub(crate) fn first_column(&self) -> usize {
        self.first
    }

    /// Its part of a row. Rows past the last are empty.
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        if row >= self.rows {
            return &mut [];
        }
        // SAFETY: the row is one of the matrix and the columns are inside it; only this block has them, and it is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.step + self.first), self.columns) }
    }

    /// The product of a matrix of as many rows as this has and `k` columns, and one of `k` rows and as many columns as this has.
    pub(crate) fn gemm(&mut self, k: usize, left: Matrix<'_>, right: Matrix<'_>, into: Into) -> Result<()> {
        if k == 0 || self.rows == 0 || self.columns == 0 {
            if into == Into::Empty {
                (0..self.rows).for_each(|row| self.row_mut(row).fill(0.0));
            }
            return Ok(());
        }
        left.check(self.rows, k)?;
        right.check(k, self.columns)?;
        // SAFETY: both operands lie inside their slices, as was checked; the elements written are those of this block, which nobody else
        // has.
        unsafe {
            let out = self.start.add(self.first);
            call([self.rows, k, self.columns], left, right, into, out, self.step);
        }
        Ok(())
    }
}
