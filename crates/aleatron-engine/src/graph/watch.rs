//! What a run of a graph as streams shows to those who judge it: the inputs and outputs of one product, and how far every node is from
//! floating point. Whoever wants it hands a [`Watch`] to [`StreamGraph::run_watched`](super::StreamGraph::run_watched).

use crate::network::LayerInputs;
use aleatron_graph::{Node, Observer};
use aleatron_tensor::{DType, Tensor};

/// What is kept of a run for those who judge it.
#[derive(Debug, Default)]
pub struct Watch {
    /// The product, by its place, whose inputs and outputs are kept.
    pub place: Option<usize>,
    /// Its inputs as they were encoded, samples one after the other.
    pub inputs: Option<LayerInputs>,
    /// Its outputs.
    pub outputs: Vec<f64>,
    /// How far nodes are from floating point, where that is asked for.
    pub nodes: Option<NodeErrors>,
}

impl Watch {
    /// Keeps the first `n` of some inputs.
    pub(super) fn add_inputs(&mut self, more: &LayerInputs, n: usize) {
        let inputs = self.inputs.get_or_insert_with(|| match more {
            LayerInputs::Values(_) => LayerInputs::Values(Vec::new()),
            LayerInputs::Thresholds(_) => LayerInputs::Thresholds(Vec::new()),
        });
        inputs.extend(more, n);
    }
}

/// How far what nodes make is from what they make in floating point.
#[derive(Debug, Default)]
pub struct NodeErrors {
    /// What each node makes of the same samples in floating point.
    float: Vec<Vec<f32>>,
    /// The squares of differences, and of the values of floating point, of each node.
    pub squares: Vec<[f64; 2]>,
}

impl Observer for NodeErrors {
    fn made(&mut self, index: usize, _: &Node, outputs: &[Tensor]) -> aleatron_graph::Result<()> {
        let values = first_floats(outputs)?;
        self.float.resize_with(self.float.len().max(index + 1), Vec::new);
        self.float[index] = values;
        Ok(())
    }
}

impl NodeErrors {
    /// Adds what a node made as streams.
    pub(super) fn compare(&mut self, index: usize, values: &[f32]) {
        self.squares.resize(self.squares.len().max(index + 1), [0.0; 2]);
        let (Some(float), sums) = (self.float.get(index), &mut self.squares[index]) else { return };
        for (&value, &exact) in values.iter().zip(float) {
            sums[0] += (f64::from(value) - f64::from(exact)).powi(2);
            sums[1] += f64::from(exact).powi(2);
        }
    }
}

/// The numbers of the first output of a node, where they are floats.
pub(super) fn first_floats(outputs: &[Tensor]) -> aleatron_graph::Result<Vec<f32>> {
    match outputs.first().filter(|first| first.dtype().is_float()) {
        Some(first) => Ok(first.cast(DType::F32)?.to_vec::<f32>()?),
        None => Ok(Vec::new()),
    }
}
