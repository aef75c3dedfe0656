//! Dense layers of signed operands as one product of AND: streams that are complemented where
//! operands are negative, and the terms of the signs, which are taken off the counts.

use crate::driver::{DeviceBuffer, Grid, View, kernels};
use crate::error::Result;
use crate::kernels::{ComplementParams, RowPart, SignTermsParams};
use crate::queue::Queue;
use crate::size::size_u32;

/// Threads of a block of the kernels here.
const THREADS: u64 = 256;

/// Neurons and samples of a tile of the kernel that takes terms off.
const TERM_TILE: usize = 64;

/// Bytes of shared memory of that kernel: the ones of 32 inputs of the operands of a tile, padded.
const TERM_BYTES: u32 = 2 * 32 * (64 + 4) * 4;

/// Inputs of a slice at least: fewer are not worth a block.
const LEAST_SLICE: usize = 128;

/// Blocks that fill a card.
const WANTED_BLOCKS: u64 = 512;

/// Complements the streams of negative operands in `rows`, and writes the ones of every stream,
/// less than 0 where it was complemented, to `ones`. Rows must be whole: one part.
pub(crate) fn complement(
    queue: &Queue<'_>,
    part: RowPart,
    n_rows: usize,
    thresholds: View<'_>,
    rows: View<'_>,
    ones: View<'_>,
) -> Result<()> {
    let n = n_rows as u64 * u64::from(part.n_units);
    let lanes = part.stream_words.next_power_of_two().min(32);
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
    queue.launch(&kernels::COMPLEMENT, grid, 0, &params, 2 * bytes + 12 * n)
}

/// The signs of the operands of a chunk.
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
    /// Gives the taking off of the terms to a queue.
    pub(crate) fn give(&self, queue: &Queue<'_>) -> Result<()> {
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
            neuron_tiles: size_u32(host(neuron_tiles), "tiles of neurons")?,
            slice: size_u32(host(slice), "inputs of a slice")?,
        };
        let y = size_u32(host((n as u64).div_ceil(slice.max(1))), "slices of inputs")?;
        let grid = Grid { x: Grid::row(tiles)?.x, y };
        let bytes = 4 * (n * m) as u64 * sample_tiles + 4 * (n * samples) as u64 * neuron_tiles;
        queue.launch(&kernels::SIGN_TERMS, grid, TERM_BYTES, &params, bytes)
    }
}

fn host(n: u64) -> usize {
    crate::size::host_size(n)
}
