//! The one suite of every backend, on the card, and random cases like those of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_core::backend::CountMethod;
use aleatron_core::conformance::{Case, LayerCase, Operation, Reference, Subject, suite};
use aleatron_core::gates::Gate;
use aleatron_core::generator::{Pairing, SequenceKind, Sharing};
use aleatron_core::threshold::NEGATIVE;
use aleatron_core::{
    BackendFault, BitStream, Connections, ConvShape, Convolution, Encoding, LayerIndex, LayerSpec, Length,
    Polarity, SampleSeed, Topology, Width,
};
use aleatron_cuda::CudaBackend;
use common::{alone, context, on_card, set, small_context};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

/// Runs a case; `None` without code for it.
fn answer(backend: &CudaBackend, case: &Case) -> Option<Vec<u64>> {
    match backend.run(case)? {
        Ok(answer) => Some(answer),
        Err(error) if error.backend_fault() == Some(BackendFault::Unsupported) => None,
        Err(error) => panic!("{case:?}: {error}"),
    }
}

/// Cards of every kind: with the instructions of Hopper and without.
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
fn the_fixed_suite_passes() {
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
            // Packing, unpacking and neurons are left to the CPU.
            let missing = [Operation::Pack, Operation::Unpack, Operation::Lif];
            for operation in Operation::ALL {
                assert_ne!(ran.contains(&operation), missing.contains(&operation), "{operation:?}");
            }
        });
    }
}

fn polarity() -> impl Strategy<Value = Polarity> {
    prop::sample::select(Polarity::ALL.to_vec())
}

fn topology() -> impl Strategy<Value = Topology> {
    let dense =
        (1..40usize, 1..150usize).prop_map(|(n_inputs, n_neurons)| Topology::Dense { n_inputs, n_neurons });
    let sparse = (1..40usize, 1..40usize).prop_flat_map(|(n_inputs, n_neurons)| {
        vec(any::<bool>(), n_inputs * n_neurons).prop_map(move |mask| {
            Topology::Sparse(Arc::new(Connections::from_mask(&mask, n_inputs).unwrap()))
        })
    });
    let axis = || (1..9usize, 1..4usize, 1..4usize, 0..4usize, 0..4usize, 1..3usize);
    let conv = (axis(), axis(), 1..4usize, 1..12usize, 1..4usize).prop_filter_map(
        "a kernel larger than its image",
        |((h, kh, sh, top, bottom, dh), (w, kw, sw, left, right, dw), channels, out, groups)| {
            let conv = Convolution::conv2d([channels * groups, h, w], out * groups, [kh, kw])
                .with_stride([sh, sw])
                .with_paddings([[top, bottom], [left, right]])
                .with_dilation([dh, dw])
                .with_groups(groups);
            Some(Topology::Conv(ConvShape::new(conv).ok()?))
        },
    );
    prop_oneof![2 => dense, 1 => sparse, 2 => conv]
}

/// Sequences of which there are as many as any layer here needs.
fn encoding() -> impl Strategy<Value = (Encoding, CountMethod)> {
    let bernoulli = any::<u64>().prop_map(|seed| (Encoding::Bernoulli { seed }, CountMethod::Best));
    let sequence = |bits: u32, kind: SequenceKind| kind.sequence(3, Width::new(bits).unwrap()).unwrap();
    let kind = || prop::sample::select(vec![SequenceKind::Lfsr, SequenceKind::Sobol, SequenceKind::Halton]);
    let sharing = prop::sample::select(Sharing::ALL.to_vec());
    let method = prop::sample::select(vec![CountMethod::Best, CountMethod::Bits]);
    let shared = ((3..=14u32, kind()), (3..=14u32, kind()), sharing, method).prop_map(
        move |((x_bits, x), (w_bits, w), sharing, method)| {
            let (inputs, weights) = (sequence(x_bits, x), sequence(w_bits, w));
            (Encoding::Sequences(Pairing { inputs, weights, sharing }), method)
        },
    );
    prop_oneof![1 => bernoulli, 1 => shared]
}

/// Layers of any kind; those whose generator has too few sequences are drawn again.
fn layer() -> impl Strategy<Value = LayerCase> {
    let spec = (topology(), 1usize..300, polarity(), encoding(), 0usize..1 << 28);
    let spec =
        spec.prop_filter_map("too few sequences", |(topology, bits, polarity, (encoding, method), k)| {
            let spec = LayerSpec::new(topology, Length::new(bits).unwrap(), polarity, encoding).ok()?;
            Some((spec.at(LayerIndex::new(k).unwrap()), method))
        });
    (spec, 1usize..20, any::<u64>(), 0u32..1 << 30).prop_flat_map(|((spec, method), n, seed, first)| {
        let is_signed = spec.polarity() == Polarity::Signed;
        let thresholds = |width: Width, n: usize| {
            let one = (0..=width.one(), any::<bool>());
            vec(one.prop_map(move |(t, negative)| if is_signed && negative { t | NEGATIVE } else { t }), n)
        };
        let weights = match spec.encoding() {
            Encoding::Sequences(pairing) => pairing.weights.width(),
            _ => Width::BERNOULLI,
        };
        let weights = thresholds(weights, spec.n_weights());
        let inputs = thresholds(spec.encoding().input_width(), spec.n_inputs() * n);
        let seed = SampleSeed::new(seed).starting_at(first);
        (weights, inputs).prop_map(move |(weights, inputs)| LayerCase {
            spec: spec.clone(),
            weights,
            inputs,
            seed,
            method,
        })
    })
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

/// Random cases of a run: an emulated card takes seconds for one of them.
fn cases() -> u32 {
    if on_card() { 48 } else { 10 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn random_layers_equal_the_reference(case in layer()) {
        let case = Case::Layer(case);
        let expected = Reference.answer(&case);
        for capability in capabilities() {
            let found = with_capability(capability, || answer(&CudaBackend::on(context()), &case).unwrap());
            prop_assert_eq!(&found, &expected);
        }
    }

    /// Weights that do not fit are made for every chunk, rows are cut, batches too.
    #[test]
    fn random_layers_equal_the_reference_in_little_memory(case in layer(), bytes in 12u32..16) {
        let case = Case::Layer(case);
        let found = with_capability(90, || CudaBackend::on(small_context(1 << bytes)).run(&case).unwrap());
        match found {
            Ok(counts) => prop_assert_eq!(counts, Reference.answer(&case)),
            Err(error) => prop_assert_eq!(error.backend_fault(), Some(BackendFault::OutOfMemory)),
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
        let backend = CudaBackend::on(context());
        for case in &cases {
            prop_assert_eq!(answer(&backend, case).unwrap(), Reference.answer(case), "{:?}", case);
        }
    }
}
