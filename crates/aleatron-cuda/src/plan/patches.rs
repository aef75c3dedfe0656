//! The memory of a convolution on the GPU: weights, the streams of the inputs of some samples, and
//! the patches under the kernel at some positions, gathered as rows.

use super::memory::{Residency, SETS, SPARE_BYTES, bounded_chunk};
use super::rows::{MAX_PART_WORDS, Part, StreamWords, parts};
use crate::encode::RowStreams;
use crate::error::{Error, Result};
use crate::size::host_size;

/// The largest size of patches gathered at a time: enough to fill any GPU with tiles.
const MAX_PATCH_BYTES: u128 = 256 << 20;

/// The largest number of vectors and counts of patches at a time: kernels index both with 32 bits.
const MAX_PATCH_ITEMS: u128 = 1 << 30;

/// Patches are divided into multiples of this number: whole tiles of every kernel.
const TILE_PATCHES: u128 = 256;

/// The sizes of a convolution that determine its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PatchShape {
    pub(crate) n_inputs: usize,
    /// Number of taps of a kernel.
    pub(crate) n_taps: usize,
    pub(crate) n_positions: usize,
    /// Number of output channels.
    pub(crate) n_channels: usize,
    /// Number of rows of weights, and the largest number of one group of inputs.
    pub(crate) n_rows: usize,
    pub(crate) group_rows: usize,
    pub(crate) row_streams: RowStreams,
    pub(crate) stream: StreamWords,
}

/// The memory plan of a convolution on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatchPlan {
    /// The streams of a sample's inputs, whole.
    pub(crate) inputs: Part,
    /// The parts of rows of weights and patches.
    pub(crate) parts: Vec<Part>,
    /// Number of samples per chunk.
    pub(crate) chunk: usize,
    /// Number of patches at a time.
    pub(crate) patches: usize,
    pub(crate) residency: Residency,
}

impl PatchPlan {
    /// Returns the plan with `free` bytes, of which `fixed` are for buffers that all calls share
    /// besides the weights.
    pub(crate) fn new(
        shape: &PatchShape,
        max_batch: usize,
        fixed: u128,
        free: u64,
    ) -> Result<Self> {
        let input_words = shape.n_inputs as u128 * u128::from(shape.stream.stored);
        let all = u128::from(free);
        let out_of_memory = |bytes: u128| Error::OutOfMemory { bytes, free };
        // The encoder counts the words of a row with 32 bits.
        let words = u64::try_from(input_words).map_err(|_| out_of_memory(4 * input_words))?;
        let inputs = Part::new(0, words)?;
        let left = (all - (all / 16).min(SPARE_BYTES)).saturating_sub(fixed);
        let n_neurons = shape.n_channels as u128 * shape.n_positions as u128;
        let sample = u128::from(inputs.bytes()) + 8 * shape.n_inputs as u128 + 8 * n_neurons;
        let units = shape.row_streams.of(shape.n_taps);
        let whole = parts(units, shape.stream, MAX_PART_WORDS)?;
        let weights =
            whole.iter().map(|part| u128::from(part.bytes())).sum::<u128>() * shape.n_rows as u128;
        let patch = shape.patch_bytes(widest(&whole));
        if weights + SETS * (sample + patch) <= left {
            let (chunk, patches) =
                shape.cut(max_batch, (left - weights) / SETS, sample, widest(&whole));
            return Ok(Self {
                inputs,
                parts: whole,
                chunk,
                patches,
                residency: Residency::Resident,
            });
        }
        // Half of the memory for weights, half for calls; parts of rows short enough that a few of
        // each fit.
        let half = left / 2;
        let spare = (half / SETS).saturating_sub(sample + shape.patch_bytes(0));
        let most = spare / (2 * 4 * shape.row_streams.of(1) as u128);
        let parts = parts(units, shape.stream, u64::try_from(most).unwrap_or(MAX_PART_WORDS))?;
        let (part, needed) = (widest(&parts), SETS * (sample + shape.patch_bytes(widest(&parts))));
        let rows = (half / u128::from(part.max(1))).min(shape.group_rows as u128);
        let rows = host_size(rows);
        if needed > half || rows == 0 {
            return Err(out_of_memory(2 * needed));
        }
        let (chunk, patches) = shape.cut(max_batch, half / SETS, sample, part);
        Ok(Self { inputs, parts, chunk, patches, residency: Residency::Regenerated { rows } })
    }

    /// Returns the size of the widest part in bytes.
    pub(crate) fn widest(&self) -> u64 {
        widest(&self.parts)
    }
}

fn widest(parts: &[Part]) -> u64 {
    parts.iter().map(Part::bytes).max().unwrap_or(0)
}

impl PatchShape {
    /// Returns the size of a patch whose rows have `part_bytes`: its rows, their counts, and their
    /// ones.
    fn patch_bytes(&self, part_bytes: u64) -> u128 {
        let rows = self.row_streams.of(1) as u128;
        rows * (u128::from(part_bytes) + 4 * self.group_rows as u128 + 4)
    }

    /// Returns the number of samples and patches of a call that has `bytes`, which are enough for
    /// one of each.
    fn cut(&self, max_batch: usize, bytes: u128, sample: u128, part_bytes: u64) -> (usize, usize) {
        let patch = self.patch_bytes(part_bytes);
        // Half for each, unless one patch or one sample needs more.
        let samples = (bytes / 2).min(bytes - patch).max(sample) / sample;
        let chunk = bounded_chunk(max_batch, sample, samples);
        let rest = bytes - chunk as u128 * sample;
        let rows = self.row_streams.of(1) as u128;
        let items = u128::from(part_bytes / 8).max(self.group_rows as u128) * rows;
        let most = (rest.min(MAX_PATCH_BYTES) / patch).min(MAX_PATCH_ITEMS / items).max(1);
        let most = if most > TILE_PATCHES { most / TILE_PATCHES * TILE_PATCHES } else { most };
        let all = chunk as u128 * self.n_positions as u128;
        (chunk, host_size(most.min(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aleatron_core::Length;

    fn shape(sizes: [usize; 5], row_streams: RowStreams, bits: usize) -> PatchShape {
        let [n_inputs, n_taps, n_positions, n_channels, group_channels] = sizes;
        let stream = StreamWords::of(Length::new(bits).unwrap());
        PatchShape {
            n_inputs,
            n_taps,
            n_positions,
            n_channels,
            n_rows: n_channels,
            group_rows: group_channels,
            row_streams,
            stream,
        }
    }

    #[test]
    fn plans_fit_the_memory() {
        let mut kinds = [0, 0, 0];
        for sizes in [
            [1, 1, 1, 1, 1],
            [75, 27, 25, 9, 3],
            [1000, 1000, 1, 500, 500],
            [3072, 576, 1024, 64, 64],
        ] {
            for (bits, fixed) in [(1, 0), (100, 24), (1024, 1000), (70_000, 0)] {
                for row_streams in [RowStreams::Magnitudes, RowStreams::BothSigns] {
                    for free in (10..36).map(|k| 1u64 << k) {
                        let shape = shape(sizes, row_streams, bits);
                        let Ok(plan) = PatchPlan::new(&shape, 256, fixed, free) else {
                            kinds[0] += 1;
                            continue;
                        };
                        let rows = row_streams.of(1) as u64;
                        let [n, _, positions, channels, group] = sizes.map(|size| size as u64);
                        let samples = plan.inputs.bytes() + 8 * n + 8 * channels * positions;
                        let patch = rows * (plan.widest() + 4 * group + 4);
                        let sets = 2 * (plan.chunk as u64 * samples + plan.patches as u64 * patch);
                        let weights = match plan.residency {
                            Residency::Resident => {
                                kinds[1] += 1;
                                plan.parts.iter().map(Part::bytes).sum::<u64>() * channels
                            }
                            Residency::Regenerated { rows } => {
                                kinds[2] += 1;
                                assert!(rows > 0 && rows as u64 <= group);
                                rows as u64 * plan.widest()
                            }
                        };
                        assert!(plan.chunk > 0 && plan.patches > 0, "{shape:?} {free}: {plan:?}");
                        assert!(
                            plan.patches <= plan.chunk * sizes[2],
                            "{shape:?} {free}: {plan:?}"
                        );
                        assert!(
                            u128::from(sets + weights) + fixed <= u128::from(free),
                            "{shape:?} {free}: {plan:?}"
                        );
                    }
                }
            }
        }
        // All three outcomes occur.
        assert!(kinds.iter().all(|&n| n > 10), "{kinds:?}");
    }

    #[test]
    fn large_batches_are_gathered_in_chunks() {
        let conv = shape([64 * 28 * 28, 576, 28 * 28, 64, 64], RowStreams::Magnitudes, 1024);
        let plan = PatchPlan::new(&conv, 256, 0, 1 << 36).unwrap();
        assert_eq!((plan.residency, plan.chunk), (Residency::Resident, 256));
        assert!(plan.patches < 256 * 784 && plan.patches.is_multiple_of(256), "{}", plan.patches);
        assert!(plan.patches as u128 * u128::from(plan.widest()) <= MAX_PATCH_BYTES);
    }

    /// The index of a patch fits 32 bits, however narrow its rows.
    #[test]
    fn indices_of_patches_fit_32_bits() {
        let conv = shape([4, 1, 1 << 31, 2, 2], RowStreams::BothSigns, 1);
        let plan = PatchPlan::new(&conv, 1, 0, u64::MAX).unwrap();
        assert!(2 * plan.patches as u64 * (plan.widest() / 8) <= 1 << 31, "{plan:?}");
    }
}
