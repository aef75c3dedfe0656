//! Encoding of single streams against the reference.

use aleatron_core::{Length, StreamAddress, Threshold, reference};
use aleatron_cpu::{Cpu, Pool, Tier};
use std::sync::Arc;

/// Thresholds as after a rectifier: zeros, ones, and others of few and of many digits.
#[test]
fn streams_among_zeros_match_reference() {
    let threshold = |k: u64, share: u64| match k.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40 {
        hash if hash % 16 < share => Threshold::ZERO,
        hash if hash % 7 == 0 => Threshold::ONE,
        hash if hash % 7 < 3 => Threshold::saturating((hash % 16) << 28),
        hash => Threshold::saturating(hash * 255),
    };
    let address = StreamAddress::input(5, 7, 11).at_unit(1000);
    for (bits, share) in
        [1, 33, 64, 100, 128, 192, 256, 300].into_iter().flat_map(|b| [2, 9, 16].map(|s| (b, s)))
    {
        let length = Length::new(bits).unwrap();
        let thresholds: Vec<Threshold> = (0..203).map(|k| threshold(k, share)).collect();
        let expected: Vec<u64> = (1000..)
            .zip(&thresholds)
            .flat_map(|(unit, &t)| {
                reference::encode(t, length, address.at_unit(unit)).words().to_vec()
            })
            .collect();
        for tier in Tier::available() {
            let cpu = Cpu::new(tier, Arc::new(Pool::new(1).unwrap()));
            for n in [1, 2, 3, 8, 203] {
                let encoded = cpu.encode(&thresholds[..n], length, address).unwrap();
                assert_eq!(
                    encoded.words(),
                    &expected[..n * length.words()],
                    "{n} x {bits} bits, {tier:?}"
                );
            }
        }
    }
}
