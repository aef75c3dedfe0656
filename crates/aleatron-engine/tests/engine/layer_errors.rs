//! Every invalid call of layers is an error with the quantity, the index and the value; none panics
//! or allocates memory that it cannot have.

use aleatron_core::generator::{Pairing, Ramp, Sequence, Sharing, Sobol, Width};
use aleatron_core::{
    Connections, Error as CoreError, Length, Polarity, Quantity, SampleSeed, StreamMatrix,
};
use aleatron_engine::backend::CountMethod;
use aleatron_engine::{Error, LayerBuilder, StreamLayer, encode_inputs};
use std::fmt::Debug;

fn length(bits: usize) -> Length {
    Length::new(bits).unwrap()
}

/// Returns the core's error of a result.
fn core<T: Debug>(result: Result<T, Error>) -> CoreError {
    match result {
        Err(Error::Core(error)) => error,
        other => panic!("{other:?} is not an error of the core"),
    }
}

fn dense_of(n: usize, m: usize, bits: usize) -> LayerBuilder {
    StreamLayer::dense(n, m).length(bits).seed(1)
}

fn dense() -> StreamLayer {
    dense_of(3, 2, 100).build().unwrap()
}

fn sparse_of(bits: usize) -> LayerBuilder {
    StreamLayer::sparse(Connections::from_rows([vec![0, 2], vec![1]], 3).unwrap())
        .length(bits)
        .seed(1)
}

fn sparse() -> StreamLayer {
    sparse_of(100).build().unwrap()
}

/// Returns whether a result is empty and not an error.
fn is_empty<T, E>(result: Result<Vec<T>, E>) -> bool {
    result.is_ok_and(|values| values.is_empty())
}

fn sobol(dimension: u32) -> Sequence {
    Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap())
}

fn mismatch(what: Quantity, expected: usize, actual: usize) -> CoreError {
    CoreError::Mismatch { what, expected, actual }
}

/// Returns whether an error is of a number out of range, with this name, index and value, where NaN
/// equals NaN.
fn is_out_of_range(error: &CoreError, expected: (Quantity, usize, f64)) -> bool {
    match error {
        CoreError::OutOfRange { what, index, value, .. } => {
            (*what, *index, value.to_bits()) == (expected.0, expected.1, expected.2.to_bits())
        }
        _ => false,
    }
}

const BAD_UNIPOLAR: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1, 1.1];
const BAD_BIPOLAR: [f64; 4] = [f64::NAN, f64::INFINITY, -1.1, 1.1];

#[test]
fn dense_layer_of_invalid_size_is_an_error() {
    assert_eq!(core(dense_of(0, 2, 64).build()), CoreError::Zero(Quantity::Inputs));
    assert_eq!(core(dense_of(3, 0, 64).build()), CoreError::Zero(Quantity::Neurons));
    assert_eq!(core(dense_of(3, 2, 0).build()), CoreError::Zero(Quantity::Length));
    let too_large = |result, quantity| {
        let error = core(result);
        assert!(matches!(error, CoreError::TooLarge { what, .. } if what == quantity), "{error}");
    };
    too_large(dense_of(usize::MAX, 1, 64).build(), Quantity::Inputs);
    too_large(dense_of(1, (1 << 32) + 1, 64).build(), Quantity::Neurons);
    too_large(dense_of(1, 1, usize::MAX).build(), Quantity::Length);
}

/// Rejected by their sizes alone: one that overflows an address, and some that would only exceed
/// the machine. The first allocation of the last one would succeed on a system that overcommits
/// memory.
#[test]
fn layer_larger_than_memory_is_an_error_before_allocation() {
    let bytes_of = |n, m, bits| match core(dense_of(n, m, bits).build()) {
        CoreError::Memory { what: Quantity::Weights, bytes, .. } => bytes,
        other => panic!("{other}"),
    };
    assert_eq!(bytes_of(1 << 32, 1 << 32, 1 << 34), 1 << 95);
    // Packed streams and the weights themselves.
    assert_eq!(bytes_of(1 << 30, 1 << 20, 64), (1 << 53) + (1 << 53));
    assert_eq!(bytes_of(1 << 20, 1 << 20, 1024), (1 << 47) + (1 << 43));

    let connections = Connections::from_rows(std::iter::once(0..1 << 16), 1 << 16).unwrap();
    let layer = StreamLayer::sparse(connections).length(1 << 34);
    let expected = (1_u128 << 16) * (8 + (1 << 31));
    for layer in [layer.clone(), layer.weights(&[0.5; 1 << 16])] {
        let error = core(layer.build());
        assert!(matches!(error, CoreError::Memory { bytes, .. } if bytes == expected), "{error}");
    }
}

/// A small layer and a small batch can have more counts than any machine holds.
#[test]
fn counts_larger_than_memory_are_an_error_before_allocation() {
    let (neurons, samples) = (1 << 20, 1 << 20);
    let is_refused = |error: CoreError| {
        let expected = neurons as u128 * samples as u128 * 8;
        assert!(
            matches!(error, CoreError::Memory { what: Quantity::Counts, bytes, .. } if bytes == expected),
            "{error}"
        );
    };
    let values = vec![0.5; samples];
    let layer = dense_of(1, neurons, 1).build().unwrap();
    is_refused(core(layer.counts_batch(&values, 7)));
    is_refused(core(layer.forward_batch(&values, 7)));
    let streams = StreamMatrix::zeros(samples, length(1)).unwrap();
    is_refused(core(layer.counts_encoded(&streams)));

    let connections = Connections::from_rows((0..neurons).map(|_| 0..1), 1).unwrap();
    let layer = StreamLayer::sparse(connections).length(1).build().unwrap();
    is_refused(core(layer.counts_batch(&values, 7)));
    is_refused(core(layer.counts_encoded(&streams)));

    let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OneForAll };
    let layer =
        dense_of(1, neurons, 1).sequences(pairing).method(CountMethod::Tables).build().unwrap();
    is_refused(core(layer.counts_batch(&values, 7)));
}

#[test]
fn invalid_weights_of_a_dense_layer_are_errors() {
    for actual in [0, 5, 7] {
        let result = dense_of(3, 2, 100).weights(&vec![0.5; actual]).build();
        assert_eq!(core(result), mismatch(Quantity::Weights, 6, actual));
    }
    let with = |at: usize, value| {
        let mut weights = vec![0.5; 6];
        weights[at] = value;
        weights
    };
    for value in BAD_UNIPOLAR {
        let error = core(dense_of(3, 2, 100).weights(&with(4, value)).build());
        assert!(is_out_of_range(&error, (Quantity::Weight, 4, value)), "{error}");
    }
    for value in BAD_BIPOLAR {
        let error = core(dense_of(3, 2, 100).bipolar().weights(&with(5, value)).build());
        assert!(is_out_of_range(&error, (Quantity::Weight, 5, value)), "{error}");
    }
}

#[test]
fn failing_set_weights_keeps_the_old_weights() {
    let x = [0.1, 0.5, 0.9];
    let mut layer = dense();
    let (weights, streams) = (layer.weights().to_vec(), layer.weight_streams().unwrap());
    let counts = layer.counts(&x, 7).unwrap();
    for bad in [vec![], vec![0.5; 5], vec![0.5, 0.5, 0.5, 0.5, 0.5, f64::NAN], vec![2.0; 6]] {
        assert!(layer.set_weights(&bad).is_err());
        assert_eq!(
            (layer.weights(), layer.weight_streams().unwrap()),
            (&*weights, streams.clone())
        );
        assert_eq!(layer.counts(&x, 7).unwrap(), counts);
    }

    let mut layer = sparse();
    let (weights, streams) = (layer.weights().to_vec(), layer.weight_streams().unwrap());
    let counts = layer.counts(&x, 7).unwrap();
    for bad in [vec![], vec![0.5; 4], vec![0.5, 0.5, f64::NAN], vec![0.5, -1.0, 0.5]] {
        assert!(layer.set_weights(&bad).is_err());
        assert_eq!(
            (layer.weights(), layer.weight_streams().unwrap()),
            (&*weights, streams.clone())
        );
        assert_eq!(layer.counts(&x, 7).unwrap(), counts);
    }
}

#[test]
fn invalid_weights_of_a_sparse_layer_are_errors() {
    for actual in [0, 2, 6] {
        let result = sparse_of(64).weights(&vec![0.5; actual]).build();
        assert_eq!(core(result), mismatch(Quantity::Weights, 3, actual));
    }
    for value in BAD_UNIPOLAR {
        let error = core(sparse_of(64).weights(&[0.5, value, 0.5]).build());
        assert!(is_out_of_range(&error, (Quantity::Weight, 1, value)), "{error}");
    }
    for value in BAD_BIPOLAR {
        let error = core(sparse_of(64).bipolar().weights(&[-1.0, 1.0, value]).build());
        assert!(is_out_of_range(&error, (Quantity::Weight, 2, value)), "{error}");
    }
}

#[test]
fn invalid_inputs_of_a_sample_are_errors() {
    for actual in [0, 2, 4, 6] {
        let values = vec![0.5; actual];
        let expected = mismatch(Quantity::Inputs, 3, actual);
        assert_eq!(core(dense().counts(&values, 7)), expected);
        assert_eq!(core(dense().forward(&values, 7)), expected);
        assert_eq!(core(sparse().counts(&values, 7)), expected);
        assert_eq!(core(sparse().forward(&values, 7)), expected);
    }
    let bipolar = dense_of(3, 2, 100).bipolar().build().unwrap();
    for value in BAD_BIPOLAR {
        let error = core(bipolar.counts(&[-1.0, value, 1.0], 7));
        assert!(is_out_of_range(&error, (Quantity::Value, 1, value)), "{error}");
    }
}

#[test]
fn invalid_inputs_of_a_batch_are_errors_with_their_index() {
    for actual in [1, 4, 8] {
        let values = vec![0.5; actual];
        let expected = CoreError::Ragged { what: Quantity::Inputs, actual, divisor: 3 };
        assert_eq!(core(dense().counts_batch(&values, 7)), expected);
        assert_eq!(core(dense().forward_batch(&values, 7)), expected);
        assert_eq!(core(sparse().counts_batch(&values, 7)), expected);
        assert_eq!(core(sparse().forward_batch(&values, 7)), expected);
    }
    for value in BAD_UNIPOLAR {
        let values = [0.0, 0.5, 1.0, 0.2, value, f64::NAN];
        for error in
            [core(dense().counts_batch(&values, 7)), core(sparse().counts_batch(&values, 7))]
        {
            assert!(is_out_of_range(&error, (Quantity::Value, 4, value)), "{error}");
        }
    }
    assert!(is_empty(dense().counts_batch(&[], 7)));
    assert!(is_empty(sparse().counts_batch(&[], 7)));
    assert!(is_empty(dense().forward_batch(&[], 7)));
}

/// A layer may have more inputs than fit for one sample, but a batch without samples fits.
#[test]
fn batch_without_samples_needs_no_memory() {
    let connections = Connections::from_rows([[0]], 1 << 32).unwrap();
    let layer = StreamLayer::sparse(connections).length(1 << 20).build().unwrap();
    assert!(is_empty(layer.counts_batch(&[], 7)));
}

#[test]
fn samples_beyond_the_last_row_are_an_error() {
    let last = SampleSeed::new(7).starting_at(u32::MAX);
    let x = [0.1, 0.5, 0.9, 0.2, 0.4, 0.6];
    assert_eq!(dense().counts_batch(&x[..3], last).unwrap().len(), 2);
    let (what, limit) = (Quantity::Row, 1 << 32);
    let past = CoreError::TooLarge { what, actual: limit, limit: limit - 1 };
    assert_eq!(core(dense().counts_batch(&x, last)), past);
    assert_eq!(core(sparse().counts_batch(&x, last)), past);
    let past = CoreError::TooLarge { what, actual: limit + 1, limit };
    assert_eq!(core(encode_inputs(&x, 3, length(64), Polarity::Unipolar, last)), past);
}

#[test]
fn invalid_encoded_inputs_are_errors() {
    let encode =
        |values: &[f64], n, bits| encode_inputs(values, n, length(bits), Polarity::Unipolar, 7);
    assert_eq!(core(encode(&[], 0, 64)), CoreError::Zero(Quantity::Inputs));
    assert_eq!(core(encode(&[0.5], 0, 64)), CoreError::Zero(Quantity::Inputs));
    let ragged = |actual| CoreError::Ragged { what: Quantity::Streams, actual, divisor: 3 };
    assert_eq!(core(encode(&[0.5; 4], 3, 64)), ragged(4));
    for value in BAD_UNIPOLAR {
        let error = core(encode(&[0.5, 0.5, value], 3, 64));
        assert!(is_out_of_range(&error, (Quantity::Value, 2, value)), "{error}");
    }
    let error = core(encode(&[0.5; 3000], 3, 1 << 34));
    assert!(matches!(error, CoreError::Memory { bytes, .. } if bytes == 3000 << 31), "{error}");

    let other_length = encode(&[0.5; 3], 3, 101).unwrap();
    let two_and_a_bit = encode(&[0.5; 7], 7, 100).unwrap();
    let mut dirty = encode(&[0.5; 6], 3, 100).unwrap();
    dirty.words_mut()[9] |= 1 << 63;
    let length_error = mismatch(Quantity::Length, 100, 101);
    let tail_error = CoreError::DirtyTail { stream: 4, length: 100 };
    let (dense, sparse) = (dense(), sparse());
    let both = |streams| [dense.counts_encoded(streams), sparse.counts_encoded(streams)].map(core);
    assert_eq!(both(&other_length), [length_error.clone(), length_error.clone()]);
    let words = CoreError::Ragged { what: Quantity::Words, actual: 14, divisor: 6 };
    assert_eq!(both(&two_and_a_bit), [words.clone(), words]);
    assert_eq!(both(&dirty), [tail_error.clone(), tail_error]);
    assert_eq!(core(dense.forward_encoded(&other_length)), length_error);
    assert!(is_empty(dense.counts_encoded(&StreamMatrix::zeros(0, length(100)).unwrap())));
}

#[test]
fn invalid_calls_of_layers_with_sequences_are_errors() {
    let pairing = Pairing { inputs: sobol(1), weights: sobol(2), sharing: Sharing::OneForAll };
    let layer = |pairing, method| dense_of(2, 3, 16).sequences(pairing).method(method);
    for method in [CountMethod::Tables, CountMethod::Bits] {
        let with = |weights: &[f64]| layer(pairing, method).weights(weights).build();
        assert_eq!(core(with(&[0.5; 5])), mismatch(Quantity::Weights, 6, 5));
        let error = core(with(&[0.5, 0.5, 0.5, f64::NAN, 0.5, 0.5]));
        assert!(is_out_of_range(&error, (Quantity::Weight, 3, f64::NAN)), "{error}");
        let layer = with(&[0.5; 6]).unwrap();
        let ragged = CoreError::Ragged { what: Quantity::Inputs, actual: 3, divisor: 2 };
        assert_eq!(core(layer.counts_batch(&[0.5; 3], 0)), ragged);
        let error = core(layer.forward(&[0.5, 1.5], 0));
        assert!(is_out_of_range(&error, (Quantity::Value, 1, 1.5)), "{error}");
        assert!(is_empty(layer.counts_batch(&[], 0)));
    }
    let too_large = |pairing, method| {
        let error = core(layer(pairing, method).build());
        assert!(matches!(error, CoreError::TooLarge { .. }), "{error}");
    };
    too_large(Pairing { sharing: Sharing::OnePerStream, ..pairing }, CountMethod::Tables);
    let ramp = Sequence::Ramp(Ramp::new(Width::EIGHT));
    too_large(
        Pairing { weights: ramp, sharing: Sharing::OnePerInput, ..pairing },
        CountMethod::Bits,
    );
    let wide = Sequence::Ramp(Ramp::new(Width::new(20).unwrap()));
    too_large(Pairing { weights: wide, ..pairing }, CountMethod::Tables);
    assert_eq!(core(dense_of(2, 3, 16).max_batch(0).build()), CoreError::Zero(Quantity::Samples));
}
