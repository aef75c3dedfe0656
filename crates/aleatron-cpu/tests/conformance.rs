//! Every tier of this machine, on one, two and three threads, against the plain reference: equality only.
#![allow(clippy::unwrap_used)]

use aleatron_core::conformance::{Backend, Case, DenseCase, Reference, SparseCase, suite};
use aleatron_core::gates::Gate;
use aleatron_core::lif::{LifDrive, LifParams};
use aleatron_core::{
    BitStream, Connections, DenseShape, Domain, LayerIndex, Length, Polarity, StreamAddress, Threshold,
};
use aleatron_cpu::{Cpu, Pool, Tier};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::{Arc, OnceLock};

/// Every tier of this machine with every pool. Pools wake their threads for any work here: they think it is free.
fn backends() -> &'static [Cpu] {
    static BACKENDS: OnceLock<Vec<Cpu>> = OnceLock::new();
    BACKENDS.get_or_init(|| {
        let pools = [1, 2, 3].map(|threads| Arc::new(Pool::eager(threads).unwrap()));
        let tiers = Tier::available();
        assert!(tiers.contains(&Tier::from_name("portable").unwrap()));
        tiers.iter().flat_map(|&tier| pools.iter().map(move |pool| Cpu::new(tier, pool.clone()))).collect()
    })
}

fn check(case: &Case) {
    let expected = Reference.answer(case);
    for cpu in backends() {
        let answer = cpu.run(case).unwrap().unwrap();
        assert!(answer == expected, "{} on {} threads differs for {case:?}", cpu.tier(), cpu.threads());
    }
}

#[test]
fn the_fixed_suite() {
    for case in suite::fixed().unwrap() {
        check(&case);
    }
}

/// Rows of ones, long enough to overflow any sum that is narrower than it must be.
#[test]
fn long_rows_of_ones() {
    let (length, n) = (Length::new(640_000).unwrap(), 2);
    let shape = DenseShape::new(n, 5, length, Polarity::Unipolar).unwrap();
    let (weights, inputs) = (vec![u64::MAX; shape.weight_words()], vec![u64::MAX; 6 * shape.row_words()]);
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

/// Any length up to 700 bits, with the boundaries of words and registers more often.
fn length() -> impl Strategy<Value = Length> {
    let boundary = prop::sample::select(vec![1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256, 511, 512, 513]);
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

fn polarity() -> impl Strategy<Value = Polarity> {
    prop::sample::select(vec![Polarity::Unipolar, Polarity::Bipolar])
}

fn dense() -> impl Strategy<Value = DenseCase> {
    let shape = (1..20usize, 1..14usize, 0..14usize, length(), polarity());
    shape
        .prop_flat_map(|(n_inputs, n_neurons, n_samples, length, polarity)| {
            let shape = DenseShape::new(n_inputs, n_neurons, length, polarity).unwrap();
            let weights = vec(threshold(), n_inputs * n_neurons);
            let inputs = vec(threshold(), n_inputs * n_samples);
            (Just(shape), weights, inputs, any::<u64>(), any::<u64>(), 0..u32::MAX - 20, 0..1000usize)
        })
        .prop_map(|(shape, weights, inputs, weight_seed, input_seed, first_row, layer)| DenseCase {
            shape,
            layer: LayerIndex::new(layer).unwrap(),
            weights,
            weight_seed,
            inputs,
            input_seed,
            first_row,
        })
}

fn sparse() -> impl Strategy<Value = SparseCase> {
    let shape = (1..20usize, 1..20usize, 0..4usize, length(), polarity());
    shape
        .prop_flat_map(|(n_inputs, n_neurons, n_samples, length, polarity)| {
            let mask = vec(any::<bool>(), n_inputs * n_neurons);
            let inputs = vec(threshold(), n_inputs * n_samples);
            (mask, inputs, Just((n_inputs, length, polarity)), any::<u64>())
        })
        .prop_flat_map(|(mask, inputs, (n_inputs, length, polarity), seed)| {
            let connections = Connections::from_mask(&mask, n_inputs).unwrap();
            let weights = vec(threshold(), connections.len());
            (Just(connections), weights, Just(inputs), Just((length, polarity, seed)))
        })
        .prop_map(|(connections, weights, inputs, (length, polarity, seed))| SparseCase {
            connections,
            length,
            polarity,
            weights,
            weight_seed: seed,
            inputs,
            input_seed: seed ^ 1,
            first_row: 7,
        })
}

fn lif_params() -> impl Strategy<Value = LifParams> {
    (1..=16u32, 0..=31u32, any::<[i16; 3]>(), 0..5u32).prop_map(
        |(width, fraction, [rest, reset, threshold], period)| {
            let params = LifParams::new(width, fraction).unwrap();
            params.with_rest(rest).with_reset(reset).with_threshold(threshold).with_refractory_period(period)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn encode(thresholds in vec(threshold(), 1..30), length in length(), address in address()) {
        check(&Case::Encode { thresholds, length, address });
    }

    #[test]
    fn pack(bits in vec(any::<u8>(), 1..700)) {
        check(&Case::Pack { bits });
    }

    #[test]
    fn unpack(stream in length().prop_flat_map(stream)) {
        check(&Case::Unpack { stream });
    }

    #[test]
    fn gates((a, b) in pair(), gate in prop::sample::select(Gate::ALL.to_vec())) {
        check(&Case::Gate { gate, a: a.clone(), b });
        check(&Case::Not { a });
    }

    #[test]
    fn mux((a, b, select) in length().prop_flat_map(|l| (stream(l), stream(l), stream(l)))) {
        check(&Case::Mux { select, a, b });
    }

    #[test]
    fn counts((a, b) in pair()) {
        check(&Case::Popcount { a: a.clone() });
        check(&Case::AndPopcount { a: a.clone(), b: b.clone() });
        check(&Case::Hamming { a, b });
    }

    #[test]
    fn long_counts(words in vec(any::<u64>(), 1..2000)) {
        // Past sixteen registers of every width, where the carry-save adders take over.
        let length = Length::new(words.len() * 64).unwrap();
        let b = BitStream::from_words(words.iter().map(|w| w.rotate_left(7)).collect(), length).unwrap();
        let a = BitStream::from_words(words, length).unwrap();
        check(&Case::Popcount { a: a.clone() });
        check(&Case::AndPopcount { a, b });
    }

    #[test]
    fn lif_run(params in lif_params(), leak_k: i16, gain_k: i16, steps in vec(any::<[i16; 2]>(), 1..200)) {
        let drives = steps.iter().map(|&[current, noise]| LifDrive { leak_k, gain_k, current, noise });
        check(&Case::LifRun { params, drives: drives.collect() });
    }

    #[test]
    fn lif_multi(params in lif_params(), drive in any::<[i16; 3]>(), currents in vec(any::<i16>(), 1..100), n_steps in 1..150usize) {
        let [leak_k, gain_k, noise] = drive;
        let drive = LifDrive { leak_k, gain_k, noise, current: 0 };
        check(&Case::LifMulti { params, drive, currents, n_steps });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn dense_counts(case in dense()) {
        check(&Case::Dense(case));
    }

    #[test]
    fn sparse_counts(case in sparse()) {
        check(&Case::Sparse(case));
    }
}
