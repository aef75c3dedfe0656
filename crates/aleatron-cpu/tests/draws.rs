//! Cached draws give the same bits as generated draws.
#![allow(clippy::unwrap_used)]

use aleatron_core::{Length, StreamAddress, Threshold, reference};
use aleatron_cpu::{Cpu, Pool, Tier, get_draw_memory, set_draw_memory};
use std::sync::{Arc, Mutex, PoisonError};

/// The size of the cache is process-wide, so tests run one at a time.
static PROCESS: Mutex<()> = Mutex::new(());

/// Returns probabilities of every kind: ends, few digits, many digits.
fn thresholds(n: usize, salt: usize) -> Vec<Threshold> {
    let p = |k: usize| match (k + salt) % 7 {
        0 => 0.0,
        1 => 1.0,
        2 => 0.5,
        3 => 0.8125,
        4 => 1e-9,
        _ => (k * 7919 + salt * 104_729) as f64 % 1009.0 / 1009.0,
    };
    (0..n).map(|k| Threshold::from_probability(p(k)).unwrap()).collect()
}

fn expected(
    thresholds: &[Threshold],
    per_row: usize,
    length: Length,
    address: StreamAddress,
) -> Vec<u64> {
    let stream = |(k, &threshold): (usize, &Threshold)| {
        let (row, unit) = (address.row + (k / per_row) as u32, address.unit + (k % per_row) as u32);
        reference::encode(threshold, length, address.at_row(row).at_unit(unit)).words().to_vec()
    };
    thresholds.iter().enumerate().flat_map(stream).collect()
}

#[test]
fn repeated_calls_with_a_seed_give_equal_bits() {
    let _turn = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    // Recorded, stored, found; fewer rows, another key; found again; more rows: recorded, stored,
    // found.
    let calls = [2, 2, 2, 1, 2, 5, 5, 5];
    for (seed, bits) in [1, 64, 100, 128, 250, 300, 600, 1024, 1100, 3000].into_iter().enumerate() {
        let (length, address) =
            (Length::new(bits).unwrap(), StreamAddress::input(seed as u64, 5, 9));
        let calls: Vec<_> = calls
            .into_iter()
            .enumerate()
            .map(|(salt, rows)| {
                let thresholds = thresholds(rows * 37, salt);
                let expected = expected(&thresholds, 37, length, address);
                (thresholds, expected)
            })
            .collect();
        for (tier, threads) in
            Tier::available().into_iter().flat_map(|tier| [1, 3].map(|threads| (tier, threads)))
        {
            let cpu = Cpu::new(tier, Arc::new(Pool::eager(threads).unwrap()));
            for (call, (thresholds, expected)) in calls.iter().enumerate() {
                let streams = cpu.encode_rows(thresholds, 37, length, address).unwrap();
                assert_eq!(
                    streams.words(),
                    *expected,
                    "{tier}, {threads} threads, {bits} bits, call {call}"
                );
            }
        }
    }
}

#[test]
fn limited_draw_memory_does_not_change_bits() {
    let _turn = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let before = get_draw_memory();
    let cpu = Cpu::new(Tier::best(), Arc::new(Pool::new(1).unwrap()));
    let (length, address) = (Length::new(1000).unwrap(), StreamAddress::input(77, 0, 0));
    // Room for none, some rows of one layer, all of one and some of the other, all of both.
    for bytes in [0, 1 << 17, 1 << 18, 1 << 20] {
        set_draw_memory(bytes);
        assert_eq!(get_draw_memory(), bytes);
        for call in 0..4 {
            for n in [20, 40] {
                let thresholds = thresholds(3 * n, call);
                let streams = cpu.encode_rows(&thresholds, n, length, address).unwrap();
                let expected = expected(&thresholds, n, length, address);
                assert_eq!(streams.words(), expected, "{n} streams, {bytes} bytes, call {call}");
            }
        }
    }
    set_draw_memory(before);
}
