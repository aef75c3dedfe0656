//! Graphs in detail: scales, runs of a fixed size, errors of products, what files may say of layers, and faults by name.
#![cfg(feature = "graph")]

use crate::graph::{cnn, dense, features, input, numbers};
use aleatron::data::Dataset;
use aleatron::eval::{Plan, evaluate};
use aleatron::generator::Width;
use aleatron::graph::{Calibration, Graph, GraphNetwork, InputScale, Mode, Op, Statistics, WeightScale};
use aleatron::network::{Detail, FeatureMap, Layer, Network, StreamConfig};
use aleatron::{Cancel, CoreError, EngineError, Error, Polarity, Quantity};
use aleatron_graph::op::{Softmax, SoftmaxAxes};
use aleatron_graph::{Dim, Unary, Value};
use aleatron_tensor::{DType, Device, Tensor};

/// A dense layer and its graph, with scales other than 1.
fn scaled(polarity: Polarity) -> (Network, GraphNetwork) {
    let weights: Vec<f64> = numbers(12, 9).iter().map(|&w| f64::from(w) * 3.0).collect();
    let layer = Layer::new("fc", 4, weights)
        .with_bias(vec![0.5, -0.25, 2.0])
        .with_polarity(polarity)
        .with_input_scale(0.5);
    let network = Network::new("n", FeatureMap::IDENTITY, vec![layer]).unwrap();
    let graph = network.to_graph().unwrap();
    (network, graph)
}

/// The same bits as a chain of layers, with all its scales; and the same errors of counts, but for the rounding of 32 bits.
#[test]
fn a_graph_counts_and_errs_as_its_layers_do() {
    for polarity in [Polarity::Signed, Polarity::Bipolar] {
        let (network, graph) = scaled(polarity);
        // A third of the inputs saturate. More than one piece of samples.
        let x: Vec<f64> = features(300 * 4, 5).iter().map(|x| 0.75 * x).collect();
        let config = StreamConfig::new(64).seed(3).range(aleatron::network::FeatureRange::Clip);
        let detail = Detail { statistics: true, ..Detail::default() };
        let expected = network.to_streams(&config).unwrap().run(&x, 7, detail, Cancel::NEVER).unwrap();
        let streams = graph.to_streams(&config).unwrap();
        let found = streams.run(&x, 7, Statistics::Found, Cancel::NEVER).unwrap();
        assert_eq!(found.scores.len(), 900);
        for (a, b) in found.scores.iter().zip(&expected.scores) {
            assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{a} {b}");
        }
        let (stats, other) = (found.statistics[0], expected.statistics[0]);
        assert_eq!((stats.counts, stats.saturated), (900, expected.clipped));
        assert!(stats.saturated > 300);
        for (a, b) in [
            (stats.mean_value, other.mean_value),
            (stats.worst_value, other.worst_value),
            (stats.mean_count, other.mean_count),
            (stats.worst_count, other.worst_count),
        ] {
            assert!(b > 0.0 && (a - b).abs() <= 1e-4 * b, "{a} {b}");
        }
        let without = streams.run(&x, 7, Statistics::LeftOut, Cancel::NEVER).unwrap();
        assert_eq!((without.scores, without.statistics[0].counts), (found.scores.clone(), 0));
        let classes: Vec<usize> = found.scores.chunks(3).map(aleatron::network::top_class).collect();
        assert_eq!(streams.predict(&x, 7).unwrap(), classes);
        assert!(found.elapsed > std::time::Duration::ZERO);
    }
}

/// Where a graph fixes the samples of a run, the last run is filled up, and nobody sees it.
#[test]
fn runs_of_a_fixed_size_are_filled_up() {
    let of_size = |size: Dim| {
        let mut graph = Graph::new("fixed");
        let shape = Some(vec![size, Dim::Fixed(6)]);
        let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
        // Eighths, whose sums are exact in any order.
        let weights: Vec<f32> = (0..24).map(|k| (k * 7 % 17) as f32 / 8.0 - 1.0).collect();
        let w = Tensor::from_slice(&weights, &[6, 4], &Device::Cpu).unwrap();
        let w = graph.add_constant("w", w);
        let y = graph.add_node("fc", Op::MatMul, &[x, w]);
        graph.add_output(y);
        GraphNetwork::new(graph).unwrap()
    };
    let (fixed, free) = (of_size(Dim::Fixed(3)), of_size(Dim::Unknown));
    assert_eq!((fixed.n_outputs(), fixed.n_classes(), fixed.sample_shape()), (4, 4, &[6][..]));
    for n in [0, 1, 3, 4, 7] {
        let x: Vec<f64> = (0..n * 6).map(|k| (k * 5 % 13) as f64 / 8.0 - 0.75).collect();
        assert_eq!(fixed.forward(&x).unwrap(), free.forward(&x).unwrap(), "{n}");
        assert_eq!(fixed.predict(&x).unwrap().len(), n);
        let config = StreamConfig::new(32);
        let [a, b] = [&fixed, &free].map(|network| network.to_streams(&config).unwrap());
        assert_eq!(a.forward(&x, 5).unwrap(), b.forward(&x, 5).unwrap(), "{n}");
    }
}

#[test]
fn faults_name_what_is_wrong() {
    let network = dense();
    let mut x = features(3 * 6, 1);
    x[6 + 4] = f64::INFINITY;
    let error = network.forward(&x).unwrap_err();
    assert!(matches!(error, EngineError::Feature { sample: 1, feature: 4, .. }), "{error}");
    // Unipolar streams: the first negative weight, and the scale of its row, the second of three.
    let rows = Layer::new("fc", 2, vec![0.25, 0.5, -0.75, 2.0, 4.0, 1.0]);
    let rows = Network::new("n", FeatureMap::IDENTITY, vec![rows]).unwrap().to_graph().unwrap();
    let rows = rows.calibrated(&[1.0; 2], &Calibration::default()).unwrap();
    let (first, weight, scale) = (2, -0.75, 2.0);
    match rows.with_polarity(Polarity::Unipolar).unwrap_err() {
        EngineError::Layer { layer: 0, name, source } => {
            let expected = CoreError::OutOfRange {
                what: Quantity::Weight,
                index: first,
                value: weight,
                low: 0.0,
                high: scale,
            };
            assert_eq!((name.as_str(), source.to_string()), ("fc", Error::from(expected).to_string()));
        }
        other => panic!("{other}"),
    }
    // A value that is no number, made on the way.
    let mut graph = Graph::new("roots");
    let x = input(&mut graph, &[2]);
    let root = graph.add_node("root", Op::Unary(Unary::Sqrt), &[x]);
    let w = graph.add_constant("w", Tensor::from_slice(&[1.0_f32, 0.5], &[2, 1], &Device::Cpu).unwrap());
    let y = graph.add_node("fc", Op::MatMul, &[root, w]);
    graph.add_output(y);
    let streams = GraphNetwork::new(graph).unwrap().to_streams(&StreamConfig::new(8)).unwrap();
    let error = streams.forward(&[0.25, 0.5, 0.5, -1.0], 0).unwrap_err();
    assert!(matches!(&error, EngineError::Layer { layer: 0, name, .. } if name == "fc"), "{error}");
    assert!(format!("{error:?}").contains("index: 3"), "{error:?}");
    // Samples past the last row there is.
    let late = network.to_streams(&StreamConfig::new(8)).unwrap();
    assert!(late.forward(&features(6, 1), u32::MAX).is_ok());
    assert!(late.forward(&features(12, 1), u32::MAX).is_err());
}

#[test]
fn scales_are_those_of_inputs_and_rows() {
    let x = features(20 * 6, 4);
    let rows = dense().calibrated(&x, &Calibration::default()).unwrap();
    let layer = &rows.layers()[0];
    for (row, weights) in layer.product.weights.chunks(6).enumerate() {
        let largest = weights.iter().fold(0.0_f32, |most, w| most.max(w.abs()));
        assert_eq!(layer.weight_scales[row], f64::from(largest));
    }
    let whole = Calibration { weights: WeightScale::Tensor, ..Calibration::default() };
    let largest = layer.weight_scales.iter().fold(0.0_f64, |most, &scale| most.max(scale));
    assert_eq!(dense().calibrated(&x, &whole).unwrap().layers()[0].weight_scales, [largest]);
    // Zeros need no scale, and what does not fit into 32 bits has none.
    assert_eq!(dense().calibrated(&[0.0; 12], &whole).unwrap().layers()[0].input_scale, 1.0);
    let error = dense().calibrated(&[1e300; 6], &whole).unwrap_err().to_string();
    assert!(error.contains("fc") && error.contains("inf"), "{error}");
    for (share, is_possible) in
        [(1.0, true), (1e-9, true), (1.0 + 1e-9, false), (-0.5, false), (f64::NAN, false)]
    {
        let inputs = InputScale::Percentile(share);
        let made = dense().calibrated(&x, &Calibration { inputs, ..whole });
        assert_eq!(made.is_ok(), is_possible, "{share}");
    }
    // A row of zeros has the scale 1.
    let mut graph = Graph::new("zeros");
    let x = input(&mut graph, &[2]);
    let w = graph
        .add_constant("w", Tensor::from_slice(&[0.0_f32, -0.5, 0.0, 0.25], &[2, 2], &Device::Cpu).unwrap());
    let y = graph.add_node("fc", Op::MatMul, &[x, w]);
    graph.add_output(y);
    assert_eq!(GraphNetwork::new(graph).unwrap().layers()[0].weight_scales, [1.0, 0.5]);
}

/// What an inspection says of products that run in binary.
#[test]
fn products_in_binary_are_no_streams_to_an_inspection() {
    let streams = |network: &GraphNetwork| {
        let nodes = network.inspect(16).unwrap().nodes;
        nodes.iter().map(|node| node.stream.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(streams(&cnn()), [true, false, false, true]);
    assert_eq!(streams(&cnn().with_mode("conv", Mode::Binary).unwrap()), [false, false, false, true]);
    assert!(cnn().to_streams(&StreamConfig::new(8)).unwrap().warnings().is_empty());
    let streams = cnn()
        .to_streams(&StreamConfig::new(255).generator("lfsr:1+lfsr:113".parse().unwrap()).width(Width::EIGHT))
        .unwrap();
    streams.forward(&features(40, 1), 0).unwrap();
    // Both layers have it; it is said once.
    assert_eq!(streams.warnings().len(), 1, "{:?}", streams.warnings());
}

/// How a file may say that products run, and what is refused.
#[test]
fn what_files_say_of_layers_is_checked() {
    let graph = dense();
    let with = |text: &str| {
        let graph = graph.graph().clone().with_metadata("aleatron.layers", text);
        GraphNetwork::from_onnx(&graph.to_onnx().unwrap())
    };
    let note = |name: &str, runs: &str, polarity: &str, input: f64, weights: &str| {
        format!(
            r#"[{{"name": "{name}", "runs_as": "{runs}", "polarity": "{polarity}", "input_scale": {input}, "weight_scales": {weights}}}]"#
        )
    };
    let read = with(&note("fc", "binary", "bipolar", 2.0, "[3.0]")).unwrap();
    let layer = &read.layers()[0];
    assert_eq!((layer.mode, layer.polarity, layer.input_scale), (Mode::Binary, Polarity::Bipolar, 2.0));
    assert_eq!((layer.weight_scale(0), layer.weight_scale(3)), (3.0, 3.0));
    let each = with(&note("fc", "streams", "signed", 1.0, "[1.0, 2.0, 3.0, 4.0]")).unwrap();
    assert_eq!((each.layers()[0].weight_scale(2), each.layers()[0].mode), (3.0, Mode::Streams));
    for (text, part) in [
        (note("other", "streams", "signed", 1.0, "[1.0]"), "there is no layer \"other\""),
        (note("fc", "streams", "signed", 1.0, "[1.0, 2.0]"), "2 scales of weights for 4 rows"),
        (note("fc", "streams", "signed", 1.0, "[]"), "0 scales of weights for 4 rows"),
        (note("fc", "streams", "signed", 0.0, "[1.0]"), "the scale 0 is not positive"),
        (note("fc", "streams", "signed", 1.0, "[-1.0]"), "the scale -1 is not positive"),
        (note("fc", "streams", "unipolar", 1.0, "[1.0]"), "no negative weights"),
        (note("fc", "streams", "tripolar", 1.0, "[1.0]"), "tripolar"),
        (note("fc", "water", "signed", 1.0, "[1.0]"), "water"),
        ("[".to_owned(), "aleatron.layers"),
    ] {
        let error = with(&text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// Numbers of 64 bits that have no place in 32.
#[test]
fn a_chain_of_large_numbers_is_no_graph() {
    let layer = Layer::new("fc", 2, vec![0.5, 1.0]).with_bias(vec![1e200]);
    let error =
        Network::new("n", FeatureMap::IDENTITY, vec![layer]).unwrap().to_graph().unwrap_err().to_string();
    assert!(error.contains("fc.bias") && error.contains("element 0"), "{error}");
    let shifted = FeatureMap { offset: 1.0, scale: 4.0 };
    let network = Network::new("n", shifted, vec![Layer::new("fc", 2, vec![0.5, 1.0])]).unwrap();
    let names: Vec<String> =
        network.to_graph().unwrap().graph().nodes().iter().map(|node| node.name.clone()).collect();
    assert_eq!(names, ["features_offset", "features_scale", "fc"]);
}

/// A softmax of one score is 1 whatever the score: nothing of it can be told early.
#[test]
fn a_softmax_of_one_score_is_not_stopped() {
    let with = |n: usize| {
        let mut graph = Graph::new("softmax");
        let x = input(&mut graph, &[2]);
        let weights: Vec<f32> = (0..2 * n).map(|k| k as f32 / 4.0 - 0.5).collect();
        let w = graph.add_constant("w", Tensor::from_slice(&weights, &[2, n], &Device::Cpu).unwrap());
        let fc = graph.add_node("fc", Op::MatMul, &[x, w]);
        let softmax = Op::Softmax { function: Softmax::Softmax, axes: SoftmaxAxes::One(-1) };
        let y = graph.add_node("softmax", softmax, &[fc]);
        graph.add_output(y);
        let network = GraphNetwork::new(graph).unwrap();
        let x = features(10 * 2, 3);
        let data = Dataset::new("d", 2, x.clone(), network.predict(&x).unwrap()).unwrap();
        let generators = vec!["sobol".parse().unwrap()];
        let plan = Plan { lengths: vec![16], generators, seeds: 1, ..Plan::default() };
        evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap()
    };
    assert!(with(1).cells[0].early.is_empty());
    let two = with(2);
    assert_eq!((two.cells[0].early.is_empty(), two.cells[0].certain), (false, None));
}
