//! Labelled data to judge networks with: the embedded digits, files, and folders of images.
//!
//! [`Dataset::read`] takes four kinds of data. An `.npz` archive holds `x`, of shape (samples, features) in any float or
//! integer type, and `y`, of shape (samples) with classes counted from 0. A `.csv` file holds one sample per line, its features
//! and its class; [`CsvOptions`] says what is where. An `.npy` file holds `x` alone, with the labels in another
//! ([`ReadOptions::labels`]); it is read in pieces, so it may be larger than memory. A folder holds a folder of PNG images for each class.
//!
//! Labels are classes, or numbers that a network of regression is to find; see [`LabelKind`].
#![forbid(unsafe_code)]

mod csv;
mod digits;
mod error;
mod folder;
mod npy;
mod npz;

pub use csv::{CsvOptions, Header, LabelColumn};
pub use error::{Error, Result};

use aleatron_core::{Quantity, memory};
use npy::NpyFile;
use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the labels of samples are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LabelKind {
    /// Classes, counted from 0.
    #[default]
    Classes,
    /// Numbers, one or several for each sample.
    Numbers,
}

/// How data are read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOptions {
    /// What is where in a `.csv` file.
    pub csv: CsvOptions,
    /// The `.npy` file of the labels, where the data are an `.npy` file, too.
    pub labels: Option<PathBuf>,
    /// What the labels are.
    pub kind: LabelKind,
    /// What features are divided by, such as 255 for images of bytes. Images of a folder are in [0, 1] before that.
    pub divisor: f64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { csv: CsvOptions::default(), labels: None, kind: LabelKind::Classes, divisor: 1.0 }
    }
}

/// Samples of one size, each with its class or the numbers to be found.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    name: String,
    n_features: usize,
    features: Features,
    answers: Answers,
}

/// Where features are.
#[derive(Debug, Clone, PartialEq)]
enum Features {
    /// In memory, all of them finite.
    Held(Vec<f64>),
    /// In a file, to be divided by a number.
    File(Arc<NpyFile>, f64),
}

impl Features {
    /// Features in a file, to be divided by a number.
    fn file(file: NpyFile, divisor: f64) -> Result<Self> {
        check_divisor(divisor)?;
        Ok(Self::File(Arc::new(file), divisor))
    }
}

impl From<Vec<f64>> for Features {
    fn from(features: Vec<f64>) -> Self {
        Self::Held(features)
    }
}

/// What is right.
#[derive(Debug, Clone, PartialEq)]
enum Answers {
    Classes(Vec<usize>),
    Numbers { width: usize, values: Vec<f64> },
}

impl LabelKind {
    /// The samples of an array of labels, and the labels of each.
    fn size(self, y: &npy::Header, name: &str) -> Result<[usize; 2]> {
        match (self, y.shape.as_slice()) {
            (Self::Classes, &[n]) => Ok([n, 1]),
            (Self::Classes, _) => Err(Error::ArrayShape {
                name: name.to_owned(),
                array: "y",
                expected: "(samples)",
                actual: y.shape.clone(),
            }),
            (Self::Numbers, _) => y.targets(name),
        }
    }
}

/// Numbers to be found: sums of the squares of their errors are finite.
const TARGETS: std::ops::RangeInclusive<f64> = -1e100..=1e100;

impl Answers {
    fn new(kind: LabelKind, width: usize, values: Vec<f64>, name: &str) -> Result<Self> {
        let fault = |index: usize| {
            let (sample, value) = (index / width.max(1), values[index].to_string());
            match kind {
                LabelKind::Classes => Error::Label { name: name.to_owned(), sample, value },
                LabelKind::Numbers => Error::Target { name: name.to_owned(), sample, value },
            }
        };
        match kind {
            LabelKind::Classes => {
                let classes = values.iter().enumerate();
                let classes = classes.map(|(sample, &value)| class(value).ok_or_else(|| fault(sample)));
                Ok(Self::Classes(classes.collect::<Result<_>>()?))
            }
            LabelKind::Numbers => match values.iter().position(|value| !TARGETS.contains(value)) {
                Some(index) => Err(fault(index)),
                None => Ok(Self::Numbers { width, values }),
            },
        }
    }

    /// The number of samples.
    fn len(&self) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::Numbers { width, values } => values.len() / (*width).max(1),
        }
    }
}

impl Dataset {
    /// Samples one after the other, with one label each.
    ///
    /// # Errors
    /// [`Error::NoSamples`] without samples or features, [`Error::LabelCount`] where there is not one label per sample,
    /// [`Error::SampleValue`] with the sample and feature of the first value that is not finite.
    pub fn new(
        name: impl Into<String>,
        n_features: usize,
        features: Vec<f64>,
        labels: Vec<usize>,
    ) -> Result<Self> {
        Self::with_answers(name.into(), n_features, features.into(), Answers::Classes(labels))
    }

    /// Samples one after the other, with `n_targets` numbers to be found for each.
    ///
    /// # Errors
    /// As [`Self::new`], and [`Error::Target`] for a number that is not finite or beyond 1e100.
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
        let answers = Answers::new(LabelKind::Numbers, n_targets, targets, &name)?;
        Self::with_answers(name, n_features, features.into(), answers)
    }

    fn with_answers(name: String, n_features: usize, features: Features, answers: Answers) -> Result<Self> {
        let values = match &features {
            Features::Held(features) => features.len(),
            Features::File(file, _) => file.size()[0].saturating_mul(n_features),
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
        Ok(Self { name, n_features, features, answers })
    }

    /// Reads an `.npz` or `.csv` file, or a folder of images.
    ///
    /// # Errors
    /// What is wrong with the file and where.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_with(path, &ReadOptions::default())
    }

    /// As [`Self::read`], with options; with labels in a file of their own also an `.npy` file, which is not read now but in pieces whenever
    /// samples are asked for.
    ///
    /// # Errors
    /// What is wrong with the file and where.
    pub fn read_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        let path = path.as_ref();
        let name = path.display().to_string();
        check_divisor(options.divisor)?;
        let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        if let (Some(labels), false) = (&options.labels, extension.as_deref() == Some("npy")) {
            let reason = format!("{name} has labels of its own: a file of labels goes with an .npy file");
            return Err(Error::Format { file: labels.display().to_string(), reason });
        }
        let data = match extension.as_deref() {
            Some("npy") => return Self::read_npy(path, name, options),
            Some("npz") => npz::read(path, name, options.kind),
            Some("csv") => {
                let file = std::fs::File::open(path).map_err(|e| Error::file(path, e))?;
                csv::read(file, name, &options.csv, options.kind)
            }
            _ if path.is_dir() && options.kind == LabelKind::Numbers => {
                let reason = "a folder of images has classes, no numbers to be found".to_owned();
                Err(Error::Format { file: name, reason })
            }
            _ if path.is_dir() => folder::read(path, name),
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

    /// The features of all samples of a file, and how many each sample has. Labels are of no use for that, so an `.npy` file needs none.
    ///
    /// # Errors
    /// As [`Self::read_with`].
    pub fn read_features(path: impl AsRef<Path>, options: &ReadOptions) -> Result<(usize, Vec<f64>)> {
        let path = path.as_ref();
        let is_npy = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npy"));
        let data = match (is_npy, &options.labels) {
            (true, None) => {
                let name = path.display().to_string();
                let file = NpyFile::open(path, &name)?;
                let [n_samples, n_features] = file.size();
                let labels = Answers::Classes(memory::zeros(n_samples as u128, Quantity::Samples)?);
                Self::with_answers(name, n_features, Features::file(file, options.divisor)?, labels)?
            }
            _ => Self::read_with(path, options)?,
        };
        Ok((data.n_features, data.samples(0..data.len())?.into_owned()))
    }

    fn read_npy(path: &Path, name: String, options: &ReadOptions) -> Result<Self> {
        let Some(labels) = &options.labels else {
            let reason = "an .npy file of features needs another one of labels".to_owned();
            return Err(Error::Format { file: name, reason });
        };
        let file = NpyFile::open(path, &name)?;
        let label_name = labels.display().to_string();
        let (header, values) = npy::read(labels)?;
        let [_, width] = options.kind.size(&header, &label_name)?;
        let answers = Answers::new(options.kind, width, values, &label_name)?;
        let n_features = file.size()[1];
        Self::with_answers(name, n_features, Features::file(file, options.divisor)?, answers)
    }

    /// Reads the text of a `.csv` file.
    ///
    /// # Errors
    /// What is wrong with it and where.
    pub fn from_csv(text: &[u8], name: impl Into<String>, options: &CsvOptions) -> Result<Self> {
        csv::read(text, name.into(), options, LabelKind::Classes)
    }

    /// Reads the bytes of an `.npz` file.
    ///
    /// # Errors
    /// What is wrong with it and where.
    pub fn from_npz(bytes: &[u8], name: impl Into<String>) -> Result<Self> {
        npz::read_archive(std::io::Cursor::new(bytes), name.into(), LabelKind::Classes)
    }

    /// The name: that of the file, or of the embedded data.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether there are no samples, which [`Self::new`] refuses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The features of a sample.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.n_features
    }

    /// All features that are in memory, samples one after the other: none where they are read from a file in pieces.
    /// [`Self::samples`] gives those of either kind.
    #[must_use]
    pub fn features(&self) -> &[f64] {
        match &self.features {
            Features::Held(features) => features,
            Features::File(..) => &[],
        }
    }

    /// The features of some samples, one after the other.
    ///
    /// # Errors
    /// [`Error::File`] where they cannot be read, [`Error::SampleValue`] where one is not finite, [`Error::NotThere`] for samples that
    /// are not there.
    pub fn samples(&self, range: Range<usize>) -> Result<Cow<'_, [f64]>> {
        if range.start > range.end || range.end > self.len() {
            let (name, Range { start, end }) = (self.name.clone(), range);
            return Err(Error::NotThere { name, start, end, samples: self.len() });
        }
        let n = self.n_features;
        match &self.features {
            Features::Held(features) => Ok(Cow::Borrowed(&features[range.start * n..range.end * n])),
            Features::File(file, divisor) => {
                let mut values = file.samples(range.clone())?;
                if *divisor != 1.0 {
                    values.iter_mut().for_each(|value| *value /= divisor);
                }
                check_finite(&values, &self.name, range.start, n)?;
                Ok(Cow::Owned(values))
            }
        }
    }

    /// All samples, `size` of them at a time and one at least, with the number of the first.
    pub fn pieces(&self, size: usize) -> impl Iterator<Item = (usize, Result<Cow<'_, [f64]>>)> {
        let size = size.max(1);
        let end = move |first: usize| first.saturating_add(size).min(self.len());
        (0..self.len()).step_by(size).map(move |first| (first, self.samples(first..end(first))))
    }

    /// The class of each sample; none where numbers are to be found.
    #[must_use]
    pub fn labels(&self) -> &[usize] {
        match &self.answers {
            Answers::Classes(classes) => classes,
            Answers::Numbers { .. } => &[],
        }
    }

    /// The numbers to be found, those of a sample together; none where samples have classes.
    #[must_use]
    pub fn targets(&self) -> &[f64] {
        match &self.answers {
            Answers::Classes(_) => &[],
            Answers::Numbers { values, .. } => values,
        }
    }

    /// The numbers to be found for each sample; 0 where samples have classes.
    #[must_use]
    pub fn n_targets(&self) -> usize {
        match &self.answers {
            Answers::Classes(_) => 0,
            Answers::Numbers { width, .. } => *width,
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
            Err(Error::SampleValue { name: name.to_owned(), sample, feature, value: features[index] })
        }
    }
}

/// A class read as a number: whole, from 0 on, and small enough to be one.
fn class(value: f64) -> Option<usize> {
    // Past 2^32 the number is no class, and the cast could round.
    let is_class = (0.0..4_294_967_296.0).contains(&value) && value.fract() == 0.0;
    is_class.then_some(value as usize)
}
