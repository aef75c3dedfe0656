//! Pools of integers in f64.

use super::EXACT;
use crate::Tier;
use crate::dispatch::{self, ColumnWindows, PoolLanes};
use aleatron_core::arithmetic::{Border, PoolKind, PoolShape};
use aleatron_core::windows::Windows;
use std::ops::Range;

/// Pools, one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct PoolStages(Vec<PoolLanes>);

impl PoolStages {
    /// Whether the sums of all windows of values up to `largest` are exact, and their means with them.
    pub(super) fn are_exact(pools: &[PoolShape], largest: u128) -> bool {
        pools.iter().all(|shape| {
            let [rows, columns] = shape.pool().window;
            shape.pool().kind == PoolKind::Max
                || largest.saturating_add(1).saturating_mul(rows as u128 * columns as u128) < EXACT
        })
    }

    pub(super) fn new(pools: &[PoolShape]) -> Self {
        Self(pools.iter().map(lanes).collect())
    }

    /// What the pools make of one sample, in memory that is used again for the next one.
    pub(super) fn apply<'a>(&self, tier: Tier, sample: &'a [f64], memory: &'a mut PoolMemory) -> &'a [f64] {
        let PoolMemory { row, from, to } = memory;
        for (k, lanes) in self.0.iter().enumerate() {
            std::mem::swap(from, to);
            let values = if k == 0 { sample } else { from.as_slice() };
            let (image, made) = (lanes.height * lanes.width, lanes.rows.len() * lanes.columns.len());
            row.resize(lanes.width, 0.0);
            to.resize(values.len() / image * made, 0.0);
            for (image, out) in values.chunks_exact(image).zip(to.chunks_exact_mut(made)) {
                dispatch::pool(tier, lanes, image, row, out);
            }
        }
        if self.0.is_empty() { sample } else { to }
    }
}

/// What pooling a sample needs beside it.
#[derive(Debug, Default)]
pub(super) struct PoolMemory {
    row: Vec<f64>,
    from: Vec<f64>,
    to: Vec<f64>,
}

fn lanes(shape: &PoolShape) -> PoolLanes {
    let (pool, [rows, columns]) = (shape.pool(), shape.windows());
    let whole = match pool.border {
        Border::LeftOut => None,
        Border::Zeros => Some(pool.window[0] * pool.window[1]),
    };
    let (height, width) = (rows.axis().size, columns.axis().size);
    let (kind, rows, columns) = (pool.kind, places(rows), places(columns));
    let are_pairs = columns.iter().enumerate().all(|(k, columns)| *columns == (2 * k..2 * k + 2));
    let column_windows = if are_pairs { ColumnWindows::Pairs } else { ColumnWindows::Any };
    PoolLanes { kind, rows, columns, column_windows, height, width, whole }
}

/// The places of the image that each window sees: one after the other, since a pool has no dilation.
fn places(windows: &Windows) -> Vec<Range<usize>> {
    let place = |window| {
        let taps = windows.taps(window);
        let first = windows.at(window, taps.start).unwrap_or(0);
        first..first + taps.len()
    };
    (0..windows.len()).map(place).collect()
}
