//! The form of each node: as streams, fused into the inter-layer arithmetic, or on tensors.

use super::refused_node;
use crate::error::RefusedNode;
use crate::network::{Arithmetic, Network};
use crate::{Error, Result};
use aleatron_graph::batch::BatchAnalysis;
use aleatron_graph::op::{Pooling, Reduction, Variadic};
use aleatron_graph::{Binary, Graph, Node, Op, Unary, ValueId};
use aleatron_tensor::DType;
use std::collections::BTreeMap;

/// The form in which a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Its outputs depend on no feature: it is computed at compile time.
    Constant,
    /// As streams, with the index of the layer.
    Stream(usize),
    /// It moves elements.
    Move,
    /// It adds the bias of a layer, which already includes it; with the index of the operand that
    /// is the layer's output.
    Bias(usize),
    /// It limits numbers to an interval.
    Clip,
    /// It reduces images to means or maxima.
    Pool,
    /// It multiplies or divides by a constant; with the index of the other operand.
    Scale(usize),
    /// It adds or subtracts a constant; with the index of the other operand.
    Offset(usize),
    /// It adds or subtracts two values.
    Sum,
    /// On tensors.
    Tensors,
}

impl Form {
    /// Returns whether a node of this form is a step of a program.
    pub(super) const fn is_fused(self) -> bool {
        !matches!(self, Self::Constant | Self::Tensors)
    }
}

/// The state of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It depends on no feature.
    Constant,
    /// Floats in the slots of a program.
    Float,
    /// Integers in the slots of a program.
    Integer,
    /// A tensor that depends on features.
    Tensor,
}

impl State {
    const fn is_number(self) -> bool {
        matches!(self, Self::Float | Self::Integer)
    }
}

/// The forms of the nodes of a graph, and the states of its values.
#[derive(Debug)]
pub(super) struct Forms {
    pub(super) nodes: Vec<Form>,
    pub(super) values: Vec<State>,
}

impl Forms {
    /// Determines the form of each node. `on_tensors` are nodes that cannot be steps of a program,
    /// with the reason.
    ///
    /// # Errors
    /// Returns [`Error::NoIntegerForm`] with all nodes between two layers that integer arithmetic
    /// does not support.
    pub(super) fn new(
        network: &Network,
        arithmetic: Arithmetic,
        analysis: &BatchAnalysis,
        on_tensors: &BTreeMap<usize, String>,
    ) -> Result<Self> {
        let graph = network.graph();
        let mut layers = vec![None; graph.nodes().len()];
        let mut biases = vec![None; graph.nodes().len()];
        for (index, layer) in network.stream_layers() {
            layers[layer.node] = Some(index);
            if let Some(node) = layer.bias_node {
                biases[node] = Some(graph.nodes()[layer.node].outputs.first().copied().flatten());
            }
        }
        let is_float =
            |id: ValueId| analysis.shape(id).is_some_and(|(_, dtype)| dtype == DType::F32);
        // A slot of a program has elements.
        let is_slot = |&id: &ValueId| {
            is_float(id) && analysis.shape(id).is_some_and(|(shape, _)| !shape.contains(&0))
        };
        let leads = leading(graph, &layers);
        let mut values = vec![State::Constant; graph.n_values()];
        for &id in graph.inputs() {
            values[id.index()] = if is_float(id) { State::Float } else { State::Tensor };
        }
        let mut nodes = Vec::with_capacity(layers.len());
        let mut refused: Vec<RefusedNode> = Vec::new();
        for (k, ((node, layer), bias)) in graph.nodes().iter().zip(layers).zip(biases).enumerate() {
            let has = |state: State| node.needs().any(|id| values[id.index()] == state);
            let depends = node.needs().any(|id| values[id.index()] != State::Constant);
            let of_streams = match arithmetic {
                Arithmetic::Float => State::Float,
                Arithmetic::Integer => State::Integer,
            };
            let (form, state) = if is_shape(&node.op) || !depends {
                (Form::Constant, State::Constant)
            } else if let Some(layer) = layer {
                (Form::Stream(layer), of_streams)
            } else if let Some(output) = bias {
                let operand = node.inputs.iter().position(|input| *input == output);
                let internal =
                    aleatron_core::Error::Internal { place: "engine::compile::Forms::new" };
                let operand = operand.ok_or(internal)?;
                (Form::Bias(operand), of_streams)
            } else if let Some(form) = number_form(node, &values).filter(|_| {
                node.outputs.iter().flatten().all(is_slot) && !on_tensors.contains_key(&k)
            }) {
                (form, if has(State::Integer) { State::Integer } else { State::Float })
            } else {
                let is_needed = node.outputs.iter().flatten().any(|id| leads[id.index()]);
                if has(State::Integer) && is_needed {
                    let known = on_tensors.get(&k).map(String::as_str);
                    refused.push(refused_node(node, known.unwrap_or_else(|| reason(&node.op))));
                }
                (Form::Tensors, State::Tensor)
            };
            for id in node.outputs.iter().flatten() {
                values[id.index()] = state;
            }
            nodes.push(form);
        }
        if !refused.is_empty() {
            return Err(Error::NoIntegerForm { nodes: refused });
        }
        let mut forms = Self { nodes, values };
        forms.leave_to_tensors(graph);
        Ok(forms)
    }

    /// Runs nodes on tensors if their steps neither come from a layer nor lead to one: a program
    /// would only copy their numbers.
    fn leave_to_tensors(&mut self, graph: &Graph) {
        let streamed = self.streamed(graph);
        // Values read by a step that depends on a layer, or leads to such a step.
        let mut joins = vec![false; graph.n_values()];
        for (k, node) in graph.nodes().iter().enumerate().rev() {
            if !self.nodes[k].is_fused() {
                continue;
            }
            let state = || node.outputs.iter().flatten();
            if state().any(|id| streamed[id.index()] || joins[id.index()]) {
                node.needs().for_each(|id| joins[id.index()] = true);
                continue;
            }
            self.nodes[k] = Form::Tensors;
            state().for_each(|id| self.values[id.index()] = State::Tensor);
        }
    }

    /// Returns the values that depend on a layer as streams.
    pub(super) fn streamed(&self, graph: &Graph) -> Vec<bool> {
        let mut streamed = vec![false; graph.n_values()];
        for (node, form) in graph.nodes().iter().zip(&self.nodes) {
            if matches!(form, Form::Stream(_)) || node.needs().any(|id| streamed[id.index()]) {
                node.outputs.iter().flatten().for_each(|id| streamed[id.index()] = true);
            }
        }
        streamed
    }

    /// Returns the nodes that an output of the graph depends on by more than their shapes.
    pub(super) fn needed(&self, graph: &Graph) -> Vec<bool> {
        let mut read = vec![false; graph.n_values()];
        graph.outputs().iter().for_each(|id| read[id.index()] = true);
        let mut needed = vec![false; graph.nodes().len()];
        for (k, node) in graph.nodes().iter().enumerate().rev() {
            needed[k] = node.outputs.iter().flatten().any(|id| read[id.index()]);
            if needed[k] && self.nodes[k] != Form::Constant {
                node.needs().for_each(|id| read[id.index()] = true);
            }
        }
        needed
    }
}

/// Returns whether a node reads only the shape of a value.
fn is_shape(op: &Op) -> bool {
    matches!(op, Op::Shape { .. } | Op::Size)
}

/// Returns the values that inputs of layers depend on.
fn leading(graph: &Graph, layers: &[Option<usize>]) -> Vec<bool> {
    let mut leads = vec![false; graph.n_values()];
    for (node, layer) in graph.nodes().iter().zip(layers).rev() {
        let goes_on = node.outputs.iter().flatten().any(|id| leads[id.index()]);
        if layer.is_some() || goes_on && !is_shape(&node.op) {
            node.needs().for_each(|id| leads[id.index()] = true);
        }
    }
    leads
}

fn reason(op: &Op) -> &'static str {
    match op {
        Op::MatMul | Op::Gemm { .. } | Op::Conv { .. } => "it runs in binary",
        Op::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div) | Op::Concat { .. } => {
            "one of its operands is neither computed from streams nor a constant"
        }
        _ => "",
    }
}

/// Returns the form of a node that has numbers among its inputs, if it can be part of a program.
/// All of its numbers are of one kind.
fn number_form(node: &Node, states: &[State]) -> Option<Form> {
    let input = |k: usize| node.inputs.get(k).copied().flatten();
    let state = |k: usize| input(k).map(|id| states[id.index()]);
    let numbers =
        node.inputs.iter().flatten().map(|id| states[id.index()]).filter(|s| s.is_number());
    let mut numbers = numbers.peekable();
    let kind = *numbers.peek()?;
    if numbers.any(|other| other != kind)
        || node.needs().any(|id| states[id.index()] == State::Tensor)
    {
        return None;
    }
    let is_number = |k: usize| state(k).is_some_and(State::is_number);
    let is_constant = |k: usize| state(k) == Some(State::Constant);
    // One value with constants, some of which may be missing.
    let with_constants =
        is_number(0) && (1..node.inputs.len()).all(|k| input(k).is_none() || is_constant(k));
    let one_output = node.outputs.iter().skip(1).all(Option::is_none);
    let operand = || match (is_number(0), is_number(1)) {
        (true, false) if is_constant(1) => Some(0),
        (false, true) if is_constant(0) => Some(1),
        _ => None,
    };
    match &node.op {
        Op::Unary(Unary::Relu) => Some(Form::Clip),
        Op::Clip { .. } if with_constants => Some(Form::Clip),
        Op::Dropout { training: false } if with_constants && one_output => Some(Form::Move),
        Op::Identity | Op::Flatten { .. } | Op::Transpose { .. } => Some(Form::Move),
        Op::DepthToSpace { .. } | Op::SpaceToDepth { .. } => Some(Form::Move),
        Op::Reshape { .. } | Op::Squeeze { .. } | Op::Unsqueeze { .. } | Op::Expand
            if with_constants =>
        {
            Some(Form::Move)
        }
        Op::Tile | Op::Slice { .. } | Op::Split { .. } | Op::Gather { .. } if with_constants => {
            Some(Form::Move)
        }
        Op::Concat { .. } if (0..node.inputs.len()).all(is_number) => Some(Form::Move),
        Op::Pool { pooling: Pooling::Max { .. } | Pooling::Average { .. }, window, .. } => {
            let is_plain =
                (1..=2).contains(&window.kernel.len()) && window.dilations.iter().all(|&d| d == 1);
            (is_plain && one_output).then_some(Form::Pool)
        }
        Op::GlobalPool(Pooling::Max { .. } | Pooling::Average { .. }) => Some(Form::Pool),
        Op::Reduce { reduction: Reduction::Mean | Reduction::Max, .. } if with_constants => {
            Some(Form::Pool)
        }
        Op::Binary(Binary::Add | Binary::Sub) | Op::Variadic(Variadic::Sum)
            if node.inputs.len() == 2 && is_number(0) && is_number(1) =>
        {
            Some(Form::Sum)
        }
        Op::Binary(Binary::Add | Binary::Sub) => operand().map(Form::Offset),
        Op::Binary(Binary::Mul) => operand().map(Form::Scale),
        Op::Binary(Binary::Div) => operand().filter(|&k| k == 0).map(Form::Scale),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aleatron_graph::op::{Dims, NoAxes, Padding, Rounding, Window};

    /// Two integers `i` and `j`, a float `f`, a tensor `d`, and a constant `c`.
    struct Values {
        ids: Vec<ValueId>,
        states: Vec<State>,
    }

    fn values() -> Values {
        let mut graph = Graph::new("values");
        let ids = (0..5).map(|_| graph.add_value(aleatron_graph::Value::default())).collect();
        let states =
            vec![State::Integer, State::Integer, State::Float, State::Tensor, State::Constant];
        Values { ids, states }
    }

    impl Values {
        /// Returns the form of an operator with these inputs, `_` for a missing one.
        fn form(&self, op: Op, inputs: &str, n_outputs: usize) -> Option<Form> {
            let input = |letter| "ijfdc".find(letter).map(|k| self.ids[k]);
            let node = Node {
                name: "node".to_owned(),
                op,
                inputs: inputs.chars().map(input).collect(),
                outputs: vec![Some(self.ids[2]); n_outputs],
            };
            number_form(&node, &self.states)
        }
    }

    fn pool(kernel: &[i64], dilations: &[i64]) -> Op {
        let window = Window {
            kernel: kernel.to_vec(),
            strides: Vec::new(),
            dilations: dilations.to_vec(),
            padding: Padding::Explicit(Vec::new()),
        };
        Op::Pool { pooling: Pooling::Max { column_major: false }, window, rounding: Rounding::Down }
    }

    #[test]
    fn form_depends_on_the_states_of_the_inputs() {
        let values = values();
        let add = || Op::Binary(Binary::Add);
        let clip = || Op::Clip { low: None, high: None };
        let mean = || Op::Reduce {
            reduction: Reduction::Mean,
            axes: None,
            reduced: Dims::Keep,
            no_axes: NoAxes::All,
        };
        let reshape = || Op::Reshape { shape: None, allow_zero: false };
        let (moves, sum) = (Some(Form::Move), Some(Form::Sum));
        for (op, inputs, form) in [
            // Both of one kind, or one of them and a constant on either side.
            (add(), "ij", sum),
            (add(), "ff", sum),
            (add(), "if", None),
            (add(), "ic", Some(Form::Offset(0))),
            (add(), "ci", Some(Form::Offset(1))),
            (add(), "fc", Some(Form::Offset(0))),
            (add(), "di", None),
            (add(), "cc", None),
            (Op::Variadic(Variadic::Sum), "ij", sum),
            (Op::Variadic(Variadic::Sum), "iji", None),
            (Op::Binary(Binary::Mul), "ic", Some(Form::Scale(0))),
            (Op::Binary(Binary::Mul), "ci", Some(Form::Scale(1))),
            (Op::Binary(Binary::Mul), "ij", None),
            (Op::Binary(Binary::Div), "ic", Some(Form::Scale(0))),
            (Op::Binary(Binary::Div), "ci", None),
            (Op::Unary(Unary::Relu), "i", Some(Form::Clip)),
            (Op::Unary(Unary::Relu), "d", None),
            (Op::Unary(Unary::Tanh), "i", None),
            // Bounds and axes are constants.
            (clip(), "i", Some(Form::Clip)),
            (clip(), "icc", Some(Form::Clip)),
            (clip(), "i_c", Some(Form::Clip)),
            (clip(), "if", None),
            (clip(), "ci", None),
            (mean(), "ic", Some(Form::Pool)),
            (mean(), "ij", None),
            (Op::Dropout { training: false }, "ic", moves),
            (Op::Dropout { training: true }, "ic", None),
            // The destination of numbers is constant.
            (reshape(), "ic", moves),
            (reshape(), "id", None),
            (reshape(), "ij", None),
            (reshape(), "ci", None),
            (Op::Gather { axis: 0 }, "ic", moves),
            (Op::Gather { axis: 0 }, "id", None),
            (Op::Gather { axis: 0 }, "ci", None),
            (Op::Identity, "i", moves),
            (Op::Concat { axis: 0 }, "iji", moves),
            (Op::Concat { axis: 0 }, "ijf", None),
            (Op::Concat { axis: 0 }, "ic", None),
            (pool(&[2], &[]), "i", Some(Form::Pool)),
            (pool(&[2, 2], &[1, 1]), "i", Some(Form::Pool)),
            (pool(&[2, 2], &[1, 2]), "i", None),
            (pool(&[2, 2, 2], &[]), "i", None),
        ] {
            let shown = format!("{op:?} of {inputs}");
            assert_eq!(values.form(op, inputs, 1), form, "{shown}");
        }
    }

    #[test]
    fn operators_with_a_second_output_have_no_form() {
        let values = values();
        assert_eq!(values.form(pool(&[2], &[]), "i", 2), None);
        assert_eq!(values.form(Op::Dropout { training: false }, "i", 2), None);
        assert_eq!(
            values.form(Op::Split { axis: 0, sizes: None, parts: Some(2) }, "i", 2),
            Some(Form::Move)
        );
    }

    #[test]
    fn reasons_name_binary_layers_and_missing_operands() {
        let operands = "one of its operands is neither computed from streams nor a constant";
        for (op, expected) in [
            (Op::MatMul, "it runs in binary"),
            (Op::Binary(Binary::Div), operands),
            (Op::Concat { axis: 1 }, operands),
            (Op::Unary(Unary::Tanh), ""),
        ] {
            assert_eq!(reason(&op), expected, "{op:?}");
        }
    }
}
