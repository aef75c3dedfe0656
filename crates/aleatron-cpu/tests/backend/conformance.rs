//! Every tier of this machine, on one, two and three threads, against the reference, compared with
//! `==`.

use aleatron_core::backend::{Backend, Batch, CountMethod, PrepareOptions};
use aleatron_core::conformance::strategies::{
    Sizes, mask, mixed, pairing, polarity, topology, with_signs,
};
use aleatron_core::conformance::{Case, LayerCase, Reference, Subject, suite};
use aleatron_core::gates::Gate;
use aleatron_core::lif::{LifDrive, LifParams};
use aleatron_core::{
    BitStream, Cancel, Connections, DenseShape, Domain, Encoding, LayerIndex, LayerSpec, Length,
    Polarity, SampleSeed, StreamAddress, Threshold, Topology, Weights, Width,
};
use aleatron_cpu::{Cpu, CpuBackend, Pool, Tier};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Returns every tier of this machine with every pool. These pools distribute even the smallest
/// work.
fn backends() -> &'static [Cpu] {
    static BACKENDS: OnceLock<Vec<Cpu>> = OnceLock::new();
    BACKENDS.get_or_init(|| {
        let pools = [1, 2, 3].map(|threads| Arc::new(Pool::eager(threads).unwrap()));
        let tiers = Tier::available();
        assert!(tiers.contains(&Tier::from_name("portable").unwrap()));
        tiers
            .iter()
            .flat_map(|&tier| pools.iter().map(move |pool| Cpu::new(tier, pool.clone())))
            .collect()
    })
}

fn check(case: &Case) {
    let expected = Reference.answer(case);
    for cpu in backends() {
        let answer = cpu.run(case).unwrap().unwrap();
        assert!(
            answer == expected,
            "{} on {} threads differs for {case:?}",
            cpu.tier(),
            cpu.threads()
        );
    }
}

#[test]
fn fixed_suite_passes() {
    for case in suite::fixed().unwrap() {
        check(&case);
    }
}

/// Rows of ones, long enough to overflow any sum that is too narrow.
#[test]
fn long_rows_of_ones_do_not_overflow() {
    let (length, n) = (Length::new(640_000).unwrap(), 2);
    let shape = DenseShape::new(n, 5, length, Polarity::Unipolar).unwrap();
    let (weights, inputs) =
        (vec![u64::MAX; shape.weight_words()], vec![u64::MAX; 6 * shape.row_words()]);
    let full = (n * length.bits()) as u64;
    for cpu in backends() {
        assert_eq!(cpu.popcount(&weights), 5 * full, "{}", cpu.tier());
        assert_eq!(cpu.and_popcount(&weights, &weights).unwrap(), 5 * full, "{}", cpu.tier());
        for samples in [1, 6] {
            let inputs = &inputs[..samples * shape.row_words()];
            let counts = cpu.dense_counts(&shape, &weights, &[full; 5], inputs).unwrap();
            assert_eq!(counts, vec![full; 5 * samples], "{}", cpu.tier());
        }
    }
}

/// Generates any length up to 700 bits, with a preference for boundaries of words and registers.
fn length() -> impl Strategy<Value = Length> {
    let boundary =
        prop::sample::select(vec![1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256, 511, 512, 513]);
    prop_oneof![boundary, 1..700usize].prop_map(|bits| Length::new(bits).unwrap())
}

fn threshold() -> impl Strategy<Value = Threshold> {
    // Full-precision, coarse (many trailing zeros) and both ends.
    let fine = (0u64..=1 << 32).prop_map(|t| t as f64 / 4_294_967_296.0);
    let coarse = (0u32..=256).prop_map(|t| f64::from(t) / 256.0);
    prop_oneof![4 => fine, 1 => coarse, 1 => Just(0.0), 1 => Just(1.0)]
        .prop_map(|p| Threshold::from_probability(p).unwrap())
}

fn address() -> impl Strategy<Value = StreamAddress> {
    let domain = prop::sample::select(Domain::ALL.to_vec());
    (any::<u64>(), domain, 0..=LayerIndex::MAX, any::<u32>(), 0..u32::MAX - 100).prop_map(
        |(seed, domain, layer, row, unit)| {
            let layer = LayerIndex::new(layer as usize).unwrap();
            StreamAddress { seed, domain, layer, row, unit }
        },
    )
}

fn stream(length: Length) -> impl Strategy<Value = BitStream> {
    vec(0u8..2, length.bits()).prop_map(|bits| BitStream::from_bits(&bits).unwrap())
}

fn pair() -> impl Strategy<Value = (BitStream, BitStream)> {
    length().prop_flat_map(|length| (stream(length), stream(length)))
}

/// Layers of a few registers.
const SIZES: Sizes = Sizes { inputs: 20, neurons: 14, channels: 4, groups: 3, samples: 14 };

fn bernoulli_layer() -> impl Strategy<Value = LayerCase> {
    let layer = (
        topology(SIZES),
        length(),
        polarity(),
        any::<[u64; 2]>(),
        0..1000usize,
        0..u32::MAX - 20,
        0..14usize,
    );
    layer.prop_flat_map(
        |(
            topology,
            length,
            polarity,
            [weight_seed, input_seed],
            index,
            first_sample,
            n_samples,
        )| {
            let encoding = Encoding::Bernoulli { seed: weight_seed };
            let spec = LayerSpec::new(topology, length, polarity, encoding).unwrap();
            let spec = spec.at(LayerIndex::new(index).unwrap());
            let thresholds =
                |n: usize| vec(with_signs(polarity, threshold().prop_map(Threshold::get)), n);
            let (weights, inputs) =
                (thresholds(spec.n_weights()), thresholds(spec.n_inputs() * n_samples));
            let seed = SampleSeed::new(input_seed).starting_at(first_sample);
            (weights, inputs).prop_map(move |(weights, inputs)| LayerCase {
                spec: spec.clone(),
                weights,
                inputs,
                seed,
                method: CountMethod::Best,
            })
        },
    )
}

fn sequence_layer() -> impl Strategy<Value = LayerCase> {
    (topology(SIZES), length(), polarity(), pairing(), 0..6usize, any::<bool>()).prop_flat_map(
        |(topology, length, polarity, pairing, n_samples, tables)| {
            let spec =
                LayerSpec::new(topology, length, polarity, Encoding::Sequences(pairing)).unwrap();
            let thresholds = |width: Width, n| vec(with_signs(polarity, 0..=width.one()), n);
            let method = if tables { CountMethod::Best } else { CountMethod::Bits };
            let weights = thresholds(pairing.weights.width(), spec.n_weights());
            let inputs = thresholds(pairing.inputs.width(), spec.n_inputs() * n_samples);
            (weights, inputs).prop_map(move |(weights, inputs)| LayerCase {
                spec: spec.clone(),
                weights,
                inputs,
                seed: SampleSeed::new(0),
                method,
            })
        },
    )
}

fn mixed_layer() -> impl Strategy<Value = LayerCase> {
    let layer = (
        topology(SIZES),
        length(),
        polarity(),
        mixed(),
        any::<u64>(),
        0..1000usize,
        0..u32::MAX - 20,
        0..6usize,
    );
    layer.prop_flat_map(
        |(topology, length, polarity, encoding, seed, index, first_sample, n_samples)| {
            let spec = LayerSpec::new(topology, length, polarity, encoding).unwrap();
            let spec = spec.at(LayerIndex::new(index).unwrap());
            let thresholds = |width: Width, n| vec(with_signs(polarity, 0..=width.one()), n);
            let weights = thresholds(encoding.weight_width(), spec.n_weights());
            let inputs = thresholds(encoding.input_width(), spec.n_inputs() * n_samples);
            let seed = SampleSeed::new(seed).starting_at(first_sample);
            (weights, inputs).prop_map(move |(weights, inputs)| LayerCase {
                spec: spec.clone(),
                weights,
                inputs,
                seed,
                method: CountMethod::Best,
            })
        },
    )
}

fn lif_params() -> impl Strategy<Value = LifParams> {
    (1..=16u32, 0..=31u32, any::<[i16; 3]>(), 0..5u32).prop_map(
        |(width, fraction, [rest, reset, threshold], period)| {
            let params = LifParams::new(width, fraction).unwrap();
            params
                .with_rest(rest)
                .with_reset(reset)
                .with_threshold(threshold)
                .with_refractory_period(period)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn fault_masks_match_reference(case in mask()) {
        check(&Case::Mask(case));
    }

    #[test]
    fn encode_matches_reference(thresholds in vec(threshold(), 1..30), length in length(), address in address()) {
        check(&Case::Encode { thresholds, length, address });
    }

    #[test]
    fn pack_matches_reference(bits in vec(any::<u8>(), 1..700)) {
        check(&Case::Pack { bits });
    }

    #[test]
    fn unpack_matches_reference(stream in length().prop_flat_map(stream)) {
        check(&Case::Unpack { stream });
    }

    #[test]
    fn gates_match_reference((a, b) in pair(), gate in prop::sample::select(Gate::ALL.to_vec())) {
        check(&Case::Gate { gate, a: a.clone(), b });
        check(&Case::Not { a });
    }

    #[test]
    fn mux_matches_reference((a, b, select) in length().prop_flat_map(|l| (stream(l), stream(l), stream(l)))) {
        check(&Case::Mux { select, a, b });
    }

    #[test]
    fn counts_match_reference((a, b) in pair()) {
        check(&Case::Popcount { a: a.clone() });
        check(&Case::AndPopcount { a: a.clone(), b: b.clone() });
        check(&Case::Hamming { a, b });
    }

    #[test]
    fn long_counts_match_reference(words in vec(any::<u64>(), 1..2000)) {
        // Longer than sixteen registers of every width, from which carry-save adders are used.
        let length = Length::new(words.len() * 64).unwrap();
        let b = BitStream::from_words(words.iter().map(|w| w.rotate_left(7)).collect(), length).unwrap();
        let a = BitStream::from_words(words, length).unwrap();
        check(&Case::Popcount { a: a.clone() });
        check(&Case::AndPopcount { a, b });
    }

    #[test]
    fn lif_run_matches_reference(params in lif_params(), leak_k: i16, gain_k: i16, steps in vec(any::<[i16; 2]>(), 1..200)) {
        let drives = steps.iter().map(|&[current, noise]| LifDrive { leak_k, gain_k, current, noise });
        check(&Case::LifRun { params, drives: drives.collect() });
    }

    #[test]
    fn lif_multi_matches_reference(params in lif_params(), drive in any::<[i16; 3]>(), currents in vec(any::<i16>(), 1..100), n_steps in 1..150usize) {
        let [leak_k, gain_k, noise] = drive;
        let drive = LifDrive { leak_k, gain_k, noise, current: 0 };
        check(&Case::LifMulti { params, drive, currents, n_steps });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bernoulli_layers_match_reference(case in bernoulli_layer()) {
        check(&Case::Layer(case));
    }

    #[test]
    fn sequence_layers_match_reference(case in sequence_layer()) {
        check(&Case::Layer(case));
    }

    #[test]
    fn mixed_layers_match_reference(case in mixed_layer()) {
        check(&Case::Layer(case));
    }

    #[test]
    fn shard_of_neurons_equals_whole_layer(case in prop_oneof![bernoulli_layer(), mixed_layer()], cut in any::<prop::sample::Index>()) {
        let (spec, n) = (&case.spec, case.spec.n_neurons());
        // Convolutions are split between output channels.
        let cut = cut.index(spec.n_rows()) * spec.neurons_per_row();
        let weights = case.weight_values().unwrap();
        let backend = CpuBackend::CURRENT;
        let counts = |spec: &LayerSpec, weights: &Weights| {
            let layer = backend.prepare(spec, weights, &PrepareOptions::default()).unwrap();
            layer.counts(&Batch::thresholds(&case.inputs, case.seed), Cancel::NEVER).unwrap()
        };
        let whole = counts(spec, &weights);
        for range in [0..cut, cut..n].into_iter().filter(|range| !range.is_empty()) {
            let part = counts(&spec.neurons(range.clone()).unwrap(), &weights.neurons(spec, range.clone()));
            let expected: Vec<u64> = whole.chunks(n).flat_map(|row| row[range.clone()].to_vec()).collect();
            prop_assert_eq!(part, expected);
        }
    }
}

/// Layers with a cancellation token are prepared in chunks, which give the same streams.
#[test]
fn chunked_preparation_equals_whole() {
    let mask: Vec<bool> = (0..90 * 300).map(|k| k % 7 != 3 && k / 300 != 40).collect();
    let sparse = Topology::Sparse(Arc::new(Connections::from_mask(&mask, 300).unwrap()));
    for topology in [sparse, Topology::Dense { n_inputs: 300, n_neurons: 90 }] {
        let encoding = Encoding::Bernoulli { seed: 5 };
        // More than a million words.
        let spec =
            LayerSpec::new(topology, Length::new(4000).unwrap(), Polarity::Bipolar, encoding)
                .unwrap();
        let cpu = Cpu::current().unwrap();
        let weights = cpu.random_weights(&spec, 9).unwrap();
        let asked = AtomicUsize::new(0);
        let never = || {
            asked.fetch_add(1, Ordering::Relaxed);
            false
        };
        let in_chunks =
            PrepareOptions { cancel: Cancel::when(&never), ..PrepareOptions::default() };
        let inputs: Vec<f64> = (0..300).map(|i| f64::from(i) / 150.0 - 1.0).collect();
        let batch = Batch::values(&inputs, SampleSeed::new(1));
        let counts = |options: &PrepareOptions<'_>| {
            let layer = CpuBackend::CURRENT.prepare(&spec, &weights, options).unwrap();
            layer.counts(&batch, Cancel::NEVER).unwrap()
        };
        assert_eq!(counts(&in_chunks), counts(&PrepareOptions::default()));
        assert!(asked.load(Ordering::Relaxed) > 1);
        let at_once = || true;
        let stopped =
            PrepareOptions { cancel: Cancel::when(&at_once), ..PrepareOptions::default() };
        let error = CpuBackend::CURRENT.prepare(&spec, &weights, &stopped).unwrap_err();
        assert_eq!(error, aleatron_core::Error::Cancelled);
    }
}
