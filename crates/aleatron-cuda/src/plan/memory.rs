//! Residency of weights: all of them if they fit next to the buffers of a call, otherwise as many
//! neurons at a time as fit.

use super::rows::{MAX_PART_WORDS, Part, StreamWords, parts};
use crate::error::{Error, Result};
use crate::size::host_size;

/// Number of chunks of a full batch, so that preparing one and counting another overlap.
const CHUNKS: usize = 2;

/// Number of samples below which a chunk is not worth splitting: two tiles of the largest kernel.
const LEAST_CHUNK: usize = 512;

/// Number of calls with buffers at a time: one chunk is prepared while another is counted.
pub(super) const SETS: u128 = 2;

/// The largest size of a chunk in bytes: larger ones are not faster, and the host needs buffers of
/// their values and results.
const MAX_CHUNK_BYTES: u128 = 2 << 30;

/// The largest amount of memory that is left to other users.
pub(super) const SPARE_BYTES: u128 = 64 << 20;

/// Returns the number of samples of a chunk for batches of up to `max_batch`.
pub(crate) fn chunk_of(max_batch: usize) -> usize {
    if max_batch < 2 * LEAST_CHUNK {
        return max_batch;
    }
    max_batch
        .div_ceil(CHUNKS)
        .checked_next_multiple_of(LEAST_CHUNK / 2)
        .unwrap_or(max_batch)
        .min(max_batch)
}

/// Returns the number of samples of a chunk if a sample takes `sample_bytes`, and `left` are free.
pub(crate) fn bounded_chunk(max_batch: usize, sample_bytes: u128, left: u128) -> usize {
    let most = left.min(MAX_CHUNK_BYTES / sample_bytes.max(1)).max(1);
    chunk_of(max_batch).min(host_size(most))
}

/// The residency of the weights of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Residency {
    /// All weights are resident.
    Resident,
    /// The weights of some neurons at a time, regenerated while they are used.
    Regenerated {
        /// The number of neurons.
        rows: usize,
    },
}

/// The memory of a dense layer on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    pub(crate) parts: Vec<Part>,
    /// Number of samples per chunk.
    pub(crate) chunk: usize,
    pub(crate) residency: Residency,
}

impl MemoryPlan {
    /// Returns the plan for a layer of `n_units` inputs and `n_neurons` neurons, with `free` bytes.
    /// Each weight and each input needs `operand_bytes` beside its stream.
    pub(crate) fn dense(
        n_units: usize,
        n_neurons: usize,
        stream: StreamWords,
        max_batch: usize,
        operand_bytes: u128,
        free: u64,
    ) -> Result<Self> {
        let all = free;
        let free = u128::from(free) - (u128::from(free) / 16).min(SPARE_BYTES);
        let row_bytes =
            |parts: &[Part]| parts.iter().map(|part| u128::from(part.bytes())).sum::<u128>();
        let widest =
            |parts: &[Part]| parts.iter().map(|part| u128::from(part.bytes())).max().unwrap_or(0);
        // Values, and counts both as integers and as results.
        let rest = (8 + operand_bytes) * n_units as u128 + (4 + 8) * n_neurons as u128 + 4;
        let whole = parts(n_units, stream, MAX_PART_WORDS)?;
        let sample_bytes = widest(&whole) + rest;
        let row_bytes = row_bytes(&whole) + operand_bytes * n_units as u128;
        let weight_bytes = row_bytes * n_neurons as u128;
        let left = free.saturating_sub(weight_bytes) / (SETS * sample_bytes);
        if left >= 1 {
            let chunk = bounded_chunk(max_batch, sample_bytes, left);
            return Ok(Self { parts: whole, chunk, residency: Residency::Resident });
        }
        // Half of the memory for weights, half for calls; parts of rows short enough that a few of
        // each fit.
        let half = free / 2;
        let most = half.saturating_sub(SETS * rest) / (2 * SETS * 4);
        let most = u64::try_from(most).unwrap_or(MAX_PART_WORDS);
        let parts = parts(n_units, stream, most)?;
        let part_bytes = widest(&parts);
        let fitting = half / (SETS * (part_bytes + rest));
        let chunk =
            if fitting == 0 { 0 } else { bounded_chunk(max_batch, part_bytes + rest, fitting) };
        let rows = (half / part_bytes.max(1)).min(n_neurons as u128);
        let rows = host_size(rows);
        if chunk == 0 || rows == 0 {
            let bytes = 2 * SETS * (part_bytes + rest);
            return Err(Error::OutOfMemory { bytes, free: all });
        }
        Ok(Self { parts, chunk, residency: Residency::Regenerated { rows } })
    }

    /// Returns the number of words of the widest part.
    pub(crate) fn widest(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.stride)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aleatron_core::Length;

    fn plan(n: usize, m: usize, bits: usize, max_batch: usize, free: u64) -> Result<MemoryPlan> {
        let stream = StreamWords::of(Length::new(bits).unwrap());
        MemoryPlan::dense(n, m, stream, max_batch, 0, free)
    }

    #[test]
    fn only_large_batches_are_split_into_chunks() {
        assert_eq!(chunk_of(1), 1);
        assert_eq!(chunk_of(256), 256);
        assert_eq!(chunk_of(1023), 1023);
        assert_eq!(chunk_of(1024), 512);
        assert_eq!(chunk_of(1500), 768);
        assert_eq!(chunk_of(usize::MAX), 1 << 63);
    }

    #[test]
    fn weights_are_resident_if_they_fit() {
        let resident = plan(1000, 500, 1024, 256, 1 << 30).unwrap();
        assert_eq!(
            (resident.residency, resident.chunk, resident.parts.len()),
            (Residency::Resident, 256, 1)
        );
        // 64 MB of weights in 66 MB: the batch runs in smaller chunks.
        let tight = plan(1000, 500, 1024, 256, 72 << 20).unwrap();
        assert_eq!(tight.residency, Residency::Resident);
        assert!(tight.chunk < 256 && tight.chunk > 0, "{}", tight.chunk);
        let regenerated = plan(1000, 500, 1024, 256, 32 << 20).unwrap();
        assert!(
            matches!(regenerated.residency, Residency::Regenerated { rows } if rows > 50 && rows < 500),
            "{regenerated:?}"
        );
    }

    #[test]
    fn plans_fit_the_memory() {
        for (n, m, bits) in
            [(1, 1, 1), (40, 7, 1000), (1000, 500, 1024), (65_536, 3, 65_536), (7, 100_000, 64)]
        {
            for free in [1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28, 1 << 34u64] {
                let Ok(plan) = plan(n, m, bits, 256, free) else {
                    // One sample and one neuron do not fit with their buffers.
                    assert!(
                        free < 64 * (8 * n as u64 + 12 * m as u64 + 1024),
                        "{n} {m} {bits} {free}"
                    );
                    continue;
                };
                let stride = plan.widest() * 4;
                let rest = 8 * n as u64 + 12 * m as u64 + 4;
                let sets = 2 * plan.chunk as u64 * (stride + rest);
                let weights = match plan.residency {
                    Residency::Resident => {
                        plan.parts.iter().map(Part::bytes).sum::<u64>() * m as u64
                    }
                    Residency::Regenerated { rows } => rows as u64 * stride,
                };
                assert!(
                    plan.chunk > 0 && sets + weights <= free,
                    "{n} {m} {bits} {free}: {plan:?}"
                );
            }
        }
    }

    /// 65,536 inputs of 65,536 bits: counts exceed 32 bits, so rows are cut even if memory is
    /// plentiful.
    #[test]
    fn rows_with_wide_counts_are_cut() {
        let plan = plan(65_536, 3, 65_536, 4, 1 << 36).unwrap();
        assert!(plan.parts.len() >= 4 && plan.residency == Residency::Resident);
    }
}
