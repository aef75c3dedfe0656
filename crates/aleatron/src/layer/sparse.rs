//! The sparse layer: a neuron sees the inputs it is connected to, and costs no more than that.

use super::InputPlan;
use crate::{Result, SampleSeed};
use aleatron_core::threshold::thresholds;
use aleatron_core::{
    Connections, Error, LayerIndex, Length, Polarity, Quantity, StreamAddress, StreamMatrix, memory, weights,
};
use aleatron_cpu::{Cpu, WordBuffer};
use std::fmt;

/// Everything but the weights that decides a sparse layer's bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SparseSpec {
    /// Who sees whom.
    pub connections: Connections,
    /// The stream length.
    pub length: Length,
    /// The polarity.
    pub polarity: Polarity,
    /// The seed of the weight streams (and of random weights).
    pub seed: u64,
    /// The layer's place in a network; [`LayerIndex::ALONE`] by itself.
    pub layer: LayerIndex,
}

/// A sparse layer of stochastic neurons.
///
/// A connection has the weight stream that the dense layer of the same seed has there, so a fully connected sparse layer
/// counts what the dense one does:
///
/// ```
/// use aleatron::{Connections, DenseLayer, LayerIndex, Length, Polarity, SparseLayer, layer::SparseSpec};
/// let spec = SparseSpec {
///     connections: Connections::from_mask(&[true; 6], 3)?,
///     length: Length::new(100)?,
///     polarity: Polarity::Unipolar,
///     seed: 5,
///     layer: LayerIndex::ALONE,
/// };
/// let x = [0.1, 0.5, 0.9];
/// assert_eq!(SparseLayer::random(spec)?.counts(&x, 7)?, DenseLayer::new(3, 2, 100, 5)?.counts(&x, 7)?);
/// # Ok::<(), aleatron::Error>(())
/// ```
pub struct SparseLayer {
    spec: SparseSpec,
    weights: Vec<f64>,
    streams: WordBuffer,
}

impl SparseLayer {
    /// A layer with the random weights of its seed: those the dense layer of that seed has at its connections.
    ///
    /// # Errors
    /// [`Error::Memory`] with the bytes the layer would take where it does not fit.
    pub fn random(spec: SparseSpec) -> Result<Self> {
        check_memory(&spec)?;
        let SparseSpec { connections, polarity, seed, layer, .. } = &spec;
        let neurons = (0..connections.n_neurons()).zip(0..=u32::MAX);
        let weights = neurons.flat_map(|(row, neuron)| {
            let inputs = connections.inputs_of(row).iter();
            inputs.map(move |&input| weights::random(*seed, *layer, neuron, input, *polarity))
        });
        let weights: Vec<f64> = weights.collect();
        Self::from_weights(spec, &weights)
    }

    /// A layer with the given weights, one per connection in their order.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where there is not one weight per connection, [`Error::OutOfRange`] with the first weight
    /// outside the interval of the polarity, [`Error::Memory`] where the layer does not fit.
    pub fn from_weights(spec: SparseSpec, weights: &[f64]) -> Result<Self> {
        check_memory(&spec)?;
        let words = spec.connections.len().saturating_mul(spec.length.words());
        let streams = WordBuffer::zeroed(words, Quantity::Weights)?;
        let mut layer = Self { spec, weights: Vec::new(), streams };
        layer.set_weights(weights)?;
        Ok(layer)
    }

    /// Replaces all weights, one per connection in their order. On an error the old ones stay.
    ///
    /// # Errors
    /// As [`Self::from_weights`].
    pub fn set_weights(&mut self, weights: &[f64]) -> Result<()> {
        let SparseSpec { connections, length, polarity, seed, layer } = &self.spec;
        let (expected, actual) = (connections.len(), weights.len());
        if expected != actual {
            return Err(Error::Mismatch { what: Quantity::Weights, expected, actual }.into());
        }
        let thresholds = thresholds(weights, *polarity, Quantity::Weight)?;
        let address = StreamAddress::weight(*seed, 0, 0).in_layer(*layer);
        let cpu = Cpu::current()?;
        cpu.encode_connections(connections, &thresholds, *length, address, &mut self.streams)?;
        self.weights = weights.to_vec();
        Ok(())
    }

    /// The weights, one per connection in their order.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The packed weight streams, one per connection in their order.
    #[must_use]
    pub fn weight_streams(&self) -> &[u64] {
        &self.streams
    }

    /// What decides its bits, the weights aside.
    #[must_use]
    pub fn spec(&self) -> &SparseSpec {
        &self.spec
    }

    fn plan(&self) -> InputPlan {
        let SparseSpec { connections, length, polarity, layer, .. } = &self.spec;
        InputPlan { n_inputs: connections.n_inputs(), length: *length, polarity: *polarity, layer: *layer }
    }

    /// The counts of one sample, one per neuron.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where there is not one value per input, [`Error::OutOfRange`] with the first value outside the
    /// interval of the polarity.
    pub fn counts(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<u64>> {
        self.plan().one_sample(values)?;
        self.counts_batch(values, seed)
    }

    /// The counts of a batch, row-major of samples by neurons; `values` are samples by inputs.
    ///
    /// # Errors
    /// [`Error::Ragged`] where the values are not whole samples, [`Error::OutOfRange`] with the first value outside the
    /// interval of the polarity, [`Error::TooLarge`] past 2^32 samples, [`Error::Memory`] where the counts do not fit.
    pub fn counts_batch(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<u64>> {
        let SparseSpec { connections, length, polarity, .. } = &self.spec;
        self.plan().count(values, seed.into(), |cpu, inputs, address| {
            cpu.sparse_counts_of(connections, *length, *polarity, &self.streams, inputs, address)
        })
    }

    /// The counts of streams encoded before, row-major of samples by neurons; see [`super::encode_inputs`].
    ///
    /// # Errors
    /// [`Error::Mismatch`] where the streams have another length, [`Error::Ragged`] where they are not whole samples,
    /// [`Error::DirtyTail`] where one has been given ones past its length, [`Error::Memory`] where the counts do not fit.
    pub fn counts_encoded(&self, inputs: &StreamMatrix) -> Result<Vec<u64>> {
        let SparseSpec { connections, length, polarity, .. } = &self.spec;
        let inputs = self.plan().encoded(inputs)?;
        Ok(Cpu::current()?.sparse_counts(connections, *length, *polarity, &self.streams, inputs)?)
    }

    /// The values of [`Self::counts`].
    ///
    /// # Errors
    /// As [`Self::counts`].
    pub fn forward(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<f64>> {
        Ok(self.decode(&self.counts(values, seed)?))
    }

    /// The values of [`Self::counts_batch`].
    ///
    /// # Errors
    /// As [`Self::counts_batch`].
    pub fn forward_batch(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<f64>> {
        Ok(self.decode(&self.counts_batch(values, seed)?))
    }

    /// The values of counts, row-major of samples by neurons.
    #[must_use]
    pub fn decode(&self, counts: &[u64]) -> Vec<f64> {
        let SparseSpec { connections, length, polarity, .. } = &self.spec;
        let neurons = (0..connections.n_neurons()).cycle();
        let connected = neurons.map(|neuron| connections.inputs_of(neuron).len());
        counts.iter().zip(connected).map(|(&count, n)| polarity.decode(count, n, *length)).collect()
    }
}

impl fmt::Debug for SparseLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SparseLayer").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// Checks that weights and their streams would fit, before either is made.
fn check_memory(spec: &SparseSpec) -> aleatron_core::Result<()> {
    let bytes = spec.connections.len() as u128 * (8 + spec.length.words() as u128 * 8);
    memory::check(bytes, Quantity::Weights)
}
