//! Counting convolutions: the inputs under the kernel at some positions become rows, which are
//! counted like those of dense layers.
//!
//! Positions are divided into independent items. An item copies its part of the image by pixel
//! ([`panel::Region`]) and from there, some positions at a time, into a panel that stays in a cache
//! while it is multiplied with all output channels of its group.

mod borders;
mod panel;
mod terms;

pub(crate) use borders::Borders;

use crate::cost::Costs;
use crate::dense::matches;
use crate::memory::WordBuffer;
use crate::recycle;
use crate::signed::{CountLayout, SignTable};
use crate::{Cpu, dispatch};
use aleatron_core::threshold::is_negative;
use aleatron_core::{ConvShape, Error, Length, Polarity, Quantity, Result, memory};
use panel::{Panel, Region, column_step, reorder, resize};
use std::cell::Cell;
use std::ops::Range;
use terms::Terms;

/// Number of words of a panel: they fill a part of a second-level cache.
const PANEL_WORDS: usize = 1 << 15;

/// Minimum and maximum number of positions of a panel.
const PANEL_POSITIONS: [usize; 2] = [4, 64];

/// Number of words of the region of an item, unless a single position has more.
const REGION_WORDS: usize = 1 << 16;

/// Number of items for each thread.
const ITEMS_PER_THREAD: usize = 4;

/// The least number of positions of an item that is smaller than a row of positions.
const MIN_POSITIONS: usize = 32;

/// The weights of a convolution: rows of output channels by taps, in the order of panels.
pub(crate) struct ConvWeights {
    shape: ConvShape,
    length: Length,
    polarity: Polarity,
    streams: WordBuffer,
    borders: Borders,
    groups: Vec<Group>,
}

/// Output channels with the same inputs.
struct Group {
    first_input_channel: usize,
    channels: Range<usize>,
    signs: Option<SignTable>,
}

impl ConvWeights {
    /// Creates the weights from packed streams; for a signed layer those of the magnitudes, with
    /// their signs.
    pub(crate) fn new(
        cpu: &Cpu,
        shape: ConvShape,
        length: Length,
        polarity: Polarity,
        mut streams: WordBuffer,
        mut negative: Vec<bool>,
    ) -> Result<Self> {
        let (taps, words) = (shape.kernel_weights(), length.words());
        let borders = match polarity {
            Polarity::Bipolar => {
                let mut ones = memory::zeros(shape.n_weights() as u128, Quantity::Weights)?;
                dispatch::stream_ones(cpu.tier, &streams, words, &mut ones);
                Borders::new(&shape, Some(&ones))?
            }
            Polarity::Unipolar | Polarity::Signed => Borders::new(&shape, None)?,
        };
        streams.chunks_exact_mut(taps * words).for_each(|kernel| reorder(&shape, words, kernel));
        negative.chunks_exact_mut(taps).for_each(|kernel| reorder(&shape, 1, kernel));
        let mut groups = Vec::new();
        for (first_input_channel, channels) in shape.groups() {
            let signs = match polarity {
                Polarity::Unipolar | Polarity::Bipolar => None,
                Polarity::Signed => {
                    let weights = channels.start * taps..channels.end * taps;
                    let rows = &mut streams[weights.start * words..weights.end * words];
                    Some(SignTable::new(cpu, rows, taps, length, &negative[weights])?)
                }
            };
            groups.push(Group { first_input_channel, channels, signs });
        }
        Ok(Self { shape, length, polarity, streams, borders, groups })
    }

    fn row_words(&self) -> usize {
        self.shape.kernel_weights() * self.length.words()
    }

    /// Returns the words of all channels of a pixel of a group.
    fn pixel_words(&self) -> usize {
        self.shape.group_inputs() * self.length.words()
    }

    /// Returns the positions of a panel.
    fn panel_positions(&self) -> usize {
        let [least, most] = PANEL_POSITIONS;
        let per_position =
            column_step(&self.shape) * self.shape.convolution().kernel[0] * self.pixel_words();
        (PANEL_WORDS / per_position).clamp(least, most) / least * least
    }

    /// Divides the positions of a group into `n` items or more if that is worthwhile: whole rows of
    /// positions, or parts of one.
    fn items(&self, n: usize) -> Vec<Range<usize>> {
        let [_, n_rows, n_columns] = self.shape.output();
        let words = |rows: usize, columns: usize| {
            let end = (rows - 1) * n_columns + columns;
            Region::under(&self.shape, &(0..end)).len().saturating_mul(self.pixel_words())
        };
        let (mut rows, mut columns) = (n_rows, n_columns);
        let n_items = |rows: usize, columns: usize| {
            n_rows.div_ceil(rows).saturating_mul(n_columns.div_ceil(columns))
        };
        while rows > 1 && (words(rows, columns) > REGION_WORDS || n_items(rows, columns) < n) {
            rows = rows.div_ceil(2);
        }
        while rows == 1
            && columns > MIN_POSITIONS
            && (words(1, columns) > REGION_WORDS || n_items(1, columns) < n)
        {
            columns = columns.div_ceil(2);
        }
        let step = if rows == 1 { columns } else { rows * n_columns };
        let in_rows = |row: usize| {
            let end = n_rows.min(row + rows) * n_columns;
            (row * n_columns..end).step_by(step).map(move |start| start..end.min(start + step))
        };
        (0..n_rows).step_by(rows).flat_map(in_rows).collect()
    }

    /// Counts the positions of an item.
    fn count(&self, cpu: &Cpu, item: Item<'_>, scratch: &mut Scratch) -> Result<()> {
        let Item { group, sample, positions, mut counts } = item;
        let (row_words, pixel_words) = (self.row_words(), self.pixel_words());
        let weights =
            &self.streams[group.channels.start * row_words..group.channels.end * row_words];
        let Scratch { pixels, rows, starts, block: computed, terms } = scratch;
        let region = Region::under(&self.shape, &positions);
        let words = self.length.words();
        region.fill_streams(&self.shape, group.first_input_channel, sample.words, words, pixels)?;
        if group.signs.is_some() {
            terms.negative.clear();
            if sample.signs.has_negative() {
                let is_negative = |input| sample.signs.is_negative(input);
                region.fill(
                    &self.shape,
                    group.first_input_channel,
                    &mut terms.negative,
                    is_negative,
                )?;
            }
            terms.read(cpu.tier, self.length, pixels)?;
        }
        let mut panel = Panel::new(&self.shape);
        let block = self.panel_positions();
        for start in positions.clone().step_by(block) {
            let some = start..positions.end.min(start + block);
            panel.arrange(some.clone());
            panel.fill(&region, pixels, pixel_words, rows)?;
            let n = some.len();
            starts.clear();
            starts.extend(
                panel.starts.iter().map(|column| column * self.shape.convolution().kernel[0]),
            );
            resize(computed, group.channels.len() * n)?;
            computed.fill(0);
            cpu.count_windows(row_words, weights, rows, n, |k| starts[k] * pixel_words, computed);
            let bits =
                |position: usize| self.shape.fan_in(position) as u64 * self.length.bits() as u64;
            match (self.polarity, &group.signs) {
                (Polarity::Unipolar, ..) => {}
                (Polarity::Bipolar, ..) => {
                    for (k, position) in some.clone().enumerate() {
                        let x =
                            dispatch::ones(cpu.tier, &rows[starts[k] * pixel_words..][..row_words]);
                        let of_weights = &self.borders.inside(position)[group.channels.clone()];
                        for (count, w) in computed[k..].iter_mut().step_by(n).zip(of_weights) {
                            *count = matches(*count, *w, x, bits(position));
                        }
                    }
                }
                (Polarity::Signed, Some(signs)) => {
                    let offsets: Vec<u64> = some.clone().map(bits).collect();
                    for counts in computed.chunks_exact_mut(n) {
                        counts.iter_mut().zip(&offsets).for_each(|(count, bits)| *count += bits);
                    }
                    let inputs = self.shape.group_inputs();
                    starts.iter_mut().for_each(|start| *start *= inputs);
                    let rows = terms.rows(self.length, &panel, &region, inputs, starts)?;
                    signs.subtract(
                        cpu.tier,
                        rows,
                        0..signs.n_blocks(),
                        CountLayout::ByWeightRow,
                        computed,
                    )?;
                }
                (Polarity::Signed, ..) => {
                    return Err(Error::Internal {
                        place: "cpu::conv::count, signed layer without signs",
                    });
                }
            }
            let at = start - positions.start;
            for (counts, computed) in counts.iter_mut().zip(computed.chunks_exact(n)) {
                counts[at..at + n].copy_from_slice(computed);
            }
        }
        Ok(())
    }
}

/// Some positions of one group in one sample.
struct Item<'a> {
    group: &'a Group,
    sample: Sample<'a>,
    positions: Range<usize>,
    /// The counts, by channel of the group.
    counts: Vec<&'a mut [u64]>,
}

/// The streams of a sample and their signs.
#[derive(Clone, Copy)]
struct Sample<'a> {
    words: &'a [u64],
    signs: InputSigns<'a>,
}

/// The signs of input streams.
#[derive(Clone, Copy)]
pub(crate) enum InputSigns<'a> {
    /// No input is negative.
    None,
    /// The marked inputs are negative.
    Flags(&'a [bool]),
    /// The highest bit of a threshold is its sign.
    Thresholds(&'a [u64]),
}

impl<'a> InputSigns<'a> {
    /// Returns the signs of some of the inputs.
    pub(crate) fn range(self, range: Range<usize>) -> Self {
        match self {
            Self::None => Self::None,
            Self::Flags(negative) => Self::Flags(&negative[range]),
            Self::Thresholds(thresholds) => Self::Thresholds(&thresholds[range]),
        }
    }

    /// Returns whether any input is negative; without branches, so that the loops run in vector
    /// registers.
    fn has_negative(self) -> bool {
        match self {
            Self::None => false,
            Self::Flags(negative) => {
                negative.iter().fold(false, |any, &is_negative| any | is_negative)
            }
            Self::Thresholds(thresholds) => {
                is_negative(thresholds.iter().fold(0, |any, threshold| any | threshold))
            }
        }
    }

    fn is_negative(self, input: usize) -> bool {
        match self {
            Self::None => false,
            Self::Flags(negative) => negative[input],
            Self::Thresholds(thresholds) => is_negative(thresholds[input]),
        }
    }
}

/// Memory of a thread that counts items, reused for the next item.
#[derive(Default)]
struct Scratch {
    pixels: Vec<u64>,
    rows: Vec<u64>,
    starts: Vec<usize>,
    block: Vec<u64>,
    terms: Terms,
}

thread_local! {
    static SCRATCH: Cell<Scratch> = Cell::default();
}

impl Cpu {
    /// Counts a convolution, row-major of samples by neurons, for packed rows of samples by inputs;
    /// for a signed layer with the signs of the inputs.
    pub(crate) fn conv_counts(
        &self,
        weights: &ConvWeights,
        inputs: &[u64],
        signs: InputSigns<'_>,
    ) -> Result<Vec<u64>> {
        let (shape, words) = (&weights.shape, weights.length.words());
        let (n_inputs, n_positions) = (shape.n_inputs(), shape.n_positions());
        let sample_words = n_inputs * words;
        if !inputs.len().is_multiple_of(sample_words) {
            return Err(Error::Ragged {
                what: Quantity::Words,
                actual: inputs.len(),
                divisor: sample_words,
            });
        }
        let n_samples = inputs.len() / sample_words;
        let mut counts =
            recycle::take(n_samples as u128 * shape.n_outputs() as u128, Quantity::Counts)?;
        let n_items = n_samples.saturating_mul(weights.groups.len()).max(1);
        let wanted = if self.threads() == 1 { 1 } else { ITEMS_PER_THREAD * self.threads() };
        let ranges = weights.items(wanted.div_ceil(n_items));
        let mut items = Vec::with_capacity(n_items.saturating_mul(ranges.len()));
        let samples =
            inputs.chunks_exact(sample_words).zip(counts.chunks_exact_mut(shape.n_outputs()));
        for (k, (words, counts)) in samples.enumerate() {
            let sample = Sample { words, signs: signs.range(k * n_inputs..(k + 1) * n_inputs) };
            let mut channels = counts.chunks_exact_mut(n_positions);
            for group in &weights.groups {
                let first = items.len();
                items.extend(ranges.iter().map(|positions| {
                    let counts = Vec::with_capacity(group.channels.len());
                    Item { group, sample, positions: positions.clone(), counts }
                }));
                for mut channel in channels.by_ref().take(group.channels.len()) {
                    for item in &mut items[first..] {
                        let (counts, rest) =
                            std::mem::take(&mut channel).split_at_mut(item.positions.len());
                        item.counts.push(counts);
                        channel = rest;
                    }
                }
            }
        }
        let products = shape.n_products().saturating_mul(words);
        let cost = Costs::of(self.tier).count(products.saturating_mul(n_samples));
        self.pool.try_for_each(items.into_iter(), cost, |item| {
            let mut scratch = SCRATCH.take();
            let computed = weights.count(self, item, &mut scratch);
            SCRATCH.set(scratch);
            computed
        })?;
        Ok(counts)
    }
}

#[cfg(test)]
mod tests;
