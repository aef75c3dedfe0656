//! Networks as ONNX files: round trips, file names, metadata, and options for loading.

use crate::support::{
    cnn, config, constant, dense, features, gemm, graph, message, small, temporary,
};
use aleatron_core::arithmetic::{Activation, Border, Pool, PoolKind};
use aleatron_core::{Convolution, Polarity};
use aleatron_data::Dataset;
use aleatron_engine::Error;
use aleatron_engine::network::{
    Arithmetic, Bindings, Calibration, Graph, InputScale, InputValue, Mode, Network,
    NetworkBuilder, Op, StreamConfig, WeightScale,
};
use aleatron_graph::op::{Dims, NoAxes, Reduction};
use aleatron_graph::{Binary, Dim, Unary, Value};
use aleatron_tensor::{DType, Device, Tensor};

/// Returns a network with every setting of a layer, activations, pools and a map of features.
fn varied() -> Network {
    let image = Convolution::conv2d([1, 4, 4], 2, [3, 3]).with_padding([1, 1]);
    NetworkBuilder::new("varied", &[1, 4, 4])
        .features(&[0.5], &[4.0])
        .convolution("a", image, &features(18, 1), &[0.25, -0.5])
        .polarity(Polarity::Bipolar)
        .input_scale(3.0)
        .weight_scale(2.0)
        .activation(Activation::Relu)
        .pool(Pool::new(PoolKind::Average, [2, 2]).with_paddings([[1, 0], [0, 0]], Border::Zeros))
        .dense("b", 8, &features(24, 2).iter().map(|w| w.abs()).collect::<Vec<_>>(), &[])
        .polarity(Polarity::Unipolar)
        .activation(Activation::Clamp { low: -1.0, high: 2.0 })
        .dense("c", 3, &features(6, 3), &[0.125, 0.0])
        .build()
        .unwrap()
}

#[test]
fn saved_network_round_trips() {
    let folder = temporary("saved");
    for network in
        [varied(), small(), cnn(), Network::digits_plain().unwrap(), Network::digits_cnn().unwrap()]
    {
        let path = folder.join("net.onnx");
        network.save(&path).unwrap();
        let read = Network::load(&path).unwrap();
        // A network has the name of its file.
        assert_eq!((read.name(), read.layers()), ("net", network.layers()));
        assert!(read.clone().with_name(network.name()) == network, "{}", network.name());
        assert!(
            read != network && Network::from_onnx(&network.to_onnx().unwrap()).unwrap() == network
        );
        let x: Vec<f64> = features(3 * network.n_features(), 4).iter().map(|x| x.abs()).collect();
        assert_eq!(read.forward(&x).unwrap(), network.forward(&x).unwrap());
        let [a, b] = [&read, &network].map(|network| {
            network.to_streams(&StreamConfig::new(32)).unwrap().forward(&x, 7).unwrap()
        });
        assert_eq!(a, b, "{}", network.name());
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn saved_network_preserves_layer_settings() {
    let digits = Dataset::digits_train();
    let percentile =
        Calibration { inputs: InputScale::Percentile(0.9), weights: WeightScale::PerRow };
    let network =
        Network::digits_cnn().unwrap().calibrated(digits.features(), &percentile).unwrap();
    let network = network.with_mode("conv1", Mode::Binary).unwrap().with_name("kept");
    let read = Network::from_onnx(&network.to_onnx().unwrap()).unwrap();
    assert_eq!((read.name(), read.layers()), ("kept", network.layers()));
    assert!(read == network && read != network.with_mode("conv1", Mode::Streams).unwrap());
}

/// The path is the name of the file, including every dot; a folder at the path is an error that
/// leaves no file behind.
#[test]
fn file_is_written_under_exactly_its_name() {
    let folder = temporary("names");
    let [first, second] = [small(), Network::digits_plain().unwrap()];
    for (name, network) in [("model.v1", &first), ("model.v2", &second), ("lr0.01.onnx", &first)] {
        network.save(folder.join(name)).unwrap();
    }
    for (file, name, network) in [
        ("model.v1", "model.v1", &first),
        ("model.v2", "model.v2", &second),
        ("lr0.01.onnx", "lr0.01", &first),
    ] {
        let read = Network::load(folder.join(file)).unwrap();
        assert_eq!((read.name(), read.layers()), (name, network.layers()));
    }
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["lr0.01.onnx", "model.v1", "model.v2"]);
    // Saving over a file replaces it; a path of a folder is an error with the path.
    second.save(folder.join("model.v1")).unwrap();
    assert_eq!(Network::load(folder.join("model.v1")).unwrap().layers(), second.layers());
    for (path, part) in [(folder.join(""), "names"), (folder.join("missing/net.onnx"), "missing")] {
        let error = message(first.save(&path));
        assert!(error.contains(part), "{error}");
        assert!(matches!(first.save(&path), Err(Error::File { .. })));
    }
    let error = message(Network::load(folder.join("none.onnx")));
    assert!(error.contains("none.onnx") && error.contains("No such file"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn metadata_of_layers_is_checked() {
    let plain = dense();
    let with = |text: &str| {
        let graph = plain.graph().clone().with_metadata("aleatron.layers", text);
        Network::from_onnx(&graph.to_onnx().unwrap())
    };
    let note = |name: &str, runs: &str, polarity: &str, input: f64, weights: &str| {
        format!(
            r#"[{{"name": "{name}", "runs_as": "{runs}", "polarity": "{polarity}", "input_scale": {input}, "weight_scales": {weights}}}]"#
        )
    };
    let read = with(&note("fc", "binary", "bipolar", 2.0, "[3.0]")).unwrap();
    let layer = &read.layers()[0];
    assert_eq!(
        (layer.mode, layer.polarity, layer.input_scale),
        (Mode::Binary, Polarity::Bipolar, 2.0)
    );
    assert_eq!((layer.weight_scale(0), layer.weight_scale(3)), (3.0, 3.0));
    let each = with(&note("fc", "streams", "signed", 1.0, "[1.0, 2.0, 3.0, 4.0]")).unwrap();
    assert_eq!((each.layers()[0].weight_scale(2), each.layers()[0].mode), (3.0, Mode::Streams));
    for (text, part) in [
        (note("other", "streams", "signed", 1.0, "[1.0]"), "there is no layer \"other\""),
        (note("fc", "streams", "signed", 1.0, "[1.0, 2.0]"), "weight scale: expected 4, got 2"),
        (note("fc", "streams", "signed", 1.0, "[]"), "weight scale: expected 4, got 0"),
        (note("fc", "streams", "signed", 0.0, "[1.0]"), "input scale is 0, not positive"),
        (note("fc", "streams", "signed", 1.0, "[-1.0]"), "weight scale is -1, not positive"),
        (note("fc", "streams", "unipolar", 1.0, "[1.0]"), "weight at index"),
        (note("fc", "streams", "signed", 1.0, "[0.001]"), "weight at index"),
        (note("fc", "streams", "tripolar", 1.0, "[1.0]"), "tripolar"),
        (note("fc", "water", "signed", 1.0, "[1.0]"), "water"),
        ("[".to_owned(), "aleatron.layers"),
        (
            note("fc", "streams", "signed", 1.0, "[1.0]").replace("input_scale", "scale"),
            "unknown field `scale`",
        ),
    ] {
        let error = message(with(&text));
        assert!(
            error.starts_with("metadata \"aleatron.layers\": ") && error.contains(part),
            "{text}: {error}"
        );
    }
}

/// Returns a graph with two inputs, a symbolic size, and two outputs.
fn with_choices() -> Vec<u8> {
    let mut graph = Graph::new("choices");
    let mut input = |name: &str, dtype: DType, sizes: &[&str]| {
        let shape = Some(sizes.iter().map(|size| Dim::Named((*size).to_owned())).collect());
        graph.add_input(Value { name: name.to_owned(), dtype: Some(dtype), shape })
    };
    let (x, mask) =
        (input("x", DType::F32, &["n", "width"]), input("mask", DType::I64, &["n", "width"]));
    let cast = graph.add_node("cast", Op::Cast(DType::F32), &[mask]);
    let masked = graph.add_node("masked", Op::Binary(Binary::Mul), &[x, cast]);
    let op = Op::Reduce {
        reduction: Reduction::Mean,
        axes: Some(vec![1]),
        reduced: Dims::Keep,
        no_axes: NoAxes::All,
    };
    let mean = graph.add_node("mean", op, &[masked]);
    let w = constant(&mut graph, "w", &[3, 1], 1);
    let fc = graph.add_node("fc", gemm(), &[mean, w]);
    let v = constant(&mut graph, "v", &[3, 2], 2);
    let last = graph.add_node("last", Op::MatMul, &[fc, v]);
    graph.add_output(last);
    graph.add_output(fc);
    // Settings of both layers, of which one may not be needed.
    let note = |name: &str| {
        format!(
            r#"{{"name": "{name}", "runs_as": "streams", "polarity": "signed", "input_scale": 2.0, "weight_scales": [1.0]}}"#
        )
    };
    graph
        .with_metadata("aleatron.layers", format!("[{}, {}]", note("fc"), note("last")))
        .to_onnx()
        .unwrap()
}

#[test]
fn inputs_sizes_and_outputs_are_selected_at_loading() {
    let bytes = with_choices();
    let width = |bindings: &mut Bindings| bindings.sizes.extend([("width".to_owned(), 4)]);
    let load = |change: &dyn Fn(&mut Bindings)| {
        let mut bindings = Bindings::default();
        change(&mut bindings);
        Network::from_onnx_with(&bytes, &bindings)
    };
    // Without a size, the error states the option for it.
    let error = message(load(&|_| ()));
    assert!(
        error.contains(
            "input \"x\" has shape [n, width]: give the size of axis 1 with --shape width=SIZE"
        ),
        "{error}"
    );
    let both = load(&width).unwrap();
    assert_eq!((both.n_features(), both.n_outputs(), both.layers().len()), (8, 2, 2));
    assert_eq!(both.graph().outputs().len(), 1);
    let fixed = load(&|bindings| {
        width(bindings);
        bindings.constants.insert("mask".to_owned(), InputValue::Fill(1.0));
    })
    .unwrap();
    assert_eq!((fixed.n_features(), fixed.inputs()[0].name.as_str()), (4, "x"));
    let x = features(5 * 4, 3);
    let masked: Vec<f64> = x.chunks(4).flat_map(|x| [x, &[1.0; 4]].concat()).collect();
    assert_eq!(fixed.forward(&x).unwrap(), both.forward(&masked).unwrap());
    for arithmetic in Arithmetic::ALL {
        let config = config(64, "bernoulli").arithmetic(arithmetic);
        let [a, b] = [(&fixed, &x), (&both, &masked)]
            .map(|(network, x)| network.to_streams(&config).unwrap().forward(x, 3).unwrap());
        assert_eq!(a, b, "{arithmetic}");
    }
    let mask = Tensor::from_slice(&[1_i64, 0, 1, 0], &[4], &Device::Cpu).unwrap();
    let partly = load(&|bindings| {
        width(bindings);
        bindings.constants.insert("mask".to_owned(), InputValue::Tensor(mask.clone()));
        bindings.output = Some("fc_output".to_owned());
    })
    .unwrap();
    assert_eq!(
        (partly.n_outputs(), partly.layers().len(), partly.layers()[0].input_scale),
        (3, 1, 2.0)
    );
    let mut zeroed = x.clone();
    zeroed.iter_mut().skip(1).step_by(2).for_each(|x| *x = 0.0);
    assert_eq!(partly.forward(&x).unwrap(), partly.forward(&zeroed).unwrap());
    // A network with selected options is saved with them.
    let read = Network::from_onnx(&partly.to_onnx().unwrap()).unwrap();
    assert_eq!((read.n_features(), read.layers()), (4, partly.layers()));
    for (change, part) in [
        (
            &(|b: &mut Bindings| b.sizes.extend([("height".to_owned(), 4)]))
                as &dyn Fn(&mut Bindings),
            "size \"height\"",
        ),
        (&|b: &mut Bindings| b.output = Some("scores".to_owned()), "output \"scores\""),
        (
            &|b: &mut Bindings| drop(b.constants.insert("y".to_owned(), InputValue::Fill(0.0))),
            "no input \"y\"",
        ),
    ] {
        let error = message(load(change));
        assert!(error.contains(part), "{error}");
    }
}

/// The network has the first output of the graph; other outputs, and inputs that only they need,
/// are excluded.
#[test]
fn network_has_the_first_output_of_a_graph() {
    let mut built = graph(&[3], |graph, x| {
        let w = constant(graph, "w", &[2, 3], 1);
        graph.add_node("fc", gemm(), &[x, w])
    });
    let shape = Some(vec![Dim::Named("n".to_owned()), Dim::Fixed(2)]);
    let other = built.add_input(Value { name: "other".to_owned(), dtype: Some(DType::F32), shape });
    let second = built.add_node("second", Op::Unary(Unary::Relu), &[other]);
    built.add_output(second);
    let network = Network::new(built).unwrap();
    assert_eq!(
        (network.n_features(), network.n_outputs(), network.graph().nodes().len()),
        (3, 2, 1)
    );
}

#[test]
fn graphs_without_inputs_outputs_or_samples_are_errors() {
    let with = |shape: Option<Vec<Dim>>, output: bool| {
        let mut graph = Graph::new("g");
        let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
        let y = graph.add_node("y", Op::Identity, &[x]);
        if output {
            graph.add_output(y);
        }
        message(Network::new(graph))
    };
    let sizes = |sizes: &[usize]| Some(sizes.iter().copied().map(Dim::Fixed).collect::<Vec<_>>());
    assert!(
        with(sizes(&[]), true).contains(
            "input \"x\" has no axis of samples: give it a constant with --input x=VALUE"
        )
    );
    assert!(with(None, true).contains("input \"x\" has no axis of samples"));
    assert!(with(sizes(&[0, 3]), true).contains("a run takes no samples"));
    assert!(with(sizes(&[2, 0]), true).contains("which are empty"));
    assert!(with(Some(vec![Dim::Unknown, Dim::Unknown]), true).contains("--shape x.1=SIZE"));
    assert!(with(Some(vec![Dim::Unknown, Dim::Fixed(2)]), false).contains("it has no output"));
    let mut empty = Graph::new("empty");
    let c = empty.add_constant("c", Tensor::from_slice(&[1.0_f32], &[1], &Device::Cpu).unwrap());
    empty.add_output(c);
    assert!(message(Network::new(empty)).contains("it has no inputs"));
}

#[test]
fn bytes_that_are_not_a_network_are_errors() {
    let bytes = small().to_onnx().unwrap();
    assert!(Network::from_onnx(&bytes).is_ok());
    for cut in [0, 10, bytes.len() / 2, bytes.len() - 1] {
        assert!(Network::from_onnx(&bytes[..cut]).is_err(), "{cut}");
    }
    assert!(matches!(Network::from_onnx(b"{}"), Err(Error::Graph(_))));
}
