//! Which nodes have a form in integers.

use crate::error::RefusedNode;
use crate::graph::{GraphNetwork, Mode, Op};
use crate::{Error, Result};
use aleatron_graph::op::{Pooling, Reduction, Variadic};
use aleatron_graph::{Binary, Graph, Node, Unary};

/// How a node runs in a graph of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// On tensors as it is: it has no integers, or moves them.
    Tensors,
    /// As streams; the place of the product.
    Stream(usize),
    /// Negative ones become 0.
    Relu,
    /// Limited to bounds.
    Clip,
    /// Images reduced to means or greatest ones.
    Pool,
    /// A positive constant changes the unit; the operand that is a value.
    Scale(usize),
    /// A constant is added or taken away; the operand that is a value.
    Offset(usize),
    /// Two values are added, or one is taken from the other.
    Sum,
    /// Floats are made of its integers, and it runs on tensors: no streams come after it.
    Decode,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It does not depend on streams.
    Plain,
    /// Integers.
    Integers,
    /// Floats made of integers.
    Decoded,
}

/// The forms of a graph's nodes.
#[derive(Debug)]
pub(crate) struct Forms {
    pub(crate) nodes: Vec<Form>,
    /// Which values are integers, by their place.
    pub(crate) is_integer: Vec<bool>,
}

/// Checks that a graph can run in integers, as far as its operators tell.
pub(crate) fn check(network: &GraphNetwork) -> Result<()> {
    Forms::new(network).map(drop)
}

impl Forms {
    pub(super) fn new(network: &GraphNetwork) -> Result<Self> {
        let graph = network.graph();
        let mut places = vec![None; graph.nodes().len()];
        for (place, layer) in network.layers().iter().enumerate() {
            if layer.mode == Mode::Streams {
                places[layer.node] = Some(place);
            }
        }
        let leads = leading(graph, &places);
        let mut states = vec![State::Plain; graph.n_values()];
        let mut nodes = Vec::with_capacity(places.len());
        let mut refused = Vec::new();
        for (node, place) in graph.nodes().iter().zip(places) {
            let has = |state| node.needs().any(|id| states[id.index()] == state);
            let (form, made) = if is_shape(&node.op) {
                (Form::Tensors, State::Plain)
            } else if let Some(place) = place {
                (Form::Stream(place), State::Integers)
            } else if !has(State::Integers) {
                let made = if has(State::Decoded) { State::Decoded } else { State::Plain };
                (Form::Tensors, made)
            } else if let Some(form) = integer_form(graph, node, &states) {
                (form, State::Integers)
            } else {
                let is_needed = node.outputs.iter().flatten().any(|id| leads[id.index()]);
                // Values inside of these cannot be replaced.
                if is_needed || matches!(node.op, Op::If { .. } | Op::Loop { .. }) {
                    refused.push(RefusedNode::new(node, reason(&node.op)));
                }
                (Form::Decode, State::Decoded)
            };
            for id in node.outputs.iter().flatten() {
                states[id.index()] = made;
            }
            nodes.push(form);
        }
        if refused.is_empty() {
            let is_integer = states.into_iter().map(|state| state == State::Integers).collect();
            Ok(Self { nodes, is_integer })
        } else {
            Err(Error::NoIntegerForm { nodes: refused })
        }
    }
}

/// Nodes that see the shape of a value alone.
fn is_shape(op: &Op) -> bool {
    matches!(op, Op::Shape { .. } | Op::Size)
}

/// The values that streams are made of in the end.
fn leading(graph: &Graph, places: &[Option<usize>]) -> Vec<bool> {
    let mut leads = vec![false; graph.n_values()];
    for (node, place) in graph.nodes().iter().zip(places).rev() {
        let goes_on = node.outputs.iter().flatten().any(|id| leads[id.index()]);
        if place.is_some() || goes_on && !is_shape(&node.op) {
            node.needs().for_each(|id| leads[id.index()] = true);
        }
    }
    leads
}

fn reason(op: &Op) -> &'static str {
    match op {
        Op::MatMul | Op::Gemm { .. } | Op::Conv { .. } => "it runs in binary",
        Op::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div) | Op::Concat { .. } => {
            "one of its operands is neither made of streams nor a constant"
        }
        _ => "",
    }
}

/// The form of a node that has integers among its inputs, if it has one.
fn integer_form(graph: &Graph, node: &Node, states: &[State]) -> Option<Form> {
    let input = |k: usize| node.inputs.get(k).copied().flatten();
    let is_integer = |k: usize| input(k).is_some_and(|id| states[id.index()] == State::Integers);
    let is_constant = |k: usize| input(k).is_some_and(|id| graph.constant(id).is_some());
    let is_plain = |k: usize| input(k).is_none_or(|id| states[id.index()] == State::Plain);
    let rest = 1..node.inputs.len();
    // One value, and beside it what says where it goes.
    let moves = is_integer(0) && rest.clone().all(is_plain);
    let with_constants = is_integer(0) && rest.clone().all(|k| input(k).is_none() || is_constant(k));
    let one_output = node.outputs.iter().skip(1).all(Option::is_none);
    let operand = || match (is_integer(0), is_integer(1)) {
        (true, false) if is_constant(1) => Some(0),
        (false, true) if is_constant(0) => Some(1),
        _ => None,
    };
    match &node.op {
        Op::Unary(Unary::Relu) => Some(Form::Relu),
        Op::Clip { .. } if with_constants => Some(Form::Clip),
        Op::Dropout { training: false } if with_constants && one_output => Some(Form::Tensors),
        Op::Identity | Op::Flatten { .. } | Op::Transpose { .. } => Some(Form::Tensors),
        Op::DepthToSpace { .. } | Op::SpaceToDepth { .. } => Some(Form::Tensors),
        Op::Reshape { .. } | Op::Squeeze { .. } | Op::Unsqueeze { .. } | Op::Expand if moves => {
            Some(Form::Tensors)
        }
        Op::Tile | Op::Slice { .. } | Op::Split { .. } | Op::Gather { .. } if moves => Some(Form::Tensors),
        Op::Concat { .. } if (0..node.inputs.len()).all(is_integer) => Some(Form::Tensors),
        Op::Pool { pooling: Pooling::Max { .. } | Pooling::Average { .. }, window, .. } => {
            let is_plain = (1..=2).contains(&window.kernel.len()) && window.dilations.iter().all(|&d| d == 1);
            (is_plain && one_output).then_some(Form::Pool)
        }
        Op::GlobalPool(Pooling::Max { .. } | Pooling::Average { .. }) => Some(Form::Pool),
        Op::Reduce { reduction: Reduction::Mean | Reduction::Max, .. } if with_constants => Some(Form::Pool),
        Op::Binary(Binary::Add | Binary::Sub) | Op::Variadic(Variadic::Sum)
            if node.inputs.len() == 2 && is_integer(0) && is_integer(1) =>
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
    #![allow(clippy::unwrap_used)]
    use super::*;
    use aleatron_graph::op::{NoAxes, Padding, Reduced, Rounding, Window};
    use aleatron_graph::{Value, ValueId};
    use aleatron_tensor::{Device, Tensor};

    /// Two values of integers, one that no stream made, one of decoded floats, and a constant.
    struct Values {
        graph: Graph,
        states: Vec<State>,
        ids: [ValueId; 5],
    }

    fn values() -> Values {
        let mut graph = Graph::new("values");
        let [i, j, p, d] = [(); 4].map(|()| graph.add_value(Value::default()));
        let c = graph.add_constant("c", Tensor::from_slice(&[1.0_f32], &[1], &Device::Cpu).unwrap());
        let states = vec![State::Integers, State::Integers, State::Plain, State::Decoded, State::Plain];
        Values { graph, states, ids: [i, j, p, d, c] }
    }

    impl Values {
        /// The form of an operator over these inputs, by their letters; `_` is one that is left out.
        fn form(&self, op: Op, inputs: &str, n_outputs: usize) -> Option<Form> {
            let input = |letter| "ijpdc".find(letter).map(|k| self.ids[k]);
            let node = Node {
                name: "node".to_owned(),
                op,
                inputs: inputs.chars().map(input).collect(),
                outputs: vec![Some(self.ids[2]); n_outputs],
            };
            integer_form(&self.graph, &node, &self.states)
        }
    }

    fn pool(kernel: &[i64], dilations: &[i64]) -> Op {
        let window = Window {
            kernel: kernel.to_vec(),
            strides: Vec::new(),
            dilations: dilations.to_vec(),
            padding: Padding::Explicit(Vec::new()),
        };
        Op::Pool { pooling: Pooling::Max { column_major: false }, window, rounding: Rounding::Floor }
    }

    #[test]
    fn a_form_depends_on_what_the_inputs_are() {
        let values = values();
        let add = || Op::Binary(Binary::Add);
        let clip = || Op::Clip { low: None, high: None };
        let mean = || Op::Reduce {
            reduction: Reduction::Mean,
            axes: None,
            reduced: Reduced::Kept,
            no_axes: NoAxes::All,
        };
        let reshape = || Op::Reshape { shape: None, allow_zero: false };
        let (tensors, sum) = (Some(Form::Tensors), Some(Form::Sum));
        for (op, inputs, form) in [
            // Both of them integers, or one of them and a constant on either side.
            (add(), "ij", sum),
            (add(), "ic", Some(Form::Offset(0))),
            (add(), "ci", Some(Form::Offset(1))),
            (add(), "ip", None),
            (add(), "pi", None),
            (add(), "di", None),
            (Op::Variadic(Variadic::Sum), "ij", sum),
            (Op::Variadic(Variadic::Sum), "iji", None),
            (Op::Binary(Binary::Mul), "ic", Some(Form::Scale(0))),
            (Op::Binary(Binary::Mul), "ci", Some(Form::Scale(1))),
            (Op::Binary(Binary::Mul), "ij", None),
            (Op::Binary(Binary::Mul), "pi", None),
            (Op::Binary(Binary::Div), "ic", Some(Form::Scale(0))),
            (Op::Binary(Binary::Div), "ci", None),
            // Bounds and axes are constants.
            (clip(), "i", Some(Form::Clip)),
            (clip(), "icc", Some(Form::Clip)),
            (clip(), "i_c", Some(Form::Clip)),
            (clip(), "ip", None),
            (clip(), "pi", None),
            (mean(), "ic", Some(Form::Pool)),
            (mean(), "ip", None),
            (Op::Dropout { training: false }, "ic", tensors),
            (Op::Dropout { training: false }, "ip", None),
            (Op::Dropout { training: true }, "ic", None),
            // Where integers go may be computed, but not of themselves.
            (reshape(), "ip", tensors),
            (reshape(), "ic", tensors),
            (reshape(), "id", None),
            (reshape(), "ij", None),
            (reshape(), "pi", None),
            (Op::Gather { axis: 0 }, "ip", tensors),
            (Op::Gather { axis: 0 }, "id", None),
            (Op::Gather { axis: 0 }, "pi", None),
            (Op::SpaceToDepth { block: 2 }, "i", tensors),
            (Op::Concat { axis: 0 }, "iji", tensors),
            (Op::Concat { axis: 0 }, "ijp", None),
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
    fn second_outputs_have_no_form() {
        let values = values();
        assert_eq!(values.form(pool(&[2], &[]), "i", 2), None);
        assert_eq!(values.form(Op::Dropout { training: false }, "i", 2), None);
        assert_eq!(values.form(Op::Dropout { training: false }, "i", 1), Some(Form::Tensors));
    }

    #[test]
    fn operators_with_operands_say_which_they_lack() {
        let operands = "one of its operands is neither made of streams nor a constant";
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
