//! Running a plan.

use super::checkpoint;
use super::early::{self, Look};
use super::pass::{self, Pass, Purpose};
use super::plan::Plan;
use super::result::{Cell, DataSummary, Evaluation, NetworkSummary, PlanSummary};
use crate::data::Dataset;
use crate::network::{FeatureRange, LayerSettings, Network, StreamConfig};
use crate::{Error, Result, VERSION};
use aleatron_core::generator::{GeneratorName, WidthChoice};
use aleatron_core::{Cancel, Length, conformance};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far an evaluation has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// The cells that are done.
    pub done: usize,
    /// All cells of the plan.
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
/// Cells of `checkpoint`, an evaluation of the same network and data with the same settings, are kept, whatever the plan asks for, and
/// not run again. `progress` is called at least every 256 samples. When cancelled, the evaluation returns with the cells
/// that are done.
///
/// # Errors
/// [`Error`] for a plan that cannot be run, data that do not fit the network, or a checkpoint of something else;
/// [`Error::Unfinished`], with the cells that are done, where something fails on the way.
pub fn evaluate(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    checkpoint: Option<Evaluation>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Evaluation> {
    plan.check(network)?;
    check_data(network, data, plan)?;
    let float_classes = network.predict(data.features())?;
    let mut evaluation = Evaluation {
        version: VERSION.to_owned(),
        network: summarize_network(network),
        data: summarize_data(data),
        plan: summarize_plan(plan),
        float_accuracy: share_of(&float_classes, data.labels()),
        warnings: Vec::new(),
        cells: Vec::new(),
        unfinished: 0,
    };
    if let Some(checkpoint) = checkpoint {
        checkpoint::go_on_from(&mut evaluation, checkpoint)?;
    }
    let wanted = cells_of(plan);
    let is_done = |evaluation: &Evaluation, key: &(String, u64, usize)| {
        let same = |cell: &Cell| (&cell.generator, cell.seed, cell.length) == (&key.0, key.1, key.2);
        evaluation.cells.iter().any(same)
    };
    let mut lengths = plan.lengths.clone();
    lengths.sort_unstable();
    lengths.dedup();
    let total = wanted.iter().map(|(_, seeds)| seeds.len()).sum::<usize>() * lengths.len();
    let (mut done, mut failure) = (0, None);
    let network = Arc::new(network.clone());
    'generators: for (generator, seeds) in &wanted {
        let name = generator.to_string();
        for &seed in seeds {
            let mut passes = Passes { network: &network, data, plan, generator, seed, done: BTreeMap::new() };
            for &length in &lengths {
                if is_done(&evaluation, &(name.clone(), seed, length)) {
                    done += 1;
                    continue;
                }
                let mut tick = || progress(Progress { done, total, generator: &name, length, seed });
                match passes.run_up_to(length, cancel, &mut tick, &mut evaluation.warnings) {
                    Ok(()) => {}
                    Err(Error::Core(aleatron_core::Error::Cancelled)) => break 'generators,
                    Err(error) => {
                        failure = Some(error);
                        break 'generators;
                    }
                }
                let cell = passes.cell(length, &name, &float_classes);
                evaluation.cells.push(cell);
                done += 1;
            }
        }
    }
    evaluation.unfinished = total - done;
    evaluation.sort();
    match failure {
        None => Ok(evaluation),
        Some(source) => Err(Error::Unfinished { done: Box::new(evaluation), source: Box::new(source) }),
    }
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

/// The runs of one generator and seed, by length: shorter ones are the early looks of longer ones.
struct Passes<'a> {
    network: &'a Arc<Network>,
    data: &'a Dataset,
    plan: &'a Plan,
    generator: &'a GeneratorName,
    seed: u64,
    /// By the configuration's lengths, those of all layers, and by what it was run for.
    done: BTreeMap<(Vec<usize>, Vec<u32>), Pass>,
}

impl Passes<'_> {
    /// How a look at `cycles` of `length` is run: layers with a length of their own have come as far in it.
    fn config(&self, cycles: usize, length: usize) -> StreamConfig {
        let mut config = self.plan.config(self.generator, cycles, self.seed);
        // Looks are at the streams of the full length, so at its width.
        let full = self.plan.config(self.generator, length, self.seed);
        for layer in self.network.layers() {
            let settings = full.settings_of(layer.name());
            let mut own = config.layers.get(layer.name()).copied().unwrap_or_default();
            if let Some(length_of_layer) = own.length {
                own.length = Some((length_of_layer * cycles).div_ceil(length));
            }
            if let Ok(full_length) = Length::new(settings.length) {
                own.width = Some(settings.width.resolve(&settings.generator, full_length).into());
            }
            config.layers.insert(layer.name().to_owned(), own);
        }
        config
    }

    fn key(&self, config: &StreamConfig) -> (Vec<usize>, Vec<u32>) {
        let settings = self.network.layers().iter().map(|layer| config.settings_of(layer.name()));
        let width = |settings: &LayerSettings| match settings.width {
            WidthChoice::Fixed(width) => width.bits(),
            WidthChoice::Auto => 0,
        };
        settings.map(|settings| (settings.length, width(&settings))).unzip()
    }

    /// Makes sure of every pass that a run of `length` looks at.
    fn run_up_to(
        &mut self,
        length: usize,
        cancel: Cancel<'_>,
        tick: &mut dyn FnMut(),
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        for cycles in early::looks(length) {
            let config = self.config(cycles, length);
            let key = self.key(&config);
            let purpose = if cycles == length { Purpose::Cell } else { Purpose::Look };
            let known = self.done.get(&key);
            if known
                .is_some_and(|pass| purpose == Purpose::Look || !pass.layers.iter().all(|l| l.counts == 0))
            {
                continue;
            }
            let pass = pass::run(self.network, self.data, self.plan, &config, purpose, cancel, tick)?;
            add_new(warnings, pass.notes.iter().cloned());
            self.done.insert(key, pass);
        }
        let asked = self.plan.config(self.generator, length, self.seed);
        let known = asked.warnings(self.network)?;
        add_new(warnings, known.iter().map(|warning| format!("{}: {warning}", self.generator)));
        Ok(())
    }

    /// The cell of `length`, all of whose passes are done.
    fn cell(&self, length: usize, generator: &str, float_classes: &[usize]) -> Cell {
        let (network, labels) = (self.network, self.data.labels());
        let pass_at = |cycles: usize| self.done.get(&self.key(&self.config(cycles, length)));
        let passes = early::looks(length).filter_map(|cycles| Some((cycles, pass_at(cycles)?)));
        let looks: Vec<(usize, &[Look])> =
            passes.map(|(cycles, pass)| (cycles, pass.looks.as_slice())).collect();
        let n_layers = network.layers().len();
        let early =
            self.plan.margins.iter().map(|&margin| early::early_stop(&looks, labels, n_layers, margin));
        let last = pass_at(length);
        let classes: Vec<usize> = last.iter().flat_map(|pass| &pass.looks).map(|look| look.class).collect();
        let mut confusion = vec![vec![0; network.n_classes()]; network.n_classes()];
        for (&label, &class) in labels.iter().zip(&classes) {
            confusion[label][class] += 1;
        }
        let config = self.config(length, length);
        let bits = network.layers().iter().map(|layer| {
            layer.topology().n_products() as f64 * config.settings_of(layer.name()).length as f64
        });
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
            certain: last.and_then(|pass| pass.certain),
            clipped: last.map_or(0, |pass| pass.clipped),
            seconds,
            samples_per_second,
            bit_macs_per_second: samples_per_second * bits.sum::<f64>(),
        }
    }
}

/// Appends what is not there yet.
pub(super) fn add_new(all: &mut Vec<String>, more: impl Iterator<Item = String>) {
    for text in more {
        if !all.contains(&text) {
            all.push(text);
        }
    }
}

/// The share of equal entries.
pub(super) fn share_of(classes: &[usize], others: &[usize]) -> f64 {
    let equal = classes.iter().zip(others).filter(|(a, b)| a == b).count();
    equal as f64 / others.len().max(1) as f64
}

fn check_data(network: &Network, data: &Dataset, plan: &Plan) -> Result<()> {
    let (expected, actual) = (network.n_features(), data.n_features());
    if expected != actual {
        return Err(Error::FeatureCount { expected, actual });
    }
    let n_classes = network.n_classes();
    match data.labels().iter().position(|&label| label >= n_classes) {
        Some(sample) => Err(Error::UnknownClass { sample, label: data.labels()[sample], n_classes }),
        None => network.check_samples(data.features(), plan.range).map(drop),
    }
}

fn summarize_network(network: &Network) -> NetworkSummary {
    let layers = network.layers();
    let words: Vec<Vec<u64>> = layers
        .iter()
        .map(|layer| {
            let scales = [layer.input_scale(), layer.weight_scale()];
            let numbers = layer.weights().iter().chain(layer.bias()).chain(&scales);
            let mut description =
                format!("{:?} {:?} {:?}", layer.polarity(), layer.activation(), network.input());
            if let Some(shape) = layer.conv_shape() {
                description.push_str(&format!(" {:?} {:?}", shape.convolution(), layer.pools()));
            }
            numbers.map(|v| v.to_bits()).chain(description.bytes().map(u64::from)).collect()
        })
        .collect();
    NetworkSummary {
        name: network.name().to_owned(),
        sizes: std::iter::once(network.n_features())
            .chain(layers.iter().map(|layer| layer.n_outputs()))
            .collect(),
        layers: layers.iter().map(|layer| layer.name().to_owned()).collect(),
        products: network.products(),
        fingerprint: fingerprint(&words),
    }
}

pub(super) fn summarize_data(data: &Dataset) -> DataSummary {
    let features = data.features().iter().map(|v| v.to_bits()).collect();
    let labels = data.labels().iter().map(|&label| label as u64).collect();
    DataSummary {
        name: data.name().to_owned(),
        samples: data.len(),
        fingerprint: fingerprint(&[features, labels]),
    }
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
        clip: plan.range == FeatureRange::Clip,
        margins: plan.margins.clone(),
        device: plan.device.to_string(),
    }
}
