//! Linear maps on the CPU's threads: one product per row of weights, each computed by one thread.

use std::time::Duration;

use aleatron_cpu::Pool;
use half::slice::HalfFloatSliceExt;

use super::dot::{Instructions, ROWS};
use crate::lora::QkvLoRA;
use crate::weights::{Linear, Matrix, MatrixData};

/// The number of rows of weights in one work item.
const ITEM_ROWS: usize = 32;

/// The number of activations that are multiplied while their rows of weights are in the cache.
const ACTIVATION_ROWS: usize = 16;

/// The threads and the instructions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workers<'a> {
    pub(super) pool: &'a Pool,
    pub(super) instructions: Instructions,
}

/// Rows of activations, padded with zeros to the stride of matrices.
#[derive(Debug, Clone)]
pub(super) struct Activations {
    pub(super) width: usize,
    pub(super) stride: usize,
    pub(super) data: Vec<f32>,
}

impl Activations {
    pub(super) fn new(rows: usize, width: usize) -> Self {
        let stride = width.next_multiple_of(Matrix::PADDING);
        Self { width, stride, data: vec![0.0; rows * stride] }
    }

    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.stride..][..self.width]
    }

    pub(super) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.stride..][..self.width]
    }

    pub(super) fn rows(&self) -> usize {
        self.data.len() / self.stride.max(1)
    }
}

impl Workers<'_> {
    /// Returns the products of all rows of a matrix with all rows of activations.
    pub(super) fn product(self, matrix: &Matrix, x: &Activations) -> Activations {
        let (n, m) = (matrix.rows(), x.rows());
        let mut out = Activations::new(m, n);
        // One run of results per row of weights, so that threads write to separate memory.
        let mut columns = vec![0.0; n * m];
        let work = matrix.bytes() as u64 / 8 + (n * m * matrix.stride()) as u64 / 16;
        let items = columns.chunks_mut(ITEM_ROWS * m).enumerate();
        self.pool.for_each(items, Duration::from_nanos(work), |(item, columns)| {
            self.rows(matrix, item * ITEM_ROWS, x, columns);
        });
        for (j, results) in columns.chunks_exact(m.max(1)).enumerate() {
            results.iter().enumerate().for_each(|(i, y)| out.data[i * out.stride + j] = *y);
        }
        out
    }

    /// Computes the results of `columns.len() / m` rows of weights from `first` on.
    fn rows(self, matrix: &Matrix, first: usize, x: &Activations, columns: &mut [f32]) {
        let (m, stride) = (x.rows(), matrix.stride());
        let count = columns.len() / m;
        // A group of fewer than four rows repeats its last row.
        let four = |start: usize| -> [usize; ROWS] {
            std::array::from_fn(|i| (first + start + i).min(first + count - 1))
        };
        let mut scratch = Vec::new();
        if m > 1 && !matches!(matrix.data(), MatrixData::F32(_)) {
            scratch.resize(count * stride, 0.0);
            match matrix.data() {
                MatrixData::F16(data) => {
                    data[first * stride..][..count * stride].convert_to_f32_slice(&mut scratch)
                }
                MatrixData::Int8(data, _) => {
                    scratch
                        .iter_mut()
                        .zip(&data[first * stride..])
                        .for_each(|(x, w)| *x = f32::from(*w));
                }
                MatrixData::F32(_) => {}
            }
        }
        for block in (0..m).step_by(ACTIVATION_ROWS) {
            for start in (0..count).step_by(ROWS) {
                let rows = four(start);
                for i in block..m.min(block + ACTIVATION_ROWS) {
                    let x = &x.data[i * x.stride..][..stride];
                    let mut sums = match matrix.data() {
                        MatrixData::F32(data) => {
                            self.instructions.f32(rows.map(|r| &data[r * stride..][..stride]), x)
                        }
                        _ if m > 1 => self
                            .instructions
                            .f32(rows.map(|r| &scratch[(r - first) * stride..][..stride]), x),
                        MatrixData::F16(data) => {
                            self.instructions.f16(rows.map(|r| &data[r * stride..][..stride]), x)
                        }
                        MatrixData::Int8(data, _) => {
                            self.instructions.int8(rows.map(|r| &data[r * stride..][..stride]), x)
                        }
                    };
                    if let MatrixData::Int8(_, scales) = matrix.data() {
                        sums.iter_mut().zip(rows).for_each(|(sum, r)| *sum *= scales[r]);
                    }
                    for (j, sum) in (start..count).zip(sums) {
                        columns[j * m + i] = sum;
                    }
                }
            }
        }
    }
}

/// Adds the bias of a map to all rows of results.
pub(super) fn add_bias(map: &Linear, out: &mut Activations) {
    if let Some(bias) = &map.bias {
        for row in 0..out.rows() {
            out.row_mut(row).iter_mut().zip(bias).for_each(|(y, b)| *y += b);
        }
    }
}

/// Adds the correction of an adapter to one row of results.
pub(super) fn correct(lora: &QkvLoRA, x: &[f32], y: &mut [f32]) {
    let ranks: Vec<f32> =
        lora.a.chunks_exact(x.len()).map(|a| a.iter().zip(x).map(|(a, x)| a * x).sum()).collect();
    for (y, b) in y.iter_mut().zip(lora.b.chunks_exact(lora.rank)) {
        *y += b.iter().zip(&ranks).map(|(b, t)| b * t).sum::<f32>();
    }
}
