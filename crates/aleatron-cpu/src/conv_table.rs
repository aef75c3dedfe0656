//! Convolutions whose streams share one pair of sequences, counted from tables instead of bits.
//!
//! A weight looks up the counts of one tap for all positions at once: its row of the table stays in registers while the thresholds of the
//! inputs under the tap go by. They lie one after the other, whatever the stride: the padded image is kept as one plane for each place within a
//! stride. Rows of positions are as wide as rows of such a plane, and what is looked up between two of them is left out at the end.

use crate::Cpu;
use crate::conv::Borders;
use crate::dispatch::LOOK_UP_LANES;
use crate::table::{Tables, add_rows, index};
use aleatron_core::generator::{CountTable, Pairing, Width};
use aleatron_core::threshold::magnitude;
use aleatron_core::{ConvShape, Error, Length, Polarity, Quantity, Result, memory};
use std::time::Duration;

/// Thresholds kept in planes at a time.
const PLANE_PLACES: usize = 1 << 22;

/// A convolution with weights that look counts up.
pub(crate) struct TabledConv {
    shape: ConvShape,
    length: Length,
    polarity: Polarity,
    input_width: Width,
    planes: Planes,
    /// A row for each threshold of a weight, over the thresholds of inputs.
    tables: Tables,
    /// By output channel and tap.
    weights: Vec<u64>,
    /// What the taps inside the image look up under an input of 0, where that is anything: bipolar products match zeros.
    zeros: Option<Borders>,
}

impl TabledConv {
    /// Whether the planes of a convolution are in proportion to its inputs and outputs.
    pub(crate) fn suits(shape: &ConvShape) -> bool {
        let planes = Planes::new(shape);
        planes.places() <= 16 * (shape.n_inputs() as u128 + shape.n_outputs() as u128) + (1 << 16)
    }

    /// The convolution with weights of the given thresholds, by output channel and tap, with signs where it has them.
    pub(crate) fn new(
        shape: ConvShape,
        length: Length,
        polarity: Polarity,
        pairing: &Pairing,
        weights: Vec<u64>,
    ) -> Result<Self> {
        pairing.weights.width().check_thresholds(&weights, polarity, Quantity::Weight)?;
        let table = CountTable::new(&pairing.weights, &pairing.inputs, length, polarity)?;
        let zeros = match polarity {
            Polarity::Unipolar | Polarity::Signed => None,
            Polarity::Bipolar => {
                let zeros: Vec<u64> = weights.iter().map(|&weight| table.get(weight, 0)).collect();
                Some(Borders::new(&shape, Some(&zeros))?)
            }
        };
        let (tables, planes) = (Tables::new(table, polarity)?, Planes::new(&shape));
        let input_width = pairing.inputs.width();
        Ok(Self { shape, length, polarity, input_width, planes, tables, weights, zeros })
    }

    /// The counts of an output channel in a sample.
    fn count_channel(&self, cpu: &Cpu, planes: &[u16], channel: usize, counts: &mut [u64]) {
        let (taps, [_, _, columns]) = (self.shape.kernel_weights(), self.shape.output());
        let weights = &self.weights[channel * taps..][..taps];
        let rows: Vec<&[u32]> = weights.iter().map(|&weight| self.tables.row(weight)).collect();
        let first_channel = self.shape.first_input_channel(channel);
        let len = self.planes.len(&self.shape).next_multiple_of(LOOK_UP_LANES);
        let under = |tap: usize| &planes[self.planes.place(&self.shape, first_channel, tap)..][..len];
        let mut sums = vec![0; len];
        add_rows(cpu.tier(), self.length, self.polarity, &rows, under, &mut sums);
        let bits = self.length.bits() as u64;
        // What all taps would look up in the padding.
        let all_zeros = |magnitudes: &[u64]| -> u64 {
            magnitudes.iter().map(|&weight| u64::from(self.tables.row(magnitude(weight))[0])).sum()
        };
        let all_zeros = self.zeros.as_ref().map_or(0, |_| all_zeros(weights));
        for (row, counts) in counts.chunks_exact_mut(columns).enumerate() {
            let sums = &sums[row * self.planes.size[1]..][..columns];
            for (column, (count, &sum)) in counts.iter_mut().zip(sums).enumerate() {
                let position = row * columns + column;
                *count = match (&self.zeros, self.polarity) {
                    (Some(zeros), _) => sum - (all_zeros - zeros.inside(position)[channel]),
                    (None, Polarity::Signed) => sum.wrapping_add(self.shape.fan_in(position) as u64 * bits),
                    (None, _) => sum,
                };
            }
        }
    }
}

impl Cpu {
    /// The counts of a convolution for inputs of the given thresholds, row-major of samples by neurons.
    pub(crate) fn conv_table_counts(&self, weights: &TabledConv, inputs: &[u64]) -> Result<Vec<u64>> {
        let (shape, planes) = (&weights.shape, &weights.planes);
        let (n_inputs, n_positions, n_channels) = (shape.n_inputs(), shape.n_positions(), shape.n_channels());
        if !inputs.len().is_multiple_of(n_inputs) {
            return Err(Error::Ragged { what: Quantity::Inputs, actual: inputs.len(), divisor: n_inputs });
        }
        weights.input_width.check_thresholds(inputs, weights.polarity, Quantity::Value)?;
        let n_samples = inputs.len() / n_inputs;
        let n_counts = n_samples as u128 * shape.n_outputs() as u128;
        let mut counts = memory::zeros(n_counts, Quantity::Counts)?;
        let places = planes.places() as usize;
        let samples = (PLANE_PLACES / places).clamp(1, n_samples.max(1));
        // Look-ups of the last tap go past the last plane.
        let len = places as u128 * samples as u128 + LOOK_UP_LANES as u128;
        let mut thresholds: Vec<u16> = memory::zeros(len, Quantity::EncodedInputs)?;
        let pieces =
            inputs.chunks(samples * n_inputs).zip(counts.chunks_mut(samples * n_channels * n_positions));
        for (inputs, counts) in pieces {
            let images: Vec<_> =
                inputs.chunks_exact(n_inputs).zip(thresholds.chunks_exact_mut(places)).collect();
            let n_samples = images.len();
            self.pool.for_each(images.into_iter(), nanoseconds(inputs.len()), |(inputs, thresholds)| {
                planes.fill(shape, inputs, thresholds);
            });
            let channels: Vec<_> = counts.chunks_exact_mut(n_positions).enumerate().collect();
            let cost = nanoseconds(n_samples.saturating_mul(shape.n_products()));
            self.pool.for_each(channels.into_iter(), cost, |(k, counts)| {
                weights.count_channel(self, &thresholds[k / n_channels * places..], k % n_channels, counts);
            });
        }
        Ok(counts)
    }
}

/// The padded image of each channel as planes: those of the places with the same row and column within a stride.
struct Planes {
    stride: [usize; 2],
    /// The rows and columns of a plane.
    size: [usize; 2],
    channels: usize,
}

impl Planes {
    fn new(shape: &ConvShape) -> Self {
        // A single position is as far from the next as one likes.
        let stride = [0, 1].map(|k: usize| match shape.windows()[k].len() {
            1 => 1,
            _ => shape.windows()[k].axis().stride,
        });
        let size = [0, 1].map(|k: usize| {
            let axis = shape.windows()[k].axis();
            (axis.size + axis.padding[0] + axis.padding[1]).div_ceil(stride[k])
        });
        Self { stride, size, channels: shape.convolution().input[0] }
    }

    /// The places of a sample.
    fn places(&self) -> u128 {
        let [stride, size] = [self.stride, self.size].map(|[rows, columns]| rows as u128 * columns as u128);
        self.channels as u128 * stride * size
    }

    /// The places from the first position to the last.
    fn len(&self, shape: &ConvShape) -> usize {
        let [_, rows, columns] = shape.output();
        (rows - 1) * self.size[1] + columns
    }

    /// The place of a padded row and column of a channel.
    fn place_of(&self, channel: usize, row: usize, column: usize) -> usize {
        let [rows, columns] = self.size;
        let plane = (row % self.stride[0]) * self.stride[1] + column % self.stride[1];
        let plane = channel * self.stride[0] * self.stride[1] + plane;
        (plane * rows + row / self.stride[0]) * columns + column / self.stride[1]
    }

    /// The place under a tap at the first position; at row r and column q it is `r * size[1] + q` further on.
    fn place(&self, shape: &ConvShape, first_channel: usize, tap: usize) -> usize {
        let [height, width] = shape.convolution().kernel;
        let (channel, row, column) = (tap / (height * width), tap / width % height, tap % width);
        let [rows, columns] = shape.convolution().dilation;
        self.place_of(first_channel + channel, row * rows, column * columns)
    }

    /// Writes the thresholds of a sample; the padding holds zeros.
    fn fill(&self, shape: &ConvShape, inputs: &[u64], thresholds: &mut [u16]) {
        let [over_rows, over_columns] = shape.windows();
        let (rows, columns) = (over_rows.axis().size, over_columns.axis().size);
        let (top, left) = (over_rows.axis().padding[0], over_columns.axis().padding[0]);
        for (k, inputs) in inputs.chunks_exact(columns).enumerate() {
            let (channel, row) = (k / rows, k % rows);
            if self.stride[1] == 1 {
                let first = self.place_of(channel, row + top, left);
                for (place, &input) in thresholds[first..].iter_mut().zip(inputs) {
                    *place = index(input);
                }
                continue;
            }
            for (column, &input) in inputs.iter().enumerate() {
                thresholds[self.place_of(channel, row + top, column + left)] = index(input);
            }
        }
    }
}

fn nanoseconds(n: usize) -> Duration {
    // A minute is worth threads however long it really takes, and cannot overflow.
    Duration::from_nanos(n.min(60_000_000_000) as u64)
}
