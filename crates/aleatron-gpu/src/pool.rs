//! Several devices as one: a layer's neurons or a batch's samples spread over them, with the same counts.

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::{DenseShape, Quantity, StreamAddress, Threshold, memory};
use aleatron_device::{
    AdapterChoice, ContextOptions, Error as DeviceError, GpuContext, adapters, hardware_adapters,
};

use crate::dense::GpuDense;
use crate::encode::check_address;
use crate::error::{Error, Result};

/// What each device gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// Some of the neurons: weights are spread, every device encodes every sample.
    Neurons,
    /// Some of the samples: every device holds all weights.
    Samples,
}

/// Devices that work together. They may be several logical devices on one adapter.
#[derive(Debug, Clone)]
pub struct GpuDevicePool {
    contexts: Vec<Arc<GpuContext>>,
}

impl GpuDevicePool {
    /// A pool of devices.
    ///
    /// # Errors
    /// [`DeviceError::NoAdapter`] without any.
    pub fn new(contexts: Vec<Arc<GpuContext>>) -> Result<Self> {
        if contexts.is_empty() {
            let found = adapters().iter().map(ToString::to_string).collect();
            return Err(DeviceError::NoAdapter { wanted: AdapterChoice::Strongest, found }.into());
        }
        Ok(Self { contexts })
    }

    /// Every hardware adapter, each with its shared device; equal cards are several.
    ///
    /// # Errors
    /// [`DeviceError::NoAdapter`] without any, or where one does not open.
    pub fn hardware() -> Result<Self> {
        Self::of(hardware_adapters().iter().map(|info| info.index))
    }

    /// The adapters at these places, each with its shared device.
    ///
    /// # Errors
    /// As [`Self::hardware`].
    pub fn of(indices: impl IntoIterator<Item = usize>) -> Result<Self> {
        let contexts = indices.into_iter().map(|index| GpuContext::get(&AdapterChoice::Index(index)));
        Self::new(contexts.collect::<Result<_, DeviceError>>()?)
    }

    /// `n` logical devices on one adapter.
    ///
    /// # Errors
    /// As [`GpuContext::open`].
    pub fn logical(choice: &AdapterChoice, n: usize, options: &ContextOptions) -> Result<Self> {
        Self::new((0..n).map(|_| GpuContext::open(choice, options)).collect::<Result<_, DeviceError>>()?)
    }

    /// The devices.
    #[must_use]
    pub fn contexts(&self) -> &[Arc<GpuContext>] {
        &self.contexts
    }

    /// A layer of packed weight streams, `[neuron][input][word]`, over all devices.
    ///
    /// # Errors
    /// As [`GpuDense::from_words`].
    pub fn dense_from_words(
        &self,
        shape: DenseShape,
        split: Split,
        max_batch: usize,
        words: &[u64],
    ) -> Result<PooledDense> {
        let expected = shape.weight_words();
        if words.len() != expected {
            let (what, actual) = (Quantity::Words, words.len());
            return Err(aleatron_core::Error::Mismatch { what, expected, actual }.into());
        }
        let row = shape.row_words();
        self.dense(shape, split, |context, part, neurons| {
            GpuDense::from_words(context, part, max_batch, &words[neurons.start * row..neurons.end * row])
        })
    }

    /// A layer whose weight streams the devices draw, as [`GpuDense::from_thresholds`].
    ///
    /// # Errors
    /// As [`GpuDense::from_thresholds`].
    pub fn dense_from_thresholds(
        &self,
        shape: DenseShape,
        split: Split,
        max_batch: usize,
        weights: &[Threshold],
        first: StreamAddress,
    ) -> Result<PooledDense> {
        let expected = shape.n_weights();
        if weights.len() != expected {
            let (what, actual) = (Quantity::Weights, weights.len());
            return Err(aleatron_core::Error::Mismatch { what, expected, actual }.into());
        }
        check_address(first, shape.n_neurons(), shape.n_inputs())?;
        let row = shape.n_inputs();
        self.dense(shape, split, |context, part, neurons| {
            let weights = &weights[neurons.start * row..neurons.end * row];
            // The address was checked to name every neuron.
            let first = first.at_row(first.row.wrapping_add(neurons.start as u32));
            GpuDense::from_thresholds(context, part, max_batch, weights, first)
        })
    }

    fn dense(
        &self,
        shape: DenseShape,
        split: Split,
        make: impl Fn(&Arc<GpuContext>, DenseShape, Range<usize>) -> Result<GpuDense>,
    ) -> Result<PooledDense> {
        let n = shape.n_neurons();
        let shares = match split {
            Split::Neurons => shares(n, self.contexts.len()),
            Split::Samples => vec![0..n; self.contexts.len()],
        };
        let mut parts = Vec::new();
        for (context, neurons) in self.contexts.iter().zip(shares).filter(|(_, share)| !share.is_empty()) {
            let part = DenseShape::new(shape.n_inputs(), neurons.len(), shape.length(), shape.polarity())?;
            parts.push((neurons.clone(), make(context, part, neurons)?));
        }
        Ok(PooledDense { shape, split, parts })
    }
}

/// `n` things in `parts` runs that differ by at most one.
fn shares(n: usize, parts: usize) -> Vec<Range<usize>> {
    let edge = |part: usize| (part as u128 * n as u128 / parts as u128) as usize;
    (0..parts).map(|part| edge(part)..edge(part + 1)).collect()
}

/// A dense layer over several devices.
#[derive(Debug)]
pub struct PooledDense {
    shape: DenseShape,
    split: Split,
    parts: Vec<(Range<usize>, GpuDense)>,
}

impl PooledDense {
    /// The shape of the whole.
    #[must_use]
    pub fn shape(&self) -> &DenseShape {
        &self.shape
    }

    /// The layers on the devices, with the neurons of each.
    pub fn parts(&self) -> impl Iterator<Item = (&Range<usize>, &GpuDense)> {
        self.parts.iter().map(|(neurons, layer)| (neurons, layer))
    }

    /// The counts of a batch, `[sample][neuron]`; as [`GpuDense::counts`].
    ///
    /// # Errors
    /// As [`GpuDense::counts`], of the first device that fails.
    pub fn counts(&self, inputs: &[Threshold], first: StreamAddress) -> Result<Vec<u64>> {
        let n_samples = self.shape.samples_in(inputs.len())?;
        check_address(first, n_samples, self.shape.n_inputs())?;
        let samples = match self.split {
            Split::Neurons => vec![0..n_samples; self.parts.len()],
            Split::Samples => shares(n_samples, self.parts.len()),
        };
        let n_inputs = self.shape.n_inputs();
        let answers: Vec<Result<Vec<u64>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .parts
                .iter()
                .zip(&samples)
                .map(|((_, layer), samples)| {
                    let inputs = &inputs[samples.start * n_inputs..samples.end * n_inputs];
                    let first = first.at_row(first.row.wrapping_add(samples.start as u32));
                    scope.spawn(move || layer.counts(inputs, first))
                })
                .collect();
            let joined = threads
                .into_iter()
                .enumerate()
                .map(|(device, thread)| thread.join().unwrap_or(Err(Error::Thread { device })));
            joined.collect()
        });
        let answers = answers.into_iter().collect::<Result<Vec<_>>>()?;
        match self.split {
            Split::Samples => Ok(answers.concat()),
            Split::Neurons => {
                let n_neurons = self.shape.n_neurons();
                let n_counts = n_samples as u128 * n_neurons as u128;
                let mut counts: Vec<u64> = memory::zeros(n_counts, Quantity::Counts)?;
                for ((neurons, _), answer) in self.parts.iter().zip(answers) {
                    let rows = counts.chunks_exact_mut(n_neurons).zip(answer.chunks_exact(neurons.len()));
                    rows.for_each(|(row, part)| row[neurons.clone()].copy_from_slice(part));
                }
                Ok(counts)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn shares_are_even_and_whole() {
        assert_eq!(shares(10, 3), [0..3, 3..6, 6..10]);
        assert_eq!(shares(2, 3), [0..0, 0..1, 1..2]);
        assert_eq!(shares(0, 2), [0..0, 0..0]);
    }
}
