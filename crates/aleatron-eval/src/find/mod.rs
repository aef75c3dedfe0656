//! Searching for the shortest streams that are good enough, layer by layer.
//!
//! The score of a network is its accuracy, or for samples with targets the coefficient of
//! determination R²; that of a language model is its negative loss. The search first tries one
//! length for all layers, from the shortest up, and stops at the first that is good enough. It
//! continues from there: the most expensive layer is tried with half its length; if the score stays
//! within the permitted loss, the layer keeps the half, otherwise it stays as it is. The search
//! ends when no layer can be shortened or the budget of trials is spent. No trial is run twice,
//! so an interrupted search goes on from its trials. [`find_retrained`] also trains the network for
//! the lengths of each trial.

mod retrain;
mod trials;

pub use retrain::{Retrain, find_retrained};
pub(super) use trials::{Candidates, Measured};

use super::cost::CircuitCost;
use super::plan::Plan;
use super::provenance::Provenance;
use super::serial;
use super::subject::Subject;
use crate::{Error, Result};
use aleatron_core::Cancel;
use aleatron_core::generator::GeneratorName;
use aleatron_data::{Dataset, LabelKind};
use aleatron_engine::network::{LayerOverride, Network, StreamConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The permitted loss and the budget of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The generator.
    pub generator: GeneratorName,
    /// The permitted loss of the score against floating point, in hundredths: percentage points of
    /// accuracy, or of R². For language models, in nats per token.
    pub loss: f64,
    /// The length that all layers begin with.
    pub longest: usize,
    /// The shortest length of any layer.
    pub shortest: usize,
    /// The largest number of trials.
    pub budget: usize,
}

/// One choice of lengths, and how good it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The length of each layer that runs as streams.
    pub lengths: Vec<usize>,
    /// The mean score of all seeds.
    pub score: f64,
    /// If the search trains the network: the mean score with these lengths before the training of
    /// the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untrained: Option<f64>,
    /// If the search trains the network: the trial, counted from 0, whose weights the training
    /// began with; `None` for those of the given network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<usize>,
}

/// The measure of a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The share of samples whose top class is their label.
    Accuracy,
    /// The coefficient of determination of outputs and targets.
    RSquared,
    /// The negative loss of a language model, in nats per token.
    NegativeLoss,
}

impl Measure {
    /// Returns a score as text: a percentage, a number, or a loss.
    #[must_use]
    pub fn show(self, score: f64) -> String {
        match self {
            Self::Accuracy => format!("{:.2} %", 100.0 * score.max(0.0)),
            Self::RSquared => format!("R² {score:.4}"),
            Self::NegativeLoss => format!("{:.4} nats/token", -score),
        }
    }

    /// Returns the interval of scores.
    pub(super) fn range(self) -> std::ops::RangeInclusive<f64> {
        match self {
            Self::Accuracy => 0.0..=1.0,
            Self::RSquared => f64::MIN..=1.0,
            Self::NegativeLoss => f64::MIN..=0.0,
        }
    }

    /// Returns how shown scores that are good enough compare with their bar.
    #[must_use]
    pub fn bound(self) -> &'static str {
        match self {
            Self::Accuracy | Self::RSquared => "at least",
            Self::NegativeLoss => "at most",
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// A hash of the network, the data and the settings.
    pub identity: String,
    /// The generator.
    #[serde(with = "serial::text")]
    pub generator: GeneratorName,
    /// The layers that run as streams.
    pub layers: Vec<String>,
    /// The products of one sample in each.
    pub products: Vec<u64>,
    /// The shortest lengths found that are good enough; the initial lengths if even those are not,
    /// or if none has been found yet.
    pub lengths: Vec<usize>,
    /// The score with them; 0 if no trial had them, see [`Found::measured_score`].
    pub score: f64,
    /// The score in floating point.
    pub float_score: f64,
    /// The score that is good enough.
    pub bar: f64,
    /// The measure that the scores are of.
    pub measure: Measure,
    /// Products of bits of one sample with all layers at their longest.
    pub bit_macs_before: u64,
    /// Products of bits of one sample with the lengths found.
    pub bit_macs: u64,
    /// The cost of the circuit with the lengths found, if it was computed by [`super::add_cost`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CircuitCost>,
    /// Every trial.
    pub trials: Vec<Trial>,
    /// Whether the search is finished.
    pub is_finished: bool,
    /// The runs that contributed, in their order. Results are equal without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

/// Searches for the shortest streams of a network's layers with one generator. `known` is the
/// result of an earlier search of the same; `progress` is called with the state of the search
/// before and after each trial.
///
/// ```
/// use aleatron_core::Cancel;
/// use aleatron_data::Dataset;
/// use aleatron_eval::{Plan, Search, find};
/// use aleatron_engine::network::Network;
///
/// let network = Network::digits_noise_aware()?;
/// let search = Search { generator: "sobol".parse()?, loss: 1.0, longest: 64, shortest: 16, budget: 10 };
/// let data = Dataset::digits_test();
/// let found = find(&network, &data, &Plan::default(), &search, None, Cancel::NEVER, |_| ())?;
/// assert!(found.is_good() && found.bit_macs < found.bit_macs_before);
/// # Ok::<(), aleatron_eval::Error>(())
/// ```
///
/// # Errors
/// As [`super::evaluate`], [`Error::Nothing`] for lengths of 0 or no budget,
/// [`Error::SearchedLength`], [`Error::ConstantTargets`], [`Error::Checkpoint`] if `known` is of
/// another search, and [`Error::UnfinishedSearch`], with the trials that are done, if a later trial
/// fails.
pub fn find(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    search: &Search,
    known: Option<Found>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(&Found),
) -> Result<Found> {
    let Setup { subject, plan, found } = Setup::new(network, data, plan, search, cancel)?;
    let names = found.layers.clone();
    let score =
        |lengths: &[usize]| subject.mean_score(data, &plan, search, &names, lengths, cancel);
    found.search(known, search, &mut Fixed { score, progress: &mut progress })
}

/// A search over the layers of a network before its first trial.
struct Setup {
    subject: Subject,
    /// The plan with the lengths and the generator of the search.
    plan: Plan,
    found: Found,
}

impl Setup {
    /// Checks a search, and computes the score in floating point.
    fn new(
        network: &Network,
        data: &Dataset,
        plan: &Plan,
        search: &Search,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        search.check(&plan.layers)?;
        if !(0.0..=100.0).contains(&search.loss) {
            return Err(Error::Loss(search.loss));
        }
        let subject = Subject::new(Arc::new(network.clone()))?;
        let plan = Plan {
            lengths: vec![search.shortest, search.longest],
            generators: vec![search.generator],
            ..plan.clone()
        };
        subject.check(&plan)?;
        subject.check_data(data, &plan)?;
        check_targets(data)?;
        let (identity, layers) = (subject.identity(data, &plan)?, subject.layers());
        let float_score = subject.score_of(&subject.forward_all(data, cancel)?, data)?;
        let found = Found {
            identity,
            layers: layers.iter().map(|layer| layer.name.clone()).collect(),
            products: layers.iter().map(|layer| layer.products).collect(),
            measure: match data.label_kind() {
                LabelKind::Classes => Measure::Accuracy,
                LabelKind::Numbers => Measure::RSquared,
            },
            ..Found::new(search, float_score, search.loss / 100.0)
        };
        Ok(Self { subject, plan, found })
    }
}

/// Checks that targets of a regression have a spread, which R² is relative to.
fn check_targets(data: &Dataset) -> Result<()> {
    let (targets, n) = (data.targets(), data.n_targets());
    let is_constant = data.label_kind() == LabelKind::Numbers
        && targets.iter().enumerate().all(|(k, target)| *target == targets[k % n]);
    match targets.first() {
        Some(&value) if is_constant => Err(Error::ConstantTargets { samples: data.len(), value }),
        _ => Ok(()),
    }
}

impl Subject {
    /// Computes the mean score of all seeds with some lengths.
    fn mean_score(
        &self,
        data: &Dataset,
        plan: &Plan,
        search: &Search,
        layers: &[String],
        lengths: &[usize],
        cancel: Cancel<'_>,
    ) -> Result<f64> {
        let seeds = plan.seeds_of(&search.generator, None);
        let (mut sum, n) = (0.0, seeds.clone().count().max(1));
        for seed in seeds {
            sum += self.score(data, &search.config(plan, layers, lengths, seed), cancel)?;
        }
        Ok(sum / n as f64)
    }
}

/// The candidates of a search whose weights stay as they are: `score` returns the mean score with
/// some lengths.
pub(super) struct Fixed<'a, S> {
    pub(super) score: S,
    pub(super) progress: &'a mut dyn FnMut(&Found),
}

impl<S: FnMut(&[usize]) -> Result<f64>> Candidates for Fixed<'_, S> {
    fn measure(&mut self, lengths: &[usize]) -> Result<Measured> {
        Ok(Measured { score: (self.score)(lengths)?, untrained: None })
    }

    fn report(&mut self, found: &Found) -> Result<()> {
        (self.progress)(found);
        Ok(())
    }
}

impl Search {
    /// Checks the generator, the lengths and the budget, and that no layer has a length of its own.
    pub(super) fn check(&self, layers: &BTreeMap<String, LayerOverride>) -> Result<()> {
        let own = layers.values().filter_map(|own| own.generator.as_ref());
        own.chain([&self.generator]).try_for_each(GeneratorName::check_streams)?;
        let mut own = layers.iter().filter_map(|(name, own)| Some((name, own.length?)));
        if let Some((layer, length)) = own.next() {
            return Err(Error::SearchedLength { layer: layer.clone(), length });
        }
        if self.shortest == 0 || self.longest < self.shortest {
            return Err(Error::Nothing("lengths to search"));
        }
        if self.budget == 0 {
            return Err(Error::Nothing("trials"));
        }
        Ok(())
    }

    /// Returns the configuration of a trial with one seed.
    pub(super) fn config(
        &self,
        plan: &Plan,
        layers: &[String],
        lengths: &[usize],
        seed: u64,
    ) -> StreamConfig {
        let mut config = plan.config(&self.generator, self.longest, seed);
        for (name, &length) in layers.iter().zip(lengths) {
            let own = config.layers.get(name).copied().unwrap_or_default();
            config.layers.insert(name.clone(), LayerOverride { length: Some(length), ..own });
        }
        config
    }
}

impl Found {
    /// Returns the state before the first trial, without the layers; `permitted` is the permitted
    /// loss of the score.
    pub(super) fn new(search: &Search, float_score: f64, permitted: f64) -> Self {
        Self {
            identity: String::new(),
            generator: search.generator,
            layers: Vec::new(),
            products: Vec::new(),
            lengths: Vec::new(),
            score: 0.0,
            float_score,
            // The slack is for the rounding of f64 alone.
            bar: float_score - permitted - 1e-9,
            measure: Measure::Accuracy,
            bit_macs_before: 0,
            bit_macs: 0,
            cost: None,
            trials: Vec::new(),
            is_finished: false,
            provenance: Vec::new(),
        }
    }

    /// Runs the search from here, or from the trials of an earlier search.
    pub(super) fn search(
        mut self,
        known: Option<Self>,
        search: &Search,
        candidates: &mut dyn Candidates,
    ) -> Result<Self> {
        if let Some(known) = known {
            self.trials = known.trials_of(&self.identity, &search.generator, &self.layers)?;
        }
        self.lengths = vec![search.longest; self.layers.len()];
        self.bit_macs = self.cost(&self.lengths);
        self.bit_macs_before = self.bit_macs;
        match trials::run(search, candidates, &mut self) {
            Ok(is_finished) => {
                self.is_finished = is_finished;
                Ok(self)
            }
            Err(error) if error.core() == Some(&aleatron_core::Error::Cancelled) => Ok(self),
            Err(source) if self.trials.is_empty() => Err(source),
            Err(source) => {
                Err(Error::UnfinishedSearch { done: Box::new(self), source: Box::new(source) })
            }
        }
    }

    /// Returns the products of bits of one sample with some lengths.
    fn cost(&self, lengths: &[usize]) -> u64 {
        let each = self.products.iter().zip(lengths);
        let each = each.map(|(&products, &length)| products.saturating_mul(length as u64));
        each.fold(0, u64::saturating_add)
    }

    /// Takes lengths as the result.
    fn take(&mut self, lengths: Vec<usize>, score: f64) {
        self.bit_macs = self.cost(&lengths);
        (self.lengths, self.score) = (lengths, score);
    }

    /// Returns the score with the lengths found; `None` if the search ended before it tried any
    /// that are good enough, and before the longest ones.
    #[must_use]
    pub fn measured_score(&self) -> Option<f64> {
        let is_measured = self.trials.iter().any(|trial| trial.lengths == self.lengths);
        is_measured.then_some(self.score)
    }

    /// Returns whether the lengths found are good enough, even if the search has not finished.
    #[must_use]
    pub fn has_good_lengths(&self) -> bool {
        self.measured_score().is_some_and(|score| score >= self.bar)
    }

    /// Returns whether the search came to its end with lengths that are good enough.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.is_finished && self.has_good_lengths()
    }

    /// Reads a search from JSON.
    ///
    /// # Errors
    /// [`Error::Format`] with the reason.
    pub fn from_json(text: &str) -> Result<Self> {
        let fault = |reason: String| Error::Format { file: "search".to_owned(), reason };
        let read: Self = serde_json::from_str(text).map_err(|error| fault(error.to_string()))?;
        read.validate_cost()?;
        let n = read.layers.len();
        if read.lengths.len() != n || read.products.len() != n {
            return Err(fault("it has not one length for each layer".to_owned()));
        }
        let range = read.measure.range();
        let is_consistent = |(k, trial): (usize, &Trial)| {
            trial.lengths.len() == n
                && trial.untrained.iter().chain([&trial.score]).all(|score| range.contains(score))
                && trial.start.is_none_or(|start| start < k)
        };
        match read.trials.iter().enumerate().position(|trial| !is_consistent(trial)) {
            Some(k) => Err(fault(format!("trial {k} is inconsistent"))),
            None => Ok(read),
        }
    }

    /// Returns the search as JSON.
    ///
    /// # Errors
    /// An error of the JSON writer; not for a result of [`find`].
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map_err(|error| Error::Format { file: "search".to_owned(), reason: error.to_string() })
    }

    /// Returns the trials, if they are those of the same search.
    fn trials_of(
        self,
        identity: &str,
        generator: &GeneratorName,
        layers: &[String],
    ) -> Result<Vec<Trial>> {
        for (what, same) in [
            (
                "the network, the data or the settings",
                self.identity == identity && self.layers == layers,
            ),
            ("the generator", self.generator == *generator),
        ] {
            if !same {
                return Err(Error::Checkpoint(what));
            }
        }
        Ok(self.trials)
    }
}
