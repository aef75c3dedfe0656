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
