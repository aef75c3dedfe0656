//! Packing, unpacking and counting whole buffers.

use crate::cost::Costs;
use crate::{Cpu, dispatch};
use aleatron_core::{Error, Quantity, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of words in a work item. Smaller items would cost more to move to another core's cache
/// than to compute.
const GRAIN: usize = 1 << 15;

impl Cpu {
    /// Packs `bits`, one byte each; any byte other than 0 is a 1.
    #[must_use]
    pub fn pack(&self, bits: &[u8]) -> Vec<u64> {
        let mut words = vec![0; bits.len().div_ceil(64)];
        self.pack_chunks(bits, &mut words);
        words
    }

    /// Packs `bits` into `out`.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] unless `out` has exactly the words of the bits.
    pub fn pack_into(&self, bits: &[u8], out: &mut [u64]) -> Result<()> {
        let (expected, actual) = (bits.len().div_ceil(64), out.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Words, expected, actual });
        }
        self.pack_chunks(bits, out);
        Ok(())
    }

    fn pack_chunks(&self, bits: &[u8], out: &mut [u64]) {
        let cost = Costs::of(self.tier).pack(out.len());
        let items = bits.chunks(64 * GRAIN).zip(out.chunks_mut(GRAIN));
        self.pool.for_each(items, cost, |(bits, words)| dispatch::pack(self.tier, bits, words));
    }

    fn unpack_chunks(&self, words: &[u64], out: &mut [u8]) {
        let cost = Costs::of(self.tier).pack(words.len());
        let items = words.chunks(GRAIN).zip(out.chunks_mut(64 * GRAIN));
        self.pool.for_each(items, cost, |(words, bits)| dispatch::unpack(self.tier, words, bits));
    }

    /// Unpacks the first `length` bits of `words`, one byte each.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if there are fewer bits.
    pub fn unpack(&self, words: &[u64], length: usize) -> Result<Vec<u8>> {
        self.check_unpack(words, length)?;
        let mut bits = vec![0; length];
        self.unpack_chunks(words, &mut bits);
        Ok(bits)
    }

    /// Unpacks the first `out.len()` bits of `words` to `out`, one byte each.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if there are fewer bits.
    pub fn unpack_into(&self, words: &[u64], out: &mut [u8]) -> Result<()> {
        self.check_unpack(words, out.len())?;
        self.unpack_chunks(words, out);
        Ok(())
    }

    fn check_unpack(&self, words: &[u64], length: usize) -> Result<()> {
        let (actual, limit) = (length as u128, words.len() as u128 * 64);
        if actual > limit {
            Err(Error::TooLarge { what: Quantity::Length, actual, limit })
        } else {
            Ok(())
        }
    }

    /// Counts the ones of `words`.
    #[must_use]
    pub fn popcount(&self, words: &[u64]) -> u64 {
        if words.len() <= GRAIN {
            return dispatch::ones(self.tier, words);
        }
        let total = AtomicU64::new(0);
        self.pool.for_each(words.chunks(GRAIN), Costs::of(self.tier).count(words.len()), |words| {
            total.fetch_add(dispatch::ones(self.tier, words), Ordering::Relaxed);
        });
        total.into_inner()
    }

    /// Counts the ones that two buffers of one length share.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the lengths differ.
    pub fn and_popcount(&self, a: &[u64], b: &[u64]) -> Result<u64> {
        let (expected, actual) = (a.len(), b.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Words, expected, actual });
        }
        Ok(dispatch::and_ones(self.tier, a, b))
    }
}
