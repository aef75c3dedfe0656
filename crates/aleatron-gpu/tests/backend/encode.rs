//! Encoding on the device against the reference and the known answers.

use crate::common::{
    Draw, both_contexts, context, every_context, length, own_context, plain_context,
};
use aleatron_core::golden::{Answer, answers};
use aleatron_core::{Domain, LayerIndex, StreamAddress, Threshold, reference};
use aleatron_gpu::{Capabilities, ContextOptions, Error, GpuContext, encode::encode};
use std::sync::Arc;

fn expected(
    thresholds: &[Threshold],
    n_units: usize,
    bits: usize,
    first: StreamAddress,
) -> Vec<u64> {
    let mut words = Vec::new();
    for (row, thresholds) in (first.row..).zip(thresholds.chunks(n_units)) {
        for (unit, &threshold) in (first.unit..).zip(thresholds) {
            let address = first.at_row(row).at_unit(unit);
            words.extend(reference::encode(threshold, length(bits), address).into_words());
        }
    }
    words
}

fn check(context: &Arc<GpuContext>, draw: &mut Draw, n_rows: usize, n_units: usize, bits: usize) {
    let first = StreamAddress {
        seed: u64::from(draw.word()) << 32 | u64::from(draw.word()),
        domain: Domain::ALL[draw.word() as usize % 5],
        layer: LayerIndex::new(draw.word() as usize % 1000).unwrap(),
        row: draw.word() % 1000,
        unit: draw.word() % 1000,
    };
    let thresholds = draw.thresholds(n_rows * n_units);
    let encoded = encode(context, &thresholds, n_units, length(bits), first).unwrap();
    assert_eq!(
        encoded.words(),
        expected(&thresholds, n_units, bits, first),
        "{n_rows} x {n_units} x {bits}"
    );
}

#[test]
fn streams_match_reference() {
    let mut draw = Draw::new(1);
    for bits in [1, 31, 32, 33, 63, 64, 65, 100, 1000, 1024, 4097] {
        for (n_rows, n_units) in [(1, 1), (1, 7), (3, 5), (2, 17)] {
            both_contexts()
                .iter()
                .for_each(|context| check(context, &mut draw, n_rows, n_units, bits));
        }
    }
}

#[test]
fn streams_are_equal_without_capabilities_and_in_small_bindings() {
    let mut draw = Draw::new(2);
    let only_int64 = ContextOptions {
        capabilities: Capabilities { int64: true, ..Capabilities::NONE },
        ..ContextOptions::default()
    };
    for context in
        [own_context(&only_int64), plain_context(1 << 27), plain_context(64), plain_context(256)]
    {
        for (n_rows, n_units, bits) in [(1, 1, 33), (2, 5, 100), (3, 3, 1000), (1, 2, 4097)] {
            check(&context, &mut draw, n_rows, n_units, bits);
        }
    }
}

#[test]
fn several_words_per_thread_give_equal_streams() {
    // 2^20 words and more: the kernel computes several per thread. Compared with other cuts of the
    // same streams.
    let mut draw = Draw::new(3);
    let thresholds = draw.thresholds(1100);
    let first = StreamAddress::input(9, 3, 5);
    let whole = encode(&context(), &thresholds, 1100, length(32 * 1000), first).unwrap();
    for unit in [0usize, 1, 500, 1099] {
        let at = first.at_unit(first.unit + unit as u32);
        let one = reference::encode(thresholds[unit], length(32 * 1000), at);
        assert_eq!(whole.stream(unit).unwrap(), one, "stream {unit}");
    }
    let parts =
        encode(&plain_context(1 << 20), &thresholds, 1100, length(32 * 1000), first).unwrap();
    assert_eq!(whole, parts);
}

#[test]
fn known_answers_match() {
    let mut seen = 0;
    for context in every_context() {
        for answer in answers().unwrap() {
            match answer {
                Answer::Encode { p, length: bits, address, words } => {
                    let threshold = Threshold::from_probability(p).unwrap();
                    let encoded = encode(&context, &[threshold], 1, length(bits), address).unwrap();
                    assert_eq!(encoded.words(), words, "{p} {bits}");
                }
                Answer::Philox { .. } | Answer::Weight { .. } | Answer::Dense { .. } => continue,
            }
            seen += 1;
        }
    }
    assert!(seen >= 27, "{seen} answers");
}

#[test]
fn invalid_requests_are_errors() {
    let context = context();
    let half = Threshold::from_probability(0.5).unwrap();
    let address = StreamAddress::input(1, 0, 0);
    let core = |result: Result<_, Error>| matches!(result, Err(Error::Core(_)));
    assert!(core(encode(&context, &[half; 3], 2, length(8), address)), "ragged");
    assert!(core(encode(&context, &[half; 3], 0, length(8), address)), "no units");
    assert!(encode(&context, &[], 2, length(8), address).unwrap().words().is_empty());
    let past = encode(&context, &[half; 4], 2, length(8), address.at_row(u32::MAX));
    assert!(matches!(past, Err(Error::TooLarge { .. })), "{past:?}");
}
