//! Labelled data to judge networks with: the embedded digits, and files.
//!
//! [`Dataset::read`] takes two kinds of file. An `.npz` archive holds `x`, of shape (samples, features) in any float or
//! integer type, and `y`, of shape (samples) with classes counted from 0. A `.csv` file holds one sample per line, its features
//! and then its class; a first line that is not of numbers is taken as a heading.

mod csv;
mod digits;
mod error;
mod npz;

pub use error::DataError;

use crate::Result;
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
    /// [`DataError::Empty`] without samples or features, [`DataError::Labels`] where there is not one label per sample,
    /// [`DataError::Value`] with the sample and feature of the first value that is not finite.
    pub fn new(
        name: impl Into<String>,
        n_features: usize,
        features: Vec<f64>,
        labels: Vec<usize>,
    ) -> Result<Self> {
        let name = name.into();
        if n_features == 0 || features.is_empty() {
            return Err(DataError::Empty { name }.into());
        }
        if labels.len().checked_mul(n_features) != Some(features.len()) {
            let (values, labels) = (features.len(), labels.len());
            return Err(DataError::Labels { name, values, n_features, labels }.into());
        }
        if let Some(index) = features.iter().position(|feature| !feature.is_finite()) {
            let (sample, feature, value) = (index / n_features, index % n_features, features[index]);
            return Err(DataError::Value { name, sample, feature, value }.into());
        }
        Ok(Self { name, n_features, features, labels })
    }

    /// Reads an `.npz` or `.csv` file.
    ///
    /// # Errors
    /// [`DataError`] with what is wrong with the file and where.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        match extension.as_deref() {
            Some("npz") => npz::read(path, name),
            Some("csv") => {
                let text = std::fs::read_to_string(path)
                    .map_err(|e| DataError::File { name: name.clone(), reason: e.to_string() })?;
                csv::parse(&text, name)
            }
            _ => Err(DataError::Extension { name }.into()),
        }
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
