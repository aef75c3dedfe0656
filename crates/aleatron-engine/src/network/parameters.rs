//! The parameters of a network: the constants that training changes.

use super::{Layer, Network, WeightScale, calibrate, input, layer};
use crate::Result;
use aleatron_core::{Error as CoreError, Quantity};
use aleatron_graph::ValueId;
use aleatron_tensor::{DType, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A constant of the graph that training may change: weights or biases of one layer, or of several
/// layers that share them.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// The constant.
    pub id: ValueId,
    /// Its name in the graph.
    pub name: String,
    /// Its elements.
    pub value: Tensor,
}

impl Network {
    /// Returns the weights and biases of all layers, in the order in which they run. A constant
    /// that other nodes than layers read is excluded, unless those depend on the features: values
    /// computed once from constants would not follow it.
    ///
    /// # Errors
    /// Returns [`crate::Error::Graph`] for a graph whose values are inconsistent.
    pub fn parameters(&self) -> Result<Vec<Parameter>> {
        let nodes = self.graph.nodes();
        let mut found: BTreeMap<usize, Parameter> = BTreeMap::new();
        let mut order: Vec<ValueId> = Vec::new();
        for layer in &self.layers {
            let own = nodes[layer.node].inputs.iter().skip(1);
            let added = layer.bias_node.into_iter().flat_map(|node| &nodes[node].inputs);
            for id in own.chain(added).flatten().copied() {
                let Some(value) =
                    self.graph.constant(id).filter(|value| value.dtype() == DType::F32)
                else {
                    continue;
                };
                let is_stale = nodes.iter().any(|node| {
                    let mut outputs = node.outputs.iter().flatten();
                    node.needs().any(|needed| needed == id)
                        && outputs.any(|&output| !self.analysis.depends_on_features(output))
                });
                if is_stale || found.contains_key(&id.index()) {
                    continue;
                }
                let name = self.graph.value(id)?.name.clone();
                found.insert(id.index(), Parameter { id, name, value: value.clone() });
                order.push(id);
            }
        }
        Ok(order.into_iter().filter_map(|id| found.remove(&id.index())).collect())
    }

    /// Returns the network with other elements in some of its parameters. Scales of weights are
    /// recomputed: one for all rows of a layer that had a single one, otherwise one for each.
    /// Scales of inputs do not change.
    ///
    /// # Errors
    /// Returns [`crate::Error::Graph`] for a value that is not a constant, or a tensor of another
    /// shape or type; [`crate::Error::Layer`] for elements that are not finite, and for negative
    /// weights of unipolar streams.
    pub fn with_parameters(&self, values: &HashMap<ValueId, Tensor>) -> Result<Self> {
        let mut graph = (*self.graph).clone();
        for (&id, tensor) in values {
            graph.replace_constant(id, tensor.detach())?;
        }
        let mut network = Self { graph: Arc::new(graph), ..self.clone() };
        let fresh = layer::layers_of(&network.graph, &network.analysis)?;
        if fresh.len() != self.layers.len() {
            return Err(CoreError::Internal { place: "engine::Network::with_parameters" }.into());
        }
        network.layers = self.layers.iter().zip(fresh).map(|(old, new)| follow(old, new)).collect();
        for (index, layer) in network.layers.iter().enumerate() {
            layer.check(index)?;
        }
        Ok(network)
    }

    /// Returns samples as the inputs of the graph, samples along the first axis of each.
    ///
    /// # Errors
    /// As for [`Self::check_samples`], and [`crate::Error::NotWhole`] for a fraction if the graph
    /// takes integers.
    pub fn input_tensors(&self, features: &[f64]) -> Result<Vec<Tensor>> {
        self.check_samples(features)?;
        input::tensors(&self.inputs, features, features.len() / self.n_features())
    }

    /// Decodes the counts of a layer, including the bias and before any activation.
    ///
    /// # Errors
    /// Returns [`crate::Error::UnknownLayer`] for an index that is out of range,
    /// [`CoreError::Ragged`] for counts that are not whole samples.
    pub fn decode_layer(
        &self,
        index: usize,
        spec: &aleatron_core::LayerSpec,
        counts: &[u64],
    ) -> Result<Vec<f64>> {
        let Some(layer) = self.layers.get(index) else {
            return Err(self.unknown(&index.to_string()));
        };
        let neurons = spec.n_neurons().max(1);
        if !counts.len().is_multiple_of(neurons) {
            let (what, actual) = (Quantity::Neurons, counts.len());
            return Err(CoreError::Ragged { what, actual, divisor: neurons }.into());
        }
        let biases = layer.biases();
        let rows: Vec<[f64; 2]> = (0..layer.product.n_rows())
            .map(|row| [layer.input_scale * layer.weight_scale(row), biases[row]])
            .collect();
        let per_row = spec.neurons_per_row().max(1);
        let decoded = spec.decode_all(counts).into_iter().enumerate();
        Ok(decoded
            .map(|(k, value)| {
                let [scale, bias] = rows[k % neurons / per_row];
                value * scale + bias
            })
            .collect())
    }
}

/// Returns a layer with new weights and the settings of the old one.
fn follow(old: &Layer, new: Layer) -> Layer {
    let rule = if old.weight_scales.len() == 1 && old.product.n_rows() > 1 {
        WeightScale::Tensor
    } else {
        WeightScale::PerRow
    };
    let weight_scales = calibrate::weight_scales(&new.product.weights, new.product.fan_in(), rule);
    Layer { product: new.product, weight_scales, ..old.clone() }
}
