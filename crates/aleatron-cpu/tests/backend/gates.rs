//! Gates over buffers of many streams against the core's gates of single streams, on every tier,
//! for 1, 2 and 3 threads.

use aleatron_core::gates::{self, Gate};
use aleatron_core::{BitStream, Error, Length, Quantity};
use aleatron_cpu::{Cpu, Pool, Tier};
use std::sync::Arc;

fn cpus() -> Vec<Cpu> {
    let pools = [1, 2, 3].map(|threads| Arc::new(Pool::eager(threads).unwrap()));
    let tiers = Tier::available();
    tiers
        .iter()
        .flat_map(|&tier| pools.iter().map(move |pool| Cpu::new(tier, pool.clone())))
        .collect()
}

/// Returns streams of pseudo-random words, with zeros beyond the length.
fn streams(n: usize, length: Length, salt: u64) -> Vec<BitStream> {
    let word = |k: usize| (k as u64 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let stream = |i: usize| {
        let mut words: Vec<u64> =
            (0..length.words()).map(|k| word(i * length.words() + k)).collect();
        *words.last_mut().unwrap() &= length.tail_mask();
        BitStream::from_words(words, length).unwrap()
    };
    (0..n).map(stream).collect()
}

fn words<'a>(streams: impl IntoIterator<Item = &'a BitStream>) -> Vec<u64> {
    streams.into_iter().flat_map(|stream| stream.words().to_vec()).collect()
}

/// Short streams, long ones, one that is longer than a thread takes at a time, and none.
#[test]
fn gates_of_stream_buffers_equal_gates_of_single_streams() {
    for (n, bits) in
        [(0, 100), (1, 64), (2000, 3), (301, 100), (40, 4096), (7, 130_001), (2, 64 * 40_000 + 1)]
    {
        let length = Length::new(bits).unwrap();
        let [a, b, select] = [1, 2_000_003, 77].map(|salt| streams(n, length, salt));
        let pairs = || a.iter().zip(&b);
        let expected = Gate::ALL.map(|gate| {
            words(&pairs().map(|(a, b)| gates::gate(gate, a, b).unwrap()).collect::<Vec<_>>())
        });
        let nots = words(&a.iter().map(gates::not).collect::<Vec<_>>());
        let triples = select.iter().zip(pairs());
        let muxes =
            words(&triples.map(|(s, (a, b))| gates::mux(s, a, b).unwrap()).collect::<Vec<_>>());
        let distances: Vec<u64> =
            pairs().map(|(a, b)| gates::hamming_distance(a, b).unwrap()).collect();
        let [a, b, select] = [&a, &b, &select].map(words);
        for cpu in cpus() {
            let what =
                format!("{} on {} threads, {n} streams of {bits} bits", cpu.tier(), cpu.threads());
            for (gate, expected) in Gate::ALL.into_iter().zip(&expected) {
                assert!(cpu.gate(gate, &a, &b, length).unwrap() == *expected, "{gate:?}, {what}");
                // The previous contents of the caller's buffer do not matter.
                let mut out = vec![u64::MAX; a.len()];
                cpu.gate_into(gate, &a, &b, length, &mut out).unwrap();
                assert!(out == *expected, "{gate:?}, {what}");
            }
            assert!(cpu.not(&a, length).unwrap() == nots, "{what}");
            assert!(cpu.mux(&select, &a, &b, length).unwrap() == muxes, "{what}");
            assert_eq!(cpu.hamming_distances(&a, &b, length).unwrap(), distances, "{what}");
        }
    }
}

#[test]
fn bits_beyond_the_length_are_cleared() {
    let length = Length::new(70).unwrap();
    let dirty = [u64::MAX; 4];
    for cpu in cpus() {
        let ones = [u64::MAX, 0x3f, u64::MAX, 0x3f];
        assert_eq!(cpu.gate(Gate::And, &dirty, &dirty, length).unwrap(), ones);
        assert_eq!(cpu.mux(&dirty, &dirty, &[0; 4], length).unwrap(), ones);
        assert_eq!(cpu.not(&dirty, length).unwrap(), [0; 4]);
    }
}

#[test]
fn invalid_input_is_an_error() {
    let length = Length::new(70).unwrap();
    let mismatch = |expected, actual| Error::Mismatch { what: Quantity::Words, expected, actual };
    let ragged = Error::Ragged { what: Quantity::Words, actual: 3, divisor: 2 };
    for cpu in cpus() {
        assert_eq!(cpu.gate(Gate::Or, &[0; 4], &[0; 2], length), Err(mismatch(4, 2)));
        assert_eq!(cpu.gate(Gate::Or, &[0; 3], &[0; 3], length), Err(ragged.clone()));
        assert_eq!(
            cpu.gate_into(Gate::Or, &[0; 4], &[0; 4], length, &mut [0; 6]),
            Err(mismatch(4, 6))
        );
        assert_eq!(cpu.not(&[0; 3], length), Err(ragged.clone()));
        assert_eq!(cpu.not_into(&[0; 4], length, &mut [0; 2]), Err(mismatch(4, 2)));
        assert_eq!(cpu.mux(&[0; 4], &[0; 4], &[0; 2], length), Err(mismatch(4, 2)));
        assert_eq!(cpu.mux(&[0; 4], &[0; 2], &[0; 4], length), Err(mismatch(4, 2)));
        assert_eq!(cpu.hamming_distances(&[0; 2], &[0; 4], length), Err(mismatch(2, 4)));
        assert_eq!(cpu.hamming_distances(&[0; 3], &[0; 3], length), Err(ragged.clone()));
    }
}
