//! The conformance suite on the GPU, and random cases of the same kind.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_core::BackendFault;
use aleatron_core::conformance::strategies::{Sizes, layer, streams};
use aleatron_core::conformance::{Case, Operation, Reference, Subject, suite};
use aleatron_core::gates::Gate;
use aleatron_cuda::CudaBackend;
use common::{alone, context, on_card, set, small_context};
use proptest::prelude::*;

/// Answers a case; `None` if it is unsupported.
fn answer(backend: &CudaBackend, case: &Case) -> Option<Vec<u64>> {
    match backend.run(case)? {
        Ok(answer) => Some(answer),
        Err(error) if error.backend_fault() == Some(BackendFault::Unsupported) => None,
        Err(error) => panic!("{case:?}: {error}"),
    }
}

/// Returns GPUs of every kind: with and without the instructions of Hopper.
fn capabilities() -> Vec<i64> {
    if on_card() { vec![0] } else { vec![80, 90] }
}

fn with_capability<T>(capability: i64, run: impl FnOnce() -> T) -> T {
    if on_card() {
        return run();
    }
    let _alone = alone();
    set("capability", capability);
    let result = run();
    set("capability", 90);
    result
}

#[test]
fn fixed_suite_passes() {
    for capability in capabilities() {
        with_capability(capability, || {
            let backend = CudaBackend::on(context());
            let mut ran = Vec::new();
            for case in suite::fixed().unwrap() {
                if let Some(answer) = answer(&backend, &case) {
                    assert_eq!(answer, Reference.answer(&case), "{case:?}");
                    ran.push(case.operation());
                }
            }
            // Packing, unpacking and neurons are only supported on the CPU.
            let missing = [Operation::Pack, Operation::Unpack, Operation::Lif, Operation::Mask];
            for operation in Operation::ALL {
                assert_ne!(ran.contains(&operation), missing.contains(&operation), "{operation:?}");
            }
        });
    }
}

/// Layers that fill several tiles.
const SIZES: Sizes = Sizes { inputs: 40, neurons: 150, channels: 12, groups: 4, samples: 20 };

/// Returns the number of random cases: an emulated GPU takes seconds for one of them.
fn cases() -> u32 {
    if on_card() { 48 } else { 10 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn random_layers_match_reference(case in layer(SIZES)) {
        let case = Case::Layer(case);
        let expected = Reference.answer(&case);
        for capability in capabilities() {
            let found = with_capability(capability, || answer(&CudaBackend::on(context()), &case).unwrap());
            prop_assert_eq!(&found, &expected);
        }
    }

    /// Weights that do not fit are regenerated for every chunk; rows and batches are split.
    #[test]
    fn random_layers_in_little_memory_match_reference(case in layer(SIZES), bytes in 12u32..16) {
        let case = Case::Layer(case);
        let found = with_capability(90, || CudaBackend::on(small_context(1 << bytes)).run(&case).unwrap());
        match found {
            Ok(counts) => prop_assert_eq!(counts, Reference.answer(&case)),
            Err(error) => prop_assert_eq!(error.backend_fault(), Some(BackendFault::OutOfMemory)),
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
        let backend = CudaBackend::on(context());
        for case in &cases {
            prop_assert_eq!(answer(&backend, case).unwrap(), Reference.answer(case), "{:?}", case);
        }
    }
}
