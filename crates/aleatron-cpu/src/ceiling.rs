//! Peak throughput of this machine, measured by loops that do nothing else. Benchmarks print their
//! results as a fraction of these, from the same run.

use crate::{Cpu, dispatch};
use aleatron_core::address::{DRAWS, PLANES_PER_DRAW};
use aleatron_core::{Length, StreamAddress, Threshold, philox};
use std::time::Duration;

/// Number of words that a thread reads at a time.
const GRAIN: usize = 1 << 17;

impl Cpu {
    /// Reads all of `words` once with the widest registers and all threads. Returns their XOR, so
    /// that no read is eliminated.
    #[must_use]
    pub fn ceiling_read(&self, words: &[u64]) -> u64 {
        let total = std::sync::atomic::AtomicU64::new(0);
        let worth_threads = Duration::from_secs(1);
        self.pool.for_each(words.chunks(GRAIN), worth_threads, |words| {
            total.fetch_xor(dispatch::read(self.tier, words), std::sync::atomic::Ordering::Relaxed);
        });
        total.into_inner()
    }

    /// ANDs and counts `words` pairs of words held in registers (in the first-level cache, on tiers
    /// whose counting needs the registers itself) on each thread. Returns a number that depends on
    /// all of them.
    #[must_use]
    pub fn ceiling_count(&self, words: usize) -> u64 {
        let total = std::sync::atomic::AtomicU64::new(0);
        let worth_threads = Duration::from_secs(1);
        self.pool.for_each(vec![words; self.threads()].into_iter(), worth_threads, |words| {
            total.fetch_add(
                dispatch::count_nothing(self.tier, words),
                std::sync::atomic::Ordering::Relaxed,
            );
        });
        total.into_inner()
    }

    /// Computes `draws` Philox draws of four words each on the calling thread. Returns their XOR.
    #[must_use]
    pub fn ceiling_philox(&self, draws: usize) -> u32 {
        dispatch::philox(self.tier, draws)
    }
}

/// Returns the number of Philox draws that encoding these streams requires at least: for each
/// 32-bit stream word, as many as decide its bits.
#[must_use]
pub fn needed_draws(thresholds: &[Threshold], length: Length, address: StreamAddress) -> usize {
    let mut needed = 0;
    for (threshold, unit) in thresholds.iter().zip(address.unit..=u32::MAX) {
        if [Threshold::ZERO, Threshold::ONE].contains(threshold) {
            continue;
        }
        let digits = threshold.get() as u32;
        for word in 0..length.draw_words() as u32 {
            let mut undecided = u32::MAX;
            for draw in 0..DRAWS {
                needed += 1;
                let counter = address.at_unit(unit).counter(word, draw);
                for (plane, m) in philox::philox4x32(counter, address.key())
                    .into_iter()
                    .zip(PLANES_PER_DRAW * draw..)
                {
                    undecided &= if digits >> (31 - m) & 1 == 1 { plane } else { !plane };
                }
                if undecided == 0
                    || digits.checked_shl(PLANES_PER_DRAW * (draw + 1)).unwrap_or(0) == 0
                {
                    break;
                }
            }
        }
    }
    needed
}
