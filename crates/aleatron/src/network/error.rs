//! What can be wrong with a network.

use std::path::PathBuf;

/// An error of a network or its files, with the layer and the index at fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A network needs at least one layer.
    #[error("a network needs at least one layer")]
    Empty,
    /// Something in one layer is at fault.
    #[error("layer {layer} ({name}): {source}")]
    Layer {
        /// The index of the layer.
        layer: usize,
        /// Its name.
        name: String,
        /// What is at fault.
        source: Box<crate::Error>,
    },
    /// A scale, an offset or a bound is not a number that can be used.
    #[error("layer {layer} ({name}): {what} is {value}")]
    Parameter {
        /// The index of the layer.
        layer: usize,
        /// Its name.
        name: String,
        /// Which parameter.
        what: Parameter,
        /// Its value.
        value: f64,
    },
    /// A layer has not as many inputs as the layer before has neurons.
    #[error("layer {layer} ({name}) has {actual} inputs, but the layer before it has {expected} neurons")]
    Chain {
        /// The index of the layer.
        layer: usize,
        /// Its name.
        name: String,
        /// The neurons of the layer before.
        expected: usize,
        /// The inputs of the layer.
        actual: usize,
    },
    /// There is not one generator per layer.
    #[error("{actual} generators for {expected} layers")]
    Generators {
        /// The layers.
        expected: usize,
        /// The generators.
        actual: usize,
    },
    /// Two layers have one name, so their tensors cannot be told apart.
    #[error("layers {first} and {second} are both called \"{name}\"")]
    RepeatedName {
        /// The earlier layer.
        first: usize,
        /// The later one.
        second: usize,
        /// Their name.
        name: String,
    },
    /// An input is NaN or outside what the first layer can encode.
    #[error("sample {sample}, feature {feature} is {value}, not in [{low}, {high}]")]
    Feature {
        /// The sample.
        sample: usize,
        /// The feature.
        feature: usize,
        /// Its value.
        value: f64,
        /// The least value allowed.
        low: f64,
        /// The greatest value allowed.
        high: f64,
    },
    /// The inputs are not whole samples.
    #[error("{values} values are not whole samples of {features}")]
    Ragged {
        /// The number of values.
        values: usize,
        /// The features of a sample.
        features: usize,
    },
    /// A tensor the network needs is not in the file.
    #[error("layer {layer}: there is no tensor \"{tensor}\"")]
    MissingTensor {
        /// The index of the layer.
        layer: usize,
        /// The tensor.
        tensor: String,
    },
    /// A tensor has the wrong shape.
    #[error("layer {layer}: tensor \"{tensor}\" has shape {actual:?}, expected {expected}")]
    TensorShape {
        /// The index of the layer.
        layer: usize,
        /// The tensor.
        tensor: String,
        /// What it should be.
        expected: String,
        /// What it is.
        actual: Vec<usize>,
    },
    /// A tensor has a type that is not read.
    #[error("tensor \"{tensor}\" has type {dtype}; F16, BF16, F32 and F64 are read")]
    TensorType {
        /// The tensor.
        tensor: String,
        /// Its type.
        dtype: String,
    },
    /// A description or tensor file is not what it should be.
    #[error("{what}: {reason}")]
    Format {
        /// Which file.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

/// A number that describes a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Parameter {
    /// The scale of the inputs, which must be positive and finite.
    InputScale,
    /// The scale of the weights, which must be positive and finite.
    WeightScale,
    /// The offset of the features, which must be finite.
    FeatureOffset,
    /// The scale of the features, which must be positive and finite.
    FeatureScale,
    /// A bound of the activation; the lower one must not be above the upper one.
    ActivationBound,
    /// A bias, which must be finite.
    Bias {
        /// Its neuron.
        neuron: usize,
    },
}

impl std::fmt::Display for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InputScale => f.write_str("input scale"),
            Self::WeightScale => f.write_str("weight scale"),
            Self::FeatureOffset => f.write_str("feature offset"),
            Self::FeatureScale => f.write_str("feature scale"),
            Self::ActivationBound => f.write_str("bound of the activation"),
            Self::Bias { neuron } => write!(f, "bias at index {neuron}"),
        }
    }
}
