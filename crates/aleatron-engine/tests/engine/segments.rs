//! Networks of programs and tensor nodes: the values between them, for any number of samples and
//! any order of axes.

use crate::support::{config, constant, features, gemm, given, message, network, relu};
use aleatron_core::{Cancel, Error as CoreError, LayerIndex, SampleSeed};
use aleatron_engine::network::{
    Arithmetic, Batching, Calibration, Graph, Mode, Network, Op, StreamConfig,
};
use aleatron_engine::stream::{Detail, Measured};
use aleatron_engine::{Error, StreamLayer};
use aleatron_graph::op::{
    Cell, Dims, Direction, NoAxes, Recurrent, Reduction, Softmax, SoftmaxAxes,
};
use aleatron_graph::{Binary, Dim, Unary, Value, ValueId};
use aleatron_tensor::{DType, Device, Tensor};

/// Compares a batch with single samples, and a part of it with the samples from its first one on.
fn assert_chunk_invariant(network: &Network, config: &StreamConfig, n: usize, what: &str) {
    let (width, scores) = (network.n_features(), network.n_outputs());
    let x = features(n * width, 17);
    let streams = network.to_streams(config).unwrap();
    let whole = streams.forward(&x, 3).unwrap();
    assert_eq!(whole.len(), n * scores, "{what}");
    // Every sample of small batches; in large ones, those at the ends of runs.
    for k in (0..n).filter(|k| n < 20 || [0, 1, 255, 256, n - 1].contains(k)) {
        let one = streams.forward(&x[k * width..(k + 1) * width], 3 + k as u32).unwrap();
        assert_eq!(one, whole[k * scores..(k + 1) * scores], "{what}: sample {k}");
    }
    let later = streams.forward(&x[2 * width..], 5).unwrap();
    assert_eq!(later, whole[2 * scores..], "{what}");
    let float = network.forward(&x).unwrap();
    let single: Vec<f64> =
        x.chunks(width).take(3).flat_map(|x| network.forward(x).unwrap()).collect();
    assert_eq!(float[..3 * scores], single, "{what} in floating point");
}

fn softmax(axis: i64) -> Op {
    Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(axis) }
}

/// Returns streams, a sigmoid on tensors, streams again, and a softmax on tensors.
fn sandwich() -> Network {
    network(&[6], |graph, x| {
        let (w, b) = (constant(graph, "w", &[5, 6], 1), constant(graph, "b", &[5], 2));
        let first = graph.add_node("first", gemm(), &[x, w, b]);
        let gate = graph.add_node("gate", Op::Unary(Unary::Sigmoid), &[first]);
        let (v, c) = (constant(graph, "v", &[4, 5], 3), constant(graph, "c", &[4], 4));
        let second = graph.add_node("second", gemm(), &[gate, v, c]);
        graph.add_node("shares", softmax(1), &[second])
    })
}

/// Computes the same directly: single layers, and tensors in 32 bits between them.
#[test]
fn tensor_nodes_between_layers_match_direct_computation() {
    let network = sandwich();
    let config = config(64, "bernoulli").seed(5);
    let x = features(7 * 6, 8);
    let layer = |k: usize| {
        let own = &network.layers()[k];
        StreamLayer::dense(own.product.fan_in(), own.product.n_rows())
            .signed()
            .length(64)
            .seed(5)
            .at(LayerIndex::new(k).unwrap())
            .weights(&own.encoded_weights())
            .build()
            .unwrap()
    };
    let outputs = |k: usize, inputs: &[f64]| -> Vec<f64> {
        let own = &network.layers()[k];
        let sums = layer(k).forward_batch(inputs, SampleSeed::new(5).starting_at(11)).unwrap();
        let m = own.product.n_rows();
        let bias = |row: usize| f64::from(own.product.bias[row]);
        sums.iter().enumerate().map(|(k, v)| v * own.weight_scale(k % m) + bias(k % m)).collect()
    };
    let tensor = |values: &[f64], width: usize| {
        let narrow: Vec<f32> = values.iter().map(|&v| v as f32).collect();
        Tensor::from_slice(&narrow, &[values.len() / width, width], &Device::Cpu).unwrap()
    };
    let gate = tensor(&outputs(0, &x), 5).sigmoid().unwrap().to_vec::<f32>().unwrap();
    let gate: Vec<f64> = gate.into_iter().map(f64::from).collect();
    let shares =
        crate::support::network(&[4], |graph, x| graph.add_node("shares", softmax(1), &[x]));
    let expected = shares.forward(&outputs(1, &gate)).unwrap();
    assert_eq!(network.to_streams(&config).unwrap().forward(&x, 11).unwrap(), expected);
}

#[test]
fn networks_of_several_segments_are_chunk_invariant() {
    for arithmetic in [Arithmetic::Float, Arithmetic::Integer] {
        let config = config(32, "bernoulli").arithmetic(arithmetic);
        // Integer arithmetic supports no sigmoid between layers, but tensor nodes before and after
        // them.
        let network = match arithmetic {
            Arithmetic::Float => sandwich(),
            _ => sandwich().with_mode("second", Mode::Binary).unwrap(),
        };
        assert_chunk_invariant(&network, &config, 7, "sandwich");
        assert_chunk_invariant(&network, &config, 300, "sandwich of two chunks");
    }
}

fn lstm() -> Op {
    let activations = vec![Unary::Sigmoid, Unary::Tanh, Unary::Tanh];
    Op::Recurrent(Recurrent {
        cell: Cell::Lstm { input_forget: false },
        direction: Direction::Forward,
        activations,
        clip: None,
        hidden: Some(3),
        batch_first: false,
    })
}

/// Layers before, after and between nodes whose samples are along the second axis.
#[test]
fn values_with_steps_before_samples_keep_their_order() {
    let turn = |graph: &mut Graph, name: &str, x: ValueId| {
        graph.add_node(name, Op::Transpose { order: Some(vec![1, 0, 2]) }, &[x])
    };
    let network = network(&[4, 2], |graph, x| {
        let w = constant(graph, "w", &[2, 2], 1);
        let first = graph.add_node("first", Op::MatMul, &[x, w]);
        let turned = turn(graph, "turned", first);
        let [w, r, b] = [("lw", &[1, 12, 2][..]), ("lr", &[1, 12, 3]), ("lb", &[1, 24])]
            .map(|(name, shape)| constant(graph, name, shape, 5));
        // Steps by directions by samples by units.
        let steps = graph.add_node("lstm", lstm(), &[turned, w, r, b]);
        let squeezed = graph.add_node("squeezed", Op::Squeeze { axes: Some(vec![1]) }, &[steps]);
        // A layer over values that enter its program with steps first, and leave it so.
        let v = constant(graph, "v", &[3, 2], 7);
        let second = graph.add_node("second", Op::MatMul, &[squeezed, v]);
        let tanh = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[second]);
        let back = turn(graph, "back", tanh);
        let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[back]);
        let u = constant(graph, "u", &[8, 3], 9);
        graph.add_node("third", Op::MatMul, &[flat, u])
    });
    assert_eq!(network.batching(), Batching::Independent);
    assert_chunk_invariant(&network, &config(32, "bernoulli"), 6, "lstm");
    assert_chunk_invariant(&network, &config(32, "sobol"), 300, "lstm of two chunks");
    // Long streams approach floating point, so the order is right and not merely consistent.
    let x = features(5 * 8, 3);
    let long = network
        .to_streams(&config(8192, "sobol").width(aleatron_core::generator::Width::new(13).unwrap()))
        .unwrap();
    let (scores, exact) = (long.forward(&x, 0).unwrap(), network.forward(&x).unwrap());
    for (a, b) in scores.iter().zip(&exact) {
        assert!((a - b).abs() < 0.02, "{a} {b}");
    }
}

/// Shapes that depend on the number of samples, in tensor nodes and in programs, and a row for each
/// sample.
#[test]
fn sizes_with_the_number_of_samples_follow_each_run() {
    let sizes = |graph: &mut Graph, name: &str, x: ValueId, rest: &[i64]| {
        let n = graph.add_node(format!("{name}_n"), Op::Shape { start: 0, end: Some(1) }, &[x]);
        let rest = given(graph, &format!("{name}_rest"), rest, &[rest.len()]);
        graph.add_node(format!("{name}_sizes"), Op::Concat { axis: 0 }, &[n, rest])
    };
    let reshape = || Op::Reshape { shape: None, allow_zero: false };
    let network = network(&[3, 4], |graph, x| {
        let token = constant(graph, "token", &[1, 1, 4], 1);
        let shape = sizes(graph, "tokens", x, &[1, 4]);
        let tokens = graph.add_node("tokens", Op::Expand, &[token, shape]);
        let all = graph.add_node("all", Op::Concat { axis: 1 }, &[tokens, x]);
        let w = constant(graph, "w", &[4, 4], 2);
        let first = graph.add_node("first", Op::MatMul, &[all, w]);
        // In the program of the first layer, and on tensors after it.
        let shape = sizes(graph, "rows", first, &[16]);
        let flat = graph.add_node("flat", reshape(), &[first, shape]);
        let relu = relu(graph, "relu", flat);
        let gate = graph.add_node("gate", Op::Unary(Unary::Sigmoid), &[relu]);
        let shape = sizes(graph, "deep", gate, &[2, 8]);
        let deep = graph.add_node("deep", reshape(), &[gate, shape]);
        let tanh = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[deep]);
        let v = constant(graph, "v", &[8, 2], 3);
        let second = graph.add_node("second", Op::MatMul, &[tanh, v]);
        graph.add_node("out", Op::Flatten { axis: 1 }, &[second])
    });
    assert_eq!(network.batching(), Batching::Independent);
    assert_chunk_invariant(&network, &config(32, "bernoulli"), 5, "sizes");
    assert_chunk_invariant(&network, &config(32, "bernoulli"), 300, "sizes of two chunks");
}

/// Sums whose operands are broadcast, and elements that are gathered, in both arithmetics.
#[test]
fn moves_and_broadcast_sums_equal_floating_point() {
    let network = network(&[2, 3], |graph, x| {
        let w = constant(graph, "w", &[3, 4], 1);
        let first = graph.add_node("first", Op::MatMul, &[x, w]);
        // (2, 4) -> the first row and both rows, added by broadcasting.
        let zero = given(graph, "zero", &[0_i64], &[1]);
        let row = graph.add_node("row", Op::Gather { axis: 1 }, &[first, zero]);
        let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[first, row]);
        let parts = Op::Split { axis: 2, sizes: Some(vec![1, 3]), parts: None };
        let parts = graph.add_node_with_outputs("parts", parts, &[sum], 2);
        let turned =
            graph.add_node("turned", Op::Transpose { order: Some(vec![0, 2, 1]) }, &[parts[1]]);
        let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[turned]);
        let edge = graph.add_node("edge", Op::Flatten { axis: 1 }, &[parts[0]]);
        let both = graph.add_node("both", Op::Concat { axis: 1 }, &[edge, flat]);
        let repeats = given(graph, "repeats", &[1_i64, 2], &[2]);
        let tiled = graph.add_node("tiled", Op::Tile, &[both, repeats]);
        let [starts, ends, axes, steps] =
            [("starts", 15_i64), ("ends", 3), ("axes", 1), ("steps", -3)]
                .map(|(name, v)| given(graph, name, &[v], &[1]));
        let sliced = graph.add_node(
            "sliced",
            Op::Slice { given: None },
            &[tiled, starts, ends, axes, steps],
        );
        let v = constant(graph, "v", &[4, 3], 3);
        graph.add_node("second", Op::MatMul, &[sliced, v])
    });
    let x = features(20 * 6, 4);
    let network = network.calibrated(&x, &Calibration::default()).unwrap();
    let exact = network.forward(&x).unwrap();
    for arithmetic in Arithmetic::ALL {
        let config = config(4096, "sobol").width(aleatron_core::generator::Width::new(12).unwrap());
        let config = config.arithmetic(arithmetic);
        let scores = network.to_streams(&config).unwrap().forward(&x, 0).unwrap();
        for (a, b) in scores.iter().zip(&exact) {
            assert!((a - b).abs() < 0.05, "{arithmetic}: {a} {b}");
        }
        assert_chunk_invariant(&network, &config.seed(3), 4, "moves");
    }
}

/// Groups, and a convolution whose groups have one channel each.
#[test]
fn grouped_convolutions_are_chunk_invariant() {
    for (groups, inner) in [(2, 2), (4, 1)] {
        let network = network(&[4, 5, 4], |graph, x| {
            let k = constant(graph, "k", &[8, inner, 3, 3], 1);
            let window = crate::support::window(&[1, 1], &[1, 1, 1, 1]);
            let conv = graph.add_node("conv", Op::Conv { window, groups }, &[x, k]);
            let relu = relu(graph, "relu", conv);
            let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[relu]);
            let w = constant(graph, "w", &[3, 160], 2);
            graph.add_node("fc", gemm(), &[flat, w])
        });
        for arithmetic in Arithmetic::ALL {
            assert_chunk_invariant(
                &network,
                &config(32, "bernoulli").arithmetic(arithmetic),
                5,
                "groups",
            );
        }
    }
}

/// Computed constants, large terms by element, and an output that other nodes also read.
#[test]
fn values_read_by_several_nodes_are_shared() {
    let network = network(&[6], |graph, x| {
        let w = constant(graph, "w", &[6, 6], 1);
        let first = graph.add_node("first", Op::MatMul, &[x, w]);
        let term = constant(graph, "term", &[6], 2);
        let half = given(graph, "half", &[0.5_f32], &[]);
        let scaled = graph.add_node("scaled", Op::Binary(Binary::Mul), &[term, half]);
        let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[first, scaled]);
        // One branch on tensors, one in the program, both of the same value.
        let gate = graph.add_node("gate", Op::Unary(Unary::Sigmoid), &[sum]);
        let relu = relu(graph, "relu", sum);
        let both = graph.add_node("both", Op::Binary(Binary::Mul), &[gate, relu]);
        let v = constant(graph, "v", &[6, 3], 3);
        graph.add_node("second", Op::MatMul, &[both, v])
    });
    let x = features(20 * 6, 1);
    let network = network.calibrated(&x, &Calibration::default()).unwrap();
    assert_chunk_invariant(&network, &config(32, "bernoulli"), 7, "branches");
    let (exact, long) = (
        network.forward(&x).unwrap(),
        network
            .to_streams(
                &config(4096, "sobol").width(aleatron_core::generator::Width::new(12).unwrap()),
            )
            .unwrap(),
    );
    for (a, b) in long.forward(&x, 0).unwrap().iter().zip(&exact) {
        assert!((a - b).abs() < 0.02, "{a} {b}");
    }
}

/// Integer inputs, and several inputs, as consecutive features.
#[test]
fn several_inputs_and_ids_are_features_in_order() {
    let mut graph = Graph::new("inputs");
    let mut input = |name: &str, dtype: DType, size: usize| {
        let shape = Some(vec![Dim::Named("n".to_owned()), Dim::Fixed(size)]);
        graph.add_input(Value { name: name.to_owned(), dtype: Some(dtype), shape })
    };
    let (x, ids, y) =
        (input("x", DType::F32, 3), input("ids", DType::I64, 2), input("y", DType::F32, 1));
    let table = constant(&mut graph, "table", &[5, 2], 1);
    let rows = graph.add_node("rows", Op::Gather { axis: 0 }, &[table, ids]);
    let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[rows]);
    let all = graph.add_node("all", Op::Concat { axis: 1 }, &[x, flat, y]);
    let w = constant(&mut graph, "w", &[8, 4], 2);
    let out = graph.add_node("fc", Op::MatMul, &[all, w]);
    graph.add_output(out);
    let network = Network::new(graph).unwrap();
    let names: Vec<&str> = network.inputs().iter().map(|input| input.name.as_str()).collect();
    assert_eq!((names, network.n_features()), (vec!["x", "ids", "y"], 6));
    let samples = [0.5, -0.5, 0.25, 4.0, 0.0, 1.0, 0.0, 0.75, -1.0, 1.0, 3.0, -0.5];
    let table = crate::support::numbers(10, 1);
    let row =
        |id: usize| table[2 * id..2 * id + 2].iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    let expected: Vec<f64> = [
        vec![0.5, -0.5, 0.25],
        row(4),
        row(0),
        vec![1.0],
        vec![0.0, 0.75, -1.0],
        row(1),
        row(3),
        vec![-0.5],
    ]
    .concat();
    let config = config(64, "bernoulli");
    let layer = network.to_streams(&config).unwrap().layer_at(0, 64).unwrap();
    let sums =
        layer.forward_batch(&expected, network.to_streams(&config).unwrap().seed_at(2)).unwrap();
    let own = &network.layers()[0];
    let scores: Vec<f64> =
        sums.iter().enumerate().map(|(k, v)| v * own.weight_scale(k % 4)).collect();
    assert_eq!(network.to_streams(&config).unwrap().forward(&samples, 2).unwrap(), scores);
    assert_eq!(network.forward(&samples).unwrap().len(), 8);
    // Ids that are not whole numbers, or out of range for the table.
    let mut bad = samples;
    bad[9] = 1.5;
    for error in [
        network.forward(&bad).unwrap_err(),
        network.to_streams(&config).unwrap().forward(&bad, 0).unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            "sample 1, feature 3 is 1.5: input \"ids\" takes whole numbers"
        );
    }
    bad[9] = 7.0;
    assert!(message(network.forward(&bad)).contains("rows"));
}

#[test]
fn cancellation_stops_between_chunks_and_keeps_the_network_usable() {
    let network = sandwich();
    let streams = network.to_streams(&config(16, "bernoulli")).unwrap();
    let x = features(600 * 6, 2);
    let expected = streams.forward(&x, 0).unwrap();
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let total = {
        let count = || {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            false
        };
        assert_eq!(
            streams.run(&x, 0, Detail::default(), Cancel::when(&count)).unwrap().scores,
            expected
        );
        asked.load(std::sync::atomic::Ordering::Relaxed)
    };
    // Three chunks of samples poll at least once each; the first positive poll ends the run.
    assert!(total >= 3, "{total}");
    for k in 0..total {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == k;
        let stopped = streams.run(&x, 0, Detail::default(), Cancel::when(&stop)).unwrap_err();
        assert!(matches!(stopped, Error::Core(CoreError::Cancelled)), "question {k}: {stopped}");
    }
    assert_eq!(streams.forward(&x, 0).unwrap(), expected);
    let stop = || true;
    let network = std::sync::Arc::new(network);
    let detail = Detail { nodes: Measured::Enabled, ..Detail::default() };
    assert!(streams.run(&x, 0, detail, Cancel::when(&stop)).is_err());
    let prepared = network.into_streams(&config(1 << 16, "bernoulli"), Cancel::when(&stop));
    assert!(matches!(prepared, Err(Error::Core(CoreError::Cancelled))), "{prepared:?}");
}

/// Nodes that only run on tensors between layers are rejected in integers, with their name.
#[test]
fn tensor_nodes_between_layers_are_errors_in_integer_arithmetic() {
    let error =
        sandwich().to_streams(&config(8, "sobol").arithmetic(Arithmetic::Integer)).unwrap_err();
    assert_eq!(error.to_string(), "integer arithmetic does not support node \"gate\" (Sigmoid)");
    assert!(
        matches!(sandwich().check_integers(), Err(Error::NoIntegerForm { nodes }) if nodes.len() == 1)
    );
    assert!(sandwich().with_mode("second", Mode::Binary).unwrap().check_integers().is_ok());
    let sums = network(&[3, 4], |graph, x| {
        let w = constant(graph, "w", &[4, 4], 1);
        let first = graph.add_node("first", Op::MatMul, &[x, w]);
        let op = Op::Reduce {
            reduction: Reduction::Sum,
            axes: Some(vec![1]),
            reduced: Dims::Drop,
            no_axes: NoAxes::All,
        };
        let sum = graph.add_node("total", op, &[first]);
        let v = constant(graph, "v", &[4, 2], 2);
        graph.add_node("second", Op::MatMul, &[sum, v])
    });
    let error = sums.check_integers().unwrap_err().to_string();
    assert!(error.contains("node \"total\" (ReduceSum)"), "{error}");
}
