//! Layers counted from tables against the same layers counted bit by bit, on every tier, for 1, 2
//! and 3 threads.

use aleatron_core::generator::{Halton, Lfsr, Pairing, Ramp, Sequence, Sharing, Sobol, Width};
use aleatron_core::{
    DenseShape, Encoding, Error as CoreError, LayerSpec, Length, Polarity, Quantity, SampleSeed,
    reference,
};
use aleatron_cpu::{Cpu, Error, Pool, TabledWeights, Tier};
use proptest::prelude::*;
use std::sync::Arc;

fn cpus() -> Vec<Cpu> {
    let pools = [1, 2, 3].map(|threads| Arc::new(Pool::eager(threads).unwrap()));
    let tiers = Tier::available();
    tiers
        .iter()
        .flat_map(|&tier| pools.iter().map(move |pool| Cpu::new(tier, pool.clone())))
        .collect()
}

fn sobol(dimension: u32) -> Sequence {
    Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap())
}

fn sequences() -> impl Strategy<Value = Sequence> {
    (3_u32..=12).prop_flat_map(|bits| {
        let width = Width::new(bits).unwrap();
        prop_oneof![
            (1_u32..900).prop_map(move |d| Sequence::Sobol(Sobol::new(d, width).unwrap())),
            (1..width.one() as u32).prop_map(move |s| Sequence::Lfsr(Lfsr::new(width, s).unwrap())),
            (2_u32..40).prop_map(move |b| Sequence::Halton(Halton::new(b, width).unwrap())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn tables_equal_bit_by_bit_counts(
        inputs in sequences(), weights in sequences(),
        sharing in prop_oneof![Just(Sharing::OneForAll), Just(Sharing::OnePerInput)],
        polarity in prop_oneof![Just(Polarity::Unipolar), Just(Polarity::Bipolar)],
        n in 1_usize..40, m in 1_usize..40, samples in 0_usize..6, bits in 1_usize..300, seed in any::<u64>(),
    ) {
        let length = Length::new(bits).unwrap();
        let shape = DenseShape::new(n, m, length, polarity).unwrap();
        let pairing = Pairing { inputs, weights, sharing };
        let threshold = |k: usize, one: u64| seed.wrapping_mul(k as u64 * 2 + 1).rotate_left(17) % (one + 1);
        let w: Vec<u64> = (0..n * m).map(|k| threshold(k, weights.width().one())).collect();
        let x: Vec<u64> = (0..n * samples).map(|k| threshold(k + 1000, inputs.width().one())).collect();
        let spec = LayerSpec::dense(n, m, length, polarity, Encoding::Sequences(pairing)).unwrap();
        let expected = reference::counts(
            &spec,
            &reference::weight_streams(&spec, &w),
            &reference::input_streams(&spec, &x, SampleSeed::new(0)),
        );
        let tabled = TabledWeights::new(shape, &pairing, &w).unwrap();
        for cpu in cpus() {
            prop_assert_eq!(&cpu.table_counts(&tabled, &x).unwrap(), &expected);
        }
    }
}

/// Enough work for every thread.
#[test]
fn large_tabled_layers_equal_bits_on_every_thread() {
    let (n, m, samples, length) = (200, 150, 90, Length::new(64).unwrap());
    let shape = DenseShape::new(n, m, length, Polarity::Bipolar).unwrap();
    let w: Vec<u64> = (0..n * m).map(|k| k as u64 * 7919 % 257).collect();
    let x: Vec<u64> = (0..n * samples).map(|k| k as u64 * 104_729 % 257).collect();
    for sharing in [Sharing::OneForAll, Sharing::OnePerInput] {
        let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing };
        let spec =
            LayerSpec::dense(n, m, length, shape.polarity(), Encoding::Sequences(pairing)).unwrap();
        let weights = reference::weight_streams(&spec, &w);
        let inputs = reference::input_streams(&spec, &x, SampleSeed::new(0));
        let tabled = TabledWeights::new(shape, &pairing, &w).unwrap();
        for cpu in cpus() {
            let ones = cpu.row_ones(weights.words(), shape.row_words());
            let expected =
                cpu.dense_counts(&shape, weights.words(), &ones, inputs.words()).unwrap();
            assert_eq!(cpu.table_counts(&tabled, &x).unwrap(), expected);
            assert_eq!(cpu.table_counts(&tabled, &x[..n]).unwrap(), expected[..m]);
        }
    }
}

/// Counts of one byte and of two, up to the longest streams whose counts are summed in 16 bits, and
/// every 8-bit threshold.
#[test]
fn all_8_bit_thresholds_look_up_the_right_entry() {
    let (n, m, samples) = (9, 301, 3);
    let w: Vec<u64> = (0..n * m).map(|k| k as u64 % 257).collect();
    let x: Vec<u64> = (0..n * samples).map(|k| 256 - k as u64 * 23 % 257).collect();
    for (bits, polarity) in
        [(255, Polarity::Unipolar), (1023, Polarity::Bipolar), (16_383, Polarity::Bipolar)]
    {
        let length = Length::new(bits).unwrap();
        let shape = DenseShape::new(n, m, length, polarity).unwrap();
        let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OneForAll };
        let spec =
            LayerSpec::dense(n, m, length, shape.polarity(), Encoding::Sequences(pairing)).unwrap();
        let weights = reference::weight_streams(&spec, &w);
        let inputs = reference::input_streams(&spec, &x, SampleSeed::new(0));
        let tabled = TabledWeights::new(shape, &pairing, &w).unwrap();
        for cpu in cpus() {
            let ones = cpu.row_ones(weights.words(), shape.row_words());
            let expected =
                cpu.dense_counts(&shape, weights.words(), &ones, inputs.words()).unwrap();
            assert_eq!(
                cpu.table_counts(&tabled, &x).unwrap(),
                expected,
                "{}, {bits} bits",
                cpu.tier()
            );
        }
    }
}

#[test]
fn counts_above_32_bits_do_not_overflow() {
    let (n, m, length) = (300, 20, Length::new(1 << 24).unwrap());
    let shape = DenseShape::new(n, m, length, Polarity::Unipolar).unwrap();
    let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OneForAll };
    let tabled = TabledWeights::new(shape, &pairing, &vec![256; n * m]).unwrap();
    for cpu in cpus() {
        assert_eq!(cpu.table_counts(&tabled, &vec![256; n]).unwrap(), vec![(n << 24) as u64; m]);
    }
}

#[test]
fn invalid_input_is_an_error() {
    let shape = DenseShape::new(2, 2, Length::new(16).unwrap(), Polarity::Unipolar).unwrap();
    let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OneForAll };
    let error = |result: Result<TabledWeights, Error>| match result {
        Err(Error::Core(error)) => error,
        other => panic!("{other:?}"),
    };
    let short = error(TabledWeights::new(shape, &pairing, &[1, 2, 3]));
    assert_eq!(short, CoreError::Mismatch { what: Quantity::Weights, expected: 4, actual: 3 });
    let large = error(TabledWeights::new(shape, &pairing, &[1, 2, 257, 3]));
    assert!(matches!(large, CoreError::OutOfRange { what: Quantity::Weight, index: 2, .. }));
    let streams = Pairing { sharing: Sharing::OnePerStream, ..pairing };
    assert!(matches!(
        error(TabledWeights::new(shape, &streams, &[0; 4])),
        CoreError::TooLarge { .. }
    ));
    let ramps = Pairing {
        weights: Sequence::Ramp(Ramp::new(Width::EIGHT)),
        sharing: Sharing::OnePerInput,
        ..pairing
    };
    assert!(matches!(
        error(TabledWeights::new(shape, &ramps, &[0; 4])),
        CoreError::TooLarge { .. }
    ));

    let tabled = TabledWeights::new(shape, &pairing, &[0; 4]).unwrap();
    let cpu = Cpu::current().unwrap();
    let counts = |inputs: &[u64]| match cpu.table_counts(&tabled, inputs) {
        Err(Error::Core(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(counts(&[1, 2, 3]), CoreError::Ragged { actual: 3, divisor: 2, .. }));
    assert!(matches!(
        counts(&[1, 257]),
        CoreError::OutOfRange { what: Quantity::Value, index: 1, .. }
    ));
}
