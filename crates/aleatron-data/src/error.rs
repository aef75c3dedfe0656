//! Errors of data sets.

use std::io;
use std::path::PathBuf;

/// The result of every fallible operation of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a data set, with the file, the sample and the value at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is too little memory, or a size is not representable.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file is not of its format.
    #[error("{file}: {reason}")]
    Format {
        /// The file.
        file: String,
        /// The reason.
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
    /// A label or a folder of images is not one of the classes that were listed.
    #[error("{name}: \"{label}\" is not one of the classes {}", known.join(", "))]
    ClassName {
        /// The data set.
        name: String,
        /// The label.
        label: String,
        /// The classes that were listed.
        known: Vec<String>,
    },
    /// Classes are identified by names, and the names are not as many as the classes of the
    /// network.
    #[error(
        "{name}: its classes are {} ({}), the network has {n_classes}; list the classes in the order of the network with --classes NAME,NAME,...",
        names.len(),
        abbreviated(names)
    )]
    ClassCount {
        /// The data set.
        name: String,
        /// The names.
        names: Vec<String>,
        /// The classes of the network.
        n_classes: usize,
    },
    /// A target is not finite, or so large that sums of squares are not.
    #[error("{name}: the target of sample {sample} is {value}, not a number from -1e100 to 1e100")]
    Target {
        /// The data set.
        name: String,
        /// The sample.
        sample: usize,
        /// The number.
        value: String,
    },
    /// Features cannot be divided by this number.
    #[error("features cannot be divided by {0}; a positive, finite number is needed")]
    Divisor(f64),
    /// A line of a text file cannot be read.
    #[error("{name}, line {line}: {reason}")]
    Line {
        /// The data set.
        name: String,
        /// The line, counted from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// An archive lacks an array, or has several that may be meant.
    #[error("{name}: {reason}; the arrays are {}: choose with {option} NAME", known.join(", "))]
    ArrayName {
        /// The data set.
        name: String,
        /// The reason.
        reason: String,
        /// The option of the command line that names the array.
        option: &'static str,
        /// The arrays of the archive.
        known: Vec<String>,
    },
    /// An array has the wrong shape.
    #[error("{name}: array \"{array}\" has shape {actual:?}, expected {expected}")]
    ArrayShape {
        /// The data set.
        name: String,
        /// The array.
        array: String,
        /// The expected shape.
        expected: &'static str,
        /// The shape of the array.
        actual: Vec<usize>,
    },
    /// Samples have another shape than the network takes.
    #[error("{name}: samples have shape {actual:?}, the network takes {expected:?}{}", remedy(axes.as_deref()))]
    SampleShape {
        /// The data set.
        name: String,
        /// The shape of a sample.
        actual: Vec<usize>,
        /// The shape that the network takes.
        expected: Vec<usize>,
        /// The order of the axes of a sample that has the expected shape, if there is one.
        axes: Option<Vec<usize>>,
    },
    /// The file is of no known kind.
    #[error("{name}: data are read from .npz, .npy and .csv files and from folders of images")]
    Extension {
        /// The data set.
        name: String,
    },
    /// A range of samples is not in the data set.
    #[error(
        "{name}: sample range {start}..{end} is out of bounds: the data set has {samples} samples"
    )]
    SampleRange {
        /// The data set.
        name: String,
        /// The first sample of the range.
        start: usize,
        /// The end of the range.
        end: usize,
        /// The number of samples.
        samples: usize,
    },
    /// A text does not say whether a file has a header.
    #[error("\"{0}\" is not a setting: a header is auto, yes or no")]
    Header(String),
    /// A text is not the name of a layout.
    #[error("\"{0}\" is not a layout: use nchw (channels first) or nhwc (channels last)")]
    Layout(String),
}

impl Error {
    /// Returns the error of a file.
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}

/// Returns the first names of a list that may be long.
fn abbreviated(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown}, ...") } else { shown }
}

/// Returns how samples get the shape that the network takes.
fn remedy(axes: Option<&[usize]>) -> String {
    let Some(axes) = axes else {
        return "; reshape them, or give them as rows of numbers (samples, features)".to_owned();
    };
    // The samples are the first axis of the array.
    let all: Vec<usize> = std::iter::once(0).chain(axes.iter().map(|axis| axis + 1)).collect();
    let channels_last = axes.split_first().is_some_and(|(&first, rest)| {
        first == rest.len() && rest.iter().copied().eq(0..rest.len())
    });
    let option = if channels_last { "; --layout nhwc does that" } else { "" };
    format!("; transpose the array with the axes {all:?}{option}")
}
