//! What there is in a graph: nodes, shapes, parameters, and which nodes can run as streams.

use aleatron_tensor::{Device, Tensor};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::graph::{Dim, Graph, Node, ValueId};
use crate::product::Product;
use crate::run::{Observer, Runner};

/// A graph, looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// The name of the graph.
    pub name: String,
    /// What it is given.
    pub inputs: Vec<ValueSummary>,
    /// What it gives.
    pub outputs: Vec<ValueSummary>,
    /// The nodes in the order in which they run.
    pub nodes: Vec<NodeSummary>,
    /// The elements of all constants.
    pub parameters: usize,
    /// The bytes of all constants.
    pub parameter_bytes: usize,
    /// The most bytes that one node makes, for the shapes shown.
    pub largest_value_bytes: usize,
    /// Products of one run that can be streams.
    pub stream_products: u64,
    /// The length of streams that bits are counted for.
    pub length: usize,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ValueSummary {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: String,
    /// Its shape; axes without a number are 1.
    pub shape: Vec<usize>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeSummary {
    /// Its name.
    pub name: String,
    /// Its operator.
    pub operator: &'static str,
    /// The shape of its first output.
    pub shape: Vec<usize>,
    /// The elements of its constants.
    pub parameters: usize,
    /// What it is as streams; `None` for a node that runs in binary.
    pub stream: Option<StreamSummary>,
}

/// A node as streams.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamSummary {
    /// Products that make one output.
    pub fan_in: usize,
    /// Products of one run.
    pub products: u64,
    /// Products of bits of one run.
    pub bit_macs: u64,
    /// Bytes of the weights as streams.
    pub stream_bytes: u64,
}

/// Records the shapes of a run.
#[derive(Default)]
struct Shapes {
    /// The shape of the first output of each node.
    made: Vec<Vec<usize>>,
    /// The most bytes that one node has made.
    peak: usize,
}

impl Observer for Shapes {
    fn made(&mut self, _: usize, _: &Node, outputs: &[Tensor]) -> Result<()> {
        self.peak = self.peak.max(outputs.iter().map(|tensor| tensor.len() * tensor.dtype().size()).sum());
        self.made.push(outputs.first().map_or_else(Vec::new, |tensor| tensor.shape().to_vec()));
        Ok(())
    }
}

/// Zeros for an input: axes without a number get `size`.
///
/// # Errors
/// Where there is no room for them.
pub fn zeros_for(graph: &Graph, id: ValueId, size: usize) -> Result<Tensor> {
    let value = graph.value(id)?;
    let shape = value.shape.as_deref().unwrap_or_default().iter();
    let shape: Vec<usize> = shape.map(|dim| if let Dim::Fixed(n) = dim { *n } else { size }).collect();
    let dtype = value.dtype.unwrap_or(aleatron_tensor::DType::F32);
    let len = shape.iter().try_fold(dtype.size() as u128, |all, &n| all.checked_mul(n as u128));
    let bytes = len.ok_or_else(|| Error::model(&value.name, format!("shape {shape:?} is too large")))?;
    aleatron_core::memory::check(bytes, aleatron_core::Quantity::Value)?;
    Ok(Tensor::zeros(&shape, dtype, &Device::Cpu)?)
}

/// Looks at a graph: runs it once with zeros to find the shapes. Axes without a number are 1; `length` is that of streams.
///
/// # Errors
/// Where the graph cannot run.
pub fn inspect(graph: &Graph, length: usize) -> Result<Inspection> {
    let runner = Runner::new(graph.clone(), &Device::Cpu)?;
    let inputs = graph.inputs().iter().map(|&id| zeros_for(graph, id, 1)).collect::<Result<Vec<_>>>()?;
    let mut shapes = Shapes::default();
    let outputs = runner.run_with(inputs.clone(), &mut shapes)?;
    let summary = |id: ValueId, tensor: &Tensor| -> Result<ValueSummary> {
        let (dtype, shape) = (tensor.dtype().to_string(), tensor.shape().to_vec());
        Ok(ValueSummary { name: graph.value(id)?.name.clone(), dtype, shape })
    };
    let values = |ids: &[ValueId], tensors: &[Tensor]| -> Result<Vec<ValueSummary>> {
        ids.iter().zip(tensors).map(|(&id, tensor)| summary(id, tensor)).collect()
    };
    let mut nodes = Vec::with_capacity(graph.nodes().len());
    for (node, made) in graph.nodes().iter().zip(&shapes.made) {
        let constants = node.inputs.iter().flatten().filter_map(|&id| graph.constant(id));
        let stream = Product::of(graph, node)?.map(|product| {
            let outputs = made.iter().product::<usize>() as u64;
            let products = outputs.saturating_mul(product.fan_in() as u64);
            StreamSummary {
                fan_in: product.fan_in(),
                products,
                bit_macs: products.saturating_mul(length as u64),
                stream_bytes: (product.weights.len() as u64).saturating_mul(length.div_ceil(64) as u64 * 8),
            }
        });
        nodes.push(NodeSummary {
            name: node.name.clone(),
            operator: node.op.name(),
            shape: made.clone(),
            parameters: constants.map(Tensor::len).sum(),
            stream,
        });
    }
    Ok(Inspection {
        name: graph.name().to_owned(),
        inputs: values(graph.inputs(), &inputs)?,
        outputs: values(graph.outputs(), &outputs)?,
        parameters: graph.n_parameters(),
        parameter_bytes: graph.constants().map(|(_, tensor)| tensor.len() * tensor.dtype().size()).sum(),
        largest_value_bytes: shapes.peak,
        stream_products: nodes
            .iter()
            .filter_map(|node| node.stream.as_ref())
            .map(|stream| stream.products)
            .sum(),
        nodes,
        length,
    })
}
