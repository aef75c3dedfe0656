//! The error of the crate.

use std::path::PathBuf;

/// The result of every fallible operation of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of training, with the quantity, its value and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] aleatron_tensor::Error),
    /// The network failed.
    #[error(transparent)]
    Engine(#[from] aleatron_engine::Error),
    /// The data cannot be read or do not fit.
    #[error(transparent)]
    Data(#[from] aleatron_data::Error),
    /// The evaluation of stream lengths failed.
    #[error(transparent)]
    Evaluation(Box<aleatron_eval::Error>),
    /// The run was cancelled, or memory is exhausted.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// An option has a value outside its range.
    #[error("{option} is {value}: {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
        /// The valid values.
        expected: &'static str,
    },
    /// A label is not one of the classes of the network.
    #[error(
        "the label of sample {sample} is {label}, but the network has {classes} classes, counted from 0"
    )]
    Label {
        /// The sample.
        sample: usize,
        /// The label.
        label: usize,
        /// The classes of the network.
        classes: usize,
    },
    /// The network has no parameters that can be trained.
    #[error(
        "network \"{network}\" has no trainable parameters: it has no layer with constant weights"
    )]
    NoParameters {
        /// The network.
        network: String,
    },
    /// A node of the network has no gradient.
    #[error(
        "node \"{node}\" ({operator}) has no gradient, and the layer \"{layer}\" before it cannot be trained; \
         end the network before this node with --output, or train a network without it"
    )]
    NoGradient {
        /// The node.
        node: String,
        /// The operator.
        operator: String,
        /// A layer that the gradient does not reach.
        layer: String,
    },
    /// The loss, a gradient or a weight is not finite.
    #[error(
        "the {what} is {value} in epoch {epoch}, step {step}; use a smaller learning rate or clip gradients"
    )]
    NotFinite {
        /// The loss, the norm of the gradients or a weight.
        what: &'static str,
        /// The value.
        value: f64,
        /// The epoch, counted from 1.
        epoch: usize,
        /// The step in the epoch, counted from 1.
        step: usize,
    },
    /// The loss or a gradient of fine-tuning is not finite.
    #[cfg(feature = "transformer")]
    #[error("the {what} is {value} in step {step}; use a smaller learning rate or clip gradients")]
    StepNotFinite {
        /// The loss or the norm of the gradients.
        what: &'static str,
        /// The value.
        value: f64,
        /// The step, counted from 1.
        step: usize,
    },
    /// A family of language models has no differentiable forward pass.
    #[cfg(feature = "transformer")]
    #[error(
        "models of the family {family} cannot be fine-tuned; use a model of the family Llama, Mistral or Qwen2"
    )]
    Family {
        /// The family.
        family: String,
    },
    /// A language model, its files or its adapter are at fault.
    #[cfg(feature = "transformer")]
    #[error(transparent)]
    Transformer(#[from] aleatron_transformer::Error),
    /// Tensors of a file do not fit the model.
    #[error("{}: {reason}", place)]
    State {
        /// The file or the tensor.
        place: String,
        /// The reason.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl From<aleatron_graph::Error> for Error {
    fn from(error: aleatron_graph::Error) -> Self {
        // An error of this crate that passed through the graph is unwrapped.
        match unwrap_graph(error) {
            Ok(own) => own,
            Err(graph) => Self::Engine(graph.into()),
        }
    }
}

impl From<aleatron_eval::Error> for Error {
    fn from(error: aleatron_eval::Error) -> Self {
        use aleatron_eval::Error as EvalError;
        match error {
            EvalError::Core(error) => Self::Core(error),
            EvalError::Engine(error) => Self::Engine(error),
            EvalError::Data(error) => Self::Data(error),
            EvalError::UnfinishedSearch { source, .. } => (*source).into(),
            // An error of this crate that passed through the search is unwrapped.
            EvalError::Retraining(other) => match other.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::Evaluation(Box::new(EvalError::Retraining(other))),
            },
            error => Self::Evaluation(Box::new(error)),
        }
    }
}

/// Returns the error of this crate inside an error of the graph, if there is one.
fn unwrap_graph(error: aleatron_graph::Error) -> std::result::Result<Error, aleatron_graph::Error> {
    use aleatron_graph::Error as GraphError;
    match error {
        GraphError::Node { source, index, name, operator } => unwrap_graph(*source)
            .map_err(|source| GraphError::Node { source: Box::new(source), index, name, operator }),
        GraphError::Other(other) => match other.downcast::<Error>() {
            Ok(own) => Ok(*own),
            Err(other) => Err(GraphError::Other(other)),
        },
        other => Err(other),
    }
}

impl Error {
    pub(crate) fn option(
        option: &'static str,
        value: impl ToString,
        expected: &'static str,
    ) -> Self {
        Self::Option { option, value: value.to_string(), expected }
    }

    /// Returns the error as one of a search.
    pub(crate) fn into_evaluation(self) -> aleatron_eval::Error {
        match self {
            Self::Core(error) => aleatron_eval::Error::Core(error),
            error => aleatron_eval::Error::Retraining(Box::new(error)),
        }
    }

    pub(crate) fn into_graph(self) -> aleatron_graph::Error {
        aleatron_graph::Error::Other(Box::new(self))
    }

    pub(crate) fn internal(place: &'static str) -> Self {
        Self::Core(aleatron_core::Error::Internal { place })
    }
}
