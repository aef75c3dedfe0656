//! Labelled samples to evaluate networks with: the embedded digits, files, and folders of images.
//!
//! [`Dataset::read`] reads four kinds of data:
//!
//! - an `.npz` archive with features `x`, of shape (samples, ...) in any float or integer type, and
//!   labels `y`, of shape (samples); other usual names are recognised, and [`ReadOptions`] has
//!   others;
//! - a `.csv` file with one sample per line, its features and its label ([`CsvOptions`]);
//! - an `.npy` file with features, and another one with labels ([`ReadOptions::labels`]); features
//!   are read in chunks, so the file may be larger than memory;
//! - a folder with a folder of PNG images for each class.
//!
//! Labels are classes or the targets of regression; see [`LabelKind`]. Samples keep the shape they
//! have in an array or an image, so that [`Dataset::check_shape`] can compare it with that of a
//! network.
#![forbid(unsafe_code)]

mod array;
mod csv;
mod digits;
mod error;
mod file;
mod folder;
mod labels;
mod layout;
mod npy;
mod npz;

pub use array::Array;
pub use csv::{CsvOptions, Header, LabelColumn};
pub use error::{Error, Result};
pub use labels::{ClassNames, LabelKind};
pub use layout::Layout;

use aleatron_core::{Quantity, memory};
use labels::{LabelData, RawLabels};
use layout::Transposition;
use npy::NpyFile;
use npz::LabelUse;
use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of reading data.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOptions {
    /// The columns of a `.csv` file.
    pub csv: CsvOptions,
    /// The `.npy` file of the labels, if the features are an `.npy` file.
    pub labels: Option<PathBuf>,
    /// The array of the features in an `.npz` archive; one of the usual names if `None`.
    pub x: Option<String>,
    /// The array of the labels in an `.npz` archive; one of the usual names if `None`.
    pub y: Option<String>,
    /// All classes in the order of their numbers, for labels and folders that are names; those of
    /// the data, sorted, if `None`.
    pub classes: Option<Vec<String>>,
    /// The order of the axes of samples in `.npy` and `.npz` files.
    pub layout: Layout,
    /// The kind of the labels.
    pub kind: LabelKind,
    /// The number that features are divided by, such as 255 for images of bytes. Images of a
    /// folder are in [0, 1] before that.
    pub divisor: f64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            csv: CsvOptions::default(),
            labels: None,
            x: None,
            y: None,
            classes: None,
            layout: Layout::ChannelsFirst,
            kind: LabelKind::Classes,
            divisor: 1.0,
        }
    }
}

/// Samples of one shape, each with its class or its targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    name: String,
    shape: Vec<usize>,
    /// The product of the shape.
    n_features: usize,
    features: Features,
    answers: LabelData,
}

/// The features of a data set.
#[derive(Debug, Clone, PartialEq)]
enum Features {
    /// In memory, all of them finite.
    Held(Vec<f64>),
    /// In a file, to be divided by a number and transposed when they are read.
    File { file: Arc<NpyFile>, divisor: f64, transposition: Option<Transposition> },
}

impl Dataset {
    /// Creates a data set of samples one after the other, with one label each.
    ///
    /// # Errors
    /// [`Error::NoSamples`] without samples or features, [`Error::LabelCount`] if there is not one
    /// label per sample, [`Error::SampleValue`] with the sample and feature of the first value
    /// that is not finite.
    pub fn new(
        name: impl Into<String>,
        n_features: usize,
        features: Vec<f64>,
        labels: Vec<usize>,
    ) -> Result<Self> {
        let (features, answers) = (Features::Held(features), LabelData::classes(labels));
        Self::with_answers(name.into(), vec![n_features], features, answers)
    }

    /// Creates a data set of samples one after the other, with `n_targets` targets for each.
    ///
    /// # Errors
    /// As [`Self::new`], and [`Error::Target`] for a target that is not finite or beyond 1e100.
    ///
    /// ```
    /// use aleatron_data::Dataset;
    /// let data = Dataset::with_targets("sums", 2, vec![0.1, 0.2, 0.3, 0.4], 1, vec![0.3, 0.7])?;
    /// assert_eq!((data.len(), data.n_targets()), (2, 1));
    /// # Ok::<(), aleatron_data::Error>(())
    /// ```
    pub fn with_targets(
        name: impl Into<String>,
        n_features: usize,
        features: Vec<f64>,
        n_targets: usize,
        targets: Vec<f64>,
    ) -> Result<Self> {
        let name = name.into();
        if n_targets == 0 || !targets.len().is_multiple_of(n_targets) {
            let (values, labels) = (features.len(), targets.len());
            return Err(Error::LabelCount { name, values, n_features, labels });
        }
        let targets = RawLabels::Numbers(targets);
        let answers = LabelData::new(LabelKind::Numbers, n_targets, targets, None, &name)?;
        Self::with_answers(name, vec![n_features], Features::Held(features), answers)
    }

    /// Returns the data set with samples of this shape, whose elements are in row-major order.
    ///
    /// ```
    /// use aleatron_data::Dataset;
    /// let images = Dataset::digits_test().with_sample_shape(&[1, 8, 8])?;
    /// assert!(images.check_shape(&[1, 8, 8]).is_ok());
    /// # Ok::<(), aleatron_data::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::SampleShape`] if a sample has another number of elements.
    pub fn with_sample_shape(mut self, shape: &[usize]) -> Result<Self> {
        let elements = shape.iter().try_fold(1_usize, |n, &size| n.checked_mul(size));
        if elements != Some(self.n_features) {
            let (name, actual, expected) = (self.name, self.shape, shape.to_vec());
            return Err(Error::SampleShape { name, actual, expected, axes: None });
        }
        self.shape = shape.to_vec();
        Ok(self)
    }

    /// `shape` is that of a sample; an array or an image of it has been found to fit into memory.
    fn with_answers(
        name: String,
        shape: Vec<usize>,
        features: Features,
        answers: LabelData,
    ) -> Result<Self> {
        let n_features = if shape.is_empty() { 0 } else { shape.iter().product() };
        let values = match &features {
            Features::Held(features) => features.len(),
            Features::File { file, .. } => file.n_samples().saturating_mul(n_features),
        };
        if n_features == 0 || values == 0 {
            return Err(Error::NoSamples { name });
        }
        if answers.len().checked_mul(n_features) != Some(values) {
            let labels = answers.len();
            return Err(Error::LabelCount { name, values, n_features, labels });
        }
        if let Features::Held(features) = &features {
            check_finite(features, &name, 0, n_features)?;
        }
        Ok(Self { name, shape, n_features, features, answers })
    }

    /// Reads an `.npz` or `.csv` file, or a folder of images.
    ///
    /// # Errors
    /// The file at fault, the position in it and the reason.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_with(path, &ReadOptions::default())
    }

    /// Reads like [`Self::read`], with options. With labels in a file of their own it reads `.npy`
    /// files as well, whose features are read in chunks whenever samples are asked for.
    ///
    /// # Errors
    /// The file at fault, the position in it and the reason. Files that are not regular files are
    /// refused.
    pub fn read_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        Self::read_file(path.as_ref(), options, LabelUse::Read)
    }

    /// Reads samples whose labels do not matter, such as those of a calibration: `.npy` and `.npz`
    /// files need none, and all classes are then 0.
    ///
    /// # Errors
    /// As [`Self::read_with`].
    pub fn read_inputs(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        Self::read_file(path.as_ref(), options, LabelUse::Skip)
    }

    /// Returns the features of all samples of a file, and how many each sample has; labels are not
    /// needed.
    ///
    /// # Errors
    /// As [`Self::read_inputs`].
    pub fn read_features(
        path: impl AsRef<Path>,
        options: &ReadOptions,
    ) -> Result<(usize, Vec<f64>)> {
        let data = Self::read_inputs(path, options)?;
        Ok((data.n_features, data.samples(0..data.len())?.into_owned()))
    }

    fn read_file(path: &Path, options: &ReadOptions, labels: LabelUse) -> Result<Self> {
        let name = path.display().to_string();
        check_divisor(options.divisor)?;
        let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        if let (Some(labels), false) = (&options.labels, extension.as_deref() == Some("npy")) {
            let reason =
                format!("{name} has labels of its own: a file of labels goes with an .npy file");
            return Err(Error::Format { file: labels.display().to_string(), reason });
        }
        let is_folder = path.is_dir();
        let data = match extension.as_deref() {
            Some("npy") if !is_folder => return Self::read_npy(path, name, options, labels),
            Some("npz") if !is_folder => npz::read(path, name, options, labels),
            Some("csv") if !is_folder => csv::read(file::open(path)?, name, options),
            _ if is_folder && options.kind == LabelKind::Numbers => {
                let reason = "a folder of images has classes, not targets".to_owned();
                Err(Error::Format { file: name, reason })
            }
            _ if is_folder => folder::read(path, name, options),
            _ => Err(Error::Extension { name }),
        };
        let mut data = data?;
        if options.divisor != 1.0
            && let Features::Held(features) = &mut data.features
        {
            features.iter_mut().for_each(|feature| *feature /= options.divisor);
            check_finite(features, &data.name, 0, data.n_features)?;
        }
        Ok(data)
    }

    fn read_npy(
        path: &Path,
        name: String,
        options: &ReadOptions,
        labels: LabelUse,
    ) -> Result<Self> {
        let file = match (&options.labels, labels) {
            (None, LabelUse::Read) => {
                let reason = "an .npy file of features needs another one of labels: --labels y.npy"
                    .to_owned();
                return Err(Error::Format { file: name, reason });
            }
            _ => NpyFile::open(path, &name)?,
        };
        let answers = match (&options.labels, labels) {
            (Some(labels), LabelUse::Read) => {
                let label_name = labels.display().to_string();
                let (header, values) = npy::read_labels(labels)?;
                let [_, width] = options.kind.size(&header, "y", &label_name)?;
                LabelData::new(
                    options.kind,
                    width,
                    values,
                    options.classes.as_deref(),
                    &label_name,
                )?
            }
            _ => LabelData::classes(memory::zeros(file.n_samples() as u128, Quantity::Samples)?),
        };
        let (shape, transposition) = options.layout.apply(file.shape(), &name)?;
        let features =
            Features::File { file: Arc::new(file), divisor: options.divisor, transposition };
        Self::with_answers(name, shape, features, answers)
    }

    /// Reads the text of a `.csv` file.
    ///
    /// # Errors
    /// The line at fault and the reason.
    pub fn from_csv(text: &[u8], name: impl Into<String>, options: &CsvOptions) -> Result<Self> {
        csv::read(
            text,
            name.into(),
            &ReadOptions { csv: options.clone(), ..ReadOptions::default() },
        )
    }

    /// Reads the bytes of an `.npz` file.
    ///
    /// # Errors
    /// The array at fault and the reason.
    pub fn from_npz(bytes: &[u8], name: impl Into<String>) -> Result<Self> {
        let source = std::io::Cursor::new(bytes);
        npz::read_archive(source, name.into(), &ReadOptions::default(), LabelUse::Read)
    }

    /// Checks that a sample has the shape that a network takes. Rows of numbers fit every shape of
    /// as many elements.
    ///
    /// # Errors
    /// [`Error::SampleShape`] with the order of the axes that would fit, if there is one.
    pub fn check_shape(&self, expected: &[usize]) -> Result<()> {
        layout::check_shape(&self.name, &self.shape, expected)
    }

    /// Checks that classes that are identified by names are as many as those of a network:
    /// otherwise their numbers mean nothing.
    ///
    /// # Errors
    /// [`Error::ClassCount`] with the names.
    pub fn check_classes(&self, n_classes: usize) -> Result<()> {
        match self.class_names().names() {
            [] => Ok(()),
            names if names.len() == n_classes => Ok(()),
            names => {
                Err(Error::ClassCount { name: self.name.clone(), names: names.to_vec(), n_classes })
            }
        }
    }

    /// Returns the name: that of the file, or of the embedded data.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Returns whether there are no samples, which [`Self::new`] refuses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of features of a sample.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.n_features
    }

    /// Returns the shape of a sample: one size, the number of features, unless an array or an image
    /// has more axes.
    #[must_use]
    pub fn sample_shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the numbering of the classes; [`ClassNames::Numbers`] for targets.
    #[must_use]
    pub fn class_names(&self) -> &ClassNames {
        match &self.answers {
            LabelData::Classes { names, .. } => names,
            LabelData::Numbers { .. } => &ClassNames::Numbers,
        }
    }

    /// Returns all features that are in memory, samples one after the other: none if they are read
    /// from a file in chunks. [`Self::samples`] returns those of either kind.
    #[must_use]
    pub fn features(&self) -> &[f64] {
        match &self.features {
            Features::Held(features) => features,
            Features::File { .. } => &[],
        }
    }

    /// Returns the features of some samples, one after the other.
    ///
    /// # Errors
    /// [`Error::File`] if they cannot be read, [`Error::SampleValue`] if one is not finite,
    /// [`Error::SampleRange`] for a range that is out of bounds.
    pub fn samples(&self, range: Range<usize>) -> Result<Cow<'_, [f64]>> {
        if range.start > range.end || range.end > self.len() {
            let (name, Range { start, end }) = (self.name.clone(), range);
            return Err(Error::SampleRange { name, start, end, samples: self.len() });
        }
        let n = self.n_features;
        match &self.features {
            Features::Held(features) => {
                Ok(Cow::Borrowed(&features[range.start * n..range.end * n]))
            }
            Features::File { file, divisor, transposition } => {
                let mut values = file.samples(range.clone())?;
                if let Some(transposition) = transposition {
                    values = transposition.apply(&values)?;
                }
                if *divisor != 1.0 {
                    values.iter_mut().for_each(|value| *value /= divisor);
                }
                check_finite(&values, &self.name, range.start, n)?;
                Ok(Cow::Owned(values))
            }
        }
    }

    /// Returns a data set of some of the samples, in the order given, held in memory.
    ///
    /// ```
    /// use aleatron_data::Dataset;
    /// let digits = Dataset::digits_test();
    /// let two = digits.subset("two digits", &[7, 3])?;
    /// assert_eq!(two.labels(), [digits.labels()[7], digits.labels()[3]]);
    /// assert_eq!(two.features()[64..], digits.features()[3 * 64..4 * 64]);
    /// # Ok::<(), aleatron_data::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::SampleRange`] for an index out of range, [`Error::NoSamples`] for an empty list,
    /// and as [`Self::samples`].
    pub fn subset(&self, name: impl Into<String>, samples: &[usize]) -> Result<Self> {
        let len = samples.len() as u128 * self.n_features as u128;
        let mut features = memory::with_capacity(len, Quantity::Samples)?;
        for &sample in samples {
            features.extend_from_slice(&self.samples(sample..sample.saturating_add(1))?);
        }
        let answers = match &self.answers {
            LabelData::Classes { classes, names } => {
                let classes = samples.iter().map(|&sample| classes[sample]).collect();
                LabelData::Classes { classes, names: names.clone() }
            }
            LabelData::Numbers { values, width } => {
                let of = |&sample: &usize| &values[sample * width..(sample + 1) * width];
                LabelData::Numbers {
                    values: samples.iter().flat_map(of).copied().collect(),
                    width: *width,
                }
            }
        };
        Self::with_answers(name.into(), self.shape.clone(), Features::Held(features), answers)
    }

    /// Iterates over all samples in chunks of `size`, at least one sample each, with the index of
    /// the first.
    pub fn chunks(&self, size: usize) -> impl Iterator<Item = (usize, Result<Cow<'_, [f64]>>)> {
        let size = size.max(1);
        let end = move |first: usize| first.saturating_add(size).min(self.len());
        (0..self.len()).step_by(size).map(move |first| (first, self.samples(first..end(first))))
    }

    /// Returns the kind of the labels: targets if samples have any, otherwise classes.
    #[must_use]
    pub fn label_kind(&self) -> LabelKind {
        if self.n_targets() > 0 { LabelKind::Numbers } else { LabelKind::Classes }
    }

    /// Returns the class of each sample; none if samples have targets.
    #[must_use]
    pub fn labels(&self) -> &[usize] {
        match &self.answers {
            LabelData::Classes { classes, .. } => classes,
            LabelData::Numbers { .. } => &[],
        }
    }

    /// Returns the targets, those of a sample together; none if samples have classes.
    #[must_use]
    pub fn targets(&self) -> &[f64] {
        match &self.answers {
            LabelData::Classes { .. } => &[],
            LabelData::Numbers { values, .. } => values,
        }
    }

    /// Returns the number of targets of each sample; 0 if samples have classes.
    #[must_use]
    pub fn n_targets(&self) -> usize {
        match &self.answers {
            LabelData::Classes { .. } => 0,
            LabelData::Numbers { width, .. } => *width,
        }
    }
}

fn check_divisor(divisor: f64) -> Result<()> {
    if divisor > 0.0 && divisor.is_finite() { Ok(()) } else { Err(Error::Divisor(divisor)) }
}

/// Checks that features are finite, the first of which are those of sample `first`.
fn check_finite(features: &[f64], name: &str, first: usize, n_features: usize) -> Result<()> {
    match features.iter().position(|feature| !feature.is_finite()) {
        None => Ok(()),
        Some(index) => {
            let (sample, feature) = (first + index / n_features, index % n_features);
            Err(Error::SampleValue {
                name: name.to_owned(),
                sample,
                feature,
                value: features[index],
            })
        }
    }
}
