//! The error of this crate: the file, node or value at fault, and the reason.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The bytes are not those of an ONNX model.
    #[error("not an ONNX model: {reason}")]
    Format {
        /// The error of the decoder.
        reason: String,
    },
    /// A part of the model is invalid or unsupported.
    #[error("{place}: {reason}")]
    Model {
        /// The part: a tensor, a value or the model.
        place: String,
        /// The reason.
        reason: String,
    },
    /// Unsupported operators, all of the model.
    #[error("{} not supported: {}", plural(operators.len()), list(operators))]
    Operators {
        /// The operators, each once.
        operators: Vec<UnknownOperator>,
    },
    /// An error of a node.
    #[error("node {index} ({name}, {operator}): {source}")]
    Node {
        /// The index of the node in the graph.
        index: usize,
        /// The name.
        name: String,
        /// The operator.
        operator: String,
        /// The error.
        source: Box<Error>,
    },
    /// An attribute has an invalid value.
    #[error("attribute \"{name}\" is {value}, {expected}")]
    Attribute {
        /// The attribute.
        name: String,
        /// The value.
        value: String,
        /// The valid values.
        expected: String,
    },
    /// An input of a node has an invalid value, type or shape.
    #[error("input {input}: {reason}")]
    Input {
        /// The index of the input.
        input: usize,
        /// The reason.
        reason: String,
    },
    /// A value that no node computes.
    #[error("no node computes the value \"{name}\"")]
    MissingValue {
        /// The value.
        name: String,
    },
    /// A value that is computed twice.
    #[error("the value \"{name}\" is computed twice")]
    RepeatedValue {
        /// The value.
        name: String,
    },
    /// Nodes that depend on each other.
    #[error("{nodes} nodes form a cycle, among them \"{name}\"")]
    Cycle {
        /// The number of nodes that cannot be sorted.
        nodes: usize,
        /// The name of one of the nodes.
        name: String,
    },
    /// An input of the graph is missing.
    #[error("the input \"{name}\" is missing")]
    MissingInput {
        /// The input.
        name: String,
    },
    /// An input that the graph does not have.
    #[error("the graph has no input \"{name}\"; its inputs are {}", known.join(", "))]
    UnknownInput {
        /// The name of the given input.
        name: String,
        /// The inputs of the graph.
        known: Vec<String>,
    },
    /// A graph input has the wrong shape or type.
    #[error("the input \"{name}\" is {expected}, got {actual}")]
    InputType {
        /// The input.
        name: String,
        /// The expected type and shape.
        expected: String,
        /// The actual type and shape.
        actual: String,
    },
    /// An operation on tensors failed.
    #[error(transparent)]
    Tensor(#[from] aleatron_tensor::Error),
    /// An error of the core, mostly exhausted memory.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// An error of an observer that computes nodes.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// An unsupported operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownOperator {
    /// The domain; empty for ONNX itself.
    pub domain: String,
    /// The name.
    pub name: String,
    /// The version of the operator set.
    pub version: i64,
    /// The number of nodes that use it.
    pub nodes: usize,
}

impl fmt::Display for UnknownOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.domain.is_empty() { "" } else { "." };
        let Self { domain, name, version, nodes } = self;
        write!(
            f,
            "{domain}{dot}{name} (opset {version}, {nodes} node{})",
            if *nodes == 1 { "" } else { "s" }
        )
    }
}

fn plural(n: usize) -> String {
    if n == 1 { "1 operator is".to_owned() } else { format!("{n} operators are") }
}

fn list(operators: &[UnknownOperator]) -> String {
    operators.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Error {
    pub(crate) fn model(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Model { place: place.into(), reason: reason.into() }
    }

    pub(crate) fn input(input: usize, reason: impl Into<String>) -> Self {
        Self::Input { input, reason: reason.into() }
    }

    pub(crate) fn attribute(
        name: impl Into<String>,
        value: impl fmt::Debug,
        expected: impl Into<String>,
    ) -> Self {
        Self::Attribute {
            name: name.into(),
            value: format!("{value:?}"),
            expected: expected.into(),
        }
    }
}
