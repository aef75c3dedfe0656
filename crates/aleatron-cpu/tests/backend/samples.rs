//! Programs with convolutions, whose samples are divided among threads, against the reference
//! steps.

use aleatron_core::arithmetic::{Activation, FloatStage};
use aleatron_core::backend::{Backend, Batch, PrepareOptions, PreparedLayer};
use aleatron_core::program::{
    PreparedProgram, Program, ProgramBatch, ProgramBuilder, ProgramOutput, SlotId, ValueRange,
    plain,
};
use aleatron_core::{
    Cancel, Convolution, Encoding, Error, LayerSpec, Length, Polarity, Quantity, Result,
    SampleSeed, Weights,
};
use aleatron_cpu::{Cpu, CpuBackend, Pool, Tier};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const FEATURES: usize = 2 * 7 * 6;

/// Returns two convolutions, with a saturating layer between them, and a dense layer.
fn program() -> Arc<Program> {
    let (length, polarity, encoding) =
        (Length::new(100).unwrap(), Polarity::Signed, Encoding::Bernoulli { seed: 3 });
    let conv = Convolution::conv2d([2, 7, 6], 5, [3, 3]).with_padding([1, 1]);
    let first = LayerSpec::conv(conv, length, polarity, encoding).unwrap();
    let conv = Convolution::conv2d([5, 7, 6], 3, [2, 3]).with_stride([2, 1]);
    let second = LayerSpec::conv(conv, length, polarity, encoding).unwrap();
    let third = LayerSpec::dense(second.n_neurons(), 4, length, polarity, encoding).unwrap();
    let mut program = ProgramBuilder::default();
    let mut value = program.input(FEATURES).unwrap();
    let ranges = [ValueRange::Check, ValueRange::Saturate, ValueRange::Saturate];
    for (spec, range) in [first, second, third].into_iter().zip(ranges) {
        let weights =
            (0..spec.n_weights()).map(|k| f64::from(k as u32 * 7919 % 1999) / 999.5 - 1.0);
        let weights = Weights::new(&spec, weights.collect()).unwrap();
        let bias = (0..spec.n_rows()).map(|row| row as f64 / 10.0).collect();
        let stage = FloatStage { scales: vec![0.3], bias, activation: Activation::Relu };
        let layer = program.layer(spec, weights, 1).unwrap();
        let thresholds = program.quantize(layer, value, 1.0, None, range).unwrap();
        let counts = program.product(layer, thresholds).unwrap();
        value = program.decode(layer, counts, stage).unwrap();
    }
    Arc::new(program.finish(vec![value]).unwrap())
}

fn features(n_samples: usize) -> Vec<f64> {
    (0..n_samples * FEATURES).map(|k| f64::from(k as u32 * 6007 % 1777) / 888.5 - 1.0).collect()
}

/// Computes layers one after another, with reference steps between them.
fn expected(program: &Program, batch: &ProgramBatch<'_>, slots: &[SlotId]) -> ProgramOutput {
    let prepare = |layer: &aleatron_core::program::ProgramLayer| -> Box<dyn PreparedLayer> {
        let one = Cpu::new(Tier::best(), Arc::new(Pool::new(1).unwrap()));
        CpuBackend::new(one)
            .prepare(&layer.spec, &layer.weights, &PrepareOptions::default())
            .unwrap()
    };
    let layers: Vec<_> = program.layers().iter().map(prepare).collect();
    plain::run(program, batch, slots, |layer, thresholds, seed| {
        layers[layer].counts(&Batch::thresholds(thresholds, seed), Cancel::NEVER)
    })
    .unwrap()
}

fn prepared(program: &Arc<Program>, tier: Tier, threads: usize) -> Box<dyn PreparedProgram> {
    let cpu = Cpu::new(tier, Arc::new(Pool::eager(threads).unwrap()));
    CpuBackend::new(cpu).prepare_program(program, &PrepareOptions::default()).unwrap().unwrap()
}

#[test]
fn samples_on_any_number_of_threads_match_reference_steps() {
    let program = program();
    let slots: Vec<SlotId> = program.steps().iter().map(|step| step.output()).collect();
    for n_samples in [0, 1, 5, 6, 41] {
        let features = features(n_samples);
        let seed = SampleSeed::new(11).advanced(1000).unwrap();
        let batch = ProgramBatch { inputs: &[&features], n_samples, seed, group: 1 };
        let expected = expected(&program, &batch, &slots);
        if n_samples == 41 {
            assert!(expected.saturated[1] > 0, "{:?}", expected.saturated);
        }
        for (tier, threads) in
            Tier::available().iter().flat_map(|&tier| [1, 2, 3].map(|n| (tier, n)))
        {
            let output =
                prepared(&program, tier, threads).run(&batch, &slots, Cancel::NEVER).unwrap();
            assert_eq!(output, expected, "{n_samples} samples, {tier:?}, {threads} threads");
        }
    }
}

#[test]
fn first_bad_value_of_the_batch_is_reported() {
    let program = program();
    for (index, bad) in [(0, f64::NAN), (20 * FEATURES + 7, 1.5)] {
        let mut features = features(40);
        features[index] = bad;
        // Later values do not matter.
        features[index + FEATURES..].fill(-9.0);
        let batch = ProgramBatch {
            inputs: &[&features],
            n_samples: 40,
            seed: SampleSeed::new(0),
            group: 1,
        };
        for threads in [1, 2, 3] {
            let run = prepared(&program, Tier::best(), threads).run(
                &batch,
                program.outputs(),
                Cancel::NEVER,
            );
            let Err(Error::OutOfRange { what: Quantity::Value, index: found, value, .. }) = run
            else {
                panic!("{run:?}");
            };
            assert_eq!((found, value.to_bits()), (index, bad.to_bits()));
        }
    }
}

/// The token is polled only on the thread of the caller, and one positive result is enough.
#[test]
fn cancelled_run_is_an_error() {
    let (program, features, caller) = (program(), features(40), std::thread::current().id());
    let batch =
        ProgramBatch { inputs: &[&features], n_samples: 40, seed: SampleSeed::new(0), group: 1 };
    // A single thread polls before each of its chunks; with several threads, the others may take
    // all chunks after the first poll.
    for (threads, answer) in [(1, 0), (1, 1), (1, 3), (2, 0), (3, 0)] {
        let asked = AtomicUsize::new(0);
        let cancelled = || {
            assert_eq!(std::thread::current().id(), caller);
            asked.fetch_add(1, Ordering::Relaxed) == answer
        };
        let run: Result<ProgramOutput> = prepared(&program, Tier::best(), threads).run(
            &batch,
            program.outputs(),
            Cancel::when(&cancelled),
        );
        assert_eq!(run, Err(Error::Cancelled), "{threads} threads, question {answer}");
    }
}
