//! Exploring designs: which streams and circuits are worth building.
//!
//! A design is a network with a generator (or integers of some bits, as a binary circuit has them),
//! a stream length for each layer, a sharing and a width of sequences, early termination or none,
//! and a number of neurons that its circuit computes at a time. Its score is that of the circuit, which computes in integers
//! between layers; its latency, area and energy are those of the cost model of `aleatron-hardware`.
//! A design is *optimal* if no other one is at least as good in all four and better in one of them:
//! these designs are the Pareto set.
//!
//! The search is successive halving in two rungs, then refinement. Every combination of the space
//! with one length for all layers is screened on a share of the samples; those that another design
//! beats beyond the error of that estimate, at no higher cost, are dropped; the others run on all
//! samples. After that, each optimal design is tried with half the length in one layer at a time,
//! until no such trial is left or the budget is spent. Trials are deterministic and never run
//! twice, so a search that was interrupted ends with the same designs when it is resumed.

mod design;
mod pareto;
mod search;

pub use design::{Design, DesignCost, EarlyTermination, Lanes, Missing, StreamDesign};

use super::faults::FaultPoint;
use super::find::Measure;
use super::plan::Plan;
use super::provenance::Provenance;
use crate::{Error, Result};
use aleatron_core::Cancel;
use aleatron_core::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron_data::Dataset;
use aleatron_engine::network::Network;
use serde::{Deserialize, Serialize};

/// The designs to explore: all combinations of the lists.
#[derive(Debug, Clone, PartialEq)]
pub struct DesignSpace {
    /// The generators.
    pub generators: Vec<GeneratorName>,
    /// The lengths of streams. Refinement halves lengths down to the least of them.
    pub lengths: Vec<usize>,
    /// How many sequences streams share.
    pub sharings: Vec<Sharing>,
    /// The widths of sequences.
    pub widths: Vec<WidthChoice>,
    /// Early termination in the last layer of circuits of streams.
    pub early: Vec<EarlyTermination>,
    /// The neurons that a circuit computes at a time.
    pub lanes: Vec<Lanes>,
    /// The loss against floating point up to which designs are refined and shown, in hundredths of
    /// the score: percentage points of accuracy, or of R².
    pub loss: f64,
    /// The most trials.
    pub budget: usize,
}

impl Default for DesignSpace {
    /// Sobol and LFSR streams of lengths from 8 to 256 with one sequence for all, integers of 8 and
    /// 4 bits, no early termination, all neurons or 8 or 1 of them at a time, 200 trials.
    fn default() -> Self {
        Self {
            generators: ["sobol", "lfsr", "int8", "int4"]
                .iter()
                .filter_map(|name| name.parse().ok())
                .collect(),
            lengths: (3..=8).map(|k| 1 << k).collect(),
            sharings: vec![Sharing::OneForAll],
            widths: vec![WidthChoice::Auto],
            early: vec![EarlyTermination::Disabled],
            lanes: vec![Lanes::All, Lanes::Limited(8), Lanes::Limited(1)],
            loss: 5.0,
            budget: 200,
        }
    }
}

/// The samples of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// A share of the samples.
    Screening,
    /// All samples.
    Full,
}

/// The score of some streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DesignTrial {
    /// The streams.
    pub streams: StreamDesign,
    /// The samples.
    pub rung: Rung,
    /// The score of each seed.
    pub scores: Vec<f64>,
}

/// A trial that is still to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingTrial {
    /// The streams.
    pub streams: StreamDesign,
    /// The samples.
    pub rung: Rung,
}

/// The result of an exploration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exploration {
    /// A hash of the networks, the data and the settings.
    pub identity: String,
    /// The names of the networks.
    pub networks: Vec<String>,
    /// The layers that run as streams.
    pub layers: Vec<String>,
    /// The name of the data.
    pub data: String,
    /// The samples.
    pub samples: usize,
    /// The score of each network in floating point.
    pub float_scores: Vec<f64>,
    /// The measure that the scores are of.
    pub measure: Measure,
    /// The faults that scores were measured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultPoint>,
    /// The permitted loss of designs that are shown, in hundredths of the score.
    pub loss: f64,
    /// Every trial, in the order in which it ran.
    pub trials: Vec<DesignTrial>,
    /// Every design whose streams ran on all samples, by energy.
    pub designs: Vec<Design>,
    /// Streams without a circuit, and the reason.
    pub missing: Vec<Missing>,
    /// Whether the search came to its end.
    pub is_finished: bool,
    /// The runs that contributed, in their order. Results are equal without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

impl Exploration {
    /// Returns the best score in floating point.
    #[must_use]
    pub fn float_score(&self) -> f64 {
        self.float_scores.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns the least score of designs that are shown.
    #[must_use]
    pub fn bar(&self) -> f64 {
        // The slack is for the rounding of f64 alone.
        self.float_score() - self.loss / 100.0 - 1e-9
    }

    /// Returns the optimal designs that lose no more than permitted, by energy.
    pub fn optimal(&self) -> impl Iterator<Item = &Design> {
        let bar = self.bar();
        self.designs.iter().filter(move |design| design.is_optimal && design.score >= bar)
    }

    /// Returns the exploration as JSON.
    ///
    /// # Errors
    /// An error of the JSON writer; not for a result of [`explore`].
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map_err(|error| Error::Format {
            file: "exploration".to_owned(),
            reason: error.to_string(),
        })
    }

    /// Reads an exploration from JSON.
    ///
    /// # Errors
    /// [`Error::Format`] with the inconsistency.
    pub fn from_json(text: &str) -> Result<Self> {
        let fault = |reason: String| Error::Format { file: "exploration".to_owned(), reason };
        let read: Self = serde_json::from_str(text).map_err(|error| fault(error.to_string()))?;
        let is_consistent = |trial: &DesignTrial| {
            trial.streams.network < read.networks.len()
                && trial.streams.lengths.len() == read.layers.len()
                && !trial.scores.is_empty()
                && trial.scores.iter().all(|score| read.measure.range().contains(score))
        };
        match read.trials.iter().position(|trial| !is_consistent(trial)) {
            Some(k) => Err(fault(format!("trial {k} is inconsistent"))),
            None => Ok(read),
        }
    }

    /// Returns one line of comma-separated values for each design, under a heading.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "network,generator,sharing,width,margin,lanes,score,worst score,cycles,latency,area,energy nJ,optimal",
        );
        for layer in &self.layers {
            text.push_str(&format!(",{} bits", layer.replace([',', '\n', '"'], ";")));
        }
        text.push('\n');
        for design in &self.designs {
            let StreamDesign { network, generator, sharing, width, lengths, early } =
                &design.streams;
            let name = self
                .networks
                .get(*network)
                .map_or("", String::as_str)
                .replace([',', '\n', '"'], ";");
            let DesignCost { cycles, latency, area, energy } = design.cost;
            let (lanes, score, worst, optimal) =
                (design.lanes, design.score, design.worst_score, design.is_optimal);
            text.push_str(&format!(
                "{name},{generator},{sharing},{width},{early},{lanes},{score},{worst},{cycles},{latency},{area},{energy},{optimal}"
            ));
            lengths.iter().for_each(|length| text.push_str(&format!(",{length}")));
            text.push('\n');
        }
        text
    }
}

/// Lists the next trials of an exploration that do not depend on each other, for workers that run
/// them with [`run_trial`]; none if it has come to its end. With their results added to the trials
/// of `known`, the next call lists those that follow, and [`explore`] ends with the designs that it
/// would have found alone.
///
/// # Errors
/// As [`explore`].
pub fn pending_trials(
    networks: &[Network],
    data: &Dataset,
    plan: &Plan,
    space: &DesignSpace,
    known: Option<Exploration>,
    cancel: Cancel<'_>,
) -> Result<(Exploration, Vec<PendingTrial>)> {
    let search = search::Search::new(networks, data, plan, space, known.as_ref())?;
    let mut found = search.start(known, cancel)?;
    let pending = search.pending(&mut found, cancel)?;
    Ok((found, pending))
}

/// Runs one trial of [`pending_trials`], with the same networks, data, plan and space.
///
/// # Errors
/// As [`explore`].
pub fn run_trial(
    networks: &[Network],
    data: &Dataset,
    plan: &Plan,
    space: &DesignSpace,
    trial: &PendingTrial,
    cancel: Cancel<'_>,
) -> Result<DesignTrial> {
    let search = search::Search::new(networks, data, plan, space, None)?;
    search.trial(&trial.streams, trial.rung, cancel)
}

/// Explores the designs of a network, or of several variants of one, such as the same network
/// before and after training for short streams.
///
/// `plan` has the seeds, the device, the treatment of features, and at most one fault rate and
/// site, with which scores are measured; its lengths, generators, widths and sharing are those of
/// the space, and its arithmetic is that of circuits. `known` is the result of an earlier
/// exploration of the same networks and data with the same settings, in whatever space: its trials
/// are not run again. `progress` is called with the state before and after each trial.
///
/// ```
/// use aleatron_core::Cancel;
/// use aleatron_data::Dataset;
/// use aleatron_eval::{DesignSpace, Plan, explore};
/// use aleatron_engine::network::Network;
///
/// let networks = [Network::digits_noise_aware()?];
/// let space = DesignSpace { lengths: vec![16, 32], budget: 12, ..DesignSpace::default() };
/// let found = explore(&networks, &Dataset::digits_test(), &Plan::default(), &space, None, Cancel::NEVER, |_| ())?;
/// assert!(found.optimal().count() > 1);
/// # Ok::<(), aleatron_eval::Error>(())
/// ```
///
/// # Errors
/// As [`super::evaluate`]; [`Error::Nothing`] for an empty list or no budget, [`Error::Loss`],
/// [`Error::SeveralFaults`], [`Error::EarlyTermination`], [`Error::Variant`] for networks whose layers have other names than
/// those of the first, [`Error::Checkpoint`] if `known` is of another exploration, and
/// [`Error::UnfinishedExploration`], with the trials that are done, if a later trial fails.
pub fn explore(
    networks: &[Network],
    data: &Dataset,
    plan: &Plan,
    space: &DesignSpace,
    known: Option<Exploration>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(&Exploration),
) -> Result<Exploration> {
    let search = search::Search::new(networks, data, plan, space, known.as_ref())?;
    let mut found = search.start(known, cancel)?;
    let ended = search.run(&mut found, cancel, &mut progress);
    search.rank(&mut found)?;
    match ended {
        Ok(is_finished) => {
            found.is_finished = is_finished;
            Ok(found)
        }
        Err(Error::Core(aleatron_core::Error::Cancelled)) => Ok(found),
        Err(source) if found.trials.is_empty() => Err(source),
        Err(source) => {
            Err(Error::UnfinishedExploration { done: Box::new(found), source: Box::new(source) })
        }
    }
}
