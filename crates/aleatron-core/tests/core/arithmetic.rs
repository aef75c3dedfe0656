//! Inter-layer arithmetic: known answers, the reference, calibration, and invalid parameters.

use aleatron_core::arithmetic::{
    Accumulator, Activation, Arithmetic, FloatStage, IntegerActivation, Requantizer, saturate,
};
use aleatron_core::threshold::{NEGATIVE, magnitude};
use aleatron_core::{Encoding, Error, LayerSpec, Length, Polarity, Quantity, Width, reference};
use proptest::prelude::*;

const TEXT: &str = include_str!("../../golden/arithmetic.kat");
const FRACTIONS: &str = include_str!("../../golden/fractions.kat");

fn spec(fan_in: usize, n_neurons: usize, length: usize, polarity: Polarity) -> LayerSpec {
    let length = Length::new(length).unwrap();
    LayerSpec::dense(fan_in, n_neurons, length, polarity, Encoding::Bernoulli { seed: 0 }).unwrap()
}

fn activation(text: &str) -> IntegerActivation {
    let fields: Vec<&str> = text.split(':').collect();
    match fields[..] {
        ["identity"] => IntegerActivation::Identity,
        ["relu"] => IntegerActivation::Relu,
        ["clamp", low, high] => {
            IntegerActivation::Clamp { low: low.parse().unwrap(), high: high.parse().unwrap() }
        }
        _ => panic!("{text}"),
    }
}

#[test]
fn integer_arithmetic_has_known_answers() {
    let mut kinds = [0, 0];
    for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
        let (question, answer) = line.split_once(" = ").unwrap();
        let fields: Vec<&str> = question.split(' ').collect();
        let number = |k: usize| fields[k].parse::<i64>().unwrap();
        match fields[0] {
            "accumulate" => {
                kinds[0] += 1;
                let spec =
                    spec(number(2) as usize, 1, number(3) as usize, fields[1].parse().unwrap());
                let accumulator =
                    Accumulator::new(number(4) as u32, vec![number(5)], activation(fields[6]))
                        .unwrap();
                let count = fields[7].parse().unwrap();
                let expected = answer.parse().unwrap();
                assert_eq!(
                    reference::accumulate(&accumulator, &spec, 0, count),
                    expected,
                    "{line}"
                );
                assert_eq!(accumulator.values(&spec, &[count]).unwrap(), [expected], "{line}");
            }
            "requantize" => {
                kinds[1] += 1;
                let comparator = Width::new(number(4) as u32).unwrap();
                let (bits, shift) = (number(2) as u32, number(3) as u32);
                let polarity = fields[5].parse().unwrap();
                let requantizer =
                    Requantizer::new(number(1) as u64, bits, shift, comparator, polarity).unwrap();
                let expected: u64 = answer.parse().unwrap();
                assert_eq!(reference::requantize(&requantizer, number(6)), expected, "{line}");
                assert_eq!(requantizer.threshold(number(6)), expected, "{line}");
            }
            other => panic!("{other}"),
        }
    }
    assert!(kinds.iter().all(|&n| n >= 50), "{kinds:?}");
}

#[test]
fn arithmetic_with_fraction_bits_has_known_answers() {
    let mut kinds = [0, 0];
    for line in FRACTIONS.lines().filter(|line| !line.starts_with('#')) {
        let (question, answer) = line.split_once(" = ").unwrap();
        let fields: Vec<&str> = question.split(' ').collect();
        let number = |k: usize| fields[k].parse::<i64>().unwrap();
        let real = |k: usize| fields[k].parse::<f64>().unwrap();
        let answers: Vec<i64> = answer.split(' ').map(|number| number.parse().unwrap()).collect();
        match fields[0] {
            "accumulate" => {
                kinds[0] += 1;
                let spec =
                    spec(number(2) as usize, 1, number(3) as usize, fields[1].parse().unwrap());
                let accumulator =
                    Accumulator::new(number(4) as u32, vec![number(6)], activation(fields[7]));
                let accumulator = accumulator.unwrap().with_fraction(number(5) as u32).unwrap();
                let count = number(8) as u64;
                assert_eq!(
                    reference::accumulate(&accumulator, &spec, 0, count),
                    answers[0],
                    "{line}"
                );
                assert_eq!(accumulator.values(&spec, &[count]).unwrap(), answers, "{line}");
            }
            "calibrate" => {
                kinds[1] += 1;
                let spec = spec(number(1) as usize, 1, number(2) as usize, Polarity::Unipolar);
                let (scale, bias, fraction) = (real(3), vec![real(4)], number(5) as u32);
                let stage =
                    FloatStage { scales: vec![scale], bias, activation: Activation::Identity };
                let accumulator = Accumulator::calibrated(&spec, &stage, fraction).unwrap();
                let constants = [
                    accumulator.fraction().into(),
                    accumulator.width().into(),
                    accumulator.bias()[0],
                ];
                assert_eq!(constants, answers[..3], "{line}");
                let (unit, width) =
                    (accumulator.unit(spec.length(), scale), Width::new(16).unwrap());
                let next =
                    Requantizer::of_unit(unit, real(6), 16, width, Polarity::Unipolar).unwrap();
                let constants =
                    [next.multiplier() as i64, next.multiplier_width().into(), next.shift().into()];
                assert_eq!(constants, answers[3..6], "{line}");
                let sums = accumulator.values(&spec, &[number(7) as u64]).unwrap();
                assert_eq!(next.threshold(sums[0]) as i64, answers[6], "{line}");
            }
            other => panic!("{other}"),
        }
    }
    assert!(kinds.iter().all(|&n| n >= 50), "{kinds:?}");
}

fn polarities() -> impl Strategy<Value = Polarity> {
    prop::sample::select(Polarity::ALL.to_vec())
}

proptest! {
    #[test]
    fn arithmetic_matches_reference(
        width in 2u32..=63, bits in 1u32..=62, shift in 0u32..=125, v in 1u32..=32, polarity in polarities(),
        multiplier: u64, value: i64, bias: i64, share in 0.0f64..=1.0, kind in 0usize..3,
        fraction in 0u32..=32,
    ) {
        let multiplier = multiplier >> (64 - bits);
        let requantizer = Requantizer::new(multiplier, bits, shift, Width::new(v).unwrap(), polarity).unwrap();
        let value = value >> (64 - width);
        let plain = reference::requantize(&requantizer, value);
        prop_assert_eq!(requantizer.threshold(value), plain);
        // Many at a time, for generators as wide as the comparator and wider.
        for wider in [v, 32] {
            let many = requantizer.thresholds(&[value, value >> 40], Width::new(wider).unwrap()).unwrap();
            let sign = plain & NEGATIVE;
            prop_assert_eq!(many.thresholds[0], magnitude(plain) << (wider - v) | sign);
            let saturated = [value, value >> 40].map(|value| requantizer.saturates(value));
            prop_assert_eq!(many.saturated, saturated.iter().filter(|saturated| **saturated).count() as u64);
        }
        let clamp = IntegerActivation::Clamp { low: value.min(bias >> (64 - width)), high: value };
        let activation = [IntegerActivation::Identity, IntegerActivation::Relu, clamp][kind];
        let accumulator = Accumulator::new(width, vec![bias >> (64 - width); 2], activation).unwrap();
        let accumulator = accumulator.with_fraction(fraction).unwrap();
        let spec = spec(7, 2, 100, polarity);
        let most = spec.max_count() as u64;
        let count = (share * most as f64) as u64;
        let counts = [count, most - count];
        let plain: Vec<i64> = (0..2).map(|j| reference::accumulate(&accumulator, &spec, j, counts[j])).collect();
        prop_assert_eq!(accumulator.values(&spec, &counts).unwrap(), plain);
    }

    /// Calibrated integer arithmetic equals floating point, up to the rounding of its multiplier,
    /// bias and threshold.
    #[test]
    fn calibrated_integers_match_floating_point(
        scale in 0.01f64..100.0, next_scale in 0.01f64..100.0, bias in -50.0f64..50.0,
        length in prop::sample::select(vec![8usize, 64, 1000, 1 << 16]), share in 0.0f64..=1.0,
        polarity in polarities(), relu: bool, fraction in 0u32..=12,
    ) {
        let spec = spec(5, 1, length, polarity);
        let activation = if relu { Activation::Relu } else { Activation::Identity };
        let stage = FloatStage { scales: vec![scale], bias: vec![bias], activation };
        let comparator = Width::new(16).unwrap();
        let accumulator = Accumulator::calibrated(&spec, &stage, fraction).unwrap();
        let unit = accumulator.unit(spec.length(), scale);
        let requantizer = Requantizer::of_unit(unit, next_scale, 16, comparator, polarity).unwrap();
        if fraction == 0 {
            let whole = Requantizer::calibrated(&spec, scale, next_scale, 16, comparator, polarity).unwrap();
            prop_assert_eq!(requantizer, whole);
        }
        let count = (share * spec.max_count() as f64) as u64;
        let sums = accumulator.values(&spec, &[count]).unwrap();
        let [low, high] = accumulator.interval();
        prop_assert!(sums[0] > low && sums[0] < high, "saturated");
        let threshold = requantizer.threshold(sums[0]);
        let sign = if threshold & NEGATIVE == 0 { 1.0 } else { -1.0 };
        let mut value = stage.outputs(&spec, &[count]);
        let saturated = saturate(&mut value, next_scale, polarity);
        let exact = match polarity {
            Polarity::Signed => value[0] * 65536.0,
            _ => polarity.probability(value[0]) * 65536.0,
        };
        // Half a unit of bias, half a unit of threshold, and the multiplier's 2^-16 of the value.
        let levels = if polarity == Polarity::Bipolar { 32768.0 } else { 65536.0 };
        let unit = unit / next_scale * levels;
        let bound = 0.5 * unit + 0.5 + (value[0].abs() * levels + unit) / 32768.0 + 1e-6;
        if saturated == 0 {
            let threshold = sign * magnitude(threshold) as f64;
            prop_assert!((threshold - exact).abs() <= bound, "{threshold} {exact} {bound}");
        }
    }
}

#[test]
fn invalid_parameters_are_errors() {
    let identity = IntegerActivation::Identity;
    let too_narrow = Accumulator::new(1, vec![], identity).unwrap_err();
    assert!(matches!(
        too_narrow,
        Error::TooSmall { what: Quantity::AccumulatorWidth, actual: 1, limit: 2 }
    ));
    let too_wide = Accumulator::new(64, vec![], identity).unwrap_err();
    assert!(matches!(
        too_wide,
        Error::TooLarge { what: Quantity::AccumulatorWidth, actual: 64, .. }
    ));
    let bias = Accumulator::new(4, vec![7, 8], identity).unwrap_err();
    assert!(matches!(bias, Error::OutOfRange { what: Quantity::Bias, index: 1, .. }), "{bias}");
    let bounds =
        Accumulator::new(8, vec![], IntegerActivation::Clamp { low: 5, high: 4 }).unwrap_err();
    assert!(
        matches!(bounds, Error::OutOfRange { what: Quantity::Bound, index: 1, .. }),
        "{bounds}"
    );
    let accumulator = Accumulator::new(8, vec![], identity).unwrap();
    let fine = accumulator.clone().with_fraction(33).unwrap_err();
    assert!(matches!(
        fine,
        Error::TooLarge { what: Quantity::FractionBits, actual: 33, limit: 32 }
    ));
    assert_eq!(accumulator.with_fraction(32).unwrap().fraction(), 32);
    let one = |multiplier, bits, shift| {
        Requantizer::new(multiplier, bits, shift, Width::EIGHT, Polarity::Unipolar).unwrap_err()
    };
    assert!(matches!(
        one(4, 2, 0),
        Error::TooLarge { what: Quantity::Multiplier, actual: 4, limit: 3 }
    ));
    assert!(matches!(one(1, 63, 0), Error::TooLarge { what: Quantity::MultiplierWidth, .. }));
    assert!(matches!(one(1, 0, 0), Error::TooSmall { what: Quantity::MultiplierWidth, .. }));
    assert!(matches!(one(1, 1, 126), Error::TooLarge { what: Quantity::Shift, .. }));
    let spec = spec(3, 2, 64, Polarity::Bipolar);
    let stage =
        |scale, bias| FloatStage { scales: vec![scale], bias, activation: Activation::Identity };
    let few = Accumulator::calibrated(&spec, &stage(1.0, vec![0.0]), 8).unwrap_err();
    assert!(matches!(few, Error::Mismatch { what: Quantity::Bias, expected: 2, actual: 1 }));
    let huge = Accumulator::calibrated(&spec, &stage(1e-300, vec![0.0, 1.0]), 8).unwrap_err();
    assert!(matches!(huge, Error::OutOfRange { what: Quantity::Bias, index: 1, .. }), "{huge}");
    let fine = Accumulator::calibrated(&spec, &stage(1.0, vec![0.0; 2]), 33).unwrap_err();
    assert!(matches!(
        fine,
        Error::TooLarge { what: Quantity::FractionBits, actual: 33, limit: 32 }
    ));
    for (scale, next) in [(1e300, 1e-300), (1e-300, 1e300), (f64::NAN, 1.0), (0.0, 1.0)] {
        let error =
            Requantizer::calibrated(&spec, scale, next, 16, Width::EIGHT, Polarity::Bipolar);
        assert!(
            matches!(error, Err(Error::OutOfRange { what: Quantity::Multiplier, .. })),
            "{scale} {next}"
        );
    }
    let wide = Requantizer::new(1, 1, 0, Width::BERNOULLI, Polarity::Unipolar).unwrap();
    let refused = wide.thresholds(&[1], Width::EIGHT).unwrap_err();
    assert!(matches!(
        refused,
        Error::TooLarge { what: Quantity::ComparatorWidth, actual: 32, limit: 8 }
    ));
}

#[test]
fn arithmetic_names_round_trip_through_text() {
    for arithmetic in Arithmetic::ALL {
        assert_eq!(arithmetic.to_string().parse::<Arithmetic>().unwrap(), arithmetic);
    }
    let error = "fixed".parse::<Arithmetic>().unwrap_err().to_string();
    assert_eq!(error, "\"fixed\" is not an arithmetic: use float or integer");
}
