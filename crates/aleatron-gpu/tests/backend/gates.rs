//! Gates and counts of streams on the device against the reference.

use crate::common::{Draw, context, every_context, length, plain_context};
use aleatron_core::gates::Gate;
use aleatron_core::{BitStream, Error as CoreError, Quantity, StreamMatrix, reference};
use aleatron_gpu::{Error, gates};

fn matrix(draw: &mut Draw, rows: usize, bits: usize) -> StreamMatrix {
    StreamMatrix::from_words(draw.streams(rows, length(bits)), rows, length(bits)).unwrap()
}

fn each(rows: usize, stream: impl Fn(usize) -> BitStream) -> Vec<u64> {
    (0..rows).flat_map(|row| stream(row).into_words()).collect()
}

#[test]
fn gates_and_counts_match_reference() {
    let mut draw = Draw::new(61);
    // Bindings so small that a stream is cut, and others in which several streams form a block.
    let contexts = every_context().into_iter().chain([plain_context(16), plain_context(200)]);
    for context in contexts {
        for (rows, bits) in [(1, 1), (3, 31), (2, 64), (5, 65), (4, 127), (7, 1000), (1, 4097)] {
            let [a, b, select] = [0, 1, 2].map(|_| matrix(&mut draw, rows, bits));
            let stream = |matrix: &StreamMatrix, row| matrix.stream(row).unwrap();
            for gate in Gate::ALL {
                let result = gates::gate(&context, gate, &a, &b).unwrap();
                let expected =
                    each(rows, |r| reference::gate(gate, &stream(&a, r), &stream(&b, r)));
                assert_eq!(result.words(), expected, "{gate:?} {rows} x {bits}");
            }
            let result = gates::not(&context, &a).unwrap();
            assert_eq!(
                result.words(),
                each(rows, |r| reference::not(&stream(&a, r))),
                "{rows} x {bits}"
            );
            let result = gates::mux(&context, &select, &a, &b).unwrap();
            let mux = |r| reference::mux(&stream(&select, r), &stream(&a, r), &stream(&b, r));
            assert_eq!(result.words(), each(rows, mux), "{rows} x {bits}");

            let ones: Vec<_> = (0..rows).map(|r| reference::popcount(&stream(&a, r))).collect();
            assert_eq!(gates::popcount(&context, &a).unwrap(), ones, "{rows} x {bits}");
            let distance = |r| reference::hamming_distance(&stream(&a, r), &stream(&b, r));
            let distances: Vec<_> = (0..rows).map(distance).collect();
            assert_eq!(
                gates::hamming_distance(&context, &a, &b).unwrap(),
                distances,
                "{rows} x {bits}"
            );
            let both = |r| {
                reference::popcount(&reference::gate(Gate::And, &stream(&a, r), &stream(&b, r)))
            };
            let shared: Vec<_> = (0..rows).map(both).collect();
            assert_eq!(gates::and_popcount(&context, &a, &b).unwrap(), shared, "{rows} x {bits}");
        }
    }
}

#[test]
fn long_streams_are_counted_in_segments() {
    let mut draw = Draw::new(62);
    // 20,000 words of 64 bits: five segments.
    let (a, b) = (matrix(&mut draw, 2, 64 * 20_000), matrix(&mut draw, 2, 64 * 20_000));
    let expected: Vec<u64> = a
        .words()
        .chunks(20_000)
        .zip(b.words().chunks(20_000))
        .map(|(a, b)| a.iter().zip(b).map(|(a, b)| u64::from((a ^ b).count_ones())).sum())
        .collect();
    assert_eq!(gates::hamming_distance(&context(), &a, &b).unwrap(), expected);
}

#[test]
fn streams_of_different_sizes_are_errors() {
    let context = context();
    let mut draw = Draw::new(63);
    let a = matrix(&mut draw, 2, 100);
    let mismatch = |result: Result<StreamMatrix, Error>, quantity| {
        assert!(
            matches!(result, Err(Error::Core(CoreError::Mismatch { what, .. })) if what == quantity)
        );
    };
    let (short, few) = (matrix(&mut draw, 2, 99), matrix(&mut draw, 1, 100));
    mismatch(gates::gate(&context, Gate::And, &a, &short), Quantity::Length);
    mismatch(gates::gate(&context, Gate::And, &a, &few), Quantity::Streams);
    mismatch(gates::mux(&context, &few, &a, &a), Quantity::Streams);
    assert!(gates::popcount(&context, &a).is_ok());
    assert!(gates::hamming_distance(&context, &a, &few).is_err());
    let none = StreamMatrix::zeros(0, length(5)).unwrap();
    assert!(gates::not(&context, &none).unwrap().words().is_empty());
    assert!(gates::popcount(&context, &none).unwrap().is_empty());
}
