//! What can go wrong with layers, networks and graphs.

use aleatron_core::Quantity;
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
    #[error(transparent)]
    Graph(#[from] aleatron_graph::Error),

    /// Integer arithmetic does not support nodes between two layers that run as streams.
    #[error("integer arithmetic does not support {}", list(nodes))]
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
    /// A scale is not positive and finite.
    #[error("{what} is {value}, not positive and finite")]
    Scale {
        /// Which scale.
        what: Quantity,
        /// Its value.
        value: f64,
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
    /// Faults are at a site of streams in a layer that multiplies integers.
    #[error(
        "faults of {site}: a layer of {bits} has no streams; use memory, activations, counters or accumulators"
    )]
    NoStreams {
        /// The site.
        site: aleatron_core::fault::FaultSite,
        /// The integers of the layer.
        bits: aleatron_core::generator::IntegerBits,
    },
    /// Faults are at a site that only a circuit with integers between layers has.
    #[error("faults of {site}: there are none in floating point; use integer arithmetic")]
    NoFaultSite {
        /// The site.
        site: aleatron_core::fault::FaultSite,
    },
    /// A layer with settings of its own runs in binary.
    #[error("layer \"{name}\" runs in binary: it has no stream settings")]
    BinaryLayer {
        /// The name of the layer.
        name: String,
    },
    /// A feature of an integer input is not a whole number.
    #[error("sample {sample}, feature {feature} is {value}: input \"{input}\" takes whole numbers")]
    NotWhole {
        /// The sample.
        sample: usize,
        /// The feature.
        feature: usize,
        /// Its value.
        value: f64,
        /// The name of the input.
        input: String,
    },
    /// A graph takes a fixed number of samples that cannot run apart.
    #[error(
        "the graph takes {batch} samples at a time, which cannot run apart: give a multiple of {batch} samples, not {samples}"
    )]
    PartialBatch {
        /// The samples given.
        samples: usize,
        /// The samples of a run.
        batch: usize,
    },
    /// A feature is not finite, or outside what a layer can encode.
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
}

/// A node that something cannot be done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNode {
    /// Its name.
    pub name: String,
    /// Its operator.
    pub operator: String,
    /// Why, where the operator alone does not say it.
    pub reason: String,
}

impl std::fmt::Display for RefusedNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node \"{}\" ({})", self.name, self.operator)?;
        match self.reason.as_str() {
            "" => Ok(()),
            reason => write!(f, ": {reason}"),
        }
    }
}

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

    /// Returns an error of some samples as one of all samples, `first` of which are before them.
    pub(crate) fn shifted(self, first: usize) -> Self {
        match self {
            Self::Feature { sample, feature, value, low, high } => {
                Self::Feature { sample: sample + first, feature, value, low, high }
            }
            Self::NotWhole { sample, feature, value, input } => {
                Self::NotWhole { sample: sample + first, feature, value, input }
            }
            error => error,
        }
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

/// Describes the interval that a feature is outside of. If any finite number would do, there is no
/// remedy to name.
fn outside(low: f64, high: f64) -> String {
    match (low, high) {
        (f64::MIN, f64::MAX) => "not a finite number".to_owned(),
        _ => format!(
            "not in [{low}, {high}]: calibrate the network with training samples, or let features saturate (--clip, or clip=True in Python)"
        ),
    }
}
