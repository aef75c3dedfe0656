//! The error of this crate: which file, node or value, and what is wrong with it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong with a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes are not those of an ONNX model.
    #[error("not an ONNX model: {reason}")]
    Format {
        /// What the decoder said.
        reason: String,
    },
    /// Something in the model is wrong or of a kind that is not read.
    #[error("{place}: {reason}")]
    Model {
        /// Where: a tensor, a value, the model.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// Operators that are not known, all of them.
    #[error("{} not supported: {}", plural(operators.len()), list(operators))]
    Operators {
        /// Each operator once.
        operators: Vec<UnknownOperator>,
    },
    /// A node is at fault.
    #[error("node {index} ({name}, {operator}): {source}")]
    Node {
        /// Its place in the graph.
        index: usize,
        /// Its name.
        name: String,
        /// Its operator.
        operator: String,
        /// What is at fault.
        source: Box<Error>,
    },
    /// An attribute has a value it cannot have.
    #[error("attribute \"{name}\" is {value}, {expected}")]
    Attribute {
        /// The attribute.
        name: String,
        /// Its value.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// An input of a node has a value, type or shape it cannot have.
    #[error("input {input}: {reason}")]
    Input {
        /// The place of the input.
        input: usize,
        /// What is wrong.
        reason: String,
    },
    /// A value that nothing makes.
    #[error("nothing makes the value \"{name}\"")]
    MissingValue {
        /// The value.
        name: String,
    },
    /// A value that is made twice.
    #[error("the value \"{name}\" is made twice")]
    RepeatedValue {
        /// The value.
        name: String,
    },
    /// Nodes that need each other.
    #[error("{nodes} nodes form a cycle, among them \"{name}\"")]
    Cycle {
        /// How many nodes cannot be put into an order.
        nodes: usize,
        /// One of them.
        name: String,
    },
    /// An input of the graph was not given.
    #[error("the input \"{name}\" is not given")]
    NotGiven {
        /// The input.
        name: String,
    },
    /// Something was given that the graph does not take.
    #[error("the graph has no input \"{name}\"; its inputs are {}", known.join(", "))]
    UnknownInput {
        /// What was given.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A graph input was given with another shape or type than it has.
    #[error("the input \"{name}\" is {expected}, got {actual}")]
    InputType {
        /// The input.
        name: String,
        /// What it takes.
        expected: String,
        /// What it got.
        actual: String,
    },
    /// An operation on tensors failed.
    #[error(transparent)]
    Tensor(#[from] aleatron_tensor::Error),
    /// The engine failed, mostly for lack of memory.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// What runs nodes in place of tensors failed.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// An operator that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownOperator {
    /// Its domain; empty for ONNX itself.
    pub domain: String,
    /// Its name.
    pub name: String,
    /// The version of the operator set.
    pub version: i64,
    /// How many nodes use it.
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
