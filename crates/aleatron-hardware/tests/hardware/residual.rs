//! Branches that join in an addition, and all other stages between layers.

use crate::support::{check, config};
use aleatron_core::Polarity;
use aleatron_engine::network::{Calibration, Graph, Network, Op};
use aleatron_graph::op::{Padding, Pooling, Rounding, Window};
use aleatron_graph::{Binary, Dim, Unary, Value, ValueId};
use aleatron_hardware::simulate::Simulator;
use aleatron_hardware::{Circuit, Error, Options};
use aleatron_tensor::{DType, Device, Tensor};

/// Returns deterministic numbers in [-1, 1).
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn features(n: usize, seed: u64) -> Vec<f64> {
    numbers(n, seed).into_iter().map(f64::from).collect()
}

fn constant(graph: &mut Graph, name: &str, shape: &[usize], seed: u64) -> ValueId {
    given(graph, name, &numbers(shape.iter().product(), seed), shape)
}

fn given(graph: &mut Graph, name: &str, values: &[f32], shape: &[usize]) -> ValueId {
    graph.add_constant(name, Tensor::from_slice(values, shape, &Device::Cpu).unwrap())
}

fn window(kernel: &[i64], strides: &[i64], pads: &[i64]) -> Window {
    Window {
        kernel: kernel.to_vec(),
        strides: strides.to_vec(),
        dilations: Vec::new(),
        padding: Padding::Explicit(pads.to_vec()),
    }
}

/// Returns convolutions with padding, pools of both kinds, a residual sum, bounds, a transposition,
/// constants, and a dense layer.
fn residual(pooling: Pooling) -> Network {
    let mut graph = Graph::new("residual");
    let shape = vec![Dim::Named("n".to_owned()), Dim::Fixed(2), Dim::Fixed(6), Dim::Fixed(5)];
    let x = graph.add_input(Value {
        name: "x".to_owned(),
        dtype: Some(DType::F32),
        shape: Some(shape),
    });
    let (k1, b1) =
        (constant(&mut graph, "k1", &[4, 2, 3, 3], 1), constant(&mut graph, "b1", &[4], 2));
    let same = || Op::Conv { window: window(&[], &[1, 1], &[1, 1, 1, 1]), groups: 1 };
    let conv1 = graph.add_node("conv1", same(), &[x, k1, b1]);
    let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[conv1]);
    let pool = |pooling, window| Op::Pool { pooling, window, rounding: Rounding::Down };
    let max = pool(Pooling::Max { column_major: false }, window(&[2, 2], &[2, 2], &[0, 0, 0, 1]));
    let max = graph.add_node("max", max, &[relu]);
    let k2 = constant(&mut graph, "k2", &[4, 4, 3, 3], 3);
    let conv2 = graph.add_node("conv2", same(), &[max, k2]);
    let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[conv2, max]);
    let (low, high) =
        (given(&mut graph, "low", &[-0.6], &[]), given(&mut graph, "high", &[1.7], &[]));
    let clip = graph.add_node("clip", Op::Clip { low: None, high: None }, &[sum, low, high]);
    let mean =
        graph.add_node("mean", pool(pooling, window(&[2, 2], &[1, 1], &[1, 0, 0, 0])), &[clip]);
    let turned = graph.add_node("turned", Op::Transpose { order: Some(vec![0, 2, 3, 1]) }, &[mean]);
    let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[turned]);
    let (w, b) = (constant(&mut graph, "w", &[5, 24], 4), constant(&mut graph, "b", &[5], 5));
    let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
    let fc = graph.add_node("fc", gemm, &[flat, w, b]);
    let term = constant(&mut graph, "term", &[5], 6);
    let out = graph.add_node("out", Op::Binary(Binary::Sub), &[fc, term]);
    graph.add_output(out);
    Network::new(graph).unwrap().calibrated(&features(20 * 60, 3), &Calibration::default()).unwrap()
}

/// Returns the network whose averages count the padding.
pub(crate) fn network() -> Network {
    residual(Pooling::Average { count_padding: true })
}

#[test]
fn residual_network_equals_the_engine() {
    let network = network();
    for (polarity, lanes) in [(Polarity::Signed, None), (Polarity::Bipolar, Some(3))] {
        let network = network.clone().with_polarity(polarity).unwrap();
        let options = Options { lanes, ..Options::default() };
        let config = config(9, "sobol").range(aleatron_engine::network::ValueRange::Saturate);
        check(
            &format!("residual-{polarity}"),
            &network,
            &config,
            &options,
            &features(120, 9),
            Simulator::Icarus,
        );
    }
}

#[test]
fn average_without_its_padding_is_an_error() {
    let network = residual(Pooling::Average { count_padding: false });
    let refused = Circuit::new(&network, &config(9, "sobol"), &Options::default());
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
}
