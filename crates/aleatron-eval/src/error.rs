//! Errors of evaluations.

use std::io;
use std::path::PathBuf;

/// The result of every fallible operation of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an evaluation or of a crate it depends on, with the location and the value at fault.
///
/// Errors of [`aleatron_core`] are always [`Error::Core`], even if they come from a network or a
/// data set, unless that error names a layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of an argument or a backend, with the quantity, its location and its value.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// A layer, a network, its file or its device is at fault.
    #[error(transparent)]
    Engine(aleatron_engine::Error),
    /// The data are at fault.
    #[error(transparent)]
    Data(aleatron_data::Error),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another process, or another call in this process, writes the same files.
    #[error("{}: process {process} is writing there; wait for it to end or choose another folder", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The number of the process, if it is known.
        process: String,
    },
    /// A file is not of its format.
    #[error("{file}: {reason}")]
    Format {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// An evaluation ended early; its finished cells are retained.
    #[error("{source}")]
    Unfinished {
        /// The cells that were finished.
        done: Box<crate::Evaluation>,
        /// The cause.
        source: Box<Error>,
    },
    /// A search ended before its end; its trials are retained.
    #[error("{source}")]
    UnfinishedSearch {
        /// The trials that were finished.
        done: Box<crate::Found>,
        /// The failure that ended it.
        source: Box<Error>,
    },
    /// An exploration ended before its end; its trials are retained.
    #[error("{source}")]
    UnfinishedExploration {
        /// The trials that were finished.
        done: Box<crate::Exploration>,
        /// The failure that ended it.
        source: Box<Error>,
    },
    /// A variant of a network has other layers.
    #[error(
        "the layers of the variant \"{name}\" have other names than those of the first network; explore it on its own"
    )]
    Variant {
        /// The name of the network.
        name: String,
    },
    /// A value is repeated in a list of unique values.
    #[error("the {what} {value} is given twice; give it once")]
    Twice {
        /// The kind of the value.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// An exploration has several fault rates or sites.
    #[error(
        "an exploration has one fault rate and one entry of fault sites; join sites by +, or explore each on its own"
    )]
    SeveralFaults,
    /// An exploration with early termination that circuits with early termination do not support.
    #[error("early termination cannot be explored with {0}; leave out the margins")]
    EarlyTermination(&'static str),
    /// The circuit of a network cannot be described or traced.
    #[error(transparent)]
    Hardware(aleatron_hardware::Error),
    /// A language model or its tokenizer is at fault.
    #[cfg(feature = "transformer")]
    #[error(transparent)]
    Transformer(aleatron_transformer::Error),
    /// An option of the evaluation of a language model is out of range.
    #[cfg(feature = "transformer")]
    #[error("{option}: {value}; {remedy}")]
    LanguageOption {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
        /// The remedy.
        remedy: String,
    },
    /// The text of an evaluation is unsuitable, or a value that the model computes on it.
    #[cfg(feature = "transformer")]
    #[error("{what}: {value}; {remedy}")]
    Language {
        /// The text, or the value.
        what: String,
        /// The reason.
        value: String,
        /// The remedy.
        remedy: String,
    },
    /// An evaluation of a language model ended early; its finished runs are retained.
    #[cfg(feature = "transformer")]
    #[error("{source}")]
    UnfinishedLanguage {
        /// The runs that were finished.
        done: Box<crate::language::LanguageEvaluation>,
        /// The failure that ended it.
        source: Box<Error>,
    },
    /// Two evaluations differ in a subject that compared ones must share.
    #[error("{a} and {b} cannot be compared: the {subject} differs: {reason}")]
    Incomparable {
        /// The name of the first.
        a: String,
        /// The name of the second.
        b: String,
        /// The subject.
        subject: crate::Subject,
        /// What it is in both.
        reason: String,
    },
    /// An empty list or a count of zero.
    #[error("{0}: at least one is needed")]
    Nothing(&'static str),
    /// The data do not fit the network.
    #[error("the samples have {actual} features, the network takes {expected}")]
    FeatureCount {
        /// The number of features of the network.
        expected: usize,
        /// The number in the data.
        actual: usize,
    },
    /// Samples do not have one target per output of the network.
    #[error("the samples have {actual} targets, the network has {expected} outputs")]
    TargetCount {
        /// The outputs of the network.
        expected: usize,
        /// The number in the data.
        actual: usize,
    },
    /// An output is NaN, or, if samples have targets, infinite.
    #[error("sample {sample}: output {output} of the network is {value}")]
    Output {
        /// The sample.
        sample: usize,
        /// The output.
        output: usize,
        /// The value.
        value: f64,
    },
    /// A label is not a class of the network.
    #[error("the label of sample {sample} is {label}, but the network has {n_classes} classes")]
    UnknownClass {
        /// The sample.
        sample: usize,
        /// The label.
        label: usize,
        /// The classes of the network.
        n_classes: usize,
    },
    /// A plan has faults, but none at a site of the circuit of a generator.
    #[error(
        "{generator} has no streams, and all fault sites are sites of streams; add memory, activations, counters or accumulators to the fault sites"
    )]
    NoFaultSite {
        /// The generator.
        generator: aleatron_core::generator::GeneratorName,
    },
    /// The training of a search failed.
    #[error(transparent)]
    Retraining(Box<dyn std::error::Error + Send + Sync>),
    /// A margin of early termination is not a finite number from 0 on.
    #[error("the margin is {0}, not a finite number from 0 on")]
    Margin(f64),
    /// A search may not lose this many hundredths of the score.
    #[error("the permitted loss is {0}; give percentage points from 0 to 100")]
    Loss(f64),
    /// A layer of a search has a length of its own.
    #[error(
        "layer \"{layer}\" has the length {length}, which the search would replace; leave out the \
         length of the layer"
    )]
    SearchedLength {
        /// The layer.
        layer: String,
        /// Its length.
        length: usize,
    },
    /// The targets of a search do not differ, so that R² does not tell good outputs from bad ones.
    #[error(
        "all targets of an output are the same ({samples} samples, the first target is {value}), so \
         that R² is undefined; search with samples of different targets, in training with a larger \
         validation share"
    )]
    ConstantTargets {
        /// The number of samples.
        samples: usize,
        /// The first target.
        value: f64,
    },
    /// No generator of an evaluation has this name.
    #[error("\"{name}\" was not evaluated; the generators are {}", known.join(", "))]
    UnknownGenerator {
        /// The requested name.
        name: String,
        /// The generators there are.
        known: Vec<String>,
    },
    /// A checkpoint is of another network, data set or plan.
    #[error("the checkpoint differs in {0}")]
    Checkpoint(&'static str),
    /// Two journals are of different evaluations.
    #[error("the finished tasks are of another network, data set, plan or version")]
    OtherEvaluation,
}

impl From<aleatron_engine::Error> for Error {
    fn from(error: aleatron_engine::Error) -> Self {
        match error {
            aleatron_engine::Error::Core(error) => Self::Core(error),
            error => Self::Engine(error),
        }
    }
}

impl From<aleatron_hardware::Error> for Error {
    fn from(error: aleatron_hardware::Error) -> Self {
        match error {
            aleatron_hardware::Error::Core(error) => Self::Core(error),
            aleatron_hardware::Error::Engine(error) => error.into(),
            error => Self::Hardware(error),
        }
    }
}

impl From<aleatron_data::Error> for Error {
    fn from(error: aleatron_data::Error) -> Self {
        match error {
            aleatron_data::Error::Core(error) => Self::Core(error),
            error => Self::Data(error),
        }
    }
}

#[cfg(feature = "transformer")]
impl From<aleatron_transformer::Error> for Error {
    fn from(error: aleatron_transformer::Error) -> Self {
        match error {
            aleatron_transformer::Error::Core(error) => Self::Core(error),
            error => Self::Transformer(error),
        }
    }
}

impl Error {
    /// Returns the error of a file.
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { path: path.into(), source }
    }

    /// Returns the core error that caused this one, if there is one.
    #[must_use]
    pub fn core(&self) -> Option<&aleatron_core::Error> {
        match self {
            Self::Core(error) => Some(error),
            Self::Engine(error) => error.core(),
            Self::Unfinished { source, .. }
            | Self::UnfinishedSearch { source, .. }
            | Self::UnfinishedExploration { source, .. } => source.core(),
            #[cfg(feature = "transformer")]
            Self::UnfinishedLanguage { source, .. } => source.core(),
            _ => None,
        }
    }
}
