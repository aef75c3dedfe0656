//! The dense layer: every neuron sees every input.

use super::InputPlan;
use crate::{Result, SampleSeed};
use aleatron_core::threshold::thresholds;
use aleatron_core::{
    DenseShape, Error, LayerIndex, Length, Polarity, Quantity, StreamAddress, StreamMatrix, memory,
};
use aleatron_cpu::{Cpu, WordBuffer};
use std::fmt;

/// Everything but the weights that decides a dense layer's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DenseSpec {
    /// Inputs, neurons, length and polarity.
    pub shape: DenseShape,
    /// The seed of the weight streams (and of random weights).
    pub seed: u64,
    /// The layer's place in a network; [`LayerIndex::ALONE`] by itself.
    pub layer: LayerIndex,
}

/// A dense layer of stochastic neurons.
///
/// Its weight streams are drawn once and kept. A call draws the input streams of its seed and counts; the same seed
/// gives the same bits, whatever the tier, the threads or the batch.
pub struct DenseLayer {
    spec: DenseSpec,
    weights: Vec<f64>,
    streams: WordBuffer,
    ones: Vec<u64>,
}

impl DenseLayer {
    /// A unipolar layer on its own with the random weights of `seed`.
    ///
    /// # Errors
    /// [`Error::Zero`] for a size of 0, [`Error::Memory`] with the bytes the layer would take where it does not fit.
    pub fn new(n_inputs: usize, n_neurons: usize, length: usize, seed: u64) -> Result<Self> {
        let shape = DenseShape::new(n_inputs, n_neurons, Length::new(length)?, Polarity::Unipolar)?;
        Self::random(DenseSpec { shape, seed, layer: LayerIndex::ALONE })
    }

    /// A layer with the random weights of its seed: uniform in [0, 1), or in [-1, 1) for a bipolar one.
    ///
    /// # Errors
    /// [`Error::Memory`] with the bytes the layer would take where it does not fit.
    pub fn random(spec: DenseSpec) -> Result<Self> {
        let shape = &spec.shape;
        let mut layer = Self::allocate(spec)?;
        layer.weights.resize(shape.n_weights(), 0.0);
        let (polarity, n_inputs) = (shape.polarity(), shape.n_inputs());
        Cpu::current()?.random_weights(spec.seed, spec.layer, polarity, n_inputs, &mut layer.weights);
        layer.encode()?;
        Ok(layer)
    }

    /// A layer with the given weights, row-major of neurons by inputs.
    ///
    /// ```
    /// use aleatron::{DenseLayer, DenseShape, LayerIndex, Length, Polarity, layer::DenseSpec};
    /// let shape = DenseShape::new(2, 1, Length::new(4096)?, Polarity::Bipolar)?;
    /// let spec = DenseSpec { shape, seed: 1, layer: LayerIndex::ALONE };
    /// let layer = DenseLayer::from_weights(spec, &[0.5, -1.0])?;
    /// let y = layer.forward(&[-0.5, 0.25], 2)?[0]; // about 0.5 * -0.5 + -1.0 * 0.25
    /// assert!((y + 0.5).abs() < 0.1);
    /// # Ok::<(), aleatron::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Mismatch`] where there is not one weight per neuron and input, [`Error::OutOfRange`] with the first
    /// weight outside the interval of the polarity, [`Error::Memory`] where the layer does not fit.
    pub fn from_weights(spec: DenseSpec, weights: &[f64]) -> Result<Self> {
        check_weights(&spec.shape, weights)?;
        let mut layer = Self::allocate(spec)?;
        layer.weights.extend_from_slice(weights);
        layer.encode()?;
        Ok(layer)
    }

    /// A layer without weights yet, all its memory taken.
    fn allocate(spec: DenseSpec) -> Result<Self> {
        let shape = &spec.shape;
        let (n_weights, what) = (shape.n_weights() as u128, Quantity::Weights);
        memory::check(n_weights * 8 + shape.weight_bytes() as u128, what)?;
        let weights = memory::with_capacity(n_weights, what)?;
        let streams = WordBuffer::zeroed(shape.weight_words(), what)?;
        Ok(Self { spec, weights, streams, ones: Vec::new() })
    }

    /// Draws the weight streams, a neuron at a time so that thresholds take no memory to speak of.
    fn encode(&mut self) -> Result<()> {
        let DenseSpec { shape, seed, layer } = self.spec;
        let cpu = Cpu::current()?;
        let rows_per_piece = (super::PIECE_WORDS / shape.row_words()).max(1);
        let pieces = self.weights.chunks(rows_per_piece * shape.n_inputs());
        let outs = self.streams.chunks_mut(rows_per_piece * shape.row_words());
        let neurons = (0..=u32::MAX).step_by(rows_per_piece);
        for ((weights, out), neuron) in pieces.zip(outs).zip(neurons) {
            let thresholds = thresholds(weights, shape.polarity(), Quantity::Weight)?;
            let address = StreamAddress::weight(seed, 0, neuron).in_layer(layer);
            cpu.encode_rows_into(&thresholds, shape.n_inputs(), shape.length(), address, out)?;
        }
        self.ones = cpu.row_ones(&self.streams, shape.row_words());
        Ok(())
    }

    /// Replaces all weights, row-major of neurons by inputs. On an error the old ones stay.
    ///
    /// # Errors
    /// As [`Self::from_weights`].
    pub fn set_weights(&mut self, weights: &[f64]) -> Result<()> {
        check_weights(&self.spec.shape, weights)?;
        self.weights.copy_from_slice(weights);
        self.encode()
    }

    /// The weights, row-major of neurons by inputs.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The packed weight streams, row-major of neurons by inputs.
    #[must_use]
    pub fn weight_streams(&self) -> &[u64] {
        &self.streams
    }

    /// What decides its bits, the weights aside.
    #[must_use]
    pub fn spec(&self) -> &DenseSpec {
        &self.spec
    }

    /// Inputs, neurons, length and polarity.
    #[must_use]
    pub fn shape(&self) -> &DenseShape {
        &self.spec.shape
    }

    fn plan(&self) -> InputPlan {
        let shape = &self.spec.shape;
        InputPlan {
            n_inputs: shape.n_inputs(),
            length: shape.length(),
            polarity: shape.polarity(),
            layer: self.spec.layer,
        }
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
        self.plan().count(values, seed.into(), |cpu, inputs, address| {
            cpu.dense_counts_of(&self.spec.shape, &self.streams, &self.ones, inputs, address)
        })
    }

    /// The counts of streams encoded before, row-major of samples by neurons; see [`super::encode_inputs`].
    ///
    /// # Errors
    /// [`Error::Mismatch`] where the streams have another length, [`Error::Ragged`] where they are not whole samples,
    /// [`Error::DirtyTail`] where one has been given ones past its length, [`Error::Memory`] where the counts do not fit.
    pub fn counts_encoded(&self, inputs: &StreamMatrix) -> Result<Vec<u64>> {
        let inputs = self.plan().encoded(inputs)?;
        Ok(Cpu::current()?.dense_counts(&self.spec.shape, &self.streams, &self.ones, inputs)?)
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

    /// The values of [`Self::counts_encoded`].
    ///
    /// # Errors
    /// As [`Self::counts_encoded`].
    pub fn forward_encoded(&self, inputs: &StreamMatrix) -> Result<Vec<f64>> {
        Ok(self.decode(&self.counts_encoded(inputs)?))
    }

    /// The values of counts.
    #[must_use]
    pub fn decode(&self, counts: &[u64]) -> Vec<f64> {
        counts.iter().map(|&count| self.spec.shape.decode(count)).collect()
    }
}

impl fmt::Debug for DenseLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenseLayer").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// Checks weights before anything is replaced or allocated.
fn check_weights(shape: &DenseShape, weights: &[f64]) -> aleatron_core::Result<()> {
    let (expected, actual) = (shape.n_weights(), weights.len());
    if expected != actual {
        return Err(Error::Mismatch { what: Quantity::Weights, expected, actual });
    }
    shape.polarity().check(weights, Quantity::Weight)
}
