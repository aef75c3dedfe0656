//! The choice of the counting kernel, and the division of its work into workgroups.

use std::fmt;
use std::sync::Arc;

use aleatron_core::Polarity;
use aleatron_device::{BufferView, Recorder, grid, size_u32};

use crate::buffers::{CountMode, check_words_of};
use crate::error::Result;
use crate::kernels::{AccumulateParams, StreamKernel, TileParams};
use crate::partition::{Block, VECTOR};

/// The shape of `tile.wgsl`: threads along samples and neurons, the number of four-neuron and
/// four-sample groups that each counts, and the number of 16-byte vectors staged at a time. Only
/// shapes that the kernel supports exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TileShape {
    threads_x: u32,
    threads_y: u32,
    row_fours: u32,
    column_fours: u32,
    depth: u32,
}

impl fmt::Display for TileShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads_x, threads_y, row_fours, column_fours, depth } = *self;
        let (rows, columns) = (4 * row_fours, 4 * column_fours);
        write!(f, "{threads_y}x{threads_x} threads of {rows}x{columns}, depth {depth}")
    }
}

impl TileShape {
    /// 64 neurons by 64 samples.
    pub const SQUARE: Self =
        Self { threads_x: 16, threads_y: 16, row_fours: 1, column_fours: 1, depth: 4 };

    /// 128 neurons by 32 samples.
    pub const TALL: Self =
        Self { threads_x: 8, threads_y: 16, row_fours: 2, column_fours: 1, depth: 4 };

    /// 256 neurons by 16 samples.
    pub const TALLEST: Self =
        Self { threads_x: 4, threads_y: 32, row_fours: 2, column_fours: 1, depth: 2 };

    /// The shapes worth comparing on a new device.
    pub const CANDIDATES: [Self; 8] = [
        Self::SQUARE,
        Self { depth: 8, ..Self::SQUARE },
        Self { threads_x: 16, threads_y: 8, row_fours: 2, column_fours: 1, depth: 4 },
        Self { threads_x: 8, threads_y: 8, row_fours: 2, column_fours: 2, depth: 4 },
        Self { threads_x: 16, threads_y: 8, row_fours: 2, column_fours: 2, depth: 4 },
        Self { threads_x: 16, threads_y: 16, row_fours: 2, column_fours: 1, depth: 4 },
        Self { threads_x: 32, threads_y: 8, row_fours: 2, column_fours: 1, depth: 2 },
        Self { threads_x: 16, threads_y: 16, row_fours: 2, column_fours: 2, depth: 2 },
    ];

    /// Returns the number of neurons of a tile.
    #[must_use]
    pub const fn rows(self) -> u32 {
        4 * self.row_fours * self.threads_y
    }

    /// Returns the number of samples of a tile.
    #[must_use]
    pub const fn columns(self) -> u32 {
        4 * self.column_fours * self.threads_x
    }

    /// Returns the shared memory of its workgroup in bytes.
    #[must_use]
    pub const fn workgroup_bytes(self) -> u32 {
        16 * self.depth * (self.rows() + 1 + self.columns() + 1)
    }
}

/// The number of neurons that one workgroup counts for a sample: they share each load of its
/// inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowGroup {
    /// One neuron: a small layer needs all its neurons to fill a device.
    One,
    /// Two neurons.
    Two,
    /// Four neurons.
    Four,
}

impl RowGroup {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::One, Self::Two, Self::Four];

    /// Returns the number of neurons.
    #[must_use]
    pub const fn rows(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }
}

/// The counting kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KernelChoice {
    /// Chosen by the size of the batch.
    #[default]
    Auto,
    /// One sample at a time, with some neurons per workgroup.
    Rows(RowGroup),
    /// Tiles of neurons by samples, with rows split into enough parts for this many workgroups.
    Tiles(TileShape, u32),
}

/// The largest number of samples for which reading the weights for each of them is faster than
/// mostly empty tiles.
const FEW_SAMPLES: usize = 8;

/// The number of workgroups of a dispatch: several for each processor of the largest device.
const WORKGROUPS: u32 = 8192;

/// The largest number of steps of one workgroup along a row: some software devices silently stop at
/// 65,535 turns of all loops.
const STEPS: u64 = 2048;

/// The least number of steps of one workgroup along a row: fewer are not worth their atomic
/// additions.
const LEAST_STEPS: u64 = 8;

impl KernelChoice {
    /// Returns the choice for a batch.
    pub(crate) fn resolve(self, n_neurons: usize, n_samples: usize) -> Self {
        match self {
            Self::Auto if n_samples > FEW_SAMPLES => {
                let shape = match n_samples {
                    0..=16 => TileShape::TALLEST,
                    17..=32 => TileShape::TALL,
                    _ => TileShape::SQUARE,
                };
                Self::Tiles(shape, WORKGROUPS)
            }
            Self::Auto => Self::Rows(match n_neurons * n_samples {
                0..1024 => RowGroup::One,
                1024..2048 => RowGroup::Two,
                _ => RowGroup::Four,
            }),
            chosen => chosen,
        }
    }

    /// Returns whether counts are added to existing ones, which must be zeroed before.
    pub(crate) fn count_mode(self, n_cuts: usize) -> CountMode {
        if n_cuts > 1 || matches!(self, Self::Tiles(..)) {
            CountMode::Add
        } else {
            CountMode::Write
        }
    }
}

/// The destination of counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) counts: BufferView<'a>,
    /// Number of neurons of the whole layer.
    pub(crate) n_neurons: usize,
    pub(crate) n_samples: usize,
    pub(crate) polarity: Polarity,
    /// Whether counts have a high word.
    pub(crate) wide: bool,
    /// Whether counts are added to existing ones.
    pub(crate) mode: CountMode,
}

/// Records the counts of one block of weights over the samples' streams of the same cut.
pub(crate) fn record(
    recorder: &mut Recorder<'_>,
    choice: KernelChoice,
    block: &Block,
    weights: BufferView<'_>,
    inputs: BufferView<'_>,
    target: &Target<'_>,
) -> Result<()> {
    let context = Arc::clone(recorder.context());
    let Target { counts, n_neurons, n_samples, polarity, wide, mode } = *target;
    if block.n_rows == 0 || n_samples == 0 {
        return Ok(());
    }
    // Sizes that the kernels index; they do not check themselves.
    check_words_of(&weights, block.words() as u64)?;
    check_words_of(&inputs, block.cut.stride as u64 * n_samples as u64)?;
    check_words_of(&counts, n_neurons as u64 * n_samples as u64 * if wide { 2 } else { 1 })?;
    let flags = [
        ("XOR", (polarity == Polarity::Bipolar).into()),
        ("ADD", (mode == CountMode::Add).into()),
        ("WIDE", wide.into()),
    ];
    let (first, stride) =
        (size_u32(block.first_row, "first row")?, size_u32(n_neurons, "number of neurons")?);
    let high = size_u32(n_neurons as u128 * n_samples as u128, "number of counts")?;
    let n_rows = size_u32(block.n_rows, "number of rows")?;
    let n_samples = size_u32(n_samples, "number of samples")?;
    let row_vectors = block.cut.vectors()?;
    let views = [weights, inputs, counts];
    let limit = context.info().max_workgroups;
    let row_bytes = (block.cut.stride * 4) as u64;
    let count_bytes = 4 * u64::from(n_rows) * u64::from(n_samples);
    match choice {
        KernelChoice::Auto | KernelChoice::Rows(_) => {
            let rows = if let KernelChoice::Rows(group) = choice { group.rows() } else { 1 };
            let constants: Vec<_> = flags.into_iter().chain([("ROWS", rows.into())]).collect();
            let bound =
                context.bind(&context.pipeline(&StreamKernel::Accumulate, &constants)?, &views)?;
            let n_groups = n_rows.div_ceil(rows);
            let params = AccumulateParams {
                n_rows,
                row_vectors,
                n_samples,
                n_groups,
                first,
                stride,
                high,
                padding: 0,
            };
            // At most one workgroup per count, of which a binding has fewer than 2^30.
            let grid = grid(u64::from(n_groups) * u64::from(n_samples), limit)?;
            let bytes =
                row_bytes * u64::from(n_samples) * u64::from(n_rows + n_groups) + count_bytes;
            Ok(recorder.dispatch(&bound, &params, grid, bytes)?)
        }
        KernelChoice::Tiles(shape, workgroups) => {
            let constants: Vec<_> = flags
                .into_iter()
                .chain([
                    ("THREADS_X", shape.threads_x.into()),
                    ("THREADS_Y", shape.threads_y.into()),
                    ("ROW_FOURS", shape.row_fours.into()),
                    ("COLUMN_FOURS", shape.column_fours.into()),
                    ("DEPTH", shape.depth.into()),
                ])
                .collect();
            let bound =
                context.bind(&context.pipeline(&StreamKernel::Tile, &constants)?, &views)?;
            let (row_tiles, sample_tiles) =
                (n_rows.div_ceil(shape.rows()), n_samples.div_ceil(shape.columns()));
            let tiles = u64::from(row_tiles) * u64::from(sample_tiles);
            let split_vectors = split(row_vectors, shape.depth, tiles, workgroups)?;
            let n_splits = row_vectors.div_ceil(split_vectors);
            let params = TileParams {
                n_rows,
                n_samples,
                row_vectors,
                split_vectors,
                row_tiles,
                sample_tiles,
                n_splits,
                first,
                stride,
                high,
            };
            let loaded = u64::from(shape.rows() + shape.columns()) * row_bytes;
            let bytes = tiles * loaded + u64::from(n_splits) * count_bytes;
            Ok(recorder.dispatch(
                &bound,
                &params,
                grid(tiles * u64::from(n_splits), limit)?,
                bytes,
            )?)
        }
    }
}

/// Returns the number of vectors of a row that one workgroup sums.
fn split(row_vectors: u32, depth: u32, tiles: u64, workgroups: u32) -> Result<u32> {
    let steps = u64::from(row_vectors.div_ceil(depth));
    let wanted = u64::from(workgroups).div_ceil(tiles.max(1));
    let most = steps.div_ceil(LEAST_STEPS);
    let least = steps.div_ceil(STEPS);
    let splits = wanted.min(most).max(least).max(1);
    // At most `row_vectors` and a depth more.
    Ok(size_u32(steps.div_ceil(splits) * u64::from(depth), "vectors of a part of a row")?)
}

const _: () = assert!(VECTOR == 4, "kernels read vectors of four words");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_stay_within_bounds() {
        for row_vectors in [1u32, 3, 4, 100, 8000, 1 << 23] {
            for tiles in [1u64, 32, 512, 100_000] {
                let depth = 4;
                let vectors = split(row_vectors, depth, tiles, WORKGROUPS).unwrap();
                assert!(vectors.is_multiple_of(depth) && vectors > 0);
                assert!(u64::from(vectors / depth) <= STEPS, "{row_vectors} {tiles}: {vectors}");
            }
        }
        // 1000 inputs of 1024 bits in 32 tiles: 32 parts of 8000 vectors.
        assert_eq!(8000u32.div_ceil(split(8000, 4, 32, 1024).unwrap()), 32);
        // However many workgroups are requested, each has enough steps to be worth its additions.
        assert_eq!(u64::from(split(8000, 4, 1, 1 << 20).unwrap()), 4 * LEAST_STEPS);
    }

    #[test]
    fn default_shapes_fit_the_least_shared_memory() {
        for shape in [TileShape::SQUARE, TileShape::TALL, TileShape::TALLEST] {
            assert!(shape.workgroup_bytes() <= 16_384, "{shape:?}: {}", shape.workgroup_bytes());
            assert!(shape.threads_x * shape.threads_y <= 256, "{shape:?}");
        }
        assert_eq!((TileShape::SQUARE.rows(), TileShape::SQUARE.columns()), (64, 64));
    }
}
