//! A matrix product in blocks that fit the caches, and the copies of operands that the tiles read.

use std::cell::Cell;

use aleatron_core::Quantity;
use aleatron_cpu::AlignedBuffer;

use super::Beta;
use super::kernel::{Kernel, MOST_ROWS, Tile};
use super::pack::pack;
use super::row::RowProduct;
use crate::error::Result;

/// The number of products that are added in one chain; the sums of the chains are added one after
/// the other. The length is part of the definition of results: another length gives other bits.
pub(super) const CHAIN: usize = 256;

/// The approximate number of columns of the right matrix that are copied at a time: [`CHAIN`] rows
/// of them stay in the second-level cache.
const COLUMNS: usize = 528;

/// The number of rows of the left matrix up to which the right one is read in place, if its columns
/// are contiguous: a copy would take longer.
const FEW_ROWS: usize = 48;

/// A position in a matrix, and the strides of rows and columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operand {
    pub(super) start: *const f32,
    pub(super) row_step: isize,
    pub(super) column_step: isize,
}

impl Operand {
    /// Returns the address of an element.
    pub(super) fn at(self, row: usize, column: usize) -> *const f32 {
        self.start
            .wrapping_offset(row as isize * self.row_step + column as isize * self.column_step)
    }

    /// Returns the operand from an element on.
    pub(super) fn from(self, row: usize, column: usize) -> Self {
        Self { start: self.at(row, column), ..self }
    }

    /// Returns the transposed operand.
    pub(super) fn t(self) -> Self {
        Self { row_step: self.column_step, column_step: self.row_step, ..self }
    }
}

/// The destination of a product: rows of contiguous elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Out {
    pub(super) start: *mut f32,
    pub(super) row_step: usize,
    pub(super) beta: Beta,
}

thread_local! {
    /// The copies of operands of the thread's last product.
    static COPIES: Cell<Option<AlignedBuffer<f32>>> = const { Cell::new(None) };
}

/// Floats of the copy of the left operand.
const LEFT_COPY: usize = MOST_ROWS * CHAIN;

/// Multiplies an m x k and a k x n matrix.
///
/// # Safety
/// The operands must be valid for all rows and columns, and the result for m rows of n elements
/// that nothing else refers to.
///
/// # Errors
/// An error if there is no memory for copies of parts of the operands.
pub(super) unsafe fn multiply(
    kernel: Kernel,
    [m, k, n]: [usize; 3],
    left: Operand,
    right: Operand,
    out: Out,
) -> Result<()> {
    // A column is a row of the transposed product.
    let ([m, n], [left, right]) = if n == 1 && out.row_step == 1 {
        ([1, m], [right.t(), left.t()])
    } else {
        ([m, n], [left, right])
    };
    let panel = kernel.columns(m);
    // The smallest number of blocks of columns, of about the same size.
    let columns = n.div_ceil(n.div_ceil(COLUMNS)).next_multiple_of(panel);
    let room = LEFT_COPY + columns * k.min(CHAIN);
    // The copies leave the thread's cell during the product, so a nested product cannot use them.
    let mut copies = match COPIES.try_with(Cell::take).ok().flatten() {
        Some(copies) if copies.len() >= room => copies,
        _ => AlignedBuffer::zeroed(room, Quantity::Words)?,
    };
    for first in (0..n).step_by(columns) {
        for start in (0..k).step_by(CHAIN) {
            let block = Block {
                kernel,
                sizes: [m, CHAIN.min(k - start), columns.min(n - first)],
                left: left.from(0, start),
                right: right.from(start, first),
            };
            let beta = if start == 0 { out.beta } else { Beta::Accumulate };
            // SAFETY: the block is one of the product's, and the copies have room for its operands.
            unsafe {
                block.multiply(
                    Out { start: out.start.add(first), beta, ..out },
                    copies.as_mut_ptr(),
                )?
            };
        }
    }
    // A thread that is ending has no cell any more.
    let _ = COPIES.try_with(|position| position.set(Some(copies)));
    Ok(())
}

/// A part of a product: one chain, and as many columns as are copied at a time.
#[derive(Debug, Clone, Copy)]
struct Block {
    kernel: Kernel,
    sizes: [usize; 3],
    left: Operand,
    right: Operand,
}

impl Block {
    /// # Safety
    /// As for [`multiply`]; `copies` must be valid for [`LEFT_COPY`] floats and k rows of n floats,
    /// rounded up to whole tiles.
    unsafe fn multiply(self, out: Out, copies: *mut f32) -> Result<()> {
        let Self { kernel, sizes: [m, k, n], left, right } = self;
        let (left_copy, right_copy) = (copies, copies.wrapping_add(LEFT_COPY));
        if m == 1 && right.row_step == 1 && right.column_step != 1 {
            // SAFETY: the copy has room for a row of k elements; all else is guaranteed by the caller.
            unsafe {
                pack([1, k], left, left_copy, 1);
                let (right, column_step) = (right.start, right.column_step);
                let row = RowProduct { k, left: left_copy, right, column_step, columns: n };
                kernel.row(row, out.start, out.beta);
            }
            return Ok(());
        }
        let panel = kernel.columns(m);
        let in_place = if m <= FEW_ROWS && right.column_step == 1 { n / panel * panel } else { 0 };
        for column in (in_place..n).step_by(panel) {
            let from = right.from(0, column).t();
            // SAFETY: the columns are some of the operand's, and the copy has room for them.
            unsafe { pack([panel.min(n - column), k], from, right_copy.add(column * k), panel) };
        }
        for row in (0..m).step_by(kernel.rows) {
            let rows = kernel.rows.min(m - row);
            let mut left = left.from(row, 0);
            if left.column_step != 1 {
                // SAFETY: the rows are some of the operand's, and the copy has room for them.
                unsafe { pack([rows, k], left, left_copy, rows) };
                left = Operand { start: left_copy, row_step: 1, column_step: rows as isize };
            }
            for column in (0..n).step_by(panel) {
                // SAFETY: the tile is one of the result, and its operands are those, or copies with
                // whole vectors.
                unsafe {
                    let (right, right_step) = if column < in_place {
                        (right.at(0, column), right.row_step)
                    } else {
                        (right_copy.add(column * k).cast_const(), panel as isize)
                    };
                    let start = out.start.add(row * out.row_step + column);
                    let tile = Tile { k, left, right, right_step, out: Out { start, ..out } };
                    kernel.tile(rows, panel.min(n - column), tile)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use aleatron_cpu::Tier;

    use super::*;
    use crate::error::Error;

    /// Adds one chain after another, element by element.
    fn plain(
        kernel: Kernel,
        k: usize,
        left: impl Fn(usize) -> f32,
        right: impl Fn(usize) -> f32,
    ) -> f32 {
        let mut total = None;
        for start in (0..k).step_by(CHAIN) {
            let chain = (start..k.min(start + CHAIN)).fold(0.0f32, |sum, i| {
                if kernel.fuses { left(i).mul_add(right(i), sum) } else { sum + left(i) * right(i) }
            });
            total = Some(total.map_or(chain, |total: f32| total + chain));
        }
        total.unwrap_or(0.0)
    }

    /// A source of numbers whose sums round differently in every order.
    struct Draw(u64);

    impl Draw {
        fn next(&mut self) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 33
        }

        fn below(&mut self, n: usize) -> usize {
            self.next() as usize % n
        }

        fn floats(&mut self, n: usize) -> Vec<f32> {
            (0..n).map(|_| self.next() as f32 / (1u64 << 30) as f32 - 1.0).collect()
        }
    }

    /// A matrix in every kind of order: along rows, along columns, backwards, with gaps, and rows
    /// that are all the same.
    struct Stored {
        data: Vec<f32>,
        offset: usize,
        steps: [isize; 2],
    }

    impl Stored {
        fn new(draw: &mut Draw, [rows, columns]: [usize; 2]) -> Self {
            let gap = draw.below(4);
            let [r, c] = [rows + gap, columns + gap].map(|size| size as isize);
            let (steps, offset) = match draw.below(7) {
                0 | 1 => ([c, 1], 0),
                2 | 3 => ([1, r], 0),
                4 => ([-c, 1], (rows - 1) * (columns + gap)),
                5 => ([2 * c, 2], 1),
                _ => ([0, 1], 0),
            };
            Self { data: draw.floats(2 * (rows + gap) * (columns + gap) + 2), offset, steps }
        }

        fn operand(&self) -> Operand {
            let start = self.data[self.offset..].as_ptr();
            Operand { start, row_step: self.steps[0], column_step: self.steps[1] }
        }

        fn at(&self, row: usize, column: usize) -> f32 {
            let position = self.offset as isize
                + row as isize * self.steps[0]
                + column as isize * self.steps[1];
            self.data[position as usize]
        }
    }

    fn check(kernel: Kernel, draw: &mut Draw, [m, k, n]: [usize; 3]) {
        let (left, right) = (Stored::new(draw, [m, k]), Stored::new(draw, [k, n]));
        let row_step = n + draw.below(2);
        let beta = if draw.below(4) == 0 { Beta::Accumulate } else { Beta::Overwrite };
        let before = draw.floats(m * row_step);
        let mut got = before.clone();
        let out = Out { start: got.as_mut_ptr(), row_step, beta };
        // SAFETY: the operands have that many rows and columns, and so has the result.
        unsafe { multiply(kernel, [m, k, n], left.operand(), right.operand(), out).unwrap() };
        for (position, got) in got.into_iter().enumerate() {
            let (row, column) = (position / row_step, position % row_step);
            let mut want = before[position];
            if column < n {
                want = match beta {
                    Beta::Overwrite => {
                        plain(kernel, k, |i| left.at(row, i), |i| right.at(i, column))
                    }
                    // The first chain is added to what is there, then the others.
                    Beta::Accumulate => (0..k).step_by(CHAIN).fold(want, |sum, start| {
                        let len = CHAIN.min(k - start);
                        sum + plain(
                            kernel,
                            len,
                            |i| left.at(row, start + i),
                            |i| right.at(start + i, column),
                        )
                    }),
                };
            }
            let what = (kernel.width, [m, k, n], left.steps, right.steps, beta, row, column);
            assert_eq!(got.to_bits(), want.to_bits(), "{what:?}: {got} for {want}");
        }
    }

    /// Every element is the sum of the chains of its row and its column. It does not depend on
    /// other rows and columns, on the division among threads, on the layout of the operands in
    /// memory, or on the tier, if the tier fuses multiplications with additions.
    #[test]
    fn elements_depend_on_their_row_and_column_only() {
        let mut draw = Draw(1);
        for tier in Tier::available() {
            let kernel = Kernel::of(tier);
            for m in [1, 2, 3, 4, 5, 6, 7, 8, 9, 17] {
                for n in [1, 2, 3, 7, 8, 12, 15, 16, 17, 24, 25, 31, 47, 48, 49, 97, 193] {
                    let k = [1, 2, 3, 15, 16, 17, 40][draw.below(7)];
                    check(kernel, &mut draw, [m, k, n]);
                }
            }
            // Past the ends of chains, of the rows that are read in place, and of the columns that
            // are copied at a time.
            for sizes in [
                [3, 255, 5],
                [2, 256, 9],
                [1, 257, 50],
                [9, 513, 33],
                [49, 300, 50],
                [50, 20, 1100],
                [1, 700, 600],
            ] {
                for _ in 0..3 {
                    check(kernel, &mut draw, sizes);
                }
            }
        }
    }

    #[test]
    fn columns_4_kib_apart_have_the_same_chains() {
        let mut draw = Draw(2);
        let (k, n) = (40, 20);
        let (left, right) = (draw.floats(k), draw.floats(1024 * n));
        for tier in Tier::available() {
            let kernel = Kernel::of(tier);
            let mut got = vec![0.0f32; n];
            let out = Out { start: got.as_mut_ptr(), row_step: n, beta: Beta::Overwrite };
            let row = Operand { start: left.as_ptr(), row_step: 0, column_step: 1 };
            let columns = Operand { start: right.as_ptr(), row_step: 1, column_step: 1024 };
            // SAFETY: the operands have that many rows and columns, and so has the result.
            unsafe { multiply(kernel, [1, k, n], row, columns, out).unwrap() };
            for (column, got) in got.into_iter().enumerate() {
                let want = plain(kernel, k, |i| left[i], |i| right[1024 * column + i]);
                assert_eq!(got.to_bits(), want.to_bits(), "{} of {column}", tier.name());
            }
        }
    }

    #[test]
    fn tile_larger_than_a_whole_one_is_an_internal_error() {
        let data = [0.0f32; 64];
        let mut sums = [7.0f32; 64];
        for tier in Tier::available() {
            let kernel = Kernel::of(tier);
            let left = Operand { start: data.as_ptr(), row_step: 0, column_step: 1 };
            let out = Out { start: sums.as_mut_ptr(), row_step: 0, beta: Beta::Overwrite };
            let tile = Tile { k: 1, left, right: data.as_ptr(), right_step: 0, out };
            // SAFETY: nothing is read or written.
            let refused = unsafe { kernel.tile(9, kernel.width, tile) };
            assert_eq!(
                refused,
                Err(Error::internal("tile of a matrix product")),
                "{}",
                tier.name()
            );
        }
        assert_eq!(sums, [7.0; 64]);
    }
}
