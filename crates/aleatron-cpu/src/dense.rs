//! Counting dense layers: tiles of neurons by samples by words.
//!
//! A row is one neuron's weight streams, or one sample's input streams, end to end: a count is the ones two rows share. For a
//! batch the rows are cut into blocks of words that stay in the caches while every pair of a tile is counted, so weights
//! cross the memory bus once per batch and not once per sample.

use crate::cost::Costs;
use crate::draws::DrawKey;
use crate::encode::check_counter;
use crate::{Cpu, dispatch};
use aleatron_core::{DenseShape, Error, Polarity, Quantity, Result, StreamAddress, Threshold, memory};

/// Neurons and samples counted together in registers.
const TILE: usize = 4;

/// Words of a row counted at a time: a tile's rows and the samples they meet fill half of a second-level cache, and adding up
/// sixteen registers of sums after each block costs next to nothing.
const BLOCK_WORDS: usize = 4096;

/// Samples counted at a time.
const BLOCK_SAMPLES: usize = 16;

/// Rows a thread takes at a time.
const GRAIN: usize = 2 * TILE;

/// Words of weights that stay in a second-level cache while samples go by.
const SMALL_LAYER: usize = 1 << 16;

impl Cpu {
    /// The counts of a dense layer, row-major of samples by neurons: `weights` are packed rows of neurons by inputs,
    /// `inputs` packed rows of samples by inputs, and `weight_ones` is [`Self::row_ones`] of the weights. Tails must be
    /// clean: checking those of all weights would cost as much as counting.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where the weights are not those of the shape, [`Error::Ragged`] where the inputs are not whole
    /// samples, [`Error::Memory`] where the counts do not fit.
    pub fn dense_counts(
        &self,
        shape: &DenseShape,
        weights: &[u64],
        weight_ones: &[u64],
        inputs: &[u64],
    ) -> Result<Vec<u64>> {
        let row_words = shape.row_words();
        shape_matches(shape, weights, weight_ones)?;
        if !inputs.len().is_multiple_of(row_words) {
            return Err(Error::Ragged { what: Quantity::Words, actual: inputs.len(), divisor: row_words });
        }
        let n_samples = inputs.len() / row_words;
        let mut counts = self.shared_ones(row_words, weights, inputs)?;
        self.match_block(shape, weight_ones, inputs, &mut counts);
        debug_assert_eq!(counts.len(), n_samples * shape.n_neurons());
        Ok(counts)
    }

    /// The counts of inputs that are yet to be encoded, row-major of samples by neurons: `inputs` are thresholds of samples by
    /// inputs, that of input 0 of the first sample is drawn at `address`. Weights are as for [`Self::dense_counts`].
    ///
    /// # Errors
    /// As [`Self::dense_counts`] and [`Self::encode_rows`].
    pub fn dense_counts_of(
        &self,
        shape: &DenseShape,
        weights: &[u64],
        weight_ones: &[u64],
        inputs: &[Threshold],
        address: StreamAddress,
    ) -> Result<Vec<u64>> {
        shape_matches(shape, weights, weight_ones)?;
        let (per_row, row_words, length) = (shape.n_inputs(), shape.row_words(), shape.length());
        if !inputs.len().is_multiple_of(per_row) {
            return Err(Error::Ragged { what: Quantity::Inputs, actual: inputs.len(), divisor: per_row });
        }
        let n_samples = inputs.len() / per_row;
        if n_samples < 2 || weights.len() > SMALL_LAYER {
            let count = |words: &[u64]| self.dense_counts(shape, weights, weight_ones, words);
            return self.encode_in_pieces(inputs, per_row, length, address, shape.n_neurons(), count);
        }
        check_counter(Quantity::Row, address.row, n_samples)?;
        check_counter(Quantity::Inputs, address.unit, per_row)?;
        // The weights stay in each thread's cache: a thread encodes a few samples and counts them at once.
        let mut counts = memory::zeros(n_samples as u128 * shape.n_neurons() as u128, Quantity::Counts)?;
        let key = DrawKey { tier: self.tier, address, rows: n_samples, per_row, per_item: per_row, length };
        let mut source = key.source();
        let costs = Costs::of(self.tier);
        let cost = costs.encode(n_samples.saturating_mul(row_words), &source)
            + costs.count(counts.len().saturating_mul(row_words));
        let samples = n_samples.div_ceil(self.threads()).clamp(1, GRAIN);
        let mut draws = source.items(&key);
        let mut items = Vec::with_capacity(n_samples.div_ceil(samples));
        let outs = counts.chunks_mut(samples * shape.n_neurons());
        let rows = (address.row..=u32::MAX).step_by(samples);
        for ((inputs, counts), row) in inputs.chunks(samples * per_row).zip(outs).zip(rows) {
            let draws: Vec<_> = draws.by_ref().take(inputs.len() / per_row).collect();
            items.push((inputs, row, draws, counts));
        }
        drop(draws);
        self.pool.for_each(items.into_iter(), cost, |(inputs, row, draws, counts)| {
            let mut words = vec![0; inputs.len() / per_row * row_words];
            let samples = inputs.chunks(per_row).zip(words.chunks_mut(row_words));
            for (((inputs, words), draws), row) in samples.zip(draws).zip(row..=u32::MAX) {
                dispatch::encode(self.tier, inputs, length, address.at_row(row), draws, words);
            }
            self.count_block(row_words, &words, weights, counts);
            self.match_block(shape, weight_ones, &words, counts);
        });
        key.store(source);
        Ok(counts)
    }

    /// The ones of each row of `row_words` words.
    #[must_use]
    pub fn row_ones(&self, words: &[u64], row_words: usize) -> Vec<u64> {
        let rows = words.chunks_exact(row_words.max(1));
        let mut ones = vec![0; rows.len()];
        let cost = Costs::of(self.tier).count(words.len());
        self.pool
            .for_each(ones.iter_mut().zip(rows), cost, |(ones, row)| *ones = dispatch::ones(self.tier, row));
        ones
    }

    /// Makes the ones that samples share with neurons the matches of a bipolar layer.
    fn match_block(&self, shape: &DenseShape, weight_ones: &[u64], inputs: &[u64], counts: &mut [u64]) {
        if shape.polarity() == Polarity::Unipolar {
            return;
        }
        let bits = shape.n_inputs() as u64 * shape.length().bits() as u64;
        for (counts, x) in
            counts.chunks_exact_mut(shape.n_neurons()).zip(inputs.chunks_exact(shape.row_words()))
        {
            let x = dispatch::ones(self.tier, x);
            for (count, w) in counts.iter_mut().zip(weight_ones) {
                *count = matches(*count, *w, x, bits);
            }
        }
    }

    /// The ones each row of `inputs` shares with each row of `weights`.
    fn shared_ones(&self, row_words: usize, weights: &[u64], inputs: &[u64]) -> Result<Vec<u64>> {
        let (n_neurons, n_samples) = (weights.len() / row_words, inputs.len() / row_words);
        if n_samples == 0 {
            return Ok(Vec::new());
        }
        let mut counts = memory::zeros(n_neurons as u128 * n_samples as u128, Quantity::Counts)?;
        let cost = Costs::of(self.tier).count(counts.len().saturating_mul(row_words));
        if n_samples > n_neurons {
            // Threads share the samples out: a block of samples is a block of the result.
            let items = counts.chunks_mut(GRAIN * n_neurons).zip(inputs.chunks(GRAIN * row_words));
            self.pool.for_each(items, cost, |(counts, inputs)| {
                self.count_block(row_words, inputs, weights, counts);
            });
            return Ok(counts);
        }
        // Threads share the neurons out: a block of neurons is a block of the transposed result.
        let items = counts.chunks_mut(GRAIN * n_samples).zip(weights.chunks(GRAIN * row_words));
        self.pool.for_each(items, cost, |(counts, weights)| {
            self.count_block(row_words, weights, inputs, counts);
        });
        if n_samples <= 1 { Ok(counts) } else { transposed(&counts, n_samples) }
    }

    /// Adds to `counts`, rows by others, the ones each row shares with each other.
    fn count_block(&self, row_words: usize, rows: &[u64], others: &[u64], counts: &mut [u64]) {
        let n_others = others.len() / row_words;
        // A single other row is read once: nothing is gained from a cache, and long runs prefetch best.
        let block_words = if n_others == 1 { row_words } else { BLOCK_WORDS };
        for start in (0..row_words).step_by(block_words) {
            let words = start..row_words.min(start + block_words);
            let row = |i: usize| &rows[i * row_words..][words.clone()];
            let other = |i: usize| &others[i * row_words..][words.clone()];
            for first_other in (0..n_others).step_by(BLOCK_SAMPLES) {
                let last_other = n_others.min(first_other + BLOCK_SAMPLES);
                for (tile, counts) in counts.chunks_mut(TILE * n_others).enumerate() {
                    let n_rows = counts.len() / n_others;
                    let mut add = |r: usize, o: usize, ones: u64| counts[r * n_others + o] += ones;
                    let mut o = first_other;
                    while o < last_other {
                        // Full tiles where there are four by four, else one other row (or one pair) at a time.
                        if n_rows == TILE && last_other - o >= TILE {
                            let rows = std::array::from_fn(|r| row(tile * TILE + r));
                            let others = std::array::from_fn(|i| other(o + i));
                            let ones: [[u64; TILE]; TILE] = dispatch::tile(self.tier, rows, others);
                            for (r, ones) in ones.iter().enumerate() {
                                ones.iter().enumerate().for_each(|(i, &n)| add(r, o + i, n));
                            }
                            o += TILE;
                        } else if n_rows == TILE {
                            let rows = std::array::from_fn(|r| row(tile * TILE + r));
                            let ones: [[u64; 1]; TILE] = dispatch::tile(self.tier, rows, [other(o)]);
                            ones.iter().enumerate().for_each(|(r, &[n])| add(r, o, n));
                            o += 1;
                        } else {
                            for r in 0..n_rows {
                                add(r, o, dispatch::and_ones(self.tier, row(tile * TILE + r), other(o)));
                            }
                            o += 1;
                        }
                    }
                }
            }
        }
    }
}

/// Checks that the weights are those of the shape.
fn shape_matches(shape: &DenseShape, weights: &[u64], weight_ones: &[u64]) -> Result<()> {
    for (what, actual, expected) in [
        (Quantity::Words, weights.len(), shape.weight_words()),
        (Quantity::Neurons, weight_ones.len(), shape.n_neurons()),
    ] {
        if actual != expected {
            return Err(Error::Mismatch { what, expected, actual });
        }
    }
    Ok(())
}

/// The XNOR matches of streams with `w` and `x` ones that share `shared` of them, among `bits`. Wraps, rather than
/// panics, for counts that no streams have.
#[inline]
pub(crate) fn matches(shared: u64, w: u64, x: u64, bits: u64) -> u64 {
    (bits + 2 * shared).wrapping_sub(w + x)
}

fn transposed(values: &[u64], columns: usize) -> Result<Vec<u64>> {
    let rows = values.len() / columns;
    let mut out = memory::with_capacity(values.len() as u128, Quantity::Counts)?;
    for column in 0..columns {
        out.extend((0..rows).map(|row| values[row * columns + column]));
    }
    Ok(out)
}
