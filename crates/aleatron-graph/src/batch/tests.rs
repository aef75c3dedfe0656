//! Graphs whose samples are independent, graphs that mix them, and random ones: every graph
//! classified as independent is.

use super::{BatchAnalysis, Batching, Layout, free};
use crate::graph::{Dim, Graph, Value, ValueId};
use crate::op::{
    Attention, Binary, Cell, ConstantValue, Dims, Direction, Equation, EquationTerm, Extreme,
    NoAxes, Op, Padding, Pooling, Quantized, Recurrent, Reduction, Rounding, ShownScores, Softmax,
    SoftmaxAxes, Unary, Window,
};
use crate::run::Runner;
use crate::{Error, Result};
use aleatron_tensor::{DType, Device, Tensor};

mod fixed;
mod independent;
mod mixed;
mod random;

/// Numbers in [-1, 1) that look random and are the same every time.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn floats(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from_slice(&numbers(shape.iter().product(), seed), shape, &Device::Cpu).unwrap()
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_slice(values, &[values.len()], &Device::Cpu).unwrap()
}

/// A graph of one input, and nodes behind it.
struct Build {
    graph: Graph,
    x: ValueId,
}

impl Build {
    /// Samples of a shape; `n` is how many there are, if that is fixed.
    fn new(sample: &[usize], n: Option<usize>) -> Self {
        let mut graph = Graph::new("test");
        let first = n.map_or(Dim::Named("n".to_owned()), Dim::Fixed);
        let shape = std::iter::once(first).chain(sample.iter().copied().map(Dim::Fixed)).collect();
        let value = Value { name: "x".to_owned(), dtype: Some(DType::F32), shape: Some(shape) };
        let x = graph.add_input(value);
        Self { graph, x }
    }

    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        let name = format!("node{}", self.graph.nodes().len());
        self.graph.add_node(name, op, inputs)
    }

    /// Returns a node with several outputs.
    fn nodes(&mut self, op: Op, inputs: &[ValueId], n: usize) -> Vec<ValueId> {
        let name = format!("node{}", self.graph.nodes().len());
        self.graph.add_node_with_outputs(name, op, inputs, n)
    }

    fn constant(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("constant{}", self.graph.constants().count());
        self.graph.add_constant(name, tensor)
    }

    fn floats(&mut self, shape: &[usize]) -> ValueId {
        let seed = self.graph.n_values() as u64 + 3;
        self.constant(floats(shape, seed))
    }

    fn ints(&mut self, values: &[i64]) -> ValueId {
        self.constant(ints(values))
    }

    fn reshape(&mut self, x: ValueId, shape: &[i64]) -> ValueId {
        let shape = self.ints(shape);
        self.node(Op::Reshape { shape: None, allow_zero: false }, &[x, shape])
    }

    fn transpose(&mut self, x: ValueId, order: &[i64]) -> ValueId {
        self.node(Op::Transpose { order: Some(order.to_vec()) }, &[x])
    }

    /// Sizes of a value from `start` to `end`.
    fn sizes(&mut self, x: ValueId, start: i64, end: i64) -> ValueId {
        self.node(Op::Shape { start, end: Some(end) }, &[x])
    }

    fn relu(&mut self, x: ValueId) -> ValueId {
        self.node(Op::Unary(Unary::Relu), &[x])
    }

    fn done(mut self, output: ValueId) -> Graph {
        self.graph.add_output(output);
        self.graph
    }
}

fn mean(axes: &[i64], reduced: Dims) -> Op {
    Op::Reduce {
        reduction: Reduction::Mean,
        axes: Some(axes.to_vec()),
        reduced,
        no_axes: NoAxes::All,
    }
}

fn softmax(axis: i64) -> Op {
    Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(axis) }
}

fn gemm(transpose_a: bool, transpose_b: bool) -> Op {
    Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a, transpose_b }
}

fn window(kernel: &[i64], pads: &[i64]) -> Window {
    Window {
        kernel: kernel.to_vec(),
        strides: Vec::new(),
        dilations: Vec::new(),
        padding: Padding::Explicit(pads.to_vec()),
    }
}

fn lstm(batch_first: bool) -> Op {
    let activations = vec![Unary::Sigmoid, Unary::Tanh, Unary::Tanh];
    Op::Recurrent(Recurrent {
        cell: Cell::Lstm { input_forget: false },
        direction: Direction::Forward,
        activations,
        clip: None,
        hidden: Some(3),
        batch_first,
    })
}

/// Returns the axes of an equation, a letter each.
fn equation(inputs: &[&str], output: &str) -> Op {
    let term = |text: &str| EquationTerm {
        before: text.bytes().collect(),
        ellipsis: false,
        after: Vec::new(),
    };
    Op::Einsum {
        equation: Equation {
            inputs: inputs.iter().map(|text| term(text)).collect(),
            output: term(output),
        },
    }
}

fn analysis(graph: &Graph) -> Result<BatchAnalysis> {
    BatchAnalysis::new(&Runner::new(graph.clone(), &Device::Cpu)?, samples(graph, 1), 1)
}

fn batching(graph: &Graph) -> Result<Batching> {
    analysis(graph)?.batching(graph, graph.outputs()[0])
}

/// Samples for the one input of a graph, the same first ones for every number of them.
fn samples(graph: &Graph, n: usize) -> Vec<Tensor> {
    let value = graph.value(graph.inputs()[0]).unwrap();
    let sizes = value.shape.as_ref().unwrap()[1..].iter();
    let sample = sizes.map(|dim| if let Dim::Fixed(size) = dim { *size } else { panic!("{dim}") });
    let shape: Vec<usize> = std::iter::once(n).chain(sample).collect();
    vec![floats(&shape, 77)]
}

/// Returns the bits of the first output for some samples.
fn bits(graph: &Graph, inputs: Vec<Tensor>) -> Result<Vec<u32>> {
    let made = Runner::new(graph.clone(), &Device::Cpu)?.run(inputs)?.swap_remove(0);
    let made = if made.dtype().is_float() { made } else { made.cast(DType::F32)? };
    Ok(made.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())
}

/// Compares a batch with its samples one at a time and in two parts.
fn assert_cut_anywhere(graph: &Graph, what: &str) {
    for n in 1..=5 {
        let all = samples(graph, n).swap_remove(0);
        let whole = bits(graph, vec![all.clone()])
            .unwrap_or_else(|error| panic!("{what}, {n} samples: {error}"));
        let part =
            |from: usize, to: usize| bits(graph, vec![all.slice(0, from..to).unwrap()]).unwrap();
        let single: Vec<u32> = (0..n).flat_map(|s| part(s, s + 1)).collect();
        assert_eq!(whole, single, "{what}: {n} samples one at a time");
        let halves = if n > 1 { [part(0, n / 2), part(n / 2, n)].concat() } else { single };
        assert_eq!(whole, halves, "{what}: {n} samples in two parts");
    }
}

fn assert_independent(graph: &Graph, what: &str) {
    let found = analysis(graph).unwrap();
    let output = graph.outputs()[0];
    let mixed = found.mixed_by(output).map(|node| graph.nodes()[node].name.clone());
    assert_eq!(
        found.batching(graph, output).unwrap(),
        Batching::Independent,
        "{what}: mixed by {mixed:?}"
    );
    assert_eq!(found.layout(output), Some(Layout::LEADING), "{what}");
    assert_cut_anywhere(graph, what);
}
