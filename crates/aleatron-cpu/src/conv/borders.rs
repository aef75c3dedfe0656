//! Sums over the taps of kernels that lie inside the image.

use aleatron_core::windows::Windows;
use aleatron_core::{ConvShape, Quantity, Result, memory};
use std::ops::Range;

/// Sums over the taps that lie inside the image, which are shared by all positions with the same
/// taps inside.
pub(crate) struct Borders {
    /// The run of rows of each row of positions, and likewise for columns.
    row_runs: Vec<u32>,
    column_runs: Vec<u32>,
    n_channels: usize,
    /// By run of rows, run of columns and channel; empty without values.
    sums: Vec<u64>,
}

impl Borders {
    /// Computes the sums of `values`, one per weight.
    pub(crate) fn new(shape: &ConvShape, values: Option<&[u64]>) -> Result<Self> {
        let [over_rows, over_columns] = shape.windows();
        let runs = |windows: &Windows| -> Vec<Range<usize>> { windows.runs().collect() };
        let [rows, columns] = [runs(over_rows), runs(over_columns)];
        let numbers = |runs: &[Range<usize>]| -> Vec<u32> {
            (0..)
                .zip(runs)
                .flat_map(|(number, run)| std::iter::repeat_n(number, run.len()))
                .collect()
        };
        let mut sums = Vec::new();
        if let Some(values) = values {
            let len = rows.len() as u128 * columns.len() as u128 * shape.n_channels() as u128;
            sums = memory::with_capacity(len, Quantity::Weights)?;
            let [height, width] = shape.convolution().kernel;
            for (rows, columns) in
                rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)))
            {
                let (rows, columns) =
                    (over_rows.taps(rows.start), over_columns.taps(columns.start));
                for kernel in values.chunks_exact(shape.kernel_weights()) {
                    let planes = kernel.chunks_exact(height * width);
                    let inside = planes.flat_map(|plane| {
                        rows.clone().flat_map(|row| &plane[row * width..][columns.clone()])
                    });
                    sums.push(inside.sum());
                }
            }
        }
        let n_channels = shape.n_channels();
        Ok(Self { row_runs: numbers(&rows), column_runs: numbers(&columns), n_channels, sums })
    }

    /// Returns the sums at a position, by channel.
    pub(crate) fn inside(&self, position: usize) -> &[u64] {
        let (row, column) = (position / self.column_runs.len(), position % self.column_runs.len());
        let n_columns = self.column_runs.last().map_or(0, |last| *last as usize + 1);
        let pattern = self.row_runs[row] as usize * n_columns + self.column_runs[column] as usize;
        &self.sums[pattern * self.n_channels..][..self.n_channels]
    }
}
