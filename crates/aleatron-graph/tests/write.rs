//! Graphs written as ONNX files, and bounds of rounding.
#![allow(clippy::unwrap_used)]

use aleatron_graph::op::{Padding, Pooling, Rounding, Softmax, SoftmaxAxes, Window};
use aleatron_graph::{Binary, Dim, Error, Graph, Op, Runner, Unary, Value, ValueId};
use aleatron_tensor::{DType, Device, Tensor};

fn input(graph: &mut Graph, sizes: &[usize]) -> ValueId {
    let axes = sizes.iter().map(|&size| Dim::Fixed(size));
    let shape = [Dim::Named("n".to_owned())].into_iter().chain(axes).collect();
    graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape: Some(shape) })
}

fn constant(graph: &mut Graph, name: &str, shape: &[usize]) -> ValueId {
    let n = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..n).map(|k| ((k * 37 % 101) as f32 - 50.0) / 64.0).collect();
    graph.add_constant(name, Tensor::from_slice(&values, shape, &Device::Cpu).unwrap())
}

fn run(graph: &Graph, x: &Tensor) -> Vec<f32> {
    let runner = Runner::new(graph.clone(), &Device::Cpu).unwrap();
    runner.run(vec![x.clone()]).unwrap()[0].to_vec().unwrap()
}

/// Returns a convolution, a pool, a product and a softmax of the old form; two values have one
/// name, and one lacks a name.
fn network() -> Graph {
    let mut graph = Graph::new("written").with_metadata("who", "me");
    let x = input(&mut graph, &[2, 6, 6]);
    let (w, b) = (constant(&mut graph, "same", &[4, 2, 3, 3]), constant(&mut graph, "same", &[4]));
    let window = Window {
        kernel: vec![3, 3],
        strides: vec![1, 1],
        dilations: vec![],
        padding: Padding::Explicit(vec![1, 1, 1, 1]),
    };
    let conv = graph.add_node("conv", Op::Conv { window, groups: 1 }, &[x, w, b]);
    let relu = graph.add_node("relu", Op::Unary(Unary::LeakyRelu { alpha: 0.1 }), &[conv]);
    let window = Window {
        kernel: vec![2, 2],
        strides: vec![2, 2],
        dilations: vec![],
        padding: Padding::SameUpper,
    };
    let pooling = Pooling::Average { count_padding: true };
    let pool =
        graph.add_node("pool", Op::Pool { pooling, window, rounding: Rounding::Down }, &[relu]);
    let axes = SoftmaxAxes::From(1);
    let shares =
        graph.add_node("shares", Op::Softmax { function: Softmax::Softmax, axes }, &[pool]);
    let clip = graph.add_node("clip", Op::Clip { low: Some(0.01), high: None }, &[shares]);
    let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[clip]);
    let w = constant(&mut graph, "", &[36, 3]);
    let y = graph.add_node("product", Op::MatMul, &[flat, w]);
    graph.add_output(y);
    graph
}

#[test]
fn written_graphs_are_read_back_unchanged() {
    let graph = network();
    let values: Vec<f32> = (0..144).map(|k| (k as f32 * 0.7).sin()).collect();
    let x = Tensor::from_slice(&values, &[2, 2, 6, 6], &Device::Cpu).unwrap();
    let bytes = graph.to_onnx().unwrap();
    let read = Graph::from_onnx(&bytes).unwrap();
    assert_eq!(run(&read, &x), run(&graph, &x));
    assert_eq!(read.to_onnx().unwrap(), bytes);
    assert_eq!(
        (read.name(), read.metadata("who"), read.metadata("what")),
        ("written", Some("me"), None)
    );
    let names: Vec<&str> = read.nodes().iter().map(|node| node.name.as_str()).collect();
    for node in graph.nodes() {
        assert!(names.contains(&node.name.as_str()), "{} of {names:?}", node.name);
    }
}

/// The old softmax is written as rows and back, and sizes of 0 are sizes.
#[test]
fn empty_tensors_keep_their_shape() {
    let mut graph = Graph::new("empty");
    let x = input(&mut graph, &[5, 0, 0, 1]);
    let op = Op::Softmax { function: Softmax::LogSoftmax, axes: SoftmaxAxes::From(1) };
    let y = graph.add_node("shares", op, &[x]);
    graph.add_output(y);
    let read = Graph::from_onnx(&graph.to_onnx().unwrap()).unwrap();
    let x = Tensor::zeros(&[2, 5, 0, 0, 1], DType::F32, &Device::Cpu).unwrap();
    for graph in [graph, read] {
        let y = Runner::new(graph, &Device::Cpu).unwrap().run(vec![x.clone()]).unwrap();
        assert_eq!(y[0].shape(), [2, 5, 0, 0, 1]);
    }
}

/// Values with more axes than can be declared are read without their shape.
#[test]
fn many_axes_are_not_declared() {
    let mut graph = Graph::new("axes");
    let x = input(&mut graph, &[1; 39]);
    let y = graph.add_node("y", Op::Unary(Unary::Neg), &[x]);
    graph.add_output(y);
    let read = Graph::from_onnx(&graph.to_onnx().unwrap()).unwrap();
    assert_eq!(read.value(read.inputs()[0]).unwrap().shape, None);
    assert_eq!(graph.value(x).unwrap().shape.as_ref().map(Vec::len), Some(40));
}

#[test]
fn files_are_written() {
    let path = std::env::temp_dir().join(format!("aleatron-written-{}.onnx", std::process::id()));
    network().write_onnx(&path).unwrap();
    let read = Graph::read_onnx(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read.with_name("written").to_onnx().unwrap(), network().to_onnx().unwrap());
    let error = network().write_onnx("/no such folder/written.onnx").unwrap_err();
    assert!(matches!(error, Error::File { .. }), "{error}");
}

#[test]
fn value_without_a_node_is_an_error() {
    let mut graph = Graph::new("broken");
    let x = input(&mut graph, &[3]);
    let lost = graph.add_value(Value { name: "lost".to_owned(), ..Value::default() });
    let y = graph.add_node("sum", Op::Binary(Binary::Add), &[x, lost]);
    graph.add_output(y);
    let error = graph.to_onnx().unwrap_err();
    assert!(matches!(error, Error::Node { ref name, .. } if name == "sum"), "{error}");
}

#[test]
fn rounding_stays_within_its_bound() {
    // Sums of many products whose order matters, in 32 bits and in 64.
    let mut graph = Graph::new("sums");
    let x = input(&mut graph, &[300]);
    let w = constant(&mut graph, "w", &[300, 4]);
    let product = graph.add_node("product", Op::MatMul, &[x, w]);
    let y = graph.add_node("tanh", Op::Unary(Unary::Tanh), &[product]);
    graph.add_output(y);
    let values: Vec<f32> = (0..300).map(|k| (k as f32).cos() / 30.0).collect();
    let input = Tensor::from_slice(&values, &[1, 300], &Device::Cpu).unwrap();
    let weights = graph.constant(w).unwrap().to_vec::<f32>().unwrap();
    let exact: Vec<f64> = (0..4)
        .map(|j| {
            (0..300)
                .map(|i| f64::from(values[i]) * f64::from(weights[i * 4 + j]))
                .sum::<f64>()
                .tanh()
        })
        .collect();
    let bound = graph.rounding_bound(std::slice::from_ref(&input)).unwrap().unwrap();
    for ((made, exact), bound) in run(&graph, &input).iter().zip(&exact).zip(&bound) {
        let error = (f64::from(*made) - exact).abs();
        assert!(error <= *bound, "{error} is more than {bound}");
        assert!(*bound < 1e-3, "a bound that says nothing: {bound}");
    }
}

#[test]
fn some_operators_have_no_bound() {
    let mut graph = Graph::new("normal");
    let x = input(&mut graph, &[4]);
    let scale = constant(&mut graph, "scale", &[4]);
    let y = graph.add_node("norm", Op::LayerNormalization { axis: -1, epsilon: 1e-5 }, &[x, scale]);
    graph.add_output(y);
    let input = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[1, 4], &Device::Cpu).unwrap();
    assert_eq!(graph.rounding_bound(&[input]).unwrap(), None);
}
