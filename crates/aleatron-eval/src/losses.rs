//! The loss of each node of a graph: its error, and the score with its layer alone as streams.

use super::plan::Plan;
use super::result::{Evaluation, GraphNode, GraphSummary, Losses};
use super::subject::Subject;
use crate::Result;
use aleatron_core::Cancel;
use aleatron_data::Dataset;
use aleatron_engine::network::{Batching, Mode, Network, StreamConfig};
use aleatron_engine::stream::{Detail, Measured};
use std::sync::Arc;

/// Samples over which the errors of nodes are found.
const SAMPLES: usize = 256;

/// Measures the loss of each node of a graph and adds it to its evaluation: for each generator at
/// the longest of the lengths that lose more than one hundredth of the score, or at the shortest if
/// none does, with seed 0. It takes about as long as one more cell for each generator.
///
/// # Errors
/// As [`super::evaluate`].
pub fn find_losses(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    evaluation: &mut Evaluation,
    cancel: Cancel<'_>,
) -> Result<()> {
    let subject = Subject::new(Arc::new(network.clone()))?;
    let plan = &plan.resolved(&subject);
    let mut losses = Vec::new();
    for generator in &plan.generators {
        let rows = evaluation.rows_of(&generator.to_string());
        let bar = evaluation.float.score() - 0.01 - 1e-9;
        let lossy = rows.iter().rev().find(|row| row.score() < bar).or(rows.first());
        let Some(length) = lossy.map(|row| row.length) else { continue };
        let config = plan.config(generator, length, 0);
        losses.push(Losses {
            generator: *generator,
            length,
            score: subject.score(data, &config, cancel)?,
            node_errors: node_errors(network, data, &config, cancel)?,
            alone: alone(network, data, &config, cancel)?,
        });
    }
    evaluation.graph = Some(GraphSummary { nodes: nodes(network)?, losses });
    Ok(())
}

fn nodes(network: &Network) -> Result<Vec<GraphNode>> {
    let graph = network.graph();
    let maker = |value| graph.nodes().iter().position(|node| node.outputs.contains(&Some(value)));
    let summaries = network.inspect(1)?.nodes.into_iter();
    let nodes = graph.nodes().iter().zip(summaries).map(|(node, summary)| {
        let mut inputs: Vec<usize> =
            node.inputs.iter().flatten().filter_map(|&value| maker(value)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        let mut graph_inputs: Vec<String> = Vec::new();
        for &value in node.inputs.iter().flatten().filter(|&value| graph.inputs().contains(value)) {
            let name = graph.value(value).map_or_else(|_| String::new(), |v| v.name.clone());
            if !graph_inputs.contains(&name) {
                graph_inputs.push(name);
            }
        }
        GraphNode {
            name: summary.name,
            operator: summary.operator.to_owned(),
            shape: summary.shape,
            inputs,
            graph_inputs,
            stream_products: summary.stream.map(|stream| stream.products),
        }
    });
    Ok(nodes.collect())
}

/// Returns the relative error of each node over the first samples, if it has one.
fn node_errors(
    network: &Network,
    data: &Dataset,
    config: &StreamConfig,
    cancel: Cancel<'_>,
) -> Result<Vec<Option<f64>>> {
    let streams = network.to_streams(config)?;
    let n = match (network.batching(), network.batch()) {
        // Samples that cannot run apart run as in the evaluation.
        (_, Some(batch)) => (SAMPLES / batch).max(1) * batch,
        (Batching::Whole, None) => data.len(),
        (Batching::Independent, None) => SAMPLES,
    };
    let features = data.samples(0..n.min(data.len()))?;
    let detail = Detail { nodes: Measured::Enabled, ..Detail::default() };
    let mut squares = streams.run(&features, 0, detail, cancel)?.nodes.squares;
    squares.resize(network.graph().nodes().len(), [0.0; 2]);
    let relative = |[error, exact]: [f64; 2]| {
        let ratio = (error / exact).sqrt();
        (exact > 0.0 && ratio.is_finite()).then_some(ratio)
    };
    Ok(squares.into_iter().map(relative).collect())
}

/// Returns the score with each layer alone as streams.
fn alone(
    network: &Network,
    data: &Dataset,
    config: &StreamConfig,
    cancel: Cancel<'_>,
) -> Result<Vec<Option<f64>>> {
    let mut found = vec![None; network.graph().nodes().len()];
    for (_, layer) in network.stream_layers() {
        let mut only = network.clone();
        let mut own = config.clone();
        for (_, other) in network.stream_layers().filter(|(_, other)| other.name != layer.name) {
            only = only.with_mode(&other.name, Mode::Binary)?;
            // Layers in binary have no stream settings.
            own.layers.remove(&other.name);
        }
        let missing = aleatron_core::Error::Internal { place: "eval::losses::alone" };
        let slot = found.get_mut(layer.node).ok_or(missing)?;
        *slot = Some(Subject::new(Arc::new(only))?.score(data, &own, cancel)?);
    }
    Ok(found)
}
