//! Several backends as a pool: a layer's neurons or a batch's samples are distributed over them,
//! with the same counts.

use super::pool_program::PoolProgram;
use super::{Backend, Batch, PrepareOptions, PreparedLayer};
use crate::Result;
use crate::concurrent::on_threads;
use aleatron_core::program::{PreparedProgram, Program};
use aleatron_core::{BackendFault, Cancel, Error, LayerSpec, Quantity, Weights, memory};
use std::ops::Range;
use std::sync::Arc;

/// The share of each backend of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Split {
    /// Neurons if a layer has enough of them, otherwise samples.
    #[default]
    Best,
    /// Some of the neurons: weights are distributed, every backend encodes every sample.
    /// Convolutions are split at output channels.
    Neurons,
    /// Some of the samples: every backend holds all weights.
    Samples,
}

/// Number of neurons per backend from which encoding every sample on each of them costs little.
const ENOUGH_NEURONS: usize = 64;

/// A pool of backends.
#[derive(Debug)]
pub struct PoolBackend {
    backends: Vec<Arc<dyn Backend>>,
    split: Split,
}

impl PoolBackend {
    /// Creates a pool of backends, which may be of any kinds.
    ///
    /// # Errors
    /// Returns [`Error::Backend`] for an empty pool.
    pub fn new(backends: Vec<Arc<dyn Backend>>, split: Split) -> Result<Self> {
        if backends.is_empty() {
            let message = "a pool needs at least one device".to_owned();
            let (backend, fault) = ("pool".to_owned(), BackendFault::Unavailable);
            return Err(Error::Backend { backend, fault, message }.into());
        }
        Ok(Self { backends, split })
    }
}

/// Divides `n` items into `parts` nearly equal ranges, omitting empty ones.
pub(super) fn ranges(n: usize, parts: usize) -> impl Iterator<Item = Range<usize>> {
    (0..parts).map(move |k| n * k / parts..n * (k + 1) / parts).filter(|range| !range.is_empty())
}

impl Backend for PoolBackend {
    fn name(&self) -> String {
        self.backends.iter().map(|backend| backend.name()).collect::<Vec<_>>().join(",")
    }

    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Box<dyn PreparedLayer>> {
        let (n_neurons, n_backends) = (spec.n_neurons(), self.backends.len());
        let by_neurons = match self.split {
            Split::Neurons => true,
            Split::Samples => false,
            // Fewer rows of weights than backends would leave some of them idle.
            Split::Best => n_neurons >= ENOUGH_NEURONS * n_backends && spec.n_rows() >= n_backends,
        };
        let name = self.name();
        let mut parts = Vec::new();
        if by_neurons {
            // Neurons of one output channel share their weights and stay together.
            let per_row = spec.neurons_per_row();
            for (backend, rows) in self.backends.iter().zip(ranges(spec.n_rows(), n_backends)) {
                let neurons = rows.start * per_row..rows.end * per_row;
                let part = spec.neurons(neurons.clone())?;
                let weights = weights.neurons(spec, neurons.clone());
                parts.push((neurons, backend.prepare(&part, &weights, options)?));
            }
        } else {
            for backend in &self.backends {
                parts.push((0..n_neurons, backend.prepare(spec, weights, options)?));
            }
        }
        Ok(Box::new(PoolLayer { name, spec: spec.clone(), by_neurons, parts }))
    }

    fn prepare_program(
        &self,
        program: &Arc<Program>,
        options: &PrepareOptions<'_>,
    ) -> aleatron_core::Result<Option<Box<dyn PreparedProgram>>> {
        let parts = self
            .backends
            .iter()
            .map(|backend| super::prepare_program(&**backend, program, options));
        let parts = parts.collect::<aleatron_core::Result<_>>()?;
        Ok(Some(Box::new(PoolProgram { name: self.name(), program: Arc::clone(program), parts })))
    }
}

/// A layer over several backends.
#[derive(Debug)]
struct PoolLayer {
    name: String,
    spec: LayerSpec,
    by_neurons: bool,
    /// The neurons of each part.
    parts: Vec<(Range<usize>, Box<dyn PreparedLayer>)>,
}

impl PoolLayer {
    /// Runs every part on a separate thread, and returns its counts.
    fn run(
        &self,
        batch: &Batch<'_>,
        samples: &[Range<usize>],
        cancel: Cancel<'_>,
    ) -> aleatron_core::Result<Vec<aleatron_core::Result<Vec<u64>>>> {
        let parts =
            samples.iter().map(|samples| batch.samples(&self.spec, samples.start, samples.end));
        let parts = parts.collect::<aleatron_core::Result<Vec<_>>>()?;
        let results =
            on_threads(parts.len(), cancel, |k, cancel| self.parts[k].1.counts(&parts[k], cancel));
        let panicked = || {
            let (fault, message) =
                (BackendFault::Failed, "a thread of the pool panicked".to_owned());
            Err(Error::Backend { backend: self.name.clone(), fault, message })
        };
        Ok(results.into_iter().map(|counts| counts.unwrap_or_else(panicked)).collect())
    }
}

impl PreparedLayer for PoolLayer {
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> aleatron_core::Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        let samples: Vec<Range<usize>> = match self.by_neurons {
            true => vec![0..n_samples; self.parts.len()],
            false => ranges(n_samples, self.parts.len()).collect(),
        };
        cancel.check()?;
        let results = self.run(batch, &samples, cancel)?;
        let mut parts = Vec::new();
        for (counts, samples) in results.into_iter().zip(&samples) {
            parts
                .push(counts.map_err(|error| error.shifted(samples.start * self.spec.n_inputs()))?);
        }
        if !self.by_neurons {
            return Ok(parts.concat());
        }
        let len = parts.iter().map(Vec::len).sum::<usize>();
        let mut counts = memory::with_capacity(len as u128, Quantity::Counts)?;
        for sample in 0..n_samples {
            for ((neurons, _), part) in self.parts.iter().zip(&parts) {
                counts
                    .extend_from_slice(&part[sample * neurons.len()..(sample + 1) * neurons.len()]);
            }
        }
        Ok(counts)
    }

    fn is_lost(&self) -> bool {
        self.parts.iter().any(|(_, layer)| layer.is_lost())
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some(self.name.clone())
    }
}
