//! The one suite of every backend, on the device, and random cases like those of it.

use crate::common::{both_contexts, choice, context, every_context, length, own_context};
use aleatron_core::backend::{CountMethod, PrepareOptions};
use aleatron_core::conformance::{Case, LayerCase, Operation, Reference, Subject, suite};
use aleatron_core::gates::Gate;
use aleatron_core::generator::{Pairing, SequenceKind, Sharing};
use aleatron_core::threshold::NEGATIVE;
use aleatron_core::{
    Backend, BackendFault, BitStream, Cancel, Connections, ConvShape, Convolution, Encoding, Error,
    LayerIndex, LayerSpec, Length, Polarity, SampleSeed, Topology, Weights, Width,
};
use aleatron_gpu::{GpuBackend, adapter};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

#[test]
fn the_fixed_suite_passes() {
    for context in every_context() {
        let backend = GpuBackend::on(context);
        let mut ran = Vec::new();
        for case in suite::fixed().unwrap() {
            if let Some(answer) = backend.run(&case) {
                assert_eq!(answer.unwrap(), Reference.answer(&case), "{case:?}");
                ran.push(case.operation());
            }
        }
        // Packing, unpacking and neurons are left to the CPU.
        let missing = [Operation::Pack, Operation::Unpack, Operation::Lif];
        for operation in Operation::ALL {
            assert_ne!(ran.contains(&operation), missing.contains(&operation), "{operation:?}");
        }
    }
}

fn polarity() -> impl Strategy<Value = Polarity> {
    prop::sample::select(Polarity::ALL.to_vec())
}

/// Thresholds as a layer has them: with signs where its operands have signs.
fn with_signs(polarity: Polarity, threshold: impl Strategy<Value = u64>) -> impl Strategy<Value = u64> {
    (threshold, any::<bool>()).prop_map(move |(threshold, is_negative)| {
        threshold | if is_negative && polarity == Polarity::Signed { NEGATIVE } else { 0 }
    })
}

fn topology() -> impl Strategy<Value = Topology> {
    let dense =
        (1..40usize, 1..80usize).prop_map(|(n_inputs, n_neurons)| Topology::Dense { n_inputs, n_neurons });
    let sparse = (1..40usize, 1..40usize).prop_flat_map(|(n_inputs, n_neurons)| {
        vec(any::<bool>(), n_inputs * n_neurons).prop_map(move |mask| {
            Topology::Sparse(Arc::new(Connections::from_mask(&mask, n_inputs).unwrap()))
        })
    });
    let axis = || (1..9usize, 1..4usize, 1..4usize, 0..4usize, 0..4usize, 1..3usize);
    let conv = (axis(), axis(), 1..4usize, 1..4usize, 1..3usize).prop_filter_map(
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
            let spec = LayerSpec::new(topology, length(bits), polarity, encoding).ok()?;
            Some((spec.at(LayerIndex::new(k).unwrap()), method))
        });
    (spec, 1usize..40, any::<u64>(), 0u32..1 << 30).prop_flat_map(|((spec, method), n, seed, first)| {
        let polarity = spec.polarity();
        let thresholds = |width: Width, n: usize| vec(with_signs(polarity, 0..=width.one()), n);
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_layers_equal_the_reference(case in layer()) {
        let case = Case::Layer(case);
        let expected = Reference.answer(&case);
        for context in both_contexts() {
            prop_assert_eq!(&GpuBackend::on(context).run(&case).unwrap().unwrap(), &expected);
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
            let backend = GpuBackend::on(context);
            for case in &cases {
                prop_assert_eq!(backend.run(case).unwrap().unwrap(), Reference.answer(case), "{:?}", case);
            }
        }
    }
}

fn small() -> (LayerSpec, Weights) {
    let encoding = Encoding::Bernoulli { seed: 1 };
    let spec = LayerSpec::dense(3, 2, Length::new(64).unwrap(), Polarity::Unipolar, encoding).unwrap();
    let weights = Weights::new(&spec, vec![0.5; 6]).unwrap();
    (spec, weights)
}

#[test]
fn a_backend_is_named_by_its_place() {
    let info = adapter::find(&choice()).unwrap();
    let name = format!("gpu:{}", info.index);
    assert_eq!(GpuBackend::open(&choice()).unwrap().name(), name);
    let (spec, weights) = small();
    let layer = GpuBackend::on(context()).prepare(&spec, &weights, &PrepareOptions::default()).unwrap();
    assert_eq!(layer.backend_for(1), Some(name));
    assert!(!layer.is_lost());
}

#[test]
fn a_lost_device_is_a_fault_of_the_backend() {
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
fn a_batch_is_cancelled_between_chunks() {
    let (spec, weights) = small();
    let options = PrepareOptions { max_batch: 1, ..PrepareOptions::default() };
    let layer = GpuBackend::on(context()).prepare(&spec, &weights, &options).unwrap();
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let cancelled = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 3;
    let values = vec![0.5; 3 * 1000];
    let batch = aleatron_core::backend::Batch::values(&values, SampleSeed::new(1));
    assert_eq!(layer.counts(&batch, Cancel::when(&cancelled)), Err(Error::Cancelled));
    // The layer is as good as before.
    assert_eq!(layer.counts(&batch, Cancel::NEVER).map(|counts| counts.len()), Ok(2000));
}
