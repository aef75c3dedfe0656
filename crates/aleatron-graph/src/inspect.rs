//! Inspection of graphs: nodes, shapes, parameters, and nodes that can run as streams.

use std::fmt;

use aleatron_tensor::{Device, Tensor};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::graph::{Dim, Graph, Node, ValueId};
use crate::product::Product;
use crate::run::{Observer, Runner};

/// A summary of a graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// The name of the graph.
    pub name: String,
    /// The inputs.
    pub inputs: Vec<ValueSummary>,
    /// The outputs.
    pub outputs: Vec<ValueSummary>,
    /// The nodes in the order in which they run.
    pub nodes: Vec<NodeSummary>,
    /// The number of elements of all constants.
    pub parameters: usize,
    /// The size of all constants in bytes.
    pub parameter_bytes: usize,
    /// The largest output of a node in bytes, for the shapes shown.
    pub largest_value_bytes: usize,
    /// The number of products of one run that can run as streams.
    pub stream_products: u64,
    /// The stream length for which bits are counted.
    pub length: usize,
}

/// A summary of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ValueSummary {
    /// The name.
    pub name: String,
    /// The type of its elements.
    pub dtype: String,
    /// The shape; axes of unknown size are 1.
    pub shape: Vec<usize>,
}

/// A summary of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeSummary {
    /// The name.
    pub name: String,
    /// The operator.
    pub operator: &'static str,
    /// The shape of its first output.
    pub shape: Vec<usize>,
    /// The number of elements of its constants.
    pub parameters: usize,
    /// The summary as streams; `None` for a node that runs in binary.
    pub stream: Option<StreamSummary>,
}

/// A summary of a node as streams.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamSummary {
    /// The number of products per output.
    pub fan_in: usize,
    /// The number of products per run.
    pub products: u64,
    /// The number of bit products per run.
    pub bit_macs: u64,
    /// The size of the weights as streams in bytes.
    pub stream_bytes: u64,
}

impl fmt::Display for Inspection {
    /// Writes the graph as a table of its nodes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape =
            |shape: &[usize]| shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
        let mut rows = vec![
            [
                "node",
                "operator",
                "output",
                "parameters",
                "runs as",
                "fan-in",
                "products",
                "bit-MACs",
            ]
            .map(str::to_owned),
        ];
        for node in &self.nodes {
            let (fan_in, products, bits) = match &node.stream {
                Some(stream) => (
                    stream.fan_in.to_string(),
                    stream.products.to_string(),
                    stream.bit_macs.to_string(),
                ),
                None => Default::default(),
            };
            rows.push([
                node.name.clone(),
                node.operator.to_owned(),
                shape(&node.shape),
                if node.parameters == 0 { String::new() } else { node.parameters.to_string() },
                if node.stream.is_some() { "streams" } else { "binary" }.to_owned(),
                fan_in,
                products,
                bits,
            ]);
        }
        let widths: Vec<usize> = (0..8)
            .map(|k| rows.iter().map(|row| row[k].chars().count()).max().unwrap_or(0))
            .collect();
        writeln!(f, "Graph {}", self.name)?;
        for (what, values) in [("input", &self.inputs), ("output", &self.outputs)] {
            for value in values {
                writeln!(f, "  {what} {}: {} {}", value.name, value.dtype, shape(&value.shape))?;
            }
        }
        writeln!(f)?;
        for row in &rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(k, (cell, &width))| {
                // Names are aligned left, numbers right.
                if k < 3 || k == 4 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        let streams = self.nodes.iter().filter_map(|node| node.stream.as_ref());
        let (count, bytes, products) =
            streams.fold((0, 0_u64, 0_u64), |(n, bytes, products), stream| {
                (
                    n + 1,
                    bytes.saturating_add(stream.stream_bytes),
                    products.saturating_add(stream.products),
                )
            });
        writeln!(
            f,
            "\n{} nodes, {count} of them can run as streams; {} parameters ({} bytes)",
            self.nodes.len(),
            self.parameters,
            self.parameter_bytes,
        )?;
        write!(
            f,
            "{products} products a sample, {} bit-MACs at {} bits; {bytes} bytes of weight streams; the largest value has {} bytes",
            products.saturating_mul(self.length as u64),
            self.length,
            self.largest_value_bytes,
        )
    }
}

/// Records the shapes of a run.
#[derive(Default)]
struct Shapes {
    /// The shape of the first output of each node.
    made: Vec<Vec<usize>>,
    /// The largest output of a node in bytes.
    peak: usize,
}

impl Observer for Shapes {
    fn made(&mut self, _: usize, _: &Node, outputs: &mut [Tensor]) -> Result<()> {
        self.peak =
            self.peak.max(outputs.iter().map(|tensor| tensor.len() * tensor.dtype().size()).sum());
        self.made.push(outputs.first().map_or_else(Vec::new, |tensor| tensor.shape().to_vec()));
        Ok(())
    }
}

/// Creates zeros for an input; axes of unknown size get `size`.
///
/// # Errors
/// An error if memory is exhausted.
pub fn zeros_for(graph: &Graph, id: ValueId, size: usize) -> Result<Tensor> {
    let value = graph.value(id)?;
    let shape = value.shape.as_deref().unwrap_or_default().iter();
    let shape: Vec<usize> =
        shape.map(|dim| if let Dim::Fixed(n) = dim { *n } else { size }).collect();
    let dtype = value.dtype.unwrap_or(aleatron_tensor::DType::F32);
    let len = shape.iter().try_fold(dtype.size() as u128, |all, &n| all.checked_mul(n as u128));
    let bytes =
        len.ok_or_else(|| Error::model(&value.name, format!("shape {shape:?} is too large")))?;
    aleatron_core::memory::check(bytes, aleatron_core::Quantity::Value)?;
    Ok(Tensor::zeros(&shape, dtype, &Device::Cpu)?)
}

/// Inspects a graph: runs it once with zeros to find the shapes. Axes of unknown size are 1;
/// `length` is the stream length.
///
/// # Errors
/// An error if the graph cannot run.
pub fn inspect(graph: &Graph, length: usize) -> Result<Inspection> {
    let runner = Runner::new(graph.clone(), &Device::Cpu)?;
    let inputs =
        graph.inputs().iter().map(|&id| zeros_for(graph, id, 1)).collect::<Result<Vec<_>>>()?;
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
                stream_bytes: (product.weights.len() as u64)
                    .saturating_mul(length.div_ceil(64) as u64 * 8),
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
        parameter_bytes: graph
            .constants()
            .map(|(_, tensor)| tensor.len() * tensor.dtype().size())
            .sum(),
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
