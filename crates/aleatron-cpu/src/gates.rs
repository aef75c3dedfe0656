//! Gates over whole buffers of streams, all of one length, one after the other; see
//! [`aleatron_core::gates`].
//!
//! The bits beyond the length of each stream are zero afterwards, whatever they were before.

use crate::cost::Costs;
use crate::{Cpu, dispatch};
use aleatron_core::gates::Gate;
use aleatron_core::{Error, Length, Quantity, Result, memory};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of words in a work item. Smaller items would cost more to move to another core's cache
/// than to compute.
const GRAIN: usize = 1 << 14;

/// Number of words whose XOR is computed before it is counted: few enough for the first-level
/// cache.
const XOR_WORDS: usize = 512;

impl Cpu {
    /// Applies a gate to two buffers of streams of `length`.
    ///
    /// ```
    /// use aleatron_core::{Length, gates::Gate};
    /// use aleatron_cpu::Cpu;
    /// // Two streams of 3 bits.
    /// let xnor = Cpu::current()?.gate(Gate::Xnor, &[0b101, 0b000], &[0b100, 0b111], Length::new(3)?)?;
    /// assert_eq!(xnor, [0b110, 0b000]);
    /// # Ok::<(), aleatron_cpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the buffers differ in size, [`Error::Ragged`] unless they are
    /// whole streams, [`Error::Memory`] if the result does not fit.
    pub fn gate(&self, gate: Gate, a: &[u64], b: &[u64], length: Length) -> Result<Vec<u64>> {
        let mut out = memory::zeros(a.len() as u128, Quantity::Streams)?;
        self.gate_into(gate, a, b, length, &mut out)?;
        Ok(out)
    }

    /// Computes [`Self::gate`] into words of the caller.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the buffers differ in size, [`Error::Ragged`] unless they are
    /// whole streams.
    pub fn gate_into(
        &self,
        gate: Gate,
        a: &[u64],
        b: &[u64],
        length: Length,
        out: &mut [u64],
    ) -> Result<()> {
        check_sizes(a.len(), [b.len(), out.len()], length)?;
        self.for_each_chunk(length, out, |words, out| {
            dispatch::gate(self.tier, gate, &a[words.clone()], &b[words], out);
        });
        Ok(())
    }

    /// Computes the complement of a buffer of streams of `length`.
    ///
    /// # Errors
    /// Returns [`Error::Ragged`] unless the buffer is whole streams, [`Error::Memory`] if the
    /// result does not fit.
    pub fn not(&self, a: &[u64], length: Length) -> Result<Vec<u64>> {
        let mut out = memory::zeros(a.len() as u128, Quantity::Streams)?;
        self.not_into(a, length, &mut out)?;
        Ok(out)
    }

    /// Computes [`Self::not`] into words of the caller.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the buffers differ in size, [`Error::Ragged`] unless they are
    /// whole streams.
    pub fn not_into(&self, a: &[u64], length: Length, out: &mut [u64]) -> Result<()> {
        check_sizes(a.len(), [out.len()], length)?;
        self.for_each_chunk(length, out, |words, out| dispatch::not(self.tier, &a[words], out));
        Ok(())
    }

    /// Selects `a` where `select` is 1 and `b` where it is 0, in buffers of streams of `length`.
    ///
    /// # Errors
    /// As for [`Self::gate`].
    pub fn mux(&self, select: &[u64], a: &[u64], b: &[u64], length: Length) -> Result<Vec<u64>> {
        let mut out = memory::zeros(select.len() as u128, Quantity::Streams)?;
        self.mux_into(select, a, b, length, &mut out)?;
        Ok(out)
    }

    /// Computes [`Self::mux`] into words of the caller.
    ///
    /// # Errors
    /// As for [`Self::gate_into`].
    pub fn mux_into(
        &self,
        select: &[u64],
        a: &[u64],
        b: &[u64],
        length: Length,
        out: &mut [u64],
    ) -> Result<()> {
        check_sizes(select.len(), [a.len(), b.len(), out.len()], length)?;
        self.for_each_chunk(length, out, |words, out| {
            dispatch::mux(self.tier, &select[words.clone()], &a[words.clone()], &b[words], out);
        });
        Ok(())
    }

    /// Counts the positions where each stream of `a` differs from that of `b`. Bits beyond the
    /// length must be zero.
    ///
    /// ```
    /// use aleatron_core::Length;
    /// use aleatron_cpu::Cpu;
    /// let distances = Cpu::current()?.hamming_distances(&[0b101, 0b000], &[0b100, 0b111], Length::new(3)?)?;
    /// assert_eq!(distances, [1, 3]);
    /// # Ok::<(), aleatron_cpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Self::gate`].
    pub fn hamming_distances(&self, a: &[u64], b: &[u64], length: Length) -> Result<Vec<u64>> {
        check_sizes(a.len(), [b.len()], length)?;
        let words = length.words();
        let mut distances = memory::zeros((a.len() / words) as u128, Quantity::Counts)?;
        if words < GRAIN {
            let (streams, cost) = (GRAIN / words, Costs::of(self.tier).count(a.len()));
            let chunks = a.chunks(streams * words).zip(b.chunks(streams * words));
            let items = distances.chunks_mut(streams).zip(chunks);
            self.pool.for_each(items, cost, |(distances, (a, b))| {
                let pairs = a.chunks_exact(words).zip(b.chunks_exact(words));
                for (distance, (a, b)) in distances.iter_mut().zip(pairs) {
                    *distance = self.difference(a, b);
                }
            });
            return Ok(distances);
        }
        // Streams of this length are split among the threads.
        for (distance, (a, b)) in
            distances.iter_mut().zip(a.chunks_exact(words).zip(b.chunks_exact(words)))
        {
            let (total, cost) = (AtomicU64::new(0), Costs::of(self.tier).count(words));
            self.pool.for_each(a.chunks(GRAIN).zip(b.chunks(GRAIN)), cost, |(a, b)| {
                total.fetch_add(self.difference(a, b), Ordering::Relaxed);
            });
            *distance = total.into_inner();
        }
        Ok(distances)
    }

    /// Counts the ones of the XOR of two buffers of one size.
    fn difference(&self, a: &[u64], b: &[u64]) -> u64 {
        let mut buffer = [0; XOR_WORDS];
        let chunks = a.chunks(XOR_WORDS).zip(b.chunks(XOR_WORDS));
        chunks
            .map(|(a, b)| {
                let difference = &mut buffer[..a.len()];
                dispatch::gate(self.tier, Gate::Xor, a, b, difference);
                dispatch::ones(self.tier, difference)
            })
            .sum()
    }

    /// Fills the result of a gate chunk by chunk, and clears the bits beyond the length of each
    /// stream.
    fn for_each_chunk(
        &self,
        length: Length,
        out: &mut [u64],
        fill: impl Fn(Range<usize>, &mut [u64]) + Sync,
    ) {
        // A gate takes about as long as counting the same words.
        let cost = Costs::of(self.tier).count(out.len());
        let items = out.chunks_mut(GRAIN).enumerate();
        self.pool.for_each(items, cost, |(chunk, out)| {
            let start = chunk * GRAIN;
            fill(start..start + out.len(), out);
            if length.tail_mask() != u64::MAX {
                let first_last = length.words() - 1 - start % length.words();
                out.iter_mut()
                    .skip(first_last)
                    .step_by(length.words())
                    .for_each(|last| *last &= length.tail_mask());
            }
        });
    }
}

/// Checks that buffers have one size and hold whole streams.
fn check_sizes<const N: usize>(expected: usize, others: [usize; N], length: Length) -> Result<()> {
    if let Some(&actual) = others.iter().find(|&&actual| actual != expected) {
        return Err(Error::Mismatch { what: Quantity::Words, expected, actual });
    }
    if !expected.is_multiple_of(length.words()) {
        return Err(Error::Ragged {
            what: Quantity::Words,
            actual: expected,
            divisor: length.words(),
        });
    }
    Ok(())
}
