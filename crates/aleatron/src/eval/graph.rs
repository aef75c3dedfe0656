//! What judging a graph needs to know of it.

use super::outline::fingerprint;
use super::plan::Plan;
use super::result::NetworkSummary;
use crate::graph::{GraphNetwork, Mode, check_integer};
use crate::network::Arithmetic;
use crate::{Error, Result};
use aleatron_core::Length;

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
        check_integer(network)?;
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
