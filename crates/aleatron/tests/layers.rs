//! What layers promise: the known answers, and that neither batches, nor how inputs come, nor threads change a bit.
#![allow(clippy::unwrap_used)]

use aleatron::core::golden::{Answer, answers, dense_input};
use aleatron::core::{reference, weights};
use aleatron::layer::{DenseSpec, SparseSpec, encode_inputs};
use aleatron::{
    Connections, DenseLayer, DenseShape, LayerIndex, Length, Polarity, SampleSeed, SparseLayer, StreamMatrix,
    set_num_threads,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

const POLARITIES: [Polarity; 2] = [Polarity::Unipolar, Polarity::Bipolar];

fn spec(n: usize, m: usize, bits: usize, polarity: Polarity) -> DenseSpec {
    let shape = DenseShape::new(n, m, Length::new(bits).unwrap(), polarity).unwrap();
    DenseSpec { shape, seed: 24_301, layer: LayerIndex::ALONE }
}

fn sparse_spec(dense: &DenseSpec, mask: &[bool]) -> SparseSpec {
    SparseSpec {
        connections: Connections::from_mask(mask, dense.shape.n_inputs()).unwrap(),
        length: dense.shape.length(),
        polarity: dense.shape.polarity(),
        seed: dense.seed,
        layer: dense.layer,
    }
}

/// Numbers all over the interval of a polarity, its ends among them.
fn values(n: usize, polarity: Polarity) -> Vec<f64> {
    (0..n).map(|k| polarity.value_of((k * 7919 % 1009) as f64 / 1008.0)).collect()
}

#[test]
fn dense_layers_give_the_known_answers() {
    let mut checked = 0;
    for answer in answers().unwrap() {
        let Answer::Dense { n_inputs, n_neurons, length, weight_seed, input_seed, sample, counts } = answer
        else {
            continue;
        };
        let layer = DenseLayer::new(n_inputs, n_neurons, length, weight_seed).unwrap();
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
fn random_weights_are_the_known_ones() {
    let mut checked = 0;
    for answer in answers().unwrap() {
        let Answer::Weight { seed, neuron, input, value } = answer else { continue };
        let (n, m) = (input as usize + 2, neuron as usize + 2);
        let layer = DenseLayer::new(n, m, 1, seed).unwrap();
        assert_eq!(layer.weights()[neuron as usize * n + input as usize], value);
        let bipolar = DenseLayer::random(DenseSpec { seed, ..spec(n, m, 1, Polarity::Bipolar) }).unwrap();
        assert_eq!(bipolar.weights()[neuron as usize * n + input as usize], 2.0 * value - 1.0);
        checked += 1;
    }
    assert!(checked >= 4);
}

/// A sample's row decides its streams, so the samples of a batch are single calls, and equal samples have other bits.
#[test]
fn a_sample_of_a_batch_is_the_single_call_of_its_row() {
    for polarity in POLARITIES {
        let (n, m, samples) = (7, 5, 6);
        let layer = DenseLayer::random(spec(n, m, 300, polarity)).unwrap();
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

/// Past the scratch memory of a call, a batch is cut into pieces: 2^20 words, here four samples and a bit.
#[test]
fn pieces_of_a_large_batch_meet() {
    let (n, samples) = (4, 9);
    let layer = DenseLayer::new(n, 2, 4_000_000, 3).unwrap();
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
fn the_layer_index_changes_every_stream() {
    let layers = [0, 1, 2].map(|index| {
        let layer = LayerIndex::new(index).unwrap();
        DenseLayer::random(DenseSpec { layer, ..spec(6, 4, 256, Polarity::Unipolar) }).unwrap()
    });
    let x = values(6, Polarity::Unipolar);
    let weights = layers.each_ref().map(|layer| layer.weights().to_vec());
    assert!(weights[0] != weights[1] && weights[1] != weights[2], "random weights differ");
    // Also with the same weights, the streams of weights differ, and so do those of inputs: a layer of ones counts them.
    let ones = layers.each_ref().map(|layer| {
        let mut layer = DenseLayer::from_weights(*layer.spec(), &weights[0]).unwrap();
        let streams = layer.weight_streams().to_vec();
        layer.set_weights(&[1.0; 24]).unwrap();
        (streams, layer.counts(&x, 7).unwrap())
    });
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        assert_ne!(ones[a].0, ones[b].0);
        assert_ne!(ones[a].1, ones[b].1);
    }
}

#[test]
fn new_is_the_unipolar_random_layer_on_its_own() {
    let layer = DenseLayer::new(9, 4, 70, 5).unwrap();
    let same = DenseLayer::random(DenseSpec { seed: 5, ..spec(9, 4, 70, Polarity::Unipolar) }).unwrap();
    assert_eq!(layer.spec(), same.spec());
    assert_eq!(layer.weights(), same.weights());
    assert_eq!(layer.weight_streams(), same.weight_streams());
    let mut row = [0.0; 9];
    weights::fill_row(5, LayerIndex::ALONE, 3, Polarity::Unipolar, &mut row);
    assert_eq!(layer.weights()[27..], row);
}

#[test]
fn extreme_values_are_exact() {
    for bits in [1, 63, 64, 65, 1000] {
        let layer =
            DenseLayer::from_weights(spec(3, 2, bits, Polarity::Unipolar), &[1.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
        let layer = layer.unwrap();
        assert_eq!(layer.forward(&[1.0; 3], 1).unwrap(), [3.0, 1.0]);
        assert_eq!(layer.forward(&[0.0; 3], 1).unwrap(), [0.0, 0.0]);
        let layer = DenseLayer::from_weights(spec(2, 2, bits, Polarity::Bipolar), &[1.0, -1.0, -1.0, -1.0]);
        assert_eq!(layer.unwrap().forward(&[-1.0, 1.0], 1).unwrap(), [-2.0, 0.0]);
    }
}

/// A layer and a batch: inputs, neurons, samples, length and polarity.
fn shapes() -> impl Strategy<Value = (usize, usize, usize, usize, Polarity)> {
    let bits = prop_oneof![prop::sample::select(vec![1, 63, 64, 65, 128, 512]), 1..300usize];
    (1..12usize, 1..10usize, 1..12usize, bits, prop::sample::select(POLARITIES.to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn layers_count_what_the_reference_counts((n, m, samples, bits, polarity) in shapes(), seed: u64) {
        let layer = DenseLayer::random(spec(n, m, bits, polarity)).unwrap();
        let x = values(n * samples, polarity);
        let length = layer.shape().length();
        let streams = encode_inputs(&x, n, length, polarity, seed).unwrap();
        let weights = StreamMatrix::from_words(layer.weight_streams().to_vec(), n * m, length).unwrap();
        let counts = layer.counts_batch(&x, seed).unwrap();
        prop_assert_eq!(&counts, &reference::dense_counts(layer.shape(), &weights, &streams));
        prop_assert_eq!(&layer.counts_encoded(&streams).unwrap(), &counts);
        let decoded: Vec<f64> = counts.iter().map(|&count| layer.shape().decode(count)).collect();
        prop_assert_eq!(&layer.forward_batch(&x, seed).unwrap(), &decoded);
        prop_assert_eq!(&layer.forward_encoded(&streams).unwrap(), &decoded);
        prop_assert_eq!(&layer.decode(&counts), &decoded);
    }

    /// However a batch is cut, and wherever it starts.
    #[test]
    fn splitting_a_batch_changes_nothing(
        (n, m, samples, bits, polarity) in shapes(), cuts in vec(1..5usize, 1..12), first in 0..u32::MAX - 20, seed: u64,
    ) {
        let layer = DenseLayer::random(spec(n, m, bits, polarity)).unwrap();
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
    fn set_weights_makes_the_layer_of_those_weights((n, m, _, bits, polarity) in shapes()) {
        let spec = spec(n, m, bits, polarity);
        let given = values(n * m, polarity);
        let fresh = DenseLayer::from_weights(spec, &given).unwrap();
        let mut changed = DenseLayer::random(spec).unwrap();
        changed.set_weights(&given).unwrap();
        prop_assert_eq!(changed.weights(), &given);
        prop_assert_eq!(changed.weight_streams(), fresh.weight_streams());
        let x = values(n, polarity);
        prop_assert_eq!(changed.counts(&x, 7).unwrap(), fresh.counts(&x, 7).unwrap());
        // And back: the random weights given as numbers are the random layer.
        let random = DenseLayer::random(spec).unwrap();
        changed.set_weights(random.weights()).unwrap();
        prop_assert_eq!(changed.weight_streams(), random.weight_streams());
        prop_assert_eq!(changed.counts(&x, 7).unwrap(), random.counts(&x, 7).unwrap());
    }

    #[test]
    fn a_fully_connected_sparse_layer_is_the_dense_one((n, m, samples, bits, polarity) in shapes(), seed: u64) {
        let spec = DenseSpec { seed, layer: LayerIndex::new(3).unwrap(), ..spec(n, m, bits, polarity) };
        let dense = DenseLayer::random(spec).unwrap();
        let sparse = SparseLayer::random(sparse_spec(&spec, &vec![true; n * m])).unwrap();
        prop_assert_eq!(sparse.weights(), dense.weights());
        prop_assert_eq!(sparse.weight_streams(), dense.weight_streams());
        let x = values(n * samples, polarity);
        prop_assert_eq!(sparse.counts_batch(&x, 7).unwrap(), dense.counts_batch(&x, 7).unwrap());
        prop_assert_eq!(sparse.forward_batch(&x, 7).unwrap(), dense.forward_batch(&x, 7).unwrap());
    }

    /// A weight of 0 is a stream of zeros, whose products have no ones: leaving it out leaves the counts.
    #[test]
    fn a_unipolar_sparse_layer_is_the_dense_one_with_zeros(
        (n, m, samples, bits, _) in shapes(), mask in vec(any::<bool>(), 120), seed: u64,
    ) {
        let spec = DenseSpec { seed, ..spec(n, m, bits, Polarity::Unipolar) };
        let mask = &mask[..n * m];
        let sparse = SparseLayer::random(sparse_spec(&spec, mask)).unwrap();
        let mut dense = DenseLayer::random(spec).unwrap();
        let zeroed: Vec<f64> =
            dense.weights().iter().zip(mask).map(|(&w, &kept)| if kept { w } else { 0.0 }).collect();
        dense.set_weights(&zeroed).unwrap();
        let x = values(n * samples, Polarity::Unipolar);
        prop_assert_eq!(sparse.counts_batch(&x, 7).unwrap(), dense.counts_batch(&x, 7).unwrap());
        prop_assert_eq!(sparse.forward_batch(&x, 7).unwrap(), dense.forward_batch(&x, 7).unwrap());
    }

    #[test]
    fn sparse_layers_count_what_the_reference_counts(
        (n, m, samples, bits, polarity) in shapes(), mask in vec(any::<bool>(), 120), seed: u64,
    ) {
        let spec = sparse_spec(&spec(n, m, bits, polarity), &mask[..n * m]);
        let mut layer = SparseLayer::random(spec.clone()).unwrap();
        let given = values(spec.connections.len(), polarity);
        layer.set_weights(&given).unwrap();
        prop_assert_eq!(layer.weights(), &given);
        let fresh = SparseLayer::from_weights(spec.clone(), &given).unwrap();
        prop_assert_eq!(layer.weight_streams(), fresh.weight_streams());

        let x = values(n * samples, polarity);
        let streams = encode_inputs(&x, n, spec.length, polarity, seed).unwrap();
        let words = layer.weight_streams().to_vec();
        let weights = StreamMatrix::from_words(words, spec.connections.len(), spec.length).unwrap();
        let expected = reference::sparse_counts(&spec.connections, polarity, &weights, &streams);
        prop_assert_eq!(&layer.counts_batch(&x, seed).unwrap(), &expected);
        prop_assert_eq!(&layer.counts_encoded(&streams).unwrap(), &expected);
        let last = SampleSeed::new(seed).starting_at(samples as u32 - 1);
        prop_assert_eq!(&layer.counts(&x[n * (samples - 1)..], last).unwrap(), &expected[m * (samples - 1)..]);
    }
}

/// The number of threads may be set at any time, by anyone, also while layers are made and counted.
#[test]
fn threads_change_no_bit() {
    let make = || {
        let layer = DenseLayer::random(spec(120, 80, 1024, Polarity::Bipolar)).unwrap();
        let counts = layer.counts_batch(&values(120 * 7, Polarity::Bipolar), 7).unwrap();
        (layer.weight_streams().to_vec(), counts)
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
        let equal: Vec<bool> = computing.into_iter().map(|thread| thread.join().unwrap_or(false)).collect();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(equal, [true; 3]);
    });
    set_num_threads(0).unwrap();
}
