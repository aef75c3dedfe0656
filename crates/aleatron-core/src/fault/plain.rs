//! Reference implementation of faults: one bit at a time, as in the specification, never optimized.

use super::{
    FaultMask, FaultSite, Faults, FlipBlocks, Operand, StoredOperand, check_generators,
    counter_width, encode_faulty, flip_accumulator, positive_zero, sequence_of_input,
    sequence_of_weight, stick_threshold,
};
use crate::address::StreamAddress;
use crate::arithmetic::{Accumulator, IntegerActivation};
use crate::error::{Error, Result};
use crate::generator::OperandSequences;
use crate::layer::{InputSource, LayerSpec, SampleSeed, Topology, WeightSource};
use crate::polarity::Polarity;
use crate::reference;
use crate::stream::{BitStream, Length, StreamMatrix};
use crate::threshold::{is_negative, magnitude};

/// Returns the mask of a fault at an address: its ones are the flipped bits.
#[must_use]
pub fn mask(
    mask: &FaultMask,
    length: Length,
    operand: Operand,
    sample: u32,
    row: u32,
    unit: u32,
) -> BitStream {
    let [coarse, fine] = mask.addresses(sample, row, operand).map(|address| address.at_unit(unit));
    let starts: Vec<bool> = match mask.blocks() {
        Some(blocks) => hits(&blocks, coarse, length),
        None => {
            let [at_most, then_at_most] = mask.thresholds();
            let starts = |k: usize| {
                u64::from(reference::uniform(coarse, k)) < at_most.get()
                    && u64::from(reference::uniform(fine, k)) < then_at_most.get()
            };
            (0..length.bits()).map(starts).collect()
        }
    };
    let cycles = mask.fault().kind().cycles();
    let flips = |k: usize| (0..=k).rev().take(cycles).any(|start| starts[start]);
    BitStream::from_fn(length, |word| {
        (word * 64..length.bits())
            .take(64)
            .fold(0, |bits, k| bits | u64::from(flips(k)) << (k % 64))
    })
}

/// Returns which bits of the mask at an address have a hit.
fn hits(blocks: &FlipBlocks, address: StreamAddress, length: Length) -> Vec<bool> {
    let mut bits = vec![false; length.bits()];
    let first = u128::from(address.unit) * length.bits() as u128;
    let last = first + length.bits() as u128 - 1;
    for block in first >> blocks.log2_bits()..=last >> blocks.log2_bits() {
        for hit in blocks.hits(address, block as u64) {
            let position = (block << blocks.log2_bits()) + u128::from(hit);
            if (first..=last).contains(&position) {
                bits[(position - first) as usize] = true;
            }
        }
    }
    bits
}

/// Returns a mask of at most 64 bits as a number.
fn number(
    own: &FaultMask,
    bits: u32,
    operand: Operand,
    sample: u32,
    row: u32,
    unit: u32,
) -> Result<u64> {
    let mask = mask(own, Length::new(bits as usize)?, operand, sample, row, unit);
    Ok(mask.words().first().copied().unwrap_or(0))
}

/// Returns the thresholds of a layer's weights after faults of memory and stuck generators.
///
/// # Errors
/// Never fails for the thresholds of the layer.
pub fn weight_thresholds(
    spec: &LayerSpec,
    faults: &Faults,
    thresholds: &[u64],
) -> Result<Vec<u64>> {
    let (one, stored) = (spec.encoding().weight_width().one(), StoredOperand::weights(spec));
    let mut flipped = thresholds.to_vec();
    for (threshold, (j, i)) in flipped.iter_mut().zip(reference::weights(spec)) {
        let (row, unit) = (spec.first_neuron() + j as u32, i as u32);
        for mask in faults.at(FaultSite::Memory, spec.index()) {
            let mask = number(&mask, stored.n_bits(), Operand::Inputs, 0, row, unit)?;
            *threshold = stored.flip(*threshold, mask);
        }
        *threshold = stuck(spec, faults, *threshold, one, Operand::Weights, row, unit)?;
    }
    Ok(flipped)
}

/// Returns the thresholds of inputs, rows of samples by inputs, after faults of registers and stuck
/// generators.
///
/// # Errors
/// Returns [`Error::TooLarge`] above the 2^32 samples that a counter can address.
pub fn input_thresholds(
    spec: &LayerSpec,
    faults: &Faults,
    thresholds: &[u64],
    seed: SampleSeed,
) -> Result<Vec<u64>> {
    let (one, stored) = (spec.encoding().input_width().one(), StoredOperand::inputs(spec));
    let mut inputs = Vec::new();
    for (k, &threshold) in thresholds.iter().enumerate() {
        let (sample, unit) =
            (seed.advanced(k / spec.n_inputs())?.first_sample, (k % spec.n_inputs()) as u32);
        let mut threshold = threshold;
        for mask in faults.at(FaultSite::Activations, spec.index()) {
            let mask = number(&mask, stored.n_bits(), Operand::Inputs, sample, 0, unit)?;
            threshold = stored.flip(threshold, mask);
        }
        inputs.push(stuck(spec, faults, threshold, one, Operand::Inputs, 0, unit)?);
    }
    Ok(inputs)
}

fn stuck(
    spec: &LayerSpec,
    faults: &Faults,
    threshold: u64,
    one: u64,
    operand: Operand,
    row: u32,
    unit: u32,
) -> Result<u64> {
    let mut left = positive_zero(threshold);
    for (site, level) in [(FaultSite::StuckAtZero, false), (FaultSite::StuckAtOne, true)] {
        for mask in faults.at(site, spec.index()) {
            if number(&mask, 1, operand, 0, row, unit)? == 1 {
                left = stick_threshold(threshold, level, one);
            }
        }
    }
    Ok(left)
}

/// Counts a layer with faults, row-major of samples by neurons, for the thresholds of its weights
/// and inputs.
///
/// # Errors
/// Returns [`Error::TooLarge`] for counters of more than 63 bits.
pub fn counts(
    spec: &LayerSpec,
    faults: &Faults,
    weights: &[u64],
    inputs: &[u64],
    seed: SampleSeed,
) -> Result<Vec<u64>> {
    let weights = weight_thresholds(spec, faults, weights)?;
    let inputs = input_thresholds(spec, faults, inputs, seed)?;
    let [weight_streams, input_streams] = streams(spec, faults, &weights, &inputs, seed)?;
    let units = reference::weights(spec);
    let (n, m) = (spec.n_inputs(), spec.n_neurons());
    let missing = Error::Internal { place: "fault::plain::counts" };
    let stream =
        |streams: &StreamMatrix, k: usize| streams.stream(k).ok_or_else(|| missing.clone());
    let flip = |site, stream: BitStream, sample, row, unit| {
        faults.at(site, spec.index()).fold(stream, |stream, own| {
            let mask = mask(&own, spec.length(), Operand::Inputs, sample, row, unit);
            reference::gate(crate::gates::Gate::Xor, &stream, &mask)
        })
    };
    let mut counts = Vec::new();
    for sample in 0..inputs.len() / n {
        let index = seed.advanced(sample)?.first_sample;
        for neuron in 0..m {
            let number_of_neuron = neuron_number(spec, neuron);
            let mut count = 0;
            for (weight, input) in reference::products(spec, neuron) {
                let (row, unit) =
                    (spec.first_neuron() + units[weight].0 as u32, units[weight].1 as u32);
                let w =
                    flip(FaultSite::Weights, stream(&weight_streams, weight)?, index, row, unit);
                let x = stream(&input_streams, sample * n + input)?;
                let x = flip(FaultSite::Inputs, x, index, 0, input as u32);
                let gate = match spec.polarity() {
                    Polarity::Bipolar => crate::gates::Gate::Xnor,
                    Polarity::Unipolar | Polarity::Signed => crate::gates::Gate::And,
                };
                let product = reference::gate(gate, &w, &x);
                let product = flip(FaultSite::Products, product, index, number_of_neuron, unit);
                let ones = reference::popcount(&product);
                let bits = spec.length().bits() as u64;
                let is_down =
                    is_negative(weights[weight]) != is_negative(inputs[sample * n + input]);
                count += match (spec.polarity(), is_down) {
                    (Polarity::Unipolar | Polarity::Bipolar, _) => ones,
                    (Polarity::Signed, false) => bits + ones,
                    (Polarity::Signed, true) => bits - ones,
                };
            }
            for own in faults.at(FaultSite::Counters, spec.index()) {
                count ^= number(
                    &own,
                    counter_width(spec)?,
                    Operand::Inputs,
                    index,
                    0,
                    number_of_neuron,
                )?;
            }
            counts.push(count);
        }
    }
    Ok(counts)
}

/// Encodes weight and input streams with faults of generators.
fn streams(
    spec: &LayerSpec,
    faults: &Faults,
    weights: &[u64],
    inputs: &[u64],
    seed: SampleSeed,
) -> Result<[StreamMatrix; 2]> {
    let mut weight_streams = reference::weight_streams(spec, weights);
    let mut input_streams = reference::input_streams(spec, inputs, seed);
    let Some(own) = faults.at(FaultSite::Generators, spec.index()).next() else {
        return Ok([weight_streams, input_streams]);
    };
    check_generators(spec)?;
    let words = spec.length().words();
    let encode = |sequences: &OperandSequences, q: usize, operand, threshold| {
        let mask = number(&own, sequences.width().bits(), operand, 0, 0, q as u32)?;
        encode_faulty(&sequences.first.nth(q)?, mask as u32, magnitude(threshold), spec.length())
    };
    if let WeightSource::Sequences(sequences) = spec.encoding().weight_source() {
        let n = match spec.topology() {
            Topology::Conv(shape) => shape.kernel_weights(),
            _ => spec.n_inputs(),
        };
        for (k, (j, unit)) in reference::weights(spec).into_iter().enumerate() {
            let q = sequence_of_weight(&sequences, spec.first_neuron() as usize + j, unit, n);
            let stream = encode(&sequences, q, Operand::Weights, weights[k])?;
            weight_streams.words_mut()[k * words..][..words].copy_from_slice(stream.words());
        }
    }
    if let InputSource::Sequences(sequences) = spec.encoding().input_source() {
        for (k, &threshold) in inputs.iter().enumerate() {
            let q = sequence_of_input(&sequences, k % spec.n_inputs());
            let stream = encode(&sequences, q, Operand::Inputs, threshold)?;
            input_streams.words_mut()[k * words..][..words].copy_from_slice(stream.words());
        }
    }
    Ok([weight_streams, input_streams])
}

/// Returns the number of a neuron in the layer, of which `spec` may be a shard.
fn neuron_number(spec: &LayerSpec, neuron: usize) -> u32 {
    (spec.first_neuron() as usize * spec.neurons_per_row() + neuron) as u32
}

/// Returns the value of a faulty accumulator for the count of a neuron of a sample.
///
/// # Errors
/// Returns [`Error::OutOfRange`] for an invalid accumulator.
pub fn accumulate(
    accumulator: &Accumulator,
    spec: &LayerSpec,
    faults: &Faults,
    sample: u32,
    neuron: usize,
    count: u64,
) -> Result<i64> {
    let (width, bias) = (accumulator.width(), accumulator.bias().to_vec());
    let plain = Accumulator::new(width, bias, IntegerActivation::Identity)?;
    let plain = plain.with_fraction(accumulator.fraction())?;
    let mut sum = reference::accumulate(&plain, spec, neuron, count);
    for own in faults.at(FaultSite::Accumulators, spec.index()) {
        let mask = number(&own, width, Operand::Inputs, sample, 0, neuron_number(spec, neuron))?;
        sum = flip_accumulator(sum, mask, width);
    }
    Ok(accumulator.activation().apply(sum))
}
