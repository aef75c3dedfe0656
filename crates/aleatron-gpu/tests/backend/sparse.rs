//! Sparse layers on the device against the reference and the dense layer.

use crate::common::{Draw, context, every_context, length, own_context, plain_context};
use aleatron_core::{Cancel, Connections, DenseShape, Polarity, StreamAddress, StreamMatrix};
use aleatron_gpu::{
    ContextOptions, CountOptions, Error, GpuDense, GpuSparse, Inputs, Profiler, ThresholdSource,
};

const POLARITIES: [Polarity; 2] = [Polarity::Unipolar, Polarity::Bipolar];

fn connections(draw: &mut Draw, n_inputs: usize, n_neurons: usize, one_in: u32) -> Connections {
    let mask: Vec<bool> =
        (0..n_inputs * n_neurons).map(|_| draw.word().is_multiple_of(one_in)).collect();
    Connections::from_mask(&mask, n_inputs).unwrap()
}

#[test]
fn counts_match_reference() {
    let mut draw = Draw::new(21);
    let sizes = [(1, 1, 1), (5, 3, 2), (20, 9, 3), (33, 17, 5), (70, 4, 11)];
    for (n, bits) in [1, 31, 64, 65, 100, 1000, 4097].into_iter().enumerate() {
        for polarity in POLARITIES {
            let (n_inputs, n_neurons, n_samples) = sizes[n % sizes.len()];
            let connections = connections(&mut draw, n_inputs, n_neurons, 1 + n as u32 % 4);
            let words = draw.streams(connections.len(), length(bits));
            let streams = draw.streams(n_inputs * n_samples, length(bits));
            let w =
                StreamMatrix::from_words(words.clone(), connections.len(), length(bits)).unwrap();
            let x = StreamMatrix::from_words(streams.clone(), n_inputs * n_samples, length(bits))
                .unwrap();
            let expected = crate::common::sparse_counts(&connections, polarity, &w, &x);
            // The smallest binding that holds one sample.
            let row = (n_inputs * length(bits).words() * 8).next_multiple_of(16).max(8 * n_neurons)
                as u64;
            for context in
                every_context().into_iter().chain([plain_context(row.next_multiple_of(16))])
            {
                for max_batch in [1, 4, 64] {
                    let layer = GpuSparse::from_words(
                        &context,
                        connections.clone(),
                        length(bits),
                        polarity,
                        max_batch,
                        &words,
                    )
                    .unwrap();
                    assert_eq!(layer.words().unwrap(), words);
                    assert_eq!(
                        layer.counts_of_streams(&streams).unwrap(),
                        expected,
                        "{bits} {polarity:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn fully_connected_sparse_layer_equals_dense() {
    let mut draw = Draw::new(22);
    for polarity in POLARITIES {
        let connections = connections(&mut draw, 12, 7, 1);
        let (weights, inputs) = (draw.thresholds(84), draw.thresholds(12 * 20));
        let (first, input) = (StreamAddress::weight(5, 0, 3), StreamAddress::input(6, 0, 9));
        let shape = DenseShape::new(12, 7, length(333), polarity).unwrap();
        let dense = GpuDense::from_thresholds(&context(), shape, 64, &weights, first).unwrap();
        let sparse = GpuSparse::from_thresholds(
            &context(),
            connections,
            length(333),
            polarity,
            64,
            &weights,
            first,
        )
        .unwrap();
        assert_eq!(sparse.words().unwrap(), dense.words().unwrap());
        assert_eq!(sparse.counts(&inputs, input).unwrap(), dense.counts(&inputs, input).unwrap());
    }
}

#[test]
fn memory_is_proportional_to_connections() {
    let mut draw = Draw::new(23);
    // One connection in a thousand of 1000 x 1000: 128 MB as a dense layer.
    let rows = (0..1000).map(|_| [draw.word() as usize % 1000]);
    let connections = Connections::from_rows(rows, 1000).unwrap();
    let words = draw.streams(1000, length(1024));
    let layer =
        GpuSparse::from_words(&context(), connections, length(1024), Polarity::Unipolar, 1, &words)
            .unwrap();
    assert_eq!(layer.weight_bytes(), 1000 * 1024 / 8);
}

#[test]
fn long_neurons_and_streams_have_several_segments() {
    let mut draw = Draw::new(24);
    for (n_inputs, bits) in [(1100, 1000), (2, 64 * 20_000)] {
        let connections =
            Connections::from_rows([vec![], (0..n_inputs).collect(), vec![1]], n_inputs).unwrap();
        let words = draw.streams(connections.len(), length(bits));
        let streams = draw.streams(n_inputs * 2, length(bits));
        let n = length(bits).words();
        let layer = GpuSparse::from_words(
            &context(),
            connections,
            length(bits),
            Polarity::Unipolar,
            2,
            &words,
        )
        .unwrap();
        let ones = |w: &[u64], x: &[u64]| -> u64 {
            w.iter().zip(x).map(|(w, x)| u64::from((w & x).count_ones())).sum()
        };
        let mut expected = Vec::new();
        for sample in streams.chunks(n_inputs * n) {
            let all = ones(&words[..n_inputs * n], sample);
            expected.extend([0, all, ones(&words[n_inputs * n..], &sample[n..2 * n])]);
        }
        assert_eq!(layer.counts_of_streams(&streams).unwrap(), expected);
    }
}

#[test]
fn second_call_creates_no_objects() {
    let context = own_context(&ContextOptions::default());
    let mut draw = Draw::new(25);
    let connections = connections(&mut draw, 30, 10, 3);
    let words = draw.streams(connections.len(), length(100));
    let inputs = draw.thresholds(30 * 6);
    let first = StreamAddress::input(1, 0, 0);
    let layer =
        GpuSparse::from_words(&context, connections, length(100), Polarity::Unipolar, 4, &words)
            .unwrap();
    let streams = draw.streams(30 * 6, length(100));
    let counts = layer.counts(&inputs, first).unwrap();
    let of_streams = layer.counts_of_streams(&streams).unwrap();
    let before = context.created();
    for _ in 0..3 {
        assert_eq!(layer.counts(&inputs, first).unwrap(), counts);
        assert_eq!(layer.counts_of_streams(&streams).unwrap(), of_streams);
        let filled = layer.counts_filled(6, first, |samples, out| {
            out.extend(&inputs[samples.start * 30..samples.end * 30]);
            Ok(())
        });
        assert_eq!(filled.unwrap(), counts);
    }
    assert_eq!(context.created(), before);
}

#[test]
fn invalid_requests_are_errors_and_no_connections_are_valid() {
    let none = Connections::from_rows([vec![], vec![]], 3).unwrap();
    for polarity in POLARITIES {
        let layer =
            GpuSparse::from_words(&context(), none.clone(), length(9), polarity, 2, &[]).unwrap();
        assert_eq!(layer.counts_of_streams(&[1, 2, 3]).unwrap(), [0, 0]);
        assert!(layer.counts_of_streams(&[1, 2]).is_err());
        assert!(layer.counts_of_streams(&[1 << 9, 2, 3]).is_err());
    }
    let new = |max_batch, words: &[u64]| {
        GpuSparse::from_words(
            &context(),
            none.clone(),
            length(9),
            Polarity::Unipolar,
            max_batch,
            words,
        )
    };
    assert!(matches!(new(0, &[]), Err(Error::Core(_))));
    assert!(matches!(new(1, &[1]), Err(Error::Core(_))));
    let small = GpuSparse::from_words(
        &plain_context(64),
        none.clone(),
        length(999),
        Polarity::Unipolar,
        1,
        &[],
    );
    assert!(matches!(small, Err(Error::TooLarge { .. })));
}

#[test]
fn call_can_be_timed_and_cancelled() {
    let mut draw = Draw::new(26);
    let connections = connections(&mut draw, 30, 10, 3);
    let words = draw.streams(connections.len(), length(100));
    let inputs = draw.thresholds(30 * 6);
    let layer =
        GpuSparse::from_words(&context(), connections, length(100), Polarity::Unipolar, 2, &words)
            .unwrap();
    let first = StreamAddress::input(1, 0, 0);
    let sources = || Inputs::Thresholds { source: ThresholdSource::Slice(&inputs), first };
    let mut profiler = Profiler::new(layer.context()).unwrap();
    let counts = layer.counts_with(sources(), CountOptions::profiled(&mut profiler)).unwrap();
    assert_eq!(counts, layer.counts(&inputs, first).unwrap());
    let rows: Vec<_> = profiler.rows().iter().map(|row| (&*row.kernel, row.calls)).collect();
    assert_eq!(rows, [("encode", 3), ("sparse", 3)]);
    let at_once = || true;
    let stopped = layer.counts_with(
        sources(),
        CountOptions { cancel: Cancel::when(&at_once), ..CountOptions::default() },
    );
    assert_eq!(stopped, Err(aleatron_core::Error::Cancelled.into()));
    assert!(!layer.is_lost());
}
