//! Resuming an evaluation of a language model.

use super::result::{LanguageEvaluation, LanguageSeed, LinearSensitivity};
use crate::provenance::Provenance;
use crate::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The finished runs of an earlier evaluation, and their identity.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LanguageCheckpoint {
    pub(crate) version: String,
    model: String,
    text: String,
    pub(crate) precision: String,
    pub(crate) width: String,
    pub(crate) sharing: String,
    pub(crate) margins: Vec<f64>,
    pub(crate) layers: BTreeMap<String, String>,
    pub(crate) calibration_tokens: usize,
    pub(crate) quantile: f64,
    pub(crate) input_scales: Vec<f64>,
    pub(crate) predicted_tokens: usize,
    predicted_bytes: usize,
    pub(crate) context: usize,
    pub(crate) float: SavedFigures,
    pub(crate) rows: Vec<SavedRow>,
    sensitivity: Vec<LinearSensitivity>,
    warnings: Vec<String>,
    pub(crate) unfinished: usize,
    #[serde(default)]
    pub(crate) provenance: Vec<Provenance>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct SavedFigures {
    pub(crate) loss: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct SavedRow {
    pub(crate) generator: String,
    pub(crate) length: usize,
    pub(crate) width: Option<u32>,
    pub(crate) seeds: Vec<LanguageSeed>,
}

impl LanguageCheckpoint {
    /// Reads the JSON of [`LanguageEvaluation::to_json`].
    ///
    /// # Errors
    /// [`Error::Format`] for another kind of file.
    pub fn from_json(text: &str) -> Result<Self> {
        let file = "evaluation of a language model".to_owned();
        serde_json::from_str(text)
            .map_err(|error| Error::Format { file, reason: error.to_string() })
    }

    /// Returns whether all of its runs were finished.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unfinished == 0
    }

    /// Returns the names of the model and of the text.
    #[must_use]
    pub fn names(&self) -> [&str; 2] {
        [&self.model, &self.text]
    }
}

impl LanguageEvaluation {
    /// Takes over the finished runs of an earlier evaluation of the same model, text and settings.
    /// The loss in floating point and the input scales identify the weights and the text: they
    /// depend on all of them, bit for bit.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] with the difference.
    pub(super) fn resume(&mut self, earlier: &LanguageCheckpoint) -> Result<()> {
        for (what, is_same) in [
            ("its version", self.version == earlier.version),
            ("its precision", self.precision == earlier.precision),
            ("its context", self.context == earlier.context),
            ("its quantile", self.quantile == earlier.quantile),
            (
                "its settings of streams",
                [&self.width, &self.sharing] == [&earlier.width, &earlier.sharing],
            ),
            ("its margins", self.margins == earlier.margins),
            ("its settings of products", self.layers == earlier.layers),
            ("the tokens of calibration", self.calibration_tokens == earlier.calibration_tokens),
            (
                "the tokens that are predicted",
                [self.predicted_tokens, self.predicted_bytes]
                    == [earlier.predicted_tokens, earlier.predicted_bytes],
            ),
            (
                "the model or the text",
                self.float.loss == earlier.float.loss && self.input_scales == earlier.input_scales,
            ),
        ] {
            if !is_same {
                return Err(Error::Checkpoint(what));
            }
        }
        for row in &earlier.rows {
            let seeds = row.seeds.iter().cloned();
            seeds.for_each(|run| self.add(&row.generator, row.length, row.width, run));
        }
        self.sensitivity.clone_from(&earlier.sensitivity);
        self.provenance.clone_from(&earlier.provenance);
        earlier.warnings.iter().for_each(|warning| self.warn(warning.clone()));
        Ok(())
    }

    /// Returns whether a seed of a generator and a length is finished.
    pub(super) fn has_seed(&self, generator: &str, length: usize, seed: u64) -> bool {
        let mut rows =
            self.rows.iter().filter(|row| row.generator == generator && row.length == length);
        rows.any(|row| row.seeds.iter().any(|run| run.seed == seed))
    }

    /// Returns whether a product has run alone with a generator and a length.
    pub(super) fn has_product(&self, generator: &str, length: usize, product: &str) -> bool {
        let is_it = |row: &LinearSensitivity| {
            row.generator == generator && row.length == length && row.product == product
        };
        self.sensitivity.iter().any(is_it)
    }
}
