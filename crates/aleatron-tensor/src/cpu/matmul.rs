//! Products of matrices on the CPU.

use std::sync::Mutex;

use super::gemm::{Into, Matrix, gemm};
use super::parallel::{cost, for_each_index};
use super::{CpuView, filled};
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::{Layout, Places};
use crate::storage::CpuStorage;

/// Nanoseconds of a multiplication and an addition, of large products and of single rows.
const NANOSECONDS: f64 = 0.03;
const ROW_NANOSECONDS: f64 = 0.15;

/// Columns of one row that are computed at a time.
const ROW_COLUMNS: usize = 256;

/// The rows that one thread computes at a time; the operands alone decide, so that threads change nothing.
fn rows_at_once(rows: usize) -> usize {
    match rows {
        ..256 => 64,
        256..1024 => 128,
        _ => 256,
    }
}

/// The sizes of a batch of products, and the places where its matrices begin.
struct Batch {
    sizes: [usize; 3],
    len: usize,
    starts: [Vec<usize>; 2],
    steps: [[isize; 2]; 2],
}

impl Batch {
    fn new(left: &Layout, right: &Layout) -> Self {
        let rank = left.rank();
        let starts = [left, right].map(|layout| -> Vec<usize> {
            let outer = layout.keep_axes(0..rank - 2);
            let places: Places = outer.places();
            places.collect()
        });
        let steps = [left, right].map(|layout| [layout.strides()[rank - 2], layout.strides()[rank - 1]]);
        let sizes = [left.shape()[rank - 2], left.shape()[rank - 1], right.shape()[rank - 1]];
        Self { sizes, len: starts[0].len(), starts, steps }
    }

    fn matrix<'a>(&self, side: usize, index: usize, data: &'a [f32]) -> Matrix<'a> {
        let [row_step, column_step] = self.steps[side];
        Matrix { data, offset: self.starts[side][index], row_step, column_step }
    }
}

/// The first error of several threads.
#[derive(Default)]
pub(crate) struct FirstError(Mutex<Option<crate::Error>>);

impl FirstError {
    pub(crate) fn note(&self, result: Result<()>) {
        if let Err(error) = result {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
        }
    }

    pub(crate) fn result(self) -> Result<()> {
        match self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// The products of two batches of matrices of 32-bit floats, whose axes but the last two are the same.
pub(crate) fn floats(left: &CpuView, right: &CpuView) -> Result<CpuStorage> {
    let batch = Batch::new(&left.layout, &right.layout);
    let [m, k, n] = batch.sizes;
    let (a, b) = (left.storage.slice::<f32>(), right.storage.slice::<f32>());
    filled(DType::F32, batch.len * m * n, |buffer| {
        let out = buffer.slice_mut::<f32>();
        let work = batch.len as f64 * m as f64 * n as f64 * k as f64;
        if m == 1 && k > 0 {
            let pool = aleatron_cpu::threads::current()?;
            let pieces = out.chunks_mut(n).enumerate().flat_map(|(index, row)| {
                row.chunks_mut(ROW_COLUMNS).enumerate().map(move |(piece, out)| (index, piece * ROW_COLUMNS, out))
            });
            let pieces: Vec<_> = pieces.collect();
            pool.for_each(pieces.into_iter(), cost(work * ROW_NANOSECONDS), |(index, column, out)| {
                row(k, batch.matrix(0, index, a), batch.matrix(1, index, b), column, out);
            });
            return Ok(());
        }
        let rows = rows_at_once(m);
        let pool = aleatron_cpu::threads::current()?;
        let errors = FirstError::default();
        let pieces: Vec<_> = out
            .chunks_mut(m * n)
            .enumerate()
            .flat_map(|(index, out)| {
                out.chunks_mut(rows * n).enumerate().map(move |(piece, out)| (index, piece * rows, out))
            })
            .collect();
        pool.for_each(pieces.into_iter(), cost(work * NANOSECONDS), |(index, first, out)| {
            let left = batch.matrix(0, index, a).from_row(first);
            let sizes = [out.len() / n, k, n];
            errors.note(gemm(sizes, left, batch.matrix(1, index, b), Into::Empty, out, n));
        });
        errors.result()
    })
}

/// Some elements of the product of a row and a matrix, from `column` on.
fn row(k: usize, left: Matrix<'_>, right: Matrix<'_>, column: usize, out: &mut [f32]) {
    let x = |k: usize| left.data[(left.offset as isize + k as isize * left.column_step) as usize];
    let at = |k: usize, column: usize| {
        (right.offset as isize + k as isize * right.row_step + column as isize * right.column_step) as usize
    };
    if right.column_step == 1 {
        out.fill(0.0);
        for k in 0..k {
            let (x, start, len) = (x(k), at(k, column), out.len());
            for (out, &y) in out.iter_mut().zip(&right.data[start..start + len]) {
                *out += x * y;
            }
        }
        return;
    }
    let xs: Vec<f32> = (0..k).map(x).collect();
    for (i, out) in out.iter_mut().enumerate() {
        *out = if right.row_step == 1 {
            let start = at(0, column + i);
            dot(&xs, &right.data[start..start + k])
        } else {
            xs.iter().enumerate().map(|(k, x)| x * right.data[at(k, column + i)]).sum()
        };
    }
}

/// The sum of products, in sixteen sums that are added in pairs.
fn dot(x: &[f32], y: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (x_whole, x_rest) = x.as_chunks::<16>();
    let (y_whole, y_rest) = y.as_chunks::<16>();
    for (x, y) in x_whole.iter().zip(y_whole) {
        for i in 0..16 {
            sums[i] += x[i] * y[i];
        }
    }
    for (sum, (x, y)) in sums.iter_mut().zip(x_rest.iter().zip(y_rest)) {
        *sum += x * y;
    }
    let mut width = 8;
    while width > 0 {
        for i in 0..width {
            sums[i] += sums[i + width];
        }
        width /= 2;
    }
    sums[0]
}

/// A type whose products wrap.
pub(crate) trait Wrapping: bytemuck::Pod + Send + Sync {
    /// `self + x y`.
    fn multiply_add(self, x: Self, y: Self) -> Self;
}

macro_rules! wrapping {
    ($($type:ty),*) => {
        $(impl Wrapping for $type {
            fn multiply_add(self, x: Self, y: Self) -> Self {
                self.wrapping_add(x.wrapping_mul(y))
            }
        })*
    };
}

wrapping!(u8, i32, i64);

/// The products of two batches of matrices of integers.
pub(crate) fn integers<T: Wrapping>(dtype: DType, left: &CpuView, right: &CpuView) -> Result<CpuStorage> {
    let batch = Batch::new(&left.layout, &right.layout);
    let [m, k, n] = batch.sizes;
    let (a, b) = (left.storage.slice::<T>(), right.storage.slice::<T>());
    filled(dtype, batch.len * m * n, |buffer| {
        let out = buffer.slice_mut::<T>();
        let rows: Vec<Mutex<&mut [T]>> = out.chunks_mut(n).map(Mutex::new).collect();
        let work = rows.len() as f64 * n as f64 * k as f64;
        for_each_index(rows.len(), work, |index| {
            let (matrix, row) = (index / m, index % m);
            let [[left_row, left_step], [right_row, right_step]] = batch.steps;
            let [left_start, right_start] = [0, 1].map(|side| batch.starts[side][matrix] as isize);
            let mut out = rows[index].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            out.fill(T::zeroed());
            for k in 0..k as isize {
                let x = a[(left_start + row as isize * left_row + k * left_step) as usize];
                for (column, out) in out.iter_mut().enumerate() {
                    let y = b[(right_start + k * right_row + column as isize * right_step) as usize];
                    *out = out.multiply_add(x, y);
                }
            }
        })
    })
}
