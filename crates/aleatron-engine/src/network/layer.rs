//! One layer of a network, as numbers: what is encoded, and the scales that keep the books.

use super::node::is_sequence;
use super::products::sums;
use crate::Result;
use crate::error::{Error, Parameter};
use aleatron_core::arithmetic::{Activation, FloatStage, Pool, PoolShape};
use aleatron_core::{ConvShape, Error as CoreError, Polarity, Quantity, Topology};

/// A dense layer or a convolution, and the pools behind it. With weights W, biases b and inputs x in the network's own units, a circuit holds `W / weight_scale`
/// and encodes `x / input_scale`, both in the interval of the polarity; a sum v of products then stands for
/// `z = v * input_scale * weight_scale + b`, and the layer's output is the activation of z, or what the pools make of it.
///
/// ```
/// use aleatron_engine::network::{Activation, Layer};
/// let layer = Layer::new("hidden", 2, vec![0.5, -2.0, 1.0, 0.25, 0.0, 0.5])
///     .with_bias(vec![0.0, 0.1, -0.1])
///     .with_activation(Activation::Relu);
/// assert_eq!(layer.n_neurons(), 3);
/// assert_eq!(layer.weight_scale(), 2.0);
/// ```
///
/// ```
/// use aleatron_core::arithmetic::{Pool, PoolKind};
/// use aleatron_engine::network::Layer;
/// use aleatron_core::{ConvShape, Convolution};
/// let shape = ConvShape::new(Convolution::conv2d([1, 8, 8], 4, [3, 3]))?;
/// let layer = Layer::convolution("edges", shape, vec![0.1; 36]).with_pool(Pool::new(PoolKind::Max, [2, 2]))?;
/// assert_eq!(layer.output_shape(), [4, 3, 3]);
/// # Ok::<(), aleatron_engine::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    name: String,
    kind: Kind,
    weights: Vec<f64>,
    bias: Vec<f64>,
    polarity: Polarity,
    input_scale: f64,
    weight_scale: f64,
    activation: Activation,
    pools: Vec<PoolShape>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a layer has one, and a shape is numbers alone")]
enum Kind {
    /// As many neurons as there are biases.
    Dense {
        n_inputs: usize,
    },
    Conv(ConvShape),
}

impl Layer {
    /// A bipolar layer with the given weights, row-major by neuron: no bias, inputs of scale 1, weights scaled by the
    /// largest of them, no activation. Values are checked when the layer becomes part of a [`Network`](super::Network).
    #[must_use]
    pub fn new(name: impl Into<String>, n_inputs: usize, weights: Vec<f64>) -> Self {
        let n_neurons = weights.len().checked_div(n_inputs).unwrap_or(0);
        Self::of_kind(name.into(), Kind::Dense { n_inputs }, weights, n_neurons)
    }

    /// A bipolar convolution with the given weights, by output channel, channel of its group, row and column, and otherwise as
    /// [`Self::new`]. Biases are those of output channels.
    #[must_use]
    pub fn convolution(name: impl Into<String>, shape: ConvShape, weights: Vec<f64>) -> Self {
        Self::of_kind(name.into(), Kind::Conv(shape), weights, shape.n_channels())
    }

    fn of_kind(name: String, kind: Kind, weights: Vec<f64>, n_rows: usize) -> Self {
        let largest = weights.iter().fold(0.0_f64, |largest, w| largest.max(w.abs()));
        Self {
            name,
            kind,
            weights,
            bias: vec![0.0; n_rows],
            polarity: Polarity::Bipolar,
            input_scale: 1.0,
            weight_scale: if largest > 0.0 { largest } else { 1.0 },
            activation: Activation::Identity,
            pools: Vec::new(),
        }
    }

    /// With these biases, one per neuron or output channel, added in binary.
    #[must_use]
    pub fn with_bias(self, bias: Vec<f64>) -> Self {
        Self { bias, ..self }
    }

    /// With streams of this polarity.
    #[must_use]
    pub fn with_polarity(self, polarity: Polarity) -> Self {
        Self { polarity, ..self }
    }

    /// With inputs divided by this before they are encoded; what then lies outside the interval saturates.
    #[must_use]
    pub fn with_input_scale(self, input_scale: f64) -> Self {
        Self { input_scale, ..self }
    }

    /// With weights divided by this before they are encoded.
    #[must_use]
    pub fn with_weight_scale(self, weight_scale: f64) -> Self {
        Self { weight_scale, ..self }
    }

    /// With this activation.
    #[must_use]
    pub fn with_activation(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    /// With its outputs, images of the output channels, pooled in binary, after the activation and the pools that are there.
    ///
    /// # Errors
    /// [`Error::NotAnImage`] for a dense layer, and as [`PoolShape::new`].
    pub fn with_pool(mut self, pool: Pool) -> Result<Self> {
        let image = self.output_image().ok_or_else(|| Error::NotAnImage { name: self.name.clone() })?;
        self.pools.push(PoolShape::new(pool, image)?);
        Ok(self)
    }

    /// The name, which is also that of its tensors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which inputs each neuron sees.
    #[must_use]
    pub fn topology(&self) -> Topology {
        match self.kind {
            Kind::Dense { n_inputs } => Topology::Dense { n_inputs, n_neurons: self.bias.len() },
            Kind::Conv(shape) => Topology::Conv(shape),
        }
    }

    /// The convolution; `None` for a dense layer.
    #[must_use]
    pub fn conv_shape(&self) -> Option<&ConvShape> {
        match &self.kind {
            Kind::Dense { .. } => None,
            Kind::Conv(shape) => Some(shape),
        }
    }

    /// The pools behind the activation, in their order.
    #[must_use]
    pub fn pools(&self) -> &[PoolShape] {
        &self.pools
    }

    /// The number of inputs.
    #[must_use]
    pub fn n_inputs(&self) -> usize {
        match &self.kind {
            Kind::Dense { n_inputs } => *n_inputs,
            Kind::Conv(shape) => shape.n_inputs(),
        }
    }

    /// The number of neurons: sums of products, one for each count.
    #[must_use]
    pub fn n_neurons(&self) -> usize {
        match &self.kind {
            Kind::Dense { .. } => self.bias.len(),
            Kind::Conv(shape) => shape.n_outputs(),
        }
    }

    /// The number of outputs: the neurons, or what the pools leave of them.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.pools.last().map_or_else(|| self.n_neurons(), PoolShape::n_outputs)
    }

    /// The shape of a sample: inputs, or channels, rows and columns.
    #[must_use]
    pub fn input_shape(&self) -> Vec<usize> {
        match &self.kind {
            Kind::Dense { n_inputs } => vec![*n_inputs],
            Kind::Conv(shape) => shape.convolution().input.to_vec(),
        }
    }

    /// The shape of the outputs of a sample: neurons, or channels, rows and columns.
    #[must_use]
    pub fn output_shape(&self) -> Vec<usize> {
        self.output_image().map_or_else(|| vec![self.n_neurons()], |image| image.to_vec())
    }

    fn output_image(&self) -> Option<[usize; 3]> {
        match (self.pools.last(), &self.kind) {
            (Some(pool), _) => Some(pool.output()),
            (None, Kind::Conv(shape)) => Some(shape.output()),
            (None, Kind::Dense { .. }) => None,
        }
    }

    /// The weights, row-major by neuron, or by output channel and tap.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The shape of the weights: neurons and inputs, or output channels, channels of a group, rows and columns, without rows where the
    /// convolution is along one axis.
    #[must_use]
    pub fn weight_shape(&self) -> Vec<usize> {
        match &self.kind {
            Kind::Dense { n_inputs } => vec![self.bias.len(), *n_inputs],
            Kind::Conv(shape) => {
                let [height, width] = shape.convolution().kernel;
                let kernels = [shape.n_channels(), shape.group_inputs()];
                match is_sequence(shape) {
                    true => [&kernels[..], &[width]].concat(),
                    false => [&kernels[..], &[height, width]].concat(),
                }
            }
        }
    }

    /// The biases, one per neuron or output channel.
    #[must_use]
    pub fn bias(&self) -> &[f64] {
        &self.bias
    }

    /// The polarity of its streams.
    #[must_use]
    pub fn polarity(&self) -> Polarity {
        self.polarity
    }

    /// What inputs are divided by before they are encoded.
    #[must_use]
    pub fn input_scale(&self) -> f64 {
        self.input_scale
    }

    /// What weights are divided by before they are encoded.
    #[must_use]
    pub fn weight_scale(&self) -> f64 {
        self.weight_scale
    }

    /// The activation.
    #[must_use]
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// The weights as they are encoded.
    #[must_use]
    pub fn encoded_weights(&self) -> Vec<f64> {
        self.weights.iter().map(|w| w / self.weight_scale).collect()
    }

    /// What happens to the layer's sums in binary.
    #[must_use]
    pub fn stage(&self) -> FloatStage {
        let scale = self.input_scale * self.weight_scale;
        FloatStage { scale, bias: self.bias.clone(), activation: self.activation }
    }

    /// The outputs for inputs in the network's units, one sample, in floating point.
    pub(super) fn forward(&self, inputs: &[f64]) -> Result<Vec<f64>> {
        let mut values = sums(&self.topology(), &self.weights, inputs)?;
        let per_bias = (values.len() / self.bias.len().max(1)).max(1);
        for (values, bias) in values.chunks_mut(per_bias).zip(&self.bias) {
            values.iter_mut().for_each(|value| *value = self.activation.apply(*value + bias));
        }
        self.pooled(values)
    }

    /// What the pools make of activations, of whole samples.
    pub(super) fn pooled(&self, values: Vec<f64>) -> Result<Vec<f64>> {
        Ok(self.pools.iter().try_fold(values, |values, pool| pool.floats(&values))?)
    }

    /// The same in integers.
    pub(super) fn pooled_integers(&self, values: Vec<i64>) -> Result<Vec<i64>> {
        Ok(self.pools.iter().try_fold(values, |values, pool| pool.integers(&values))?)
    }

    /// Everything about the layer alone that could be wrong.
    pub(super) fn check(&self, layer: usize) -> Result<()> {
        let name = || self.name.clone();
        let fault = |source: CoreError| Error::Layer { layer, name: name(), source: Box::new(source.into()) };
        let parameter = |what, value| Err(Error::Parameter { layer, name: name(), what, value });
        if self.n_inputs() == 0 {
            return Err(fault(CoreError::Zero(Quantity::Inputs)));
        }
        if self.bias.is_empty() {
            return Err(fault(CoreError::Zero(Quantity::Neurons)));
        }
        let (expected, actual) = match &self.kind {
            Kind::Dense { .. } => (self.bias.len(), self.bias.len()),
            Kind::Conv(shape) => (shape.n_channels(), self.bias.len()),
        };
        if expected != actual {
            return Err(fault(CoreError::Mismatch { what: Quantity::Bias, expected, actual }));
        }
        if let Kind::Conv(shape) = &self.kind {
            let (expected, actual) = (shape.convolution().out_channels, shape.n_channels());
            if expected != actual {
                return Err(fault(CoreError::Mismatch { what: Quantity::Channels, expected, actual }));
            }
        }
        let expected = match &self.kind {
            Kind::Dense { n_inputs } => n_inputs.saturating_mul(self.bias.len()),
            Kind::Conv(shape) => shape.n_weights(),
        };
        let actual = self.weights.len();
        if expected != actual {
            return Err(fault(CoreError::Mismatch { what: Quantity::Weights, expected, actual }));
        }
        for (what, scale) in
            [(Parameter::InputScale, self.input_scale), (Parameter::WeightScale, self.weight_scale)]
        {
            if !(scale > 0.0 && scale.is_finite()) {
                return parameter(what, scale);
            }
        }
        let product = self.input_scale * self.weight_scale;
        if !(product > 0.0 && product.is_finite()) {
            return parameter(Parameter::ScaleProduct, product);
        }
        let [low, high] = self.polarity.interval().map(|bound| bound * self.weight_scale);
        if let Some(index) = self.weights.iter().position(|w| !(low..=high).contains(w)) {
            let (what, value) = (Quantity::Weight, self.weights[index]);
            return Err(fault(CoreError::OutOfRange { what, index, value, low, high }));
        }
        if let Some(neuron) = self.bias.iter().position(|bias| !bias.is_finite()) {
            return parameter(Parameter::Bias { neuron }, self.bias[neuron]);
        }
        match self.activation {
            Activation::Clamp { low, .. } if !low.is_finite() => parameter(Parameter::ActivationBound, low),
            Activation::Clamp { high, .. } if !high.is_finite() => {
                parameter(Parameter::ActivationBound, high)
            }
            Activation::Clamp { low, high } if low > high => parameter(Parameter::ActivationBound, low),
            _ => Ok(()),
        }
    }
}
