//! Integer arithmetic of graphs beyond chains of layers: known answers, the reference, and invalid
//! parameters.

use aleatron_core::arithmetic::{
    Accumulator, Activation, FloatStage, Requantizer, Rescaler, to_units,
};
use aleatron_core::threshold::{NEGATIVE, magnitude};
use aleatron_core::{
    ConvShape, Convolution, Encoding, Error, LayerSpec, Length, Polarity, Quantity, Topology,
    Width, reference,
};
use proptest::prelude::*;

const TEXT: &str = include_str!("../../golden/graphs.kat");

/// Returns a threshold as a signed integer.
fn signed(threshold: u64) -> i64 {
    let level = magnitude(threshold) as i64;
    if threshold & NEGATIVE == 0 { level } else { -level }
}

/// Returns a stage with rows of separate scales and biases.
fn rows(scales: &[f64], bias: &[f64]) -> FloatStage {
    FloatStage { scales: scales.to_vec(), bias: bias.to_vec(), activation: Activation::Identity }
}

fn conv(fields: &[&str]) -> (LayerSpec, usize, u64) {
    let number = |k: usize| fields[k].parse::<usize>().unwrap();
    let [kernel, stride, padding, dilation] = [number(4), number(5), number(6), number(7)];
    let shape = Convolution::conv2d([1, number(2), number(3)], 1, [kernel; 2])
        .with_stride([stride; 2])
        .with_padding([padding; 2])
        .with_dilation([dilation; 2]);
    let topology = Topology::Conv(ConvShape::new(shape).unwrap());
    let length = Length::new(number(8)).unwrap();
    let polarity = fields[1].parse().unwrap();
    let spec = LayerSpec::new(topology, length, polarity, Encoding::Bernoulli { seed: 0 }).unwrap();
    (spec, number(11), number(12) as u64)
}

#[test]
fn graph_arithmetic_has_known_answers() {
    let mut kinds = [0; 4];
    for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
        let (question, answer) = line.split_once(" = ").unwrap();
        let fields: Vec<&str> = question.split(' ').collect();
        let real = |k: usize| fields[k].parse::<f64>().unwrap();
        let answers: Vec<i64> = answer.split(' ').map(|number| number.parse().unwrap()).collect();
        match fields[0] {
            "requantize" => {
                kinds[0] += 1;
                let (width, value) =
                    (Width::new(fields[3].parse().unwrap()).unwrap(), fields[5].parse().unwrap());
                let polarity = fields[4].parse().unwrap();
                let found = Requantizer::of_unit(real(1), real(2), 16, width, polarity).unwrap();
                let constants = [
                    found.multiplier() as i64,
                    found.multiplier_width().into(),
                    found.shift().into(),
                ];
                assert_eq!(constants, answers[..3], "{line}");
                assert_eq!(signed(found.threshold(value)), answers[3], "{line}");
                assert_eq!(signed(reference::requantize(&found, value)), answers[3], "{line}");
            }
            "rescale" => {
                kinds[1] += 1;
                let (found, value) = (
                    Rescaler::calibrated(real(1), real(2), 16).unwrap(),
                    fields[3].parse().unwrap(),
                );
                let constants = [
                    found.multiplier() as i64,
                    found.multiplier_width().into(),
                    found.shift().into(),
                ];
                assert_eq!(constants, answers[..3], "{line}");
                assert_eq!(found.apply(value), answers[3], "{line}");
                assert_eq!(reference::rescale(&found, value), answers[3], "{line}");
            }
            "constant" => {
                kinds[2] += 1;
                assert_eq!(
                    to_units(Quantity::Bound, 0, real(1), real(2)).unwrap(),
                    answers[0],
                    "{line}"
                );
            }
            "conv" => {
                kinds[3] += 1;
                let (spec, position, count) = conv(&fields);
                let accumulator =
                    Accumulator::calibrated(&spec, &rows(&[real(9)], &[real(10)]), 0).unwrap();
                let mut counts = vec![0; spec.n_neurons()];
                counts[position] = count;
                assert_eq!(spec.fan_in(position) as i64, answers[0], "{line}");
                assert_eq!(
                    accumulator.values(&spec, &counts).unwrap()[position],
                    answers[1],
                    "{line}"
                );
                assert_eq!(
                    reference::accumulate(&accumulator, &spec, position, count),
                    answers[1],
                    "{line}"
                );
            }
            other => panic!("{other}"),
        }
    }
    assert!(kinds.iter().all(|&n| n >= 30), "{kinds:?}");
}

proptest! {
    #[test]
    fn rescalers_are_close_to_the_exact_ratio(unit in 1e-6f64..1e6, share in 1e-6f64..=1.0, value in -(1i64 << 40)..1 << 40) {
        let finer = unit * share;
        let rescaler = Rescaler::calibrated(unit, finer, 16).unwrap();
        let found = rescaler.apply(value);
        prop_assert_eq!(found, reference::rescale(&rescaler, value));
        // Half a unit, and half a unit of the multiplier's last bit, which is at most 2^-16 of the
        // ratio.
        let exact = value as f64 * (unit / finer);
        prop_assert!((found as f64 - exact).abs() <= 0.5 + exact.abs() * 2f64.powi(-16) * 1.0001, "{} {}", found, exact);
        let bits = 64 - value.unsigned_abs().leading_zeros() + rescaler.growth();
        prop_assert!(found.unsigned_abs() <= 1 << bits);
    }

    /// Rows with one scale equal a layer with that scale.
    #[test]
    fn rows_of_one_scale_equal_a_layer(scale in 0.01f64..100.0, bias in -50.0f64..50.0, length in 1usize..2000, fraction in 0u32..9) {
        let length = Length::new(length).unwrap();
        let spec = LayerSpec::dense(5, 2, length, Polarity::Signed, Encoding::Bernoulli { seed: 0 }).unwrap();
        let activation = aleatron_core::arithmetic::Activation::Identity;
        let stage = FloatStage { scales: vec![scale], bias: vec![bias, -bias], activation };
        let whole = Accumulator::calibrated(&spec, &stage, fraction).unwrap();
        prop_assert_eq!(Accumulator::calibrated(&spec, &FloatStage { scales: vec![scale; 2], ..stage }, fraction).unwrap(), whole);
    }
}

#[test]
fn invalid_graph_parameters_are_errors() {
    let spec = LayerSpec::dense(
        3,
        2,
        Length::new(64).unwrap(),
        Polarity::Signed,
        Encoding::Bernoulli { seed: 0 },
    )
    .unwrap();
    for (scales, bias) in [(vec![1.0; 3], vec![0.0; 2]), (vec![1.0; 2], vec![0.0; 3])] {
        let error = Accumulator::calibrated(&spec, &rows(&scales, &bias), 8).unwrap_err();
        assert!(
            matches!(error, Error::Mismatch { what: Quantity::Bias, expected: 2, .. }),
            "{error}"
        );
    }
    let huge = Accumulator::calibrated(&spec, &rows(&[1.0, 1e-300], &[0.0, 1.0]), 8).unwrap_err();
    assert!(matches!(huge, Error::OutOfRange { what: Quantity::Bias, index: 1, .. }), "{huge}");
    for (unit, finer) in [(1.0, 0.0), (f64::NAN, 1.0), (1e300, 1e-300), (-1.0, 1.0)] {
        let error = Rescaler::calibrated(unit, finer, 16).unwrap_err();
        assert!(
            matches!(error, Error::OutOfRange { what: Quantity::Multiplier, .. }),
            "{unit} {finer}"
        );
    }
    assert!(Rescaler::calibrated(1.0, 1.0, 63).is_err());
    for value in [f64::NAN, 1e300, f64::INFINITY] {
        let error = to_units(Quantity::Bound, 1, value, 1.0).unwrap_err();
        assert!(
            matches!(error, Error::OutOfRange { what: Quantity::Bound, index: 1, .. }),
            "{value}"
        );
    }
}

#[test]
fn integers_saturate_at_their_widths() {
    let most = 2f64.powi(62);
    for value in [most, -most] {
        let error =
            Error::OutOfRange { what: Quantity::Bound, index: 1, value, low: -most, high: most };
        assert_eq!(to_units(Quantity::Bound, 1, value, 1.0), Err(error));
        // Numbers of 53 bits below 2^62 are 2^9 apart.
        let below = ((1 << 62) - (1 << 9)) * value.signum() as i64;
        assert_eq!(to_units(Quantity::Bound, 1, below as f64, 1.0), Ok(below));
    }
    let four_times = Rescaler::calibrated(4.0, 1.0, 16).unwrap();
    for (value, expected) in [
        (i64::MAX, i64::MAX),
        (1 << 61, i64::MAX),
        (1 << 60, 1 << 62),
        (-(1 << 60), -(1 << 62)),
        (-(1 << 61), i64::MIN),
        (i64::MIN, i64::MIN),
    ] {
        assert_eq!(four_times.apply(value), expected, "{value}");
        assert_eq!(reference::rescale(&four_times, value), expected, "{value}");
    }
}
