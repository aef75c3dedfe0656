//! Streams with shared sequences against the reference encoder of the core, on every tier, for 1, 2
//! and 3 threads, compared with `==`.

use aleatron_core::generator::{Halton, Lfsr, Pairing, Ramp, Sequence, Sharing, Sobol, Width};
use aleatron_core::{
    Connections, Encoding, Error, LayerSpec, Length, Polarity, Quantity, SampleSeed, Topology,
    reference,
};
use aleatron_cpu::{Cpu, Pool, Tier};
use proptest::prelude::*;
use std::sync::{Arc, OnceLock};

fn cpus() -> &'static [Cpu] {
    static CPUS: OnceLock<Vec<Cpu>> = OnceLock::new();
    CPUS.get_or_init(|| {
        let pools = [1, 2, 3].map(|threads| Arc::new(Pool::eager(threads).unwrap()));
        let tiers = Tier::available();
        tiers
            .iter()
            .flat_map(|&tier| pools.iter().map(move |pool| Cpu::new(tier, pool.clone())))
            .collect()
    })
}

fn sobol(dimension: u32) -> Sequence {
    Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap())
}

fn sequences() -> impl Strategy<Value = Sequence> {
    let width = (3_u32..=32).prop_map(|bits| Width::new(bits).unwrap());
    width.prop_flat_map(|width| {
        prop_oneof![
            (1_u32..900).prop_map(move |d| Sequence::Sobol(Sobol::new(d, width).unwrap())),
            (1..width.one()).prop_map(move |s| Sequence::Lfsr(Lfsr::new(width, s as u32).unwrap())),
            (2_u32..40).prop_map(move |b| Sequence::Halton(Halton::new(b, width).unwrap())),
        ]
    })
}

/// Returns the ends, the middle, the largest integer there is and what lies past all of them.
fn threshold(sequence: &Sequence, salt: u64) -> u64 {
    let one = sequence.width().one();
    match salt % 8 {
        0 => 0,
        1 => one,
        2 => one - 1,
        3 => [u32::MAX.into(), 1 << 32, u64::MAX][(salt / 8) as usize % 3],
        _ => salt / 8 % (one + 1),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn sequence_streams_match_reference(
        inputs in sequences(), weights in sequences(),
        sharing in prop_oneof![Just(Sharing::OneForAll), Just(Sharing::OnePerInput), Just(Sharing::OnePerStream)],
        n in 1_usize..9, m in 1_usize..9, bits in prop_oneof![1_usize..700, Just(64), Just(128)], seed in any::<u64>(),
    ) {
        let (pairing, length) = (Pairing { inputs, weights, sharing }, Length::new(bits).unwrap());
        let thresholds = |sequence: &Sequence, rows: usize| -> Vec<u64> {
            let salt = |k: usize| seed.wrapping_mul(2 * k as u64 + 1).rotate_left(29);
            (0..n * rows).map(|k| threshold(sequence, salt(k))).collect()
        };
        let (x, w) = (thresholds(&inputs, m), thresholds(&weights, m));
        let mask: Vec<bool> = (0..n * m).map(|k| seed >> (k % 64) & 1 == 1).collect();
        let connections = Arc::new(Connections::from_mask(&mask, n).unwrap());
        for topology in [Topology::Dense { n_inputs: n, n_neurons: m }, Topology::Sparse(connections)] {
            let encoding = Encoding::Sequences(pairing);
            let Ok(spec) = LayerSpec::new(topology, length, Polarity::Unipolar, encoding) else { continue };
            let x_streams = reference::input_streams(&spec, &x, SampleSeed::new(0));
            // All neurons, and some of them, which have the same sequences as among all.
            for spec in [spec.clone(), spec.neurons(m / 2..m).unwrap()] {
                let w = &w[..spec.n_weights()];
                let w_streams = reference::weight_streams(&spec, w);
                for cpu in cpus() {
                    prop_assert_eq!(&cpu.encode_shared_inputs(&pairing.of_inputs(), &x, n, length), &Ok(x_streams.clone()));
                    let mut out = vec![7; spec.weight_words()];
                    cpu.encode_shared_weights(&spec, &pairing.of_weights(), w, &mut out).unwrap();
                    prop_assert_eq!(&out, w_streams.words());
                }
            }
        }
    }

    /// Periods that do not divide the number of streams.
    #[test]
    fn period_that_does_not_divide_the_streams_matches_reference(first in sequences(), period in 1_usize..20, rows in 0_usize..40, bits in 1_usize..200) {
        let length = Length::new(bits).unwrap();
        let thresholds: Vec<u64> = (0..rows as u64).map(|k| threshold(&first, 131 * k + 4)).collect();
        let stream = |r: usize| first.nth(r % period).unwrap().encode(thresholds[r], length).into_words();
        let expected: Vec<u64> = (0..rows).flat_map(stream).collect();
        for cpu in cpus() {
            let mut out = vec![u64::MAX; expected.len()];
            cpu.encode_sequences(&first, &thresholds, period, length, &mut out).unwrap();
            prop_assert_eq!(&out, &expected);
        }
    }
}

/// More integers than are computed at a time, with whole words at the end and without.
#[test]
fn long_streams_are_computed_in_blocks() {
    for bits in [16_384, 16_385, 40_000, 65_536 + 63] {
        let length = Length::new(bits).unwrap();
        let first = Sequence::Halton(Halton::new(3, Width::new(16).unwrap()).unwrap());
        let thresholds: Vec<u64> = (0..9).map(|k| k * 8000 + 17).collect();
        for period in [1, 2, 9] {
            let stream = |r: usize| {
                first.nth(r % period).unwrap().encode(thresholds[r], length).into_words()
            };
            let expected: Vec<u64> = (0..9).flat_map(stream).collect();
            for cpu in cpus() {
                let mut out = vec![0; expected.len()];
                cpu.encode_sequences(&first, &thresholds, period, length, &mut out).unwrap();
                assert!(out == expected, "{}, {} threads, {bits} bits", cpu.tier(), cpu.threads());
            }
        }
    }
}

#[test]
fn invalid_input_is_an_error() {
    let length = Length::new(100).unwrap();
    let ramp = Sequence::Ramp(Ramp::new(Width::EIGHT));
    for cpu in cpus() {
        let encode = |first: &Sequence, rows: usize, period, words: usize| {
            cpu.encode_sequences(first, &vec![7; rows], period, length, &mut vec![0; words])
        };
        assert_eq!(encode(&ramp, 3, 1, 6), Ok(()));
        assert_eq!(encode(&ramp, 0, 1, 0), Ok(()));
        assert_eq!(encode(&ramp, 3, 0, 6), Err(Error::Zero(Quantity::Sequence)));
        let words = Error::Mismatch { what: Quantity::Words, expected: 6, actual: 5 };
        assert_eq!(encode(&ramp, 3, 1, 5), Err(words));
        // A ramp has one sequence, and Sobol sequences are limited: the first missing one is
        // reported.
        assert_eq!(encode(&ramp, 3, 2, 6), ramp.nth(1).map(|_| ()));
        assert_eq!(encode(&ramp, 3, usize::MAX, 6), ramp.nth(1).map(|_| ()));
        assert_eq!(encode(&sobol(1101), 8, 7, 16), sobol(1101).nth(6).map(|_| ()));
        assert!(sobol(1101).nth(5).is_ok() && sobol(1101).nth(6).is_err());
        // A period longer than the streams needs no more sequences than there are streams.
        assert_eq!(encode(&sobol(1101), 6, usize::MAX, 12), Ok(()));

        let pairing =
            Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OnePerInput };
        let zero = Err(Error::Zero(Quantity::Inputs));
        assert_eq!(cpu.encode_shared_inputs(&pairing.of_inputs(), &[1], 0, length), zero);
        let ragged = Error::Ragged { what: Quantity::Inputs, actual: 3, divisor: 2 };
        assert_eq!(cpu.encode_shared_inputs(&pairing.of_inputs(), &[1; 3], 2, length), Err(ragged));
        let mismatch = |what, expected, actual| Err(Error::Mismatch { what, expected, actual });
        let numbered = |numbers: &[usize], words: usize| {
            cpu.encode_numbered_sequences(
                &sobol(1101),
                &[7; 3],
                numbers,
                length,
                &mut vec![0; words],
            )
        };
        assert_eq!(numbered(&[0, 0], 6), mismatch(Quantity::Sequence, 3, 2));
        assert_eq!(numbered(&[0, 0, 5], 5), mismatch(Quantity::Words, 6, 5));
        assert_eq!(numbered(&[0, 6, 5], 6), sobol(1101).nth(6).map(|_| ()));
        assert_eq!(numbered(&[5, 0, 5], 6), Ok(()));
        for sharing in Sharing::ALL {
            let encoding = Encoding::Sequences(Pairing { sharing, ..pairing });
            let spec = LayerSpec::dense(2, 2, length, Polarity::Bipolar, encoding).unwrap();
            let words =
                cpu.encode_shared_weights(&spec, &pairing.of_weights(), &[1; 4], &mut [0; 7]);
            assert_eq!(words, mismatch(Quantity::Words, 8, 7));
        }
    }
}
