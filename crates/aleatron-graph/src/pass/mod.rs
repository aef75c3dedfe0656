//! Simplifying graphs without changing what they compute.

mod fold;

use std::collections::HashMap;

use crate::error::Result;
use crate::graph::{Graph, ValueId};
use crate::op::Op;

/// The numbers of simplified nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Simplified {
    /// Nodes whose outputs are constants now.
    pub constants: usize,
    /// Batch normalisations that became part of the product before them.
    pub folded: usize,
    /// Nodes that did nothing, or whose outputs are unused.
    pub removed: usize,
}

impl Graph {
    /// Computes nodes of constants, folds batch normalisations into the products before them, and
    /// removes nodes that do nothing.
    ///
    /// ```
    /// use aleatron_graph::{Graph, Op, Unary, Value};
    /// let mut graph = Graph::new("example");
    /// let x = graph.add_input(Value { name: "x".to_owned(), ..Value::default() });
    /// let same = graph.add_node("same", Op::Identity, &[x]);
    /// let y = graph.add_node("relu", Op::Unary(Unary::Relu), &[same]);
    /// graph.add_output(y);
    /// assert_eq!(graph.simplify()?.removed, 1);
    /// assert_eq!(graph.nodes().len(), 1);
    /// # Ok::<(), aleatron_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error if a node of constants fails, or memory is exhausted.
    pub fn simplify(&mut self) -> Result<Simplified> {
        self.check_values()?;
        let mut done = Simplified { removed: self.remove_identities(), ..Simplified::default() };
        done.constants = fold::constants(self)?;
        done.folded = fold::batch_normalizations(self)?;
        done.removed += self.remove_unused();
        Ok(done)
    }

    /// Removes nodes whose output is their input.
    fn remove_identities(&mut self) -> usize {
        let before = self.nodes.len();
        let mut same: HashMap<ValueId, ValueId> = HashMap::new();
        let outputs = self.outputs.clone();
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.retain_mut(|node| {
            for id in node.inputs.iter_mut().flatten() {
                *id = same.get(id).copied().unwrap_or(*id);
            }
            rename_captures(&mut node.op, &same);
            let passes = match node.op {
                Op::Identity => true,
                // A used mask, or a computed mode, stays.
                Op::Dropout { .. } => {
                    node.outputs.iter().skip(1).all(Option::is_none)
                        && node.inputs.get(2).is_none_or(Option::is_none)
                }
                _ => false,
            };
            if let (true, Some(Some(input)), Some(Some(output))) =
                (passes, node.inputs.first(), node.outputs.first())
                && !outputs.contains(output)
            {
                same.insert(*output, *input);
                return false;
            }
            true
        });
        self.nodes = nodes;
        before - self.nodes.len()
    }

    /// Removes nodes whose outputs are unused, and unused constants.
    pub(crate) fn remove_unused(&mut self) -> usize {
        let before = self.nodes.len();
        let mut used = vec![false; self.values.len()];
        for id in &self.outputs {
            used[id.index()] = true;
        }
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.reverse();
        nodes.retain(|node| {
            let is_used = node.outputs.iter().flatten().any(|id| used[id.index()]);
            if is_used {
                node.needs().for_each(|id| used[id.index()] = true);
            }
            is_used
        });
        nodes.reverse();
        self.nodes = nodes;
        self.constants.retain(|id, _| used[id.index()]);
        before - self.nodes.len()
    }
}

/// Lets graphs inside a node take other values from outside.
pub(crate) fn rename_captures(op: &mut Op, same: &HashMap<ValueId, ValueId>) {
    let graphs: Vec<&mut Graph> = match op {
        Op::If { then_branch, else_branch } => vec![then_branch, else_branch],
        Op::Loop { body } => vec![body],
        _ => Vec::new(),
    };
    for graph in graphs {
        for (outer, _) in &mut graph.captures {
            *outer = same.get(outer).copied().unwrap_or(*outer);
        }
    }
}
