//! Every way to call layers and the CPU engine wrongly is an error that says what, where and how much; none of them panics,
//! and none takes the memory it cannot have.

use aleatron::backend::CountMethod;
use aleatron::data::Dataset;
use aleatron::eval::{Job, Plan};
use aleatron::generator::{Pairing, Ramp, Sequence, Sharing, Sobol, Width};
use aleatron::network::{FeatureMap, Layer, Network};
use aleatron::{
    Connections, CoreError, Cpu, DenseShape, Error, LayerBuilder, Length, LifDrive, LifParams, Polarity,
    Pool, Quantity, Result, SampleSeed, StreamAddress, StreamLayer, StreamMatrix, Threshold, Tier,
    encode_inputs,
};
use std::borrow::Cow;
use std::fmt::Debug;

fn length(bits: usize) -> Length {
    Length::new(bits).unwrap()
}

/// The core's error behind a result.
fn core<T: Debug>(result: Result<T, impl Into<Error>>) -> CoreError {
    match result.map_err(Into::into) {
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
    StreamLayer::sparse(Connections::from_rows([vec![0, 2], vec![1]], 3).unwrap()).length(bits).seed(1)
}

fn sparse() -> StreamLayer {
    sparse_of(100).build().unwrap()
}

/// Nothing, and no error.
fn is_empty<T, E>(result: Result<Vec<T>, E>) -> bool {
    result.is_ok_and(|made| made.is_empty())
}

fn sobol(dimension: u32) -> Sequence {
    Sequence::Sobol(Sobol::new(dimension, Width::EIGHT).unwrap())
}

fn mismatch(what: Quantity, expected: usize, actual: usize) -> CoreError {
    CoreError::Mismatch { what, expected, actual }
}

/// Whether an error is of a number out of range, of this name at this index and with this value, NaN included.
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
fn sizes_of_dense_layers() {
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

/// Refused by their sizes alone: one that overflows an address, and some that would only overflow the machine. The first
/// allocation of the last one would succeed on a system that promises more memory than it has.
#[test]
fn layers_that_cannot_fit() {
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
fn counts_that_cannot_fit() {
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
    let layer = dense_of(1, neurons, 1).sequences(pairing).method(CountMethod::Tables).build().unwrap();
    is_refused(core(layer.counts_batch(&values, 7)));
}

/// What a plan would keep is compared with what there is before anything is run.
#[test]
fn plans_that_cannot_fit() {
    let refused = |result: Result<()>, what: Quantity, expected: u128| {
        let error = result.unwrap_err();
        let Some(CoreError::Memory { what: refused, bytes, .. }) = error.core() else { panic!("{error}") };
        assert_eq!((*refused, *bytes), (what, expected));
    };
    let plan = |generator: &str, length: usize, seeds: usize| Plan {
        lengths: vec![length, length / 2],
        generators: vec![generator.parse().unwrap()],
        seeds,
        ..Plan::default()
    };
    // 2^20 weights of 2^28 words each; sequences have tables in their place.
    let wide = Network::new("n", FeatureMap::IDENTITY, vec![Layer::new("a", 1 << 20, vec![0.5; 1 << 20])]);
    let wide = wide.unwrap();
    refused(plan("bernoulli", 1 << 34, 1).check(&wide), Quantity::Streams, 1 << 51);
    plan("sobol", 1 << 34, 1).check(&wide).unwrap();
    // Two lengths and 2^20 seeds, with matrices of 2^12 classes each.
    let classes = vec![Layer::new("a", 1, vec![0.5; 1 << 12])];
    let classes = Network::new("n", FeatureMap::IDENTITY, classes).unwrap();
    let data = Dataset::new("one", 1, vec![0.5], vec![0]).unwrap();
    let job = Job::new(&classes, Cow::Borrowed(&data), plan("bernoulli", 16, 1 << 20));
    refused(job.map(drop), Quantity::Confusion, 1 << (12 + 12 + 20 + 1 + 3));
}

#[test]
fn weights_of_dense_layers() {
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
fn a_failing_set_weights_leaves_the_old_ones() {
    let x = [0.1, 0.5, 0.9];
    let mut layer = dense();
    let (weights, streams) = (layer.weights().to_vec(), layer.weight_streams().unwrap());
    let counts = layer.counts(&x, 7).unwrap();
    for bad in [vec![], vec![0.5; 5], vec![0.5, 0.5, 0.5, 0.5, 0.5, f64::NAN], vec![2.0; 6]] {
        assert!(layer.set_weights(&bad).is_err());
        assert_eq!((layer.weights(), layer.weight_streams().unwrap()), (&*weights, streams.clone()));
        assert_eq!(layer.counts(&x, 7).unwrap(), counts);
    }

    let mut layer = sparse();
    let (weights, streams) = (layer.weights().to_vec(), layer.weight_streams().unwrap());
    let counts = layer.counts(&x, 7).unwrap();
    for bad in [vec![], vec![0.5; 4], vec![0.5, 0.5, f64::NAN], vec![0.5, -1.0, 0.5]] {
        assert!(layer.set_weights(&bad).is_err());
        assert_eq!((layer.weights(), layer.weight_streams().unwrap()), (&*weights, streams.clone()));
        assert_eq!(layer.counts(&x, 7).unwrap(), counts);
    }
}

#[test]
fn weights_of_sparse_layers() {
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
fn inputs_of_a_sample() {
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
fn inputs_of_a_batch() {
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
        for error in [core(dense().counts_batch(&values, 7)), core(sparse().counts_batch(&values, 7))] {
            assert!(is_out_of_range(&error, (Quantity::Value, 4, value)), "{error}");
        }
    }
    assert!(is_empty(dense().counts_batch(&[], 7)));
    assert!(is_empty(sparse().counts_batch(&[], 7)));
    assert!(is_empty(dense().forward_batch(&[], 7)));
}

/// A layer may have more inputs than a sample of it would fit; no samples of it do.
#[test]
fn no_samples_take_no_memory() {
    let connections = Connections::from_rows([[0]], 1 << 32).unwrap();
    let layer = StreamLayer::sparse(connections).length(1 << 20).build().unwrap();
    assert!(is_empty(layer.counts_batch(&[], 7)));
}

#[test]
fn samples_past_the_last_row() {
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
fn encoded_inputs() {
    let encode = |values: &[f64], n, bits| encode_inputs(values, n, length(bits), Polarity::Unipolar, 7);
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
fn layers_with_shared_sequences() {
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
    too_large(Pairing { weights: ramp, sharing: Sharing::OnePerInput, ..pairing }, CountMethod::Bits);
    let wide = Sequence::Ramp(Ramp::new(Width::new(20).unwrap()));
    too_large(Pairing { weights: wide, ..pairing }, CountMethod::Tables);
    assert_eq!(core(dense_of(2, 3, 16).max_batch(0).build()), CoreError::Zero(Quantity::Samples));
}

#[test]
fn streams_on_the_cpu() {
    let cpu = Cpu::current().unwrap();
    let half = [Threshold::from_probability(0.5).unwrap(); 6];
    let address = StreamAddress::input(1, 0, 0);
    let bits = length(100);
    let ragged = |divisor| CoreError::Ragged { what: Quantity::Streams, actual: 6, divisor };
    assert_eq!(cpu.encode_rows(&half, 4, bits, address), Err(ragged(4)));
    assert_eq!(cpu.encode_rows(&half, 0, bits, address), Err(ragged(0)));
    assert_eq!(cpu.encode_rows(&[], 0, bits, address).unwrap().rows(), 0);
    let into = |words: usize| cpu.encode_rows_into(&half, 3, bits, address, &mut vec![0; words]);
    assert_eq!(into(11), Err(mismatch(Quantity::Words, 12, 11)));
    assert_eq!(into(13), Err(mismatch(Quantity::Words, 12, 13)));
    assert_eq!(into(12), Ok(()));
    let past = |what| CoreError::TooLarge { what, actual: (1 << 32) + 1, limit: 1 << 32 };
    assert_eq!(cpu.encode(&half, bits, address.at_unit(u32::MAX - 4)), Err(past(Quantity::Inputs)));
    assert!(cpu.encode(&half, bits, address.at_unit(u32::MAX - 5)).is_ok());
    assert_eq!(cpu.encode_rows(&half, 2, bits, address.at_row(u32::MAX - 1)), Err(past(Quantity::Row)));
    assert!(cpu.encode_rows(&half, 2, bits, address.at_row(u32::MAX - 2)).is_ok());
    let error = cpu.encode(&[half[0]; 1000], length(1 << 34), address).unwrap_err();
    assert!(matches!(error, CoreError::Memory { bytes, .. } if bytes == 1000 << 31), "{error}");

    let connections = Connections::from_rows([vec![0, 2], vec![1]], 3).unwrap();
    let connect = |thresholds: &[Threshold], words: usize, address| {
        cpu.encode_connections(&connections, thresholds, bits, address, &mut vec![0; words])
    };
    assert_eq!(connect(&half[..2], 4, address), Err(mismatch(Quantity::Weights, 3, 2)));
    assert_eq!(connect(&half[..3], 5, address), Err(mismatch(Quantity::Words, 6, 5)));
    assert_eq!(connect(&half[..3], 6, address.at_unit(u32::MAX - 1)), Err(past(Quantity::Inputs)));
    assert_eq!(connect(&half[..3], 6, address.at_row(u32::MAX)), Err(past(Quantity::Row)));
    assert_eq!(connect(&half[..3], 6, address.at_unit(u32::MAX - 2).at_row(u32::MAX - 1)), Ok(()));
}

#[test]
fn words_on_the_cpu() {
    let cpu = Cpu::current().unwrap();
    assert_eq!(cpu.pack_into(&[1; 65], &mut [0]), Err(mismatch(Quantity::Words, 2, 1)));
    assert_eq!(cpu.pack_into(&[1; 64], &mut [0, 0]), Err(mismatch(Quantity::Words, 1, 2)));
    assert!(cpu.pack(&[]).is_empty());
    let short = |actual| CoreError::TooLarge { what: Quantity::Length, actual, limit: 128 };
    assert_eq!(cpu.unpack(&[0, 0], 129), Err(short(129)));
    assert_eq!(cpu.unpack(&[0, 0], usize::MAX), Err(short(usize::MAX as u128)));
    assert_eq!(cpu.unpack_into(&[0, 0], &mut [0; 129]), Err(short(129)));
    assert_eq!(cpu.and_popcount(&[1], &[1, 1]), Err(mismatch(Quantity::Words, 1, 2)));
    assert_eq!((cpu.popcount(&[]), cpu.and_popcount(&[], &[])), (0, Ok(0)));
    assert_eq!(cpu.row_ones(&[1, 3, 7], 0), [1, 2, 3]);
}

#[test]
fn layers_on_the_cpu() {
    let cpu = Cpu::current().unwrap();
    for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
        let shape = DenseShape::new(3, 2, length(64), polarity).unwrap();
        let counts = |w: usize, ones: usize, x: usize| {
            cpu.dense_counts(&shape, &vec![0; w], &vec![0; ones], &vec![0; x])
        };
        assert_eq!(counts(5, 2, 3), Err(mismatch(Quantity::Words, 6, 5)));
        assert_eq!(counts(6, 1, 3), Err(mismatch(Quantity::Neurons, 2, 1)));
        let ragged = CoreError::Ragged { what: Quantity::Words, actual: 4, divisor: 3 };
        assert_eq!(counts(6, 2, 4), Err(ragged.clone()));
        assert_eq!(counts(6, 2, 0), Ok(vec![]));
        // Ones that no stream has make nonsense, but no panic.
        assert_eq!(cpu.dense_counts(&shape, &[0; 6], &[1 << 40; 2], &[0; 3]).unwrap().len(), 2);

        let connections = Connections::from_rows([vec![0, 2], vec![1]], 3).unwrap();
        let counts = |w: usize, x: usize| {
            cpu.sparse_counts(&connections, length(64), polarity, &vec![0; w], &vec![0; x])
        };
        assert_eq!(counts(4, 3), Err(mismatch(Quantity::Words, 3, 4)));
        assert_eq!(counts(3, 4), Err(ragged));
        assert_eq!(counts(3, 0), Ok(vec![]));
    }
}

#[test]
fn neurons_on_the_cpu() {
    let cpu = Cpu::current().unwrap();
    let (params, drive) = (LifParams::default(), LifDrive::default());
    let varying = cpu.lif_run_varying(params, drive, &[1, 2, 3], Some(&[1, 2]));
    assert_eq!(varying, Err(mismatch(Quantity::Noise, 3, 2)));
    assert!(cpu.lif_run(params, drive, 0).unwrap().spikes.is_empty());
    assert!(cpu.lif_run_varying(params, drive, &[], Some(&[])).unwrap().spikes.is_empty());
    assert!(cpu.lif_run_multi(params, drive, &[], 10).unwrap().spikes.is_empty());
    assert!(cpu.lif_run_multi(params, drive, &[1, 2], 0).unwrap().spikes.is_empty());
    let is_refused = |result: Result<_, CoreError>, expected: u128| {
        let error = result.map(|_: aleatron::LifTrace| ()).unwrap_err();
        assert!(
            matches!(error, CoreError::Memory { what: Quantity::Trace, bytes, .. } if bytes == expected),
            "{error}"
        );
    };
    is_refused(cpu.lif_run(params, drive, usize::MAX), usize::MAX as u128 * 3);
    is_refused(cpu.lif_run(params, drive, 1 << 45), 3 << 45);
    is_refused(cpu.lif_run_multi(params, drive, &[0; 8], usize::MAX), usize::MAX as u128 * 24);
    is_refused(cpu.lif_run_multi(params, drive, &[0; 8], 1 << 42), 3 << 45);
}

#[test]
fn tiers() {
    let names = ["avx512-vpopcntdq", "avx512bw", "avx512f", "avx2", "popcnt", "neon", "portable"];
    let available: Vec<_> = Tier::available().into_iter().map(Tier::name).collect();
    for name in names {
        match Tier::from_name(name) {
            Ok(tier) => assert!(tier.name() == name && available.contains(&name)),
            Err(aleatron_cpu::Error::UnavailableTier { name: asked, available: has }) => {
                assert_eq!((asked, &has), (name, &available));
                assert!(!available.contains(&name));
            }
            Err(other) => panic!("{other}"),
        }
    }
    // No machine has both the vector instructions of x86-64 and those of AArch64.
    assert!(available.len() < names.len());
    for name in ["", "AVX2", "avx2 ", "sse9"] {
        let error = Tier::from_name(name).unwrap_err();
        assert_eq!(error, aleatron_cpu::Error::UnknownTier { name: name.into(), known: names.to_vec() });
    }
}

/// Pools of more threads than can be.
#[test]
fn threads() {
    let limit = aleatron_cpu::threads::max_threads();
    for threads in [usize::MAX, 1 << 40, limit + 1] {
        let error = Pool::new(threads).map(|_| ()).unwrap_err();
        let (actual, limit) = (threads as u128, limit as u128);
        assert_eq!(error, CoreError::TooLarge { what: Quantity::Threads, actual, limit }.into());
        let before = aleatron::get_num_threads().unwrap();
        assert!(aleatron::set_num_threads(threads).is_err());
        assert_eq!(aleatron::get_num_threads().unwrap(), before);
    }
}
