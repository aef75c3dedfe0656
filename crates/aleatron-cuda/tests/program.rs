//! Whole networks on the GPU, for as many samples as one launch takes for a layer, and for more.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use aleatron_core::arithmetic::{
    Accumulator, Activation, FloatStage, IntegerActivation, Pool, PoolKind, PoolShape, Requantizer,
};
use aleatron_core::backend::{Batch, PrepareOptions};
use aleatron_core::generator::Width;
use aleatron_core::program::{
    Pattern, Program, ProgramBatch, ProgramBuilder, SlotId, ValueRange, plain,
};
use aleatron_core::{
    Backend, Cancel, ConvShape, Convolution, Encoding, LayerIndex, LayerSpec, Length, Polarity,
    SampleSeed, Topology, Weights,
};
use aleatron_cpu::CpuBackend;
use aleatron_cuda::CudaBackend;
use common::context;

/// Returns numbers in [-1, 1] without a pattern.
fn numbers(n: usize, step: usize) -> Vec<f64> {
    (0..n).map(|k| (k * step % 2003) as f64 / 1001.0 - 1.0).collect()
}

/// Returns the value as an operand of the polarity.
fn operand(polarity: Polarity, value: f64) -> f64 {
    if polarity == Polarity::Unipolar { value.abs() } else { value }
}

fn layer(
    program: &mut ProgramBuilder,
    topology: Topology,
    index: usize,
    polarity: Polarity,
    bits: usize,
) -> usize {
    let encoding = Encoding::Bernoulli { seed: 7 };
    let spec = LayerSpec::new(topology, Length::new(bits).unwrap(), polarity, encoding).unwrap();
    let spec = spec.at(LayerIndex::new(index).unwrap());
    let weights =
        numbers(spec.n_weights(), 389 + index).into_iter().map(|w| operand(polarity, w)).collect();
    let weights = Weights::new(&spec, weights).unwrap();
    program.layer(spec, weights, 1).unwrap()
}

/// Adds the product of a layer and its decoding.
fn decoded(program: &mut ProgramBuilder, layer: usize, thresholds: SlotId) -> SlotId {
    let counts = program.product(layer, thresholds).unwrap();
    let n_rows = program.layer_at(layer).unwrap().spec.n_rows();
    let stage =
        FloatStage { scales: vec![0.5], bias: numbers(n_rows, 77), activation: Activation::Relu };
    program.decode(layer, counts, stage).unwrap()
}

/// Returns a convolution of more neurons than one block counts, a pool, and two dense layers: of
/// many taps, and of few.
fn network(polarity: Polarity, bits: usize) -> Arc<Program> {
    let mut program = ProgramBuilder::default();
    let shape =
        ConvShape::new(Convolution::conv2d([2, 9, 8], 3, [3, 3]).with_padding([1, 1])).unwrap();
    let features = program.input(shape.n_inputs()).unwrap();
    let conv = layer(&mut program, Topology::Conv(shape), 0, polarity, bits);
    let thresholds = program.quantize(conv, features, 1.0, None, ValueRange::Saturate).unwrap();
    let image = decoded(&mut program, conv, thresholds);
    let pool =
        PoolShape::new(Pool::new(PoolKind::Max, [2, 2]).with_stride([1, 1]), [3, 9, 8]).unwrap();
    let mut value = program.pool(image, pool).unwrap();
    for (index, n_neurons, scale) in [(1, 20, 0.1), (2, 5, 4.0)] {
        let n_inputs = program.slot(value).unwrap().len;
        let dense =
            layer(&mut program, Topology::Dense { n_inputs, n_neurons }, index, polarity, bits);
        if polarity == Polarity::Signed {
            // After a rectifier.
            program.set_non_negative(dense).unwrap();
        }
        let thresholds = program.quantize(dense, value, scale, None, ValueRange::Saturate).unwrap();
        value = decoded(&mut program, dense, thresholds);
    }
    Arc::new(program.finish(vec![value]).unwrap())
}

/// The same in integers: accumulators, a mean whose kernel also requantizes with a requantizer for
/// each channel, and a dense layer.
fn integer_network(polarity: Polarity, bits: usize) -> Arc<Program> {
    let mut program = ProgramBuilder::default();
    let shape =
        ConvShape::new(Convolution::conv2d([2, 9, 8], 3, [3, 3]).with_padding([1, 1])).unwrap();
    let features = program.input(shape.n_inputs()).unwrap();
    let conv = layer(&mut program, Topology::Conv(shape), 0, polarity, bits);
    let thresholds = program.quantize(conv, features, 1.0, None, ValueRange::Saturate).unwrap();
    let counts = program.product(conv, thresholds).unwrap();
    let held = Accumulator::new(20, vec![5, -3, 0], IntegerActivation::Identity).unwrap();
    let image = program.accumulate(conv, counts, held).unwrap();
    let pool = PoolShape::new(Pool::new(PoolKind::Average, [2, 3]).with_stride([2, 2]), [3, 9, 8])
        .unwrap();
    let pooled = program.pool(image, pool).unwrap();
    let n_inputs = program.slot(pooled).unwrap().len;
    let topology = Topology::Dense { n_inputs, n_neurons: 20 };
    let dense = layer(&mut program, topology, 1, polarity, bits);
    let width = program.layer_at(dense).unwrap().spec.encoding().input_width();
    // Some integers are past the ends, so that saturated ones are counted.
    let multiplier = match polarity {
        Polarity::Unipolar => 200,
        Polarity::Bipolar => 1000,
        Polarity::Signed => 12_000,
    };
    let comparator = Width::new(width.bits().min(12)).unwrap();
    let requantizers: Vec<_> = (0..3_u64)
        .map(|k| Requantizer::new(multiplier + 77 * k, 20, 4, comparator, polarity).unwrap())
        .collect();
    let requantizers = Pattern::per_row(&requantizers, n_inputs / 3).unwrap();
    let thresholds = program.requantize(dense, pooled, requantizers).unwrap();
    let counts = program.product(dense, thresholds).unwrap();
    let held = Accumulator::new(20, vec![1; 20], IntegerActivation::Identity).unwrap();
    let scores = program.accumulate(dense, counts, held).unwrap();
    Arc::new(program.finish(vec![scores]).unwrap())
}

/// A dense layer whose inputs are too many for one launch, with another one behind it.
fn wide_network(polarity: Polarity, bits: usize) -> Arc<Program> {
    let mut program = ProgramBuilder::default();
    let mut value = program.input(2 * 9 * 8).unwrap();
    for (index, n_neurons, scale) in [(0, 30, 1.0), (1, 3, 0.5)] {
        let n_inputs = program.slot(value).unwrap().len;
        let dense =
            layer(&mut program, Topology::Dense { n_inputs, n_neurons }, index, polarity, bits);
        let thresholds = program.quantize(dense, value, scale, None, ValueRange::Saturate).unwrap();
        value = decoded(&mut program, dense, thresholds);
    }
    Arc::new(program.finish(vec![value]).unwrap())
}

#[test]
fn networks_of_few_and_many_samples_match_reference_steps() {
    let (cuda, cpu) = (CudaBackend::on(context()), CpuBackend::default());
    let networks: [fn(Polarity, usize) -> Arc<Program>; 2] = [network, integer_network];
    let cases = [
        (Polarity::Unipolar, 64, &[1, 4][..]),
        (Polarity::Bipolar, 100, &[1, 4]),
        (Polarity::Signed, 64, &[1, 4, 9]),
    ];
    let small = networks.into_iter().flat_map(|network| cases.map(|case| (network, case)));
    let wide: (fn(Polarity, usize) -> Arc<Program>, _) =
        (wide_network, (Polarity::Signed, 1000, &[1, 3][..]));
    for (network, (polarity, bits, samples)) in small.chain([wide]) {
        let program = network(polarity, bits);
        let options = PrepareOptions::default();
        let layers =
            program.layers().iter().map(|layer| cpu.prepare(&layer.spec, &layer.weights, &options));
        let layers: Vec<_> = layers.collect::<Result<_, _>>().unwrap();
        let prepared = cuda.prepare_program(&program, &options).unwrap().unwrap();
        for &n_samples in samples {
            let inputs = numbers(n_samples * 2 * 9 * 8, 1117);
            let inputs: Vec<f64> = inputs.into_iter().map(|x| operand(polarity, x)).collect();
            let (inputs, seed) = ([&inputs[..]], SampleSeed::new(11).starting_at(3));
            let batch = ProgramBatch { inputs: &inputs, n_samples, seed, group: 1 };
            let expected =
                plain::run(&program, &batch, program.outputs(), |layer, thresholds, seed| {
                    layers[layer].counts(&Batch::thresholds(thresholds, seed), Cancel::NEVER)
                });
            let expected = expected.unwrap();
            assert_ne!(
                expected.saturated[1], 0,
                "{polarity:?}, {bits} bits: no value of layer 1 is outside"
            );
            // The third run is a recorded one.
            for _ in 0..if n_samples == 1 { 3 } else { 1 } {
                let output = prepared.run(&batch, program.outputs(), Cancel::NEVER).unwrap();
                assert_eq!(output, expected, "{polarity:?}, {bits} bits, {n_samples} samples");
            }
        }
    }
}
