//! The work of an evaluation of a language model: runs over the text, divided into sequences that
//! may run anywhere and in any order.
//!
//! A [`LanguageSchedule`] has neither the text nor the weights of the model, so that shards can be
//! merged without them.

use super::plan::Sensitivity;
use crate::split::Workload;
use crate::{Error, Plan, Result, Task};
use aleatron_core::generator::GeneratorName;
use aleatron_core::{Length, Quantity, conformance, memory};
use aleatron_engine::network::StreamConfig;
use serde::{Deserialize, Serialize};

/// The time of a product in floating point, in bits counted in the same time.
const FLOAT_COST: u64 = 64;

/// The work of an evaluation of a language model.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageSchedule {
    pub(super) header: Header,
    /// The runs as streams. Pass 0 is the one in floating point, pass k + 1 is run k.
    pub(super) runs: Vec<Run>,
}

/// The part of a schedule that is written to files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    /// The name of the model.
    pub(super) language_model: String,
    pub(super) version: String,
    pub(super) text: String,
    pub(super) precision: String,
    /// Lengths, generators, seeds and settings of streams.
    pub(super) plan: Plan,
    pub(super) sensitivity: Sensitivity,
    pub(super) calibration_tokens: usize,
    pub(super) quantile: f64,
    pub(super) input_scales: Vec<f64>,
    pub(super) predicted_tokens: usize,
    pub(super) predicted_bytes: usize,
    pub(super) context: usize,
    pub(super) products: Vec<ProductSummary>,
    /// A hash of logits in floating point and of the text, on which all results depend.
    pub(super) fingerprint: String,
}

/// A linear product of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProductSummary {
    pub(super) name: String,
    pub(super) weights: u64,
}

/// One run over the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    pub(super) generator: GeneratorName,
    pub(super) length: usize,
    pub(super) seed: u64,
    /// The index of the only product that runs as streams; all do if `None`.
    pub(super) only: Option<usize>,
}

impl LanguageSchedule {
    /// Lists the runs of a plan, which was checked.
    pub(super) fn new(header: Header) -> Result<Self> {
        let plan = &header.plan;
        let n_seeds: u128 = plan
            .generators
            .iter()
            .map(|generator| plan.seeds_of(generator, None).count() as u128)
            .sum();
        let n_runs = n_seeds.saturating_mul(plan.lengths.len() as u128);
        memory::check(n_runs.saturating_mul(size_of::<Run>() as u128), Quantity::Seeds)?;
        let mut runs = Vec::new();
        for &generator in &plan.generators {
            for &length in &plan.lengths {
                let seeds = plan.seeds_of(&generator, None);
                runs.extend(seeds.map(|seed| Run { generator, length, seed, only: None }));
            }
        }
        if header.sensitivity == Sensitivity::Enabled {
            for &generator in &plan.generators {
                let Some(&length) = plan.lengths.first() else { continue };
                let products = 0..header.products.len();
                runs.extend(products.map(|k| Run { generator, length, seed: 0, only: Some(k) }));
            }
        }
        Ok(Self { header, runs })
    }

    /// Returns the configuration of streams of a run.
    pub(super) fn config(&self, run: &Run) -> StreamConfig {
        self.header.plan.config(&run.generator, run.length, run.seed)
    }

    /// Returns the number of passes: that in floating point and the runs.
    pub(super) fn n_passes(&self) -> usize {
        self.runs.len() + 1
    }

    /// Returns the number of sequences, which are the chunks of a pass.
    pub(super) fn n_sequences(&self) -> usize {
        self.header.predicted_tokens.div_ceil(self.header.context.max(1))
    }

    /// Returns the predicted tokens of a sequence, by their indices; none past the end.
    pub(super) fn tokens_of(&self, sequence: usize) -> std::ops::Range<usize> {
        let Header { predicted_tokens: n, context, .. } = self.header;
        let start = sequence.saturating_mul(context).min(n);
        start..start.saturating_add(context).min(n)
    }

    fn workload(&self) -> Workload {
        let products = &self.header.products;
        let of_run = |run: &Run| {
            let config = self.config(run);
            let each = products.iter().enumerate().map(|(k, product)| {
                let is_streamed = run.only.is_none_or(|only| only == k);
                let length = config.settings_of(&product.name).length as u64;
                product.weights.saturating_mul(if is_streamed { length } else { FLOAT_COST })
            });
            each.fold(0, u64::saturating_add)
        };
        let float = products.iter().map(|product| product.weights.saturating_mul(FLOAT_COST));
        let float = float.fold(0, u64::saturating_add);
        let costs = std::iter::once(float).chain(self.runs.iter().map(of_run)).collect();
        Workload { costs, n_chunks: self.n_sequences() }
    }

    /// Returns one task for each pass.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        self.workload().tasks()
    }

    /// Splits tasks into `n` of about the same cost, or more; the most expensive first, those of a
    /// pass one after the other.
    #[must_use]
    pub fn split(&self, tasks: &[Task], n: usize) -> Vec<Task> {
        self.workload().split(tasks, n)
    }

    /// Returns the tasks of a shard, `shard` of `n` counted from 0: about the same cost for each,
    /// and no sequence twice.
    #[must_use]
    pub fn shard(&self, shard: usize, n: usize) -> Vec<Task> {
        self.workload().shard(shard, n)
    }

    /// Returns the generator, length and seed of a task, to report its progress; these are empty in
    /// floating point.
    #[must_use]
    pub fn label(&self, task: &Task) -> (String, usize, u64) {
        match task.pass.checked_sub(1).and_then(|run| self.runs.get(run)) {
            Some(run) => (run.generator.to_string(), run.length, run.seed),
            None => ("floating point".to_owned(), 0, 0),
        }
    }

    /// Returns the schedule as a line of JSON.
    ///
    /// # Errors
    /// An error of the JSON writer; not for the schedule of a plan.
    pub fn to_line(&self) -> Result<String> {
        crate::task::to_line(&self.header)
    }

    /// Reads a line that [`Self::to_line`] wrote, and checks that it is consistent.
    ///
    /// # Errors
    /// [`Error::Format`] with the inconsistency.
    pub fn from_line(line: &str) -> Result<Self> {
        let fault = |reason: String| Error::Format { file: "schedule".to_owned(), reason };
        let header: Header =
            serde_json::from_str(line).map_err(|error| fault(error.to_string()))?;
        header.plan.validate().map_err(fault)?;
        let own = header.plan.layers.values().filter_map(|layer| layer.length.as_ref());
        for &length in header.plan.lengths.iter().chain(own) {
            Length::new(length)?;
        }
        let n = header.products.len();
        let is_scale = |scale: &f64| *scale > 0.0 && scale.is_finite();
        for (what, is_consistent) in [
            ("products", n > 0),
            (
                "input scales",
                header.input_scales.len() == n && header.input_scales.iter().all(is_scale),
            ),
            ("tokens", header.predicted_tokens > 0 && header.context > 0),
        ] {
            if !is_consistent {
                return Err(fault(format!("its {what} are inconsistent")));
            }
        }
        Self::new(header)
    }
}

/// Returns a hash of numbers.
pub(super) fn fingerprint(values: impl IntoIterator<Item = u64>) -> String {
    let mut digest = conformance::Digest::default();
    digest.answer(values.into_iter().collect::<Vec<_>>());
    format!("{:016x}", digest.finish())
}
