//! What there is to do in an evaluation, as passes over pieces of the samples that may be run anywhere and in any order.
//!
//! An [`Outline`] holds neither the network's numbers nor the features, so that shards can be put together without them.

use super::early;
use super::plan::Plan;
use super::result::{DataSummary, Evaluation, PlanSummary};
use super::subject::{StreamedLayer, Subject, bits_of_sample, lengths, stream_cost};
use crate::{Error, Result};
use aleatron_core::Length;
use aleatron_core::conformance::{self, Digest};
use aleatron_core::generator::{GeneratorName, WidthChoice};
use aleatron_data::Dataset;
use aleatron_engine::VERSION;
use aleatron_engine::network::{LayerSettings, StreamConfig, ValueRange};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What finding the errors of a product takes, in bits counted in the same time.
const EXACT_COST: u64 = 1000;

/// All there is to do for a plan, its network and its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outline {
    /// The evaluation without what is to be found.
    pub(super) evaluation: Evaluation,
    pub(super) labels: Vec<usize>,
    pub(super) n_classes: usize,
    /// The samples of a piece, which run together.
    pub(super) chunk: usize,
    /// The first is that of floating point.
    pub(super) passes: Vec<PassPlan>,
    /// In the order of the plan: by generator, then by seed, then by length.
    pub(super) cells: Vec<CellPlan>,
}

/// All samples through the network once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PassPlan {
    pub(super) kind: PassKind,
    /// The stream length of each layer that runs as streams; none in floating point.
    pub(super) lengths: Vec<usize>,
    /// What a sample takes, in bits counted in the same time.
    cost: u64,
}

/// What a pass runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum PassKind {
    /// The network in floating point.
    Float,
    /// The network as streams: the first `cycles` of `length`.
    Streams { generator: String, seed: u64, cycles: usize, length: usize, purpose: Purpose },
}

/// What a pass is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Purpose {
    /// A look on the way to a longer one: classes and leads alone.
    Look,
    /// A cell: everything.
    Cell,
}

/// One generator, length and seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CellPlan {
    pub(super) generator: String,
    pub(super) seed: u64,
    pub(super) length: usize,
    /// The cycles at which it looks and the passes that do, up to the full length.
    pub(super) looks: Vec<(usize, usize)>,
    /// What is known to be wrong with its generators.
    pub(super) warnings: Vec<String>,
    /// Products of bits in a sample.
    pub(super) bits: f64,
}

/// Some pieces of a pass, to be run together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The pass, by its place in the outline.
    pub pass: usize,
    /// The first piece.
    pub first: usize,
    /// How many pieces.
    pub pieces: usize,
}

/// The place of the pass in floating point.
pub(super) const FLOAT: usize = 0;

/// The configuration's lengths and widths, those of all layers: passes with the same are the same.
pub(super) type Key = (Vec<usize>, Vec<u32>);

impl Outline {
    /// What `plan` needs, which was checked.
    pub(super) fn new(subject: &Subject, data: &Dataset, plan: &Plan) -> Result<Self> {
        let margins = subject.margins(plan);
        let evaluation = Evaluation {
            version: VERSION.to_owned(),
            network: subject.summary()?,
            data: summarize_data(data)?,
            plan: PlanSummary { margins: margins.clone(), ..summarize_plan(plan) },
            float_accuracy: 0.0,
            warnings: Vec::new(),
            cells: Vec::new(),
            unfinished: 0,
            graph: None,
        };
        let layers = subject.layers();
        let names = names(layers);
        let exact = subject.products().saturating_mul(EXACT_COST);
        let mut passes = vec![PassPlan { kind: PassKind::Float, lengths: Vec::new(), cost: exact }];
        let mut cells = Vec::new();
        for (generator, seeds) in cells_of(plan) {
            // Seeds have no known problems.
            let warnings = plan.lengths.iter().map(|&length| {
                let warnings = subject.warnings(&plan.config(&generator, length, 0))?;
                Ok((length, warnings))
            });
            let warnings = warnings.collect::<Result<BTreeMap<usize, Vec<String>>>>()?;
            for seed in seeds {
                let mut known: BTreeMap<Key, usize> = BTreeMap::new();
                for &length in &evaluation.plan.lengths {
                    let mut looks = Vec::new();
                    let cycles = early::looks(length);
                    // Nobody looks on the way where nothing stops.
                    for cycles in cycles.filter(|&cycles| cycles == length || !margins.is_empty()) {
                        let config = config(&names, plan, &generator, seed, cycles, length);
                        let pass = *known.entry(key(&names, &config)).or_insert(passes.len());
                        if pass == passes.len() {
                            let cost = stream_cost(layers, &config);
                            let lengths = lengths(layers, &config);
                            let (generator, purpose) = (generator.to_string(), Purpose::Look);
                            let kind = PassKind::Streams { generator, seed, cycles, length, purpose };
                            passes.push(PassPlan { kind, lengths, cost });
                        }
                        if let PassPlan { kind: PassKind::Streams { purpose, .. }, cost, .. } =
                            &mut passes[pass]
                            && cycles == length
                            && *purpose == Purpose::Look
                        {
                            *purpose = Purpose::Cell;
                            *cost += exact;
                        }
                        looks.push((cycles, pass));
                    }
                    let full = config(&names, plan, &generator, seed, length, length);
                    cells.push(CellPlan {
                        generator: generator.to_string(),
                        seed,
                        length,
                        looks,
                        warnings: warnings.get(&length).cloned().unwrap_or_default(),
                        bits: bits_of_sample(layers, &full),
                    });
                }
            }
        }
        let (labels, n_classes) = (data.labels().to_vec(), subject.network().n_classes());
        Ok(Self { evaluation, labels, n_classes, chunk: subject.chunk(data.len()), passes, cells })
    }

    /// A hash of the network, the data, the plan and the version: who has the same has the same tasks.
    ///
    /// # Errors
    /// What the writer of JSON says; not for an outline made from a plan.
    pub fn id(&self) -> Result<String> {
        let words: Vec<u64> = self.to_line()?.bytes().map(u64::from).collect();
        Ok(fingerprint(&[words]))
    }

    /// The number of pieces of a pass.
    pub(super) fn n_pieces(&self) -> usize {
        self.labels.len().div_ceil(self.chunk.max(1))
    }

    /// The labels of a piece; none past the end.
    pub(super) fn labels_of(&self, piece: usize) -> &[usize] {
        let start = piece.saturating_mul(self.chunk).min(self.labels.len());
        &self.labels[start..start.saturating_add(self.chunk).min(self.labels.len())]
    }

    /// The margins in ascending order, by which passes tell how far a lead is.
    pub(super) fn margins(&self) -> Vec<f64> {
        sorted_margins(&self.evaluation.plan.margins)
    }

    /// One task for each pass.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        let pieces = self.n_pieces();
        (0..self.passes.len()).map(|pass| Task { pass, first: 0, pieces }).collect()
    }

    /// Cuts tasks so that there are `n` of about the same cost, or more; the most costly first, those of a pass one after the other.
    #[must_use]
    pub fn split(&self, tasks: &[Task], n: usize) -> Vec<Task> {
        let total: u64 = tasks.iter().map(|task| self.cost(task)).fold(0, u64::saturating_add);
        let most = (total / n.max(1) as u64).max(1);
        let mut split: Vec<Task> = Vec::new();
        for task in tasks {
            let wanted = usize::try_from(self.cost(task).div_ceil(most)).unwrap_or(usize::MAX);
            let parts = wanted.clamp(1, task.pieces.max(1));
            let bound =
                |part: usize| task.first + (task.pieces as u128 * part as u128 / parts as u128) as usize;
            split.extend((0..parts).map(|part| Task {
                pass: task.pass,
                first: bound(part),
                pieces: bound(part + 1) - bound(part),
            }));
        }
        split.sort_by_key(|task| (std::cmp::Reverse(self.passes[task.pass].cost), *task));
        split
    }

    /// The share of a shard, `shard` of `n` counted from 0: about the same cost for each, and nothing twice.
    #[must_use]
    pub fn shard(&self, shard: usize, n: usize) -> Vec<Task> {
        let tasks = self.tasks();
        let total: u128 = tasks.iter().map(|task| u128::from(self.cost(task))).sum();
        let mut before = 0_u128;
        let mut share: Vec<Task> = Vec::new();
        for Task { pass, pieces, .. } in tasks {
            for first in 0..pieces {
                let cost = u128::from(self.cost(&Task { pass, first, pieces: 1 }));
                let middle = 2 * before + cost;
                before += cost;
                if middle * n as u128 / (2 * total).max(1) != shard as u128 {
                    continue;
                }
                match share.last_mut() {
                    // Middles ascend, so that pieces of a pass follow each other.
                    Some(last) if last.pass == pass => last.pieces += 1,
                    _ => share.push(Task { pass, first, pieces: 1 }),
                }
            }
        }
        share
    }

    /// The generator, length and seed of a task, to show who works on what; the network in floating point has none.
    #[must_use]
    pub fn label(&self, task: &Task) -> (&str, usize, u64) {
        match self.passes.get(task.pass).map(|pass| &pass.kind) {
            Some(PassKind::Streams { generator, seed, cycles, .. }) => (generator, *cycles, *seed),
            _ => ("floating point", 0, 0),
        }
    }

    /// What a task takes, in bits counted in the same time.
    fn cost(&self, task: &Task) -> u64 {
        let of_sample = self.passes.get(task.pass).map_or(0, |pass| pass.cost);
        of_sample.saturating_mul(task.pieces as u64).saturating_mul(self.chunk as u64)
    }

    /// The outline as a line of JSON.
    ///
    /// # Errors
    /// What the writer of JSON says; not for an outline made from a plan.
    pub fn to_line(&self) -> Result<String> {
        super::part::to_line(self)
    }

    /// Reads what [`Self::to_line`] wrote, and checks that it can be true.
    ///
    /// # Errors
    /// [`Error::Format`] with what is wrong.
    pub fn from_line(line: &str) -> Result<Self> {
        let fault = |reason: String| Error::Format { file: "outline".to_owned(), reason };
        let read: Self = serde_json::from_str(line).map_err(|error| fault(error.to_string()))?;
        read.evaluation.validate()?;
        let n_layers = read.evaluation.network.layers.len();
        let is_sound = |cell: &CellPlan| {
            let ends = cell.looks.last().is_some_and(|(cycles, _)| *cycles == cell.length);
            let ascending = cell.looks.windows(2).all(|pair| pair[0].0 < pair[1].0);
            let known = |(_, pass): &(usize, usize)| *pass != FLOAT && *pass < read.passes.len();
            ends && ascending
                && cell.looks.iter().all(known)
                && cell.bits.is_finite()
                && cell.length < 1 << 40
        };
        let float = read.passes.first().is_some_and(|pass| pass.kind == PassKind::Float);
        let has_lengths = |pass: &PassPlan| {
            let lengths = pass.lengths.iter();
            (1..=n_layers).contains(&pass.lengths.len()) && lengths.copied().all(|length| length < 1 << 40)
        };
        let cells_are_sound = read.cells.iter().all(is_sound);
        let labels = read.labels.len() == read.evaluation.data.samples
            && read.labels.iter().all(|&label| label < read.n_classes);
        let classes = read.evaluation.network.sizes.last().map(|&n| n.max(2)) == Some(read.n_classes);
        for (what, is_right) in [
            ("its passes", float && read.passes[1..].iter().all(has_lengths)),
            ("its chunks", read.chunk > 0),
            ("a cell", cells_are_sound),
            ("its labels", labels && !read.labels.is_empty()),
            ("its classes", classes),
        ] {
            if !is_right {
                return Err(fault(format!("{what} cannot be those of an evaluation")));
            }
        }
        Ok(read)
    }
}

pub(super) fn sorted_margins(margins: &[f64]) -> Vec<f64> {
    let mut sorted = margins.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The generators of a plan, each once, with their seeds.
pub(super) fn cells_of(plan: &Plan) -> Vec<(GeneratorName, Vec<u64>)> {
    let mut wanted: Vec<(GeneratorName, Vec<u64>)> = Vec::new();
    for generator in &plan.generators {
        if !wanted.iter().any(|(known, _)| known == generator) {
            wanted.push((*generator, plan.seeds_of(generator).map(|seed| seed as u64).collect()));
        }
    }
    wanted
}

/// How a look at `cycles` of `length` is run: layers with a length of their own have come as far in it.
pub(super) fn config(
    layers: &[&str],
    plan: &Plan,
    generator: &GeneratorName,
    seed: u64,
    cycles: usize,
    length: usize,
) -> StreamConfig {
    let mut config = plan.config(generator, cycles, seed);
    // Looks are at the streams of the full length, so at its width.
    let full = plan.config(generator, length, seed);
    for &layer in layers {
        let settings = full.settings_of(layer);
        let mut own = config.layers.get(layer).copied().unwrap_or_default();
        if let Some(length_of_layer) = own.length {
            own.length = Some((length_of_layer * cycles).div_ceil(length));
        }
        if let Ok(full_length) = Length::new(settings.length) {
            own.width = Some(settings.width.resolve(&settings.generator, full_length).into());
        }
        config.layers.insert(layer.to_owned(), own);
    }
    config
}

/// The names of layers.
pub(super) fn names(layers: &[StreamedLayer]) -> Vec<&str> {
    layers.iter().map(|layer| layer.name.as_str()).collect()
}

pub(super) fn key(layers: &[&str], config: &StreamConfig) -> Key {
    let settings = layers.iter().map(|layer| config.settings_of(layer));
    let width = |settings: &LayerSettings| match settings.width {
        WidthChoice::Fixed(width) => width.bits(),
        WidthChoice::Auto => 0,
    };
    settings.map(|settings| (settings.length, width(&settings))).unzip()
}

/// Samples that are hashed at a time.
const SUMMARIZED: usize = 256;

pub(super) fn summarize_data(data: &Dataset) -> Result<DataSummary> {
    let mut digest = Digest::default();
    digest.word((data.len() * data.n_features()) as u64);
    for (_, features) in data.pieces(SUMMARIZED) {
        features?.iter().for_each(|feature| digest.word(feature.to_bits()));
    }
    digest.answer(data.labels().iter().map(|&label| label as u64));
    if data.n_targets() > 0 {
        digest.answer(data.targets().iter().map(|target| target.to_bits()));
    }
    Ok(DataSummary {
        name: data.name().to_owned(),
        samples: data.len(),
        fingerprint: format!("{:016x}", digest.finish()),
    })
}

pub(super) fn fingerprint(words: &[Vec<u64>]) -> String {
    format!("{:016x}", conformance::digest(words.iter().map(Vec::as_slice)))
}

pub(super) fn summarize_plan(plan: &Plan) -> PlanSummary {
    let mut lengths = plan.lengths.clone();
    lengths.sort_unstable();
    lengths.dedup();
    PlanSummary {
        lengths,
        generators: cells_of(plan).iter().map(|(generator, _)| generator.to_string()).collect(),
        seeds: plan.seeds,
        width: plan.width.to_string(),
        sharing: plan.sharing.to_string(),
        layers: plan.layers.iter().map(|(name, layer)| (name.clone(), layer.to_string())).collect(),
        arithmetic: plan.arithmetic.to_string(),
        clip: plan.range == ValueRange::Saturate,
        margins: plan.margins.clone(),
        device: plan.device.to_string(),
    }
}
