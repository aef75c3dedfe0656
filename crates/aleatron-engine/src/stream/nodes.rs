//! The errors of nodes against floating point.

use super::StreamNetwork;
use super::run::{Chunk, samples_first};
use super::trace::StreamOutput;
use crate::Result;
use crate::compile::{Compiled, ProgramSegment};
use crate::network::{floats, from_graph, input};
use aleatron_core::Error as CoreError;
use aleatron_core::program::{ProgramOutput, SlotData, SlotId};
use aleatron_graph::{Error as GraphError, Node, Observer};
use aleatron_tensor::Tensor;
use std::collections::HashMap;

/// The first output of nodes, by sample.
pub(super) type NodeValues = HashMap<usize, Vec<f64>>;

/// Adds the outputs of the nodes of a program, in the order of their shape.
pub(super) fn view(
    compiled: &Compiled,
    index: usize,
    segment: &ProgramSegment,
    slots: &[SlotId],
    made: &ProgramOutput,
    nodes: &mut NodeValues,
) -> Result<()> {
    let missing = || CoreError::Internal { place: "engine::stream::view" };
    // By the index of a slot: its elements, and their number per sample.
    let mut data: Vec<Option<(&SlotData, usize)>> = vec![None; segment.program.slots().len()];
    for (slot, found) in slots.iter().zip(&made.slots) {
        data[slot.index()] = Some((found, segment.program.slot(*slot).len));
    }
    for view in compiled.views.iter().filter(|view| view.segment == index) {
        let Some((first, len)) = view.elements.first().and_then(|(slot, _)| data[*slot]) else {
            return Err(missing().into());
        };
        let n_runs = first.len() / len;
        let mut values = Vec::with_capacity(view.elements.len() * n_runs);
        for run in 0..n_runs {
            for (k, &(slot, element)) in view.elements.iter().enumerate() {
                let (found, len) = data[slot].ok_or_else(missing)?;
                let at = run * len + element as usize;
                let unit = || view.units.as_ref().and_then(|units| units.get(k)).copied();
                values.push(match found {
                    SlotData::Float(elements) => elements[at],
                    SlotData::Integer(elements) => {
                        elements[at] as f64 * unit().ok_or_else(missing)?
                    }
                    SlotData::Words(_) => return Err(missing().into()),
                });
            }
        }
        nodes.insert(view.node, values);
    }
    Ok(())
}

impl StreamNetwork {
    /// Returns the first output of a node by sample.
    pub(super) fn by_sample(
        &self,
        compiled: &Compiled,
        node: usize,
        tensor: &Tensor,
    ) -> Result<Vec<f64>> {
        let id = self
            .network
            .graph()
            .nodes()
            .get(node)
            .and_then(|node| node.outputs.first().copied().flatten());
        let elements = if tensor.dtype().is_float() { floats(tensor)? } else { Vec::new() };
        match id.filter(|&id| compiled.analysis.depends_on_features(id) && !elements.is_empty()) {
            Some(id) => Ok(samples_first(elements, compiled.blocks(id)?)),
            None => Ok(elements),
        }
    }

    /// Compares the outputs of nodes with those of floating point.
    pub(super) fn compare_nodes(
        &self,
        compiled: &Compiled,
        chunk: &Chunk<'_>,
        nodes: &NodeValues,
        output: &mut StreamOutput,
    ) -> Result<()> {
        let mut exact = Exact { streams: self, compiled, nodes, output };
        let inputs = input::tensors(self.network.inputs(), chunk.features, chunk.n_samples)?;
        self.runner.run_with(inputs, &mut exact).map_err(from_graph)?;
        Ok(())
    }
}

/// Compares every node of a run in floating point.
struct Exact<'a> {
    streams: &'a StreamNetwork,
    compiled: &'a Compiled,
    nodes: &'a NodeValues,
    output: &'a mut StreamOutput,
}

impl Observer for Exact<'_> {
    fn made(
        &mut self,
        index: usize,
        _: &Node,
        outputs: &mut [Tensor],
    ) -> aleatron_graph::Result<()> {
        let (Some(values), Some(first)) = (self.nodes.get(&index), outputs.first()) else {
            return Ok(());
        };
        let exact = self.streams.by_sample(self.compiled, index, first);
        let exact = exact.map_err(|error| GraphError::Other(Box::new(error)))?;
        if exact.len() != values.len() {
            return Err(CoreError::Internal { place: "engine::stream::Exact::made" }.into());
        }
        self.output.nodes.add(index, values, &exact);
        Ok(())
    }
}
