//! Layers counted from tables on the device against the same layers counted bit by bit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_core::generator::{Halton, Lfsr, Pairing, Sequence, Sharing, Sobol, Width};
use aleatron_core::{DenseShape, Error as CoreError, Polarity, Quantity, reference};
use aleatron_gpu::table::{GpuTabled, TableKernel};
use aleatron_gpu::{Capabilities, Error, Kernel};
use common::{Draw, context, length, plain_context};
use std::sync::Arc;

fn pairings(bits: u32) -> [Pairing; 3] {
    let width = Width::new(bits).unwrap();
    let sobol = |dimension| Sequence::Sobol(Sobol::new(dimension, width).unwrap());
    let lfsr = |seed| Sequence::Lfsr(Lfsr::new(width, seed).unwrap());
    let halton = |base| Sequence::Halton(Halton::new(base, width).unwrap());
    [(sobol(1), sobol(2)), (lfsr(3), sobol(5)), (halton(2), halton(3))].map(|(inputs, weights)| Pairing {
        inputs,
        weights,
        sharing: Sharing::OneForAll,
    })
}

fn thresholds(draw: &mut Draw, n: usize, one: u64) -> Vec<u64> {
    (0..n).map(|_| u64::from(draw.word()) % (one + 1)).collect()
}

fn check(
    gpu: &Arc<aleatron_gpu::GpuContext>,
    shape: DenseShape,
    pairing: &Pairing,
    n_samples: usize,
    seed: u32,
) {
    let (n, draw) = (shape.n_inputs(), &mut Draw::new(seed));
    let w = thresholds(draw, shape.n_weights(), pairing.weights.width().one());
    let x = thresholds(draw, n * n_samples, pairing.inputs.width().one());
    let expected = reference::dense_counts(
        &shape,
        &pairing.encode_weights(&w, n, shape.length()).unwrap(),
        &pairing.encode_inputs(&x, n, shape.length()).unwrap(),
    );
    let layer = GpuTabled::new(gpu, shape, pairing, &w).unwrap();
    assert_eq!(layer.counts(&x).unwrap(), expected, "{shape:?} {pairing:?} x {n_samples}");
}

#[test]
fn tables_equal_bits() {
    let gpu = context();
    let mut seed = 0;
    for bits in [3, 8, 12] {
        for pairing in pairings(bits) {
            for sharing in [Sharing::OneForAll, Sharing::OnePerInput] {
                for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
                    for (n, m, l, samples) in [(1, 1, 1, 1), (5, 3, 64, 2), (9, 33, 200, 3), (17, 70, 77, 1)]
                    {
                        seed += 1;
                        let shape = DenseShape::new(n, m, length(l), polarity).unwrap();
                        check(&gpu, shape, &Pairing { sharing, ..pairing }, samples, seed);
                    }
                }
            }
        }
    }
}

/// Bindings so small that neurons come in blocks and samples in pieces.
#[test]
fn what_passes_a_binding_is_split() {
    // 300 words: rows of 9 entries, 10 inputs, so blocks of 30 neurons and pieces of 3 samples.
    let gpu = plain_context(1280);
    for sharing in [Sharing::OneForAll, Sharing::OnePerInput] {
        for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
            let shape = DenseShape::new(10, 75, length(30), polarity).unwrap();
            check(&gpu, shape, &Pairing { sharing, ..pairings(3)[0] }, 8, 5);
        }
    }
    let shape = DenseShape::new(10, 4, length(30), Polarity::Unipolar).unwrap();
    let wide = GpuTabled::new(&gpu, shape, &pairings(8)[0], &[0; 40]);
    assert!(matches!(wide, Err(Error::TooLarge { .. })), "{wide:?}");
}

/// Sums past 32 bits carry.
#[test]
fn counts_pass_32_bits() {
    let gpu = context();
    let bits = 1 << 24;
    let shape = DenseShape::new(300, 1, length(bits), Polarity::Unipolar).unwrap();
    let layer = GpuTabled::new(&gpu, shape, &pairings(3)[0], &[8; 300]).unwrap();
    assert_eq!(layer.counts(&[8; 300]).unwrap(), [300 * bits as u64]);
}

#[test]
fn bad_input_is_an_error() {
    let gpu = context();
    let shape = DenseShape::new(2, 2, length(16), Polarity::Unipolar).unwrap();
    let pairing = pairings(8)[0];
    let core = |result: Result<GpuTabled, Error>| match result {
        Err(Error::Core(error)) => error,
        other => panic!("{other:?}"),
    };
    let short = core(GpuTabled::new(&gpu, shape, &pairing, &[0; 3]));
    assert_eq!(short, CoreError::Mismatch { what: Quantity::Weights, expected: 4, actual: 3 });
    let large = core(GpuTabled::new(&gpu, shape, &pairing, &[0, 257, 0, 0]));
    assert!(matches!(large, CoreError::OutOfRange { index: 1, .. }));
    let streams = Pairing { sharing: Sharing::OnePerStream, ..pairing };
    assert!(matches!(core(GpuTabled::new(&gpu, shape, &streams, &[0; 4])), CoreError::TooLarge { .. }));
    let layer = GpuTabled::new(&gpu, shape, &pairing, &[0; 4]).unwrap();
    assert!(matches!(layer.counts(&[1]), Err(Error::Core(CoreError::Ragged { .. }))));
    assert!(matches!(layer.counts(&[1, 300]), Err(Error::Core(CoreError::OutOfRange { index: 1, .. }))));
    assert!(layer.counts(&[]).unwrap().is_empty());
}

#[test]
fn shaders_are_valid() {
    for kernel in TableKernel::ALL {
        let source = kernel.source(Capabilities::NONE);
        let module =
            naga::front::wgsl::parse_str(&source).unwrap_or_else(|e| panic!("{}", e.emit_to_string(&source)));
        let capabilities = naga::valid::Capabilities::IMMEDIATES;
        let mut validator = naga::valid::Validator::new(naga::valid::ValidationFlags::all(), capabilities);
        validator.validate(&module).unwrap_or_else(|error| panic!("{}: {error:?}", kernel.name()));
    }
}
