//! Encoding many streams on several threads.

use crate::cost::Costs;
use crate::draws::{DrawKey, DrawSource, Draws};
use crate::memory::Scratch;
use crate::{Cpu, dispatch, recycle};
use aleatron_core::{
    Connections, Error, LayerSpec, Length, Quantity, Result, StreamAddress, StreamMatrix,
    Threshold, Topology, Weights, memory, weights,
};
use std::ops::Range;

/// Number of words of inputs encoded at a time, which limits the scratch memory of a batch of any
/// size.
const CHUNK_WORDS: usize = 1 << 20;

/// The least number of words that a thread takes at a time, below which taking them costs too much.
const MIN_GRAIN: usize = 256;

/// The largest number of words that a thread takes at a time, for an even distribution.
const MAX_GRAIN: usize = 4096;

/// The thresholds of streams.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Thresholds<'a> {
    /// Thresholds.
    Checked(&'a [Threshold]),
    /// Thresholds that may have signs, which are not encoded, or exceed that of the stream of ones.
    Signed(&'a [u64]),
}

impl<'a> Thresholds<'a> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Checked(thresholds) => thresholds.len(),
            Self::Signed(thresholds) => thresholds.len(),
        }
    }

    /// Returns some of the thresholds.
    fn range(self, range: Range<usize>) -> Self {
        match self {
            Self::Checked(thresholds) => Self::Checked(&thresholds[range]),
            Self::Signed(thresholds) => Self::Signed(&thresholds[range]),
        }
    }

    /// Returns groups of `n` thresholds, and the rest.
    fn chunks(self, n: usize) -> impl Iterator<Item = Self> + 'a {
        (0..self.len())
            .step_by(n.max(1))
            .map(move |start| self.range(start..self.len().min(start + n)))
    }
}

impl Cpu {
    /// Encodes one stream per threshold, at units `address.unit`, `address.unit + 1`, ….
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if they do not fit, [`Error::TooLarge`] if the units exceed 2^32.
    pub fn encode(
        &self,
        thresholds: &[Threshold],
        length: Length,
        address: StreamAddress,
    ) -> Result<StreamMatrix> {
        self.encode_rows(thresholds, thresholds.len(), length, address)
    }

    /// Encodes one stream per threshold of a matrix with `per_row` columns: column `i` of row `r`
    /// is drawn at unit `address.unit + i` of row `address.row + r`.
    ///
    /// # Errors
    /// As for [`Self::encode`], [`Error::Ragged`] unless the thresholds are whole rows,
    /// [`Error::TooLarge`] if the rows exceed 2^32.
    pub fn encode_rows(
        &self,
        thresholds: &[Threshold],
        per_row: usize,
        length: Length,
        address: StreamAddress,
    ) -> Result<StreamMatrix> {
        let mut streams = StreamMatrix::zeros(thresholds.len(), length)?;
        self.encode_rows_into(thresholds, per_row, length, address, streams.words_mut())?;
        Ok(streams)
    }

    /// Encodes like [`Self::encode_rows`], into words of the caller.
    ///
    /// # Errors
    /// As for [`Self::encode_rows`], [`Error::Mismatch`] unless `out` has exactly the words of the
    /// streams.
    pub fn encode_rows_into(
        &self,
        thresholds: &[Threshold],
        per_row: usize,
        length: Length,
        address: StreamAddress,
        out: &mut [u64],
    ) -> Result<()> {
        self.encode_thresholds(Thresholds::Checked(thresholds), per_row, length, address, out)
    }

    /// Encodes rows of thresholds of either form.
    fn encode_thresholds(
        &self,
        thresholds: Thresholds<'_>,
        per_row: usize,
        length: Length,
        address: StreamAddress,
        out: &mut [u64],
    ) -> Result<()> {
        if thresholds.len() == 0 {
            return check_words(out.len(), Some(0));
        }
        if !thresholds.len().is_multiple_of(per_row) {
            return Err(Error::Ragged {
                what: Quantity::Streams,
                actual: thresholds.len(),
                divisor: per_row,
            });
        }
        check_words(out.len(), thresholds.len().checked_mul(length.words()))?;
        check_counter(Quantity::Inputs, address.unit, per_row)?;
        check_counter(Quantity::Row, address.row, thresholds.len() / per_row)?;

        let rows = thresholds.len() / per_row;
        let grain = (out.len() / self.threads()).clamp(MIN_GRAIN, MAX_GRAIN);
        let per_item = (grain / length.words()).clamp(1, per_row);
        let key = DrawKey { tier: self.tier, address, rows, per_row, per_item, length };
        let mut source = key.source();
        let cost = Costs::of(self.tier).encode(out.len(), &source);
        let mut draws = source.items(&key);
        let mut items = Vec::with_capacity(rows * per_row.div_ceil(per_item));
        let outs = out.chunks_mut(per_row * length.words());
        for ((thresholds, out), row) in
            thresholds.chunks(per_row).zip(outs).zip(address.row..=u32::MAX)
        {
            let outs = out.chunks_mut(per_item * length.words());
            let units = (address.unit..=u32::MAX).step_by(per_item);
            let chunks = thresholds.chunks(per_item).zip(outs).zip(units);
            items.extend(chunks.zip(&mut draws).map(|(((thresholds, out), unit), draws)| {
                (thresholds, address.at_row(row).at_unit(unit), draws, out)
            }));
        }
        drop(draws);
        self.pool.for_each(items.into_iter(), cost, |(thresholds, address, draws, out)| {
            match thresholds {
                Thresholds::Checked(thresholds) => {
                    dispatch::encode(self.tier, thresholds, length, address, draws, out);
                }
                Thresholds::Signed(thresholds) => {
                    let thresholds: Vec<_> =
                        thresholds.iter().map(|&t| Threshold::saturating(t)).collect();
                    dispatch::encode(self.tier, &thresholds, length, address, draws, out);
                }
            }
        });
        key.store(source);
        Ok(())
    }

    /// Encodes samples of `per_row` inputs chunk by chunk, and concatenates the results of `count`,
    /// which receives the range of samples and their words and returns `n_neurons` counts for each
    /// sample.
    pub(crate) fn encode_in_chunks(
        &self,
        inputs: Thresholds<'_>,
        per_row: usize,
        length: Length,
        address: StreamAddress,
        n_neurons: usize,
        mut count: impl FnMut(Range<usize>, &mut [u64]) -> Result<Vec<u64>>,
    ) -> Result<Vec<u64>> {
        let rows = inputs.len() / per_row.max(1);
        check_counter(Quantity::Row, address.row, rows)?;
        if rows == 0 {
            return Ok(Vec::new());
        }
        let row_words = per_row * length.words();
        let per_chunk = (CHUNK_WORDS / row_words).clamp(1, rows);
        let mut words = Scratch::new(per_chunk * row_words, Quantity::EncodedInputs)?;
        if per_chunk == rows {
            self.encode_thresholds(inputs, per_row, length, address, &mut words)?;
            return count(0..rows, &mut words);
        }
        let mut counts = memory::with_capacity(rows as u128 * n_neurons as u128, Quantity::Counts)?;
        for (chunk, first) in inputs.chunks(per_chunk * per_row).zip((0..).step_by(per_chunk)) {
            let words = &mut words[..chunk.len() * length.words()];
            // Rows were checked to fit.
            let address = address.at_row(address.row.wrapping_add(first as u32));
            self.encode_thresholds(chunk, per_row, length, address, words)?;
            let counted = count(first..first + chunk.len() / per_row, words)?;
            counts.extend_from_slice(&counted);
            recycle::release(counted);
        }
        Ok(counts)
    }

    /// Draws the random weights of a layer on all threads; see [`Weights::random`].
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if they do not fit.
    pub fn random_weights(&self, spec: &LayerSpec, seed: u64) -> Result<Weights> {
        let per_row = match spec.topology() {
            Topology::Dense { n_inputs, .. } => *n_inputs,
            Topology::Conv(shape) => shape.kernel_weights(),
            _ => return Weights::random(spec, seed),
        };
        let mut values = memory::zeros(spec.n_weights() as u128, Quantity::Weights)?;
        // A weight takes about as long as eight pairs of words.
        let cost = Costs::of(self.tier).count(8 * values.len());
        let rows: Vec<_> = values.chunks_mut(per_row).zip(spec.first_neuron()..=u32::MAX).collect();
        self.pool.for_each(rows.into_iter(), cost, |(row, neuron)| {
            weights::fill_row(seed, spec.index(), neuron, spec.polarity(), row);
        });
        Weights::new(spec, values)
    }

    /// Encodes the weight streams of a sparse layer, one per connection: the streams of the same
    /// connections in a dense layer. `address` is that of input 0 at neuron 0.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] unless there is one threshold per connection and `out` has
    /// exactly the words, and [`Error::TooLarge`] if the units or rows exceed 2^32.
    pub fn encode_connections(
        &self,
        connections: &Connections,
        thresholds: &[Threshold],
        length: Length,
        address: StreamAddress,
        out: &mut [u64],
    ) -> Result<()> {
        let (expected, actual) = (connections.len(), thresholds.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Weights, expected, actual });
        }
        check_words(out.len(), expected.checked_mul(length.words()))?;
        check_counter(Quantity::Inputs, address.unit, connections.n_inputs())?;
        check_counter(Quantity::Row, address.row, connections.n_neurons())?;
        let cost = Costs::of(self.tier).encode(out.len(), &DrawSource::Generate);
        let mut rest = out;
        let mut items = Vec::with_capacity(connections.n_neurons());
        for (neuron, ends) in connections.offsets().windows(2).enumerate() {
            let (row, after) =
                std::mem::take(&mut rest).split_at_mut((ends[1] - ends[0]) * length.words());
            items.push((neuron, &thresholds[ends[0]..ends[1]], row));
            rest = after;
        }
        self.pool.for_each(items.into_iter(), cost, |(neuron, thresholds, out)| {
            let units = connections.inputs_of(neuron);
            let address = address.at_row(address.row + neuron as u32);
            // Neighbouring inputs are encoded together: registers hold the words of several
            // streams.
            let mut start = 0;
            for run in units.chunk_by(|a, b| a + 1 == *b) {
                let range = start..start + run.len();
                let out = &mut out[range.start * length.words()..range.end * length.words()];
                let first = address.at_unit(address.unit + run[0]);
                start = range.end;
                dispatch::encode(
                    self.tier,
                    &thresholds[range],
                    length,
                    first,
                    Draws::Generate,
                    out,
                );
            }
        });
        Ok(())
    }
}

pub(crate) fn check_words(actual: usize, expected: Option<usize>) -> Result<()> {
    if expected == Some(actual) {
        return Ok(());
    }
    Err(Error::Mismatch { what: Quantity::Words, expected: expected.unwrap_or(usize::MAX), actual })
}

/// Checks that `n` values from `first` on fit a counter word.
pub(crate) fn check_counter(what: Quantity, first: u32, n: usize) -> Result<()> {
    let (actual, limit) = (u128::from(first) + n as u128, 1 << 32);
    if actual > limit { Err(Error::TooLarge { what, actual, limit }) } else { Ok(()) }
}
