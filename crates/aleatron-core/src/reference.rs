//! The reference implementation: every operation one bit at a time, as in the specification, never
//! optimized.
//!
//! A backend is correct if it gives the results of these functions, compared with `==`.

use crate::address::{PLANES_PER_DRAW, StreamAddress};
use crate::arithmetic::{
    Accumulator, Border, IntegerActivation, Pool, PoolKind, PoolShape, Requantizer, Rescaler,
};
use crate::convolution::Convolution;
use crate::gates::Gate;
use crate::layer::{InputSource, LayerSpec, SampleSeed, Topology, WeightSource};
use crate::lif::{FixedPointLif, LifDrive, LifParams, LifTrace};
use crate::philox::philox4x32;
use crate::polarity::Polarity;
use crate::stream::{BitStream, Length, StreamMatrix};
use crate::threshold::{NEGATIVE, Threshold, magnitude};

/// Returns the uniform integer of bit `k` of a stream.
#[must_use]
pub fn uniform(address: StreamAddress, k: usize) -> u32 {
    let (word, j) = ((k / 32) as u32, k % 32);
    let mut u = 0;
    for m in 0..32 {
        let draw = philox4x32(address.counter(word, m / PLANES_PER_DRAW), address.key());
        let plane = draw[(m % PLANES_PER_DRAW) as usize];
        u |= (plane >> j & 1) << (31 - m);
    }
    u
}

/// Encodes a threshold as a Bernoulli stream.
#[must_use]
pub fn encode(threshold: Threshold, length: Length, address: StreamAddress) -> BitStream {
    let bit = |k| u64::from(uniform(address, k)) < threshold.get();
    from_bits(length, bit)
}

/// Creates the stream with `bit(k)` at every position `k`.
fn from_bits(length: Length, bit: impl Fn(usize) -> bool) -> BitStream {
    BitStream::from_fn(length, |word| {
        let bits = (word * 64..length.bits()).take(64);
        bits.fold(0, |word, k| word | u64::from(bit(k)) << (k % 64))
    })
}

fn bit(stream: &BitStream, k: usize) -> bool {
    stream.get(k).unwrap_or(false)
}

/// Applies a gate to streams of one length, bit by bit.
#[must_use]
pub fn gate(gate: Gate, a: &BitStream, b: &BitStream) -> BitStream {
    from_bits(a.length(), |k| match gate {
        Gate::And => bit(a, k) && bit(b, k),
        Gate::Or => bit(a, k) || bit(b, k),
        Gate::Xor => bit(a, k) != bit(b, k),
        Gate::Xnor => bit(a, k) == bit(b, k),
    })
}

/// Computes the complement, bit by bit.
#[must_use]
pub fn not(a: &BitStream) -> BitStream {
    from_bits(a.length(), |k| !bit(a, k))
}

/// Multiplexes streams of one length, bit by bit.
#[must_use]
pub fn mux(select: &BitStream, a: &BitStream, b: &BitStream) -> BitStream {
    from_bits(a.length(), |k| if bit(select, k) { bit(a, k) } else { bit(b, k) })
}

/// Counts the ones, bit by bit.
#[must_use]
pub fn popcount(a: &BitStream) -> u64 {
    (0..a.length().bits()).map(|k| u64::from(bit(a, k))).sum()
}

/// Counts the differing positions of streams of one length, bit by bit.
#[must_use]
pub fn hamming_distance(a: &BitStream, b: &BitStream) -> u64 {
    (0..a.length().bits()).map(|k| u64::from(bit(a, k) != bit(b, k))).sum()
}

/// Returns the row and unit of each weight of a layer, in order.
pub(crate) fn weights(spec: &LayerSpec) -> Vec<(usize, usize)> {
    let rows = 0..spec.n_rows();
    match spec.topology() {
        Topology::Dense { n_inputs, .. } => {
            rows.flat_map(|j| (0..*n_inputs).map(move |i| (j, i))).collect()
        }
        Topology::Sparse(connections) => rows
            .flat_map(|j| connections.inputs_of(j).iter().map(move |&i| (j, i as usize)))
            .collect(),
        Topology::Conv(shape) => {
            let [height, width] = shape.convolution().kernel;
            let taps = shape.convolution().input[0] / shape.convolution().groups * height * width;
            rows.flat_map(|o| (0..taps).map(move |k| (o, k))).collect()
        }
    }
}

/// Returns the products of a neuron: the index of the weight among all weights, and the input.
pub(crate) fn products(spec: &LayerSpec, neuron: usize) -> Vec<(usize, usize)> {
    match spec.topology() {
        Topology::Dense { n_inputs: n, .. } => (0..*n).map(|i| (neuron * n + i, i)).collect(),
        Topology::Sparse(connections) => {
            let first = connections.offsets()[neuron];
            (first..).zip(connections.inputs_of(neuron).iter().map(|&i| i as usize)).collect()
        }
        Topology::Conv(shape) => {
            let Convolution { input, kernel, stride, padding, dilation, groups, out_channels } =
                shape.convolution();
            let [_, out_rows, out_columns] = shape.output();
            let (o, position) =
                (neuron / (out_rows * out_columns), neuron % (out_rows * out_columns));
            let (out_row, out_column) = (position / out_columns, position % out_columns);
            let group = (shape.first_channel() + o) / (out_channels / groups);
            let mut products = Vec::new();
            let mut weight = o * (input[0] / groups) * kernel[0] * kernel[1];
            for channel in group * (input[0] / groups)..(group + 1) * (input[0] / groups) {
                for tap_row in 0..kernel[0] {
                    for tap_column in 0..kernel[1] {
                        // The position in the padded image, minus the padding before the image.
                        let row = out_row * stride[0] + tap_row * dilation[0];
                        let column = out_column * stride[1] + tap_column * dilation[1];
                        let inside = (padding[0][0]..padding[0][0] + input[1]).contains(&row)
                            && (padding[1][0]..padding[1][0] + input[2]).contains(&column);
                        if inside {
                            let (row, column) = (row - padding[0][0], column - padding[1][0]);
                            products.push((weight, (channel * input[1] + row) * input[2] + column));
                        }
                        weight += 1;
                    }
                }
            }
            products
        }
    }
}

/// Encodes the weight streams of a layer, one per weight in their order, from the given thresholds.
/// A stream without a sequence is all zeros.
#[must_use]
pub fn weight_streams(spec: &LayerSpec, thresholds: &[u64]) -> StreamMatrix {
    let n = match spec.topology() {
        Topology::Conv(shape) => shape.kernel_weights(),
        _ => spec.n_inputs(),
    };
    let streams = weights(spec).into_iter().zip(thresholds).map(|((j, i), &threshold)| {
        let row = spec.first_neuron() as usize + j;
        match spec.encoding().weight_source() {
            WeightSource::Bernoulli { seed } => {
                let address =
                    StreamAddress::weight(seed, i as u32, row as u32).in_layer(spec.index());
                encode(Threshold::saturating(threshold), spec.length(), address)
            }
            WeightSource::Sequences(sequences) => match sequences.weight(row, i, n) {
                Ok(sequence) => sequence.encode(magnitude(threshold), spec.length()),
                Err(_) => BitStream::zeros(spec.length()),
            },
        }
    });
    matrix(streams, spec.length())
}

/// Encodes the input streams of a batch, rows of samples by inputs, from the given thresholds. A
/// stream without a sequence is all zeros.
#[must_use]
pub fn input_streams(spec: &LayerSpec, thresholds: &[u64], seed: SampleSeed) -> StreamMatrix {
    let n = spec.n_inputs();
    let streams =
        thresholds.iter().enumerate().map(|(k, &threshold)| match spec.encoding().input_source() {
            InputSource::Bernoulli => {
                let row = seed.first_sample.wrapping_add((k / n) as u32);
                let address =
                    StreamAddress::input(seed.seed, (k % n) as u32, row).in_layer(spec.index());
                encode(Threshold::saturating(threshold), spec.length(), address)
            }
            InputSource::Sequences(sequences) => match sequences.input(k % n) {
                Ok(sequence) => sequence.encode(magnitude(threshold), spec.length()),
                Err(_) => BitStream::zeros(spec.length()),
            },
        });
    matrix(streams, spec.length())
}

fn matrix(streams: impl Iterator<Item = BitStream>, length: Length) -> StreamMatrix {
    let words: Vec<u64> = streams.flat_map(BitStream::into_words).collect();
    let rows = words.len() / length.words();
    StreamMatrix::from_clean_words(words, rows, length)
}

/// Counts a layer, row-major of samples by neurons: one weight stream per weight in their order,
/// input streams in rows of samples by inputs. Operands of a signed layer are assumed to be
/// positive; see [`signed_counts`].
#[must_use]
pub fn counts(spec: &LayerSpec, weights: &StreamMatrix, inputs: &StreamMatrix) -> Vec<u64> {
    signed_counts(spec, [weights, inputs], [&[], &[]])
}

/// Counts a layer as [`counts`] does, from weight and input streams; for a signed layer, from the
/// streams of magnitudes and the signs.
#[must_use]
pub fn signed_counts(
    spec: &LayerSpec,
    streams: [&StreamMatrix; 2],
    negative: [&[bool]; 2],
) -> Vec<u64> {
    let (n, m) = (spec.n_inputs(), spec.n_neurons());
    let [weights, inputs] = streams;
    let products: Vec<Vec<(usize, usize)>> = (0..m).map(|neuron| products(spec, neuron)).collect();
    let bits = spec.length().bits() as u64;
    let is_negative =
        |operand: usize, stream: usize| negative[operand].get(stream).copied().unwrap_or(false);
    let mut counts = vec![0; inputs.rows() / n * m];
    for (sample, counts) in counts.chunks_mut(m).enumerate() {
        for (count, products) in counts.iter_mut().zip(&products) {
            for &(weight, input) in products {
                let input = sample * n + input;
                let (Some(w), Some(x)) = (weights.stream(weight), inputs.stream(input)) else {
                    continue;
                };
                *count += match spec.polarity() {
                    Polarity::Unipolar => popcount(&gate(Gate::And, &w, &x)),
                    Polarity::Bipolar => popcount(&gate(Gate::Xnor, &w, &x)),
                    // Counts up or down from the length.
                    Polarity::Signed if is_negative(0, weight) != is_negative(1, input) => {
                        bits - popcount(&gate(Gate::And, &w, &x))
                    }
                    Polarity::Signed => bits + popcount(&gate(Gate::And, &w, &x)),
                };
            }
        }
    }
    counts
}

/// Accumulates the count of a neuron, step by step.
#[must_use]
pub fn accumulate(accumulator: &Accumulator, spec: &LayerSpec, neuron: usize, count: u64) -> i64 {
    let products = spec.fan_in(neuron) as i128 * spec.length().bits() as i128;
    let sum = match spec.polarity() {
        Polarity::Unipolar => i128::from(count),
        Polarity::Bipolar => i128::from(count) - (products - i128::from(count)),
        Polarity::Signed => i128::from(count) - products,
    };
    let row = neuron / spec.neurons_per_row();
    let biased = sum * 2i128.pow(accumulator.fraction())
        + i128::from(accumulator.bias().get(row).copied().unwrap_or(0));
    let most = 2i128.pow(accumulator.width() - 1) - 1;
    let saturated = biased.min(most).max(-most - 1) as i64;
    match accumulator.activation() {
        IntegerActivation::Identity => saturated,
        IntegerActivation::Relu => saturated.max(0),
        IntegerActivation::Clamp { low, high } => saturated.max(low).min(high),
    }
}

/// Returns the threshold for an accumulated value, by divisions that round down; see
/// [`crate::threshold::NEGATIVE`] for signed streams.
#[must_use]
pub fn requantize(requantizer: &Requantizer, value: i64) -> u64 {
    let product = i128::from(value) * i128::from(requantizer.multiplier());
    let scaled = match requantizer.shift() {
        0 => product,
        shift => (product + 2i128.pow(shift - 1)).div_euclid(2i128.pow(shift)),
    };
    let one = 2i128.pow(requantizer.comparator().bits());
    let level = match requantizer.polarity() {
        Polarity::Unipolar => scaled,
        Polarity::Bipolar => scaled + one / 2,
        Polarity::Signed if scaled < 0 => return NEGATIVE + one.min(-scaled) as u64,
        Polarity::Signed => scaled,
    };
    level.max(0).min(one) as u64
}

/// Converts a value to a finer unit, by a division that rounds down.
#[must_use]
pub fn rescale(rescaler: &Rescaler, value: i64) -> i64 {
    let product = i128::from(value) * i128::from(rescaler.multiplier());
    let scaled = match rescaler.shift() {
        0 => product,
        shift => (product + 2i128.pow(shift - 1)).div_euclid(2i128.pow(shift)),
    };
    scaled.min(i64::MAX.into()).max(i64::MIN.into()) as i64
}

/// Returns the windows of an image that a pool reduces: the values inside each window, row by row,
/// and the number of values that it averages over.
fn pool_windows<T: Copy>(shape: &PoolShape, values: &[T]) -> Vec<(Vec<T>, usize)> {
    let Pool { window, stride, padding, border, .. } = shape.pool();
    let [_, out_rows, out_columns] = shape.output();
    let [rows, columns] = [0, 1].map(|k: usize| shape.windows()[k].axis().size);
    let mut windows = Vec::new();
    for channel in 0..values.len() / (rows * columns) {
        for (out_row, out_column) in
            (0..out_rows).flat_map(|r| (0..out_columns).map(move |c| (r, c)))
        {
            let mut inside = Vec::new();
            for row in out_row * stride[0]..out_row * stride[0] + window[0] {
                for column in out_column * stride[1]..out_column * stride[1] + window[1] {
                    let row = row.checked_sub(padding[0][0]).filter(|&row| row < rows);
                    let column =
                        column.checked_sub(padding[1][0]).filter(|&column| column < columns);
                    if let (Some(row), Some(column)) = (row, column) {
                        inside.push(values[(channel * rows + row) * columns + column]);
                    }
                }
            }
            let n = if *border == Border::Zeros { window[0] * window[1] } else { inside.len() };
            windows.push((inside, n));
        }
    }
    windows
}

/// Pools images in f64, value by value.
#[must_use]
pub fn pool_floats(shape: &PoolShape, values: &[f64]) -> Vec<f64> {
    let reduce = |(inside, n): (Vec<f64>, usize)| {
        let mut reduced =
            if shape.pool().kind == PoolKind::Average { 0.0 } else { f64::NEG_INFINITY };
        for value in inside {
            match shape.pool().kind {
                PoolKind::Average => reduced += value,
                PoolKind::Max if value > reduced => reduced = value,
                PoolKind::Max => {}
            }
        }
        if shape.pool().kind == PoolKind::Average { reduced / n as f64 } else { reduced }
    };
    pool_windows(shape, values).into_iter().map(reduce).collect()
}

/// Pools images in integers, value by value.
#[must_use]
pub fn pool_integers(shape: &PoolShape, values: &[i64]) -> Vec<i64> {
    let reduce = |(inside, n): (Vec<i64>, usize)| match shape.pool().kind {
        PoolKind::Average => {
            let (sum, n) = (inside.iter().map(|&value| i128::from(value)).sum::<i128>(), n as i128);
            // The nearest integer, and the greater one of two.
            let below = sum.div_euclid(n);
            (if 2 * (sum - below * n) >= n { below + 1 } else { below }) as i64
        }
        PoolKind::Max => inside.into_iter().max().unwrap_or(0),
    };
    pool_windows(shape, values).into_iter().map(reduce).collect()
}

/// Runs one neuron from rest through `drives`, step by step.
#[must_use]
pub fn lif_run(params: LifParams, drives: impl IntoIterator<Item = LifDrive>) -> LifTrace {
    let mut neuron = FixedPointLif::new(params);
    let mut trace = LifTrace::default();
    for drive in drives {
        let (spike, v) = neuron.step(drive);
        trace.spikes.push(spike.into());
        trace.voltages.push(v);
    }
    trace
}
