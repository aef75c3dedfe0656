//! Whole programs on the device against the reference steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{both_contexts, context, every_context, own_context, plain_context};
use aleatron_core::arithmetic::{
    Accumulator, Activation, Border, FloatStage, IntegerActivation, Pool, PoolKind, PoolShape,
    Requantizer, Rescaler,
};
use aleatron_core::backend::PrepareOptions;
use aleatron_core::conformance::{Case, ProgramCase, Reference, Subject, suite};
use aleatron_core::generator::GeneratorName;
use aleatron_core::program::{
    Bounds, GatherIndex, Pattern, PreparedProgram, Program, ProgramBatch, ProgramBuilder, Sign,
    SlotData, SlotId, SlotKind, ValueRange,
};
use aleatron_core::{
    Backend, BackendFault, Cancel, Connections, Convolution, Encoding, Error, LayerSpec, Length,
    Polarity, Quantity, SampleSeed, Sharing, Weights, Width,
};
use aleatron_gpu::{ContextOptions, GpuBackend, GpuContext};
use proptest::prelude::*;

/// Prepares a program that must be resident.
fn resident(
    context: &Arc<GpuContext>,
    program: &Arc<Program>,
    max_batch: usize,
) -> Box<dyn PreparedProgram> {
    let options = PrepareOptions { max_batch, ..PrepareOptions::default() };
    GpuBackend::on(context.clone()).prepare_program(program, &options).unwrap().unwrap()
}

/// Compares every slot, and the outputs alone, with the reference.
fn check(contexts: &[Arc<GpuContext>], program: Program, inputs: Vec<f64>, seed: SampleSeed) {
    let slots = program.steps().iter().map(|step| step.output()).collect();
    let program = Arc::new(program);
    let case =
        Case::Program(ProgramCase { program: program.clone(), inputs: vec![inputs], seed, slots });
    let expected = Reference.answer(&case);
    for context in contexts {
        resident(context, &program, 256);
        assert_eq!(
            GpuBackend::on(context.clone()).run(&case).unwrap().unwrap(),
            expected,
            "{context:?}"
        );
    }
}

fn values(n: usize, low: f64, seed: u64) -> Vec<f64> {
    let number = |k: usize| (seed | 1).wrapping_mul(2 * k as u64 + 1).rotate_left(31) % 1001;
    (0..n).map(|k| low + (1.0 - low) * number(k) as f64 / 1000.0).collect()
}

fn encoding(kind: usize) -> Encoding {
    let (name, sharing, width) = match kind {
        0 => return Encoding::Bernoulli { seed: 77 },
        1 => ("sobol", Sharing::OneForAll, 6),
        2 => ("sobol", Sharing::OnePerInput, 6),
        // Too wide for tables.
        3 => ("halton", Sharing::OneForAll, 14),
        4 => ("lfsr", Sharing::OnePerStream, 8),
        _ => ("bernoulli+sobol", Sharing::OneForAll, 6),
    };
    let name: GeneratorName = name.parse().unwrap();
    name.encoding(5, Width::new(width).unwrap(), sharing).unwrap()
}

/// Returns a layer of 18 inputs, which are an image of 2x3x3 for convolutions.
fn spec(kind: usize, bits: usize, polarity: Polarity, encoding: Encoding) -> LayerSpec {
    let length = Length::new(bits).unwrap();
    match kind {
        0 => LayerSpec::dense(18, 12, length, polarity, encoding),
        1 => {
            let rows = (0..12).map(|j| (0..18).filter(move |i| (i * 7 + j * 3) % 5 < 2));
            LayerSpec::sparse(Connections::from_rows(rows, 18).unwrap(), length, polarity, encoding)
        }
        _ => {
            let convolution = Convolution {
                padding: [[1, 1], [1, 0]],
                ..Convolution::conv2d([2, 3, 3], 2, [3, 2])
            };
            LayerSpec::conv(convolution, length, polarity, encoding)
        }
    }
    .unwrap()
}

fn weights(spec: &LayerSpec, seed: u64) -> Weights {
    let [low, _] = spec.polarity().interval();
    Weights::new(spec, values(spec.n_weights(), low, seed)).unwrap()
}

/// Creates a program that begins with a layer of `rows` rows, and returns the slot of its counts.
fn counted(spec: &LayerSpec, rows: usize, non_negative: bool) -> (ProgramBuilder, usize, SlotId) {
    let mut program = ProgramBuilder::default();
    let layer = program.layer(spec.clone(), weights(spec, 99), rows).unwrap();
    if non_negative {
        program.set_non_negative(layer).unwrap();
    }
    let features = program.input(spec.n_inputs() * rows).unwrap();
    let thresholds = program.quantize(layer, features, 1.0, None, ValueRange::Saturate).unwrap();
    let counts = program.product(layer, thresholds).unwrap();
    (program, layer, counts)
}

/// Ends a program with a second layer of integers, and returns its scores.
fn finished(
    mut program: ProgramBuilder,
    value: SlotId,
    requantizers: Pattern<Requantizer>,
) -> Program {
    let (len, polarity) = (program.slot(value).unwrap().len, requantizers.get(0).polarity());
    let length = Length::new(40).unwrap();
    let spec = LayerSpec::dense(len, 3, length, polarity, Encoding::Bernoulli { seed: 3 }).unwrap();
    let layer = program.layer(spec.clone(), weights(&spec, 7), 1).unwrap();
    let thresholds = program.requantize(layer, value, requantizers).unwrap();
    let counts = program.product(layer, thresholds).unwrap();
    let accumulator = Accumulator::new(30, vec![5, -7, 0], IntegerActivation::Identity).unwrap();
    let sums = program.accumulate(layer, counts, accumulator).unwrap();
    let scores = program.restore(sums, Pattern::uniform(0.125)).unwrap();
    program.finish(vec![scores]).unwrap()
}

fn polarities() -> impl Strategy<Value = Polarity> {
    prop::sample::select(Polarity::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Every kind of layer and of encoding, inputs with and without signs.
    #[test]
    fn layers_of_random_programs_match_reference_steps(
        kind in 0_usize..3, from in 0_usize..6, bits in prop::sample::select(vec![32_usize, 65, 128, 200]), polarity in polarities(),
        next in polarities(), samples in 0_usize..5, rows in 1_usize..3, non_negative: bool, first in 0_u32..1000, seed: u64,
    ) {
        let spec = spec(kind, bits, polarity, encoding(from));
        let (mut program, layer, counts) = counted(&spec, rows, non_negative);
        let stage = FloatStage { scales: vec![1.5], bias: vec![0.25; spec.n_rows()], activation: Activation::Relu };
        let accumulator = Accumulator::calibrated(&spec, &stage, 6).unwrap();
        let unit = accumulator.unit(spec.length(), 1.5);
        let value = program.accumulate(layer, counts, accumulator).unwrap();
        let requantizer = Requantizer::of_unit(unit, 3.0, 12, Width::new(9).unwrap(), next).unwrap();
        let program = finished(program, value, Pattern::uniform(requantizer));
        let low = if non_negative { 0.0 } else { -1.2 };
        let inputs = values(samples * rows * spec.n_inputs(), low, seed);
        check(&both_contexts(), program, inputs, SampleSeed::new(seed).starting_at(first));
    }

    /// Integers of up to 61 bits through sums in different units, constants and bounds.
    #[test]
    fn wide_integers_match_reference_steps(
        polarity in polarities(), next in polarities(), bits: u64, width in 8_u32..=56, other in 8_u32..=40, fraction in 0_u32..=32,
        ratio in 1.0_f64..300.0, minus: bool, term in -(1_i64 << 56)..1 << 56, low in -(1_i64 << 57)..1 << 56, is_open: bool,
        multiplier_bits in 1_u32..=20, shift in 0_u32..=61, v in 1_u32..=32, activation in 0_usize..3, average: bool, zeros: bool,
    ) {
        let spec = spec(2, 65, polarity, Encoding::Bernoulli { seed: 4 });
        let (mut program, layer, counts) = counted(&spec, 1, false);
        let number = |k: u64, width: u32| (bits.wrapping_mul(2 * k + 1).rotate_left(23) as i64) >> (64 - width);
        let bias = |width: u32, from: u64| (0..spec.n_rows() as u64).map(|j| number(from + j, width)).collect();
        let [a, b] = [1000, 1001].map(|k| number(k, width));
        let activation = [
            IntegerActivation::Identity,
            IntegerActivation::Relu,
            IntegerActivation::Clamp { low: a.min(b), high: a.max(b) },
        ][activation];
        let left = Accumulator::new(width, bias(width, 0), activation).unwrap().with_fraction(fraction).unwrap();
        let right = Accumulator::new(other, bias(other, 50), IntegerActivation::Identity).unwrap();
        let left = program.accumulate(layer, counts, left).unwrap();
        let right = program.accumulate(layer, counts, right).unwrap();
        let sign = if minus { Sign::Minus } else { Sign::Plus };
        let rescaler = Rescaler::calibrated(ratio, 1.0, 12).unwrap();
        let len = spec.n_neurons();
        let rescale = Pattern::per_row(&[[None, Some(rescaler)], [None, None]], len / 2).unwrap();
        let value = program.combine([left, right], sign, Some(rescale)).unwrap();
        let terms: Vec<i64> = (0..len).map(|k| term >> (k % 50)).collect();
        let value = program.offset(value, sign, Pattern::from_elements(&terms).unwrap()).unwrap();
        let high = if is_open { i64::MAX } else { low + (1 << 50) };
        let value = program.clip(value, Bounds::Integer(Pattern::per_row(&[[low, high], [i64::MIN, 1 << 58]], len / 2).unwrap())).unwrap();
        let value = program.combine([value, value], Sign::Plus, None).unwrap();
        let [channels, rows, columns] = [2, len / 2 / 3, 3];
        let (kind, border) = (if average { PoolKind::Average } else { PoolKind::Max }, if zeros { Border::Zeros } else { Border::Excluded });
        let pool = Pool::new(kind, [2, 2]).with_stride([1, 2]).with_paddings([[1, 0], [0, 1]], border);
        let value = program.pool(value, PoolShape::new(pool, [channels, rows, columns]).unwrap()).unwrap();
        let len = program.slot(value).unwrap().len;
        let map = (0..2 * len).map(|k| GatherIndex { input: (k % 3 / 2) as u32, element: (k * 5 % len) as u32 });
        let value = program.gather(vec![value, value], map.collect()).unwrap();
        let requantizer = |k: u32| {
            let multiplier = bits.rotate_left(7 + k) >> (64 - multiplier_bits);
            Requantizer::new(multiplier, multiplier_bits, (shift + k).min(61), Width::new(v).unwrap(), next).unwrap()
        };
        let requantizers: Vec<_> = (0..len as u32 * 2).map(|k| requantizer(k % 4)).collect();
        let program = finished(program, value, Pattern::from_elements(&requantizers).unwrap());
        // Products above 2^62 run on the host.
        prop_assume!(program.magnitudes(1 << 62).is_some());
        let program = Arc::new(program);
        let backend = GpuBackend::on(context());
        prop_assume!(backend.prepare_program(&program, &PrepareOptions::default()).unwrap().is_some());
        let inputs = values(3 * spec.n_inputs(), -1.0, bits);
        check(&[context()], Arc::unwrap_or_clone(program), inputs, SampleSeed::new(bits));
    }
}

/// Programs of the suite in integer arithmetic run on the device; those with floats between layers
/// do not.
#[test]
fn integer_programs_of_the_suite_are_resident() {
    let backend = GpuBackend::on(context());
    let [mut on_device, mut on_host] = [0, 0];
    for case in suite::fixed().unwrap() {
        let Case::Program(case) = case else { continue };
        let is_integer = case.program.slots().iter().any(|slot| slot.kind == SlotKind::Integer);
        let prepared = backend.prepare_program(&case.program, &PrepareOptions::default()).unwrap();
        assert_eq!(prepared.is_some(), is_integer);
        *(if is_integer { &mut on_device } else { &mut on_host }) += 1;
    }
    assert!(on_device >= 9 && on_host >= 9, "{on_device} on the device, {on_host} on the host");
}

/// Returns two layers with a few steps between them.
fn example(rows: usize) -> (LayerSpec, Program) {
    let spec = spec(2, 100, Polarity::Signed, Encoding::Bernoulli { seed: 9 });
    let (mut program, layer, counts) = counted(&spec, rows, false);
    let accumulator = Accumulator::new(20, vec![3, -4], IntegerActivation::Relu).unwrap();
    let value = program.accumulate(layer, counts, accumulator).unwrap();
    let value = program.offset(value, Sign::Plus, Pattern::uniform(5)).unwrap();
    let requantizer = Requantizer::new(3, 4, 1, Width::new(8).unwrap(), Polarity::Signed).unwrap();
    (spec, finished(program, value, Pattern::uniform(requantizer)))
}

#[test]
fn chunked_batch_equals_whole_batch() {
    for rows in [1, 2] {
        let (spec, program) = example(rows);
        let program = Arc::new(program);
        let n_samples = 37;
        let inputs = values(n_samples * rows * spec.n_inputs(), -1.0, 8);
        let seed = SampleSeed::new(1).starting_at(11);
        let batch = ProgramBatch { inputs: &[&inputs], n_samples, seed, group: 1 };
        let all: Vec<SlotId> = program.steps().iter().map(|step| step.output()).collect();
        for slots in [&all[..], program.outputs()] {
            let whole =
                resident(&context(), &program, 256).run(&batch, slots, Cancel::NEVER).unwrap();
            assert!(whole.saturated[1] > 0);
            // Limited by the batch, and by a binding.
            for (context, max_batch) in
                [(context(), 3), (context(), 16), (plain_context(4096), 256)]
            {
                let output = resident(&context, &program, max_batch)
                    .run(&batch, slots, Cancel::NEVER)
                    .unwrap();
                assert_eq!(output, whole, "{rows} rows, {max_batch}");
            }
        }
    }
}

#[test]
fn second_run_creates_no_objects() {
    let (spec, program) = example(1);
    let program = Arc::new(program);
    // The first context is shared with concurrent tests.
    for context in every_context().into_iter().skip(1) {
        let prepared = resident(&context, &program, 8);
        let inputs = values(10 * spec.n_inputs(), -1.0, 8);
        let batch =
            ProgramBatch { inputs: &[&inputs], n_samples: 10, seed: SampleSeed::new(1), group: 1 };
        let first = prepared.run(&batch, program.outputs(), Cancel::NEVER).unwrap();
        let created = context.created();
        assert_eq!(prepared.run(&batch, program.outputs(), Cancel::NEVER).unwrap(), first);
        assert_eq!(context.created(), created);
    }
}

#[test]
fn values_outside_their_interval_are_errors_with_their_index() {
    let spec = spec(0, 64, Polarity::Signed, Encoding::Bernoulli { seed: 0 });
    let mut program = ProgramBuilder::default();
    let layer = program.layer(spec.clone(), weights(&spec, 1), 1).unwrap();
    let features = program.input(18).unwrap();
    let thresholds = program.quantize(layer, features, 1.0, None, ValueRange::Check).unwrap();
    let counts = program.product(layer, thresholds).unwrap();
    let program = Arc::new(program.finish(vec![counts]).unwrap());
    let prepared = resident(&context(), &program, 4);
    let mut inputs = vec![0.5; 18 * 9];
    inputs[18 * 7 + 5] = 1.5;
    let batch =
        ProgramBatch { inputs: &[&inputs], n_samples: 9, seed: SampleSeed::new(1), group: 1 };
    let error = prepared.run(&batch, program.outputs(), Cancel::NEVER).unwrap_err();
    let Error::OutOfRange { what: Quantity::Value, index, value, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((index, value), (18 * 7 + 5, 1.5));
    // The program still works.
    inputs[18 * 7 + 5] = 1.0;
    let batch =
        ProgramBatch { inputs: &[&inputs], n_samples: 9, seed: SampleSeed::new(1), group: 1 };
    let output = prepared.run(&batch, program.outputs(), Cancel::NEVER).unwrap();
    let SlotData::Words(counts) = &output.slots[0] else { panic!("{output:?}") };
    assert_eq!(counts.len(), 9 * 12);
}

#[test]
fn program_with_floats_between_layers_is_unsupported() {
    let spec = spec(0, 64, Polarity::Bipolar, Encoding::Bernoulli { seed: 0 });
    let (mut program, layer, counts) = counted(&spec, 1, false);
    let stage = FloatStage { scales: vec![1.0], bias: vec![0.0; 12], activation: Activation::Relu };
    let value = program.decode(layer, counts, stage).unwrap();
    let next =
        LayerSpec::dense(12, 2, Length::new(64).unwrap(), Polarity::Bipolar, *spec.encoding())
            .unwrap();
    let next_layer = program.layer(next.clone(), weights(&next, 3), 1).unwrap();
    let thresholds = program.quantize(next_layer, value, 1.0, None, ValueRange::Saturate).unwrap();
    let counts = program.product(next_layer, thresholds).unwrap();
    let program = Arc::new(program.finish(vec![counts]).unwrap());
    let backend = GpuBackend::on(context());
    assert!(backend.prepare_program(&program, &PrepareOptions::default()).unwrap().is_none());
}

/// Floats that nothing on the device depends on are computed from downloaded slots.
#[test]
fn floats_after_the_last_layer_are_computed_on_the_host() {
    let spec = spec(0, 64, Polarity::Bipolar, Encoding::Bernoulli { seed: 0 });
    let (mut program, layer, counts) = counted(&spec, 1, false);
    let stage =
        FloatStage { scales: vec![1.5], bias: vec![0.25; 12], activation: Activation::Relu };
    let value = program.decode(layer, counts, stage).unwrap();
    let program = program.finish(vec![value]).unwrap();
    check(&every_context(), program, values(5 * 18, -1.0, 3), SampleSeed::new(4));
}

#[test]
fn program_is_cancelled_between_chunks_and_lost_with_its_device() {
    let (spec, program) = example(1);
    let program = Arc::new(program);
    let own = own_context(&ContextOptions::default());
    let prepared = resident(&own, &program, 2);
    let inputs = values(50 * spec.n_inputs(), -1.0, 8);
    let batch =
        ProgramBatch { inputs: &[&inputs], n_samples: 50, seed: SampleSeed::new(1), group: 1 };
    let asked = AtomicUsize::new(0);
    let cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= 3;
    let run = |cancel: Cancel<'_>| prepared.run(&batch, program.outputs(), cancel);
    assert_eq!(run(Cancel::when(&cancelled)), Err(Error::Cancelled));
    assert!(run(Cancel::NEVER).is_ok());
    assert_eq!(prepared.backend_for(1), Some(format!("gpu:{}", own.info().index)));
    assert!(!prepared.is_lost() && prepared.notes().is_empty());
    own.destroy();
    assert!(prepared.is_lost());
    assert_eq!(run(Cancel::NEVER).unwrap_err().backend_fault(), Some(BackendFault::Lost));
}

#[test]
fn program_profile_has_a_row_per_kernel() {
    let (spec, program) = example(1);
    let program = Arc::new(program);
    let prepared = resident(&context(), &program, 8);
    let inputs = values(10 * spec.n_inputs(), -1.0, 8);
    let batch =
        ProgramBatch { inputs: &[&inputs], n_samples: 10, seed: SampleSeed::new(1), group: 1 };
    let times = prepared.profile(&batch, program.outputs(), Cancel::NEVER).unwrap();
    let names: Vec<&str> = times.iter().map(|time| time.name.as_str()).collect();
    assert_eq!(names[..3], ["stage pack", "encode", "conv"]);
    for kernel in ["stage counts", "stage map", "stage requantize"] {
        assert!(names.contains(&kernel), "{names:?}");
    }
    // Two layers in each of three chunks.
    assert_eq!(times[1].launches, 6);
}
