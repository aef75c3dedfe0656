//! Shared networks and numbers.

use aleatron_engine::network::{Graph, Network, NetworkBuilder, Op, StreamConfig};
use aleatron_graph::op::{Padding, Window};
use aleatron_graph::{Dim, Unary, Value, ValueId};
use aleatron_tensor::{DType, Device, Tensor};

/// Returns deterministic pseudo-random numbers in [-1, 1).
pub(crate) fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1 << 23) as f32) - 1.0
        })
        .collect()
}

pub(crate) fn features(n: usize, seed: u64) -> Vec<f64> {
    numbers(n, seed).into_iter().map(f64::from).collect()
}

pub(crate) fn constant(graph: &mut Graph, name: &str, shape: &[usize], seed: u64) -> ValueId {
    given(graph, name, &numbers(shape.iter().product(), seed), shape)
}

pub(crate) fn given<T: aleatron_tensor::Element>(
    graph: &mut Graph,
    name: &str,
    values: &[T],
    shape: &[usize],
) -> ValueId {
    graph.add_constant(name, Tensor::from_slice(values, shape, &Device::Cpu).unwrap())
}

/// Adds an input of any number of samples of a shape.
pub(crate) fn input(graph: &mut Graph, sample: &[usize]) -> ValueId {
    let mut shape = vec![Dim::Named("n".to_owned())];
    shape.extend(sample.iter().map(|&n| Dim::Fixed(n)));
    graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape: Some(shape) })
}

pub(crate) fn gemm() -> Op {
    Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true }
}

pub(crate) fn relu(graph: &mut Graph, name: &str, x: ValueId) -> ValueId {
    graph.add_node(name, Op::Unary(Unary::Relu), &[x])
}

pub(crate) fn window(strides: &[i64], pads: &[i64]) -> Window {
    Window {
        kernel: Vec::new(),
        strides: strides.to_vec(),
        dilations: Vec::new(),
        padding: Padding::Explicit(pads.to_vec()),
    }
}

/// Returns a graph with one output over samples of a shape.
pub(crate) fn graph(sample: &[usize], build: impl FnOnce(&mut Graph, ValueId) -> ValueId) -> Graph {
    let mut graph = Graph::new("test");
    let x = input(&mut graph, sample);
    let y = build(&mut graph, x);
    graph.add_output(y);
    graph
}

/// Returns a network over samples of a shape.
pub(crate) fn network(
    sample: &[usize],
    build: impl FnOnce(&mut Graph, ValueId) -> ValueId,
) -> Network {
    Network::new(graph(sample, build)).unwrap()
}

/// Returns a single dense layer of six inputs and four neurons.
pub(crate) fn dense() -> Network {
    network(&[6], |graph, x| {
        let (w, b) = (constant(graph, "w", &[4, 6], 1), constant(graph, "b", &[4], 2));
        graph.add_node("fc", gemm(), &[x, w, b])
    })
}

/// Returns a convolution, relu and a dense layer, on images of 2 x 5 x 4.
pub(crate) fn cnn() -> Network {
    network(&[2, 5, 4], |graph, x| {
        let (k, b) = (constant(graph, "k", &[3, 2, 3, 3], 1), constant(graph, "kb", &[3], 2));
        let window = window(&[2, 1], &[1, 0, 1, 1]);
        let conv = graph.add_node("conv", Op::Conv { window, groups: 1 }, &[x, k, b]);
        let relu = relu(graph, "relu", conv);
        let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[relu]);
        let (w, b) = (constant(graph, "w", &[3, 27], 3), constant(graph, "b", &[3], 4));
        graph.add_node("fc", gemm(), &[flat, w, b])
    })
}

/// Returns two small bipolar layers.
pub(crate) fn small() -> Network {
    use aleatron_core::Polarity::Bipolar;
    NetworkBuilder::new("n", &[2])
        .dense("a", 2, &[0.5, -0.25, 1.0, 0.125], &[])
        .polarity(Bipolar)
        .weight_scale(1.0)
        .dense("b", 2, &[0.75, -1.0, 0.5, 0.25, 0.0, -0.5], &[])
        .polarity(Bipolar)
        .weight_scale(1.0)
        .build()
        .unwrap()
}

pub(crate) fn config(length: usize, generator: &str) -> StreamConfig {
    StreamConfig::new(length).generator(generator.parse().unwrap())
}

/// Returns the text of an error.
pub(crate) fn message<T: std::fmt::Debug>(result: Result<T, aleatron_engine::Error>) -> String {
    result.unwrap_err().to_string()
}

/// Returns a separate folder for a test.
pub(crate) fn temporary(name: &str) -> std::path::PathBuf {
    let folder =
        std::env::temp_dir().join(format!("aleatron-engine-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
