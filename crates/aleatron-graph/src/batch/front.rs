//! Nodes in front of those of a graph: constants for each sample, and sizes that hold the number of
//! samples.

use aleatron_tensor::{Device, Tensor};

use super::Layout;
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::narrow::Narrow;
use crate::op::Op;

/// Adds nodes in front of those of a graph.
pub(crate) struct Front {
    pub(crate) graph: Graph,
    nodes: Vec<Node>,
    /// The number of samples.
    samples: Option<ValueId>,
}

impl Front {
    pub(crate) fn new(graph: Graph) -> Self {
        Self { graph, nodes: Vec::new(), samples: None }
    }

    /// Returns the graph with the nodes in front of all others, which keep their order.
    pub(crate) fn finish(self) -> Graph {
        let Self { mut graph, mut nodes, .. } = self;
        nodes.append(&mut graph.nodes);
        graph.nodes = nodes;
        graph.remove_unused();
        graph
    }

    /// Replaces a value by another one in the inputs of all nodes.
    pub(crate) fn replace(&mut self, from: ValueId, to: ValueId) {
        let graph = &mut self.graph;
        let swap = |id: &mut ValueId| {
            if *id == from {
                *id = to;
            }
        };
        for node in &mut graph.nodes {
            node.inputs.iter_mut().flatten().for_each(swap);
            crate::pass::rename_captures(
                &mut node.op,
                &std::collections::HashMap::from([(from, to)]),
            );
        }
        graph.outputs.iter_mut().for_each(swap);
    }

    /// Returns a name that neither a node nor a value has.
    pub(crate) fn unused(&self, like: &str) -> String {
        let is_used = |name: &str| {
            self.graph.nodes.iter().chain(&self.nodes).any(|node| node.name == name)
                || self.graph.values.iter().any(|value| value.name == name)
        };
        let numbered = (2..).map(|n| format!("{like}_{n}"));
        let mut names = std::iter::once(like.to_owned()).chain(numbered);
        names.find(|name| !is_used(name)).unwrap_or_else(|| like.to_owned())
    }

    pub(crate) fn constant(&mut self, tensor: Tensor) -> ValueId {
        let name = self.unused("samples_constant");
        self.graph.add_constant(name, tensor)
    }

    pub(crate) fn node(&mut self, like: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        let name = self.unused(like);
        let output = self.graph.add_node(name, op, inputs);
        self.nodes.extend(self.graph.nodes.pop());
        output
    }

    /// Returns sizes, of which `None` is the number of samples.
    pub(crate) fn sizes(&mut self, sizes: &[Option<i64>]) -> Result<ValueId> {
        let samples = match (self.samples, self.graph.inputs.first()) {
            (Some(samples), _) => samples,
            (None, Some(&input)) => {
                let made =
                    self.node("samples_count", Op::Shape { start: 0, end: Some(1) }, &[input]);
                *self.samples.insert(made)
            }
            (None, None) => return Err(Error::MissingInput { name: String::new() }),
        };
        let mut parts = Vec::new();
        for part in sizes.chunk_by(|a, b| a.is_some() && b.is_some()) {
            let known: Option<Vec<i64>> = part.iter().copied().collect();
            parts.push(match known {
                Some(known) => {
                    let tensor = Tensor::from_slice(&known, &[known.len()], &Device::Cpu)?;
                    self.constant(tensor)
                }
                None => samples,
            });
        }
        Ok(self.node("samples_sizes", Op::Concat { axis: 0 }, &parts))
    }

    /// Returns a constant of one sample for each sample, of a type that tensors hold in a wider one
    /// if `narrow` is one.
    pub(crate) fn repeated(
        &mut self,
        tensor: &Tensor,
        layout: Layout,
        narrow: Option<Narrow>,
    ) -> Result<ValueId> {
        let [before, after] = layout.blocks(tensor.shape());
        let blocks = self.constant(tensor.reshape(&[before, 1, after])?.contiguous()?);
        let sizes = self.sizes(&[Some(before as i64), None, Some(after as i64)])?;
        let expanded = self.node("samples_expand", Op::Expand, &[blocks, sizes]);
        let mut shape: Vec<i64> = tensor.shape().iter().map(|&size| size as i64).collect();
        shape[layout.axis] = -1;
        let shape = self.constant(Tensor::from_slice(&shape, &[shape.len()], &Device::Cpu)?);
        let made = self.node(
            "samples_reshape",
            Op::Reshape { shape: None, allow_zero: false },
            &[expanded, shape],
        );
        if let Some(narrow) = narrow {
            self.graph.narrow.extend([blocks, expanded, made].map(|id| (id, narrow)));
        }
        Ok(made)
    }
}
