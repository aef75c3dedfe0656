//! The layers of a program, and the division of their work among threads.

use crate::Cpu;
use crate::backend::CpuLayer;
use aleatron_core::backend::{Batch, PreparedLayer};
use aleatron_core::program::Program;
use aleatron_core::{Cancel, Result, Topology};

/// Size in bytes of the largest slot for the samples that a thread takes through a program at a
/// time: with streams, counts and other slots, they fill a second-level cache.
const CACHE_BYTES: usize = 1 << 17;

/// The largest number of samples that a thread takes through a program at a time.
const MAX_SAMPLES: usize = 16;

/// Number of pairs of words counted in the time that a word of weights takes from memory.
const PAIRS_PER_WORD: usize = 16;

/// Number of pairs of words of a sample that a thread counts in some tens of milliseconds, which
/// limits the delay of a cancellation.
const MAX_PAIRS: usize = 1 << 28;

/// The division of samples among threads, each of which takes samples through a whole program.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampleSplit {
    /// The largest number of samples that a thread takes at a time.
    pub(super) samples: usize,
    /// The number of pairs of words that a sample counts.
    pub(super) pairs: usize,
}

/// The layers of a program.
#[derive(Debug)]
pub(crate) enum ProgramLayers {
    /// Layers on the CPU.
    Cpu(Vec<CpuLayer>),
    /// Layers on any backend.
    Any(Vec<Box<dyn PreparedLayer>>),
}

impl ProgramLayers {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Cpu(layers) => layers.len(),
            Self::Any(layers) => layers.len(),
        }
    }

    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = &dyn PreparedLayer> + '_> {
        match self {
            Self::Cpu(layers) => Box::new(layers.iter().map(|layer| layer as &dyn PreparedLayer)),
            Self::Any(layers) => Box::new(layers.iter().map(|layer| &**layer)),
        }
    }

    /// Returns the counts of a layer; on the CPU, computed on a given tier and pool.
    pub(super) fn counts(
        &self,
        cpu: &Cpu,
        layer: usize,
        batch: &Batch<'_>,
        cancel: Cancel<'_>,
    ) -> Result<Vec<u64>> {
        match self {
            Self::Cpu(layers) => layers[layer].counts_on(cpu, batch, cancel),
            Self::Any(layers) => layers[layer].counts(batch, cancel),
        }
    }

    /// Returns the division of samples among threads: as many at a time as stay in the caches of a
    /// core, unless the weights that all samples share would be read from memory too often. `None`
    /// if threads should divide the work of every layer.
    pub(super) fn sample_split(&self, program: &Program) -> Option<SampleSplit> {
        let Self::Cpu(_) = self else { return None };
        let (mut pairs, mut weights, mut has_conv) = (0_usize, 0_usize, false);
        for layer in program.layers() {
            pairs = pairs.saturating_add(layer.spec.product_words().saturating_mul(layer.rows));
            match layer.spec.topology() {
                // The weights of kernels are used at many positions of one sample.
                Topology::Conv(_) => has_conv = true,
                _ => weights = weights.saturating_add(layer.spec.weight_words()),
            }
        }
        let largest =
            program.slots().iter().map(|slot| slot.len.saturating_mul(8)).max().unwrap_or(0);
        let samples = (CACHE_BYTES / largest.max(1)).clamp(1, MAX_SAMPLES);
        let reads_little = weights.saturating_mul(PAIRS_PER_WORD) <= pairs.saturating_mul(samples);
        (has_conv && reads_little && pairs <= MAX_PAIRS).then_some(SampleSplit { samples, pairs })
    }
}
