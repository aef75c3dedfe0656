//! Every operation in its plainest form: one bit at a time, straight from the specification, never optimised.
//!
//! This is the oracle. A backend is right when it gives what these functions give, with `==`.

use crate::address::{PLANES_PER_DRAW, StreamAddress};
use crate::arithmetic::{Accumulator, IntegerActivation, Requantizer};
use crate::gates::Gate;
use crate::layer::{Encoding, LayerSpec, SampleSeed, Topology};
use crate::lif::{FixedPointLif, LifDrive, LifParams, LifTrace};
use crate::philox::philox4x32;
use crate::polarity::Polarity;
use crate::stream::{BitStream, Length, StreamMatrix};
use crate::threshold::Threshold;

/// The uniform integer behind bit `k` of a stream.
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

/// The Bernoulli stream of a threshold.
#[must_use]
pub fn encode(threshold: Threshold, length: Length, address: StreamAddress) -> BitStream {
    let bit = |k| u64::from(uniform(address, k)) < threshold.get();
    from_bits(length, bit)
}

/// The stream of `bit(k)` for every `k`.
fn from_bits(length: Length, bit: impl Fn(usize) -> bool) -> BitStream {
    BitStream::from_fn(length, |word| {
        let bits = (word * 64..length.bits()).take(64);
        bits.fold(0, |word, k| word | u64::from(bit(k)) << (k % 64))
    })
}

fn bit(stream: &BitStream, k: usize) -> bool {
    stream.get(k).unwrap_or(false)
}

/// A gate, bit by bit; the streams have one length.
#[must_use]
pub fn gate(gate: Gate, a: &BitStream, b: &BitStream) -> BitStream {
    from_bits(a.length(), |k| match gate {
        Gate::And => bit(a, k) && bit(b, k),
        Gate::Or => bit(a, k) || bit(b, k),
        Gate::Xor => bit(a, k) != bit(b, k),
        Gate::Xnor => bit(a, k) == bit(b, k),
    })
}

/// The complement, bit by bit.
#[must_use]
pub fn not(a: &BitStream) -> BitStream {
    from_bits(a.length(), |k| !bit(a, k))
}

/// The multiplexer, bit by bit; the streams have one length.
#[must_use]
pub fn mux(select: &BitStream, a: &BitStream, b: &BitStream) -> BitStream {
    from_bits(a.length(), |k| if bit(select, k) { bit(a, k) } else { bit(b, k) })
}

/// The number of ones, bit by bit.
#[must_use]
pub fn popcount(a: &BitStream) -> u64 {
    (0..a.length().bits()).map(|k| u64::from(bit(a, k))).sum()
}

/// The number of differing positions, bit by bit; the streams have one length.
#[must_use]
pub fn hamming_distance(a: &BitStream, b: &BitStream) -> u64 {
    (0..a.length().bits()).map(|k| u64::from(bit(a, k) != bit(b, k))).sum()
}

/// The product of two streams in a layer, counted: ones of AND, or matches of XNOR.
fn product(polarity: Polarity, w: &BitStream, x: &BitStream) -> u64 {
    let multiply = match polarity {
        Polarity::Unipolar => Gate::And,
        Polarity::Bipolar => Gate::Xnor,
    };
    popcount(&gate(multiply, w, x))
}

/// The neuron and input of each weight of a layer, in order.
fn connections(spec: &LayerSpec) -> Vec<(usize, usize)> {
    let neurons = 0..spec.n_neurons();
    match spec.topology() {
        Topology::Dense { n_inputs, .. } => {
            neurons.flat_map(|j| (0..*n_inputs).map(move |i| (j, i))).collect()
        }
        Topology::Sparse(connections) => {
            neurons.flat_map(|j| connections.inputs_of(j).iter().map(move |&i| (j, i as usize))).collect()
        }
    }
}

/// The weight streams of a layer, one per weight in their order, of the given thresholds. A stream that a generator has no
/// sequence for is all zeros.
#[must_use]
pub fn weight_streams(spec: &LayerSpec, thresholds: &[u64]) -> StreamMatrix {
    let streams = connections(spec).into_iter().zip(thresholds).map(|((j, i), &threshold)| {
        let row = spec.first_neuron() as usize + j;
        match spec.encoding() {
            Encoding::Bernoulli { seed } => {
                let address = StreamAddress::weight(*seed, i as u32, row as u32).in_layer(spec.index());
                encode(Threshold::saturating(threshold), spec.length(), address)
            }
            Encoding::Sequences(pairing) => match pairing.weight(row, i, spec.n_inputs()) {
                Ok(sequence) => sequence.encode(threshold, spec.length()),
                Err(_) => BitStream::zeros(spec.length()),
            },
        }
    });
    matrix(streams, spec.length())
}

/// The input streams of a batch, rows of samples by inputs, of the given thresholds. A stream that a generator has no
/// sequence for is all zeros.
#[must_use]
pub fn input_streams(spec: &LayerSpec, thresholds: &[u64], seed: SampleSeed) -> StreamMatrix {
    let n = spec.n_inputs();
    let streams = thresholds.iter().enumerate().map(|(k, &threshold)| match spec.encoding() {
        Encoding::Bernoulli { .. } => {
            let row = seed.first_sample.wrapping_add((k / n) as u32);
            let address = StreamAddress::input(seed.seed, (k % n) as u32, row).in_layer(spec.index());
            encode(Threshold::saturating(threshold), spec.length(), address)
        }
        Encoding::Sequences(pairing) => match pairing.input(k % n) {
            Ok(sequence) => sequence.encode(threshold, spec.length()),
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

/// The counts of a layer, row-major of samples by neurons: one weight stream per weight in their order, input streams rows of
/// samples by inputs.
#[must_use]
pub fn counts(spec: &LayerSpec, weights: &StreamMatrix, inputs: &StreamMatrix) -> Vec<u64> {
    let (n, m) = (spec.n_inputs(), spec.n_neurons());
    let mut counts = vec![0; inputs.rows() / n * m];
    for (sample, counts) in counts.chunks_mut(m).enumerate() {
        for (k, (j, i)) in connections(spec).into_iter().enumerate() {
            if let (Some(w), Some(x)) = (weights.stream(k), inputs.stream(sample * n + i)) {
                counts[j] += product(spec.polarity(), &w, &x);
            }
        }
    }
    counts
}

/// What an accumulator holds for the count of a neuron, step by step.
#[must_use]
pub fn accumulate(accumulator: &Accumulator, spec: &LayerSpec, neuron: usize, count: u64) -> i64 {
    let products = spec.fan_in(neuron) as i128 * spec.length().bits() as i128;
    let sum = match spec.polarity() {
        Polarity::Unipolar => i128::from(count),
        Polarity::Bipolar => i128::from(count) - (products - i128::from(count)),
    };
    let biased = sum + i128::from(accumulator.bias().get(neuron).copied().unwrap_or(0));
    let most = 2i128.pow(accumulator.width() - 1) - 1;
    let held = if biased > most {
        most
    } else if biased < -most - 1 {
        -most - 1
    } else {
        biased
    } as i64;
    match accumulator.activation() {
        IntegerActivation::Identity => held,
        IntegerActivation::Relu => {
            if held < 0 {
                0
            } else {
                held
            }
        }
        IntegerActivation::Clamp { low, .. } if held < low => low,
        IntegerActivation::Clamp { high, .. } if held > high => high,
        IntegerActivation::Clamp { .. } => held,
    }
}

/// The threshold for what an accumulator holds, by divisions that round down.
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
    };
    if level < 0 {
        0
    } else if level > one {
        one as u64
    } else {
        level as u64
    }
}

/// One neuron from rest through `drives`, step by step.
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
