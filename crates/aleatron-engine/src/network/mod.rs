//! Networks of dense layers, convolutions and pools, in floating point and as streams.
//!
//! A [`Network`] is what was trained: features are shifted and scaled, and each [`Layer`] multiplies, adds its bias and
//! applies its activation. [`Network::forward`] does that in floating point. [`Network::to_streams`] prepares the same
//! network as a circuit runs it: each layer encodes its inputs as streams, counts, and turns the counts back into binary, where bias,
//! scale and activation apply, in floating point or in integers, and the next layer's inputs saturate. [`mod@file`] says how
//! networks are saved.
//!
//! ```
//! use aleatron_engine::network::{Network, StreamConfig};
//!
//! let network = Network::digits_noise_aware()?;
//! let digits = aleatron_data::Dataset::digits_test();
//! let sample = &digits.features()[..64];
//! let streams = network.to_streams(&StreamConfig::new(32))?;
//! assert_eq!(streams.forward(sample, 0)?.len(), network.forward(sample)?.len());
//! # Ok::<(), aleatron_engine::Error>(())
//! ```

mod config;
pub mod file;
mod layer;
mod node;
mod products;
mod settings_file;
mod stream;

pub use aleatron_core::arithmetic::{Activation, Arithmetic};
pub use config::{FeatureRange, LayerOverride, LayerSettings, StreamConfig};
pub use layer::Layer;
pub use products::each_product;
pub use settings_file::{layers_from_json, layers_to_json, read_layers};
pub use stream::{Detail, IntegerLayer, LayerInputs, LayerOutput, LayerStats, StreamNetwork, StreamOutput};
#[cfg(feature = "graph")]
pub(crate) use stream::{FRACTION_BITS, MULTIPLIER_BITS, comparator};

use crate::Result;
use crate::error::{Error, Parameter};
use aleatron_core::{Cancel, Polarity};

/// How far outside its interval a value may lie and still be taken for rounding, as a share of the interval: numbers that were
/// written with six digits come back off by that much.
const ROUNDING: f64 = 1e-5;

/// Samples between two checks for cancellation.
const PIECE: usize = 64;

/// How features become the inputs of the first layer: `x = (feature - offset) / scale`.
#[derive(Debug, Clone, Copy, PartialEq)]
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

    /// The inputs that features become.
    pub(crate) fn apply_all(self, features: &[f64]) -> Vec<f64> {
        match self {
            Self::IDENTITY => features.to_vec(),
            _ => features.iter().map(|&feature| self.apply(feature)).collect(),
        }
    }
}

/// A network of layers, one after the other. With one output it is a network of two classes: 1 where the score is positive, else 0.
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
    /// The layer, and where there is one the index, of the first thing that is wrong: no layers, sizes that do not fit, weights that are
    /// NaN or larger than their scale, scales that are not positive, repeated names.
    pub fn new(name: impl Into<String>, input: FeatureMap, layers: Vec<Layer>) -> Result<Self> {
        let Some(first) = layers.first() else { return Err(Error::NoLayers) };
        let fault =
            |what, value| Err(Error::Parameter { layer: 0, name: first.name().to_owned(), what, value });
        if !input.offset.is_finite() {
            return fault(Parameter::FeatureOffset, input.offset);
        }
        if !(input.scale > 0.0 && input.scale.is_finite()) {
            return fault(Parameter::FeatureScale, input.scale);
        }
        for (k, layer) in layers.iter().enumerate() {
            layer.check(k)?;
            let name = layer.name().to_owned();
            if let Some(before) = k.checked_sub(1).map(|before| &layers[before]) {
                let (expected, actual) = (before.n_outputs(), layer.n_inputs());
                if expected != actual {
                    return Err(Error::Chain { layer: k, name, expected, actual });
                }
                // A dense layer takes the numbers of an image in their order.
                let (expected, actual) = (before.output_shape(), layer.input_shape());
                if layer.conv_shape().is_some() && expected != actual {
                    return Err(Error::ImageShape { layer: k, name, expected, actual });
                }
            }
            if let Some(first) = layers[..k].iter().position(|earlier| earlier.name() == layer.name()) {
                return Err(Error::RepeatedName { first, second: k, name });
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

    /// The shape of a sample: features, or channels, rows and columns.
    #[must_use]
    pub fn input_shape(&self) -> Vec<usize> {
        self.layers.first().map_or_else(Vec::new, Layer::input_shape)
    }

    /// The same network with streams of another polarity in every layer.
    ///
    /// # Errors
    /// As [`Self::new`]: a unipolar layer has no negative weights.
    pub fn with_polarity(&self, polarity: Polarity) -> Result<Self> {
        let layers = self.layers.iter().map(|layer| layer.clone().with_polarity(polarity));
        Self::new(self.name.clone(), self.input, layers.collect())
    }

    /// The scores of a sample.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.layers.last().map_or(0, Layer::n_outputs)
    }

    /// The classes it tells apart: one per score, or two where there is but one score.
    #[must_use]
    pub fn n_classes(&self) -> usize {
        self.n_outputs().max(2)
    }

    /// The products of one sample, over all layers.
    #[must_use]
    pub fn products(&self) -> usize {
        self.layers.iter().map(|layer| layer.topology().n_products()).sum()
    }

    /// The least and greatest feature that the first layer can encode.
    #[must_use]
    pub fn feature_interval(&self) -> [f64; 2] {
        let Some(first) = self.layers.first() else { return [0.0; 2] };
        let bounds = first.polarity().interval();
        bounds.map(|bound| bound * first.input_scale() * self.input.scale + self.input.offset)
    }

    /// The scores in floating point, samples one after the other.
    ///
    /// # Errors
    /// [`Error::RaggedSamples`] where `features` are not whole samples, [`Error::Feature`] for one that is not finite.
    pub fn forward(&self, features: &[f64]) -> Result<Vec<f64>> {
        self.check_samples(features, FeatureRange::Clip)?;
        let mut scores = Vec::new();
        for sample in features.chunks_exact(self.n_features()) {
            let inputs: Vec<f64> = sample.iter().map(|&feature| self.input.apply(feature)).collect();
            scores.extend(self.layers.iter().try_fold(inputs, |inputs, layer| layer.forward(&inputs))?);
        }
        Ok(scores)
    }

    /// The class of each sample in floating point.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn predict(&self, features: &[f64]) -> Result<Vec<usize>> {
        Ok(self.forward(features)?.chunks_exact(self.n_outputs()).map(top_class).collect())
    }

    /// The same network with every layer's input scale set to the largest input it gets from these samples, so that
    /// streams use their whole interval and saturate only past it. Features must be those of training, not of the test.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn calibrated(&self, features: &[f64]) -> Result<Self> {
        self.calibrated_unless(features, Cancel::NEVER)
    }

    /// As [`Self::calibrated`], unless cancelled on the way.
    ///
    /// # Errors
    /// As [`Self::forward`], and [`aleatron_core::Error::Cancelled`].
    pub fn calibrated_unless(&self, features: &[f64], cancel: Cancel<'_>) -> Result<Self> {
        self.check_samples(features, FeatureRange::Clip)?;
        let mut largest = vec![0.0_f64; self.layers.len()];
        for (k, sample) in features.chunks_exact(self.n_features()).enumerate() {
            if k.is_multiple_of(PIECE) {
                cancel.check()?;
            }
            let mut inputs: Vec<f64> = sample.iter().map(|&feature| self.input.apply(feature)).collect();
            for (layer, largest) in self.layers.iter().zip(&mut largest) {
                *largest = inputs.iter().fold(*largest, |largest, x| largest.max(x.abs()));
                inputs = layer.forward(&inputs)?;
            }
        }
        let scaled = self.layers.iter().zip(largest).map(|(layer, largest)| match largest {
            0.0 => layer.clone(),
            largest => layer.clone().with_input_scale(largest),
        });
        Self::new(self.name.clone(), self.input, scaled.collect())
    }

    /// Whether `features` are whole samples.
    pub(crate) fn are_whole_samples(&self, features: &[f64]) -> bool {
        features.len().is_multiple_of(self.n_features())
    }

    /// The least and the greatest feature.
    fn bounds(&self, range: FeatureRange) -> [f64; 2] {
        match range {
            FeatureRange::Check => self.feature_interval(),
            FeatureRange::Clip => [f64::MIN, f64::MAX],
        }
    }

    /// The least and the greatest feature, and what is taken for rounding.
    pub(crate) fn allowed_features(&self, range: FeatureRange) -> [f64; 2] {
        let [low, high] = self.bounds(range);
        let slack = if high - low < f64::MAX { ROUNDING * (high - low) } else { 0.0 };
        [low - slack, high + slack]
    }

    /// Checks that `features` are whole samples of values within bounds, but for rounding.
    ///
    /// # Errors
    /// [`Error::RaggedSamples`] and [`Error::Feature`].
    pub fn check_samples(&self, features: &[f64], range: FeatureRange) -> Result<()> {
        let [low, high] = self.bounds(range);
        let n = self.n_features();
        if !self.are_whole_samples(features) {
            return Err(Error::RaggedSamples { values: features.len(), features: n });
        }
        let [least, most] = self.allowed_features(range);
        let inside = |value: f64| (least <= value) & (value <= most);
        // Without a branch, so that the compiler uses vector registers; the index is looked for only after a failure.
        if features.iter().fold(true, |all, &feature| all & inside(feature)) {
            return Ok(());
        }
        match features.iter().enumerate().find(|(_, feature)| !inside(**feature)) {
            Some((index, &value)) => {
                Err(Error::Feature { sample: index / n, feature: index % n, value, low, high })
            }
            None => Ok(()),
        }
    }
}

/// The class that scores stand for: the index of the greatest, the first of equals; of a single score, 1 where it is positive.
#[must_use]
pub fn top_class(scores: &[f64]) -> usize {
    if let [score] = scores {
        return usize::from(*score > 0.0);
    }
    let better = |best: usize, (k, score): (usize, &f64)| if *score > scores[best] { k } else { best };
    scores.iter().enumerate().fold(0, better)
}
