//! One dense layer of a network, as numbers: what is encoded, and the scales that keep the books.

use crate::Result;
use crate::error::{Error, Parameter};
use aleatron_core::arithmetic::{Activation, FloatStage};
use aleatron_core::{Error as CoreError, Polarity, Quantity};

/// A dense layer. With weights W, biases b and inputs x in the network's own units, a circuit holds `W / weight_scale`
/// and encodes `x / input_scale`, both in the interval of the polarity; a sum v of products then stands for
/// `z = v * input_scale * weight_scale + b`, and the layer's output is the activation of z.
///
/// ```
/// use aleatron::network::{Activation, Layer};
/// let layer = Layer::new("hidden", 2, vec![0.5, -2.0, 1.0, 0.25, 0.0, 0.5])
///     .with_bias(vec![0.0, 0.1, -0.1])
///     .with_activation(Activation::Relu);
/// assert_eq!(layer.n_neurons(), 3);
/// assert_eq!(layer.weight_scale(), 2.0);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    name: String,
    n_inputs: usize,
    weights: Vec<f64>,
    bias: Vec<f64>,
    polarity: Polarity,
    input_scale: f64,
    weight_scale: f64,
    activation: Activation,
}

impl Layer {
    /// A bipolar layer with the given weights, row-major by neuron: no bias, inputs of scale 1, weights scaled by the
    /// largest of them, no activation. Values are checked when the layer becomes part of a [`Network`](super::Network).
    #[must_use]
    pub fn new(name: impl Into<String>, n_inputs: usize, weights: Vec<f64>) -> Self {
        let largest = weights.iter().fold(0.0_f64, |largest, w| largest.max(w.abs()));
        let n_neurons = weights.len().checked_div(n_inputs).unwrap_or(0);
        Self {
            name: name.into(),
            n_inputs,
            weights,
            bias: vec![0.0; n_neurons],
            polarity: Polarity::Bipolar,
            input_scale: 1.0,
            weight_scale: if largest > 0.0 { largest } else { 1.0 },
            activation: Activation::Identity,
        }
    }

    /// With these biases, one per neuron, added in binary.
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

    /// The name, which is also that of its tensors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of inputs.
    #[must_use]
    pub fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    /// The number of neurons.
    #[must_use]
    pub fn n_neurons(&self) -> usize {
        self.bias.len()
    }

    /// The weights, row-major by neuron.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The biases.
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
    pub(super) fn forward(&self, inputs: &[f64]) -> Vec<f64> {
        let sums = self.weights.chunks_exact(self.n_inputs).zip(&self.bias);
        sums.map(|(row, bias)| {
            let sum: f64 = row.iter().zip(inputs).map(|(w, x)| w * x).sum();
            self.activation.apply(sum + bias)
        })
        .collect()
    }

    /// Everything about the layer alone that could be wrong.
    pub(super) fn check(&self, layer: usize) -> Result<()> {
        let name = || self.name.clone();
        let fault = |source: CoreError| Error::Layer { layer, name: name(), source: Box::new(source.into()) };
        let parameter = |what, value| Err(Error::Parameter { layer, name: name(), what, value });
        if self.n_inputs == 0 {
            return Err(fault(CoreError::Zero(Quantity::Inputs)));
        }
        if self.bias.is_empty() {
            return Err(fault(CoreError::Zero(Quantity::Neurons)));
        }
        let (expected, actual) = (self.n_inputs.saturating_mul(self.bias.len()), self.weights.len());
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
