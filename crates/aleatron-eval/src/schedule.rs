//! The work of an evaluation: passes of the samples through the network, divided into chunks that
//! may run anywhere and in any order.
//!
//! A [`Schedule`] has the labels of the samples, but neither their features nor the weights of the
//! network, so that shards can be merged without them. Its passes follow from its plan; only the
//! plan is written to files.

use super::early;
use super::faults::FaultPoint;
use super::plan::Plan;
use super::result::Evaluation;
use super::split::Workload;
use super::subject::{StreamedLayer, bits_of_sample, lengths, stream_cost};
use super::task::Task;
use crate::{Error, Result};
use aleatron_core::conformance;
use aleatron_core::generator::{GeneratorName, WidthChoice};
use aleatron_core::{Length, Quantity, memory};
use aleatron_engine::network::{LayerSettings, StreamConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The time of computing an exact product, in bits counted in the same time.
const EXACT_COST: u64 = 1000;

/// The work of a plan with its network and data.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    pub(super) header: Header,
    /// The first is that of floating point.
    pub(super) passes: Vec<Pass>,
    /// In the order of the plan: by generator, then by faults, then by seed, then by length.
    pub(super) cells: Vec<ScheduledCell>,
}

/// The part of a schedule that is written to files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    /// The evaluation without results.
    pub(super) evaluation: Evaluation,
    pub(super) labels: Labels,
    /// The samples of a chunk, which run together.
    pub(super) chunk: usize,
    /// The layers that run as streams.
    pub(super) layers: Vec<StreamedLayer>,
}

/// The labels of all samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Labels {
    Classes { labels: Vec<usize>, n_classes: usize },
    Targets { targets: Vec<f64>, n_outputs: usize },
}

impl Labels {
    /// Returns the number of samples.
    pub(super) fn n_samples(&self) -> usize {
        match self {
            Self::Classes { labels, .. } => labels.len(),
            Self::Targets { targets, n_outputs } => targets.len() / (*n_outputs).max(1),
        }
    }
}

/// All samples through the network once.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pass {
    pub(super) kind: PassKind,
    /// The stream length of each layer that runs as streams; none in floating point.
    pub(super) lengths: Vec<usize>,
    /// The cost of a sample, in bits counted in the same time.
    cost: u64,
}

/// The arithmetic of a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PassKind {
    /// The network in floating point.
    Float,
    /// The network as streams: the first `cycles` of `length`.
    Streams {
        generator: GeneratorName,
        faults: Option<FaultPoint>,
        seed: u64,
        cycles: usize,
        length: usize,
        extent: Extent,
    },
}

/// The results that a pass of streams is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Part of the streams of a cell, for early termination: classes and margins alone.
    Partial,
    /// The whole streams of a cell: everything.
    Whole,
}

/// A cell of the plan before its evaluation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScheduledCell {
    pub(super) generator: GeneratorName,
    pub(super) faults: Option<FaultPoint>,
    pub(super) seed: u64,
    pub(super) length: usize,
    /// The passes of early termination, by ascending length, and the pass of the whole streams at
    /// the end.
    pub(super) passes: Vec<usize>,
    /// Products of bits in a sample.
    pub(super) bits: f64,
}

/// The index of the pass in floating point.
pub(super) const FLOAT: usize = 0;

/// The lengths and widths of all layers: passes with the same are the same.
type Key = (Vec<usize>, Vec<u32>);

impl Schedule {
    /// Lists the passes of a plan, which was checked.
    pub(super) fn new(header: Header) -> Result<Self> {
        let (plan, layers) = (&header.evaluation.plan, &header.layers);
        let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
        let products = layers.iter().map(|layer| layer.products).fold(0, u64::saturating_add);
        let exact = products.saturating_mul(EXACT_COST);
        let n_cells_of = |generator: &GeneratorName| {
            let points = plan.fault_points_of(generator);
            let n_seeds: u128 =
                points.iter().map(|&p| plan.seeds_of(generator, p).count() as u128).sum();
            n_seeds.saturating_mul(plan.lengths_of(generator).len() as u128)
        };
        let n_cells = plan.generators.iter().map(n_cells_of).fold(0, u128::saturating_add);
        memory::check(n_cells.saturating_mul(size_of::<ScheduledCell>() as u128), Quantity::Seeds)?;
        let mut passes = vec![Pass { kind: PassKind::Float, lengths: Vec::new(), cost: exact }];
        let mut cells = Vec::new();
        let points = |&generator: &GeneratorName| {
            plan.fault_points_of(&generator).into_iter().map(move |point| (generator, point))
        };
        for (generator, faults) in plan.generators.iter().flat_map(points) {
            // Products of integers cannot stop early.
            let has_margins = !plan.margins.is_empty() && generator.integer_bits().is_none();
            for seed in plan.seeds_of(&generator, faults) {
                let mut known: BTreeMap<Key, usize> = BTreeMap::new();
                for length in plan.lengths_of(&generator) {
                    let mut own = Vec::new();
                    // Partial lengths serve early termination alone.
                    let steps = early::steps(length).filter(|&step| step == length || has_margins);
                    for cycles in steps {
                        let config =
                            config(&names, plan, &generator, faults, seed, [cycles, length])?;
                        let pass = *known.entry(key(&names, &config)).or_insert(passes.len());
                        if pass == passes.len() {
                            let extent = Extent::Partial;
                            let kind = PassKind::Streams {
                                generator,
                                faults,
                                seed,
                                cycles,
                                length,
                                extent,
                            };
                            let (lengths, cost) =
                                (lengths(layers, &config), stream_cost(layers, &config));
                            passes.push(Pass { kind, lengths, cost });
                        }
                        if let Pass { kind: PassKind::Streams { extent, .. }, cost, .. } =
                            &mut passes[pass]
                            && cycles == length
                            && *extent == Extent::Partial
                        {
                            *extent = Extent::Whole;
                            *cost = cost.saturating_add(exact);
                        }
                        own.push(pass);
                    }
                    let full = config(&names, plan, &generator, faults, seed, [length, length])?;
                    let bits = bits_of_sample(layers, &full);
                    cells.push(ScheduledCell {
                        generator,
                        faults,
                        seed,
                        length,
                        passes: own,
                        bits,
                    });
                }
            }
        }
        Ok(Self { header, passes, cells })
    }

    /// Returns a hash of the network, the data, the plan and the version, on which the tasks
    /// depend.
    ///
    /// # Errors
    /// An error of the JSON writer; not for the schedule of a plan.
    pub fn id(&self) -> Result<String> {
        let words: Vec<u64> = self.to_line()?.bytes().map(u64::from).collect();
        Ok(fingerprint(&words))
    }

    /// Returns the number of chunks of a pass.
    pub(super) fn n_chunks(&self) -> usize {
        self.header.labels.n_samples().div_ceil(self.header.chunk.max(1))
    }

    /// Returns the samples of a chunk; none past the end.
    pub(super) fn samples_of(&self, chunk: usize) -> std::ops::Range<usize> {
        let (size, n) = (self.header.chunk, self.header.labels.n_samples());
        let start = chunk.saturating_mul(size).min(n);
        start..start.saturating_add(size).min(n)
    }

    /// Returns the passes with the costs of their chunks.
    fn workload(&self) -> Workload {
        let size = self.header.chunk as u64;
        let costs = self.passes.iter().map(|pass| pass.cost.saturating_mul(size)).collect();
        Workload { costs, n_chunks: self.n_chunks() }
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
    /// and no chunk twice.
    #[must_use]
    pub fn shard(&self, shard: usize, n: usize) -> Vec<Task> {
        self.workload().shard(shard, n)
    }

    /// Returns the generator, length and seed of a task, to report its progress; these are empty in
    /// floating point.
    #[must_use]
    pub fn label(&self, task: &Task) -> (String, usize, u64) {
        match self.passes.get(task.pass).map(|pass| &pass.kind) {
            Some(PassKind::Streams { generator, faults, seed, cycles, .. }) => {
                let faults =
                    faults.map_or_else(String::new, |faults| format!(", faults of {faults}"));
                (format!("{generator}{faults}"), *cycles, *seed)
            }
            _ => ("floating point".to_owned(), 0, 0),
        }
    }

    /// Returns the schedule as a line of JSON.
    ///
    /// # Errors
    /// An error of the JSON writer; not for the schedule of a plan.
    pub fn to_line(&self) -> Result<String> {
        super::task::to_line(&self.header)
    }

    /// Reads a line that [`Self::to_line`] wrote, and checks that it is consistent.
    ///
    /// # Errors
    /// [`Error::Format`] with the inconsistency.
    pub fn from_line(line: &str) -> Result<Self> {
        let fault = |reason: String| Error::Format { file: "schedule".to_owned(), reason };
        let header: Header =
            serde_json::from_str(line).map_err(|error| fault(error.to_string()))?;
        let evaluation = &header.evaluation;
        evaluation.validate()?;
        let lengths = evaluation.plan.lengths.iter();
        let own = evaluation.plan.layers.values().filter_map(|layer| layer.length.as_ref());
        for &length in lengths.chain(own) {
            Length::new(length)?;
        }
        let labels = match &header.labels {
            Labels::Classes { labels, n_classes } => {
                let classes = evaluation.network.sizes.last().map(|&n| n.max(2));
                classes == Some(*n_classes) && labels.iter().all(|label| label < n_classes)
            }
            Labels::Targets { targets, n_outputs } => {
                let outputs = evaluation.network.sizes.last().copied();
                outputs == Some(*n_outputs)
                    && *n_outputs > 0
                    && targets.len().is_multiple_of(*n_outputs)
            }
        };
        let n_samples = header.labels.n_samples();
        let n_layers = 1..=evaluation.network.layers.len();
        for (what, is_consistent) in [
            ("labels", labels && n_samples == evaluation.data.samples && n_samples > 0),
            ("chunks", header.chunk > 0),
            ("layers", n_layers.contains(&header.layers.len())),
            ("cells", evaluation.cells.is_empty()),
        ] {
            if !is_consistent {
                return Err(fault(format!("its {what} are inconsistent")));
            }
        }
        Self::new(header)
    }
}

/// Returns the configuration of the first `cycles` of `length`: layers with a length of their own
/// run the same share of it.
pub(super) fn config(
    layers: &[&str],
    plan: &Plan,
    generator: &GeneratorName,
    faults: Option<FaultPoint>,
    seed: u64,
    [cycles, length]: [usize; 2],
) -> Result<StreamConfig> {
    let mut config = plan.config(generator, cycles, seed).faults(plan.faults_of(faults)?);
    config.fault_layers.clone_from(&plan.fault_layers);
    // Partial lengths are those of the streams of the full length, so at its width.
    let full = plan.config(generator, length, seed);
    for &layer in layers {
        let settings = full.settings_of(layer);
        let mut own = config.layers.get(layer).copied().unwrap_or_default();
        if let Some(length_of_layer) = own.length {
            own.length = Some(length_of_layer.saturating_mul(cycles).div_ceil(length));
        }
        if let Ok(full_length) = Length::new(settings.length) {
            own.width = Some(settings.width.resolve(&settings.generator, full_length).into());
        }
        config.layers.insert(layer.to_owned(), own);
    }
    Ok(config)
}

fn key(layers: &[&str], config: &StreamConfig) -> Key {
    let settings = layers.iter().map(|layer| config.settings_of(layer));
    let width = |settings: &LayerSettings| match settings.width {
        WidthChoice::Fixed(width) => width.bits(),
        WidthChoice::Auto => 0,
    };
    settings.map(|settings| (settings.length, width(&settings))).unzip()
}

/// Returns a hash of words as text.
pub(super) fn fingerprint(words: &[u64]) -> String {
    format!("{:016x}", conformance::digest([words].into_iter()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Job;
    use aleatron_data::Dataset;
    use aleatron_engine::network::NetworkBuilder;
    use std::borrow::Cow;

    /// Returns four chunks of samples of two layers, of four products and six: floating point and
    /// two lengths of streams.
    fn small() -> Schedule {
        let network = NetworkBuilder::new("n", &[2]).dense("a", 2, &[0.5, -0.25, 1.0, 0.125], &[]);
        let network =
            network.dense("b", 2, &[0.75, -1.0, 0.5, 0.25, 0.0, -0.5], &[]).build().unwrap();
        let data = Dataset::new("d", 2, vec![0.5; 2000], vec![0; 1000]).unwrap();
        let generators = vec![GeneratorName::Bernoulli];
        let plan = Plan { lengths: vec![8, 16], generators, seeds: 1, ..Plan::default() };
        Job::new(network.into(), Cow::Owned(data), plan).unwrap().schedule().clone()
    }

    #[test]
    fn cost_of_a_pass_is_that_of_its_products() {
        let schedule = small();
        let costs: Vec<u64> = schedule.passes.iter().map(|pass| pass.cost).collect();
        // A thousand bits each to compute the exact products, their own bits, and one for the pass.
        // The first eight cycles of the longer streams are the cell of the shorter ones.
        let exact = 10 * 1000;
        assert_eq!(costs, [exact, exact + 10 * 8 + 1, exact + 10 * 16 + 1]);
        assert_eq!((&schedule.cells[1].passes[..], schedule.cells[1].bits), (&[1, 2][..], 160.0));
    }

    #[test]
    fn tasks_are_split_by_cost() {
        let mut schedule = small();
        for (pass, cost) in schedule.passes.iter_mut().zip([1, 3, 2]) {
            pass.cost = cost;
        }
        let task = |(pass, first, chunks)| Task { pass, first, chunks };
        let tasks =
            |all: &[(usize, usize, usize)]| all.iter().copied().map(task).collect::<Vec<_>>();
        assert_eq!(schedule.tasks(), tasks(&[(0, 0, 4), (1, 0, 4), (2, 0, 4)]));
        // A chunk costs one, three or two, so all cost 24: of six tasks none should cost more than
        // four, but chunks stay whole.
        let split = [(1, 0, 1), (1, 1, 1), (1, 2, 2), (2, 0, 2), (2, 2, 2), (0, 0, 4)];
        assert_eq!(schedule.split(&schedule.tasks(), 6), tasks(&split));
        assert_eq!(schedule.split(&tasks(&[(1, 1, 3)]), 2), tasks(&[(1, 1, 1), (1, 2, 2)]));
        assert_eq!(schedule.split(&schedule.tasks(), 0), tasks(&[(1, 0, 4), (2, 0, 4), (0, 0, 4)]));
        // By the middle of each chunk among the 24: below 8, below 16, and the rest.
        let shards = [vec![(0, 0, 4), (1, 0, 1)], vec![(1, 1, 3)], vec![(2, 0, 4)]];
        for (shard, expected) in shards.iter().enumerate() {
            assert_eq!(schedule.shard(shard, 3), tasks(expected), "{shard}");
        }
    }
}
