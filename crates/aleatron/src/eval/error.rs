//! What can be wrong with a plan.

/// An evaluation or a table cannot be run as asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is nothing to do.
    #[error("{0}: at least one is needed")]
    Empty(&'static str),
    /// A generator's name cannot be read.
    #[error("\"{text}\" is not a generator: {reason}")]
    Generator {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The data do not fit the network.
    #[error("the samples have {actual} features, the network takes {expected}")]
    Features {
        /// What the network takes.
        expected: usize,
        /// What the data have.
        actual: usize,
    },
    /// A label is no class of the network.
    #[error("the label of sample {sample} is {label}, but the network has {n_classes} classes")]
    Label {
        /// The sample.
        sample: usize,
        /// Its label.
        label: usize,
        /// The classes of the network.
        n_classes: usize,
    },
    /// The confidence margin is not a number from 0 on.
    #[error("the confidence margin is {0}, not a number from 0 on")]
    Margin(f64),
    /// An earlier evaluation is of another network, data set or plan.
    #[error("the earlier evaluation differs in {0}")]
    Resume(&'static str),
}
