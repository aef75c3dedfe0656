//! The dense layer: every neuron sees every input.

use super::{InputPlan, PIECE_WORDS};
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
        UnfinishedLayer::random(spec)?.finish()
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
        UnfinishedLayer::from_weights(spec, weights)?.finish()
    }

    /// A layer without weights yet, all its memory taken.
    fn allocate(spec: DenseSpec) -> Result<Self> {
        let shape = &spec.shape;
        let (n_weights, what) = (shape.n_weights() as u128, Quantity::Weights);
        memory::check(n_weights * 8 + shape.weight_bytes() as u128, what)?;
        let weights = memory::with_capacity(n_weights, what)?;
        let streams = WordBuffer::zeroed(shape.weight_words(), what)?;
        let ones = memory::zeros(shape.n_neurons() as u128, what)?;
        Ok(Self { spec, weights, streams, ones })
    }

    /// Draws the weight streams of some neurons from `first` on, few enough that thresholds take no memory to speak of; the
    /// neuron after them.
    fn draw(&mut self, first: usize) -> Result<usize> {
        let DenseSpec { shape, seed, layer } = self.spec;
        let (n_inputs, row_words) = (shape.n_inputs(), shape.row_words());
        let last = shape.n_neurons().min(first + (PIECE_WORDS / row_words).max(1));
        let out = &mut self.streams[first * row_words..last * row_words];
        let weights = &self.weights[first * n_inputs..last * n_inputs];
        let thresholds = thresholds(weights, shape.polarity(), Quantity::Weight)?;
        let address = StreamAddress::weight(seed, 0, first as u32).in_layer(layer);
        let cpu = Cpu::current()?;
        cpu.encode_rows_into(&thresholds, n_inputs, shape.length(), address, out)?;
        self.ones[first..last].copy_from_slice(&cpu.row_ones(out, row_words));
        Ok(last)
    }

    /// Replaces all weights, row-major of neurons by inputs. On an error the old ones stay.
    ///
    /// # Errors
    /// As [`Self::from_weights`].
    pub fn set_weights(&mut self, weights: &[f64]) -> Result<()> {
        check_weights(&self.spec.shape, weights)?;
        self.weights.copy_from_slice(weights);
        let mut drawn = 0;
        while drawn < self.spec.shape.n_neurons() {
            drawn = self.draw(drawn)?;
        }
        Ok(())
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

/// A dense layer that is drawn piece by piece, for callers who have something else to look after meanwhile.
///
/// ```
/// use aleatron::layer::{DenseSpec, UnfinishedLayer};
/// use aleatron::{DenseLayer, DenseShape, LayerIndex, Length, Polarity};
/// let shape = DenseShape::new(40, 20, Length::new(4096)?, Polarity::Unipolar)?;
/// let spec = DenseSpec { shape, seed: 1, layer: LayerIndex::ALONE };
/// let mut layer = UnfinishedLayer::random(spec)?;
/// while layer.neurons_left() > 0 {
///     layer.draw()?; // some milliseconds
/// }
/// assert_eq!(layer.finish()?.weight_streams(), DenseLayer::random(spec)?.weight_streams());
/// # Ok::<(), aleatron::Error>(())
/// ```
#[derive(Debug)]
pub struct UnfinishedLayer {
    layer: DenseLayer,
    drawn: usize,
}

impl UnfinishedLayer {
    /// Starts a layer as [`DenseLayer::random`] makes it.
    ///
    /// # Errors
    /// As there.
    pub fn random(spec: DenseSpec) -> Result<Self> {
        let shape = &spec.shape;
        let mut layer = DenseLayer::allocate(spec)?;
        layer.weights.resize(shape.n_weights(), 0.0);
        let (polarity, n_inputs) = (shape.polarity(), shape.n_inputs());
        Cpu::current()?.random_weights(spec.seed, spec.layer, polarity, n_inputs, &mut layer.weights);
        Ok(Self { layer, drawn: 0 })
    }

    /// Starts a layer as [`DenseLayer::from_weights`] makes it.
    ///
    /// # Errors
    /// As there.
    pub fn from_weights(spec: DenseSpec, weights: &[f64]) -> Result<Self> {
        check_weights(&spec.shape, weights)?;
        let mut layer = DenseLayer::allocate(spec)?;
        layer.weights.extend_from_slice(weights);
        Ok(Self { layer, drawn: 0 })
    }

    /// The neurons whose weights are yet to be drawn.
    #[must_use]
    pub fn neurons_left(&self) -> usize {
        self.layer.spec.shape.n_neurons() - self.drawn
    }

    /// Draws the weights of a few more neurons, if there are any.
    ///
    /// # Errors
    /// [`Error::Memory`] where there is not enough for that.
    pub fn draw(&mut self) -> Result<()> {
        if self.neurons_left() > 0 {
            self.drawn = self.layer.draw(self.drawn)?;
        }
        Ok(())
    }

    /// Draws what is left.
    ///
    /// # Errors
    /// As [`Self::draw`].
    pub fn finish(mut self) -> Result<DenseLayer> {
        while self.neurons_left() > 0 {
            self.draw()?;
        }
        Ok(self.layer)
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
