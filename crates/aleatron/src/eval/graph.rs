//! Running a plan over a network that is a graph.

use super::assembly::{add_new, merge_all, share_of};
use super::checkpoint;
use super::job::check_fit;
use super::outline::{cells_of, fingerprint, summarize_data, summarize_plan};
use super::plan::Plan;
use super::result::{Cell, Evaluation, NetworkSummary};
use super::run::Progress;
use crate::data::Dataset;
use crate::graph::{GraphNetwork, Mode, Statistics};
use crate::network::top_class;
use crate::{Error, Result, VERSION};
use aleatron_core::{Cancel, Length};
use std::sync::Arc;

/// Samples between two calls of `progress`.
const PIECE: usize = 256;

/// Runs a graph over `data` for each generator, length and seed of `plan`, as [`super::evaluate`] does for networks of layers. Samples
/// are not stopped early: a graph has no last layer whose scores could be watched.
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
    check(network, data, plan)?;
    let float_classes = network.predict(data.features())?;
    let inspection = network.inspect(1)?;
    let mut evaluation = Evaluation {
        version: VERSION.to_owned(),
        network: summarize(network, inspection.stream_products),
        data: summarize_data(data),
        plan: summarize_plan(plan),
        float_accuracy: share_of(&float_classes, data.labels()),
        warnings: Vec::new(),
        cells: Vec::new(),
        unfinished: 0,
    };
    // Early termination is not a setting of graphs.
    evaluation.plan.margins.clear();
    if let Some(checkpoint) = checkpoint {
        checkpoint::go_on_from(&mut evaluation, checkpoint)?;
    }
    let wanted = cells_of(plan);
    let mut lengths = plan.lengths.clone();
    lengths.sort_unstable();
    lengths.dedup();
    let total = wanted.iter().map(|(_, seeds)| seeds.len()).sum::<usize>() * lengths.len();
    let network = Arc::new(network.clone());
    let products: Vec<(String, u64)> = inspection
        .nodes
        .iter()
        .filter_map(|node| Some((node.name.clone(), node.stream.as_ref()?.products)))
        .collect();
    let (mut done, mut failure) = (0, None);
    'generators: for (generator, seeds) in &wanted {
        let name = generator.to_string();
        for &seed in seeds {
            for &length in &lengths {
                let same = |cell: &Cell| (&cell.generator, cell.seed, cell.length) == (&name, seed, length);
                if evaluation.cells.iter().any(same) {
                    done += 1;
                    continue;
                }
                let config = plan.config(generator, length, seed);
                let mut tick = || progress(Progress { done, total, generator: &name, length, seed });
                let mut run = || -> Result<Cell> {
                    let streams = Arc::clone(&network).into_streams(&config)?;
                    let mut classes = Vec::with_capacity(data.len());
                    let mut layers = Vec::new();
                    let mut seconds = 0.0;
                    let width = network.n_features();
                    for (k, piece) in data.features().chunks(PIECE * width).enumerate() {
                        tick();
                        // There are at most 2^32 samples.
                        let first = (k * PIECE) as u32;
                        let output = streams.run(piece, first, Statistics::Found, cancel)?;
                        seconds += output.elapsed.as_secs_f64();
                        classes.extend(output.scores.chunks_exact(network.n_outputs()).map(top_class));
                        merge_all(&mut layers, &output.statistics);
                    }
                    let known = streams.warnings();
                    add_new(
                        &mut evaluation.warnings,
                        known.iter().map(|warning| format!("{name}: {warning}")),
                    );
                    let bits: f64 = products
                        .iter()
                        .map(|(layer, products)| *products as f64 * config.settings_of(layer).length as f64)
                        .sum();
                    let samples_per_second = data.len() as f64 / f64::max(seconds, 1e-9);
                    let n_classes = network.n_classes();
                    let mut confusion = vec![vec![0; n_classes]; n_classes];
                    for (&label, &class) in data.labels().iter().zip(&classes) {
                        confusion[label][class] += 1;
                    }
                    Ok(Cell {
                        generator: name.clone(),
                        length,
                        seed,
                        accuracy: share_of(&classes, data.labels()),
                        agreement: share_of(&classes, &float_classes),
                        confusion,
                        clipped: layers
                            .first()
                            .map_or(0, |first: &crate::network::LayerStats| first.saturated),
                        layers,
                        early: Vec::new(),
                        certain: None,
                        seconds,
                        samples_per_second,
                        bit_macs_per_second: samples_per_second * bits,
                    })
                };
                match run() {
                    Ok(cell) => evaluation.cells.push(cell),
                    Err(Error::Core(aleatron_core::Error::Cancelled)) => break 'generators,
                    Err(error) => {
                        failure = Some(error);
                        break 'generators;
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

fn check(network: &GraphNetwork, data: &Dataset, plan: &Plan) -> Result<()> {
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
    for &length in &plan.lengths {
        Length::new(length)?;
    }
    if let Some(name) =
        plan.layers.keys().find(|name| !network.layers().iter().any(|layer| layer.name == **name))
    {
        return Err(network.unknown(name));
    }
    check_fit(data, network.n_features(), network.n_classes(), plan)
}

fn summarize(network: &GraphNetwork, products: u64) -> NetworkSummary {
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
