//! Graphs: typed nodes in an order in which they can run, and the values between them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use aleatron_tensor::{DType, Tensor};

use crate::error::{Error, Result};
use crate::narrow::Narrow;
use crate::op::Op;

/// A value of a graph: an input, a constant, or an output of a node. The id is valid in its graph
/// only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(usize);

impl ValueId {
    /// Creates the id of the value at an index.
    pub(crate) const fn new(index: usize) -> Self {
        Self(index)
    }

    /// Returns the index of the value.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// The size of an axis, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dim {
    /// A number.
    Fixed(usize),
    /// Any number, equal for all sizes of this name.
    Named(String),
    /// Any number.
    Unknown,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => size.fmt(f),
            Self::Named(name) => name.fmt(f),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// The name, and the type and shape as far as they are known, of a value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Value {
    /// The name.
    pub name: String,
    /// The type of its elements.
    pub dtype: Option<DType>,
    /// The shape.
    pub shape: Option<Vec<Dim>>,
}

/// A node: an operation with its inputs and outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The name, which is unique in the graph.
    pub name: String,
    /// The operation.
    pub op: Op,
    /// The inputs; `None` for a missing optional input.
    pub inputs: Vec<Option<ValueId>>,
    /// The outputs; `None` for an unused output.
    pub outputs: Vec<Option<ValueId>>,
}

/// A graph.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    pub(crate) name: String,
    pub(crate) values: Vec<Value>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) outputs: Vec<ValueId>,
    pub(crate) constants: BTreeMap<ValueId, Tensor>,
    /// The captured values of an inner graph, each with its value in the outer graph.
    pub(crate) captures: Vec<(ValueId, ValueId)>,
    /// The values of integer types that tensors hold in a wider type.
    pub(crate) narrow: BTreeMap<ValueId, Narrow>,
    /// Metadata, which do not affect the computation.
    pub(crate) metadata: BTreeMap<String, String>,
}

impl PartialEq for Graph {
    fn eq(&self, other: &Self) -> bool {
        let constants = || {
            let both = self.constants.iter().zip(&other.constants);
            both.into_iter().all(|((a, x), (b, y))| {
                a == b && crate::op::ConstantValue(x.clone()) == crate::op::ConstantValue(y.clone())
            })
        };
        self.name == other.name
            && self.values == other.values
            && self.nodes == other.nodes
            && self.inputs == other.inputs
            && self.outputs == other.outputs
            && self.captures == other.captures
            && self.narrow == other.narrow
            && self.metadata == other.metadata
            && self.constants.len() == other.constants.len()
            && constants()
    }
}

impl Graph {
    /// Creates a graph without nodes.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the name.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Returns the metadata with a name. Files store metadata.
    #[must_use]
    pub fn metadata(&self, name: &str) -> Option<&str> {
        self.metadata.get(name).map(String::as_str)
    }

    /// Sets the metadata with a name.
    #[must_use]
    pub fn with_metadata(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.metadata.insert(name.into(), text.into());
        self
    }

    /// Returns the nodes in an order in which they can run.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the inputs.
    #[must_use]
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// Returns the outputs.
    #[must_use]
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// Returns the number of values.
    #[must_use]
    pub fn n_values(&self) -> usize {
        self.values.len()
    }

    /// The name, and the type and shape as far as they are known, of a value.
    ///
    /// # Errors
    /// [`Error::MissingValue`] for a value of another graph.
    pub fn value(&self, id: ValueId) -> Result<&Value> {
        self.values
            .get(id.0)
            .ok_or_else(|| Error::MissingValue { name: format!("number {}", id.0) })
    }

    /// Returns the tensor of a constant; `None` for other values.
    #[must_use]
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        self.constants.get(&id)
    }

    /// Returns the integer type of a value that tensors hold in a wider type; `None` for all other
    /// types.
    #[must_use]
    pub fn narrow(&self, id: ValueId) -> Option<Narrow> {
        self.narrow.get(&id).copied()
    }

    /// Returns the constants with their ids.
    pub fn constants(&self) -> impl Iterator<Item = (ValueId, &Tensor)> {
        self.constants.iter().map(|(id, tensor)| (*id, tensor))
    }

    /// Returns the number of elements of all constants.
    #[must_use]
    pub fn n_parameters(&self) -> usize {
        self.constants.values().map(Tensor::len).sum()
    }

    /// Adds a value.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() - 1)
    }

    /// Adds an input.
    pub fn add_input(&mut self, value: Value) -> ValueId {
        let id = self.add_value(value);
        self.inputs.push(id);
        id
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, name: impl Into<String>, tensor: Tensor) -> ValueId {
        let shape = tensor.shape().iter().map(|&size| Dim::Fixed(size)).collect();
        let id = self.add_value(Value {
            name: name.into(),
            dtype: Some(tensor.dtype()),
            shape: Some(shape),
        });
        self.constants.insert(id, tensor);
        id
    }

    /// Checks that a tensor can replace a constant.
    pub(crate) fn check_replacement(&self, id: ValueId, tensor: &Tensor) -> Result<()> {
        let place = || format!("value \"{}\"", self.value(id).map_or("?", |value| &value.name));
        let Some(known) = self.constant(id) else {
            return Err(Error::model(place(), "only constants can be replaced"));
        };
        if known.shape() != tensor.shape() || known.dtype() != tensor.dtype() {
            let reason = format!(
                "a replacement must be {} {:?}, not {} {:?}",
                known.dtype(),
                known.shape(),
                tensor.dtype(),
                tensor.shape()
            );
            return Err(Error::model(place(), reason));
        }
        Ok(())
    }

    /// Replaces the elements of a constant.
    ///
    /// # Errors
    /// [`Error::Model`] for a value that is not a constant, and for another shape or type.
    pub fn replace_constant(&mut self, id: ValueId, tensor: Tensor) -> Result<()> {
        self.check_replacement(id, &tensor)?;
        self.constants.insert(id, tensor);
        Ok(())
    }

    /// Adds a node with one output and returns that value.
    pub fn add_node(&mut self, name: impl Into<String>, op: Op, inputs: &[ValueId]) -> ValueId {
        let name = name.into();
        let output = self.add_value(Value { name: format!("{name}_output"), ..Value::default() });
        let inputs = inputs.iter().map(|&id| Some(id)).collect();
        self.nodes.push(Node { name, op, inputs, outputs: vec![Some(output)] });
        output
    }

    /// Adds a node that computes `n` values, and returns them.
    pub fn add_node_with_outputs(
        &mut self,
        name: impl Into<String>,
        op: Op,
        inputs: &[ValueId],
        n: usize,
    ) -> Vec<ValueId> {
        let name = name.into();
        let output = |k: usize| Value { name: format!("{name}_output{k}"), ..Value::default() };
        let outputs: Vec<ValueId> = (0..n).map(|k| self.add_value(output(k))).collect();
        let inputs = inputs.iter().map(|&id| Some(id)).collect();
        self.nodes.push(Node {
            name,
            op,
            inputs,
            outputs: outputs.iter().map(|&id| Some(id)).collect(),
        });
        outputs
    }

    /// Adds a value to the outputs.
    pub fn add_output(&mut self, id: ValueId) {
        self.outputs.push(id);
    }

    /// Sorts the nodes so that each follows the nodes that compute its inputs, and checks that
    /// every value is computed once.
    ///
    /// # Errors
    /// [`Error::RepeatedValue`], [`Error::MissingValue`], [`Error::Cycle`].
    pub fn sort(&mut self) -> Result<()> {
        let name =
            |id: ValueId| self.values.get(id.0).map_or(String::new(), |value| value.name.clone());
        let mut is_made = vec![false; self.values.len()];
        let captured = self.captures.iter().map(|(_, inner)| inner);
        for id in self.inputs.iter().chain(self.constants.keys()).chain(captured) {
            match is_made.get_mut(id.0) {
                Some(made) if !*made => *made = true,
                _ => return Err(Error::RepeatedValue { name: name(*id) }),
            }
        }
        let mut makers: HashMap<ValueId, usize> = HashMap::new();
        for (k, node) in self.nodes.iter().enumerate() {
            for id in node.outputs.iter().flatten() {
                if is_made.get(id.0).copied().unwrap_or(true) || makers.insert(*id, k).is_some() {
                    return Err(Error::RepeatedValue { name: name(*id) });
                }
            }
        }
        // The number of missing inputs of each node, and the nodes that depend on each node.
        let mut missing = vec![0_usize; self.nodes.len()];
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (k, node) in self.nodes.iter().enumerate() {
            for id in node.needs() {
                if is_made.get(id.0).copied().unwrap_or(false) {
                    continue;
                }
                let Some(&maker) = makers.get(&id) else {
                    return Err(Error::MissingValue { name: name(id) });
                };
                missing[k] += 1;
                waiting[maker].push(k);
            }
        }
        for id in &self.outputs {
            if !is_made.get(id.0).copied().unwrap_or(false) && !makers.contains_key(id) {
                return Err(Error::MissingValue { name: name(*id) });
            }
        }
        // The first node that can run comes next, so that a list in order stays as it is.
        let mut ready: std::collections::BTreeSet<usize> =
            (0..self.nodes.len()).filter(|&k| missing[k] == 0).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(k) = ready.pop_first() {
            order.push(k);
            for &next in &waiting[k] {
                missing[next] -= 1;
                if missing[next] == 0 {
                    ready.insert(next);
                }
            }
        }
        if order.len() < self.nodes.len() {
            let Some(stuck) = missing.iter().position(|&n| n > 0) else {
                return Err(Error::model(
                    "graph",
                    "internal error: a node without missing inputs was not sorted",
                ));
            };
            let nodes = self.nodes.len() - order.len();
            return Err(Error::Cycle { nodes, name: self.nodes[stuck].name.clone() });
        }
        let mut nodes: Vec<Option<Node>> =
            std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
        self.nodes = order.into_iter().filter_map(|k| nodes[k].take()).collect();
        Ok(())
    }

    /// Checks that every value is one of this graph.
    pub(crate) fn check_values(&self) -> Result<()> {
        let of_nodes = self
            .nodes
            .iter()
            .flat_map(|node| node.needs().chain(node.outputs.iter().flatten().copied()));
        let all = of_nodes.chain(self.inputs.iter().copied()).chain(self.outputs.iter().copied());
        match all.into_iter().find(|id| id.0 >= self.values.len()) {
            Some(id) => Err(Error::MissingValue { name: format!("number {}", id.0) }),
            None => Ok(()),
        }
    }

    /// Gives every node a unique name: nodes without one get the name of their operator and their
    /// index.
    pub(crate) fn name_nodes(&mut self) {
        let mut seen = std::collections::HashSet::new();
        for (k, node) in self.nodes.iter_mut().enumerate() {
            if node.name.is_empty() {
                node.name = format!("{}_{k}", node.op.name());
            }
            let base = node.name.clone();
            let mut n = 1;
            while !seen.insert(node.name.clone()) {
                n += 1;
                node.name = format!("{base}_{k}_{n}");
            }
        }
    }
}

impl Node {
    /// Returns all values that the node needs: its inputs, and the outer values of graphs inside
    /// it.
    pub fn needs(&self) -> impl Iterator<Item = ValueId> {
        let graphs: &[&Graph] = match &self.op {
            Op::If { then_branch, else_branch } => &[then_branch, else_branch],
            Op::Loop { body } => &[body],
            _ => &[],
        };
        let captured: Vec<ValueId> = graphs
            .iter()
            .flat_map(|graph| graph.captures.iter().map(|(outer, _)| *outer))
            .collect();
        self.inputs.iter().flatten().copied().chain(captured)
    }
}
