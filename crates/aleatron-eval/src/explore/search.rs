//! The search: screening, full trials, refinement.

use super::design::{Design, DesignCost, EarlyTermination, Lanes, Missing, StreamDesign};
use super::{DesignSpace, DesignTrial, Exploration, PendingTrial, Rung, pareto};
use crate::faults::FaultPoint;
use crate::find::Measure;
use crate::plan::Plan;
use crate::schedule::fingerprint;
use crate::statistics::mean;
use crate::subject::Subject;
use crate::{Error, Result};
use aleatron_core::Cancel;
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::generator::{Sharing, WidthChoice};
use aleatron_data::{Dataset, LabelKind};
use aleatron_engine::network::{LayerOverride, Network, StreamConfig};
use aleatron_hardware::cost::Technology;
use aleatron_hardware::{Circuit, Options, Output};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Samples whose streams give the activity that energy depends on.
const TRACED: usize = 2;

/// The same if designs stop early: the cycles of samples differ.
const TRACED_EARLY: usize = 64;

/// The samples whose circuit with early termination is traced at a time.
const CHUNK: usize = 256;

/// The least number of samples to screen designs on. Data of up to twice as many are not worth
/// screening.
const SCREENED: usize = 250;

/// The share of the samples to screen designs on is one in so many.
const SCREENING_SHARE: usize = 5;

/// Standard errors between two screened scores beyond which one design is taken to be better.
const CONFIDENCE: f64 = 3.0;

/// The networks under exploration, and everything that trials run on.
pub(super) struct Search<'a> {
    subjects: Vec<Subject>,
    data: &'a Dataset,
    /// The samples of the screening; none if all samples are few.
    screening: Option<Dataset>,
    /// The samples of the activity that energy depends on, the same for all designs: the first of
    /// them counts with its whole latency. None if they cannot be read, which trials report.
    traced: Option<Dataset>,
    plan: Plan,
    /// The faults that scores are measured with.
    faults: Option<FaultPoint>,
    space: &'a DesignSpace,
    layers: Vec<String>,
}

/// Returns some samples, evenly spread: files are often sorted by class.
fn spread(data: &Dataset, count: usize) -> Result<Dataset> {
    let count = count.min(data.len());
    let indices: Vec<usize> = (0..count).map(|k| k * data.len() / count).collect();
    Ok(data.subset(data.name(), &indices)?)
}

/// Costs of streams for each of the lanes, or the reason why they have no circuit.
type Costs = HashMap<StreamDesign, Result<Vec<(Lanes, DesignCost)>, String>>;

impl<'a> Search<'a> {
    /// Checks everything that can be known before the first trial. `known` is an earlier
    /// exploration whose trials belong to the result.
    pub(super) fn new(
        networks: &[Network],
        data: &'a Dataset,
        plan: &Plan,
        space: &'a DesignSpace,
        known: Option<&Exploration>,
    ) -> Result<Self> {
        for (what, is_empty) in [
            ("networks", networks.is_empty()),
            ("generators", space.generators.is_empty()),
            ("lengths", space.lengths.is_empty() || space.lengths.contains(&0)),
            ("sharings", space.sharings.is_empty()),
            ("widths", space.widths.is_empty()),
            (
                "lanes",
                space.lanes.is_empty() || space.lanes.iter().any(|lanes| lanes.limit() == Some(0)),
            ),
            ("margins", space.early.is_empty()),
            ("seeds", plan.seeds == 0),
            ("trials", space.budget == 0),
        ] {
            if is_empty {
                return Err(Error::Nothing(what));
            }
        }
        if !(0.0..=100.0).contains(&space.loss) {
            return Err(Error::Loss(space.loss));
        }
        let plan = Plan {
            lengths: vec![1],
            generators: space.generators.clone(),
            arithmetic: Arithmetic::Integer,
            layers: plan.layers.clone(),
            ..plan.clone()
        };
        plan.check_numbers()?;
        // Generators whose circuits do not have the sites are listed among those without a circuit.
        Plan { generators: Vec::new(), ..plan.clone() }.check_faults()?;
        let faults = match plan.fault_points()[..] {
            [faults] => faults,
            _ => return Err(Error::SeveralFaults),
        };
        let has_margins = space.early.iter().any(|early| !early.is_disabled());
        if has_margins {
            if space.generators.iter().all(|generator| generator.integer_bits().is_some()) {
                return Err(Error::EarlyTermination("integers, which have no early scores"));
            }
            if data.label_kind() == LabelKind::Numbers {
                return Err(Error::EarlyTermination("a regression, whose scores must be complete"));
            }
            if faults.is_some() {
                return Err(Error::EarlyTermination(
                    "faults: its bounds are those of streams without flips",
                ));
            }
        }
        let subjects = networks.iter().map(|network| Subject::new(Arc::new(network.clone())));
        let subjects = subjects.collect::<Result<Vec<_>>>()?;
        let names = |subject: &Subject| -> Vec<String> {
            subject.layers().iter().map(|layer| layer.name.clone()).collect()
        };
        let layers = subjects.first().map(names).unwrap_or_default();
        if layers.is_empty() {
            return Err(Error::Nothing("layers that run as streams"));
        }
        for subject in &subjects {
            if names(subject) != layers {
                return Err(Error::Variant { name: subject.network().name().to_owned() });
            }
            subject.check_data(data, &plan)?;
        }
        let screening = match (data.label_kind(), data.len()) {
            (LabelKind::Classes, n) if n > 2 * SCREENED => {
                Some(spread(data, (n / SCREENING_SHARE).max(SCREENED))?)
            }
            // The error of R² on a share of the samples is unknown.
            _ => None,
        };
        let is_early = |trial: &DesignTrial| !trial.streams.early.is_disabled();
        let is_early = has_margins || known.is_some_and(|known| known.trials.iter().any(is_early));
        let traced = spread(data, if is_early { TRACED_EARLY } else { TRACED }).ok();
        Ok(Self { subjects, data, screening, traced, plan, faults, space, layers })
    }

    /// Returns the state before the first trial, or with the trials of an earlier exploration.
    pub(super) fn start(
        &self,
        known: Option<Exploration>,
        cancel: Cancel<'_>,
    ) -> Result<Exploration> {
        let identities =
            self.subjects.iter().map(|subject| subject.identity(self.data, &self.plan));
        let faults = self.faults.map_or_else(String::new, |faults| faults.to_string());
        let identities = identities.collect::<Result<Vec<_>>>()?.join(" ") + &faults;
        let identity = fingerprint(&identities.bytes().map(u64::from).collect::<Vec<_>>());
        let trials = match known {
            Some(known) if known.identity == identity && known.layers == self.layers => {
                known.trials
            }
            Some(_) => return Err(Error::Checkpoint("the network, the data or the settings")),
            None => Vec::new(),
        };
        let mut float_scores = Vec::new();
        for subject in &self.subjects {
            let outputs = subject.forward_all(self.data, cancel)?;
            float_scores.push(subject.score_of(&outputs, self.data)?);
        }
        Ok(Exploration {
            identity,
            networks: self
                .subjects
                .iter()
                .map(|subject| subject.network().name().to_owned())
                .collect(),
            layers: self.layers.clone(),
            data: self.data.name().to_owned(),
            samples: self.data.len(),
            float_scores,
            measure: match self.data.label_kind() {
                LabelKind::Classes => Measure::Accuracy,
                LabelKind::Numbers => Measure::RSquared,
            },
            faults: self.faults,
            loss: self.space.loss,
            trials,
            designs: Vec::new(),
            missing: Vec::new(),
            is_finished: false,
            provenance: Vec::new(),
        })
    }

    /// Runs the search; returns whether it came to its end within the budget.
    pub(super) fn run(
        &self,
        found: &mut Exploration,
        cancel: Cancel<'_>,
        progress: &mut dyn FnMut(&Exploration),
    ) -> Result<bool> {
        self.go(&mut Trials {
            search: self,
            found,
            cancel,
            progress,
            spent: 0,
            unknown: Unknown::Run,
        })
    }

    /// Returns the next trials that do not depend on each other, without running any.
    pub(super) fn pending(
        &self,
        found: &mut Exploration,
        cancel: Cancel<'_>,
    ) -> Result<Vec<PendingTrial>> {
        let (unknown, progress) = (Unknown::Collect(Vec::new()), &mut |_: &Exploration| {});
        let mut state = Trials { search: self, found, cancel, progress, spent: 0, unknown };
        self.go(&mut state)?;
        Ok(state.take_pending())
    }

    /// Runs a trial.
    pub(super) fn trial(
        &self,
        streams: &StreamDesign,
        rung: Rung,
        cancel: Cancel<'_>,
    ) -> Result<DesignTrial> {
        let data = match (&self.screening, rung) {
            (Some(screening), Rung::Screening) => screening,
            _ => self.data,
        };
        let missing = aleatron_core::Error::Internal { place: "eval::explore::Search::trial" };
        let subject = self.subjects.get(streams.network).ok_or(missing)?;
        let mut scores = Vec::new();
        let faults = self.plan.faults_of(self.faults)?;
        for seed in self.plan.seeds_of(&streams.generator, self.faults) {
            let config = StreamConfig { faults: faults.clone(), ..self.config(streams, seed) };
            scores.push(match streams.early {
                EarlyTermination::Disabled => subject.score(data, &config, cancel)?,
                EarlyTermination::Margin(_) => {
                    early_accuracy(subject.network(), &config, streams.early, data, cancel)?
                }
            });
        }
        Ok(DesignTrial { streams: streams.clone(), rung, scores })
    }

    fn go(&self, state: &mut Trials<'_, '_>) -> Result<bool> {
        let (mut costs, cancel) = (Costs::new(), state.cancel);
        let candidates = self.uniform();
        let Some(survivors) = state.screen(&candidates, &mut costs)? else { return Ok(false) };
        if !state.run_full(&survivors)? {
            return Ok(false);
        }
        // Designs whose halves were tried.
        let mut refined = HashSet::new();
        loop {
            let designs = self.designs(&state.found.trials, &mut costs, cancel)?;
            let bar = state.found.bar();
            let open = designs.iter().filter(|design| design.is_optimal && design.score >= bar);
            let Some(next) =
                open.map(|design| &design.streams).find(|streams| !refined.contains(*streams))
            else {
                return Ok(true);
            };
            refined.insert(next.clone());
            let halves = self.halves(next);
            let Some(survivors) = state.screen(&halves, &mut costs)? else { return Ok(false) };
            if !state.run_full(&survivors)? {
                return Ok(false);
            }
        }
    }

    /// Computes the designs and the Pareto set of all full trials. It is not cancelled: the state
    /// of an interrupted search is ranked as well.
    pub(super) fn rank(&self, found: &mut Exploration) -> Result<()> {
        let mut costs = Costs::new();
        found.designs = self.designs(&found.trials, &mut costs, Cancel::NEVER)?;
        let missing = self.uniform().into_iter().filter_map(|streams| {
            let reason = self.costs(&streams, &mut costs).as_ref().err()?.clone();
            Some(Missing { streams, reason })
        });
        found.missing = missing.collect();
        Ok(())
    }

    /// Returns the combinations of the space with one length for all layers, short streams first.
    fn uniform(&self) -> Vec<StreamDesign> {
        let mut lengths = self.space.lengths.clone();
        lengths.sort_unstable();
        let mut all = Vec::new();
        let (integers, generators): (Vec<_>, Vec<_>) = self
            .space
            .generators
            .iter()
            .copied()
            .partition(|generator| generator.integer_bits().is_some());
        for network in 0..self.subjects.len() {
            for &generator in &integers {
                let lengths = self.plan.lengths_of(&generator).repeat(self.layers.len());
                let (sharing, width) = (Sharing::OneForAll, WidthChoice::Auto);
                let early = EarlyTermination::Disabled;
                all.push(StreamDesign { network, generator, sharing, width, lengths, early });
            }
            for &length in &lengths {
                for &generator in &generators {
                    for &sharing in &self.space.sharings {
                        for &width in &self.space.widths {
                            for &early in &self.space.early {
                                let lengths = vec![length; self.layers.len()];
                                let streams = StreamDesign {
                                    network,
                                    generator,
                                    sharing,
                                    width,
                                    lengths,
                                    early,
                                };
                                if !all.contains(&streams) {
                                    all.push(streams);
                                }
                            }
                        }
                    }
                }
            }
        }
        all
    }

    /// Returns the streams with half the length in one layer.
    fn halves(&self, streams: &StreamDesign) -> Vec<StreamDesign> {
        let least = self.space.lengths.iter().copied().min().unwrap_or(1);
        let is_integer = |k: usize| {
            let own = self.layers.get(k).and_then(|name| self.plan.layers.get(name));
            let generator = own.and_then(|own| own.generator).unwrap_or(streams.generator);
            generator.integer_bits().is_some()
        };
        let can_halve = |&k: &usize| !is_integer(k) && streams.lengths[k] / 2 >= least;
        let halved = |k: usize| {
            let mut streams = streams.clone();
            streams.lengths[k] /= 2;
            streams
        };
        (0..streams.lengths.len()).filter(can_halve).map(halved).collect()
    }

    /// Returns the configuration of streams with a seed.
    fn config(&self, streams: &StreamDesign, seed: u64) -> StreamConfig {
        let StreamDesign { generator, sharing, width, lengths, .. } = streams;
        let plan = Plan { sharing: *sharing, width: *width, ..self.plan.clone() };
        let mut config = plan.config(generator, streams.longest(), seed);
        for (name, &length) in self.layers.iter().zip(lengths) {
            let own = config.layers.get(name).copied().unwrap_or_default();
            config.layers.insert(name.clone(), LayerOverride { length: Some(length), ..own });
        }
        config
    }

    /// Returns the cost of streams with each of the lanes, or the reason why they have no circuit.
    fn costs<'c>(
        &self,
        streams: &StreamDesign,
        known: &'c mut Costs,
    ) -> &'c Result<Vec<(Lanes, DesignCost)>, String> {
        known.entry(streams.clone()).or_insert_with(|| {
            let generator = streams.generator;
            match self.plan.fault_points_of(&generator).is_empty() {
                true => Err(format!("{generator} has no streams, and so no faults of them")),
                false => self.compute_costs(streams).map_err(|error| error.to_string()),
            }
        })
    }

    fn compute_costs(
        &self,
        streams: &StreamDesign,
    ) -> aleatron_hardware::Result<Vec<(Lanes, DesignCost)>> {
        let config = self.config(streams, 0);
        let Some(subject) = self.subjects.get(streams.network) else { return Ok(Vec::new()) };
        let base = options(streams.early);
        let circuit = Circuit::new(subject.network(), &config, &base)?;
        // Samples that cannot be encoded fail in the trial itself.
        let trace = self.traced.as_ref().and_then(|samples| circuit.trace(samples.features()).ok());
        let (mut costs, mut refused) = (Vec::new(), None);
        for &lanes in &self.space.lanes {
            let options = Options { lanes: lanes.limit(), ..base };
            // Early termination needs all neurons of the last layer at a time.
            if !streams.early.is_disabled()
                && let Err(error) = Circuit::new(subject.network(), &config, &options)
            {
                refused = Some(error);
                continue;
            }
            let cost = circuit.cost(&options, Technology::Generic, trace.as_ref())?;
            let (cycles, latency, area, energy) =
                (cost.cycles, cost.latency, cost.area, cost.energy);
            costs.push((lanes, DesignCost { cycles, latency, area, energy }));
        }
        match refused {
            Some(error) if costs.is_empty() => Err(error),
            _ => Ok(costs),
        }
    }

    /// Returns the designs of all full trials by energy, the optimal ones marked.
    fn designs(
        &self,
        trials: &[DesignTrial],
        costs: &mut Costs,
        cancel: Cancel<'_>,
    ) -> Result<Vec<Design>> {
        let mut designs: Vec<Design> = Vec::new();
        for trial in trials.iter().filter(|trial| trial.rung == Rung::Full) {
            cancel.check()?;
            let Ok(costs) = self.costs(&trial.streams, costs) else { continue };
            let worst_score = trial.scores.iter().copied().fold(f64::INFINITY, f64::min);
            for &(lanes, cost) in costs {
                // Limits beyond the neurons of every layer are the same circuit as no limit.
                let is_same = |other: &Design| other.streams == trial.streams && other.cost == cost;
                if designs.iter().any(is_same) {
                    continue;
                }
                let (streams, score) = (trial.streams.clone(), mean(&trial.scores));
                designs.push(Design {
                    streams,
                    lanes,
                    score,
                    worst_score,
                    cost,
                    is_optimal: false,
                });
            }
        }
        designs.sort_by(|a, b| a.cost.energy.total_cmp(&b.cost.energy));
        pareto::mark(&mut designs);
        Ok(designs)
    }
}

/// Streams after their screening.
struct Screened {
    streams: StreamDesign,
    score: f64,
    costs: Vec<(Lanes, DesignCost)>,
}

impl Screened {
    /// Returns whether the circuit costs no more than another one for each of its lanes.
    fn costs_no_more_than(&self, other: &Self) -> bool {
        other.costs.iter().all(|(lanes, other)| {
            let own = self.costs.iter().find(|(own, _)| own == lanes);
            own.is_some_and(|(_, own)| pareto::is_no_higher(own, other))
        })
    }
}

/// Returns the options of circuits with early termination or without it.
fn options(early: EarlyTermination) -> Options {
    let output = if early.is_disabled() { Output::Scores } else { Output::Class };
    Options { output, early_termination: early.margin(), ..Options::default() }
}

/// Returns the accuracy of a circuit whose last layer stops early.
fn early_accuracy(
    network: &Network,
    config: &StreamConfig,
    early: EarlyTermination,
    data: &Dataset,
    cancel: Cancel<'_>,
) -> Result<f64> {
    let circuit = Circuit::new(network, config, &options(early))?;
    let missing = aleatron_core::Error::Internal { place: "eval::explore::early_accuracy" };
    let mut right = 0;
    for first in (0..data.len()).step_by(CHUNK) {
        cancel.check()?;
        let range = first..(first + CHUNK).min(data.len());
        let found = circuit.trace(&data.samples(range.clone())?)?.early;
        let classes = found.ok_or(missing.clone())?.classes;
        let labels = data.labels().get(range).ok_or(missing.clone())?;
        right += classes.iter().zip(labels).filter(|(class, label)| class == label).count();
    }
    Ok(right as f64 / data.len().max(1) as f64)
}

/// What a search does with trials that it has no result of.
enum Unknown {
    /// It runs them.
    Run,
    /// It collects them, until it needs a result to go on.
    Collect(Vec<PendingTrial>),
}

/// State of one in-flight search.
struct Trials<'s, 'f> {
    search: &'s Search<'s>,
    found: &'f mut Exploration,
    cancel: Cancel<'s>,
    progress: &'f mut dyn FnMut(&Exploration),
    /// Trials of this search, whether they ran now or earlier.
    spent: usize,
    unknown: Unknown,
}

impl Trials<'_, '_> {
    /// Returns whether a result is needed to go on.
    fn is_pending(&self) -> bool {
        matches!(&self.unknown, Unknown::Collect(trials) if !trials.is_empty())
    }

    fn take_pending(self) -> Vec<PendingTrial> {
        match self.unknown {
            Unknown::Run => Vec::new(),
            Unknown::Collect(trials) => trials,
        }
    }

    /// Runs streams on all samples; returns whether the search can go on.
    fn run_full(&mut self, survivors: &[StreamDesign]) -> Result<bool> {
        for streams in survivors {
            if self.score(streams, Rung::Full)?.is_none() {
                return Ok(false);
            }
        }
        Ok(!self.is_pending())
    }

    /// Returns the streams that are worth a full trial, in their order; `None` if the budget is
    /// spent or a result is needed to go on.
    fn screen(
        &mut self,
        candidates: &[StreamDesign],
        costs: &mut Costs,
    ) -> Result<Option<Vec<StreamDesign>>> {
        let mut screened: Vec<Screened> = Vec::new();
        for streams in candidates {
            self.cancel.check()?;
            let Ok(cost) = self.search.costs(streams, costs) else { continue };
            let cost = cost.clone();
            let score = match self.search.screening {
                None => 0.0,
                Some(_) => match self.score(streams, Rung::Screening)? {
                    Some(score) => score,
                    None => return Ok(None),
                },
            };
            screened.push(Screened { streams: streams.clone(), score, costs: cost });
        }
        if self.is_pending() {
            return Ok(None);
        }
        let Some(samples) = &self.search.screening else {
            return Ok(Some(screened.into_iter().map(|own| own.streams).collect()));
        };
        // The variance of a share of right classes.
        let variance = |score: f64| score * (1.0 - score) / samples.len() as f64;
        let is_beaten = |own: &Screened| {
            screened.iter().any(|other| {
                let slack = CONFIDENCE * (variance(own.score) + variance(other.score)).sqrt();
                other.score - own.score > slack && other.costs_no_more_than(own)
            })
        };
        let survivors = screened.iter().filter(|own| !is_beaten(own));
        Ok(Some(survivors.map(|own| own.streams.clone()).collect()))
    }

    /// Returns the mean score of streams over all seeds; `None` if the budget is spent.
    fn score(&mut self, streams: &StreamDesign, rung: Rung) -> Result<Option<f64>> {
        if self.spent >= self.search.space.budget {
            return Ok(None);
        }
        self.spent += 1;
        let known =
            self.found.trials.iter().find(|trial| trial.rung == rung && trial.streams == *streams);
        if let Some(trial) = known {
            return Ok(Some(mean(&trial.scores)));
        }
        if let Unknown::Collect(trials) = &mut self.unknown {
            trials.push(PendingTrial { streams: streams.clone(), rung });
            // Any score will do: the search stops before it uses one.
            return Ok(Some(0.0));
        }
        (self.progress)(self.found);
        let trial = self.search.trial(streams, rung, self.cancel)?;
        let score = mean(&trial.scores);
        self.found.trials.push(trial);
        (self.progress)(self.found);
        Ok(Some(score))
    }
}
