//! Running a plan.

use super::early::{self, Look};
use super::error::PlanError;
use super::plan::{GeneratorSpec, Plan};
use super::result::{Cell, DataSummary, Evaluation, NetworkSummary, PlanSummary};
use crate::data::Dataset;
use crate::network::{LayerError, Network, top_class};
use crate::{Result, VERSION};
use aleatron_core::generator::Sharing;
use aleatron_core::{Length, conformance};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

/// Samples run between two calls of the callback.
const PIECE: usize = 256;

/// How far an evaluation has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// The cells that are done.
    pub done: usize,
    /// All cells.
    pub total: usize,
    /// The generator being run.
    pub generator: &'a str,
    /// The length being run.
    pub length: usize,
    /// The seed being run.
    pub seed: u64,
}

/// Runs `network` over `data` for each generator, length and seed of `plan`.
///
/// Cells of `earlier`, an evaluation of the same network and data with the same settings, are taken over instead of run again.
/// `progress` is called at least every 256 samples; when it breaks, the evaluation returns with the cells that are done.
///
/// # Errors
/// [`PlanError`] for a plan that cannot be run, data that do not fit the network, or an earlier evaluation of something else;
/// [`crate::network::NetworkError`] for a sample or layer at fault.
pub fn evaluate(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    earlier: Option<Evaluation>,
    mut progress: impl FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Evaluation> {
    plan.check()?;
    check_data(network, data)?;
    let float_classes: Vec<usize> =
        network.forward(data.features())?.chunks_exact(network.n_classes()).map(top_class).collect();
    let mut evaluation = Evaluation {
        version: VERSION.to_owned(),
        network: summarize_network(network),
        data: summarize_data(data),
        plan: summarize_plan(plan),
        float_accuracy: share_of(&float_classes, data.labels()),
        warnings: Vec::new(),
        cells: Vec::new(),
    };
    let known = check_earlier(earlier, &evaluation)?;
    let lengths = evaluation.plan.lengths.clone();
    let total = evaluation.plan.cells;
    for (k, spec) in plan.generators.iter().enumerate() {
        if plan.generators[..k].contains(spec) {
            continue;
        }
        let generator = spec.to_string();
        for seed in plan.seeds_of(spec) {
            let seed = seed as u64;
            let mut passes = Passes { network, data, plan, spec, seed, done: BTreeMap::new() };
            for &length in &lengths {
                let matches =
                    |cell: &&Cell| (&cell.generator, cell.length, cell.seed) == (&generator, length, seed);
                if let Some(cell) = known.iter().find(matches) {
                    evaluation.cells.push(cell.clone());
                    continue;
                }
                let done = evaluation.cells.len();
                let mut tick = || progress(Progress { done, total, generator: &generator, length, seed });
                if passes.run_up_to(length, &mut tick, &mut evaluation.warnings)?.is_break() {
                    return Ok(evaluation);
                }
                evaluation.cells.push(passes.cell(length, &generator, &float_classes));
            }
        }
    }
    Ok(evaluation)
}

/// The runs of one generator and seed, by length: shorter ones are the early looks of longer ones.
struct Passes<'a> {
    network: &'a Network,
    data: &'a Dataset,
    plan: &'a Plan,
    spec: &'a GeneratorSpec,
    seed: u64,
    done: BTreeMap<usize, Pass>,
}

/// All samples at one length.
struct Pass {
    looks: Vec<Look>,
    layers: Vec<LayerError>,
    elapsed: Duration,
}

impl Passes<'_> {
    /// Makes sure of every pass that a run of `length` looks at; breaks when told to stop.
    fn run_up_to(
        &mut self,
        length: usize,
        tick: &mut impl FnMut() -> ControlFlow<()>,
        warnings: &mut Vec<String>,
    ) -> Result<ControlFlow<()>> {
        for cycles in early::looks(length) {
            if !self.done.contains_key(&cycles) {
                match self.run(cycles, tick, warnings)? {
                    Some(pass) => self.done.insert(cycles, pass),
                    None => return Ok(ControlFlow::Break(())),
                };
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn run(
        &self,
        cycles: usize,
        tick: &mut impl FnMut() -> ControlFlow<()>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Pass>> {
        let network = self.network;
        let generator = self.spec.generator(self.seed, self.plan.width, self.plan.sharing)?;
        let generators = vec![generator; network.layers().len()];
        let streams = network.to_streams_by_layer(Length::new(cycles)?, &generators, self.plan.device)?;
        for warning in streams.warnings() {
            let text = format!("{}: {warning}", self.spec);
            if !warnings.contains(&text) {
                warnings.push(text);
            }
        }
        let noise = early::noise_of_one_cycle(network) / (cycles as f64).sqrt();
        let mut pass = Pass {
            looks: Vec::with_capacity(self.data.len()),
            layers: vec![LayerError::default(); network.layers().len()],
            elapsed: Duration::ZERO,
        };
        let pieces = self.data.features().chunks(PIECE * network.n_features());
        for (piece, first) in pieces.zip((0..=u32::MAX).step_by(PIECE)) {
            if tick().is_break() {
                return Ok(None);
            }
            let output = streams.forward(piece, first)?;
            let looks = output.scores.chunks_exact(network.n_classes()).map(|scores| look(scores, noise));
            pass.looks.extend(looks);
            pass.elapsed += output.elapsed;
            for (sum, error) in pass.layers.iter_mut().zip(&output.layers) {
                merge(sum, error);
            }
        }
        Ok(Some(pass))
    }

    /// The cell of `length`, all of whose passes are done.
    fn cell(&self, length: usize, generator: &str, float_classes: &[usize]) -> Cell {
        let (network, labels) = (self.network, self.data.labels());
        let passes = early::looks(length).filter_map(|cycles| Some((cycles, self.done.get(&cycles)?)));
        let looks: Vec<(usize, &[Look])> =
            passes.map(|(cycles, pass)| (cycles, pass.looks.as_slice())).collect();
        let n_layers = network.layers().len();
        let early =
            self.plan.margins.iter().map(|&margin| early::early_stop(&looks, labels, n_layers, margin));
        let last = self.done.get(&length);
        let classes: Vec<usize> = last.iter().flat_map(|pass| &pass.looks).map(|look| look.class).collect();
        let mut confusion = vec![vec![0; network.n_classes()]; network.n_classes()];
        for (&label, &class) in labels.iter().zip(&classes) {
            confusion[label][class] += 1;
        }
        let seconds = last.map_or(0.0, |pass| pass.elapsed.as_secs_f64());
        let samples_per_second = labels.len() as f64 / seconds.max(1e-9);
        Cell {
            generator: generator.to_owned(),
            length,
            seed: self.seed,
            accuracy: share_of(&classes, labels),
            agreement: share_of(&classes, float_classes),
            confusion,
            layers: last.map_or_else(Vec::new, |pass| pass.layers.clone()),
            early: early.collect(),
            seconds,
            samples_per_second,
            bit_macs_per_second: samples_per_second * network.products() as f64 * length as f64,
        }
    }
}

/// The class in the lead and its lead over the second, in units of `noise`.
fn look(scores: &[f64], noise: f64) -> Look {
    let class = top_class(scores);
    let others = scores.iter().enumerate().filter(|(k, _)| *k != class);
    let second = others.map(|(_, &score)| score).fold(f64::NEG_INFINITY, f64::max);
    let gap = scores.get(class).map_or(0.0, |best| best - second);
    Look { class, lead: if noise > 0.0 { gap / noise } else { f64::INFINITY } }
}

/// Adds the errors of some samples to those of others.
fn merge(sum: &mut LayerError, more: &LayerError) {
    let counts = sum.counts + more.counts;
    let weight = if counts == 0 { 0.0 } else { more.counts as f64 / counts as f64 };
    sum.mean_count += (more.mean_count - sum.mean_count) * weight;
    sum.mean_value += (more.mean_value - sum.mean_value) * weight;
    sum.worst_count = sum.worst_count.max(more.worst_count);
    sum.worst_value = sum.worst_value.max(more.worst_value);
    sum.saturated += more.saturated;
    sum.counts = counts;
}

/// The share of equal entries.
fn share_of(classes: &[usize], others: &[usize]) -> f64 {
    let equal = classes.iter().zip(others).filter(|(a, b)| a == b).count();
    equal as f64 / others.len().max(1) as f64
}

fn check_data(network: &Network, data: &Dataset) -> Result<()> {
    let (expected, actual) = (network.n_features(), data.n_features());
    if expected != actual {
        return Err(PlanError::Features { expected, actual }.into());
    }
    let n_classes = network.n_classes();
    match data.labels().iter().position(|&label| label >= n_classes) {
        Some(sample) => Err(PlanError::Label { sample, label: data.labels()[sample], n_classes }.into()),
        None => Ok(()),
    }
}

/// The cells of an earlier evaluation, if it is one of the same thing.
fn check_earlier(earlier: Option<Evaluation>, now: &Evaluation) -> Result<Vec<Cell>> {
    let Some(earlier) = earlier else { return Ok(Vec::new()) };
    let settings =
        |plan: &PlanSummary| (plan.width, plan.sharing.clone(), plan.margins.clone(), plan.device.clone());
    for (what, same) in [
        ("the network", earlier.network == now.network),
        ("the data", earlier.data == now.data),
        ("its settings", settings(&earlier.plan) == settings(&now.plan)),
        ("the version that made it", earlier.version == now.version),
    ] {
        if !same {
            return Err(PlanError::Resume(what).into());
        }
    }
    Ok(earlier.cells)
}

fn summarize_network(network: &Network) -> NetworkSummary {
    let layers = network.layers();
    let words: Vec<Vec<u64>> = layers
        .iter()
        .map(|layer| {
            let scales = [layer.input_scale(), layer.weight_scale()];
            let numbers = layer.weights().iter().chain(layer.bias()).chain(&scales);
            let description =
                format!("{:?} {:?} {:?}", layer.polarity(), layer.activation(), network.input());
            numbers.map(|v| v.to_bits()).chain(description.bytes().map(u64::from)).collect()
        })
        .collect();
    NetworkSummary {
        name: network.name().to_owned(),
        sizes: std::iter::once(network.n_features())
            .chain(layers.iter().map(|layer| layer.n_neurons()))
            .collect(),
        layers: layers.iter().map(|layer| layer.name().to_owned()).collect(),
        products: network.products(),
        fingerprint: fingerprint(&words),
    }
}

fn summarize_data(data: &Dataset) -> DataSummary {
    let features = data.features().iter().map(|v| v.to_bits()).collect();
    let labels = data.labels().iter().map(|&label| label as u64).collect();
    DataSummary {
        name: data.name().to_owned(),
        samples: data.len(),
        fingerprint: fingerprint(&[features, labels]),
    }
}

fn fingerprint(words: &[Vec<u64>]) -> String {
    format!("{:016x}", conformance::digest(words.iter().map(Vec::as_slice)))
}

fn summarize_plan(plan: &Plan) -> PlanSummary {
    let mut lengths = plan.lengths.clone();
    lengths.sort_unstable();
    lengths.dedup();
    let mut generators: Vec<String> = Vec::new();
    let mut runs = 0;
    for spec in &plan.generators {
        let name = spec.to_string();
        if !generators.contains(&name) {
            runs += plan.seeds_of(spec).len();
            generators.push(name);
        }
    }
    let sharing = match plan.sharing {
        Sharing::OneForAll => "one for all",
        Sharing::OnePerInput => "one per input",
        Sharing::OnePerStream => "one per stream",
    };
    PlanSummary {
        cells: runs * lengths.len(),
        lengths,
        generators,
        seeds: plan.seeds,
        width: plan.width.bits(),
        sharing: sharing.to_owned(),
        margins: plan.margins.clone(),
        device: plan.device.to_string(),
    }
}
