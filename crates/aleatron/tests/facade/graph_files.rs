//! Graph networks as files, and chains of layers as graphs.
#![cfg(feature = "graph")]

use crate::graph::numbers;
use aleatron::arithmetic::{Border, Pool, PoolKind};
use aleatron::data::Dataset;
use aleatron::eval::{Plan, evaluate};
use aleatron::graph::{Calibration, Graph, GraphNetwork, InputScale, Mode, Op, WeightScale};
use aleatron::network::{Activation, FeatureMap, Layer, Network, StreamConfig};
use aleatron::{Cancel, ConvShape, Convolution, EngineError, Polarity};
use aleatron_graph::onnx::proto;
use aleatron_graph::{Dim, Value};
use aleatron_tensor::{DType, Device, Tensor};
use prost::Message;

/// The network as a graph, whose floats are those of the network, within the bound of rounding.
fn same_as_graph(network: &Network, features: &[f64]) -> GraphNetwork {
    let graph = network.to_graph().unwrap();
    let shape = [&[features.len() / network.n_features()], graph.sample_shape()].concat();
    let narrow: Vec<f32> = features.iter().map(|&x| x as f32).collect();
    let input = Tensor::from_slice(&narrow, &shape, &Device::Cpu).unwrap();
    let bound = graph.graph().rounding_bound(&[input]).unwrap().unwrap();
    let (floats, exact) = (graph.forward(features).unwrap(), network.forward(features).unwrap());
    assert_eq!(floats.len(), exact.len());
    for ((float, exact), bound) in floats.iter().zip(&exact).zip(&bound) {
        assert!((float - exact).abs() <= *bound, "{float} instead of {exact}, by more than {bound}");
        assert!(*bound < 0.1, "a bound that says nothing: {bound}");
    }
    graph
}

#[test]
fn a_chain_of_layers_is_a_graph() {
    let digits = Dataset::digits_test();
    for network in [
        Network::digits_noise_aware().unwrap(),
        Network::digits_plain().unwrap(),
        Network::digits_cnn().unwrap(),
    ] {
        let graph = same_as_graph(&network, digits.features());
        for (own, layer) in graph.layers().iter().zip(network.layers()) {
            assert_eq!(own.name, layer.name());
            assert_eq!((own.polarity, own.input_scale), (layer.polarity(), layer.input_scale()));
            assert_eq!(own.weight_scales, [layer.weight_scale()]);
        }
    }
}

#[test]
fn files_keep_how_layers_run() {
    let network = Network::digits_cnn().unwrap().to_graph().unwrap();
    let digits = Dataset::digits_train();
    let percentile = Calibration { inputs: InputScale::Percentile(0.9), weights: WeightScale::PerRow };
    let network = network.calibrated(digits.features(), &percentile).unwrap();
    let network = network.with_mode("conv1", Mode::Binary).unwrap().with_name("kept");
    let read = GraphNetwork::from_onnx(&network.to_onnx().unwrap()).unwrap();
    assert_eq!((read.name(), read.layers()), ("kept", network.layers()));
    let path = std::env::temp_dir().join(format!("aleatron-kept-{}.onnx", std::process::id()));
    network.save_onnx(&path).unwrap();
    let loaded = GraphNetwork::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(loaded.layers(), network.layers());
    let config = StreamConfig::new(32);
    let sample = &digits.features()[..64];
    assert_eq!(
        loaded.to_streams(&config).unwrap().forward(sample, 0).unwrap(),
        network.to_streams(&config).unwrap().forward(sample, 0).unwrap()
    );
    let cancelled = network.forward_unless(sample, Cancel::when(&|| true)).unwrap_err();
    assert!(matches!(cancelled, EngineError::Core(aleatron::CoreError::Cancelled)), "{cancelled}");
}

#[test]
fn convolutions_and_pools_of_a_chain_are_those_of_the_graph() {
    let wide = |n: usize, seed: u64| numbers(n, seed).into_iter().map(f64::from).collect::<Vec<f64>>();
    let chain = |convolution: Convolution, pools: &[Pool]| {
        let shape = ConvShape::new(convolution).unwrap();
        let mut image = Layer::convolution("image", shape, wide(shape.n_weights(), 5))
            .with_bias(wide(shape.n_channels(), 6))
            .with_polarity(Polarity::Signed)
            .with_activation(Activation::Clamp { low: -0.75, high: 1.5 });
        for pool in pools {
            image = image.with_pool(*pool).unwrap();
        }
        let n = image.n_outputs();
        let last = Layer::new("last", n, wide(3 * n, 7));
        Network::new("chain", FeatureMap { offset: 0.5, scale: 2.0 }, vec![image, last]).unwrap()
    };
    let image = Convolution::conv2d([4, 9, 7], 6, [3, 2])
        .with_stride([2, 1])
        .with_paddings([[1, 0], [2, 1]])
        .with_dilation([1, 2])
        .with_groups(2);
    let pools = [
        Pool::new(PoolKind::Average, [2, 2])
            .with_stride([1, 1])
            .with_paddings([[1, 1], [0, 1]], Border::Zeros),
        Pool::new(PoolKind::Average, [2, 2])
            .with_stride([1, 2])
            .with_paddings([[1, 0], [0, 1]], Border::LeftOut),
        Pool::new(PoolKind::Max, [2, 1]).with_paddings([[1, 0], [0, 0]], Border::LeftOut),
    ];
    let sequence = Convolution::conv1d([3, 20], 4, 5).with_stride([1, 2]);
    for network in [chain(image, &pools), chain(image, &[]), chain(sequence, &[])] {
        let graph = same_as_graph(&network, &wide(5 * network.n_features(), 8));
        assert_eq!(graph.layers().len(), 2);
    }
}

/// A file with a product of the second half of its samples of six numbers.
fn second_half() -> Vec<u8> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let node = |op: &str, inputs: &[&str], outputs: &[&str]| proto::NodeProto {
        input: names(inputs),
        output: names(outputs),
        name: Some(op.to_owned()),
        op_type: Some(op.to_owned()),
        ..proto::NodeProto::default()
    };
    let value = |name: &str, size: i64| {
        let dim = |dim_value, dim_param| proto::DimensionProto { dim_value, dim_param };
        let shape =
            proto::TensorShapeProto { dim: vec![dim(None, Some("n".to_owned())), dim(Some(size), None)] };
        let tensor_type = Some(proto::TensorTypeProto { elem_type: Some(1), shape: Some(shape) });
        let r#type = Some(proto::TypeProto { tensor_type, ..proto::TypeProto::default() });
        proto::ValueInfoProto { name: Some(name.to_owned()), r#type }
    };
    let axis = proto::AttributeProto {
        name: Some("axis".to_owned()),
        i: Some(1),
        ..proto::AttributeProto::default()
    };
    let weights = proto::TensorProto {
        dims: vec![3, 2],
        data_type: Some(1),
        name: Some("w".to_owned()),
        float_data: vec![0.5, -0.5, 0.25, 1.0, 0.75, -1.0],
        ..proto::TensorProto::default()
    };
    let split = proto::NodeProto { attribute: vec![axis], ..node("Split", &["x"], &["a", "b"]) };
    let graph = proto::GraphProto {
        node: vec![split, node("MatMul", &["b", "w"], &["y"])],
        name: Some("half".to_owned()),
        initializer: vec![weights],
        input: vec![value("x", 6)],
        output: vec![value("y", 2)],
        ..proto::GraphProto::default()
    };
    let opset = proto::OperatorSetIdProto { domain: None, version: Some(17) };
    let model = proto::ModelProto {
        ir_version: Some(10),
        graph: Some(graph),
        opset_import: vec![opset],
        ..proto::ModelProto::default()
    };
    model.encode_to_vec()
}

/// What a node makes beside its first value has a shape that only a run shows: products of it are checked when they run.
#[test]
fn products_of_second_values_are_evaluated() {
    let network = GraphNetwork::from_onnx(&second_half()).unwrap();
    let features: Vec<f64> = numbers(24, 3).into_iter().map(f64::from).collect();
    let data = Dataset::new("halves", 6, features, vec![0, 1, 0, 1]).unwrap();
    let plan = Plan { lengths: vec![64], generators: vec!["sobol".parse().unwrap()], ..Plan::default() };
    let found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
    assert_eq!((found.cells.len(), found.network.layers), (1, vec!["MatMul".to_owned()]));
}

/// A file of some bytes may say that a sample has any number of features: that is an error before there is memory for them.
#[test]
fn samples_that_fit_nowhere_are_errors() {
    for shape in [vec![1, 1 << 44], vec![1 << 44, 1], vec![1, 1 << 32, 1 << 32], vec![1 << 63, 1 << 63, 2]] {
        let mut graph = Graph::new("large");
        let shape = Some(shape.into_iter().map(Dim::Fixed).collect());
        let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
        let y = graph.add_node("y", Op::Identity, &[x]);
        graph.add_output(y);
        let error = GraphNetwork::new(graph).unwrap_err();
        assert!(matches!(error, EngineError::Core(aleatron::CoreError::Memory { .. })), "{error}");
    }
}
