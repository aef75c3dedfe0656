//! Layers counted from tables on the device against the same layers counted bit by bit.

use crate::common::{Draw, both_contexts, context, length, own_context, plain_context};
use aleatron_core::generator::{
    CountTable, Halton, Lfsr, Pairing, PrefixCounts, Sequence, Sharing, Sobol, Width,
};
use aleatron_core::{
    Cancel, DenseShape, Encoding, Error as CoreError, LayerSpec, Polarity, Quantity, SampleSeed,
    reference,
};
use aleatron_gpu::{
    ContextOptions, CountOptions, Error, GpuContext, GpuTabled, Profiler, ThresholdSource,
};
use std::sync::Arc;

fn pairings(bits: u32) -> [Pairing; 3] {
    let width = Width::new(bits).unwrap();
    let sobol = |dimension| Sequence::Sobol(Sobol::new(dimension, width).unwrap());
    let lfsr = |seed| Sequence::Lfsr(Lfsr::new(width, seed).unwrap());
    let halton = |base| Sequence::Halton(Halton::new(base, width).unwrap());
    [(sobol(1), sobol(2)), (lfsr(3), sobol(5)), (halton(2), halton(3))]
        .map(|(inputs, weights)| Pairing { inputs, weights, sharing: Sharing::OneForAll })
}

fn thresholds(draw: &mut Draw, n: usize, one: u64) -> Vec<u64> {
    (0..n).map(|_| u64::from(draw.word()) % (one + 1)).collect()
}

fn check(gpu: &Arc<GpuContext>, shape: DenseShape, pairing: &Pairing, n_samples: usize, seed: u32) {
    let (n, draw) = (shape.n_inputs(), &mut Draw::new(seed));
    let w = thresholds(draw, shape.n_weights(), pairing.weights.width().one());
    let x = thresholds(draw, n * n_samples, pairing.inputs.width().one());
    let (n_neurons, encoding) = (shape.n_neurons(), Encoding::Sequences(*pairing));
    let spec = LayerSpec::dense(n, n_neurons, shape.length(), shape.polarity(), encoding).unwrap();
    let (weights, inputs) = (
        reference::weight_streams(&spec, &w),
        reference::input_streams(&spec, &x, SampleSeed::new(0)),
    );
    let expected = reference::counts(&spec, &weights, &inputs);
    for max_batch in [1, 64] {
        let layer = GpuTabled::new(gpu, shape, max_batch, pairing, &w).unwrap();
        assert_eq!(layer.counts(&x).unwrap(), expected, "{shape:?} {pairing:?} x {n_samples}");
        let filled = layer.counts_filled(n_samples, |samples, out| {
            out.extend(&x[samples.start * n..samples.end * n]);
            Ok(())
        });
        assert_eq!(filled.unwrap(), expected, "filled, {shape:?} {pairing:?} x {n_samples}");
    }
}

#[test]
fn tables_equal_bit_by_bit_counts() {
    let contexts = both_contexts();
    let mut seed = 0;
    for bits in [3, 8, 12] {
        for pairing in pairings(bits) {
            for sharing in [Sharing::OneForAll, Sharing::OnePerInput] {
                for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
                    for (n, m, l, samples) in
                        [(1, 1, 1, 1), (5, 3, 64, 2), (9, 33, 200, 3), (17, 70, 77, 1)]
                    {
                        seed += 1;
                        let shape = DenseShape::new(n, m, length(l), polarity).unwrap();
                        for gpu in &contexts {
                            check(gpu, shape, &Pairing { sharing, ..pairing }, samples, seed);
                        }
                    }
                }
            }
        }
    }
}

/// Bindings so small that neurons are divided into blocks and samples into chunks.
#[test]
fn layer_above_the_binding_limit_is_split() {
    // 300 words: rows of 9 entries, 10 inputs, so blocks of 30 neurons and chunks of 3 samples.
    let gpu = plain_context(1280);
    for sharing in [Sharing::OneForAll, Sharing::OnePerInput] {
        for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
            let shape = DenseShape::new(10, 75, length(30), polarity).unwrap();
            check(&gpu, shape, &Pairing { sharing, ..pairings(3)[0] }, 8, 5);
        }
    }
    let shape = DenseShape::new(10, 4, length(30), Polarity::Unipolar).unwrap();
    let wide = GpuTabled::new(&gpu, shape, 8, &pairings(8)[0], &[0; 40]);
    assert!(matches!(wide, Err(Error::TooLarge { .. })), "{wide:?}");
}

/// Sums above 32 bits carry.
#[test]
fn counts_above_32_bits_carry() {
    let gpu = context();
    let bits = 1 << 24;
    let shape = DenseShape::new(300, 1, length(bits), Polarity::Unipolar).unwrap();
    let layer = GpuTabled::new(&gpu, shape, 1, &pairings(3)[0], &[8; 300]).unwrap();
    assert_eq!(layer.counts(&[8; 300]).unwrap(), [300 * bits as u64]);
}

#[test]
fn invalid_input_is_an_error() {
    let gpu = context();
    let shape = DenseShape::new(2, 2, length(16), Polarity::Unipolar).unwrap();
    let pairing = pairings(8)[0];
    let core = |result: Result<GpuTabled, Error>| match result {
        Err(Error::Core(error)) => error,
        other => panic!("{other:?}"),
    };
    let short = core(GpuTabled::new(&gpu, shape, 4, &pairing, &[0; 3]));
    assert_eq!(short, CoreError::Mismatch { what: Quantity::Weights, expected: 4, actual: 3 });
    let large = core(GpuTabled::new(&gpu, shape, 4, &pairing, &[0, 257, 0, 0]));
    assert!(matches!(large, CoreError::OutOfRange { index: 1, .. }));
    let streams = Pairing { sharing: Sharing::OnePerStream, ..pairing };
    assert!(matches!(
        core(GpuTabled::new(&gpu, shape, 4, &streams, &[0; 4])),
        CoreError::TooLarge { .. }
    ));
    let layer = GpuTabled::new(&gpu, shape, 4, &pairing, &[0; 4]).unwrap();
    assert!(matches!(layer.counts(&[1]), Err(Error::Core(CoreError::Ragged { .. }))));
    assert!(matches!(
        layer.counts(&[1, 300]),
        Err(Error::Core(CoreError::OutOfRange { index: 1, .. }))
    ));
    assert!(layer.counts(&[]).unwrap().is_empty());
    // The index is that in the batch, also if thresholds are requested chunk by chunk.
    let filled = layer.counts_filled(20, |samples, out| {
        out.extend(samples.flat_map(|sample| [1, if sample == 17 { 300 } else { 2 }]));
        Ok(())
    });
    assert!(
        matches!(filled, Err(Error::Core(CoreError::OutOfRange { index: 35, .. }))),
        "{filled:?}"
    );
    assert!(matches!(GpuTabled::new(&gpu, shape, 0, &pairing, &[0; 4]), Err(Error::Core(_))));
}

/// Some software devices silently end loops after 65,535 turns: longer loops need several
/// dispatches.
#[test]
fn long_streams_and_wide_layers_use_several_dispatches() {
    let gpu = context();
    // 64 threads go through 2^22 + 100 positions: 65,538 turns.
    let shape = DenseShape::new(1, 2, length((1 << 22) + 100), Polarity::Bipolar).unwrap();
    let pairing = Pairing { sharing: Sharing::OnePerInput, ..pairings(8)[0] };
    let [x, w] = [&pairing.inputs, &pairing.weights];
    let mut row = Vec::new();
    PrefixCounts::new(x, w, shape.length(), Polarity::Bipolar).unwrap().append_row(100, &mut row);
    let layer = GpuTabled::new(&gpu, shape, 1, &pairing, &[3, 200]).unwrap();
    assert_eq!(layer.counts(&[100]).unwrap(), [row[3], row[200]].map(u64::from));

    // Eight threads go through 600,000 inputs: 75,000 turns.
    let n = 600_000;
    let shape = DenseShape::new(n, 1, length(50), Polarity::Unipolar).unwrap();
    let pairing = pairings(3)[1];
    let draw = &mut Draw::new(6);
    let [w, x] = [0, 1].map(|_| thresholds(draw, n, 8));
    let layer = GpuTabled::new(&gpu, shape, 1, &pairing, &w).unwrap();
    let table =
        CountTable::new(&pairing.inputs, &pairing.weights, shape.length(), Polarity::Unipolar)
            .unwrap();
    let expected: u64 = x.iter().zip(&w).map(|(&x, &w)| table.get(x, w)).sum();
    assert_eq!(layer.counts(&x).unwrap(), [expected]);
}

#[test]
fn second_call_creates_no_objects() {
    let gpu = own_context(&ContextOptions::default());
    for sharing in [Sharing::OneForAll, Sharing::OnePerInput] {
        let shape = DenseShape::new(10, 7, length(64), Polarity::Unipolar).unwrap();
        let draw = &mut Draw::new(8);
        let (w, x) = (thresholds(draw, 70, 8), thresholds(draw, 10 * 9, 8));
        let layer =
            GpuTabled::new(&gpu, shape, 4, &Pairing { sharing, ..pairings(3)[0] }, &w).unwrap();
        assert_eq!((layer.max_batch(), layer.chunk()), (4, 4));
        for n_samples in [1, 4, 9] {
            let x = &x[..10 * n_samples];
            let counts = layer.counts(x).unwrap();
            let before = gpu.created();
            for _ in 0..3 {
                assert_eq!(layer.counts(x).unwrap(), counts);
            }
            assert_eq!(gpu.created(), before, "{sharing:?}, {n_samples} samples");
        }
    }
}

#[test]
fn call_can_be_timed_and_cancelled() {
    let gpu = context();
    let shape = DenseShape::new(10, 7, length(64), Polarity::Unipolar).unwrap();
    let pairing = Pairing { sharing: Sharing::OnePerInput, ..pairings(3)[0] };
    let layer = GpuTabled::new(&gpu, shape, 2, &pairing, &[5; 70]).unwrap();
    let mut profiler = Profiler::new(&gpu).unwrap();
    let inputs = || ThresholdSource::Slice(&[3u64; 50]);
    let counts = layer.counts_with(inputs(), CountOptions::profiled(&mut profiler)).unwrap();
    assert_eq!(counts, layer.counts(&[3; 50]).unwrap());
    let rows: Vec<_> = profiler.rows().iter().map(|row| (&*row.kernel, row.calls)).collect();
    assert_eq!(rows, [("table rows", 3), ("table count", 3)]);
    let at_once = || true;
    let stopped = layer.counts_with(
        inputs(),
        CountOptions { cancel: Cancel::when(&at_once), ..CountOptions::default() },
    );
    assert_eq!(stopped, Err(aleatron_core::Error::Cancelled.into()));
    assert!(!layer.is_lost());
}
