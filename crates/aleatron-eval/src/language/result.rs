//! The result of an evaluation of a language model.

use super::head::HeadStop;
use crate::Estimate;
use crate::provenance::Provenance;
use crate::statistics::mean;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The losses of a language model as streams and in floating point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LanguageEvaluation {
    /// The version of Aleatron.
    pub version: String,
    /// The name of the model.
    pub model: String,
    /// The name of the text.
    pub text: String,
    /// The precision of the weights that are encoded.
    pub precision: String,
    /// The requested device of linear products.
    pub device: String,
    /// The backends that the linear products ran on.
    pub backends: Vec<String>,
    /// The width of shared sequences.
    pub width: String,
    /// The number of sequences that streams share.
    pub sharing: String,
    /// Linear products with settings of their own.
    pub layers: BTreeMap<String, String>,
    /// The decision margins of early termination of the head.
    pub margins: Vec<f64>,
    /// The tokens at the beginning of the text that input scales were measured on.
    pub calibration_tokens: usize,
    /// The share of inputs that the scales cover.
    pub quantile: f64,
    /// The scales: the input of each linear product that becomes 1, in the order of the forward
    /// pass.
    pub input_scales: Vec<f64>,
    /// The tokens after them that were predicted.
    pub predicted_tokens: usize,
    /// The number of bytes of their text.
    pub predicted_bytes: usize,
    /// The positions of a sequence.
    pub context: usize,
    /// The model in floating point.
    pub float: LanguageFigures,
    /// The model as streams, a row for each generator and length.
    pub rows: Vec<LanguageRow>,
    /// The loss with one linear product as streams and the others in floating point.
    pub sensitivity: Vec<LinearSensitivity>,
    /// Warnings for the reader.
    pub warnings: Vec<String>,
    /// The runs over the text that are not finished.
    pub unfinished: usize,
    /// The runs of the program that contributed, in their order. Results are equal without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

/// The loss of a model on a text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LanguageFigures {
    /// The mean negative logarithm of the probability of a token, in nats.
    pub loss: f64,
    /// The loss in bits per byte of text; `None` if the tokens have no bytes of text.
    pub bits_per_byte: Option<f64>,
    /// The exponential of the loss.
    pub perplexity: f64,
}

impl LanguageFigures {
    /// Returns the figures of a mean loss in nats per token.
    #[must_use]
    pub fn new(loss: f64, tokens: usize, bytes: usize) -> Self {
        let bits = loss * tokens as f64 / std::f64::consts::LN_2;
        Self {
            loss,
            bits_per_byte: (bytes > 0).then(|| bits / bytes as f64),
            perplexity: loss.exp(),
        }
    }
}

/// A generator and a length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LanguageRow {
    /// The generator.
    pub generator: String,
    /// The bits of a stream.
    pub length: usize,
    /// The width of shared sequences; `None` for Bernoulli streams.
    pub width: Option<u32>,
    /// The loss in nats per token, with its 95 % interval over seeds.
    pub loss: Estimate,
    /// The loss that the streams add to that in floating point, in nats per token.
    pub added_loss: f64,
    /// The mean loss in bits per byte.
    pub bits_per_byte: Option<f64>,
    /// The perplexity of the mean loss.
    pub perplexity: f64,
    /// The share of positions whose most probable token is the same as in floating point.
    pub agreement: f64,
    /// The share of inputs of linear products that saturated.
    pub saturated: f64,
    /// Early termination of the head at each margin, the means over seeds.
    pub head: Vec<HeadStop>,
    /// Tokens per second, without the time of the preparation.
    pub tokens_per_second: f64,
    /// The runs over the text, one for each seed.
    pub seeds: Vec<LanguageSeed>,
}

/// One run over the text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LanguageSeed {
    /// The seed.
    pub seed: u64,
    /// The loss in nats per token.
    pub loss: f64,
    /// The share of positions whose most probable token is the same as in floating point.
    pub agreement: f64,
    /// The share of inputs of linear products that saturated.
    pub saturated: f64,
    /// The seconds of the run.
    pub seconds: f64,
    /// Early termination of the head at each margin.
    pub head: Vec<HeadStop>,
}

/// The loss with one linear product as streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinearSensitivity {
    /// The product.
    pub product: String,
    /// The generator.
    pub generator: String,
    /// The bits of a stream.
    pub length: usize,
    /// The loss in nats per token.
    pub loss: f64,
    /// The loss that the product adds to that in floating point, in nats per token.
    pub added_loss: f64,
    /// The share of positions whose most probable token is the same as in floating point.
    pub agreement: f64,
}

/// Returns the means over seeds for each margin.
fn head_means(seeds: &[LanguageSeed]) -> Vec<HeadStop> {
    let n = seeds.iter().map(|run| run.head.len()).min().unwrap_or(0);
    let stop = |k: usize| {
        let of = |value: fn(&HeadStop) -> f64| {
            mean(&seeds.iter().map(|run| value(&run.head[k])).collect::<Vec<f64>>())
        };
        HeadStop {
            margin: seeds[0].head[k].margin,
            mean_cycles: of(|stop| stop.mean_cycles),
            saved: of(|stop| stop.saved),
            stopped: of(|stop| stop.stopped),
            changed: of(|stop| stop.changed),
        }
    };
    (0..n).map(stop).collect()
}

impl LanguageEvaluation {
    /// Returns whether all runs were finished.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unfinished == 0
    }

    /// Adds a run over the text.
    pub(super) fn add(
        &mut self,
        generator: &str,
        length: usize,
        width: Option<u32>,
        run: LanguageSeed,
    ) {
        let is_it = |row: &LanguageRow| row.generator == generator && row.length == length;
        let index = self.rows.iter().position(is_it);
        let mut seeds = index.map(|index| self.rows.remove(index).seeds).unwrap_or_default();
        seeds.push(run);
        let of = |value: fn(&LanguageSeed) -> f64| seeds.iter().map(value).collect::<Vec<f64>>();
        let loss = Estimate::new(&of(|run| run.loss), [0.0, f64::INFINITY]);
        let figures = LanguageFigures::new(loss.mean, self.predicted_tokens, self.predicted_bytes);
        let seconds: f64 = of(|run| run.seconds).iter().sum();
        let tokens = (self.predicted_tokens * seeds.len()) as f64;
        let row = LanguageRow {
            generator: generator.to_owned(),
            length,
            width,
            loss,
            added_loss: loss.mean - self.float.loss,
            bits_per_byte: figures.bits_per_byte,
            perplexity: figures.perplexity,
            agreement: mean(&of(|run| run.agreement)),
            saturated: mean(&of(|run| run.saturated)),
            head: head_means(&seeds),
            tokens_per_second: tokens / seconds.max(1e-9),
            seeds,
        };
        self.rows.insert(index.unwrap_or(self.rows.len()), row);
        // By generator in the order in which they came, and by length.
        let mut generators: Vec<String> =
            self.rows.iter().map(|row| row.generator.clone()).collect();
        generators.dedup();
        let rank = |row: &LanguageRow| generators.iter().position(|name| *name == row.generator);
        self.rows.sort_by_key(|row| (rank(row), row.length));
    }

    /// Adds a warning once.
    pub(super) fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Returns the evaluation as JSON.
    ///
    /// # Errors
    /// [`crate::Error::Format`] if it cannot be written.
    pub fn to_json(&self) -> crate::Result<String> {
        serde_json::to_string_pretty(self).map_err(|error| crate::Error::Format {
            file: "evaluation of a language model".to_owned(),
            reason: error.to_string(),
        })
    }
}
