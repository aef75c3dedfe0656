//! The conformance suite on the device, and random cases of the same kind.

use crate::common::{both_contexts, choice, context, every_context, own_context};
use aleatron_core::backend::PrepareOptions;
use aleatron_core::conformance::strategies::{Sizes, layer, streams};
use aleatron_core::conformance::{Case, Operation, Reference, Subject, suite};
use aleatron_core::gates::Gate;
use aleatron_core::{
    Backend, BackendFault, Cancel, Encoding, Error, LayerSpec, Length, Polarity, SampleSeed,
    Weights,
};
use aleatron_gpu::{GpuBackend, adapter};
use proptest::prelude::*;

#[test]
fn fixed_suite_passes() {
    for context in every_context() {
        let backend = GpuBackend::on(context);
        let mut ran = Vec::new();
        for case in suite::fixed().unwrap() {
            if let Some(answer) = backend.run(&case) {
                assert_eq!(answer.unwrap(), Reference.answer(&case), "{case:?}");
                ran.push(case.operation());
            }
        }
        // Packing, unpacking and neurons are only supported on the CPU.
        let missing = [Operation::Pack, Operation::Unpack, Operation::Lif, Operation::Mask];
        for operation in Operation::ALL {
            assert_ne!(ran.contains(&operation), missing.contains(&operation), "{operation:?}");
        }
    }
}

/// Layers that fill several workgroups.
const SIZES: Sizes = Sizes { inputs: 40, neurons: 80, channels: 4, groups: 3, samples: 40 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_layers_match_reference(case in layer(SIZES)) {
        let case = Case::Layer(case);
        let expected = Reference.answer(&case);
        for context in both_contexts() {
            prop_assert_eq!(&GpuBackend::on(context).run(&case).unwrap().unwrap(), &expected);
        }
    }

    #[test]
    fn random_gates_match_reference([a, b, select] in streams()) {
        let pair = || (a.clone(), b.clone());
        let mut cases: Vec<Case> =
            Gate::ALL.into_iter().map(|gate| Case::Gate { gate, a: pair().0, b: pair().1 }).collect();
        cases.push(Case::Not { a: pair().0 });
        cases.push(Case::Mux { select, a: pair().0, b: pair().1 });
        cases.push(Case::Popcount { a: pair().0 });
        cases.push(Case::AndPopcount { a: pair().0, b: pair().1 });
        cases.push(Case::Hamming { a: pair().0, b: pair().1 });
        for context in both_contexts() {
            let backend = GpuBackend::on(context);
            for case in &cases {
                prop_assert_eq!(backend.run(case).unwrap().unwrap(), Reference.answer(case), "{:?}", case);
            }
        }
    }
}

fn small() -> (LayerSpec, Weights) {
    let encoding = Encoding::Bernoulli { seed: 1 };
    let spec =
        LayerSpec::dense(3, 2, Length::new(64).unwrap(), Polarity::Unipolar, encoding).unwrap();
    let weights = Weights::new(&spec, vec![0.5; 6]).unwrap();
    (spec, weights)
}

#[test]
fn backend_name_has_the_adapter_index() {
    let info = adapter::find(&choice()).unwrap();
    let name = format!("gpu:{}", info.index);
    assert_eq!(GpuBackend::open(&choice()).unwrap().name(), name);
    let (spec, weights) = small();
    let layer =
        GpuBackend::on(context()).prepare(&spec, &weights, &PrepareOptions::default()).unwrap();
    assert_eq!(layer.backend_for(1), Some(name));
    assert!(!layer.is_lost());
}

#[test]
fn lost_device_is_a_backend_error() {
    let context = own_context(&aleatron_gpu::ContextOptions::default());
    let backend = GpuBackend::on(context.clone());
    let (spec, weights) = small();
    let layer = backend.prepare(&spec, &weights, &PrepareOptions::default()).unwrap();
    context.destroy();
    assert!(layer.is_lost());
    let batch = aleatron_core::backend::Batch::values(&[0.5; 3], SampleSeed::new(1));
    let fault = |error: Error| error.backend_fault();
    assert_eq!(fault(layer.counts(&batch, Cancel::NEVER).unwrap_err()), Some(BackendFault::Lost));
    let again = backend.prepare(&spec, &weights, &PrepareOptions::default()).unwrap_err();
    assert_eq!(fault(again), Some(BackendFault::Lost));
}

#[test]
fn batch_is_cancelled_between_chunks() {
    let (spec, weights) = small();
    let options = PrepareOptions { max_batch: 1, ..PrepareOptions::default() };
    let layer = GpuBackend::on(context()).prepare(&spec, &weights, &options).unwrap();
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let cancelled = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 3;
    let values = vec![0.5; 3 * 1000];
    let batch = aleatron_core::backend::Batch::values(&values, SampleSeed::new(1));
    assert_eq!(layer.counts(&batch, Cancel::when(&cancelled)), Err(Error::Cancelled));
    // The layer still works.
    assert_eq!(layer.counts(&batch, Cancel::NEVER).map(|counts| counts.len()), Ok(2000));
}
