//! Networks of dense layers, in floating point and as streams.
//!
//! A [`Network`] is what was trained: features are shifted and scaled, and each [`Layer`] multiplies, adds its bias and
//! applies its activation. [`Network::forward`] does that in floating point. [`Network::to_streams`] prepares the same
//! network as a circuit runs it: each layer encodes its inputs as streams of one length, counts, and turns the counts back
//! into binary, where bias, scale and activation apply and the next layer's inputs saturate. [`mod@file`] says how
//! networks are saved.
//!
//! ```
//! use aleatron::network::{Generator, Network};
//! use aleatron_core::Length;
//!
//! let network = Network::digits_noise_aware()?;
//! let digits = aleatron::data::Dataset::digits_test();
//! let sample = &digits.features()[..64];
//! let float = network.forward(sample)?;
//! let streams = network.to_streams(Length::new(32)?, &Generator::Bernoulli { seed: 7 })?;
//! assert_eq!(streams.forward(sample, 0)?.scores.len(), float.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
pub mod file;
mod layer;
mod stream;

pub use error::{NetworkError, Parameter};
pub use layer::{Activation, Layer};
pub use stream::{Generator, LayerError, StreamNetwork, StreamOutput};

use crate::Result;

/// How features become the inputs of the first layer: `x = (feature - offset) / scale`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureMap {
    /// The feature that becomes 0.
    pub offset: f64,
    /// The distance from it that becomes 1.
    pub scale: f64,
}

impl FeatureMap {
    /// Features as they are.
    pub const IDENTITY: Self = Self { offset: 0.0, scale: 1.0 };

    /// The input a feature becomes.
    #[inline]
    #[must_use]
    pub fn apply(self, feature: f64) -> f64 {
        (feature - self.offset) / self.scale
    }
}

/// A network of dense layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    name: String,
    input: FeatureMap,
    layers: Vec<Layer>,
}

impl Network {
    /// A network of `layers`, the first of which gets the features as `input` maps them.
    ///
    /// # Errors
    /// [`NetworkError`] with the layer, and where there is one the index, of the first thing that is wrong: no layers, sizes
    /// that do not fit, weights that are NaN or larger than their scale, scales that are not positive, repeated names.
    pub fn new(name: impl Into<String>, input: FeatureMap, layers: Vec<Layer>) -> Result<Self> {
        let Some(first) = layers.first() else { return Err(NetworkError::Empty.into()) };
        let fault = |what, value| {
            Err(NetworkError::Parameter { layer: 0, name: first.name().to_owned(), what, value }.into())
        };
        if !input.offset.is_finite() {
            return fault(Parameter::FeatureOffset, input.offset);
        }
        if !(input.scale > 0.0 && input.scale.is_finite()) {
            return fault(Parameter::FeatureScale, input.scale);
        }
        for (k, layer) in layers.iter().enumerate() {
            layer.check(k)?;
            let before = k.checked_sub(1).map_or(layer.n_inputs(), |before| layers[before].n_neurons());
            let name = layer.name().to_owned();
            if before != layer.n_inputs() {
                let (expected, actual) = (before, layer.n_inputs());
                return Err(NetworkError::Chain { layer: k, name, expected, actual }.into());
            }
            if let Some(first) = layers[..k].iter().position(|earlier| earlier.name() == layer.name()) {
                return Err(NetworkError::RepeatedName { first, second: k, name }.into());
            }
        }
        Ok(Self { name: name.into(), input, layers })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How features become inputs.
    #[must_use]
    pub fn input(&self) -> FeatureMap {
        self.input
    }

    /// The layers.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The features of a sample.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.layers.first().map_or(0, Layer::n_inputs)
    }

    /// The scores of a sample.
    #[must_use]
    pub fn n_classes(&self) -> usize {
        self.layers.last().map_or(0, Layer::n_neurons)
    }

    /// The products of one sample, over all layers.
    #[must_use]
    pub fn products(&self) -> usize {
        self.layers.iter().map(|layer| layer.weights().len()).sum()
    }

    /// The scores in floating point, samples one after the other.
    ///
    /// # Errors
    /// [`NetworkError::Ragged`] where `features` are not whole samples, [`NetworkError::Feature`] for one that is not finite.
    pub fn forward(&self, features: &[f64]) -> Result<Vec<f64>> {
        self.check_samples(features, [f64::MIN, f64::MAX])?;
        let score = |sample: &[f64]| {
            let inputs = sample.iter().map(|&feature| self.input.apply(feature)).collect();
            self.layers.iter().fold(inputs, |inputs: Vec<f64>, layer| layer.forward(&inputs))
        };
        Ok(features.chunks_exact(self.n_features()).flat_map(score).collect())
    }

    /// The same network with every hidden layer's input scale set to the largest input it gets from these samples, so that
    /// streams use their whole interval and saturate only past it. Features must be those of training, not of the test.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn calibrated(&self, features: &[f64]) -> Result<Self> {
        self.check_samples(features, [f64::MIN, f64::MAX])?;
        let mut largest = vec![0.0_f64; self.layers.len()];
        for sample in features.chunks_exact(self.n_features()) {
            let mut inputs: Vec<f64> = sample.iter().map(|&feature| self.input.apply(feature)).collect();
            for (layer, largest) in self.layers.iter().zip(&mut largest) {
                *largest = inputs.iter().fold(*largest, |largest, x| largest.max(x.abs()));
                inputs = layer.forward(&inputs);
            }
        }
        let scaled = self.layers.iter().zip(largest).enumerate().map(|(k, (layer, largest))| {
            if k == 0 || largest == 0.0 { layer.clone() } else { layer.clone().with_input_scale(largest) }
        });
        Self::new(self.name.clone(), self.input, scaled.collect())
    }

    /// Checks that `features` are whole samples of values within bounds, and gives the number of samples.
    fn check_samples(&self, features: &[f64], [low, high]: [f64; 2]) -> Result<usize> {
        let n = self.n_features();
        if !features.len().is_multiple_of(n) {
            return Err(NetworkError::Ragged { values: features.len(), features: n }.into());
        }
        match features.iter().position(|feature| !(low..=high).contains(feature)) {
            Some(index) => {
                let (sample, feature, value) = (index / n, index % n, features[index]);
                Err(NetworkError::Feature { sample, feature, value, low, high }.into())
            }
            None => Ok(features.len() / n),
        }
    }
}

/// The index of the greatest score, the first of equals; 0 for none.
#[must_use]
pub fn top_class(scores: &[f64]) -> usize {
    let better = |best: usize, (k, score): (usize, &f64)| if *score > scores[best] { k } else { best };
    scores.iter().enumerate().fold(0, better)
}
