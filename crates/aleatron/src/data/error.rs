//! What can be wrong with data.

/// An error of a data set or its file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// There are no samples.
    #[error("{name}: there are no samples")]
    Empty {
        /// The data set.
        name: String,
    },
    /// There is not one label per sample.
    #[error("{name}: {values} values are not {labels} samples of {n_features} features")]
    Labels {
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
    Value {
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
    /// A file could not be read or is not of its format.
    #[error("{name}: {reason}")]
    File {
        /// The data set.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The file is of no known kind.
    #[error("{name}: data are read from .npz and .csv files")]
    Extension {
        /// The data set.
        name: String,
    },
}
