//! Constant folding.

use aleatron_tensor::{Device, Tensor};

use crate::error::{Error, Result};
use crate::graph::{Graph, ValueId};
use crate::op::Op;
use crate::product::{floats, input};
use crate::run::at_least;

/// The largest number of elements that a folded node may produce from smaller constants: more would
/// make the model larger than its file.
const MAX_ELEMENTS: usize = 1 << 24;

/// The largest ratio of the elements of all folded constants to those of the original ones, besides
/// [`MAX_ELEMENTS`].
const MAX_GROWTH: usize = 4;

/// Computes nodes whose inputs are all constants; returns their number.
pub(super) fn constants(graph: &mut Graph) -> Result<usize> {
    let nodes = std::mem::take(&mut graph.nodes);
    let mut count = 0;
    // Each may be small enough, but all together too large.
    let mut left = graph.n_parameters().saturating_mul(MAX_GROWTH).saturating_add(MAX_ELEMENTS);
    for (index, node) in nodes.into_iter().enumerate() {
        let has_graph = matches!(node.op, Op::If { .. } | Op::Loop { .. });
        let inputs: Option<Vec<Option<Tensor>>> = node
            .inputs
            .iter()
            .map(|id| match id {
                None => Some(None),
                Some(id) => graph.constants.get(id).cloned().map(Some),
            })
            .collect();
        let made = match inputs {
            Some(inputs)
                if !has_graph && at_least(&node.op, &inputs) <= element_limit(&inputs, left) =>
            {
                let most = element_limit(&inputs, left);
                let made = crate::run::compute_in(graph, &node, &inputs);
                let made = made.map_err(|source| Error::Node {
                    index,
                    name: node.name.clone(),
                    operator: node.op.name().to_owned(),
                    source: Box::new(source),
                })?;
                Some(made).filter(|made| made.iter().map(Tensor::len).sum::<usize>() <= most)
            }
            _ => None,
        };
        let Some(made) = made else {
            graph.nodes.push(node);
            continue;
        };
        left = left.saturating_sub(made.iter().map(Tensor::len).sum());
        for (id, tensor) in node.outputs.iter().zip(made) {
            if let Some(id) = id {
                graph.constants.insert(*id, tensor.contiguous()?);
            }
        }
        count += 1;
    }
    Ok(count)
}

/// Returns the largest number of elements that a node may produce: as many as its constants have,
/// or a few, within the remaining limit.
fn element_limit(inputs: &[Option<Tensor>], left: usize) -> usize {
    let own = inputs.iter().flatten().map(Tensor::len).fold(0, usize::saturating_add);
    own.max(MAX_ELEMENTS).min(left)
}

/// Folds batch normalisations into the products before them; returns their number.
pub(super) fn batch_normalizations(graph: &mut Graph) -> Result<usize> {
    let mut uses = vec![0_usize; graph.values.len()];
    for id in graph
        .nodes
        .iter()
        .flat_map(|node| node.needs().collect::<Vec<_>>())
        .chain(graph.outputs.clone())
    {
        uses[id.index()] += 1;
    }
    let makers: std::collections::HashMap<ValueId, usize> = graph
        .nodes
        .iter()
        .enumerate()
        .flat_map(|(k, node)| node.outputs.iter().flatten().map(move |id| (*id, k)))
        .collect();
    let mut folded = Vec::new();
    for k in 0..graph.nodes.len() {
        let node = &graph.nodes[k];
        let Op::BatchNormalization { epsilon, training: false, .. } = node.op else { continue };
        let Some(before) =
            input(node, 0).filter(|id| uses[id.index()] == 1).and_then(|id| makers.get(&id))
        else {
            continue;
        };
        let parameters: Option<Vec<&Tensor>> =
            (1..5).map(|at| graph.constants.get(&input(node, at)?)).collect();
        let Some(parameters) = parameters else { continue };
        let numbers = parameters.iter().map(|tensor| floats(tensor)).collect::<Result<Vec<_>>>()?;
        if let Some((weights, bias)) = fold_into(graph, *before, &numbers, epsilon)? {
            let name = graph.nodes[*before].name.clone();
            let weights = graph.add_constant(format!("{name}_folded_weight"), weights);
            let bias = graph.add_constant(format!("{name}_folded_bias"), bias);
            let output = graph.nodes[k].outputs.first().copied().flatten();
            let product = &mut graph.nodes[*before];
            product.inputs = vec![product.inputs[0], Some(weights), Some(bias)];
            product.outputs = vec![output];
            if let Op::Gemm { alpha, beta, transpose_b, .. } = &mut product.op {
                (*alpha, *beta, *transpose_b) = (1.0, 1.0, true);
            }
            folded.push(k);
        }
    }
    let mut index = 0;
    graph.nodes.retain(|_| {
        index += 1;
        !folded.contains(&(index - 1))
    });
    Ok(folded.len())
}

/// Returns the weights and biases of a product followed by a normalisation, computed in 64 bits.
fn fold_into(
    graph: &Graph,
    before: usize,
    parameters: &[Vec<f32>],
    epsilon: f32,
) -> Result<Option<(Tensor, Tensor)>> {
    let node = &graph.nodes[before];
    let Some(product) = crate::product::Product::of(graph, node)? else { return Ok(None) };
    // A matrix product has no bias.
    if !matches!(node.op, Op::Conv { .. } | Op::Gemm { .. }) {
        return Ok(None);
    }
    let rows = product.n_rows();
    let [scale, shift, mean, variance] = parameters else { return Ok(None) };
    if parameters.iter().any(|values| values.len() != rows) {
        return Ok(None);
    }
    let factor =
        |row: usize| f64::from(scale[row]) / (f64::from(variance[row]) + f64::from(epsilon)).sqrt();
    if (0..rows).any(|row| !factor(row).is_finite()) {
        return Ok(None);
    }
    let per_row = product.fan_in().max(1);
    let weights: Vec<f32> = product
        .weights
        .iter()
        .enumerate()
        .map(|(k, &w)| (f64::from(w) * factor(k / per_row)) as f32)
        .collect();
    let bias: Vec<f32> = (0..rows)
        .map(|row| {
            let own = f64::from(product.bias.get(row).copied().unwrap_or(0.0));
            ((own - f64::from(mean[row])) * factor(row) + f64::from(shift[row])) as f32
        })
        .collect();
    let shape = match (&node.op, input(node, 1).and_then(|id| graph.constant(id))) {
        (Op::Conv { .. }, Some(weights)) => weights.shape().to_vec(),
        _ => vec![rows, per_row],
    };
    let cpu = &Device::Cpu;
    Ok(Some((Tensor::from_slice(&weights, &shape, cpu)?, Tensor::from_slice(&bias, &[rows], cpu)?)))
}
