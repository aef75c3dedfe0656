//! Draws that are kept and used again: the same bits as draws that are made.
#![allow(clippy::unwrap_used)]

use aleatron_core::{Length, StreamAddress, Threshold, reference};
use aleatron_cpu::{Cpu, Pool, Tier, draw_memory, set_draw_memory};
use std::sync::{Arc, Mutex, PoisonError};

/// How much is kept belongs to the process, so tests take turns.
static PROCESS: Mutex<()> = Mutex::new(());

/// Probabilities of every kind: ends, few digits, many digits.
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

fn expected(thresholds: &[Threshold], per_row: usize, length: Length, address: StreamAddress) -> Vec<u64> {
    let stream = |(k, &threshold): (usize, &Threshold)| {
        let (row, unit) = (address.row + (k / per_row) as u32, address.unit + (k % per_row) as u32);
        reference::encode(threshold, length, address.at_row(row).at_unit(unit)).words().to_vec()
    };
    thresholds.iter().enumerate().flat_map(stream).collect()
}

#[test]
fn every_call_with_a_seed_gives_the_same_bits() {
    let _turn = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    for (tier, threads) in
        Tier::available().into_iter().flat_map(|tier| [1, 3].map(|threads| (tier, threads)))
    {
        let cpu = Cpu::new(tier, Arc::new(Pool::eager(threads).unwrap()));
        for (seed, bits) in [1, 64, 100, 128, 250, 300, 600, 1024, 1100, 5000].into_iter().enumerate() {
            let (length, address) = (Length::new(bits).unwrap(), StreamAddress::input(seed as u64, 5, 9));
            // Seen, kept, used; fewer rows of it; more rows: seen, kept, used.
            for (call, rows) in [2, 2, 2, 1, 2, 5, 5, 5].into_iter().enumerate() {
                let thresholds = thresholds(rows * 37, call);
                let streams = cpu.encode_rows(&thresholds, 37, length, address).unwrap();
                let expected = expected(&thresholds, 37, length, address);
                assert_eq!(streams.words(), expected, "{tier}, {threads} threads, {bits} bits, call {call}");
            }
        }
    }
}

#[test]
fn no_memory_keeps_nothing_and_changes_nothing() {
    let _turn = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let before = draw_memory();
    let cpu = Cpu::new(Tier::best(), Arc::new(Pool::new(1).unwrap()));
    let (length, address) = (Length::new(1000).unwrap(), StreamAddress::input(77, 0, 0));
    for bytes in [0, 1 << 16, 1 << 20] {
        set_draw_memory(bytes);
        assert_eq!(draw_memory(), bytes);
        for call in 0..4 {
            // Two layers that take turns and of which one fits 64 KiB.
            for n in [50, 100] {
                let thresholds = thresholds(n, call);
                let streams = cpu.encode(&thresholds, length, address).unwrap();
                assert_eq!(
                    streams.words(),
                    expected(&thresholds, n, length, address),
                    "{bytes} bytes, call {call}"
                );
            }
        }
    }
    set_draw_memory(before);
}
