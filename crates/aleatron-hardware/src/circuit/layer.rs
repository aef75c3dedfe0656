//! A layer as a circuit: windows, stochastic number generators, products, counters and
//! accumulators.

use super::as_text;
use super::early::Check;
use super::interval::{Interval, signed_bits};
use super::order;
use super::sequence::SequenceCircuit;
use crate::error::internal;
use crate::{Error, Result};
use aleatron_core::arithmetic::Accumulator;
use aleatron_core::generator::{OperandSequences, Sequence, Sharing};
use aleatron_core::program::{InputSign, ProgramLayer};
use aleatron_core::threshold::{is_negative, magnitude};
use aleatron_core::windows::Windows;
use aleatron_core::{ConvShape, InputSource, Polarity, Topology, WeightSource};
use serde::Serialize;
use std::collections::HashMap;

/// Whether the inputs of a layer may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputInterval {
    /// They are at least 0, or their streams are not sign and magnitude.
    NonNegative,
    /// They may be negative: words have a sign.
    Signed,
}

/// How the products of a layer are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Products {
    /// One bit of all products of a neuron in each cycle.
    Streams,
    /// One product of integers of each neuron in each cycle: magnitudes as wide as the comparators,
    /// with signs.
    Integers,
}

/// Windows that slide over an image whose pixels arrive one by one, all channels of a pixel
/// consecutively.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Window {
    /// The channels of a pixel.
    pub channels: usize,
    /// The rows and columns of the image.
    pub size: [usize; 2],
    /// The rows of padding before and after the image, and the columns.
    pub padding: [[usize; 2]; 2],
    /// The rows and columns of a window.
    pub kernel: [usize; 2],
    /// The rows and columns from one window to the next.
    pub stride: [usize; 2],
    /// The rows and columns from one tap to the next.
    pub dilation: [usize; 2],
    /// The number of windows.
    pub positions: usize,
}

impl Window {
    /// Returns the number of rows and columns that a window covers.
    #[must_use]
    pub fn reach(&self) -> [usize; 2] {
        [0, 1].map(|k| (self.kernel[k] - 1) * self.dilation[k] + 1)
    }

    /// Returns the number of columns of the padded image.
    #[must_use]
    pub fn padded_columns(&self) -> usize {
        self.size[1] + self.padding[1][0] + self.padding[1][1]
    }

    /// Returns the number of words of the line buffer.
    #[must_use]
    pub fn depth(&self) -> usize {
        let [rows, columns] = self.reach();
        ((rows - 1) * self.padded_columns() + columns) * self.channels
    }

    /// Returns whether the image is padded.
    #[must_use]
    pub fn is_padded(&self) -> bool {
        self.padding != [[0, 0]; 2]
    }

    /// Returns the word of the line buffer, 0 for the most recent one, that holds a channel under a
    /// tap.
    #[must_use]
    pub fn word(&self, channel: usize, row: usize, column: usize) -> usize {
        let rows = (self.kernel[0] - 1 - row) * self.dilation[0];
        let columns = (self.kernel[1] - 1 - column) * self.dilation[1];
        (rows * self.padded_columns() + columns) * self.channels + self.channels - 1 - channel
    }
}

/// The weights of a neuron, or of an output channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WeightRow {
    /// The index of its inputs among [`LayerCircuit::input_groups`].
    pub group: usize,
    /// The threshold of the magnitude of each weight.
    pub thresholds: Vec<u64>,
    /// Whether each weight is negative.
    pub negative: Vec<bool>,
    /// The index of the sequence of each weight.
    pub sequences: Vec<u32>,
    /// The integer bias.
    pub bias: i64,
    /// The integer that is added to the shifted count: the bias, minus the excess of the count over
    /// the sum.
    pub offset: i64,
}

/// A layer as a circuit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerCircuit {
    /// The encoding of its streams.
    #[serde(serialize_with = "as_text")]
    pub polarity: Polarity,
    /// How its products are computed.
    pub products: Products,
    /// The stream length in bits, or the greatest product of two integers.
    pub length: usize,
    /// Whether its inputs may be negative.
    pub inputs: InputInterval,
    /// Its windows; a dense layer has one window over all inputs.
    pub window: Window,
    /// The word of the line buffer that each tap of a window reads.
    pub taps: Vec<u32>,
    /// The width of the comparators of the inputs.
    pub comparator: u32,
    /// The width of the comparators of the weights.
    pub weight_comparator: u32,
    /// The different sequences of the inputs.
    pub input_sequences: Vec<SequenceCircuit>,
    /// The index of the sequence of each tap.
    pub sequence_of_tap: Vec<u32>,
    /// The different sequences of the weights.
    pub weight_sequences: Vec<SequenceCircuit>,
    /// The taps of rows of weights: those of a group of a convolution.
    pub input_groups: Vec<Vec<u32>>,
    /// The rows of weights.
    pub rows: Vec<WeightRow>,
    /// The bits of a counter.
    pub count_bits: u32,
    /// The left shift of a count: fraction bits, and one more for bipolar streams.
    pub count_shift: u32,
    /// The term added at each position of a bipolar convolution with padding, for the taps outside
    /// the image.
    pub padding_offsets: Vec<i64>,
    /// The bits of the sum of a shifted count and its offset.
    pub sum_bits: u32,
    /// The least and the greatest value after the activation.
    pub bounds: [i64; 2],
    /// The checks of early termination; empty if all cycles run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// The index of the layer in the program.
    #[serde(skip)]
    pub(crate) layer: usize,
}

impl LayerCircuit {
    /// Returns the number of cycles in which the products of a group of neurons are summed.
    #[must_use]
    pub fn cycles(&self) -> usize {
        match self.products {
            Products::Streams => self.length,
            Products::Integers => self.fan_in(),
        }
    }

    /// Returns the number of bits of the index of a cycle.
    #[must_use]
    pub fn cycle_bits(&self) -> u32 {
        bits(self.cycles())
    }

    /// Returns the encoding of its operands as text.
    pub(crate) fn encoding(&self) -> String {
        match self.products {
            Products::Streams => self.polarity.to_string(),
            Products::Integers => format!("integers of {} bits", self.comparator + 1),
        }
    }

    /// Returns whether counters hold signed numbers.
    pub(crate) fn has_signed_counts(&self) -> bool {
        self.has_signs() || self.products == Products::Integers
    }

    /// Returns the number of bits of a stored input word.
    pub(crate) fn word_bits(&self) -> u32 {
        let magnitude = match self.products {
            Products::Streams => self.comparator + 1,
            Products::Integers => self.comparator,
        };
        magnitude + u32::from(self.has_signs()) + u32::from(self.has_marks())
    }

    /// Returns the number of products of a row.
    #[must_use]
    pub fn fan_in(&self) -> usize {
        self.input_groups.first().map_or(0, Vec::len)
    }

    /// Returns whether inputs have signs.
    pub(crate) fn has_signs(&self) -> bool {
        self.inputs == InputInterval::Signed
    }

    /// Returns whether words have a bit that distinguishes pixels from padding.
    pub(crate) fn has_marks(&self) -> bool {
        !self.padding_offsets.is_empty()
    }

    /// Returns the number of negative weights of a row.
    pub(crate) fn negative(&self, row: usize) -> usize {
        self.rows
            .get(row)
            .map_or(0, |row| row.negative.iter().filter(|negative| **negative).count())
    }

    /// Returns the value of the counter of a row after some cycles, given the count of the engine
    /// and the number of products inside the image.
    pub(crate) fn counter(&self, row: usize, count: u64, fan_in: usize, cycles: usize) -> i128 {
        let length = cycles as i128;
        let sum = i128::from(count) - fan_in as i128 * length;
        match (self.polarity, self.inputs) {
            _ if self.products == Products::Integers => sum,
            (Polarity::Unipolar | Polarity::Bipolar, _) => i128::from(count),
            // The counter starts with the complement of LENGTH times the negative products, which
            // is 1 less than their negative.
            (Polarity::Signed, InputInterval::Signed) => sum - 1,
            (Polarity::Signed, InputInterval::NonNegative) => {
                sum + self.negative(row) as i128 * length
            }
        }
    }
}

/// Returns the distance between windows; for a single window it is past the end.
pub(super) fn stride(windows: &Windows) -> usize {
    let axis = windows.axis();
    match windows.len() {
        1 => axis.size + axis.padding[0] + axis.padding[1],
        _ => axis.stride,
    }
}

/// Returns the number of bits of the numbers from 0 to `n - 1`, at least one.
pub(crate) fn bits(n: usize) -> u32 {
    n.saturating_sub(1).checked_ilog2().unwrap_or(0) + 1
}

/// A layer of a program with its neighbouring steps.
pub(super) struct LayerParts<'a> {
    pub(super) name: &'a str,
    pub(super) index: usize,
    pub(super) layer: &'a ProgramLayer,
    pub(super) accumulator: &'a Accumulator,
    pub(super) input_sign: InputSign,
}

/// The circuit of a layer, the order of its inputs and outputs, and the interval of the outputs.
pub(super) struct BuiltLayer {
    pub(super) circuit: LayerCircuit,
    pub(super) output_order: Vec<u32>,
    pub(super) interval: Interval,
}

impl LayerParts<'_> {
    fn unsupported(&self, what: impl Into<String>, remedy: &'static str) -> Error {
        Error::Unsupported { part: format!("layer \"{}\"", self.name), what: what.into(), remedy }
    }

    /// Returns the order in which inputs must arrive; `None` if any order will do.
    pub(super) fn input_order(&self) -> Option<Vec<u32>> {
        match self.layer.spec.topology() {
            Topology::Conv(shape) => {
                let [channels, rows, columns] = shape.convolution().input;
                Some(order::by_pixel(channels, rows * columns))
            }
            Topology::Dense { n_inputs, .. } if self.layer.rows > 1 => {
                Some(order::identity(n_inputs * self.layer.rows))
            }
            _ => None,
        }
    }

    /// Returns the sign of the words of inputs.
    pub(super) fn interval(&self) -> InputInterval {
        match (self.layer.spec.polarity(), self.input_sign) {
            (Polarity::Signed, InputSign::Any) => InputInterval::Signed,
            _ => InputInterval::NonNegative,
        }
    }

    /// Builds the circuit for inputs that arrive in this order.
    pub(super) fn build(&self, arrival: &[u32]) -> Result<BuiltLayer> {
        let spec = &self.layer.spec;
        let bernoulli = || Error::Bernoulli { layer: self.name.to_owned() };
        let (InputSource::Sequences(inputs), WeightSource::Sequences(weights)) =
            (spec.encoding().input_source(), spec.encoding().weight_source())
        else {
            return Err(bernoulli());
        };
        let (window, conv) = self.window()?;
        if conv.is_some() && window.positions > 1 && inputs.sharing != Sharing::OneForAll {
            return Err(self.unsupported(
                format!(
                    "a convolution with a sequence for each input (--sharing {})",
                    inputs.sharing
                ),
                "use --sharing all",
            ));
        }
        let polarity = spec.polarity();
        let n_taps = window.channels * window.kernel[0] * window.kernel[1];
        let taps = self.taps(&window, conv, arrival, n_taps);
        let input_groups = match conv {
            Some(shape) => {
                let per_group = shape.kernel_weights();
                (0..shape.convolution().groups)
                    .map(|g| (g * per_group..(g + 1) * per_group).map(|tap| tap as u32).collect())
                    .collect()
            }
            None => vec![order::identity(n_taps)],
        };
        let (length, cycle_bits) = (spec.length().bits(), bits(spec.length().bits()));
        let mut input_pool = SequencePool::default();
        let sequence_of_tap: Vec<u32> = match inputs.sharing {
            Sharing::OneForAll => vec![input_pool.index(inputs.first); n_taps],
            _ => {
                let siblings = inputs.first.siblings();
                (0..n_taps)
                    .map(|i| Ok(input_pool.index(siblings.nth(i)?)))
                    .collect::<Result<_>>()?
            }
        };
        let mut weight_pool = SequencePool::default();
        let mut rows = self.rows(conv, &weights, &mut weight_pool)?;
        let products =
            if spec.integer_bits().is_some() { Products::Integers } else { Products::Streams };
        let mut sequence_of_tap = sequence_of_tap;
        if let Some(integers) = spec.integer_bits() {
            (input_pool, weight_pool) = Default::default();
            sequence_of_tap.clear();
            for row in &mut rows {
                row.sequences.clear();
                row.thresholds
                    .iter_mut()
                    .for_each(|weight| *weight = integers.greatest().min(*weight));
            }
        }
        let new = |sequence| SequenceCircuit::new(sequence, length, cycle_bits, self.name);
        let mut circuit = LayerCircuit {
            polarity,
            products,
            length,
            inputs: self.interval(),
            taps,
            comparator: inputs.width().bits(),
            weight_comparator: weights.width().bits(),
            input_sequences: input_pool.list.into_iter().map(new).collect::<Result<_>>()?,
            sequence_of_tap,
            weight_sequences: weight_pool.list.into_iter().map(new).collect::<Result<_>>()?,
            input_groups,
            rows,
            count_bits: 0,
            count_shift: self.accumulator.fraction() + u32::from(polarity == Polarity::Bipolar),
            padding_offsets: Vec::new(),
            sum_bits: 0,
            bounds: [0, 0],
            checks: Vec::new(),
            layer: self.index,
            window,
        };
        let interval = self.finish(&mut circuit, conv)?;
        let output_order = match conv {
            Some(shape) => order::by_pixel(shape.n_channels(), shape.n_positions()),
            None => order::identity(spec.n_neurons() * self.layer.rows),
        };
        Ok(BuiltLayer { circuit, output_order, interval })
    }

    fn window(&self) -> Result<(Window, Option<&ConvShape>)> {
        match self.layer.spec.topology() {
            Topology::Dense { n_inputs, .. } => {
                let (ones, size) = ([1, 1], [1, self.layer.rows]);
                let window = Window {
                    channels: *n_inputs,
                    size,
                    padding: [[0, 0]; 2],
                    kernel: ones,
                    stride: ones,
                    dilation: ones,
                    positions: self.layer.rows,
                };
                Ok((window, None))
            }
            Topology::Conv(shape) if self.layer.rows == 1 => {
                let conv = shape.convolution();
                let axes = shape.windows().map(|windows| *windows.axis());
                let window = Window {
                    channels: conv.input[0],
                    size: [conv.input[1], conv.input[2]],
                    padding: conv.padding,
                    kernel: conv.kernel,
                    stride: shape.windows().map(|windows| stride(&windows)),
                    dilation: axes.map(|axis| axis.dilation),
                    positions: shape.n_positions(),
                };
                Ok((window, Some(shape)))
            }
            Topology::Conv(_) => Err(self.unsupported(
                "a convolution of several images in a sample",
                "use one image in a sample",
            )),
            _ => Err(self.unsupported("a sparse topology", "use a dense layer or a convolution")),
        }
    }

    /// Returns the word of each tap. A dense layer takes its inputs in any order, at no cost except
    /// wires.
    fn taps(
        &self,
        window: &Window,
        conv: Option<&ConvShape>,
        arrival: &[u32],
        n_taps: usize,
    ) -> Vec<u32> {
        if conv.is_none() {
            let positions = order::positions(arrival);
            return positions[..n_taps].iter().map(|&k| (n_taps - 1 - k as usize) as u32).collect();
        }
        let [rows, columns] = window.kernel;
        let tap =
            |t: usize| window.word(t / (rows * columns), t / columns % rows, t % columns) as u32;
        (0..n_taps).map(tap).collect()
    }

    fn rows(
        &self,
        conv: Option<&ConvShape>,
        weights: &OperandSequences,
        pool: &mut SequencePool,
    ) -> Result<Vec<WeightRow>> {
        let spec = &self.layer.spec;
        let thresholds = spec.weight_thresholds(&self.layer.weights)?;
        let n = conv.map_or(spec.n_inputs(), ConvShape::kernel_weights);
        let per_group =
            conv.map_or(usize::MAX, |shape| shape.n_channels() / shape.convolution().groups);
        let (first, siblings) = (spec.first_neuron() as usize, weights.first.siblings());
        let mut rows = Vec::with_capacity(spec.n_rows());
        for (row, thresholds) in thresholds.chunks_exact(n).enumerate() {
            let mut sequences = Vec::with_capacity(n);
            for tap in 0..n {
                let number = match weights.sharing {
                    Sharing::OneForAll => 0,
                    Sharing::OnePerInput => tap,
                    Sharing::OnePerStream => (first + row) * n + tap,
                };
                sequences.push(match number {
                    0 => pool.index(weights.first),
                    number => pool.index(siblings.nth(number)?),
                });
            }
            let bias = *self
                .accumulator
                .bias()
                .get(row)
                .ok_or_else(|| internal("hardware::LayerParts::rows"))?;
            rows.push(WeightRow {
                group: row / per_group,
                thresholds: thresholds.iter().map(|&t| magnitude(t)).collect(),
                // A weight of magnitude 0 has no products, so its sign does not count.
                negative: thresholds.iter().map(|&t| is_negative(t) && magnitude(t) > 0).collect(),
                sequences,
                bias,
                offset: 0,
            });
        }
        Ok(rows)
    }

    /// Computes offsets, widths and bounds.
    fn finish(&self, circuit: &mut LayerCircuit, conv: Option<&ConvShape>) -> Result<Interval> {
        let (n, length) = (circuit.fan_in() as i128, circuit.length as i128);
        let (fraction, most) = (self.accumulator.fraction(), n * length);
        let mut counts = Interval::new(0, most);
        if circuit.products == Products::Integers {
            counts = Interval::new(-most, most);
            // A product and its sign.
            circuit.count_bits = signed_bits(-most, most).max(2 * circuit.comparator + 1);
        } else if circuit.inputs == InputInterval::Signed {
            counts = Interval::new(-most - 1, most - 1);
            circuit.count_bits = signed_bits(-most - 1, most - 1);
        } else {
            circuit.count_bits = 128 - most.leading_zeros();
        }
        if let (Polarity::Bipolar, Some(shape)) = (circuit.polarity, conv)
            && circuit.window.is_padded()
        {
            let outside = shape.fan_ins().into_iter().map(|inside| n - inside as i128);
            let offsets = outside.map(|outside| i64::try_from((outside * length) << fraction));
            let internal = |_| internal("hardware::LayerParts::finish");
            circuit.padding_offsets = offsets.collect::<Result<_, _>>().map_err(internal)?;
        }
        let extra = circuit.padding_offsets.iter().copied().max().unwrap_or(0);
        let (mut sums, mut values): (Option<Interval>, Option<Interval>) = (None, None);
        let [low, high] = self.accumulator.interval().map(i128::from);
        let activation = self.accumulator.activation();
        for row in &mut circuit.rows {
            let negative = row.negative.iter().filter(|negative| **negative).count() as i128;
            let (excess, reachable) = match (circuit.polarity, circuit.inputs) {
                (_, InputInterval::Signed) if circuit.products == Products::Integers => {
                    (0, Interval::new(-most, most))
                }
                (_, InputInterval::NonNegative) if circuit.products == Products::Integers => {
                    (0, Interval::new(-negative * length, (n - negative) * length))
                }
                (Polarity::Unipolar, _) => (0, Interval::new(0, most)),
                (Polarity::Bipolar, _) => (most, Interval::new(-most, most)),
                (Polarity::Signed, InputInterval::Signed) => (-1, Interval::new(-most, most)),
                (Polarity::Signed, InputInterval::NonNegative) => {
                    (negative * length, Interval::new(-negative * length, (n - negative) * length))
                }
            };
            let offset = i128::from(row.bias) - (excess << fraction);
            row.offset = Interval::new(offset, offset).ends(self.name)?[0];
            // The possible operands of the adder, whether or not streams can reach them.
            let seen = counts.map(|count| (count << circuit.count_shift) + offset);
            let seen = seen.union(Interval::new(seen.low, seen.high + i128::from(extra)));
            sums = Some(sums.map_or(seen, |sums| sums.union(seen)));
            let accumulated = reachable.map(|sum| {
                let accumulated = ((sum << fraction) + i128::from(row.bias)).clamp(low, high);
                i128::from(activation.apply(accumulated as i64))
            });
            values = Some(values.map_or(accumulated, |values| values.union(accumulated)));
        }
        let (Some(sums), Some(values)) = (sums, values) else {
            return Err(internal("hardware::LayerParts::finish"));
        };
        let [least, greatest] = self.accumulator.bounds();
        circuit.bounds = [least, greatest];
        let bounds =
            signed_bits(sums.low, sums.high).max(signed_bits(least.into(), greatest.into()));
        // The shifted count and the offset are operands of the adder.
        circuit.sum_bits = bounds.max(circuit.count_bits + circuit.count_shift + 1);
        Ok(values)
    }
}

/// Different sequences, without repetitions.
#[derive(Default)]
struct SequencePool {
    list: Vec<Sequence>,
    known: HashMap<Sequence, u32>,
}

impl SequencePool {
    fn index(&mut self, sequence: Sequence) -> u32 {
        let list = &mut self.list;
        *self.known.entry(sequence).or_insert_with(|| {
            list.push(sequence);
            (list.len() - 1) as u32
        })
    }
}
