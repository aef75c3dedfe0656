//! The data of an evaluation.

use super::Failure;
use super::names::read_name;
use aleatron::data::{
    ClassNames, CsvOptions, Dataset, Error as DataError, Header, LabelColumn, LabelKind, Layout,
    ReadOptions,
};
use aleatron::eval::Source;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Samples")]
pub(crate) struct DataOptions {
    /// Labelled samples, as .npz with arrays of features and labels, as .csv, as .npy with
    /// --labels, or as a folder with a folder of PNG images for each class; the embedded
    /// digits if not given.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// The labels of the samples of an .npy file, as another one.
    #[arg(long, value_name = "FILE", requires = "data")]
    labels: Option<PathBuf>,
    /// The array of features in an .npz file; x, x_test, images, features or data if not given.
    #[arg(long, value_name = "NAME")]
    x: Option<String>,
    /// The array of labels in an .npz file; y, y_test, labels or targets if not given.
    #[arg(long, value_name = "NAME")]
    y: Option<String>,
    /// All classes in the order of the network, for labels and folders that are names.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    classes: Option<Vec<String>>,
    /// The order of the axes of images in .npy and .npz files: nchw (channels first) or nhwc
    /// (channels last, which are transposed).
    #[arg(long, value_name = "ORDER", default_value_t = Layout::ChannelsFirst)]
    layout: Layout,
    /// Divide all features by this number, such as 255 for images of bytes.
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, requires = "data")]
    divide: f64,
    /// Whether the first line of a .csv file names its columns: auto, yes or no.
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = read_name::<Header>)]
    header: Header,
    /// The column of a .csv file that holds the labels: its name, or its index from 0 on, or from
    /// the end with -1.
    #[arg(long, value_name = "COLUMN", default_value = "-1", allow_hyphen_values = true)]
    label: LabelColumn,
}

impl DataOptions {
    /// Returns whether the samples are the embedded digits.
    pub(crate) fn is_embedded(&self) -> bool {
        self.data.is_none()
    }

    /// Returns the files of the samples, or the name of the embedded ones.
    pub(crate) fn provenance(&self) -> Result<Vec<Source>, Failure> {
        let Some(path) = &self.data else {
            return Ok(vec![Source::described("data", "embedded digits")]);
        };
        let mut files = vec![Source::read("data", path)?];
        files.extend(self.labels.as_deref().map(|path| Source::read("labels", path)).transpose()?);
        Ok(files)
    }

    /// Returns whether features are divided.
    pub(crate) fn is_divided(&self) -> bool {
        self.divide != 1.0
    }

    /// Refuses options that the files do not have, before anything is read.
    pub(crate) fn check(&self, kind: LabelKind, calibrate: Option<&Path>) -> Result<(), Failure> {
        let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
        let reads = |endings: &[&str]| {
            let is = |file: &&Path| {
                let ending = file.extension().and_then(|ending| ending.to_str());
                ending.is_some_and(|ending| {
                    endings.iter().any(|known| ending.eq_ignore_ascii_case(known))
                })
            };
            self.data.as_deref().into_iter().chain(calibrate).any(|file| is(&file))
        };
        if kind == LabelKind::Numbers && self.data.is_none() {
            return usage("--task regression needs --data: the embedded digits have classes");
        }
        if kind == LabelKind::Numbers && self.classes.is_some() {
            return usage("--classes cannot be combined with --task regression");
        }
        if self.csv() != CsvOptions::default() && !reads(&["csv"]) {
            return usage("--header and --label are for .csv files");
        }
        if (self.x.is_some() || self.y.is_some()) && !reads(&["npz"]) {
            return usage("--x and --y are for .npz files");
        }
        if self.layout != Layout::ChannelsFirst && !reads(&["npz", "npy"]) {
            return usage("--layout is for .npz and .npy files");
        }
        if self.classes.is_some() && self.data.is_none() {
            return usage("--classes needs --data: the embedded digits have class numbers");
        }
        Ok(())
    }

    fn csv(&self) -> CsvOptions {
        CsvOptions { header: self.header, label: self.label.clone() }
    }

    fn options(&self, kind: LabelKind) -> ReadOptions {
        ReadOptions {
            csv: self.csv(),
            labels: None,
            x: self.x.clone(),
            y: self.y.clone(),
            classes: self.classes.clone(),
            layout: self.layout,
            kind,
            divisor: self.divide,
        }
    }

    /// Reads the samples of the evaluation.
    pub(crate) fn read(&self, kind: LabelKind) -> Result<Dataset, Failure> {
        match &self.data {
            Some(path) => {
                let options = ReadOptions { labels: self.labels.clone(), ..self.options(kind) };
                Dataset::read_with(path, &options).map_err(explain)
            }
            None => Ok(Dataset::digits_test()),
        }
    }

    /// Reads samples of another file in the same way.
    pub(crate) fn read_file(&self, path: &Path, kind: LabelKind) -> Result<Dataset, Failure> {
        Dataset::read_with(path, &self.options(kind)).map_err(explain)
    }

    /// Reads samples to calibrate with, whose labels do not matter. Names of arrays are those of
    /// the data, so the usual names are tried if an archive lacks them.
    pub(crate) fn read_inputs(&self, path: &Path, kind: LabelKind) -> Result<Dataset, Failure> {
        let options = ReadOptions { classes: None, ..self.options(kind) };
        let read = match Dataset::read_inputs(path, &options) {
            Err(DataError::ArrayName { .. }) if self.x.is_some() => {
                Dataset::read_inputs(path, &ReadOptions { x: None, ..options })
            }
            read => read,
        };
        read.map_err(explain)
    }
}

/// Returns a note with the classes of names; `None` if labels are numbers.
pub(crate) fn class_note(data: &Dataset) -> Option<String> {
    let names = match data.class_names() {
        ClassNames::Numbers => return None,
        ClassNames::Listed(names) | ClassNames::Sorted(names) => names,
    };
    let classes: Vec<String> =
        names.iter().enumerate().map(|(k, name)| format!("{k} = {name}")).collect();
    Some(format!("classes: {}", classes.join(", ")))
}

/// Returns the failure of a file of samples; a divisor is an argument.
fn explain(error: DataError) -> Failure {
    match &error {
        DataError::Divisor(_) => Failure::Usage(format!("--divide: {error}")),
        DataError::Label { .. } => regression_hint(&error),
        DataError::Line { reason, .. } if reason.ends_with("is not a class counted from 0") => {
            regression_hint(&error)
        }
        _ => error.into(),
    }
}

fn regression_hint(error: &DataError) -> Failure {
    Failure::Work(format!("{error}; if labels are numbers to predict, give --task regression"))
}
