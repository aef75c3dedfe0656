//! Programs on the CPU against the reference steps, on every tier, for 1, 2 and 3 threads. Layers
//! are mocks: they return counts chosen by a test, so that every value of an accumulator can be
//! reached.

use aleatron_core::arithmetic::{
    Accumulator, Activation, Border, FloatStage, IntegerActivation, Pool as ImagePool, PoolKind,
    PoolShape, Requantizer, Rescaler,
};
use aleatron_core::backend::{Batch, PreparedLayer};
use aleatron_core::conformance::{Case, Reference, Subject, suite};
use aleatron_core::program::{
    Bounds, Pattern, PreparedProgram, Program, ProgramBatch, ProgramBuilder, ProgramOutput, Sign,
    SlotId, ValueRange, plain,
};
use aleatron_core::{
    Cancel, Connections, Convolution, Encoding, Error, LayerSpec, Length, Polarity, Quantity,
    Result, SampleSeed, Weights, Width,
};
use aleatron_cpu::{Cpu, CpuBackend, CpuProgram, Pool, Tier};
use proptest::prelude::*;
use std::sync::Arc;

fn cpus() -> Vec<Cpu> {
    let pools = [1, 2, 3].map(|threads| Arc::new(Pool::eager(threads).unwrap()));
    let tiers = Tier::available();
    tiers
        .iter()
        .flat_map(|&tier| pools.iter().map(move |pool| Cpu::new(tier, pool.clone())))
        .collect()
}

/// A mock layer whose count `k` over all rows of a run is element `k` of a list, cyclically.
#[derive(Debug, Clone)]
struct Fake {
    spec: LayerSpec,
    counts: Vec<u64>,
}

impl Fake {
    fn of_rows(&self, first: usize, n_rows: usize) -> Vec<u64> {
        let m = self.spec.n_neurons();
        (first * m..(first + n_rows) * m).map(|k| self.counts[k % self.counts.len()]).collect()
    }
}

impl PreparedLayer for Fake {
    fn counts(&self, batch: &Batch<'_>, _: Cancel<'_>) -> Result<Vec<u64>> {
        let n = batch.n_samples(&self.spec)?;
        Ok(self.of_rows(batch.seed.first_sample as usize, n))
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some("fake".to_owned())
    }
}

/// A program whose layers have these counts, with inputs of zeros.
struct Example {
    program: Arc<Program>,
    layers: Vec<Fake>,
}

impl Example {
    fn new(program: Program, counts: &[u64]) -> Self {
        let layer = |layer: &aleatron_core::program::ProgramLayer| Fake {
            spec: layer.spec.clone(),
            counts: counts.to_vec(),
        };
        let layers = program.layers().iter().map(layer).collect();
        Self { program: Arc::new(program), layers }
    }

    fn plain(&self, batch: &ProgramBatch<'_>, slots: &[SlotId]) -> Result<ProgramOutput> {
        plain::run(&self.program, batch, slots, |layer, thresholds, seed| {
            let fake = &self.layers[layer];
            Ok(fake.of_rows(seed.first_sample as usize, thresholds.len() / fake.spec.n_inputs()))
        })
    }

    fn on(&self, cpu: &Cpu) -> CpuProgram {
        let layers =
            self.layers.iter().map(|fake| Box::new(fake.clone()) as Box<dyn PreparedLayer>);
        CpuProgram::new(Arc::clone(&self.program), layers.collect(), CpuBackend::new(cpu.clone()))
            .unwrap()
    }

    /// Compares all slots, and the outputs alone, which take the shortest path.
    fn check(&self, inputs: &[f64], n_samples: usize) {
        let batch =
            ProgramBatch { inputs: &[inputs], n_samples, seed: SampleSeed::new(0), group: 1 };
        let all: Vec<SlotId> = self.program.steps().iter().map(|step| step.output()).collect();
        let outputs = self.program.outputs();
        let expected = [self.plain(&batch, &all).unwrap(), self.plain(&batch, outputs).unwrap()];
        for cpu in cpus() {
            let prepared = self.on(&cpu);
            for (slots, expected) in [&all[..], outputs].into_iter().zip(&expected) {
                let output = prepared.run(&batch, slots, Cancel::NEVER).unwrap();
                assert_eq!(output, *expected, "{cpu:?}");
            }
        }
    }
}

fn polarities() -> impl Strategy<Value = Polarity> {
    prop::sample::select(Polarity::ALL.to_vec())
}

fn weights(spec: &LayerSpec) -> Weights {
    Weights::new(spec, vec![0.5; spec.n_weights()]).unwrap()
}

/// Generates a layer of any kind, with neurons of one and of several numbers of products.
fn specs() -> impl Strategy<Value = LayerSpec> {
    let lengths = prop::sample::select(vec![1_usize, 16, 100, 1 << 20]);
    (0..3, 1_usize..20, 1_usize..70, lengths, polarities()).prop_map(
        |(kind, n, m, length, polarity)| {
            let (length, encoding) =
                (Length::new(length).unwrap(), Encoding::Bernoulli { seed: 0 });
            match kind {
                0 => LayerSpec::dense(n, m, length, polarity, encoding),
                1 => {
                    let rows = (0..m).map(|j| (0..n).filter(move |i| (i * 7 + j * 3) % 5 < 2));
                    LayerSpec::sparse(
                        Connections::from_rows(rows, n).unwrap(),
                        length,
                        polarity,
                        encoding,
                    )
                }
                _ => {
                    let convolution = Convolution {
                        padding: [[1, 1], [0, 1]],
                        ..Convolution::conv2d([2, 4, 3], 3, [3, 2])
                    };
                    LayerSpec::conv(convolution, length, polarity, encoding)
                }
            }
            .unwrap()
        },
    )
}

/// Returns an accumulator of any width, or the least width for the counts of the layer.
fn accumulator(spec: &LayerSpec, width: u32, fraction: u32, kind: u32, bits: u64) -> Accumulator {
    let number =
        |k: u64, shift: u32| (bits.wrapping_mul(2 * k + 1).rotate_left(23) as i64) >> shift;
    let bias: Vec<i64> = (0..spec.n_rows()).map(|j| number(j as u64, 64 - width)).collect();
    let [a, b] = [1000, 1001].map(|k| number(k, 64 - width));
    let activation = match kind {
        0 => IntegerActivation::Identity,
        1 => IntegerActivation::Relu,
        _ => IntegerActivation::Clamp { low: a.min(b), high: a.max(b) },
    };
    Accumulator::new(width, bias, activation).unwrap().with_fraction(fraction).unwrap()
}

/// Returns counts of a layer: the least and the greatest possible, the middle, and others in
/// between.
fn counts(spec: &LayerSpec, n: usize, bits: u64) -> Vec<u64> {
    let count = |k: usize| {
        let (random, most) =
            (bits.wrapping_mul(2 * k as u64 + 1).rotate_left(29), spec.max_count() as u64);
        match random % 8 {
            0 => 0,
            1 => most,
            // A sum of 0 if sums have signs.
            4 => most / 2,
            _ => (random >> 3) % (most + 1),
        }
    };
    (0..n.max(1)).map(count).collect()
}

/// Starts a program with a layer, and returns the slot of its counts.
fn counted(spec: &LayerSpec, rows: usize) -> (ProgramBuilder, usize, SlotId) {
    let mut program = ProgramBuilder::default();
    let layer = program.layer(spec.clone(), weights(spec), rows).unwrap();
    let features = program.input(spec.n_inputs() * rows).unwrap();
    let thresholds = program.quantize(layer, features, 1.0, None, ValueRange::Check).unwrap();
    let counts = program.product(layer, thresholds).unwrap();
    (program, layer, counts)
}

/// Adds a layer of `n` inputs with thresholds of `width` bits.
fn next_layer(program: &mut ProgramBuilder, n: usize, width: Width, polarity: Polarity) -> usize {
    let encoding = match width {
        Width::BERNOULLI => Encoding::Bernoulli { seed: 0 },
        width => "halton"
            .parse::<aleatron_core::generator::GeneratorName>()
            .unwrap()
            .encoding(0, width, aleatron_core::Sharing::OneForAll)
            .unwrap(),
    };
    let spec = LayerSpec::dense(n, 1, Length::new(8).unwrap(), polarity, encoding).unwrap();
    let weights = weights(&spec);
    program.layer(spec, weights, 1).unwrap()
}

/// Ends a program with the counts of a layer of requantized integers.
fn requantized(
    mut program: ProgramBuilder,
    value: SlotId,
    requantizers: Pattern<Requantizer>,
    width: Width,
) -> Program {
    let len = program.slot(value).unwrap().len;
    let polarity = requantizers.get(0).polarity();
    let next = next_layer(&mut program, len, width, polarity);
    let thresholds = program.requantize(next, value, requantizers).unwrap();
    let counts = program.product(next, thresholds).unwrap();
    program.finish(vec![thresholds, counts]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// One requantizer for all elements, one for each row of weights, and one for each element.
    #[test]
    fn integers_of_any_width_match_reference_steps(
        spec in specs(), next in polarities(), samples in 0_usize..5, kind in 0_u32..3, bits: u64, rows in 1_usize..3,
        any_width in 2_u32..=63, fits: bool, fraction in 0_u32..=32, multiplier_bits in 1_u32..=62, spread in 0_usize..3,
        any_shift in 0_u32..=125, off in -3_i32..=3, v in 1_u32..=32, wider in 0_u32..=31,
    ) {
        // Either any scale, or one near the width of the comparator.
        let fraction = if fits { fraction / 4 } else { fraction };
        let most = spec.max_count() << fraction;
        let held_bits = 2 + most.checked_ilog2().unwrap_or(0);
        let width = if fits { held_bits.saturating_add_signed(off).clamp(2, 63) } else { any_width };
        let multiplier_bits = if fits { multiplier_bits / 3 + 1 } else { multiplier_bits };
        let fitting = (held_bits + multiplier_bits).saturating_sub(v + 1).saturating_add_signed(off);
        let shift = if fits { fitting.min(125) } else { any_shift };
        let comparator = Width::new(v).unwrap();
        let requantizer = |k: usize| {
            let multiplier = bits.rotate_left(7 + k as u32) >> (64 - multiplier_bits);
            let shift = (shift + k as u32 % 3).min(125);
            Requantizer::new(multiplier, multiplier_bits, shift, comparator, next).unwrap()
        };
        let generator = Width::new((v + wider).clamp(3.max(v), 32)).unwrap();
        let (mut program, layer, slot) = counted(&spec, rows);
        let value = program.accumulate(layer, slot, accumulator(&spec, width, fraction, kind, bits)).unwrap();
        let requantizers = match spread {
            0 => Pattern::uniform(requantizer(0)),
            1 => {
                let values: Vec<_> = (0..spec.n_rows()).map(requantizer).collect();
                Pattern::per_row(&values, spec.neurons_per_row()).unwrap()
            }
            _ => {
                let values: Vec<_> = (0..spec.n_neurons() * rows).map(requantizer).collect();
                Pattern::from_elements(&values).unwrap()
            }
        };
        let program = requantized(program, value, requantizers, generator);
        let inputs = vec![0.0; samples * rows * spec.n_inputs()];
        Example::new(program, &counts(&spec, 5 * rows * spec.n_neurons(), bits)).check(&inputs, samples);
    }

    #[test]
    fn pools_of_floats_and_integers_match_reference_steps(
        polarity in polarities(), next in polarities(), length in prop::sample::select(vec![16_usize, 1 << 20]), bits: u64,
        samples in 0_usize..4, size in (6_usize..12, 6_usize..12), kinds in prop::collection::vec(0_u32..2, 1..3), off in -2_i32..=4,
        window in (1_usize..=3, 1_usize..=3), stride in (1_usize..=3, 1_usize..=3), is_padded: bool, zeros: bool, activation in 0_u32..3,
        fraction in 0_u32..=20,
    ) {
        let (length, encoding) = (Length::new(length).unwrap(), Encoding::Bernoulli { seed: 0 });
        let convolution = Convolution::conv2d([1, size.0, size.1], 3, [2, 2]);
        let spec = LayerSpec::conv(convolution, length, polarity, encoding).unwrap();
        let held_bits = 2 + (spec.max_count() << fraction).ilog2();
        let (mut program, layer, slot) = counted(&spec, 1);
        let accumulator = accumulator(&spec, held_bits, fraction, activation, bits);
        let mut value = program.accumulate(layer, slot, accumulator).unwrap();
        let stage = FloatStage {
            scales: vec![0.3, 1.7, 2.0],
            bias: vec![0.5, -0.25, 0.0],
            activation: [Activation::Identity, Activation::Relu, Activation::Clamp { low: -0.3, high: 0.7 }]
                [activation as usize],
        };
        let mut float = program.decode(layer, slot, stage).unwrap();
        let mut image = [3, size.0 - 1, size.1 - 1];
        for kind in kinds {
            let kind = if kind == 0 { PoolKind::Max } else { PoolKind::Average };
            let [rows, columns] = [window.0, window.1];
            let padding = if is_padded { [[rows - 1, 0], [0, columns - 1]] } else { [[0; 2]; 2] };
            let border = if zeros { Border::Zeros } else { Border::Excluded };
            let pool = ImagePool::new(kind, [rows, columns]).with_stride([stride.0, stride.1]);
            // The second of two may have no position.
            if let Ok(shape) = PoolShape::new(pool.with_paddings(padding, border), image) {
                value = program.pool(value, shape).unwrap();
                float = program.pool(float, shape).unwrap();
                image = shape.output();
            }
        }
        let shift = (held_bits + 16 - 12).saturating_add_signed(off);
        let requantizer = Requantizer::new((bits >> 48) | 1, 16, shift, Width::new(12).unwrap(), next).unwrap();
        let len = program.slot(value).unwrap().len;
        let layer = next_layer(&mut program, len, Width::BERNOULLI, next);
        let thresholds = program.requantize(layer, value, Pattern::uniform(requantizer)).unwrap();
        let outputs = program.product(layer, thresholds).unwrap();
        let program = program.finish(vec![outputs, float]).unwrap();
        let inputs = vec![0.0; samples * spec.n_inputs()];
        Example::new(program, &counts(&spec, 4 * spec.n_neurons(), bits)).check(&inputs, samples);
    }

    #[test]
    fn quantized_floats_match_reference_steps(
        polarity in polarities(), scale in prop::sample::select(vec![1.0, 8.0, 0.25, 0.7, 3.7]),
        v in 1_u32..=32, wider in 0_u32..=31, shares in prop::collection::vec(-1.3_f64..1.3, 0..150), half in 0_u32..1000,
    ) {
        let comparator = Width::new(v).unwrap();
        let width = Width::new((v + wider).clamp(3.max(v), 32)).unwrap();
        // Half way between two thresholds, and its neighbours.
        let half = (f64::from(half) + 0.5) / comparator.one() as f64;
        let ends = [half, half.next_up(), half.next_down(), -half, -0.0, 1.0, -1.0, f64::MIN_POSITIVE, -1e-300];
        let values: Vec<f64> = shares.iter().copied().chain(ends).map(|share| share * scale).collect();
        let mut program = ProgramBuilder::default();
        let features = program.input(values.len()).unwrap();
        let layer = next_layer(&mut program, values.len(), width, polarity);
        let thresholds = program.quantize(layer, features, scale, Some(comparator), ValueRange::Saturate).unwrap();
        let counts = program.product(layer, thresholds).unwrap();
        Example::new(program.finish(vec![counts]).unwrap(), &[3]).check(&values, 1);
    }

    /// Sums of integers in different units, constants and bounds, up to integers that are no longer
    /// exact in f64.
    #[test]
    fn sums_offsets_and_clips_match_reference_steps(
        spec in specs(), bits: u64, samples in 0_usize..4, width in 8_u32..=52, ratio in 1.0_f64..300.0, minus: bool,
        term in -(1_i64 << 45)..1 << 45, low in -(1_i64 << 50)..1 << 40, high in prop::sample::select(vec![i64::MAX, 1 << 30, 1 << 48]),
    ) {
        let (mut program, layer, slot) = counted(&spec, 1);
        let sign = if minus { Sign::Minus } else { Sign::Plus };
        let left = program.accumulate(layer, slot, accumulator(&spec, width, 0, 0, bits)).unwrap();
        let right = program.accumulate(layer, slot, accumulator(&spec, width.min(40), 0, 1, !bits)).unwrap();
        let rescaler = Rescaler::calibrated(ratio, 1.0, 16).unwrap();
        let rescale = Pattern::per_row(&[[None, Some(rescaler)]], 1).unwrap();
        let value = program.combine([left, right], sign, Some(rescale)).unwrap();
        let terms: Vec<i64> = (0..spec.n_neurons()).map(|k| term >> (k % 20)).collect();
        let value = program.offset(value, sign, Pattern::from_elements(&terms).unwrap()).unwrap();
        let bounds = Bounds::Integer(Pattern::uniform([low, high.max(low)]));
        let value = program.clip(value, bounds).unwrap();
        let restored = program.restore(value, Pattern::uniform(1.0 / 3.0)).unwrap();
        let inputs = vec![0.0; samples * spec.n_inputs()];
        let program = program.finish(vec![restored, value]).unwrap();
        Example::new(program, &counts(&spec, 4 * spec.n_neurons(), bits)).check(&inputs, samples);
    }
}

/// Programs of the fixed suite have every kind of step.
#[test]
fn programs_of_the_suite_match_reference() {
    let programs =
        suite::fixed().unwrap().into_iter().filter(|case| matches!(case, Case::Program(_)));
    let mut n = 0;
    for case in programs {
        let expected = Reference.answer(&case);
        for cpu in cpus() {
            assert_eq!(cpu.run(&case).unwrap().unwrap(), expected, "{cpu:?}");
        }
        n += 1;
    }
    assert!(n > 10);
}

/// Enough samples for every thread and for several chunks.
#[test]
fn large_batches_match_reference_steps_on_every_thread() {
    let (m, samples) = (77, 1000);
    let encoding = Encoding::Bernoulli { seed: 0 };
    let spec =
        LayerSpec::dense(50, m, Length::new(64).unwrap(), Polarity::Bipolar, encoding).unwrap();
    let bias = (0..m).map(|j| j as f64 / 10.0 - 3.0).collect();
    let float = FloatStage { scales: vec![1.5], bias, activation: Activation::Relu };
    let accumulator = Accumulator::calibrated(&spec, &float, 8).unwrap();
    let unit = accumulator.unit(spec.length(), 1.5);
    let comparator = Width::new(16).unwrap();
    let requantizer = Requantizer::of_unit(unit, 20.0, 16, comparator, Polarity::Signed).unwrap();
    let (mut program, layer, slot) = counted(&spec, 1);
    let value = program.accumulate(layer, slot, accumulator).unwrap();
    let program = requantized(program, value, Pattern::uniform(requantizer), Width::BERNOULLI);
    let inputs: Vec<f64> =
        (0..samples * 50).map(|k| f64::from(k as u32 * 7919 % 1999) / 999.5 - 1.0).collect();
    let example = Example::new(program, &counts(&spec, 991 * m, 0x9E37_79B9_7F4A_7C15));
    example.check(&inputs, samples);
    let batch =
        ProgramBatch { inputs: &[&inputs], n_samples: samples, seed: SampleSeed::new(0), group: 1 };
    let saturated = example.plain(&batch, &[]).unwrap().saturated;
    assert!(saturated[1] > 0 && saturated[1] < (samples * m) as u64, "{saturated:?}");
}

/// The error has the index of the first invalid value of the whole batch, whatever the chunks and
/// threads.
#[test]
fn values_outside_their_interval_are_errors_with_their_index() {
    let spec = LayerSpec::dense(
        5,
        2,
        Length::new(64).unwrap(),
        Polarity::Signed,
        Encoding::Bernoulli { seed: 0 },
    );
    let (program, _, counts) = counted(&spec.unwrap(), 1);
    let example = Example::new(program.finish(vec![counts]).unwrap(), &[0]);
    let good = vec![0.5; 5 * 40_000];
    for (index, bad) in [(0, f64::NAN), (20_011, 1.01), (199_999, f64::NEG_INFINITY)] {
        let mut inputs = good.clone();
        inputs[index] = bad;
        // Later values do not matter.
        inputs[199_999] = f64::NEG_INFINITY;
        let batch = ProgramBatch {
            inputs: &[&inputs],
            n_samples: 40_000,
            seed: SampleSeed::new(0),
            group: 1,
        };
        for cpu in cpus() {
            let error =
                example.on(&cpu).run(&batch, example.program.outputs(), Cancel::NEVER).unwrap_err();
            let Error::OutOfRange { what: Quantity::Value, index: found, value, low, high } = error
            else {
                panic!("{error}");
            };
            assert_eq!((found, value.to_bits(), low, high), (index, bad.to_bits(), -1.0, 1.0));
        }
    }
    // A value within the rounding error is valid.
    let batch = ProgramBatch {
        inputs: &[&[1.000_01; 5]],
        n_samples: 1,
        seed: SampleSeed::new(0),
        group: 1,
    };
    let output =
        example.on(&cpus()[0]).run(&batch, example.program.outputs(), Cancel::NEVER).unwrap();
    assert_eq!(output.saturated, [0]);
}

/// Products of so many bits that f64 can just represent them, and of more, near half way between
/// two thresholds.
#[test]
fn long_products_round_as_reference_steps() {
    let (length, polarity) = (Length::new(1 << 30).unwrap(), Polarity::Unipolar);
    let spec =
        LayerSpec::dense(1 << 19, 1, length, polarity, Encoding::Bernoulli { seed: 0 }).unwrap();
    let accumulator = Accumulator::new(50, vec![0], IntegerActivation::Identity).unwrap();
    let (mut builder, layer, slot) = counted(
        &LayerSpec::dense(1, 1, Length::new(8).unwrap(), polarity, Encoding::Bernoulli { seed: 0 })
            .unwrap(),
        1,
    );
    let value = builder.accumulate(layer, slot, accumulator).unwrap();
    assert_eq!(spec.max_count(), 1 << 49);
    for (bits, shift) in (1..=24).flat_map(|bits| (20..=48).map(move |shift| (bits, shift))) {
        let multiplier = (0x00D3_779B >> (24 - bits)) | 1_u64;
        // Each step doubles the number of correct bits of the reciprocal.
        let reciprocal = (0..6)
            .fold(1_u64, |r, _| r.wrapping_mul(2_u64.wrapping_sub(multiplier.wrapping_mul(r))));
        let half = 1_u64 << (shift - 1);
        // A multiple that makes products large but does not change the rounding.
        let most = ((1_u128 << (31 + shift)) / u128::from(multiplier)).min(1 << 48) as u64
            / (2 * half)
            * (2 * half);
        let counts = [half - 1, half, half + 1]
            .map(|product| product.wrapping_mul(reciprocal) % (2 * half) + most);
        let requantizer =
            Requantizer::new(multiplier, bits, shift, Width::BERNOULLI, polarity).unwrap();
        let program =
            requantized(builder.clone(), value, Pattern::uniform(requantizer), Width::BERNOULLI);
        Example::new(program, &counts).check(&[0.0; 3], 3);
    }
}

#[test]
fn programs_need_one_prepared_layer_per_layer() {
    let spec = LayerSpec::dense(
        2,
        3,
        Length::new(8).unwrap(),
        Polarity::Unipolar,
        Encoding::Bernoulli { seed: 0 },
    );
    let (program, _, counts) = counted(&spec.unwrap(), 1);
    let program = Arc::new(program.finish(vec![counts]).unwrap());
    let error = CpuProgram::new(program, Vec::new(), CpuBackend::CURRENT).unwrap_err();
    assert_eq!(error, Error::Mismatch { what: Quantity::Layer, expected: 1, actual: 0 });
}
