//! Layers: known answers, and equal counts for every batch split, kind of input, and number of
//! threads.

use aleatron_core::generator::{Sharing, Warning, Width};
use aleatron_core::golden::{Answer, answers, dense_input};
use aleatron_core::{
    Cancel, Connections, Convolution, Encoding, Error as CoreError, InputSource, LayerIndex,
    Length, Polarity, SampleSeed, Weights, reference, weights,
};
use aleatron_cpu::{Cpu, CpuBackend, set_num_threads};
use aleatron_engine::backend::{Backend, Batch, CountMethod, PoolBackend, PrepareOptions, Split};
use aleatron_engine::{Error, LayerBuilder, StreamLayer, encode_inputs};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

const POLARITIES: [Polarity; 2] = [Polarity::Unipolar, Polarity::Bipolar];

/// Returns a dense layer of Bernoulli streams.
fn dense(n: usize, m: usize, bits: usize, polarity: Polarity) -> LayerBuilder {
    StreamLayer::dense(n, m).length(bits).polarity(polarity)
}

/// Returns the sparse layer with the connections of a mask.
fn sparse(n: usize, mask: &[bool], bits: usize, polarity: Polarity) -> LayerBuilder {
    StreamLayer::sparse(Connections::from_mask(mask, n).unwrap()).length(bits).polarity(polarity)
}

fn streams(layer: &StreamLayer) -> Vec<u64> {
    layer.weight_streams().unwrap().into_words()
}

/// Returns numbers over the whole interval of a polarity, including its ends.
fn values(n: usize, polarity: Polarity) -> Vec<f64> {
    (0..n).map(|k| polarity.value_of((k * 7919 % 1009) as f64 / 1008.0)).collect()
}

#[test]
fn dense_layer_has_known_counts() {
    let mut checked = 0;
    for answer in answers().unwrap() {
        let Answer::Dense { n_inputs, n_neurons, length, weight_seed, input_seed, sample, counts } =
            answer
        else {
            continue;
        };
        let layer = StreamLayer::dense(n_inputs, n_neurons)
            .length(length)
            .seed(weight_seed)
            .build()
            .unwrap();
        let x: Vec<f64> = (0..n_inputs).map(dense_input).collect();
        let seed = SampleSeed::new(input_seed).starting_at(sample);
        assert_eq!(layer.counts(&x, seed).unwrap(), counts);
        // The same sample as the last of a batch.
        let batch = layer.counts_batch(&x.repeat(sample as usize + 1), input_seed).unwrap();
        assert_eq!(batch[sample as usize * n_neurons..], counts);
        let values: Vec<f64> = counts.iter().map(|&count| count as f64 / length as f64).collect();
        assert_eq!(layer.forward(&x, seed).unwrap(), values);
        checked += 1;
    }
    assert!(checked >= 4);
}

#[test]
fn random_weights_have_known_values() {
    let mut checked = 0;
    for answer in answers().unwrap() {
        let Answer::Weight { seed, neuron, input, value } = answer else { continue };
        let (n, m) = (input as usize + 2, neuron as usize + 2);
        let layer = StreamLayer::dense(n, m).length(1).seed(seed).build().unwrap();
        assert_eq!(layer.weights()[neuron as usize * n + input as usize], value);
        let bipolar = dense(n, m, 1, Polarity::Bipolar).seed(seed).build().unwrap();
        assert_eq!(bipolar.weights()[neuron as usize * n + input as usize], 2.0 * value - 1.0);
        checked += 1;
    }
    assert!(checked >= 4);
}

/// A sample's row determines its streams, so the samples of a batch are single calls, and equal
/// samples have other bits.
#[test]
fn sample_of_a_batch_equals_the_single_call_of_its_row() {
    for polarity in POLARITIES {
        let (n, m, samples) = (7, 5, 6);
        let layer = dense(n, m, 300, polarity).build().unwrap();
        let x = values(n * samples, polarity);
        let batch = layer.counts_batch(&x, 9).unwrap();
        for (s, (x, counts)) in x.chunks(n).zip(batch.chunks(m)).enumerate() {
            let seed = SampleSeed::new(9).starting_at(s as u32);
            assert_eq!(layer.counts(x, seed).unwrap(), counts, "sample {s}");
        }
        assert_eq!(layer.counts(&x[..n], 9).unwrap(), batch[..m]);
        let twins = layer.counts_batch(&x[..n].repeat(2), 9).unwrap();
        assert_ne!(twins[..m], twins[m..]);
    }
}

/// A batch larger than the scratch memory of a call is divided into chunks: 2^20 words, here four
/// samples and a bit.
#[test]
fn batch_larger_than_scratch_memory_equals_single_samples() {
    let (n, samples) = (4, 9);
    let layer = StreamLayer::dense(n, 2).length(4_000_000).seed(3).build().unwrap();
    let x = values(n * samples, Polarity::Unipolar);
    let singles: Vec<u64> = (0..samples)
        .flat_map(|s| {
            let seed = SampleSeed::new(1).starting_at(s as u32);
            layer.counts(&x[s * n..][..n], seed).unwrap()
        })
        .collect();
    assert_eq!(layer.counts_batch(&x, 1).unwrap(), singles);
}

#[test]
fn layer_index_changes_every_stream() {
    let make = |index| dense(6, 4, 256, Polarity::Unipolar).at(LayerIndex::new(index).unwrap());
    let layers = [0, 1, 2].map(|index| make(index).build().unwrap());
    let x = values(6, Polarity::Unipolar);
    let weights = layers.each_ref().map(|layer| layer.weights().to_vec());
    assert!(weights[0] != weights[1] && weights[1] != weights[2], "random weights differ");
    // Also with equal weights, the streams of weights differ, and so do those of inputs: a layer of
    // ones counts them.
    let ones = [0, 1, 2].map(|index| {
        let mut layer = make(index).weights(&weights[0]).build().unwrap();
        let streams = streams(&layer);
        layer.set_weights(&[1.0; 24]).unwrap();
        (streams, layer.counts(&x, 7).unwrap())
    });
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        assert_ne!(ones[a].0, ones[b].0);
        assert_ne!(ones[a].1, ones[b].1);
    }
}

#[test]
fn layer_without_settings_is_unipolar_bernoulli_and_single() {
    let layer = StreamLayer::dense(9, 4).seed(5).build().unwrap();
    assert_eq!((layer.spec().polarity(), layer.spec().length().bits()), (Polarity::Unipolar, 1024));
    assert_eq!(layer.spec().index(), LayerIndex::ALONE);
    let mut row = [0.0; 9];
    weights::fill_row(5, LayerIndex::ALONE, 3, Polarity::Unipolar, &mut row);
    assert_eq!(layer.weights()[27..], row);
    let given = StreamLayer::dense(9, 4).seed(5).weights(layer.weights()).build().unwrap();
    assert_eq!(streams(&given), streams(&layer));
    assert_ne!(
        streams(&StreamLayer::dense(9, 4).seed(6).weights(layer.weights()).build().unwrap()),
        streams(&layer)
    );
}

#[test]
fn counts_of_extreme_values_are_exact() {
    for bits in [1, 63, 64, 65, 1000] {
        let layer = dense(3, 2, bits, Polarity::Unipolar)
            .weights(&[1.0, 1.0, 1.0, 0.0, 1.0, 0.0])
            .build()
            .unwrap();
        assert_eq!(layer.forward(&[1.0; 3], 1).unwrap(), [3.0, 1.0]);
        assert_eq!(layer.forward(&[0.0; 3], 1).unwrap(), [0.0, 0.0]);
        let layer =
            dense(2, 2, bits, Polarity::Bipolar).weights(&[1.0, -1.0, -1.0, -1.0]).build().unwrap();
        assert_eq!(layer.forward(&[-1.0, 1.0], 1).unwrap(), [-2.0, 0.0]);
    }
}

/// Returns a layer and a batch: inputs, neurons, samples, length and polarity.
fn shapes() -> impl Strategy<Value = (usize, usize, usize, usize, Polarity)> {
    let bits = prop_oneof![prop::sample::select(vec![1, 63, 64, 65, 128, 512]), 1..300usize];
    (1..12usize, 1..10usize, 1..12usize, bits, prop::sample::select(POLARITIES.to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn dense_counts_match_reference((n, m, samples, bits, polarity) in shapes(), seed: u64) {
        let layer = dense(n, m, bits, polarity).build().unwrap();
        let x = values(n * samples, polarity);
        let streams = encode_inputs(&x, n, layer.spec().length(), polarity, seed).unwrap();
        let counts = layer.counts_batch(&x, seed).unwrap();
        let weights = layer.weight_streams().unwrap();
        prop_assert_eq!(&counts, &reference::counts(layer.spec(), &weights, &streams));
        prop_assert_eq!(&layer.counts_encoded(&streams).unwrap(), &counts);
        let decoded: Vec<f64> = counts.iter().map(|&count| polarity.decode(count, n, layer.spec().length())).collect();
        prop_assert_eq!(&layer.forward_batch(&x, seed).unwrap(), &decoded);
        prop_assert_eq!(&layer.forward_encoded(&streams).unwrap(), &decoded);
        prop_assert_eq!(&layer.decode(&counts), &decoded);
    }

    /// The batch is split at any index, and starts at any sample.
    #[test]
    fn split_batch_equals_whole_batch(
        (n, m, samples, bits, polarity) in shapes(), cuts in vec(1..5usize, 1..12), first in 0..u32::MAX - 20, seed: u64,
    ) {
        let layer = dense(n, m, bits, polarity).build().unwrap();
        let x = values(n * samples, polarity);
        let start = SampleSeed::new(seed).starting_at(first);
        let whole = layer.counts_batch(&x, start).unwrap();
        let (mut rest, mut done, mut parts) = (&x[..], first, Vec::new());
        for cut in cuts.into_iter().cycle() {
            let (part, after) = rest.split_at(rest.len().min(cut * n));
            parts.extend(layer.counts_batch(part, start.starting_at(done)).unwrap());
            (rest, done) = (after, done + (part.len() / n) as u32);
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(parts, whole);
    }

    #[test]
    fn set_weights_equals_a_new_layer((n, m, _, bits, polarity) in shapes()) {
        let given = values(n * m, polarity);
        let fresh = dense(n, m, bits, polarity).weights(&given).build().unwrap();
        let mut changed = dense(n, m, bits, polarity).build().unwrap();
        changed.set_weights(&given).unwrap();
        prop_assert_eq!(changed.weights(), &given);
        prop_assert_eq!(streams(&changed), streams(&fresh));
        let x = values(n, polarity);
        prop_assert_eq!(changed.counts(&x, 7).unwrap(), fresh.counts(&x, 7).unwrap());
        // Back to the random weights, given as numbers: equal to the random layer.
        let random = dense(n, m, bits, polarity).build().unwrap();
        changed.set_weights(random.weights()).unwrap();
        prop_assert_eq!(streams(&changed), streams(&random));
        prop_assert_eq!(changed.counts(&x, 7).unwrap(), random.counts(&x, 7).unwrap());
    }

    #[test]
    fn fully_connected_sparse_layer_equals_dense((n, m, samples, bits, polarity) in shapes(), seed: u64) {
        let index = LayerIndex::new(3).unwrap();
        let dense = dense(n, m, bits, polarity).seed(seed).at(index).build().unwrap();
        let sparse = sparse(n, &vec![true; n * m], bits, polarity).seed(seed).at(index).build().unwrap();
        prop_assert_eq!(sparse.weights(), dense.weights());
        prop_assert_eq!(streams(&sparse), streams(&dense));
        let x = values(n * samples, polarity);
        prop_assert_eq!(sparse.counts_batch(&x, 7).unwrap(), dense.counts_batch(&x, 7).unwrap());
        prop_assert_eq!(sparse.forward_batch(&x, 7).unwrap(), dense.forward_batch(&x, 7).unwrap());
    }

    /// A weight of 0 is a stream of zeros, whose products have no ones: omitting it does not change
    /// the counts.
    #[test]
    fn unipolar_sparse_layer_equals_dense_with_zeros(
        (n, m, samples, bits, _) in shapes(), mask in vec(any::<bool>(), 120), seed: u64,
    ) {
        let mask = &mask[..n * m];
        let sparse = sparse(n, mask, bits, Polarity::Unipolar).seed(seed).build().unwrap();
        let mut dense = dense(n, m, bits, Polarity::Unipolar).seed(seed).build().unwrap();
        let zeroed: Vec<f64> =
            dense.weights().iter().zip(mask).map(|(&w, &sequenced)| if sequenced { w } else { 0.0 }).collect();
        dense.set_weights(&zeroed).unwrap();
        let x = values(n * samples, Polarity::Unipolar);
        prop_assert_eq!(sparse.counts_batch(&x, 7).unwrap(), dense.counts_batch(&x, 7).unwrap());
        prop_assert_eq!(sparse.forward_batch(&x, 7).unwrap(), dense.forward_batch(&x, 7).unwrap());
    }

    #[test]
    fn sparse_counts_match_reference(
        (n, m, samples, bits, polarity) in shapes(), mask in vec(any::<bool>(), 120), seed: u64,
    ) {
        let make = || sparse(n, &mask[..n * m], bits, polarity);
        let mut layer = make().build().unwrap();
        let given = values(layer.weights().len(), polarity);
        layer.set_weights(&given).unwrap();
        prop_assert_eq!(layer.weights(), &given);
        prop_assert_eq!(streams(&layer), streams(&make().weights(&given).build().unwrap()));

        let x = values(n * samples, polarity);
        let inputs = encode_inputs(&x, n, layer.spec().length(), polarity, seed).unwrap();
        let expected = reference::counts(layer.spec(), &layer.weight_streams().unwrap(), &inputs);
        prop_assert_eq!(&layer.counts_batch(&x, seed).unwrap(), &expected);
        prop_assert_eq!(&layer.counts_encoded(&inputs).unwrap(), &expected);
        let last = SampleSeed::new(seed).starting_at(samples as u32 - 1);
        prop_assert_eq!(&layer.counts(&x[n * (samples - 1)..], last).unwrap(), &expected[m * (samples - 1)..]);
        prop_assert_eq!(layer.forward_encoded(&inputs).unwrap(), layer.decode(&expected));
    }

    /// Several backends as a pool: neurons or samples are distributed, with equal counts.
    #[test]
    fn pool_counts_equal_one_backend(
        (n, m, samples, bits, polarity) in shapes(), mask in vec(any::<bool>(), 120), by_neurons: bool, parts in 1..5usize,
    ) {
        let split = if by_neurons { Split::Neurons } else { Split::Samples };
        let backends = (0..parts).map(|_| Arc::new(CpuBackend::CURRENT) as Arc<dyn Backend>).collect();
        let pool = PoolBackend::new(backends, split).unwrap();
        for layer in [dense(n, m, bits, polarity), sparse(n, &mask[..n * m], bits, polarity)] {
            let layer = layer.build().unwrap();
            let weights = Weights::new(layer.spec(), layer.weights().to_vec()).unwrap();
            let pooled = pool.prepare(layer.spec(), &weights, &PrepareOptions::default()).unwrap();
            let x = values(n * samples, polarity);
            let seed = SampleSeed::new(3).starting_at(9);
            let counts = pooled.counts(&Batch::values(&x, seed), Cancel::NEVER).unwrap();
            prop_assert_eq!(counts, layer.counts_batch(&x, seed).unwrap());
        }
    }
}

/// Errors of a share have the indices of the whole batch.
#[test]
fn pool_error_has_the_index_in_the_whole_batch() {
    let backends = (0..3).map(|_| Arc::new(CpuBackend::CURRENT) as Arc<dyn Backend>).collect();
    let pool = PoolBackend::new(backends, Split::Samples).unwrap();
    let layer = dense(2, 3, 64, Polarity::Unipolar).build().unwrap();
    let weights = Weights::new(layer.spec(), layer.weights().to_vec()).unwrap();
    let pooled = pool.prepare(layer.spec(), &weights, &PrepareOptions::default()).unwrap();
    let mut x = vec![0.5; 12];
    x[9] = f64::NAN;
    let error =
        pooled.counts(&Batch::values(&x, SampleSeed::default()), Cancel::NEVER).unwrap_err();
    assert!(matches!(error, CoreError::OutOfRange { index: 9, .. }), "{error}");
    assert!(PoolBackend::new(vec![], Split::Best).is_err());
}

/// Cancelled work is an error, and the layer goes on afterwards.
#[test]
fn cancelled_count_is_an_error_and_the_layer_stays_usable() {
    let layer = dense(200, 100, 4096, Polarity::Unipolar).build().unwrap();
    let asked = AtomicUsize::new(0);
    let third = || asked.fetch_add(1, Ordering::Relaxed) >= 2;
    let x = values(200 * 3000, Polarity::Unipolar);
    let error =
        layer.count(&Batch::values(&x, SampleSeed::default()), Cancel::when(&third)).unwrap_err();
    assert!(matches!(error, Error::Core(CoreError::Cancelled)), "{error}");
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    let never = || false;
    let few = &x[..200 * 2];
    let counts =
        layer.count(&Batch::values(few, SampleSeed::default()), Cancel::when(&never)).unwrap();
    assert_eq!(counts, layer.counts_batch(few, SampleSeed::default()).unwrap());
    let at_once = || true;
    let error =
        dense(2000, 1000, 4096, Polarity::Unipolar).build_with(Cancel::when(&at_once)).unwrap_err();
    assert!(matches!(error, Error::Core(CoreError::Cancelled)), "{error}");
}

/// The number of threads may change at any time, also while layers are created and counted.
#[test]
fn thread_count_does_not_change_bits() {
    let make = || {
        let layer = dense(120, 80, 1024, Polarity::Bipolar).build().unwrap();
        let counts = layer.counts_batch(&values(120 * 7, Polarity::Bipolar), 7).unwrap();
        (streams(&layer), counts)
    };
    set_num_threads(1).unwrap();
    let expected = make();
    for threads in [2, 3, 0, 5, 1] {
        set_num_threads(threads).unwrap();
        assert!(make() == expected, "{threads} threads");
    }
    let (stop, start) = (AtomicBool::new(false), Barrier::new(4));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for threads in (0..6).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                set_num_threads(threads).unwrap();
            }
        });
        let computing: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    (0..8).all(|_| make() == expected)
                })
            })
            .collect();
        let equal: Vec<bool> =
            computing.into_iter().map(|thread| thread.join().unwrap_or(false)).collect();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(equal, [true; 3]);
    });
    set_num_threads(0).unwrap();
}

/// Layers that count from tables also count encoded streams.
#[test]
fn layer_with_tables_counts_encoded_streams() {
    let (x, length) = (values(30, Polarity::Unipolar), Length::new(100).unwrap());
    let mut layer =
        StreamLayer::dense(10, 7).length(100).generator("sobol".parse().unwrap()).build().unwrap();
    let Encoding::Sequences(pairing) = *layer.spec().encoding() else { unreachable!() };
    let thresholds = layer.spec().input_thresholds(&x).unwrap();
    let inputs = pairing.of_inputs();
    let streams =
        Cpu::current().unwrap().encode_shared_inputs(&inputs, &thresholds, 10, length).unwrap();
    assert_eq!(layer.counts_encoded(&streams).unwrap(), layer.counts_batch(&x, 1).unwrap());
    // New weights apply to both.
    let weights: Vec<f64> = layer.weights().iter().map(|w| 1.0 - w).collect();
    let before = layer.counts_encoded(&streams).unwrap();
    layer.set_weights(&weights).unwrap();
    assert_ne!(layer.counts_encoded(&streams).unwrap(), before);
    assert_eq!(layer.counts_encoded(&streams).unwrap(), layer.counts_batch(&x, 1).unwrap());
}

/// An operand of a mixed layer has the streams of a layer of its own kind, which therefore counts
/// them.
#[test]
fn mixed_operands_have_the_streams_of_their_kind() {
    let length = Length::new(100).unwrap();
    for (polarity, sharing) in POLARITIES.into_iter().flat_map(|p| Sharing::ALL.map(|s| (p, s))) {
        let x = values(30, polarity);
        let weights = values(70, polarity);
        let layer = |generator: &str| {
            let builder = dense(10, 7, 100, polarity).generator(generator.parse().unwrap());
            builder.sharing(sharing).seed(5).weights(&weights)
        };
        let [drawn, sequenced] =
            ["bernoulli+lfsr:3", "sobol:1+bernoulli"].map(|name| layer(name).build().unwrap());
        let [random, shared] =
            ["bernoulli", "sobol:1+lfsr:3"].map(|name| layer(name).build().unwrap());
        let seed = SampleSeed::new(9).starting_at(4);
        let streams = encode_inputs(&x, 10, length, polarity, seed).unwrap();
        let counts = drawn.counts_batch(&x, seed).unwrap();
        assert_eq!(counts, shared.counts_encoded(&streams).unwrap());
        assert_ne!(counts, drawn.counts_batch(&x, 10).unwrap());
        let inputs = match sequenced.spec().encoding().input_source() {
            InputSource::Sequences(inputs) => inputs,
            other => panic!("{other:?}"),
        };
        let thresholds = sequenced.spec().input_thresholds(&x).unwrap();
        let streams =
            Cpu::current().unwrap().encode_shared_inputs(&inputs, &thresholds, 10, length).unwrap();
        let counts = sequenced.counts_batch(&x, seed).unwrap();
        assert_eq!(counts, random.counts_encoded(&streams).unwrap());
        // The seed of a call only draws inputs, that of a layer only weights.
        assert_eq!(counts, sequenced.counts_batch(&x, 10).unwrap());
        assert_ne!(
            counts,
            layer("sobol:1+bernoulli").seed(6).build().unwrap().counts_batch(&x, 0).unwrap()
        );
        assert_ne!(counts, shared.counts_batch(&x, 0).unwrap());
        // A shard has the weights of the whole.
        for name in ["bernoulli+lfsr:3", "sobol:1+bernoulli"] {
            let whole =
                dense(10, 7, 100, polarity).generator(name.parse().unwrap()).sharing(sharing);
            let part = whole.clone().neurons(3..7).build().unwrap().counts(&x[..10], seed).unwrap();
            assert_eq!(part, whole.build().unwrap().counts(&x[..10], seed).unwrap()[3..]);
        }
        // Products of random bits have no tables.
        let error = layer("bernoulli+lfsr:3").method(CountMethod::Tables).build().unwrap_err();
        assert!(error.to_string().contains("32"), "{error}");
    }
}

/// In a convolution any input may meet any weight: sequences that never meet in a dense layer meet
/// in it.
#[test]
fn convolution_reports_equal_sequences_of_any_input_and_weight() {
    let convolution = Convolution::conv2d([1, 4, 4], 2, [2, 2]);
    let layer = StreamLayer::convolution(convolution)
        .generator("sobol:1+sobol:5".parse().unwrap())
        .sharing(Sharing::OnePerInput)
        .length(256)
        .build()
        .unwrap();
    let Encoding::Sequences(pairing) = layer.spec().encoding() else {
        panic!("{:?}", layer.spec())
    };
    assert_eq!(pairing.warnings(16, 18).unwrap(), []);
    assert!(matches!(layer.warnings(), [Warning::SameSequence { .. }]), "{:?}", layer.warnings());
}

/// Signed streams count up if both signs are equal, and down if they differ.
#[test]
fn signed_encoded_streams_equal_values() {
    let x = [0.25, -0.5, 0.75];
    let layer = StreamLayer::dense(3, 4).signed().length(128).build().unwrap();
    let encode = |bits: usize| {
        encode_inputs(&x, 3, Length::new(bits).unwrap(), Polarity::Signed, 9).unwrap()
    };
    let found = layer.counts_encoded_signed(&encode(128), &[false, true, false]).unwrap();
    assert_eq!(found, layer.counts(&x, 9).unwrap());
    let turned = layer.counts_encoded_signed(&encode(128), &[true, false, true]).unwrap();
    // A signed count is the number of products plus those that count up minus those that count
    // down.
    let middle: Vec<u64> = found.iter().zip(&turned).map(|(a, b)| a + b).collect();
    assert!(middle.iter().all(|sum| *sum == middle[0]) && found != turned, "{found:?} {turned:?}");
    let error = layer.counts_encoded_signed(&encode(64), &[false; 3]).unwrap_err();
    assert!(
        matches!(error, Error::Core(CoreError::Mismatch { expected: 128, actual: 64, .. })),
        "{error}"
    );
}

/// Each sharing has other bits, and every method counts them equally.
#[test]
fn sharings_have_different_streams_and_methods_equal_counts() {
    let weights: Vec<f64> = (0..15).map(|k| f64::from(k) / 7.0 - 1.0).collect();
    let inputs: Vec<f64> = (0..20).map(|k| 1.0 - f64::from(k) / 10.0).collect();
    let layer = |generator: &str| {
        StreamLayer::dense(5, 3)
            .bipolar()
            .length(70)
            .generator(generator.parse().unwrap())
            .weights(&weights)
    };
    let mut seen = Vec::new();
    for sharing in Sharing::ALL {
        let counts = |method| {
            let layer = layer("sobol").sharing(sharing).method(method).build().unwrap();
            layer.counts_batch(&inputs, 0).unwrap()
        };
        let best = counts(CountMethod::Best);
        assert_eq!(best, counts(CountMethod::Bits));
        if sharing != Sharing::OnePerStream {
            assert_eq!(best, counts(CountMethod::Tables));
        }
        assert!(!seen.contains(&best));
        seen.push(best);
    }
    let wide = layer("halton").width(Width::new(20).unwrap());
    assert!(wide.clone().build().is_ok());
    assert!(wide.method(CountMethod::Tables).build().is_err());
}
