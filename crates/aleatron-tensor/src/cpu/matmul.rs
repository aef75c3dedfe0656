//! Products of matrices on the CPU.

use super::gemm::{Beta, Matrix, split_columns};
use super::parallel::{for_each_chunk, for_each_item};
use super::{CpuView, filled};
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::Layout;
use crate::storage::CpuStorage;

/// Nanoseconds of a multiplication and an addition, of large products and of single rows.
const NANOSECONDS: f64 = 0.03;
const ROW_NANOSECONDS: f64 = 0.1;

/// The number of rows below which threads divide the columns instead.
const FEW_ROWS: usize = 32;

/// The columns of whole tiles, of one row and of more rows.
const ROW_COLUMNS: usize = 192;
const TILE_COLUMNS: usize = 48;

/// Returns the rows and columns of a product that one thread computes at a time. They do not affect
/// the bits of the result.
fn task_shape([m, n]: [usize; 2], batch: usize, threads: usize) -> [usize; 2] {
    let parts = threads.div_ceil(batch.max(1));
    let rows = m.div_ceil(parts).next_multiple_of(FEW_ROWS);
    if m >= FEW_ROWS * parts || n < m {
        return [rows, n];
    }
    let tile = if m == 1 { ROW_COLUMNS } else { TILE_COLUMNS };
    [m, n.div_ceil(parts).next_multiple_of(tile)]
}

/// The sizes of a batch of products, and the offsets of its matrices.
struct Batch {
    sizes: [usize; 3],
    len: usize,
    starts: [Vec<usize>; 2],
    steps: [[isize; 2]; 2],
}

impl Batch {
    fn new(left: &Layout, right: &Layout) -> Result<Self> {
        let rank = left.rank();
        let starts = |layout: &Layout| layout.keep_axes(0..rank - 2).offset_list();
        let starts = [starts(left)?, starts(right)?];
        let steps =
            [left, right].map(|layout| [layout.strides()[rank - 2], layout.strides()[rank - 1]]);
        let sizes = [left.shape()[rank - 2], left.shape()[rank - 1], right.shape()[rank - 1]];
        Ok(Self { sizes, len: starts[0].len(), starts, steps })
    }

    fn matrix<'a>(&self, side: usize, index: usize, data: &'a [f32]) -> Matrix<'a> {
        let [row_step, column_step] = self.steps[side];
        Matrix { data, offset: self.starts[side][index], row_step, column_step }
    }
}

/// Multiplies two batches of matrices of 32-bit floats with equal batch axes.
pub(crate) fn floats(left: &CpuView, right: &CpuView) -> Result<CpuStorage> {
    let batch = Batch::new(&left.layout, &right.layout)?;
    let [m, k, n] = batch.sizes;
    let (a, b) = (left.storage.slice::<f32>()?, right.storage.slice::<f32>()?);
    filled(DType::F32, batch.len * m * n, |buffer| {
        let out = buffer.slice_mut::<f32>()?;
        let work = batch.len as f64 * m as f64 * n as f64 * k as f64;
        let pool = aleatron_cpu::threads::current()?;
        let [rows, columns] = task_shape([m, n], batch.len, pool.threads());
        let nanoseconds = if m == 1 { ROW_NANOSECONDS } else { NANOSECONDS };
        let tasks: Vec<_> = out
            .chunks_mut(m * n)
            .enumerate()
            .flat_map(|(index, out)| {
                out.chunks_mut(rows * n)
                    .enumerate()
                    .map(move |(block, out)| (index, block * rows, out))
            })
            .flat_map(|(index, first, out)| {
                let rows = out.len() / n;
                split_columns(out, rows, columns).map(move |out| (index, first, out))
            })
            .collect();
        for_each_item(tasks, work * nanoseconds, |(index, first, mut out)| {
            let left = batch.matrix(0, index, a).at_row(first);
            let right = batch.matrix(1, index, b).at_column(out.first_column());
            out.gemm(k, left, right, Beta::Overwrite)
        })
    })
}

/// A type whose products are added up one by one: integers, which wrap, and 64-bit floats.
pub(crate) trait MultiplyAdd: bytemuck::Pod + Send + Sync {
    /// Returns `self + x y`.
    fn multiply_add(self, x: Self, y: Self) -> Self;
}

macro_rules! wrapping {
    ($($type:ty),*) => {
        $(impl MultiplyAdd for $type {
            fn multiply_add(self, x: Self, y: Self) -> Self {
                self.wrapping_add(x.wrapping_mul(y))
            }
        })*
    };
}

wrapping!(u8, i32, i64);

impl MultiplyAdd for f64 {
    fn multiply_add(self, x: Self, y: Self) -> Self {
        self + x * y
    }
}

/// Multiplies two batches of matrices element by element, in the order of the common axis.
pub(crate) fn simple<T: MultiplyAdd>(
    dtype: DType,
    left: &CpuView,
    right: &CpuView,
) -> Result<CpuStorage> {
    let batch = Batch::new(&left.layout, &right.layout)?;
    let [m, k, n] = batch.sizes;
    let (a, b) = (left.storage.slice::<T>()?, right.storage.slice::<T>()?);
    filled(dtype, batch.len * m * n, |buffer| {
        let out = buffer.slice_mut::<T>()?;
        let nanoseconds = k as f64;
        for_each_chunk(out, n, nanoseconds, |start, out| {
            let (matrix, row) = (start / n / m, start / n % m);
            let [[left_row, left_step], [right_row, right_step]] = batch.steps;
            let [left_start, right_start] = [0, 1].map(|side| batch.starts[side][matrix] as isize);
            out.fill(T::zeroed());
            for k in 0..k as isize {
                let x = a[(left_start + row as isize * left_row + k * left_step) as usize];
                for (column, out) in out.iter_mut().enumerate() {
                    let y =
                        b[(right_start + k * right_row + column as isize * right_step) as usize];
                    *out = out.multiply_add(x, y);
                }
            }
            Ok(())
        })
    })
}
