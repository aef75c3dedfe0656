//! The error type of layers, networks and graphs.

use aleatron_core::Quantity;
use std::io;
use std::path::PathBuf;

/// The result of every fallible operation of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error, with the location and the value at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid argument of the engine, or a backend error, with the quantity, the index and the
    /// value.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// The name of a device is unknown.
    #[error(
        "there is no device \"{name}\"; devices are auto, cpu, gpu, gpu:0, gpu:1, …, cuda, cuda:1, …, or several of them separated by commas"
    )]
    UnknownDevice {
        /// The requested name.
        name: String,
    },
    /// The name of a network shape is unknown.
    #[error("there is no network \"{name}\"; there are {}", known.join(", "))]
    UnknownShape {
        /// The requested name.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file violates its format.
    #[error("{file}: {reason}")]
    Format {
        /// The name of the file.
        file: String,
        /// What is wrong.
        reason: String,
    },

    /// A graph or its file is invalid.
    #[error(transparent)]
    Graph(#[from] aleatron_graph::Error),

    /// Integer arithmetic does not support nodes between two layers that run as streams.
    #[error("integer arithmetic does not support {}", list(nodes))]
    NoIntegerForm {
        /// All unsupported nodes.
        nodes: Vec<RefusedNode>,
    },

    // Networks.
    /// A network needs at least one layer.
    #[error("a network needs at least one layer")]
    NoLayers,
    /// An error of one layer.
    #[error("layer {layer} ({name}): {source}")]
    Layer {
        /// The index of the layer.
        layer: usize,
        /// Its name.
        name: String,
        /// The error.
        source: Box<Error>,
    },
    /// A scale is not positive and finite.
    #[error("{what} is {value}, not positive and finite")]
    Scale {
        /// The scale.
        what: Quantity,
        /// Its value.
        value: f64,
    },
    /// Two layers have the same name.
    #[error("layers {first} and {second} are both called \"{name}\"")]
    RepeatedName {
        /// The earlier layer.
        first: usize,
        /// The later one.
        second: usize,
        /// The name.
        name: String,
    },
    /// The name of a layer is unknown.
    #[error("there is no layer \"{name}\"; the layers are {}", known.join(", "))]
    UnknownLayer {
        /// The requested name.
        name: String,
        /// The names of all layers.
        known: Vec<String>,
    },
    /// A setting is invalid.
    #[error("\"{text}\" is not a setting: {reason}")]
    Setting {
        /// The given text.
        text: String,
        /// What is wrong.
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
    /// Faults are at a site that exists only with integer inter-layer arithmetic.
    #[error("faults of {site}: there are none in floating point; use integer arithmetic")]
    NoFaultSite {
        /// The site.
        site: aleatron_core::fault::FaultSite,
    },
    /// A layer with separate settings runs in binary.
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
    /// A graph takes a fixed number of samples that cannot run separately.
    #[error(
        "the graph takes {batch} samples at a time, which cannot run separately: give a multiple of {batch} samples, not {samples}"
    )]
    PartialBatch {
        /// The number of given samples.
        samples: usize,
        /// The number of samples of a run.
        batch: usize,
    },
    /// A feature is not finite, or outside the interval of a layer.
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
        /// The number of features of a sample.
        features: usize,
    },
    /// Tensors are not used by any layer.
    #[error("no layer uses {}; names are PREFIX.weight and PREFIX.bias", tensors.join(", "))]
    UnknownTensors {
        /// The names of the tensors.
        tensors: Vec<String>,
    },
    /// A tensor has the wrong shape.
    #[error("layer {layer}: tensor \"{tensor}\" has shape {actual:?}, expected {expected}")]
    TensorShape {
        /// The index of the layer.
        layer: usize,
        /// The tensor.
        tensor: String,
        /// The expected shape.
        expected: String,
        /// The actual shape.
        actual: Vec<usize>,
    },
}

/// A node that an operation does not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNode {
    /// The name of the node.
    pub name: String,
    /// The operator of the node.
    pub operator: String,
    /// The reason, if the operator alone does not explain it.
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
    /// Creates the error of a file.
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { path: path.into(), source }
    }

    /// Shifts the sample index of an error by `first`.
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

    /// Returns the core error at the root of this one, if any.
    #[must_use]
    pub fn core(&self) -> Option<&aleatron_core::Error> {
        match self {
            Self::Core(error) => Some(error),
            Self::Layer { source, .. } => source.core(),
            _ => None,
        }
    }
}

/// Describes the interval that a feature is outside of. If any finite number is valid, there is no
/// remedy.
fn outside(low: f64, high: f64) -> String {
    match (low, high) {
        (f64::MIN, f64::MAX) => "not a finite number".to_owned(),
        _ => format!(
            "not in [{low}, {high}]: calibrate the network with training samples, or let features saturate (--clip, or clip=True in Python)"
        ),
    }
}
