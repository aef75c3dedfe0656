//! Signed dense layers as one AND product: the streams of negative operands are complemented, and
//! the terms of the signs are subtracted from the counts.

use crate::driver::{DeviceBuffer, Grid, View, kernels};
use crate::error::Result;
use crate::kernels::{ComplementParams, RowPart, SignTermsParams};
use crate::queue::Queue;
use crate::size::{host_size, size_u32};

/// Number of threads of a block.
const THREADS: u64 = 256;

/// Number of neurons and of samples of a tile of the kernel that subtracts terms.
const TERM_TILE: usize = 64;

/// The size of its shared memory: one integer for each operand of a tile and 32 inputs, padded.
const TERM_BYTES: u32 = 2 * 32 * (64 + 4) * 4;

/// The smallest number of inputs of a slice: fewer do not pay for a block.
const LEAST_SLICE: usize = 32;

/// Number of blocks that fill a GPU.
const WANTED_BLOCKS: u64 = 512;

/// Enqueues the complementing of the streams of negative operands in `rows`, and writes the number
/// of ones of each stream, negated if it was complemented, to `ones`. Rows must consist of one part.
pub(crate) fn complement(
    queue: &Queue<'_>,
    part: RowPart,
    n_rows: usize,
    thresholds: View<'_>,
    rows: View<'_>,
    ones: View<'_>,
) -> Result<()> {
    let n = n_rows as u64 * u64::from(part.n_units);
    // Streams begin with whole vectors if they consist of them, as rows do.
    let (kernel, words) = match part.stream_words.is_multiple_of(4) {
        true => (&kernels::COMPLEMENT_4, part.stream_words / 4),
        false => (&kernels::COMPLEMENT_1, part.stream_words),
    };
    let lanes = words.next_power_of_two().min(32);
    let bytes = 4 * n_rows as u64 * u64::from(part.stride);
    let params = ComplementParams {
        part,
        thresholds: thresholds.check(8 * u128::from(n))?,
        streams: rows.check(bytes.into())?,
        ones: ones.check(4 * u128::from(n))?,
        n_rows: size_u32(n_rows, "number of rows")?,
        lanes,
    };
    let grid = Grid::row((n * u64::from(lanes)).div_ceil(THREADS))?;
    queue.launch(kernel, grid, 0, &params, 2 * bytes + 12 * n)
}

/// The terms of the signs of a chunk.
pub(crate) struct SignTerms<'a> {
    pub(crate) weight_ones: &'a DeviceBuffer<u32>,
    pub(crate) input_ones: View<'a>,
    /// By sample and neuron, 32 bits each.
    pub(crate) counts: View<'a>,
    pub(crate) n_inputs: usize,
    pub(crate) n_neurons: usize,
    pub(crate) n_samples: usize,
    /// The bits of a stream.
    pub(crate) length: usize,
}

impl SignTerms<'_> {
    /// Enqueues the subtraction of the terms from the counts.
    pub(crate) fn enqueue(&self, queue: &Queue<'_>) -> Result<()> {
        let (n, m, samples) = (self.n_inputs, self.n_neurons, self.n_samples);
        let [neuron_tiles, sample_tiles] = [m, samples].map(|n| n.div_ceil(TERM_TILE) as u64);
        let tiles = neuron_tiles * sample_tiles;
        let most = n.div_ceil(LEAST_SLICE) as u64;
        let slices = WANTED_BLOCKS.div_ceil(tiles.max(1)).clamp(1, most.max(1));
        let slice = (n as u64).div_ceil(slices);
        let params = SignTermsParams {
            weight_ones: self.weight_ones.view().check(4 * n as u128 * m as u128)?,
            input_ones: self.input_ones.check(4 * n as u128 * samples as u128)?,
            counts: self.counts.check(4 * m as u128 * samples as u128)?,
            n_inputs: size_u32(n, "number of inputs")?,
            n_neurons: size_u32(m, "number of neurons")?,
            n_samples: size_u32(samples, "number of samples")?,
            length: size_u32(self.length, "bits of a stream")?,
            neuron_tiles: size_u32(host_size(neuron_tiles), "tiles of neurons")?,
            slice: size_u32(host_size(slice), "inputs of a slice")?,
        };
        let y = size_u32(host_size((n as u64).div_ceil(slice.max(1))), "slices of inputs")?;
        let grid = Grid { x: Grid::row(tiles)?.x, y };
        let bytes = 4 * (n * m) as u64 * sample_tiles + 4 * (n * samples) as u64 * neuron_tiles;
        queue.launch(&kernels::SIGN_TERMS, grid, TERM_BYTES, &params, bytes)
    }
}
