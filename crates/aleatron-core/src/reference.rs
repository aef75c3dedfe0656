//! Every operation in its plainest form: one bit at a time, straight from the specification, never optimised.
//!
//! This is the oracle. A backend is right when it gives what these functions give, with `==`.

use crate::address::{PLANES_PER_DRAW, StreamAddress};
use crate::connections::Connections;
use crate::dense::{DenseShape, Polarity};
use crate::gates::Gate;
use crate::lif::{FixedPointLif, LifDrive, LifParams, LifTrace};
use crate::philox::philox4x32;
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

/// The counts of a dense layer, row-major of samples by neurons: weight streams are rows of neurons by inputs, input
/// streams rows of samples by inputs.
#[must_use]
pub fn dense_counts(shape: &DenseShape, weights: &StreamMatrix, inputs: &StreamMatrix) -> Vec<u64> {
    let n = shape.n_inputs();
    let mut counts = Vec::new();
    for sample in 0..inputs.rows() / n {
        for neuron in 0..shape.n_neurons() {
            let products = (0..n).filter_map(|i| {
                let (w, x) = (weights.stream(neuron * n + i)?, inputs.stream(sample * n + i)?);
                Some(product(shape.polarity(), &w, &x))
            });
            counts.push(products.sum());
        }
    }
    counts
}

/// The counts of a sparse layer: like [`dense_counts`] with one weight stream per connection, in order.
#[must_use]
pub fn sparse_counts(
    connections: &Connections,
    polarity: Polarity,
    weights: &StreamMatrix,
    inputs: &StreamMatrix,
) -> Vec<u64> {
    let n = connections.n_inputs();
    let mut counts = Vec::new();
    for sample in 0..inputs.rows() / n {
        for neuron in 0..connections.n_neurons() {
            let first = connections.offsets()[neuron];
            let products = connections.inputs_of(neuron).iter().enumerate().filter_map(|(c, &i)| {
                let (w, x) = (weights.stream(first + c)?, inputs.stream(sample * n + i as usize)?);
                Some(product(polarity, &w, &x))
            });
            counts.push(products.sum());
        }
    }
    counts
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
