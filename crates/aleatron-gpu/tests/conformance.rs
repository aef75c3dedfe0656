//! The one suite of every backend, on the device, and random cases like those of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_core::conformance::{Backend, Case, DenseCase, Operation, Reference, SparseCase, suite};
use aleatron_core::gates::Gate;
use aleatron_core::{BitStream, Connections, DenseShape, LayerIndex, Polarity, Threshold};
use aleatron_gpu::GpuBackend;
use common::{both_contexts, every_context, length};
use proptest::prelude::*;

#[test]
fn the_fixed_suite_passes() {
    for context in every_context() {
        let backend = GpuBackend(context);
        let mut ran = Vec::new();
        for case in suite::fixed().unwrap() {
            if let Some(answer) = backend.run(&case) {
                assert_eq!(answer.unwrap(), Reference.answer(&case), "{case:?}");
                ran.push(case.operation());
            }
        }
        use Operation::{Count, Dense, Encode, Gates, Sparse};
        for operation in [Encode, Gates, Count, Dense, Sparse] {
            assert!(ran.contains(&operation), "{operation:?} did not run");
        }
    }
}

fn threshold() -> impl Strategy<Value = Threshold> {
    let p = prop_oneof![Just(0.0), Just(1.0), 0.0..1e-9, 0.0..=1.0, 0.999_999..1.0];
    p.prop_map(|p: f64| Threshold::from_probability(p).unwrap())
}

prop_compose! {
    fn layer()(n_inputs in 1usize..40, n_neurons in 1usize..80, n_samples in 1usize..40, bits in 1usize..300)(
        weights in prop::collection::vec(threshold(), n_inputs * n_neurons),
        inputs in prop::collection::vec(threshold(), n_inputs * n_samples),
        mask in prop::collection::vec(any::<bool>(), n_inputs * n_neurons),
        (weight_seed, input_seed, first_row) in (any::<u64>(), any::<u64>(), 0u32..1 << 30),
        (layer, bipolar) in (0usize..1 << 28, any::<bool>()),
        (n_inputs, n_neurons, bits) in Just((n_inputs, n_neurons, bits)),
    ) -> (DenseCase, SparseCase) {
        let polarity = if bipolar { Polarity::Bipolar } else { Polarity::Unipolar };
        let connections = Connections::from_mask(&mask, n_inputs).unwrap();
        let sparse = SparseCase {
            length: length(bits), polarity, weights: weights[..connections.len()].to_vec(), connections,
            weight_seed, inputs: inputs.clone(), input_seed, first_row,
        };
        let shape = DenseShape::new(n_inputs, n_neurons, length(bits), polarity).unwrap();
        let layer = LayerIndex::new(layer).unwrap();
        (DenseCase { shape, layer, weights, weight_seed, inputs, input_seed, first_row }, sparse)
    }
}

prop_compose! {
    fn streams()(bits in 1usize..400)(
        a in prop::collection::vec(0u8..2, bits),
        b in prop::collection::vec(0u8..2, bits),
        select in prop::collection::vec(0u8..2, bits),
    ) -> [BitStream; 3] {
        [a, b, select].map(|bits| BitStream::from_bits(&bits).unwrap())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_layers_equal_the_reference((dense, sparse) in layer()) {
        for case in [Case::Dense(dense), Case::Sparse(sparse)] {
            let expected = Reference.answer(&case);
            for context in both_contexts() {
                prop_assert_eq!(&GpuBackend(context).run(&case).unwrap().unwrap(), &expected);
            }
        }
    }

    #[test]
    fn random_gates_equal_the_reference([a, b, select] in streams()) {
        let pair = || (a.clone(), b.clone());
        let mut cases: Vec<Case> =
            Gate::ALL.into_iter().map(|gate| Case::Gate { gate, a: pair().0, b: pair().1 }).collect();
        cases.push(Case::Not { a: pair().0 });
        cases.push(Case::Mux { select, a: pair().0, b: pair().1 });
        cases.push(Case::Popcount { a: pair().0 });
        cases.push(Case::AndPopcount { a: pair().0, b: pair().1 });
        cases.push(Case::Hamming { a: pair().0, b: pair().1 });
        for context in both_contexts() {
            let backend = GpuBackend(context);
            for case in &cases {
                prop_assert_eq!(backend.run(case).unwrap().unwrap(), Reference.answer(case), "{:?}", case);
            }
        }
    }
}
