//! What can go wrong with layers, networks and graphs.

use std::io;
use std::path::PathBuf;

/// The result of every fallible operation of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the place and the value at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument of the engine is at fault, or a backend: which quantity, where, and its value.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// No device has this name.
    #[error(
        "there is no device \"{name}\"; devices are auto, cpu, gpu, gpu:0, gpu:1, …, cuda, cuda:1, …, or several of them separated by commas"
    )]
    UnknownDevice {
        /// The name asked for.
        name: String,
    },
    /// No known shape of networks has this name.
    #[error("there is no network \"{name}\"; there are {}", known.join(", "))]
    UnknownShape {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not of its format.
    #[error("{file}: {reason}")]
    Format {
        /// Which file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },

    /// A graph or its file is at fault.
    #[cfg(feature = "graph")]
    #[error(transparent)]
    Graph(#[from] aleatron_graph::Error),

    /// The layer of a product is made when it first runs, and it has not.
    #[cfg(feature = "graph")]
    #[error("product {place} of the graph has not run as streams yet")]
    NotRun {
        /// The product, by its place among them.
        place: usize,
    },

    /// Nodes between two layers that run as streams have no form in integers.
    #[cfg(feature = "graph")]
    #[error("arithmetic integer: no form in integers has {}", list(nodes))]
    NoIntegerForm {
        /// All of them.
        nodes: Vec<RefusedNode>,
    },

    // Networks.
    /// A network needs at least one layer.
    #[error("a network needs at least one layer")]
    NoLayers,
    /// Something in one layer is at fault.
    #[error("layer {layer} ({name}): {source}")]
    Layer {
        /// The index of the layer.
        layer: usize,
        /// Its name.
        name: String,
        /// What is at fault.
        source: Box<Error>,
    },
    /// A scale, an offset or a bound is not a number that can be used.
    #[error("layer {layer} ({name}): {what} is {value}{}", what.remedy())]
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
    /// A layer has not as many inputs as the layer before has outputs.
    #[error("layer {layer} ({name}) has {actual} inputs, but the layer before it has {expected} outputs")]
    Chain {
        /// The index of the layer.
        layer: usize,
        /// Its name.
        name: String,
        /// The outputs of the layer before.
        expected: usize,
        /// The inputs of the layer.
        actual: usize,
    },
    /// A convolution takes images of another shape than the layer before it gives.
    #[error(
        "layer {layer} ({name}) takes images of shape {actual:?}, but the layer before it gives {expected:?}"
    )]
    ImageShape {
        /// The index of the layer.
        layer: usize,
        /// Its name.
        name: String,
        /// The shape of what the layer before gives.
        expected: Vec<usize>,
        /// The shape of the convolution's images.
        actual: Vec<usize>,
    },
    /// A pool needs an image, and the outputs of a dense layer are none.
    #[error("layer \"{name}\" is dense: its outputs are no image to be pooled")]
    NotAnImage {
        /// The name of the layer.
        name: String,
    },
    /// Two layers have one name, so they cannot be told apart.
    #[error("layers {first} and {second} are both called \"{name}\"")]
    RepeatedName {
        /// The earlier layer.
        first: usize,
        /// The later one.
        second: usize,
        /// Their name.
        name: String,
    },
    /// No layer has this name.
    #[error("there is no layer \"{name}\"; the layers are {}", known.join(", "))]
    UnknownLayer {
        /// The name asked for.
        name: String,
        /// The layers there are.
        known: Vec<String>,
    },
    /// A setting cannot be read.
    #[error("\"{text}\" is not a setting: {reason}")]
    Setting {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An input is NaN or outside what the first layer can encode.
    #[error("sample {sample}, feature {feature} is {value}, {}", outside(*.low, *.high))]
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
    RaggedSamples {
        /// The number of values.
        values: usize,
        /// The features of a sample.
        features: usize,
    },
    /// A tensor the network needs is not there.
    #[error("layer {layer}: there is no tensor \"{tensor}\"")]
    MissingTensor {
        /// The index of the layer.
        layer: usize,
        /// The tensor.
        tensor: String,
    },
    /// Tensors that no layer has a use for.
    #[error("no layer uses {}; names are PREFIX.weight and PREFIX.bias", tensors.join(", "))]
    UnknownTensors {
        /// Their names.
        tensors: Vec<String>,
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
}

/// A node that something cannot be done with.
#[cfg(feature = "graph")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNode {
    /// Its name.
    pub name: String,
    /// Its operator.
    pub operator: String,
    /// Why, where the operator alone does not say it.
    pub reason: String,
}

#[cfg(feature = "graph")]
impl RefusedNode {
    pub(crate) fn new(node: &aleatron_graph::Node, reason: impl Into<String>) -> Self {
        let (name, operator) = (node.name.clone(), node.op.name().to_owned());
        Self { name, operator, reason: reason.into() }
    }
}

#[cfg(feature = "graph")]
impl std::fmt::Display for RefusedNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\" ({})", self.name, self.operator)?;
        match self.reason.as_str() {
            "" => Ok(()),
            reason => write!(f, ", for {reason}"),
        }
    }
}

#[cfg(feature = "graph")]
fn list(nodes: &[RefusedNode]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl From<aleatron_cpu::Error> for Error {
    fn from(error: aleatron_cpu::Error) -> Self {
        Self::Core(error.into())
    }
}

impl Error {
    /// The error of a file.
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { path: path.into(), source }
    }

    /// The error of the engine at the bottom of this one, if there is one.
    #[must_use]
    pub fn core(&self) -> Option<&aleatron_core::Error> {
        match self {
            Self::Core(error) => Some(error),
            Self::Layer { source, .. } => source.core(),
            _ => None,
        }
    }
}

/// A number that describes a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Parameter {
    /// The scale of the inputs.
    InputScale,
    /// The scale of the weights.
    WeightScale,
    /// The product of both scales.
    ScaleProduct,
    /// The offset of the features.
    FeatureOffset,
    /// The scale of the features.
    FeatureScale,
    /// A bound of the activation.
    ActivationBound,
    /// A bias.
    Bias {
        /// Its neuron.
        neuron: usize,
    },
}

impl Parameter {
    fn remedy(self) -> &'static str {
        match self {
            Self::InputScale | Self::WeightScale | Self::FeatureScale => ", not positive and finite",
            Self::ScaleProduct => ": the scales of inputs and weights are too large together",
            Self::FeatureOffset | Self::Bias { .. } => ", not finite",
            Self::ActivationBound => ": bounds are finite, and the lower one is not above the upper one",
        }
    }
}

impl std::fmt::Display for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InputScale => f.write_str("input scale"),
            Self::WeightScale => f.write_str("weight scale"),
            Self::ScaleProduct => f.write_str("the product of scales"),
            Self::FeatureOffset => f.write_str("feature offset"),
            Self::FeatureScale => f.write_str("feature scale"),
            Self::ActivationBound => f.write_str("a bound of the activation"),
            Self::Bias { neuron } => write!(f, "bias at index {neuron}"),
        }
    }
}

/// What a feature is not. Where any finite number would do, there is no remedy to name.
fn outside(low: f64, high: f64) -> String {
    match (low, high) {
        (f64::MIN, f64::MAX) => "not a finite number".to_owned(),
        _ => format!("not in [{low}, {high}]: calibrate the network with samples of training, or clip"),
    }
}
