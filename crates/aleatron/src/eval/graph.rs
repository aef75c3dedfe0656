//! Running a plan over a network that is a graph.

use super::assembly::{add_new, share_of};
use super::checkpoint;
use super::early::{self, Look};
use super::graph_pass::GraphPass;
use super::job::{check_fit, from_sample};
use super::outline::{
    Key, PIECE, cells_of, config, fingerprint, key, sorted_margins, summarize_data, summarize_plan,
};
use super::plan::Plan;
use super::result::{Cell, Evaluation, NetworkSummary, PlanSummary};
use super::run::Progress;
use crate::data::Dataset;
use crate::graph::{GraphNetwork, Mode, Statistics};
use crate::network::top_class;
use crate::{Error, Result, VERSION};
use aleatron_core::generator::GeneratorName;
use aleatron_core::{Cancel, Length, Quantity, memory};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Runs a graph over `data` for each generator, length and seed of `plan`, as [`super::evaluate`] does for networks of layers. Samples
/// are stopped early where the scores are the outputs of a dense product that runs as streams, also through a softmax; where they are those
/// outputs themselves, the rule of certainty holds, too.
///
/// # Errors
/// As [`super::evaluate`].
pub fn evaluate_graph(
    network: &GraphNetwork,
    data: &Dataset,
    plan: &Plan,
    checkpoint: Option<Evaluation>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Evaluation> {
    check_plan(network, plan)?;
    check_fit(data, network.n_features(), network.n_classes(), plan)?;
    let float_classes = classes(&float_scores(network, data, cancel)?, network);
    let inspection = network.inspect(1)?;
    let score = network.score_layer();
    let margins = if score.is_some() { plan.margins.clone() } else { Vec::new() };
    let mut evaluation = Evaluation {
        version: VERSION.to_owned(),
        network: summarize(network, inspection.stream_products),
        data: summarize_data(data)?,
        plan: PlanSummary { margins: margins.clone(), ..summarize_plan(plan) },
        float_accuracy: share_of(&float_classes, data.labels()),
        warnings: Vec::new(),
        cells: Vec::new(),
        unfinished: 0,
        graph: None,
    };
    let lengths = evaluation.plan.lengths.clone();
    if let Some(checkpoint) = checkpoint {
        checkpoint::go_on_from(&mut evaluation, checkpoint)?;
    }
    let network = Arc::new(network.clone());
    let streaming = network.layers().iter().filter(|layer| layer.mode == Mode::Streams);
    let names: Vec<&str> = streaming.map(|layer| layer.name.as_str()).collect();
    let products = inspection.nodes.iter();
    let cells = Cells {
        pass: GraphPass { network: &network, score, margins: &sorted_margins(&margins) },
        data,
        plan,
        float_classes: &float_classes,
        names,
        products: products
            .filter_map(|node| Some((node.name.clone(), node.stream.as_ref()?.products)))
            .collect(),
        cancel,
    };
    let wanted = cells_of(plan);
    let total = wanted.iter().map(|(_, seeds)| seeds.len()).sum::<usize>() * lengths.len();
    let (mut done, mut failure) = (0, None);
    'generators: for (generator, seeds) in &wanted {
        let name = generator.to_string();
        for &seed in seeds {
            let mut known = BTreeMap::new();
            for &length in &lengths {
                let same = |cell: &Cell| (&cell.generator, cell.seed, cell.length) == (&name, seed, length);
                if !evaluation.cells.iter().any(same) {
                    let mut tick = || progress(Progress { done, total, generator: &name, length, seed });
                    match cells.run(generator, length, seed, &margins, &mut known, &mut tick) {
                        Ok((cell, warnings)) => {
                            add_new(&mut evaluation.warnings, warnings.into_iter());
                            evaluation.cells.push(cell);
                        }
                        Err(Error::Core(aleatron_core::Error::Cancelled)) => break 'generators,
                        Err(error) => {
                            failure = Some(error);
                            break 'generators;
                        }
                    }
                }
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

/// What all cells have in common.
struct Cells<'a> {
    pass: GraphPass<'a>,
    data: &'a Dataset,
    plan: &'a Plan,
    float_classes: &'a [usize],
    /// The layers that run as streams.
    names: Vec<&'a str>,
    /// The products of a sample in each of them.
    products: Vec<(String, u64)>,
    cancel: Cancel<'a>,
}

impl Cells<'_> {
    /// Runs a cell; `known` are the looks of shorter ones with the same generator and seed.
    fn run(
        &self,
        generator: &GeneratorName,
        length: usize,
        seed: u64,
        margins: &[f64],
        known: &mut BTreeMap<Key, Vec<Look>>,
        tick: &mut dyn FnMut(),
    ) -> Result<(Cell, Vec<String>)> {
        let config_at = |cycles| config(&self.names, self.plan, generator, seed, cycles, length);
        let key_at = |cycles| key(&self.names, &config_at(cycles));
        let full = config_at(length);
        let found = self.pass.run(self.data, &full, Statistics::Found, self.cancel, tick)?;
        let labels = self.data.labels();
        let classes: Vec<usize> = found.looks.iter().map(|look| look.class).collect();
        known.insert(key_at(length), found.looks);
        let cycles: Vec<usize> =
            if margins.is_empty() { vec![length] } else { early::looks(length).collect() };
        for &at in &cycles {
            if let Entry::Vacant(place) = known.entry(key_at(at)) {
                let look =
                    self.pass.run(self.data, &config_at(at), Statistics::LeftOut, self.cancel, tick)?;
                place.insert(look.looks);
            }
        }
        let looks: Vec<(usize, Vec<Look>)> =
            cycles.iter().map(|&at| (at, known.get(&key_at(at)).cloned().unwrap_or_default())).collect();
        let early = margins.iter().map(|&margin| {
            let rank = self.pass.margins.partition_point(|&other| other < margin);
            early::early_stop(&looks, labels, self.names.len().max(1), margin, rank)
        });
        let bits: f64 = self
            .products
            .iter()
            .map(|(layer, products)| *products as f64 * full.settings_of(layer).length as f64)
            .sum();
        let samples_per_second = self.data.len() as f64 / found.seconds.max(1e-9);
        let n_classes = self.pass.network.n_classes();
        let mut confusion = vec![vec![0; n_classes]; n_classes];
        for (&label, &class) in labels.iter().zip(&classes) {
            confusion[label][class] += 1;
        }
        let cell = Cell {
            generator: generator.to_string(),
            length,
            seed,
            accuracy: share_of(&classes, labels),
            agreement: share_of(&classes, self.float_classes),
            confusion,
            clipped: found.layers.first().map_or(0, |first| first.saturated),
            layers: found.layers,
            early: early.collect(),
            certain: found.certain,
            seconds: found.seconds,
            samples_per_second,
            bit_macs_per_second: samples_per_second * bits,
        };
        Ok((cell, found.warnings))
    }
}

/// The scores of all samples in floating point.
pub(super) fn float_scores(network: &GraphNetwork, data: &Dataset, cancel: Cancel<'_>) -> Result<Vec<f64>> {
    let runner = network.runner()?;
    let len = data.len() as u128 * network.n_outputs() as u128;
    let mut scores = memory::with_capacity(len, Quantity::Samples)?;
    for (first, piece) in data.pieces(PIECE) {
        let made = network.forward_with(&runner, &piece?, cancel);
        scores.extend(made.map_err(|error| from_sample(error, first))?);
    }
    Ok(scores)
}

/// The class of each sample.
pub(super) fn classes(scores: &[f64], network: &GraphNetwork) -> Vec<usize> {
    scores.chunks_exact(network.n_outputs().max(1)).map(top_class).collect()
}

/// Checks that a plan has something to do for a graph.
pub(super) fn check_plan(network: &GraphNetwork, plan: &Plan) -> Result<()> {
    for (what, is_empty) in [
        ("lengths", plan.lengths.is_empty()),
        ("generators", plan.generators.is_empty()),
        ("seeds", plan.seeds == 0),
        ("layers that run as streams", network.layers().iter().all(|layer| layer.mode == Mode::Binary)),
    ] {
        if is_empty {
            return Err(Error::Nothing(what));
        }
    }
    plan.check_seeds()?;
    plan.check_margins()?;
    for &length in &plan.lengths {
        Length::new(length)?;
    }
    match plan.layers.keys().find(|name| !network.layers().iter().any(|layer| layer.name == **name)) {
        Some(name) => Err(network.unknown(name)),
        None => Ok(()),
    }
}

pub(super) fn summarize(network: &GraphNetwork, products: u64) -> NetworkSummary {
    let layers = network.layers();
    let words: Vec<Vec<u64>> = layers
        .iter()
        .map(|layer| {
            let weights =
                layer.product.weights.iter().chain(&layer.product.bias).map(|w| u64::from(w.to_bits()));
            let scales = layer.weight_scales.iter().chain([&layer.input_scale]).map(|scale| scale.to_bits());
            let text =
                format!("{} {:?} {:?} {:?}", layer.name, layer.mode, layer.polarity, layer.product.kind);
            weights.chain(scales).chain(text.bytes().map(u64::from)).collect()
        })
        .chain([network
            .graph()
            .nodes()
            .iter()
            .flat_map(|node| node.op.name().bytes())
            .map(u64::from)
            .collect()])
        .collect();
    NetworkSummary {
        name: network.name().to_owned(),
        sizes: [network.n_features()]
            .into_iter()
            .chain(layers.iter().rev().skip(1).rev().map(|layer| layer.product.n_rows()))
            .chain([network.n_outputs()])
            .collect(),
        layers: layers.iter().map(|layer| layer.name.clone()).collect(),
        products: usize::try_from(products).unwrap_or(usize::MAX),
        fingerprint: fingerprint(&words),
    }
}
