//! What judging a graph needs to know of it.

use super::outline::fingerprint;
use super::plan::{Plan, StreamedProduct};
use super::result::NetworkSummary;
use crate::{Error, Result};
use aleatron_core::Length;
use aleatron_engine::graph::{GraphNetwork, Mode};
use aleatron_engine::network::Arithmetic;

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
    if plan.arithmetic == Arithmetic::Integer {
        network.check_integers()?;
    }
    for name in plan.layers.keys() {
        if network.layer(name)?.mode == Mode::Binary {
            return Err(Error::BinaryLayer(name.clone()));
        }
    }
    plan.check_cells(&streamed(network)?)
}

/// The layers that run as streams, but for those whose inputs have shapes that are not known before a run.
fn streamed(network: &GraphNetwork) -> Result<Vec<StreamedProduct<'_>>> {
    let graph = network.graph();
    let summaries = network.inspect(1)?.nodes;
    let mut found = Vec::new();
    for (place, layer) in network.layers().iter().enumerate() {
        let input = graph.nodes().get(layer.node).and_then(|node| node.inputs.first().copied().flatten());
        let maker = graph.nodes().iter().position(|node| node.outputs.first().copied().flatten() == input);
        let shape = match maker.and_then(|maker| summaries.get(maker)) {
            Some(summary) => summary.shape.clone(),
            None if graph.inputs().first().copied() == input => [&[1], network.sample_shape()].concat(),
            None => continue,
        };
        if layer.mode == Mode::Streams {
            let topology = layer.topology(&shape)?;
            found.push(StreamedProduct { place, name: &layer.name, topology, polarity: layer.polarity });
        }
    }
    Ok(found)
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
