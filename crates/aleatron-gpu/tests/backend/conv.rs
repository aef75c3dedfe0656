//! Convolutions and signed dense layers of sizes that use every shape of workgroup.

use crate::common::both_contexts;
use aleatron_core::backend::CountMethod;
use aleatron_core::conformance::{Case, LayerCase, Reference, Subject};
use aleatron_core::{Convolution, Encoding, LayerSpec, Length, Polarity, SampleSeed};
use aleatron_gpu::GpuBackend;

fn check(spec: &LayerSpec, n_samples: usize) {
    let (low, width) = (spec.polarity().interval()[0], spec.encoding().input_width());
    let number = |k: usize| k as u64 * 7919 % 1999;
    let value = |k: usize| low + (1.0 - low) * number(k) as f64 / 1998.0;
    let values = |n: usize| (0..n).map(value).collect::<Vec<_>>();
    let thresholds = |n: usize, what| width.thresholds(&values(n), spec.polarity(), what).unwrap();
    let case = Case::Layer(LayerCase {
        spec: spec.clone(),
        weights: thresholds(spec.n_weights(), aleatron_core::Quantity::Weight),
        inputs: thresholds(n_samples * spec.n_inputs(), aleatron_core::Quantity::Value),
        seed: SampleSeed::new(5),
        method: CountMethod::Bits,
    });
    let expected = Reference.answer(&case);
    for context in both_contexts() {
        assert_eq!(
            GpuBackend::on(context).run(&case).unwrap().unwrap(),
            expected,
            "{spec:?} x {n_samples}"
        );
    }
}

/// Few channels and many columns, and the other way round; lengths of one, two and four words.
#[test]
fn convolution_of_every_tile_shape_matches_reference() {
    let encoding = Encoding::Bernoulli { seed: 2 };
    for (k, (channels, size, n_samples)) in
        [(5, 7, 3), (16, 9, 1), (30, 9, 1), (64, 4, 5), (70, 4, 1), (70, 5, 1)]
            .into_iter()
            .enumerate()
    {
        let convolution =
            Convolution::conv2d([2, size, size], channels, [3, 3]).with_padding([1, 1]);
        for (polarity, bits) in Polarity::ALL.into_iter().zip([[20, 70, 128], [128, 20, 70]][k % 2])
        {
            let length = Length::new(bits).unwrap();
            check(&LayerSpec::conv(convolution, length, polarity, encoding).unwrap(), n_samples);
        }
    }
}

/// Kernels so long that several workgroups count one of them.
#[test]
fn split_kernels_of_signed_dense_layers_match_reference() {
    let encoding = Encoding::Bernoulli { seed: 2 };
    for (n_neurons, n_samples, bits) in [(3, 1, 1024), (70, 2, 70), (70, 20, 128), (70, 70, 40)] {
        let length = Length::new(bits).unwrap();
        check(
            &LayerSpec::dense(150, n_neurons, length, Polarity::Signed, encoding).unwrap(),
            n_samples,
        );
    }
}
