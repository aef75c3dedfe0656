//! Counting convolutions: the inputs under a kernel are gathered into rows, some positions at a time, and met with the rows of weights.
//!
//! A row of inputs lies in memory as a row of weights does, so that the kernels of dense layers count them. Rows of a block of positions
//! stay in a cache while all output channels of their group go by; nothing larger is ever copied. Taps in the padding are zeros in a row:
//! they share no ones with any weight.

use crate::cost::Costs;
use crate::dense::{matches, transpose_into};
use crate::memory::WordBuffer;
use crate::signed::{SignTable, Terms, TermsOf};
use crate::{Cpu, dispatch};
use aleatron_core::windows::Windows;
use aleatron_core::{ConvShape, Error, Length, Polarity, Quantity, Result, memory};
use std::ops::Range;

/// Words of gathered rows: they fill a part of a second-level cache.
const BLOCK_WORDS: usize = 1 << 15;

/// Positions gathered at a time, at least and at most.
const BLOCK_POSITIONS: [usize; 2] = [4, 64];

/// Items for each thread.
const ITEMS_PER_THREAD: usize = 4;

/// The weights of a convolution: rows of output channels by taps.
pub(crate) struct ConvWeights {
    shape: ConvShape,
    length: Length,
    polarity: Polarity,
    streams: WordBuffer,
    borders: Borders,
    groups: Vec<Group>,
}

/// Output channels that see the same inputs.
struct Group {
    first_input_channel: usize,
    channels: Range<usize>,
    signs: Option<SignTable>,
}

impl ConvWeights {
    /// The weights of packed streams; of a signed layer those of the magnitudes, and which of them are negative.
    pub(crate) fn new(
        cpu: &Cpu,
        shape: ConvShape,
        length: Length,
        polarity: Polarity,
        mut streams: WordBuffer,
        negative: &[bool],
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

    /// Positions gathered at a time.
    fn block(&self) -> usize {
        let [least, most] = BLOCK_POSITIONS;
        (BLOCK_WORDS / self.row_words()).clamp(least, most) / least * least
    }

    /// Counts some positions of a group in one sample: `counts` are positions by the channels of the group.
    fn count_positions(
        &self,
        cpu: &Cpu,
        group: &Group,
        sample: &Sample<'_>,
        positions: Range<usize>,
        counts: &mut [u64],
    ) -> Result<()> {
        let (row_words, taps, n_channels) =
            (self.row_words(), self.shape.kernel_weights(), group.channels.len());
        let weights = &self.streams[group.channels.start * row_words..group.channels.end * row_words];
        let block = self.block().min(positions.len());
        let mut rows = vec![0; block * row_words];
        for (start, counts) in positions.clone().step_by(block).zip(counts.chunks_mut(block * n_channels)) {
            let positions = start..positions.end.min(start + block);
            let rows = &mut rows[..positions.len() * row_words];
            let gather = Gather { shape: &self.shape, first_channel: group.first_input_channel };
            for (position, row) in positions.clone().zip(rows.chunks_exact_mut(row_words)) {
                gather.row(position, sample.words, self.length.words(), row);
            }
            cpu.count_block(row_words, rows, weights, counts);
            let by_position = positions.clone().zip(counts.chunks_exact_mut(n_channels));
            match (self.polarity, &group.signs, sample.terms) {
                (Polarity::Bipolar, ..) => {
                    for ((position, counts), row) in by_position.zip(rows.chunks_exact(row_words)) {
                        let x = dispatch::ones(cpu.tier, row);
                        let bits = self.shape.fan_in(position) as u64 * self.length.bits() as u64;
                        let of_weights = &self.borders.inside(position)[group.channels.clone()];
                        for (count, w) in counts.iter_mut().zip(of_weights) {
                            *count = matches(*count, *w, x, bits);
                        }
                    }
                }
                (Polarity::Signed, Some(signs), Some((terms, first))) => {
                    for (position, counts) in by_position {
                        let bits = self.shape.fan_in(position) as u64 * self.length.bits() as u64;
                        counts.iter_mut().for_each(|count| *count += bits);
                    }
                    let n_inputs = self.shape.n_inputs();
                    let terms = gather.terms(terms, first..first + n_inputs, positions.clone(), taps);
                    signs.take_away(cpu.tier, &terms, 0..positions.len(), 0..signs.n_blocks(), counts)?;
                }
                (Polarity::Unipolar, ..) => {}
                (Polarity::Signed, ..) => {
                    return Err(Error::Internal {
                        place: "cpu::conv::count_positions, signed layer without signs",
                    });
                }
            }
        }
        Ok(())
    }
}

/// The streams of a sample, and of a signed one the terms of several samples with the place of its first input among them.
struct Sample<'a> {
    words: &'a [u64],
    terms: Option<(&'a Terms, usize)>,
}

impl Cpu {
    /// The counts of a convolution, row-major of samples by neurons, for packed rows of samples by inputs; of a signed one with the terms of
    /// the inputs, whose negative streams are complemented.
    pub(crate) fn conv_counts(
        &self,
        weights: &ConvWeights,
        inputs: &[u64],
        terms: Option<&Terms>,
    ) -> Result<Vec<u64>> {
        let (shape, words) = (&weights.shape, weights.length.words());
        let (n_inputs, n_positions) = (shape.n_inputs(), shape.n_positions());
        let sample_words = n_inputs * words;
        if !inputs.len().is_multiple_of(sample_words) {
            return Err(Error::Ragged { what: Quantity::Words, actual: inputs.len(), divisor: sample_words });
        }
        let n_samples = inputs.len() / sample_words;
        let n_counts = n_samples as u128 * shape.n_outputs() as u128;
        // By sample, group, position and channel: a block of positions is a block of these.
        let mut by_position: Vec<u64> = memory::zeros(n_counts, Quantity::Counts)?;
        let mut counts = memory::zeros(n_counts, Quantity::Counts)?;
        let costs = Costs::of(self.tier);
        let products = shape.n_products().saturating_mul(words);
        let n_items = n_samples.saturating_mul(weights.groups.len()).max(1);
        let per_group = (ITEMS_PER_THREAD * self.threads()).div_ceil(n_items);
        let step = n_positions.div_ceil(per_group).next_multiple_of(weights.block());
        let mut items = Vec::new();
        let mut rest = &mut by_position[..];
        for (sample, inputs) in inputs.chunks_exact(sample_words).enumerate() {
            for group in &weights.groups {
                let n_channels = group.channels.len();
                let (counts, after) = std::mem::take(&mut rest).split_at_mut(n_positions * n_channels);
                for (counts, start) in counts.chunks_mut(step * n_channels).zip((0..).step_by(step)) {
                    let terms = terms.map(|terms| (terms, sample * n_inputs));
                    let positions = start..start + counts.len() / n_channels;
                    items.push((Sample { words: inputs, terms }, group, positions, counts));
                }
                rest = after;
            }
        }
        let cost = costs.count(products.saturating_mul(n_samples));
        self.pool.try_for_each(items.into_iter(), cost, |(sample, group, positions, counts)| {
            weights.count_positions(self, group, &sample, positions, counts)
        })?;
        // By sample, channel and position.
        let groups = weights.groups.iter().map(|group| group.channels.len()).cycle();
        let (mut from, mut to) = (&by_position[..], &mut counts[..]);
        let mut items = Vec::new();
        for n_channels in groups.take(n_samples * weights.groups.len()) {
            let (source, from_rest) = from.split_at(n_positions * n_channels);
            let (target, to_rest) = std::mem::take(&mut to).split_at_mut(n_positions * n_channels);
            items.push((source, n_channels, target));
            (from, to) = (from_rest, to_rest);
        }
        // An element takes about as long as four pairs of words.
        let cost = costs.count(by_position.len().saturating_mul(4));
        self.pool.for_each(items.into_iter(), cost, |(source, n_channels, target)| {
            transpose_into(source, n_channels, target);
        });
        Ok(counts)
    }
}

/// Gathers what the kernels of a group of channels see at a position.
struct Gather<'a> {
    shape: &'a ConvShape,
    first_channel: usize,
}

impl Gather<'_> {
    /// Writes what lies under the taps, `per_input` elements each, of an image; zeros in the padding.
    fn row<T: Copy + Default>(&self, position: usize, image: &[T], per_input: usize, row: &mut [T]) {
        let [over_rows, over_columns] = self.shape.windows();
        let (place, windows) =
            ([position / over_columns.len(), position % over_columns.len()], self.shape.windows());
        let [rows, columns] = [0, 1].map(|k: usize| windows[k].taps(place[k]));
        let [height, width] = self.shape.convolution().kernel;
        if rows.len() < height || columns.len() < width {
            row.fill(T::default());
        }
        let (Some(first_row), Some(first_column)) =
            (over_rows.at(place[0], rows.start), over_columns.at(place[1], columns.start))
        else {
            return;
        };
        let (n_rows, n_columns) = (over_rows.axis().size, over_columns.axis().size);
        let (row_step, column_step) = (over_rows.axis().dilation, over_columns.axis().dilation);
        for channel in 0..self.shape.group_inputs() {
            let image_row = (self.first_channel + channel) * n_rows + first_row;
            for (k, tap_row) in rows.clone().enumerate() {
                let from = (image_row + k * row_step) * n_columns + first_column;
                let to = (channel * height + tap_row) * width + columns.start;
                let to = &mut row[to * per_input..][..columns.len() * per_input];
                if column_step == 1 {
                    to.copy_from_slice(&image[from * per_input..][..to.len()]);
                    continue;
                }
                for (tap, to) in to.chunks_exact_mut(per_input).enumerate() {
                    to.copy_from_slice(&image[(from + tap * column_step) * per_input..][..per_input]);
                }
            }
        }
    }

    /// The terms under the taps at some positions, of the sample that has the terms of `inputs`.
    fn terms(&self, terms: &Terms, inputs: Range<usize>, positions: Range<usize>, taps: usize) -> Terms {
        match terms {
            Terms::Narrow(terms) => Terms::Narrow(self.terms_of(terms, inputs, positions, taps)),
            Terms::Wide(terms) => Terms::Wide(self.terms_of(terms, inputs, positions, taps)),
        }
    }

    fn terms_of<T: Copy + Default>(
        &self,
        terms: &TermsOf<T>,
        inputs: Range<usize>,
        positions: Range<usize>,
        taps: usize,
    ) -> TermsOf<T> {
        let gather = |all: &[T]| {
            let mut rows = vec![T::default(); positions.len() * taps];
            for (position, row) in positions.clone().zip(rows.chunks_exact_mut(taps)) {
                self.row(position, &all[inputs.clone()], 1, row);
            }
            rows
        };
        TermsOf { ones: gather(&terms.ones), masks: terms.masks.as_deref().map(gather) }
    }
}

/// Sums over the taps that lie inside the image, which are the same for all positions with the same taps inside.
pub(crate) struct Borders {
    /// The run of rows that each row of positions is in, and likewise for columns.
    row_runs: Vec<u32>,
    column_runs: Vec<u32>,
    n_channels: usize,
    /// By run of rows, run of columns and channel; empty where nothing is summed.
    sums: Vec<u64>,
}

impl Borders {
    /// The sums of `values`, one per weight.
    pub(crate) fn new(shape: &ConvShape, values: Option<&[u64]>) -> Result<Self> {
        let [over_rows, over_columns] = shape.windows();
        let runs = |windows: &Windows| -> Vec<Range<usize>> { windows.runs().collect() };
        let [rows, columns] = [runs(over_rows), runs(over_columns)];
        let numbers = |runs: &[Range<usize>]| -> Vec<u32> {
            (0..).zip(runs).flat_map(|(number, run)| std::iter::repeat_n(number, run.len())).collect()
        };
        let mut sums = Vec::new();
        if let Some(values) = values {
            let len = rows.len() as u128 * columns.len() as u128 * shape.n_channels() as u128;
            sums = memory::with_capacity(len, Quantity::Weights)?;
            let [height, width] = shape.convolution().kernel;
            for (rows, columns) in rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)))
            {
                let (rows, columns) = (over_rows.taps(rows.start), over_columns.taps(columns.start));
                for kernel in values.chunks_exact(shape.kernel_weights()) {
                    let planes = kernel.chunks_exact(height * width);
                    let inside = planes.flat_map(|plane| {
                        rows.clone().flat_map(|row| &plane[row * width..][columns.clone()])
                    });
                    sums.push(inside.sum());
                }
            }
        }
        let n_channels = shape.n_channels();
        Ok(Self { row_runs: numbers(&rows), column_runs: numbers(&columns), n_channels, sums })
    }

    /// The sums at a position, by channel.
    pub(crate) fn inside(&self, position: usize) -> &[u64] {
        let (row, column) = (position / self.column_runs.len(), position % self.column_runs.len());
        let n_columns = self.column_runs.last().map_or(0, |last| *last as usize + 1);
        let pattern = self.row_runs[row] as usize * n_columns + self.column_runs[column] as usize;
        &self.sums[pattern * self.n_channels..][..self.n_channels]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use aleatron_core::Convolution;

    /// Rows and sums as the shape says tap by tap.
    #[test]
    fn what_is_gathered_lies_under_the_taps() {
        let conv = Convolution::conv2d;
        for convolution in [
            conv([2, 4, 5], 3, [3, 2]).with_padding([1, 1]),
            conv([4, 5, 5], 2, [3, 3]).with_groups(2).with_stride([2, 1]).with_paddings([[0, 2], [3, 0]]),
            conv([1, 6, 7], 1, [2, 3]).with_dilation([2, 3]).with_padding([2, 2]),
            conv([1, 1, 1], 2, [1, 1]).with_padding([2, 1]),
        ] {
            let shape = ConvShape::new(convolution).unwrap();
            let taps = shape.kernel_weights();
            let image: Vec<u64> = (1..=2 * shape.n_inputs() as u64).collect();
            let values: Vec<u64> = (0..shape.n_weights() as u64).map(|k| k * k + 1).collect();
            let borders = Borders::new(&shape, Some(&values)).unwrap();
            for (first_channel, channels) in shape.groups() {
                for position in 0..shape.n_positions() {
                    let mut row = vec![u64::MAX; 2 * taps];
                    Gather { shape: &shape, first_channel }.row(position, &image, 2, &mut row);
                    let inputs = (0..taps).map(|tap| shape.input_at(first_channel, position, tap));
                    let expected: Vec<u64> = inputs
                        .clone()
                        .flat_map(|input| input.map_or([0, 0], |i| [image[2 * i], image[2 * i + 1]]))
                        .collect();
                    assert_eq!(row, expected, "{convolution:?}, position {position}");
                    for channel in channels.clone() {
                        let weights = &values[channel * taps..][..taps];
                        let sum: u64 =
                            inputs.clone().zip(weights).filter(|(i, _)| i.is_some()).map(|(_, w)| w).sum();
                        assert_eq!(borders.inside(position)[channel], sum);
                    }
                }
            }
        }
    }
}
