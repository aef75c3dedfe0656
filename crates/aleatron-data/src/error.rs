//! What can go wrong with data.

use std::io;
use std::path::PathBuf;

/// The result of every fallible operation of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with data, with the place and the value at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is too little memory, or a size is beyond what can be counted.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
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
    /// There are no samples.
    #[error("{name}: there are no samples")]
    NoSamples {
        /// The data set.
        name: String,
    },
    /// There is not one label per sample.
    #[error("{name}: {values} values are not {labels} samples of {n_features} features")]
    LabelCount {
        /// The data set.
        name: String,
        /// The number of values.
        values: usize,
        /// The features of a sample.
        n_features: usize,
        /// The number of labels.
        labels: usize,
    },
    /// A value is not finite.
    #[error("{name}: sample {sample}, feature {feature} is {value}")]
    SampleValue {
        /// The data set.
        name: String,
        /// The sample.
        sample: usize,
        /// The feature.
        feature: usize,
        /// The value.
        value: f64,
    },
    /// A label is not a class, which is an integer from 0 on.
    #[error("{name}: the label of sample {sample} is {value}, not a class counted from 0")]
    Label {
        /// The data set.
        name: String,
        /// The sample.
        sample: usize,
        /// The label.
        value: String,
    },
    /// A number to be found is not finite, or so large that sums of squares are not.
    #[error("{name}: sample {sample} is to be {value}, not a number from -1e100 to 1e100")]
    Target {
        /// The data set.
        name: String,
        /// The sample.
        sample: usize,
        /// The number.
        value: String,
    },
    /// Features cannot be divided by this.
    #[error("features cannot be divided by {0}; a positive, finite number is needed")]
    Divisor(f64),
    /// A line of a text file cannot be read.
    #[error("{name}, line {line}: {reason}")]
    Line {
        /// The data set.
        name: String,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// An archive lacks an array.
    #[error("{name}: there is no array \"{array}\"")]
    MissingArray {
        /// The data set.
        name: String,
        /// The array.
        array: &'static str,
    },
    /// An array has the wrong shape.
    #[error("{name}: array \"{array}\" has shape {actual:?}, expected {expected}")]
    ArrayShape {
        /// The data set.
        name: String,
        /// The array.
        array: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        actual: Vec<usize>,
    },
    /// The file is of no known kind.
    #[error("{name}: data are read from .npz, .npy and .csv files and from folders of images")]
    Extension {
        /// The data set.
        name: String,
    },
    /// Samples are asked for that are not there.
    #[error("{name}: there are no samples {start} to {end}, but {samples} in all")]
    NotThere {
        /// The data set.
        name: String,
        /// The first one asked for.
        start: usize,
        /// The one after the last.
        end: usize,
        /// The samples there are.
        samples: usize,
    },
    /// This does not say whether a file has a header.
    #[error("\"{0}\" is not a setting: a header is auto, yes or no")]
    Header(String),
}

impl Error {
    /// The error of a file.
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}
