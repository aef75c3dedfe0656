//! Streams over shared sequences on the device against those of the core.

use crate::common::{Draw, context, every_context, length, plain_context};
use aleatron_core::generator::{Halton, Lfsr, Sequence, Sobol, Width};
use aleatron_core::{Error as CoreError, Quantity};
use aleatron_gpu::Error;
use aleatron_gpu::sequence::encode_sequences;

fn sequences(bits: u32) -> [Sequence; 3] {
    let width = Width::new(bits).unwrap();
    [
        Sequence::Sobol(Sobol::new(2, width).unwrap()),
        Sequence::Lfsr(Lfsr::new(width, 3).unwrap()),
        Sequence::Halton(Halton::new(3, width).unwrap()),
    ]
}

#[test]
fn sequence_streams_match_core() {
    let mut draw = Draw::new(71);
    // Bindings that hold everything, or one sequence, or a few words of one.
    let contexts: Vec<_> =
        every_context().into_iter().chain([512, 2048, 20_000].map(plain_context)).collect();
    for width in [3, 8, 32] {
        for (n, period, bits) in
            [(1, 1, 1), (5, 1, 64), (7, 3, 100), (6, 2, 33), (2, 3, 1000), (40, 3, 130)]
        {
            let used: Vec<_> = (0..period).map(|q| sequences(width)[q % 3]).collect();
            let values: Vec<u32> = used.iter().flat_map(|s| s.values().take(bits)).collect();
            let one = Width::new(width).unwrap().one();
            let mut thresholds: Vec<u64> =
                (0..n).map(|_| u64::from(draw.word()) % (one + 1)).collect();
            thresholds[n / 2] = one;
            let stream =
                |(r, &t): (usize, &u64)| used[r % period].encode(t, length(bits)).into_words();
            let expected: Vec<u64> = thresholds.iter().enumerate().flat_map(stream).collect();
            for context in &contexts {
                let encoded =
                    encode_sequences(context, &values, &thresholds, period, length(bits)).unwrap();
                let bytes = context.max_binding_bytes();
                assert_eq!(
                    encoded, expected,
                    "{width} bits, {n} of {period} x {bits}, bindings of {bytes}"
                );
            }
        }
    }
}

#[test]
fn invalid_requests_are_errors() {
    let context = context();
    let core = |result: Result<Vec<u64>, Error>| match result {
        Err(Error::Core(error)) => error,
        other => panic!("{other:?}"),
    };
    let encode = |values: &[u32], thresholds: &[u64], period| {
        encode_sequences(&context, values, thresholds, period, length(4))
    };
    assert_eq!(core(encode(&[], &[1], 0)), CoreError::Zero(Quantity::Sequence));
    let short = core(encode(&[1, 2, 3, 4, 5], &[1], 2));
    assert_eq!(short, CoreError::Mismatch { what: Quantity::Sequence, expected: 8, actual: 5 });
    let past = core(encode(&[1, 2, 3, 4], &[1, 1 << 32, (1 << 32) + 1], 1));
    assert!(matches!(past, CoreError::OutOfRange { index: 2, .. }), "{past}");
    assert!(matches!(core(encode(&[1; 4], &[1], usize::MAX)), CoreError::Mismatch { .. }));
    assert!(encode(&[1, 2, 3, 4], &[], 1).unwrap().is_empty());
    assert_eq!(encode(&[1, 2, 3, 4], &[1 << 32, 0, 3], 1).unwrap(), [0b1111, 0, 0b0011]);
    let tiny = encode_sequences(&plain_context(256), &[1, 2, 3, 4], &[1], 1, length(4));
    assert!(matches!(tiny, Err(Error::TooLarge { .. })), "{tiny:?}");
}
