//! Tasks and their results: integers or outputs of each sample and errors of each chunk, as lines
//! of JSON.

use super::schedule::{Extent, Labels, PassKind, Schedule};
use crate::{Error, Result};
use aleatron_engine::stream::LayerStats;
use serde::{Deserialize, Serialize};

/// Some chunks of a pass, to be run together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The index of the pass in the schedule.
    pub pass: usize,
    /// The first chunk.
    pub first: usize,
    /// The number of chunks.
    pub chunks: usize,
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskResult {
    /// The index of the pass in the schedule.
    pub(super) pass: usize,
    /// The first chunk.
    pub(super) first: usize,
    pub(super) chunks: Vec<Chunk>,
    /// Warnings, and how the layers ran if not as configured.
    pub(super) notes: Vec<String>,
}

/// The result of a pass for one chunk of the samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chunk {
    /// The class of each sample; none if samples have targets.
    pub(super) classes: Vec<usize>,
    /// The outputs of each sample; none if samples have classes.
    pub(super) outputs: Vec<f64>,
    /// The number of decision margins that each sample reaches; none in floating point and for
    /// targets.
    pub(super) reached: Vec<usize>,
    /// The errors of each layer's counts; none for partial lengths.
    pub(super) layers: Vec<LayerStats>,
    /// The cycles of the last layer until the outcome was certain, over all samples, and the
    /// samples that stopped before the end.
    pub(super) certain: Option<[u64; 2]>,
    /// Features that saturated.
    pub(super) clipped: u64,
    /// The time of the streams.
    pub(super) seconds: f64,
}

/// More than any count of a chunk; the sum over all chunks does not overflow.
const MOST: u64 = 1 << 40;

impl Chunk {
    /// Returns the counts that are summed up.
    fn counts(&self) -> impl Iterator<Item = u64> {
        let of_layers = self.layers.iter().flat_map(|layer| [layer.counts, layer.saturated]);
        of_layers.chain(self.certain.into_iter().flatten()).chain([self.clipped])
    }
}

impl TaskResult {
    /// Returns the result as a line of JSON.
    ///
    /// # Errors
    /// An error of the JSON writer; not for the result of a task that was run.
    pub fn to_line(&self) -> Result<String> {
        to_line(self)
    }

    /// Reads a line that [`Self::to_line`] wrote. The journal that takes the result checks that it
    /// is consistent with the schedule.
    ///
    /// # Errors
    /// [`Error::Format`] with the fault.
    pub fn from_line(line: &str) -> Result<Self> {
        serde_json::from_str(line).map_err(|error| fault(error.to_string()))
    }

    /// Checks that the numbers are consistent with a schedule.
    pub(super) fn validate(&self, schedule: &Schedule) -> Result<()> {
        let Some(pass) = schedule.passes.get(self.pass) else {
            return Err(fault(format!("pass {} of {}", self.pass, schedule.passes.len())));
        };
        let end = self.first.checked_add(self.chunks.len());
        if end.is_none_or(|end| end > schedule.n_chunks()) {
            return Err(fault(format!("chunks from {} on are past the end", self.first)));
        }
        let evaluation = &schedule.header.evaluation;
        let margins = evaluation.plan.margins.len();
        for (index, chunk) in (self.first..).zip(&self.chunks) {
            let n = schedule.samples_of(index).len();
            let (classes, outputs, decides) = match &schedule.header.labels {
                Labels::Classes { n_classes, .. } => {
                    let known = chunk.classes.iter().all(|class| class < n_classes);
                    (chunk.classes.len() == n && known, chunk.outputs.is_empty(), true)
                }
                Labels::Targets { n_outputs, .. } => {
                    let finite = chunk.outputs.iter().all(|output| output.is_finite());
                    (
                        chunk.classes.is_empty(),
                        chunk.outputs.len() == n * n_outputs && finite,
                        false,
                    )
                }
            };
            let n_reached = match pass.kind {
                PassKind::Streams { .. } if decides => n,
                _ => 0,
            };
            let n_layers = match pass.kind {
                PassKind::Streams { extent: Extent::Whole, .. } => evaluation.network.layers.len(),
                _ => 0,
            };
            let reached =
                chunk.reached.len() == n_reached && chunk.reached.iter().all(|&r| r <= margins);
            for (what, is_consistent) in [
                ("classes", classes),
                ("outputs", outputs),
                ("margins", reached),
                ("layers", chunk.layers.len() == n_layers),
                ("seconds", (0.0..f64::INFINITY).contains(&chunk.seconds)),
                ("counts", chunk.counts().all(|count| count < MOST)),
            ] {
                if !is_consistent {
                    let pass = self.pass;
                    return Err(fault(format!(
                        "pass {pass}, chunk {index}: its {what} are inconsistent"
                    )));
                }
            }
        }
        Ok(())
    }
}

pub(super) fn to_line(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| fault(error.to_string()))
}

pub(super) fn fault(reason: String) -> Error {
    Error::Format { file: "results of tasks".to_owned(), reason }
}
