//! Labelled data to judge networks with: the embedded digits, and files.
//!
//! [`Dataset::read`] takes two kinds of file. An `.npz` archive holds `x`, of shape (samples, features) in any float or
//! integer type, and `y`, of shape (samples) with classes counted from 0. A `.csv` file holds one sample per line, its features
//! and its class; [`CsvOptions`] says what is where.

mod csv;
mod digits;
mod npz;

pub use csv::{CsvOptions, Header, LabelColumn};

use crate::{Error, Result};
use std::path::Path;

/// Samples of one size, each with its class.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    name: String,
    n_features: usize,
    features: Vec<f64>,
    labels: Vec<usize>,
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
        let name = name.into();
        if n_features == 0 || features.is_empty() {
            return Err(Error::NoSamples { name });
        }
        if labels.len().checked_mul(n_features) != Some(features.len()) {
            let (values, labels) = (features.len(), labels.len());
            return Err(Error::LabelCount { name, values, n_features, labels });
        }
        if let Some(index) = features.iter().position(|feature| !feature.is_finite()) {
            let (sample, feature, value) = (index / n_features, index % n_features, features[index]);
            return Err(Error::SampleValue { name, sample, feature, value });
        }
        Ok(Self { name, n_features, features, labels })
    }

    /// Reads an `.npz` or `.csv` file.
    ///
    /// # Errors
    /// What is wrong with the file and where.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_with(path, &CsvOptions::default())
    }

    /// As [`Self::read`], with options for `.csv` files.
    ///
    /// # Errors
    /// What is wrong with the file and where.
    pub fn read_with(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Self> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        match extension.as_deref() {
            Some("npz") => npz::read(path, name),
            Some("csv") => {
                csv::read(std::fs::File::open(path).map_err(|e| Error::file(path, e))?, name, options)
            }
            _ => Err(Error::Extension { name }),
        }
    }

    /// Reads the text of a `.csv` file.
    ///
    /// # Errors
    /// What is wrong with it and where.
    pub fn from_csv(text: &[u8], name: impl Into<String>, options: &CsvOptions) -> Result<Self> {
        csv::read(text, name.into(), options)
    }

    /// Reads the bytes of an `.npz` file.
    ///
    /// # Errors
    /// What is wrong with it and where.
    pub fn from_npz(bytes: &[u8], name: impl Into<String>) -> Result<Self> {
        npz::read_archive(std::io::Cursor::new(bytes), name.into())
    }

    /// The name: that of the file, or of the embedded data.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no samples, which [`Self::new`] refuses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The features of a sample.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.n_features
    }

    /// All features, samples one after the other.
    #[must_use]
    pub fn features(&self) -> &[f64] {
        &self.features
    }

    /// The class of each sample.
    #[must_use]
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }
}

/// A class read as a number: whole, from 0 on, and small enough to be one.
fn class(value: f64) -> Option<usize> {
    // Past 2^32 the number is no class, and the cast could round.
    let is_class = (0.0..4_294_967_296.0).contains(&value) && value.fract() == 0.0;
    is_class.then_some(value as usize)
}
