//! Every invalid call of the core is an error with the quantity, the index and the value; none
//! panics.

use aleatron_core::generator::{Lfsr, Sequence, Sobol};
use aleatron_core::lif::{LifLayer, LifLayerParams, LifParams};
use aleatron_core::stream::check_words;
use aleatron_core::threshold::thresholds;
use aleatron_core::{
    BitStream, Connections, DenseShape, Error, LayerIndex, Length, Overlap, Pairing, Polarity,
    Quantity, Sharing, StreamMatrix, Threshold, Width, gates, memory,
};

const NOT_PROBABILITIES: [f64; 7] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.001, 1.000_000_1, -f64::MIN_POSITIVE, f64::MAX];

fn length(bits: usize) -> Length {
    Length::new(bits).unwrap()
}

/// Compares errors by their text, so that NaN equals NaN.
fn same(actual: &Error, expected: &Error) -> bool {
    actual.to_string() == expected.to_string()
        && std::mem::discriminant(actual) == std::mem::discriminant(expected)
}

#[test]
fn invalid_lengths_are_errors() {
    assert_eq!(Length::new(0), Err(Error::Zero(Quantity::Length)));
    let limit = 1 << 34;
    assert_eq!(Length::new(limit).unwrap().bits(), limit);
    for actual in [limit + 1, usize::MAX] {
        let error = Error::TooLarge {
            what: Quantity::Length,
            actual: actual as u128,
            limit: limit as u128,
        };
        assert_eq!(Length::new(actual), Err(error));
    }
}

#[test]
fn invalid_layer_indices_are_errors() {
    let limit = (1 << 28) - 1;
    assert_eq!(LayerIndex::new(limit).unwrap().get(), limit as u32);
    for actual in [limit + 1, 1 << 32, usize::MAX] {
        let error =
            Error::TooLarge { what: Quantity::Layer, actual: actual as u128, limit: limit as u128 };
        assert_eq!(LayerIndex::new(actual), Err(error));
    }
}

#[test]
fn invalid_probabilities_are_errors() {
    for p in [0.0, -0.0, 1.0, f64::MIN_POSITIVE, 1.0 - f64::EPSILON] {
        assert!(Threshold::from_probability(p).is_ok(), "{p}");
    }
    for value in NOT_PROBABILITIES {
        let what = Quantity::Probability;
        let expected = Error::OutOfRange { what, index: 0, value, low: 0.0, high: 1.0 };
        assert!(same(&Threshold::from_probability(value).unwrap_err(), &expected), "{value}");
    }
}

#[test]
fn value_errors_have_the_first_invalid_index() {
    for value in NOT_PROBABILITIES {
        let what = Quantity::Weight;
        let expected = Error::OutOfRange { what, index: 2, value, low: 0.0, high: 1.0 };
        let values = [0.0, 1.0, value, 0.5, f64::NAN];
        assert!(same(&thresholds(&values, Polarity::Unipolar, what).unwrap_err(), &expected));
        assert!(same(&Polarity::Unipolar.check(&values, what).unwrap_err(), &expected));
        assert!(same(
            &Width::EIGHT.thresholds(&values, Polarity::Unipolar, what).unwrap_err(),
            &expected
        ));
    }
    for value in [-1.000_000_1, 1.5, f64::NAN, f64::NEG_INFINITY] {
        let what = Quantity::Value;
        let expected = Error::OutOfRange { what, index: 1, value, low: -1.0, high: 1.0 };
        let values = [-1.0, value];
        assert!(same(&thresholds(&values, Polarity::Bipolar, what).unwrap_err(), &expected));
        assert!(same(
            &Width::EIGHT.thresholds(&values, Polarity::Bipolar, what).unwrap_err(),
            &expected
        ));
    }
    assert_eq!(thresholds(&[], Polarity::Bipolar, Quantity::Value), Ok(Vec::new()));
}

#[test]
fn invalid_stream_words_are_errors() {
    assert_eq!(BitStream::from_bits(&[]), Err(Error::Zero(Quantity::Length)));
    let (what, bits) = (Quantity::Words, length(65));
    for words in [vec![], vec![0], vec![0; 3]] {
        let error = Error::Mismatch { what, expected: 2, actual: words.len() };
        assert_eq!(BitStream::from_words(words, bits), Err(error));
    }
    // The first bit beyond the length, and the last of the word.
    for dirty in [2, 1 << 63] {
        let error = Error::DirtyTail { stream: 0, length: 65 };
        assert_eq!(BitStream::from_words(vec![u64::MAX, dirty], bits), Err(error));
    }
    assert!(BitStream::from_words(vec![u64::MAX, 1], bits).is_ok());
    let stream = BitStream::zeros(length(3));
    assert_eq!([2, 3, 63, usize::MAX].map(|k| stream.get(k)), [Some(false), None, None, None]);
}

#[test]
fn invalid_matrix_words_are_errors() {
    let bits = length(70);
    let mismatch = |rows, actual, expected| {
        let error = Error::Mismatch { what: Quantity::Words, expected, actual };
        assert_eq!(StreamMatrix::from_words(vec![0; actual], rows, bits), Err(error.clone()));
        assert_eq!(check_words(&vec![0; actual], rows, bits), Err(error));
    };
    mismatch(2, 3, 4);
    mismatch(0, 1, 0);
    mismatch(3, 0, 6);
    mismatch(usize::MAX, 2, usize::MAX); // the product does not even fit
    let mut words = vec![0; 8];
    (words[5], words[7]) = (64, 64);
    let error = Error::DirtyTail { stream: 2, length: 70 };
    assert_eq!(StreamMatrix::from_words(words, 4, bits), Err(error));

    let matrix = StreamMatrix::zeros(2, bits).unwrap();
    assert!(matrix.stream(1).is_some());
    assert_eq!([2, usize::MAX / 2, usize::MAX].map(|row| matrix.stream(row)), [None, None, None]);
    assert_eq!(StreamMatrix::zeros(0, bits).unwrap().stream(0), None);
}

/// Each size exceeds any machine, so that nothing is allocated.
#[test]
fn allocations_that_cannot_fit_are_errors_with_their_bytes() {
    let refused = |result: Result<StreamMatrix, Error>, expected: u128| {
        let Error::Memory { what: Quantity::Streams, bytes, .. } = result.unwrap_err() else {
            unreachable!("no other error is possible here")
        };
        assert_eq!(bytes, expected);
    };
    let long = length(1 << 34);
    refused(StreamMatrix::zeros(1 << 30, long), 1 << 61);
    refused(StreamMatrix::zeros(usize::MAX, long), usize::MAX as u128 * (1 << 31));
    refused(StreamMatrix::zeros(usize::MAX, length(1)), usize::MAX as u128 * 8);

    let what = Quantity::Weights;
    let shape = DenseShape::new(1 << 32, 1 << 32, long, Polarity::Unipolar);
    assert_eq!(shape, Err(Error::Memory { what, bytes: 1 << 95, available: None }));
    for n in [1 << 60, usize::MAX] {
        let layer = LifLayer::new(n, LifLayerParams::default()).unwrap_err();
        let expected = n as u128 * 4;
        assert!(
            matches!(layer, Error::Memory { what: Quantity::Neurons, bytes, .. } if bytes == expected)
        );
    }
    assert!(
        matches!(memory::check(1 << 60, what), Err(Error::Memory { bytes, .. }) if bytes == 1 << 60)
    );
    assert_eq!(memory::check(1 << 10, what), Ok(()));
    for len in [u128::MAX, 1 << 64, 1 << 61] {
        assert!(matches!(memory::with_capacity::<u64>(len, what), Err(Error::Memory { .. })));
    }
}

#[test]
fn gates_of_different_lengths_are_errors() {
    let (a, b) = (BitStream::zeros(length(64)), BitStream::zeros(length(65)));
    let error = |expected, actual| Error::Mismatch { what: Quantity::Length, expected, actual };
    for gate in gates::Gate::ALL {
        assert_eq!(gates::gate(gate, &a, &b), Err(error(64, 65)));
        assert_eq!(gates::gate(gate, &b, &a), Err(error(65, 64)));
    }
    assert_eq!(gates::mux(&a, &a, &b), Err(error(64, 65)));
    assert_eq!(gates::mux(&a, &b, &a), Err(error(64, 65)));
    assert_eq!(gates::mux(&b, &a, &a), Err(error(65, 64)));
    assert_eq!(gates::hamming_distance(&a, &b), Err(error(64, 65)));
    assert_eq!(Overlap::of(&a, &b), Err(error(64, 65)));
}

#[test]
fn invalid_shapes_are_errors() {
    let shape = |n, m| DenseShape::new(n, m, length(64), Polarity::Unipolar);
    assert_eq!(shape(0, 1), Err(Error::Zero(Quantity::Inputs)));
    assert_eq!(shape(1, 0), Err(Error::Zero(Quantity::Neurons)));
    let limit = 1 << 32;
    let too_large =
        |what, actual: usize| Err(Error::TooLarge { what, actual: actual as u128, limit });
    assert_eq!(shape(limit as usize + 1, 1), too_large(Quantity::Inputs, limit as usize + 1));
    assert_eq!(shape(1, usize::MAX), too_large(Quantity::Neurons, usize::MAX));
    assert!(shape(limit as usize, 1).is_ok());
    let samples = shape(5, 2).unwrap();
    assert_eq!((samples.samples_in(0), samples.samples_in(15)), (Ok(0), Ok(3)));
    for actual in [1, 4, 16] {
        let error = Error::Ragged { what: Quantity::Inputs, actual, divisor: 5 };
        assert_eq!(samples.samples_in(actual), Err(error));
    }
}

#[test]
fn invalid_connections_are_errors() {
    let rows = |rows: &[&[usize]], n| {
        Connections::from_rows(rows.iter().map(|row| row.iter().copied()), n)
    };
    assert_eq!(rows(&[&[0]], 0), Err(Error::Zero(Quantity::Inputs)));
    assert_eq!(rows(&[], 3), Err(Error::Zero(Quantity::Neurons)));
    let unsorted =
        |neuron, position, input| Err(Error::UnsortedConnections { neuron, position, input });
    assert_eq!(rows(&[&[0, 1], &[2, 1]], 3), unsorted(1, 1, 1));
    assert_eq!(rows(&[&[0, 1, 1]], 3), unsorted(0, 2, 1));
    for input in [3, usize::MAX] {
        let error = Error::UnknownInput { neuron: 2, input, n_inputs: 3 };
        assert_eq!(rows(&[&[], &[0], &[1, input]], 3), Err(error));
    }
    let (what, actual, limit) = (Quantity::Inputs, (1 << 32) + 1, 1 << 32);
    assert_eq!(rows(&[&[0]], actual), Err(Error::TooLarge { what, actual: actual as u128, limit }));

    assert_eq!(Connections::from_mask(&[true], 0), Err(Error::Zero(Quantity::Inputs)));
    assert_eq!(Connections::from_mask(&[], 0), Err(Error::Zero(Quantity::Inputs)));
    assert_eq!(Connections::from_mask(&[], 2), Err(Error::Zero(Quantity::Neurons)));
    let ragged = Error::Ragged { what: Quantity::Connections, actual: 5, divisor: 2 };
    assert_eq!(Connections::from_mask(&[true; 5], 2), Err(ragged));

    let some = rows(&[&[0, 2], &[]], 3).unwrap();
    assert_eq!([0, 1, 2, 3, usize::MAX].map(|j| some.inputs_of(j).len()), [2, 0, 0, 0, 0]);
}

#[test]
fn invalid_fixed_point_neurons_are_errors() {
    let what = Quantity::DataWidth;
    assert_eq!(LifParams::new(0, 8), Err(Error::TooSmall { what, actual: 0, limit: 1 }));
    for actual in [17, 64, u32::MAX] {
        let error = Error::TooLarge { what, actual: actual.into(), limit: 16 };
        assert_eq!(LifParams::new(actual, 8), Err(error));
    }
    for actual in [32, 64, u32::MAX] {
        let error = Error::TooLarge { what: Quantity::Fraction, actual: actual.into(), limit: 31 };
        assert_eq!(LifParams::new(16, actual), Err(error));
    }
    for data_width in 1..=16 {
        assert!((0..=31).all(|fraction| LifParams::new(data_width, fraction).is_ok()));
    }
}

#[test]
fn invalid_float_neurons_and_steps_are_errors() {
    let default = LifLayerParams::default();
    assert_eq!(LifLayer::new(0, default), Err(Error::Zero(Quantity::Neurons)));
    for (index, params) in [
        LifLayerParams { v_rest: f32::NAN, ..default },
        LifLayerParams { v_reset: f32::NAN, ..default },
        LifLayerParams { v_threshold: f32::NAN, ..default },
        LifLayerParams { alpha: f32::NAN, ..default },
        LifLayerParams { resistance: f32::NAN, ..default },
    ]
    .into_iter()
    .enumerate()
    {
        let error = LifLayer::new(1, params).unwrap_err();
        assert!(
            matches!(error, Error::OutOfRange { index: at, value, .. } if at == index && value.is_nan())
        );
    }
    assert!(LifLayer::new(1, LifLayerParams { alpha: f32::INFINITY, ..default }).is_err());

    let mut layer = LifLayer::new(2, default).unwrap();
    layer.step(&[0.25, 0.5], None, &mut [0.0; 2]).unwrap();
    let before = layer.clone();
    let mut fails = |currents: &[f32], noise: Option<&[f32]>, spikes: usize, expected: &Error| {
        let error = layer.step(currents, noise, &mut vec![7.0; spikes]).unwrap_err();
        assert!(same(&error, expected), "{error}");
        assert_eq!(layer, before, "an error must not change potentials");
    };
    let mismatch = |what, actual| Error::Mismatch { what, expected: 2, actual };
    fails(&[0.0], None, 2, &mismatch(Quantity::Currents, 1));
    fails(&[], None, 2, &mismatch(Quantity::Currents, 0));
    fails(&[0.0; 2], Some(&[0.0; 3]), 2, &mismatch(Quantity::Noise, 3));
    fails(&[0.0; 2], None, 1, &mismatch(Quantity::Neurons, 1));
    let (low, high) = (f32::MIN.into(), f32::MAX.into());
    let infinite =
        |index, value| Error::OutOfRange { what: Quantity::Value, index, value, low, high };
    fails(&[0.0, f32::NAN], None, 2, &infinite(1, f64::NAN));
    fails(&[0.0; 2], Some(&[f32::NEG_INFINITY, 0.0]), 2, &infinite(0, f64::NEG_INFINITY));
    // Finite numbers with an infinite sum: the potential would be lost for good.
    fails(&[0.0, f32::MIN], Some(&[0.0, f32::MIN]), 2, &infinite(1, f64::NEG_INFINITY));
}

#[test]
fn invalid_sequences_are_errors() {
    let sobol = |dimension| Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap());
    let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OnePerInput };
    assert_eq!(pairing.of_inputs().input_period(1, 0), Err(Error::Zero(Quantity::Inputs)));
    let ragged = Error::Ragged { what: Quantity::Inputs, actual: 3, divisor: 2 };
    assert_eq!(pairing.of_inputs().input_period(3, 2), Err(ragged));
    assert_eq!(pairing.of_inputs().input_period(0, 2), Ok(2));
    for index in [556, 1 << 40, usize::MAX] {
        let error = sobol(1).nth(index).unwrap_err();
        assert!(matches!(
            error,
            Error::TooLarge { what: Quantity::SobolDimension, limit: 1111, .. }
        ));
        assert!(pairing.input(index).is_err() && pairing.weight(0, index, 1).is_err());
    }
    let stream = Pairing { sharing: Sharing::OnePerStream, ..pairing };
    assert!(stream.weight(usize::MAX, usize::MAX, usize::MAX).is_err());

    let lfsr = Lfsr::new(Width::EIGHT, 1).unwrap();
    assert_eq!(lfsr.distance(&lfsr.advanced(100), usize::MAX), Some(100));
    assert_eq!(lfsr.distance(&Lfsr::new(Width::new(7).unwrap(), 1).unwrap(), usize::MAX), None);
}

#[test]
fn error_messages_state_quantity_and_value() {
    let error = Threshold::from_probability(1.5).unwrap_err();
    assert_eq!(error.to_string(), "probability at index 0 is 1.5, not in [0, 1]");
    let error = Error::Memory { what: Quantity::Weights, bytes: 10, available: Some(9) };
    assert_eq!(error.to_string(), "weights would take 10 bytes, 9 are available");
    assert_eq!(Error::Zero(Quantity::Steps).to_string(), "number of steps must be at least 1");
}
