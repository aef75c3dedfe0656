//! Pools of integers in f64.

use crate::Tier;
use crate::dispatch::{self, ColumnWindows, PoolLanes};
use aleatron_core::arithmetic::{Border, PoolShape};
use aleatron_core::windows::Windows;
use aleatron_core::{Error, Result};
use std::ops::Range;

/// A pool of images of integers.
#[derive(Debug)]
pub(super) struct PoolStage(PoolLanes);

impl PoolStage {
    pub(super) fn new(shape: &PoolShape) -> Result<Self> {
        let (pool, [rows, columns]) = (shape.pool(), shape.windows());
        let whole = match pool.border {
            Border::Excluded => None,
            Border::Zeros => Some(pool.window[0] * pool.window[1]),
        };
        let (height, width) = (rows.axis().size, columns.axis().size);
        let (kind, rows, columns) = (pool.kind, positions(rows)?, positions(columns)?);
        let are_pairs =
            columns.iter().enumerate().all(|(k, columns)| *columns == (2 * k..2 * k + 2));
        let column_windows = if are_pairs { ColumnWindows::Pairs } else { ColumnWindows::Any };
        Ok(Self(PoolLanes { kind, rows, columns, column_windows, height, width, whole }))
    }

    /// Reduces the windows of whole images.
    pub(super) fn apply(&self, tier: Tier, values: &[f64], out: &mut [f64]) {
        let lanes = &self.0;
        let (image, pooled) = (lanes.height * lanes.width, lanes.rows.len() * lanes.columns.len());
        let mut row = vec![0.0; lanes.width];
        for (image, out) in values.chunks_exact(image).zip(out.chunks_exact_mut(pooled)) {
            dispatch::pool(tier, lanes, image, &mut row, out);
        }
    }
}

/// Returns the positions of the image that each window covers: they are contiguous, since a pool
/// has no dilation.
fn positions(windows: &Windows) -> Result<Vec<Range<usize>>> {
    let position = |window| {
        let taps = windows.taps(window);
        let location = "cpu::program::pool::positions, window outside the image";
        let first = windows.at(window, taps.start).ok_or(Error::Internal { place: location })?;
        Ok(first..first + taps.len())
    };
    (0..windows.len()).map(position).collect()
}
