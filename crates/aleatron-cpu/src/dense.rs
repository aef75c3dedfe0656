//! Counting dense layers: tiles of neurons by samples by words.
//!
//! A row is one neuron's weight streams, or one sample's input streams, end to end: a count is the
//! number of ones that two rows share. For a batch the rows are divided into blocks of words that
//! stay in the caches while every pair of a tile is counted, so weights cross the memory bus once
//! per batch and not once per sample.

use crate::cost::Costs;
use crate::draws::DrawKey;
use crate::encode::{Thresholds, check_counter};
use crate::signed::{CountLayout, SignTable, Terms};
use crate::{Cpu, dispatch};
use aleatron_core::{
    DenseShape, Error, Polarity, Quantity, Result, StreamAddress, Threshold, memory,
};
use std::ops::Range;

/// Number of neurons and samples counted together in registers.
const TILE: usize = 4;

/// Number of words of a row counted at a time: a tile's rows and the samples they meet fill half of
/// a second-level cache, and the cost of summing sixteen registers after each block is negligible.
const BLOCK_WORDS: usize = 4096;

/// Number of samples counted at a time.
const BLOCK_SAMPLES: usize = 16;

/// Number of rows that a thread takes at a time.
const GRAIN: usize = 2 * TILE;

/// Number of words of weights that stay in a second-level cache while samples are counted.
const SMALL_LAYER: usize = 1 << 16;

/// Rows of weights, one for each neuron, with the correction from shared ones to counts.
#[derive(Clone, Copy)]
pub(crate) struct WeightRows<'a> {
    pub(crate) shape: &'a DenseShape,
    pub(crate) streams: &'a [u64],
    pub(crate) correction: Correction<'a>,
}

/// The correction from the ones that rows share to counts.
#[derive(Clone, Copy)]
pub(crate) enum Correction<'a> {
    /// No correction: the counts of a unipolar layer are the ones that rows share.
    Nothing,
    /// The ones of each row, for the matches of a bipolar layer.
    Ones(&'a [u64]),
    /// The signs, for the sums of a signed layer. The streams of negative weights are complemented.
    Signs(&'a SignTable),
}

impl<'a> WeightRows<'a> {
    /// Creates rows of a layer without signs.
    fn unsigned(shape: &'a DenseShape, streams: &'a [u64], ones: &'a [u64]) -> Result<Self> {
        for (what, actual, expected) in [
            (Quantity::Words, streams.len(), shape.weight_words()),
            (Quantity::Neurons, ones.len(), shape.n_neurons()),
        ] {
            if actual != expected {
                return Err(Error::Mismatch { what, expected, actual });
            }
        }
        let correction = match shape.polarity() {
            Polarity::Unipolar => Correction::Nothing,
            Polarity::Bipolar => Correction::Ones(ones),
            Polarity::Signed => {
                let (what, expected) = (Quantity::Signs, shape.n_weights());
                return Err(Error::Mismatch { what, expected, actual: 0 });
            }
        };
        Ok(Self { shape, streams, correction })
    }
}

impl Cpu {
    /// Counts a dense layer without signs, row-major of samples by neurons: `weights` are packed
    /// rows of neurons by inputs, `inputs` packed rows of samples by inputs, and `weight_ones` is
    /// [`Self::row_ones`] of the weights. Bits beyond the length must be zero; they are not
    /// checked, because checking all weights would cost as much as counting.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the weights are not those of the shape or need signs,
    /// [`Error::Ragged`] unless the inputs are whole samples, [`Error::Memory`] if the counts do
    /// not fit.
    pub fn dense_counts(
        &self,
        shape: &DenseShape,
        weights: &[u64],
        weight_ones: &[u64],
        inputs: &[u64],
    ) -> Result<Vec<u64>> {
        self.row_counts(&WeightRows::unsigned(shape, weights, weight_ones)?, inputs, None)
    }

    /// Counts a dense layer for rows of inputs; for a signed layer with the terms of the inputs,
    /// whose negative streams are complemented.
    pub(crate) fn row_counts(
        &self,
        rows: &WeightRows<'_>,
        inputs: &[u64],
        terms: Option<&Terms>,
    ) -> Result<Vec<u64>> {
        let (row_words, n_neurons) = (rows.shape.row_words(), rows.shape.n_neurons());
        if !inputs.len().is_multiple_of(row_words) {
            return Err(Error::Ragged {
                what: Quantity::Words,
                actual: inputs.len(),
                divisor: row_words,
            });
        }
        let n_samples = inputs.len() / row_words;
        let mut counts = self.shared_ones(row_words, rows.streams, inputs)?;
        let Correction::Signs(table) = rows.correction else {
            self.finish_block(rows, inputs, None, 0..n_samples, &mut counts)?;
            return Ok(counts);
        };
        // One term per weight, which costs about as much as a pair of words; divided among threads
        // by samples, or by the neurons of a single sample.
        let cost = Costs::of(self.tier).count(counts.len().saturating_mul(rows.shape.n_inputs()));
        if n_samples == 1 {
            let location = "cpu::dense::row_counts, signed layer without terms";
            let terms = terms.ok_or(Error::Internal { place: location })?;
            let step = table.n_blocks().div_ceil(self.threads());
            let mut rest = &mut counts[..];
            let mut items = Vec::new();
            for start in (0..table.n_blocks()).step_by(step) {
                let blocks = start..table.n_blocks().min(start + step);
                let (counts, after) =
                    std::mem::take(&mut rest).split_at_mut(table.rows_of(&blocks).len());
                items.push((blocks, counts));
                rest = after;
            }
            self.pool.try_for_each(items.into_iter(), cost, |(blocks, counts)| {
                offset(rows.shape, counts);
                let rows = terms.rows(0..1, rows.shape.n_inputs());
                table.subtract(self.tier, rows, blocks, CountLayout::ByInputRow, counts)
            })?;
            return Ok(counts);
        }
        let items = counts.chunks_mut(GRAIN * n_neurons).zip((0..n_samples).step_by(GRAIN));
        let items: Vec<_> = items
            .map(|(counts, first)| (first..first + counts.len() / n_neurons, counts))
            .collect();
        self.pool.try_for_each(items.into_iter(), cost, |(samples, counts)| {
            self.finish_block(rows, inputs, terms, samples, counts)
        })?;
        Ok(counts)
    }

    /// Encodes and counts inputs, row-major of samples by neurons: `inputs` are thresholds of
    /// samples by inputs, and input 0 of the first sample is drawn at `address`. Weights are as for
    /// [`Self::dense_counts`].
    ///
    /// # Errors
    /// As for [`Self::dense_counts`] and [`Self::encode_rows`].
    pub fn dense_counts_of(
        &self,
        shape: &DenseShape,
        weights: &[u64],
        weight_ones: &[u64],
        inputs: &[Threshold],
        address: StreamAddress,
    ) -> Result<Vec<u64>> {
        self.row_counts_of(
            &WeightRows::unsigned(shape, weights, weight_ones)?,
            inputs,
            &[],
            address,
        )
    }

    /// Encodes and counts inputs; for a signed layer, thresholds of their magnitudes with their
    /// signs.
    pub(crate) fn row_counts_of(
        &self,
        rows: &WeightRows<'_>,
        inputs: &[Threshold],
        negative: &[bool],
        address: StreamAddress,
    ) -> Result<Vec<u64>> {
        let WeightRows { shape, streams, correction } = *rows;
        let (per_row, row_words, length) = (shape.n_inputs(), shape.row_words(), shape.length());
        if !inputs.len().is_multiple_of(per_row) {
            return Err(Error::Ragged {
                what: Quantity::Inputs,
                actual: inputs.len(),
                divisor: per_row,
            });
        }
        let is_signed = matches!(correction, Correction::Signs(_));
        let terms_of = |samples: Range<usize>, words: &mut [u64]| {
            let negative = || &negative[samples.start * per_row..samples.end * per_row];
            is_signed.then(|| Terms::new(self.tier, words, length, negative()))
        };
        let n_samples = inputs.len() / per_row;
        if n_samples < 2 || streams.len() > SMALL_LAYER {
            let count = |samples: Range<usize>, words: &mut [u64]| {
                let terms = terms_of(samples, words);
                self.row_counts(rows, words, terms.as_ref())
            };
            let inputs = Thresholds::Checked(inputs);
            return self.encode_in_chunks(
                inputs,
                per_row,
                length,
                address,
                shape.n_neurons(),
                count,
            );
        }
        check_counter(Quantity::Row, address.row, n_samples)?;
        check_counter(Quantity::Inputs, address.unit, per_row)?;
        // The weights stay in each thread's cache: a thread encodes a few samples and counts them
        // immediately.
        let mut counts =
            memory::zeros(n_samples as u128 * shape.n_neurons() as u128, Quantity::Counts)?;
        let key = DrawKey {
            tier: self.tier,
            address,
            rows: n_samples,
            per_row,
            per_item: per_row,
            length,
        };
        let mut source = key.source();
        let costs = Costs::of(self.tier);
        let cost = costs.encode(n_samples.saturating_mul(row_words), &source)
            + costs.count(counts.len().saturating_mul(row_words));
        let samples = n_samples.div_ceil(self.threads()).clamp(1, GRAIN);
        let mut draws = source.items(&key);
        let mut items = Vec::with_capacity(n_samples.div_ceil(samples));
        let outs = counts.chunks_mut(samples * shape.n_neurons());
        for ((inputs, counts), first) in
            inputs.chunks(samples * per_row).zip(outs).zip((0..).step_by(samples))
        {
            let draws: Vec<_> = draws.by_ref().take(inputs.len() / per_row).collect();
            items.push((inputs, first, draws, counts));
        }
        drop(draws);
        self.pool.try_for_each(items.into_iter(), cost, |(inputs, first, draws, counts)| {
            let n_samples = inputs.len() / per_row;
            let mut words = vec![0; n_samples * row_words];
            let samples = inputs.chunks(per_row).zip(words.chunks_mut(row_words));
            // Rows were checked to fit.
            let addresses =
                (0..).map(|k| address.at_row(address.row.wrapping_add((first + k) as u32)));
            for (((inputs, words), draws), address) in samples.zip(draws).zip(addresses) {
                dispatch::encode(self.tier, inputs, length, address, draws, words);
            }
            let terms = terms_of(first..first + n_samples, &mut words);
            self.count_block(row_words, &words, streams, counts);
            self.finish_block(rows, &words, terms.as_ref(), 0..n_samples, counts)
        })?;
        key.store(source);
        Ok(counts)
    }

    /// Counts the ones of each row of `row_words` words.
    #[must_use]
    pub fn row_ones(&self, words: &[u64], row_words: usize) -> Vec<u64> {
        let rows = words.chunks_exact(row_words.max(1));
        let mut ones = vec![0; rows.len()];
        let cost = Costs::of(self.tier).count(words.len());
        self.pool.for_each(ones.iter_mut().zip(rows), cost, |(ones, row)| {
            *ones = dispatch::ones(self.tier, row)
        });
        ones
    }

    /// Converts the ones that some samples share with neurons to counts.
    fn finish_block(
        &self,
        rows: &WeightRows<'_>,
        inputs: &[u64],
        terms: Option<&Terms>,
        samples: Range<usize>,
        counts: &mut [u64],
    ) -> Result<()> {
        let shape = rows.shape;
        match rows.correction {
            Correction::Nothing => {}
            Correction::Ones(weight_ones) => {
                let bits = shape.n_inputs() as u64 * shape.length().bits() as u64;
                let inputs = inputs.chunks_exact(shape.row_words()).skip(samples.start);
                for (counts, x) in counts.chunks_exact_mut(shape.n_neurons()).zip(inputs) {
                    let x = dispatch::ones(self.tier, x);
                    for (count, w) in counts.iter_mut().zip(weight_ones) {
                        *count = matches(*count, *w, x, bits);
                    }
                }
            }
            Correction::Signs(table) => {
                let location = "cpu::dense::finish_block, signed layer without terms";
                let terms = terms.ok_or(Error::Internal { place: location })?;
                offset(shape, counts);
                let rows = terms.rows(samples, shape.n_inputs());
                table.subtract(
                    self.tier,
                    rows,
                    0..table.n_blocks(),
                    CountLayout::ByInputRow,
                    counts,
                )?;
            }
        }
        Ok(())
    }

    /// Counts the ones that each row of `inputs` shares with each row of `weights`.
    fn shared_ones(&self, row_words: usize, weights: &[u64], inputs: &[u64]) -> Result<Vec<u64>> {
        let (n_neurons, n_samples) = (weights.len() / row_words, inputs.len() / row_words);
        if n_samples == 0 {
            return Ok(Vec::new());
        }
        let mut counts = memory::zeros(n_neurons as u128 * n_samples as u128, Quantity::Counts)?;
        let cost = Costs::of(self.tier).count(counts.len().saturating_mul(row_words));
        if n_samples > n_neurons {
            // Threads divide the samples: a block of samples is a block of the result.
            let items = counts.chunks_mut(GRAIN * n_neurons).zip(inputs.chunks(GRAIN * row_words));
            self.pool.for_each(items, cost, |(counts, inputs)| {
                self.count_block(row_words, inputs, weights, counts);
            });
            return Ok(counts);
        }
        // Threads divide the neurons: a block of neurons is a block of the transposed result.
        let items = counts.chunks_mut(GRAIN * n_samples).zip(weights.chunks(GRAIN * row_words));
        self.pool.for_each(items, cost, |(counts, weights)| {
            self.count_block(row_words, weights, inputs, counts);
        });
        if n_samples <= 1 { Ok(counts) } else { transposed(&counts, n_samples) }
    }

    /// Adds to `counts`, rows by others, the ones that each row shares with each other row.
    pub(crate) fn count_block(
        &self,
        row_words: usize,
        rows: &[u64],
        others: &[u64],
        counts: &mut [u64],
    ) {
        let n_others = others.len() / row_words;
        self.count_windows(row_words, rows, others, n_others, |i| i * row_words, counts);
    }

    /// Adds to `counts`, rows by others, the ones that each row shares with each of `n_others`
    /// others, which start at the words that `start_of` returns and may overlap.
    pub(crate) fn count_windows(
        &self,
        row_words: usize,
        rows: &[u64],
        others: &[u64],
        n_others: usize,
        start_of: impl Fn(usize) -> usize,
        counts: &mut [u64],
    ) {
        // A single other row is read once: a cache does not help, and long runs prefetch best.
        let block_words = if n_others == 1 { row_words } else { BLOCK_WORDS };
        for start in (0..row_words).step_by(block_words) {
            let words = start..row_words.min(start + block_words);
            let row = |i: usize| &rows[i * row_words..][words.clone()];
            let other = |i: usize| &others[start_of(i)..][words.clone()];
            for first_other in (0..n_others).step_by(BLOCK_SAMPLES) {
                let last_other = n_others.min(first_other + BLOCK_SAMPLES);
                for (tile, counts) in counts.chunks_mut(TILE * n_others).enumerate() {
                    let n_rows = counts.len() / n_others;
                    let mut add = |r: usize, o: usize, ones: u64| counts[r * n_others + o] += ones;
                    let mut o = first_other;
                    while o < last_other {
                        // Full tiles of four by four if possible, otherwise one other row (or one
                        // pair) at a time.
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
                            let ones: [[u64; 1]; TILE] =
                                dispatch::tile(self.tier, rows, [other(o)]);
                            ones.iter().enumerate().for_each(|(r, &[n])| add(r, o, n));
                            o += 1;
                        } else {
                            for r in 0..n_rows {
                                add(
                                    r,
                                    o,
                                    dispatch::and_ones(self.tier, row(tile * TILE + r), other(o)),
                                );
                            }
                            o += 1;
                        }
                    }
                }
            }
        }
    }
}

/// Adds the initial value of the counts of a signed layer.
fn offset(shape: &DenseShape, counts: &mut [u64]) {
    let bits = shape.n_inputs() as u64 * shape.length().bits() as u64;
    counts.iter_mut().for_each(|count| *count += bits);
}

/// Returns the XNOR matches of streams with `w` and `x` ones that share `shared` of them, among
/// `bits`. Wraps instead of panicking for counts that no streams have.
#[inline]
pub(crate) fn matches(shared: u64, w: u64, x: u64, bits: u64) -> u64 {
    (bits + 2 * shared).wrapping_sub(w + x)
}

fn transposed(values: &[u64], columns: usize) -> Result<Vec<u64>> {
    let mut out = memory::zeros(values.len() as u128, Quantity::Counts)?;
    transpose_into(values, columns, &mut out);
    Ok(out)
}

/// Writes a matrix with `columns` columns in column-major order.
pub(crate) fn transpose_into(values: &[u64], columns: usize, out: &mut [u64]) {
    let rows = values.len() / columns.max(1);
    for (column, out) in out.chunks_exact_mut(rows.max(1)).enumerate() {
        for (out, row) in out.iter_mut().zip(values.chunks_exact(columns)) {
            *out = row[column];
        }
    }
}
