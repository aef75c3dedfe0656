//! Layers whose streams share sequences, counted from tables instead of bits; see
//! [`aleatron_core::generator`].
//!
//! The cost of a layer is one look-up per product, whatever the length: with one pair of sequences
//! for all, in the rows of one table; with one pair per input, in a row computed for each sample
//! and input. Tables of signed layers are those of magnitudes, and entries are added or subtracted.

use crate::error::Error;
use crate::{Cpu, Tier, dispatch};
use aleatron_core::generator::{CountTable, Pairing, PrefixCounts, Sharing, Width};
use aleatron_core::threshold::{is_negative, magnitude};
use aleatron_core::{DenseShape, Error as CoreError, Length, Polarity, Quantity, memory};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// The largest number of samples in a tile: samples with equal thresholds share a row.
const GROUP: usize = 64;

/// The limit of sums of signed entries of 16 bits.
pub(crate) const MAX_NARROW_SUM: usize = i16::MAX as usize;

/// The weights of a dense layer with shared sequences, prepared for [`Cpu::table_counts`].
#[derive(Debug, Clone)]
pub struct TabledWeights {
    shape: DenseShape,
    input_width: Width,
    /// By input, then by neuron: the neurons of one input are looked up in one row.
    thresholds: Vec<u16>,
    rows: Rows,
}

#[derive(Debug, Clone)]
enum Rows {
    OneForAll(Tables),
    OnePerInput(Vec<PrefixCounts>),
}

/// The table of one pair of sequences, and for signed layers its negative.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    table: CountTable,
    negative: Option<CountTable>,
}

impl Tables {
    /// Creates the tables of a polarity.
    pub(crate) fn new(table: CountTable, polarity: Polarity) -> Result<Self, CoreError> {
        let negative = match polarity {
            Polarity::Unipolar | Polarity::Bipolar => None,
            Polarity::Signed => Some(table.negative()?),
        };
        Ok(Self { table, negative })
    }

    /// Returns the row of a signed threshold: entries of a negative one are signed integers.
    pub(crate) fn row(&self, threshold: u64) -> &[u32] {
        match &self.negative {
            Some(negative) if is_negative(threshold) => negative.row(magnitude(threshold)),
            _ => self.table.row(magnitude(threshold)),
        }
    }

    /// Returns the rows of all thresholds without signs, one after the other, and their length.
    /// Entries are at most the stream length, which fits 16 bits.
    pub(crate) fn narrow_rows(&self) -> Result<(usize, Vec<u16>), CoreError> {
        let counts = self.table.counts();
        let mut rows = memory::with_capacity(counts.len() as u128, Quantity::CountTable)?;
        rows.extend(counts.iter().map(|&count| count as u16));
        Ok((self.table.row(0).len(), rows))
    }
}

/// Converts a threshold of at most 12 bits and one more to an index, with its sign in the highest
/// bit.
pub(crate) fn index(threshold: u64) -> u16 {
    let sign = if is_negative(threshold) { dispatch::NEGATIVE_ENTRY } else { 0 };
    magnitude(threshold) as u16 | sign
}

impl TabledWeights {
    /// Creates the layer of `shape` with weights of the given thresholds, row-major by neuron;
    /// thresholds of a signed layer have signs, see [`aleatron_core::threshold::NEGATIVE`].
    ///
    /// # Errors
    /// Returns [`CoreError::Mismatch`] for the number of weights, [`CoreError::OutOfRange`] with
    /// the index of a threshold above `2^W`, [`CoreError::TooLarge`] for a sequence too wide for a
    /// table or a missing sequence, and for [`Sharing::OnePerStream`], which only bit-by-bit
    /// counting supports; [`CoreError::Memory`] if the tables do not fit.
    pub fn new(shape: DenseShape, pairing: &Pairing, thresholds: &[u64]) -> Result<Self, Error> {
        let (n, m) = (shape.n_inputs(), shape.n_neurons());
        if thresholds.len() != shape.n_weights() {
            let (expected, actual) = (shape.n_weights(), thresholds.len());
            return Err(CoreError::Mismatch { what: Quantity::Weights, expected, actual }.into());
        }
        let (length, polarity) = (shape.length(), shape.polarity());
        pairing.weights.width().check_thresholds(thresholds, polarity, Quantity::Weight)?;
        let rows = match pairing.sharing {
            Sharing::OneForAll => {
                let table = CountTable::new(&pairing.inputs, &pairing.weights, length, polarity)?;
                Rows::OneForAll(Tables::new(table, polarity)?)
            }
            Sharing::OnePerInput => {
                let (inputs, weights) = (pairing.inputs.siblings(), pairing.weights.siblings());
                let prefixes = |input| -> Result<PrefixCounts, CoreError> {
                    PrefixCounts::new(&inputs.nth(input)?, &weights.nth(input)?, length, polarity)
                };
                Rows::OnePerInput((0..n).map(prefixes).collect::<Result<_, _>>()?)
            }
            Sharing::OnePerStream => {
                let (actual, limit) = (shape.n_weights() as u128, n as u128);
                return Err(CoreError::TooLarge { what: Quantity::Sequence, actual, limit }.into());
            }
        };
        let by_input = (0..n).flat_map(|input| (0..m).map(move |neuron| neuron * n + input));
        let thresholds = by_input.map(|k| index(thresholds[k])).collect();
        Ok(Self { shape, input_width: pairing.inputs.width(), thresholds, rows })
    }

    /// Returns the shape of the layer.
    #[must_use]
    pub fn shape(&self) -> &DenseShape {
        &self.shape
    }

    /// Returns the thresholds of some neurons at an input.
    fn thresholds(&self, input: usize, neurons: &Range<usize>) -> &[u16] {
        let first = input * self.shape.n_neurons();
        &self.thresholds[first + neurons.start..first + neurons.end]
    }

    /// Sums the counts of one tile.
    fn fill(&self, tier: Tier, tile: Tile<'_>) {
        let (n, neurons) = (self.shape.n_inputs(), &tile.neurons);
        let is_signed = self.shape.polarity() == Polarity::Signed;
        if is_signed {
            tile.counts.fill(n as u64 * self.shape.length().bits() as u64);
        }
        match &self.rows {
            Rows::OneForAll(tables) => {
                let samples =
                    tile.inputs.chunks_exact(n).zip(tile.counts.chunks_exact_mut(neurons.len()));
                for (inputs, counts) in samples {
                    let rows: Vec<&[u32]> =
                        inputs.iter().map(|&threshold| tables.row(threshold)).collect();
                    let thresholds = |input: usize| self.thresholds(input, neurons);
                    add_rows(
                        tier,
                        self.shape.length(),
                        self.shape.polarity(),
                        &rows,
                        thresholds,
                        counts,
                    );
                }
            }
            Rows::OnePerInput(prefixes) => {
                let mut rows = Vec::new();
                for (input, prefixes) in prefixes.iter().enumerate() {
                    let (len, mut known) = (prefixes.row_len(), BTreeMap::new());
                    rows.clear();
                    let samples = tile.inputs.chunks_exact(n).map(|inputs| inputs[input]);
                    for (threshold, counts) in
                        samples.zip(tile.counts.chunks_exact_mut(neurons.len()))
                    {
                        let first = *known.entry(magnitude(threshold)).or_insert(rows.len());
                        if first == rows.len() {
                            prefixes.append_row(magnitude(threshold), &mut rows);
                        }
                        let (row, thresholds) =
                            (&rows[first..first + len], self.thresholds(input, neurons));
                        match is_signed {
                            false => add_one(row, thresholds, counts),
                            true => {
                                let sign = if is_negative(threshold) { -1 } else { 1 };
                                add_one_signed(row, sign, thresholds, counts);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Estimates the cost of `samples` on one thread; only the order of magnitude matters.
    fn cost(&self, samples: usize) -> Duration {
        let per_input = match &self.rows {
            Rows::OneForAll(_) => 0,
            Rows::OnePerInput(prefixes) => {
                self.shape.length().bits() + prefixes.first().map_or(0, PrefixCounts::row_len)
            }
        };
        let steps = samples as u128
            * self.shape.n_inputs() as u128
            * (self.shape.n_neurons() + per_input) as u128;
        Duration::from_nanos(steps.min(1 << 40) as u64)
    }
}

/// Some samples and neurons of a layer.
struct Tile<'a> {
    inputs: &'a [u64],
    neurons: Range<usize>,
    counts: &'a mut [u64],
}

impl<'a> Tile<'a> {
    /// Splits one sample's tile into tiles of `step` neurons.
    fn split(self, step: usize) -> impl Iterator<Item = Tile<'a>> {
        let (inputs, starts) = (self.inputs, self.neurons.step_by(step));
        let parts = starts.zip(self.counts.chunks_mut(step));
        parts.map(move |(start, counts)| Tile {
            inputs,
            neurons: start..start + counts.len(),
            counts,
        })
    }
}

/// Adds the entries of a row for each input to the counts, `thresholds` being those of the counts
/// at an input.
pub(crate) fn add_rows<'t>(
    tier: Tier,
    length: Length,
    polarity: Polarity,
    rows: &[&[u32]],
    thresholds: impl Fn(usize) -> &'t [u16],
    counts: &mut [u64],
) {
    let (fours, rest) = rows.as_chunks::<4>();
    // A count is at most the length, so this number of entries fits a sum of 16 bits, one of which
    // is the sign if there are signs.
    let is_signed = polarity == Polarity::Signed;
    let most = if is_signed { MAX_NARROW_SUM } else { usize::from(u16::MAX) };
    let together = most / (4 * length.bits());
    let add_one = |row: &[u32], thresholds: &[u16], counts: &mut [u64]| match is_signed {
        false => add_one(row, thresholds, counts),
        true => add_one_signed(row, 1, thresholds, counts),
    };
    let mut sums = vec![0u16; counts.len()];
    for (group, fours) in fours.chunks(together.max(1)).enumerate() {
        sums.fill(0);
        for (k, &rows) in fours.iter().enumerate() {
            let first = 4 * (group * together.max(1) + k);
            let thresholds: [&[u16]; 4] = std::array::from_fn(|i| thresholds(first + i));
            match (together, is_signed) {
                (0, _) => rows.iter().zip(thresholds).for_each(|(row, t)| add_one(row, t, counts)),
                (_, false) => dispatch::look_up(tier, rows, thresholds, &mut sums),
                (_, true) => dispatch::look_up_signed(tier, rows, thresholds, &mut sums),
            }
        }
        match is_signed {
            false => {
                counts.iter_mut().zip(&sums).for_each(|(count, &sum)| *count += u64::from(sum))
            }
            true => {
                let sums = sums.iter().map(|&sum| i64::from(sum as i16) as u64);
                counts
                    .iter_mut()
                    .zip(sums)
                    .for_each(|(count, sum)| *count = count.wrapping_add(sum));
            }
        }
    }
    for (k, row) in rest.iter().enumerate() {
        add_one(row, thresholds(4 * fours.len() + k), counts);
    }
}

fn add_one(row: &[u32], thresholds: &[u16], counts: &mut [u64]) {
    for (count, &t) in counts.iter_mut().zip(thresholds) {
        *count += u64::from(row[usize::from(t)]);
    }
}

/// Adds entries times `sign`, or subtracts them if the threshold is negative. Entries are signed
/// integers.
fn add_one_signed(row: &[u32], sign: i64, thresholds: &[u16], counts: &mut [u64]) {
    for (count, &t) in counts.iter_mut().zip(thresholds) {
        let entry = sign * i64::from(row[usize::from(t & !dispatch::NEGATIVE_ENTRY)] as i32);
        let is_negative = t & dispatch::NEGATIVE_ENTRY != 0;
        *count = count.wrapping_add(if is_negative { -entry } else { entry } as u64);
    }
}

impl Cpu {
    /// Counts a layer for inputs of the given thresholds, samples one after the other: the counts
    /// equal those of the streams that the layer's pairing encodes.
    ///
    /// # Errors
    /// Returns [`CoreError::Ragged`] if the inputs are not whole samples, [`CoreError::OutOfRange`]
    /// with the index of a threshold past `2^W`, [`CoreError::Memory`] if the counts do not fit.
    pub fn table_counts(&self, weights: &TabledWeights, inputs: &[u64]) -> Result<Vec<u64>, Error> {
        let shape = weights.shape();
        let (n, m, samples) =
            (shape.n_inputs(), shape.n_neurons(), shape.samples_in(inputs.len())?);
        weights.input_width.check_thresholds(inputs, shape.polarity(), Quantity::Value)?;
        let mut counts = memory::zeros(samples as u128 * m as u128, Quantity::Counts)?;

        let threads = self.threads();
        let tiles: Vec<Tile<'_>> = if samples < threads {
            let step = m.div_ceil(threads);
            let samples = inputs.chunks_exact(n).zip(counts.chunks_exact_mut(m));
            samples
                .flat_map(|(inputs, counts)| Tile { inputs, neurons: 0..m, counts }.split(step))
                .collect()
        } else {
            let step = samples.div_ceil(threads).clamp(1, GROUP);
            let tile = |(inputs, counts)| Tile { inputs, neurons: 0..m, counts };
            inputs.chunks(step * n).zip(counts.chunks_mut(step * m)).map(tile).collect()
        };
        self.pool.for_each(tiles.into_iter(), weights.cost(samples), |tile| {
            weights.fill(self.tier, tile)
        });
        Ok(counts)
    }
}
