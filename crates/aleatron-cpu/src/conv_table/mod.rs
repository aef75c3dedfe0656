//! Convolutions whose streams share one pair of sequences, counted from tables instead of bits.
//!
//! A weight looks up the counts of one tap for all positions at once: its row of the table stays in
//! registers while the thresholds of the inputs under the tap are read. They are contiguous for
//! every stride: the padded image is stored as one plane for each offset within a stride. Rows of
//! positions are as wide as rows of such a plane, and the look-ups between two rows are discarded
//! at the end.
//!
//! If many weights are equal, their look-ups are shared; see `maps.rs`.

mod maps;
mod planes;
#[cfg(test)]
mod tests;

use self::maps::SharedMaps;
use self::planes::{PlaneOffset, Planes};
use crate::Cpu;
use crate::conv::Borders;
use crate::dispatch::LOOK_UP_LANES;
use crate::table::{Tables, add_rows};
use aleatron_core::generator::{CountTable, Pairing, Width};
use aleatron_core::{ConvShape, Error, Length, Polarity, Quantity, Result, memory};
use std::time::Duration;

/// Number of thresholds stored in planes at a time, and of their sums.
const PLANE_THRESHOLDS: usize = 1 << 22;
const SUMS: usize = 1 << 23;

/// A convolution whose weights look counts up.
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
    maps: Option<SharedMaps>,
    correction: Correction,
}

/// The correction of the sums of look-ups.
enum Correction {
    Nothing,
    /// The length times the fan-in of each position: counts of signed products are half of it if
    /// ups and downs are equal.
    FanIns(Vec<u64>),
    /// Bipolar products match zeros: the look-ups of all taps of a channel under an input of 0, and
    /// those of the taps inside the image.
    Zeros {
        all: Vec<u64>,
        inside: Borders,
    },
}

impl TabledConv {
    /// Returns whether the planes of a convolution are proportionate to its inputs and outputs.
    pub(crate) fn suits(shape: &ConvShape) -> bool {
        let planes = Planes::new(shape);
        planes.thresholds_per_sample()
            <= 16 * (shape.n_inputs() as u128 + shape.n_outputs() as u128) + (1 << 16)
    }

    /// Creates the convolution from the thresholds of its weights, by output channel and tap, with
    /// signs for a signed layer.
    pub(crate) fn new(
        shape: ConvShape,
        length: Length,
        polarity: Polarity,
        pairing: &Pairing,
        weights: Vec<u64>,
    ) -> Result<Self> {
        pairing.weights.width().check_thresholds(&weights, polarity, Quantity::Weight)?;
        let table = CountTable::new(&pairing.weights, &pairing.inputs, length, polarity)?;
        let correction = match polarity {
            Polarity::Unipolar => Correction::Nothing,
            Polarity::Signed => {
                let bits = length.bits() as u64;
                Correction::FanIns(
                    shape.fan_ins().into_iter().map(|fan_in| fan_in as u64 * bits).collect(),
                )
            }
            Polarity::Bipolar => {
                let zeros: Vec<u64> = weights.iter().map(|&weight| table.get(weight, 0)).collect();
                let all = zeros
                    .chunks_exact(shape.kernel_weights())
                    .map(|taps| taps.iter().sum())
                    .collect();
                Correction::Zeros { all, inside: Borders::new(&shape, Some(&zeros))? }
            }
        };
        let (tables, planes) = (Tables::new(table, polarity)?, Planes::new(&shape));
        let maps = SharedMaps::new(&shape, &planes, length, &tables, &weights)?;
        let maps = maps.filter(|maps| maps.pays(weights.len()));
        let input_width = pairing.inputs.width();
        Ok(Self { shape, length, polarity, input_width, planes, tables, weights, maps, correction })
    }

    /// Returns the sums of the look-ups of an output channel, in a sample whose planes of
    /// `plane_len` thresholds follow each other.
    fn look_up_channel(
        &self,
        cpu: &Cpu,
        thresholds: &[u16],
        plane_len: usize,
        channel: usize,
    ) -> Vec<u64> {
        let taps = self.shape.kernel_weights();
        let weights = &self.weights[channel * taps..][..taps];
        let rows: Vec<&[u32]> = weights.iter().map(|&weight| self.tables.row(weight)).collect();
        let first_channel = self.shape.first_input_channel(channel);
        let len = self.planes.reach(&self.shape).next_multiple_of(LOOK_UP_LANES);
        let under = |tap: usize| {
            let PlaneOffset { plane, offset } =
                self.planes.tap_offset(&self.shape, first_channel, tap);
            &thresholds[plane * plane_len + offset..][..len]
        };
        let mut sums = vec![0; len];
        add_rows(cpu.tier(), self.length, self.polarity, &rows, under, &mut sums);
        sums
    }

    /// Computes the counts of an output channel in a sample: `sum` returns the look-ups of its taps
    /// at an offset, for signed products modulo 2^64.
    fn finish(&self, channel: usize, sum: impl Fn(usize) -> u64, counts: &mut [u64]) {
        let [_, _, columns] = self.shape.output();
        for (row, counts) in counts.chunks_exact_mut(columns).enumerate() {
            let first = row * self.planes.columns();
            let sums = (first..first + columns).map(&sum);
            match &self.correction {
                Correction::Nothing => {
                    counts.iter_mut().zip(sums).for_each(|(count, sum)| *count = sum)
                }
                Correction::FanIns(fan_ins) => {
                    let fan_ins = &fan_ins[row * columns..][..columns];
                    for ((count, sum), fan_in) in counts.iter_mut().zip(sums).zip(fan_ins) {
                        *count = sum.wrapping_add(*fan_in);
                    }
                }
                Correction::Zeros { all, inside } => {
                    for ((count, sum), position) in counts.iter_mut().zip(sums).zip(row * columns..)
                    {
                        *count = sum - (all[channel] - inside.inside(position)[channel]);
                    }
                }
            }
        }
    }
}

impl Cpu {
    /// Counts a convolution for inputs of the given thresholds, row-major of samples by neurons.
    pub(crate) fn conv_table_counts(
        &self,
        weights: &TabledConv,
        inputs: &[u64],
    ) -> Result<Vec<u64>> {
        let (shape, planes) = (&weights.shape, &weights.planes);
        let (n_inputs, n_outputs) = (shape.n_inputs(), shape.n_outputs());
        if !inputs.len().is_multiple_of(n_inputs) {
            return Err(Error::Ragged {
                what: Quantity::Inputs,
                actual: inputs.len(),
                divisor: n_inputs,
            });
        }
        weights.input_width.check_thresholds(inputs, weights.polarity, Quantity::Value)?;
        let n_samples = inputs.len() / n_inputs;
        let mut counts = memory::zeros(n_samples as u128 * n_outputs as u128, Quantity::Counts)?;
        let n_sums = shape.n_channels().saturating_mul(planes.len());
        let samples = (PLANE_THRESHOLDS / planes.thresholds_per_sample() as usize)
            .min(SUMS / n_sums)
            .clamp(1, n_samples.max(1));
        let chunks = inputs.chunks(samples * n_inputs).zip(counts.chunks_mut(samples * n_outputs));
        for (inputs, counts) in chunks {
            match &weights.maps {
                Some(maps) => self.add_conv_maps(weights, maps, inputs, counts)?,
                None => self.look_conv_up(weights, inputs, counts)?,
            }
        }
        Ok(counts)
    }

    /// Returns the planes of samples, each of `plane_len` thresholds with the zeros at its end.
    fn conv_planes(
        &self,
        weights: &TabledConv,
        inputs: &[u64],
        plane_len: usize,
    ) -> Result<Vec<u16>> {
        let (shape, planes) = (&weights.shape, &weights.planes);
        let len = planes.count() as u128 * plane_len as u128;
        let mut thresholds: Vec<u16> = memory::zeros(len, Quantity::EncodedInputs)?;
        let channels: Vec<_> =
            thresholds.chunks_exact_mut(planes.per_channel() * plane_len).enumerate().collect();
        self.pool.for_each(
            channels.into_iter(),
            nanoseconds(inputs.len()),
            |(channel, thresholds)| {
                planes.fill(shape, inputs, channel, plane_len, thresholds);
            },
        );
        Ok(thresholds)
    }

    /// Counts some samples by looking each product up.
    fn look_conv_up(&self, weights: &TabledConv, inputs: &[u64], counts: &mut [u64]) -> Result<()> {
        let (shape, planes) = (&weights.shape, &weights.planes);
        let (n_samples, n_channels) = (inputs.len() / shape.n_inputs(), shape.n_channels());
        // Look-ups of the last tap go beyond the last offset.
        let plane_len = n_samples * planes.len() + LOOK_UP_LANES;
        let thresholds = self.conv_planes(weights, inputs, plane_len)?;
        let channels: Vec<_> = counts.chunks_exact_mut(shape.n_positions()).enumerate().collect();
        let cost = nanoseconds(n_samples.saturating_mul(shape.n_products()));
        self.pool.for_each(channels.into_iter(), cost, |(k, counts)| {
            let (sample, channel) = (k / n_channels, k % n_channels);
            let thresholds = &thresholds[sample * planes.len()..];
            let sums = weights.look_up_channel(self, thresholds, plane_len, channel);
            weights.finish(channel, |position| sums[position], counts);
        });
        Ok(())
    }

    /// Counts some samples by adding maps.
    fn add_conv_maps(
        &self,
        weights: &TabledConv,
        maps: &SharedMaps,
        inputs: &[u64],
        counts: &mut [u64],
    ) -> Result<()> {
        let (shape, planes) = (&weights.shape, &weights.planes);
        let (n_samples, n_channels) = (inputs.len() / shape.n_inputs(), shape.n_channels());
        let tiling = maps.tiling(n_samples * planes.len(), self.threads());
        let plane_len = tiling.reach();
        let thresholds = self.conv_planes(weights, inputs, plane_len)?;
        // By channel and position.
        let of_channel = tiling.n * tiling.tile;
        let mut sums: Vec<u32> =
            memory::zeros(n_channels as u128 * of_channel as u128, Quantity::Counts)?;
        let mut tiles: Vec<Vec<&mut [u32]>> = Vec::new();
        tiles.resize_with(tiling.n, || Vec::with_capacity(n_channels));
        for sums in sums.chunks_exact_mut(of_channel) {
            tiles
                .iter_mut()
                .zip(sums.chunks_exact_mut(tiling.tile))
                .for_each(|(tile, sums)| tile.push(sums));
        }
        let cost = nanoseconds(maps.cost(&tiling).saturating_mul(tiling.n));
        self.pool.for_each(tiles.into_iter().enumerate(), cost, |(k, mut sums)| {
            maps.count_tile(
                self.tier(),
                &tiling,
                &thresholds,
                plane_len,
                k * tiling.tile,
                &mut sums,
            );
        });
        let cost = nanoseconds(counts.len());
        let channels: Vec<_> = counts.chunks_exact_mut(shape.n_positions()).enumerate().collect();
        self.pool.for_each(channels.into_iter(), cost, |(k, counts)| {
            let (sample, channel) = (k / n_channels, k % n_channels);
            let sums = &sums[channel * of_channel + sample * planes.len()..][..planes.len()];
            // Sums of a signed layer may be negative.
            weights.finish(channel, |position| i64::from(sums[position] as i32) as u64, counts);
        });
        Ok(())
    }
}

fn nanoseconds(n: usize) -> Duration {
    // A minute is worth threads however long it really takes, and cannot overflow.
    Duration::from_nanos(n.min(60_000_000_000) as u64)
}
