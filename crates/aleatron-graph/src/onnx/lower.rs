//! Operators of ONNX that are read as several nodes.

use aleatron_tensor::{DType, Device, Element, Tensor};

use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::op::Op;

/// A node of a file that becomes nodes of a graph.
pub(super) struct Lowering<'a> {
    pub(super) graph: &'a mut Graph,
    /// The name of the node.
    pub(super) name: String,
    pub(super) inputs: Vec<Option<ValueId>>,
    pub(super) outputs: Vec<Option<ValueId>>,
}

impl Lowering<'_> {
    /// Returns a required input.
    pub(super) fn input(&self, k: usize) -> Result<ValueId> {
        self.inputs.get(k).copied().flatten().ok_or_else(|| Error::input(k, "it is missing"))
    }

    /// Returns an input as 32-bit floats.
    pub(super) fn floats(&mut self, k: usize) -> Result<ValueId> {
        let id = self.input(k)?;
        match self.graph.value(id)?.dtype {
            Some(DType::F32) => Ok(id),
            _ => Ok(self.node("floats", Op::Cast(DType::F32), &[id])),
        }
    }

    /// Adds a constant.
    pub(super) fn constant<T: Element>(
        &mut self,
        what: &str,
        values: &[T],
        shape: &[usize],
    ) -> Result<ValueId> {
        let tensor = Tensor::from_slice(values, shape, &Device::Cpu)?;
        Ok(self.graph.add_constant(self.named(what), tensor))
    }

    /// Adds a node and returns its output.
    pub(super) fn node(&mut self, what: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        let name = self.named(what);
        self.graph.add_node(name, op, inputs)
    }

    /// Adds the node that computes an output, if that is used.
    pub(super) fn finish(&mut self, output: usize, op: Op, inputs: &[ValueId]) {
        let Some(id) = self.outputs.get(output).copied().flatten() else { return };
        let inputs = inputs.iter().map(|&id| Some(id)).collect();
        let name = if output == 0 { self.name.clone() } else { self.named(&output.to_string()) };
        self.graph.nodes.push(Node { name, op, inputs, outputs: vec![Some(id)] });
    }

    fn named(&self, what: &str) -> String {
        let separator = if self.name.is_empty() { "" } else { "_" };
        format!("{}{separator}{what}", self.name)
    }
}
