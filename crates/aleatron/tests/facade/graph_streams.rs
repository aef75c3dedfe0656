//! Graphs as streams beside what they are made of: networks of layers, single layers, and floats.
#![cfg(feature = "graph")]

use crate::graph::{constant, features, gemm, input, window};
use aleatron::data::Dataset;
use aleatron::eval::{Evaluation, Job, Losses, Plan, Task, evaluate, find_losses, report};
use aleatron::graph::{Calibration, Graph, GraphNetwork, Mode, NetworkShape, Op, Statistics};
use aleatron::network::{Activation, Arithmetic, FeatureMap, Layer, Network, StreamConfig};
use aleatron::{Cancel, CoreError, Device, EngineError, Polarity, SampleSeed, StreamLayer};
use aleatron_graph::op::{NoAxes, Reduced, Reduction};
use aleatron_graph::{Dim, Unary, Value};
use aleatron_tensor::{DType, Device as TensorDevice, Tensor};
use std::borrow::Cow;

fn plan(generators: &[&str], lengths: &[usize]) -> Plan {
    Plan { seeds: 1, ..crate::plan(generators, lengths) }
}

fn digits(n: usize) -> Dataset {
    let all = Dataset::digits_test();
    Dataset::new("some", 64, all.features()[..64 * n].to_vec(), all.labels()[..n].to_vec()).unwrap()
}

/// Two layers, the second of which has scales of its own.
fn scaled() -> Network {
    let first = Layer::new("first", 8, features(64, 1)).with_activation(Activation::Relu);
    let twice = features(32, 2).iter().map(|weight| 2.0 * weight).collect();
    let last = Layer::new("last", 8, twice).with_input_scale(4.0).with_weight_scale(2.0);
    Network::new("scaled", FeatureMap::IDENTITY, vec![first, last]).unwrap()
}

fn eights(n: usize) -> Dataset {
    Dataset::new("eights", 8, features(8 * n, 5), (0..n).map(|k| k % 4).collect()).unwrap()
}

/// Stops are those of the layers: both find the same leads, the same noise, and the same cycles until a class is certain.
#[test]
fn a_graph_stops_where_its_layers_do() {
    let digits_network = Network::digits_noise_aware().unwrap();
    for (network, arithmetic) in [
        (&digits_network, Arithmetic::Float),
        (&digits_network, Arithmetic::Integer),
        (&scaled(), Arithmetic::Float),
        (&scaled(), Arithmetic::Integer),
    ] {
        let data = if network.n_features() == 64 { digits(60) } else { eights(60) };
        let graph = network.to_graph().unwrap();
        let plan = Plan { arithmetic, margins: vec![0.5, 1.5], ..plan(&["bernoulli", "sobol"], &[40, 64]) };
        let of_layers = evaluate(network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
        let found = evaluate(&graph, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
        assert_eq!((found.cells.len(), of_layers.cells.len()), (4, 4));
        // Some samples stop, and not all of them.
        let all = || found.cells.iter().flat_map(|cell| &cell.early);
        assert!(all().any(|stop| stop.stopped > 0.0) && all().any(|stop| stop.stopped < 1.0));
        for (cell, expected) in found.cells.iter().zip(&of_layers.cells) {
            let name = format!("{} {} {arithmetic}", cell.generator, cell.length);
            assert_eq!(cell.early, expected.early, "{name}");
            assert_eq!(cell.certain, expected.certain, "{name}");
            assert_eq!((cell.accuracy, cell.agreement), (expected.accuracy, expected.agreement), "{name}");
            for (layer, expected) in cell.layers.iter().zip(&expected.layers) {
                assert_eq!(layer.counts, expected.counts, "{name}");
                assert!(layer.mean_value > 0.0, "{name}");
            }
        }
    }
}

/// A sample with several rows takes as many rows of the streams, one after the other.
#[test]
fn rows_of_a_sample_are_rows_of_the_product() {
    let mut graph = Graph::new("rows");
    let x = input(&mut graph, &[3, 6]);
    let w = constant(&mut graph, "w", &[6, 4], 1);
    let y = graph.add_node("product", Op::MatMul, &[x, w]);
    graph.add_output(y);
    let network = GraphNetwork::new(graph).unwrap();
    let x = features(5 * 18, 3);
    let streams = network.to_streams(&StreamConfig::new(64).seed(5)).unwrap();
    let whole = streams.forward(&x, 7).unwrap();
    let layer = &network.layers()[0];
    let weights = layer.product.weights.iter().enumerate();
    let weights: Vec<f64> = weights.map(|(k, &w)| f64::from(w) / layer.weight_scale(k / 6)).collect();
    let alone = StreamLayer::dense(6, 4).polarity(layer.polarity).length(64).seed(5).weights(&weights);
    let rows = SampleSeed::new(5).starting_at(3 * 7);
    let sums = alone.build().unwrap().forward_batch(&x, rows).unwrap();
    let expected: Vec<f64> =
        sums.iter().enumerate().map(|(k, sum)| f64::from((sum * layer.weight_scale(k % 4)) as f32)).collect();
    assert_eq!(whole, expected);
    assert_eq!(streams.forward(&x[2 * 18..], 9).unwrap(), expected[2 * 12..]);
}

fn conv(groups: usize) -> GraphNetwork {
    let mut graph = Graph::new("conv");
    let x = input(&mut graph, &[2, 5, 4]);
    let k = constant(&mut graph, "k", &[4, 2 / groups, 3, 2], 7);
    let op = Op::Conv { window: window(&[2, 1], &[1, 0, 0, 1]), groups: groups as i64 };
    let conv = graph.add_node("conv", op, &[x, k]);
    let y = graph.add_node("flat", Op::Flatten { axis: 1 }, &[conv]);
    graph.add_output(y);
    let network = GraphNetwork::new(graph).unwrap();
    network.calibrated(&features(20 * 40, 3), &Calibration::default()).unwrap()
}

/// Errors are in units of the products: each output channel has a scale of its own.
#[test]
fn errors_of_a_product_are_over_its_scales() {
    for (groups, polarity, per_value) in [(1, Polarity::Signed, 32.0), (2, Polarity::Bipolar, 16.0)] {
        let network = conv(groups).with_polarity(polarity).unwrap();
        let x: Vec<f64> = features(20 * 40, 3);
        let streams = network.to_streams(&StreamConfig::new(32)).unwrap();
        let found = streams.run(&x, 0, Statistics::Found, Cancel::NEVER).unwrap();
        let layer = &network.layers()[0];
        // Four channels of two rows and four columns.
        let scale = |k: usize| layer.input_scale * layer.weight_scale(k / 8 % 4);
        assert!((0..4).all(|row| scale(8 * row) != scale(8 * ((row + 1) % 4))));
        let exact = network.forward(&x).unwrap();
        assert_eq!(exact.len(), 20 * 32);
        let errors: Vec<f64> =
            found.scores.iter().zip(&exact).enumerate().map(|(k, (a, b))| (a - b).abs() / scale(k)).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let worst = errors.iter().copied().fold(0.0, f64::max);
        let stats = &found.statistics[0];
        // Sums of 12 products below 1, in floats of 24 bits.
        let bound = 12.0 * 12.0 * 2f64.powi(-24) / (0..32).map(scale).fold(1.0, f64::min);
        assert!((stats.mean_value - mean).abs() < bound && mean > 100.0 * bound, "{stats:?} {mean}");
        assert!((stats.worst_value - worst).abs() < bound, "{stats:?} {worst}");
        assert_eq!((stats.counts, stats.mean_count), (20 * 32, stats.mean_value * per_value));
        assert_eq!(stats.worst_count, stats.worst_value * per_value);
    }
}

fn run(job: &Job<'_>, task: &Task) -> serde_json::Value {
    let part = job.run(task, Cancel::NEVER, &mut || ()).unwrap();
    serde_json::from_str(&part.to_line().unwrap()).unwrap()
}

/// A part says what is wrong with its generator, once for the cell and not for the looks before it.
#[test]
fn parts_of_cells_say_what_is_wrong() {
    let (network, data) = (Network::digits_noise_aware().unwrap().to_graph().unwrap(), digits(3));
    for (generator, warns) in [("sobol", false), ("sobol:1+sobol:1", true)] {
        let job = Job::new(&network, Cow::Borrowed(&data), plan(&[generator], &[16])).unwrap();
        let notes: Vec<usize> = job
            .outline()
            .tasks()
            .iter()
            .map(|task| run(&job, task)["notes"].as_array().unwrap().len())
            .collect();
        // A look does not ask what is certain.
        let certain = |task: &Task| run(&job, task)["pieces"][0]["certain"].is_array();
        assert_eq!(job.outline().tasks().iter().map(certain).collect::<Vec<_>>(), [false, false, true]);
        // Floats, the look after eight cycles, and the cell.
        assert_eq!(notes, [0, 0, usize::from(warns)], "{generator}");
        if warns {
            let cell = run(&job, &job.outline().tasks()[2]);
            let note = cell["notes"][0].as_str().unwrap();
            assert!(
                note.starts_with(&format!(
                    "{}: ",
                    generator.parse::<aleatron::generator::GeneratorName>().unwrap()
                )),
                "{note}"
            );
        }
    }
}

/// Looks of pieces beside each other have their leads, too.
#[test]
fn devices_stop_where_the_cpu_does() {
    let (network, data) = (Network::digits_noise_aware().unwrap().to_graph().unwrap(), digits(200));
    let on = |device: Device| -> Evaluation {
        let plan = Plan { device, ..plan(&["sobol"], &[32]) };
        evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap().without_times()
    };
    let (cpu, pool) = (on(Device::Cpu), on(Device::Pool(vec![Device::Cpu, Device::Cpu])));
    assert!(cpu.cells[0].early[0].stopped > 0.0);
    assert_eq!(pool.cells, cpu.cells);
}

/// A dense layer over a fixed number of samples.
fn batched(n: usize, weights: &[f32]) -> GraphNetwork {
    let mut graph = Graph::new("batched");
    let shape = Some(vec![Dim::Fixed(n), Dim::Fixed(2)]);
    let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
    let w = Tensor::from_slice(weights, &[weights.len() / 2, 2], &TensorDevice::Cpu).unwrap();
    let w = graph.add_constant("w", w);
    let y = graph.add_node("fc", gemm(), &[x, w]);
    graph.add_output(y);
    GraphNetwork::new(graph).unwrap()
}

/// Errors of nodes are over whole runs where their size is fixed, and over what there is where it is less than one.
#[test]
fn errors_of_nodes_are_over_whole_runs() {
    let network = batched(4, &[0.5, -0.25, 0.125, 0.75, -0.5, 1.0]);
    let plan = plan(&["sobol"], &[8]);
    let config = StreamConfig::new(8).generator("sobol".parse().unwrap()).seed(0);
    for (n, judged) in [(10, 8), (8, 8), (4, 4)] {
        let x = features(2 * n, 9);
        let data = Dataset::new("d", 2, x.clone(), network.predict(&x).unwrap()).unwrap();
        let mut found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
        find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
        let x = &x[..2 * judged];
        let made = network.to_streams(&config).unwrap().forward(x, 0).unwrap();
        let exact = network.forward(x).unwrap();
        let squares: f64 = made.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum();
        let error = (squares / exact.iter().map(|b| b * b).sum::<f64>()).sqrt();
        let judged = found.graph.unwrap().losses[0].node_errors[0];
        assert!(error > 0.0 && (judged - error).abs() < 1e-9 * error, "{n}: {judged} {error}");
    }
    let data = Dataset::new("d", 2, features(6, 9), vec![0; 3]).unwrap();
    let mut found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
    find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
    assert!(found.graph.unwrap().losses[0].node_errors[0] > 0.0);
}

/// For each generator once, at the longest of the lengths that lose more than a point, and at the shortest where none does.
#[test]
fn losses_are_looked_for_where_they_are() {
    let (network, data) = (crate::network().to_graph().unwrap(), crate::samples());
    let plan = plan(&["sobol", "lfsr", "sobol"], &[8, 16, 32]);
    let mut found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
    found.float_accuracy = 0.75;
    for cell in &mut found.cells {
        // A whole point is not more than one.
        cell.accuracy = match (cell.generator.as_str(), cell.length) {
            ("sobol", 8 | 16) => 0.5,
            ("sobol", _) => 0.74,
            _ => 0.8,
        };
    }
    find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
    let graph = found.graph.as_ref().unwrap();
    let places: Vec<(&str, usize)> = graph.losses.iter().map(|l| (l.generator.as_str(), l.length)).collect();
    assert_eq!(places, [("sobol", 16), ("lfsr", 8)]);
    let page = report::evaluation(&found);
    for part in [
        "<h3>sobol, 16 bits<small>",
        "<h3>lfsr, 8 bits<small>",
        "<tr><td>a</td><td>",
        "<tr><td>b</td><td>",
        "<td>2</td><td>input</td>",
        "<td>3</td><td>",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

/// Zero is no negative weight, also in a file.
#[test]
fn unipolar_streams_have_weights_of_zero() {
    let network = batched(1, &[0.0, 0.5]).with_polarity(Polarity::Unipolar).unwrap();
    let read = GraphNetwork::from_onnx(&network.to_onnx().unwrap()).unwrap();
    assert_eq!(read.layers()[0].polarity, Polarity::Unipolar);
    assert!(batched(1, &[-0.5, 0.5]).with_polarity(Polarity::Unipolar).is_err());
}

/// What is no row of floats for each sample is no scores.
#[test]
fn scores_are_floats_of_each_sample() {
    let with = |op: Op| {
        let mut graph = Graph::new("scores");
        let x = input(&mut graph, &[2]);
        let w = constant(&mut graph, "w", &[4, 2], 1);
        let y = graph.add_node("fc", gemm(), &[x, w]);
        let y = graph.add_node("last", op, &[y]);
        graph.add_output(y);
        GraphNetwork::new(graph).and_then(|network| network.forward(&features(6, 3)))
    };
    assert_eq!(with(Op::Identity).unwrap().len(), 12);
    assert!(with(Op::Cast(DType::I64)).is_err());
    // One row for all of three samples.
    let sum = Op::Reduce {
        reduction: Reduction::Sum,
        axes: Some(vec![0]),
        reduced: Reduced::Kept,
        no_axes: NoAxes::All,
    };
    assert!(with(sum).is_err());
}

/// The first of many inputs that is not a number is named by its place among all of them.
#[test]
fn inputs_that_are_not_numbers_are_named_among_many() {
    let mut graph = Graph::new("log");
    let x = input(&mut graph, &[100]);
    let made = graph.add_node("log", Op::Unary(Unary::Log), &[x]);
    let w = constant(&mut graph, "w", &[2, 100], 1);
    let y = graph.add_node("fc", gemm(), &[made, w]);
    graph.add_output(y);
    let streams = GraphNetwork::new(graph).unwrap().to_streams(&StreamConfig::new(8)).unwrap();
    let mut x = vec![1.5; 200 * 100];
    assert_eq!(streams.forward(&x, 0).unwrap().len(), 400);
    (x[17_003], x[19_000]) = (-1.0, -1.0);
    let error = streams.forward(&x, 0).unwrap_err();
    assert!(matches!(error.core(), Some(CoreError::OutOfRange { index: 17_003, .. })), "{error}");
}

/// An input of 1, one neuron that gains a bit in every cycle and one that loses one: after p of 64 cycles the first is ahead for certain where
/// p / 64 is more than the bias less `weight` p / 64.
#[test]
fn certainty_is_in_the_units_of_the_scores() {
    // Eight bits less a part of a unit, which are the 256th of a bit and half as large where the weight is: rounded, it is a tie after four.
    let nearly = 8.0 / 64.0 * (1.0 - 2f32.powi(-14));
    for (weight, bias, float, integer) in
        [(1.0, nearly, 4.0, 8.0), (0.5, 9.0 / 64.0, 8.0, 8.0), (0.25, 15.5 / 64.0, 16.0, 16.0)]
    {
        let mut graph = Graph::new("two");
        let x = input(&mut graph, &[1]);
        let constant = |graph: &mut Graph, name: &str, values: [f32; 2], shape: &[usize]| {
            graph.add_constant(name, Tensor::from_slice(&values, shape, &TensorDevice::Cpu).unwrap())
        };
        let w = constant(&mut graph, "w", [1.0, -weight], &[2, 1]);
        let b = constant(&mut graph, "b", [0.0, bias], &[2]);
        let y = graph.add_node("fc", gemm(), &[x, w, b]);
        graph.add_output(y);
        let network = GraphNetwork::new(graph).unwrap();
        let data = Dataset::new("one", 1, vec![1.0; 3], vec![0; 3]).unwrap();
        for (arithmetic, cycles) in [(Arithmetic::Float, float), (Arithmetic::Integer, integer)] {
            let plan = Plan { arithmetic, margins: vec![6.0], ..plan(&["bernoulli"], &[64]) };
            let found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
            let certain = found.cells[0].certain.unwrap();
            assert_eq!((certain.mean_cycles, certain.stopped), (cycles, 1.0), "{weight} {arithmetic}");
            // The lead is 1 + weight - bias, of which the root of half a bit over the cycles is the deviation.
            let stops = |cycles: f32| (1.0 + weight - bias) * (2.0 * cycles).sqrt() >= 6.0;
            let first = [8.0, 16.0, 32.0, 64.0].into_iter().find(|&cycles| stops(cycles)).unwrap();
            assert_eq!(found.cells[0].early[0].mean_cycles, f64::from(first), "{weight} {arithmetic}");
        }
    }
}

/// Layers with settings of their own take what the layer before them makes as those settings say.
#[test]
fn settings_of_a_layer_are_those_of_its_inputs() {
    let network = scaled();
    let graph = network.to_graph().unwrap();
    let x = features(8 * 20, 6);
    for (default, own) in
        [("bernoulli", "generator=sobol,length=32"), ("sobol", "generator=bernoulli,length=48")]
    {
        let config = StreamConfig::new(64)
            .generator(default.parse().unwrap())
            .arithmetic(Arithmetic::Integer)
            .layer("last", own.parse().unwrap());
        let expected = network.to_streams(&config).unwrap().forward(&x, 0).unwrap();
        assert_eq!(graph.to_streams(&config).unwrap().forward(&x, 0).unwrap(), expected, "{own}");
    }
}

/// Every node of a random network leads to its scores.
#[test]
fn random_networks_use_all_their_nodes() {
    let network = GraphNetwork::random(NetworkShape::Lenet5, 3).unwrap();
    let graph = network.graph();
    for node in graph.nodes() {
        let made = node.outputs[0].unwrap();
        let is_used = graph.nodes().iter().any(|other| other.inputs.contains(&Some(made)));
        assert!(is_used || graph.outputs() == [made], "{}", node.name);
        // What a convolution makes is rectified.
        if matches!(node.op, Op::Conv { .. }) {
            let next = graph.nodes().iter().find(|other| other.inputs.contains(&Some(made))).unwrap();
            assert!(matches!(next.op, Op::Unary(Unary::Relu)), "{}", node.name);
        }
    }
}

/// What a file says of losses is checked, thing by thing.
#[test]
fn losses_that_cannot_be_true_are_refused() {
    let (network, data) = (crate::network().to_graph().unwrap(), crate::samples());
    let plan = plan(&["sobol"], &[8]);
    let mut found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
    find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
    let read = |found: &Evaluation| Evaluation::from_json(&found.to_json().unwrap());
    assert_eq!(read(&found).unwrap(), found);
    type Change = fn(&mut Losses);
    let changes: [Change; 6] = [
        |losses| losses.node_errors.push(0.0),
        |losses| losses.alone.push(None),
        |losses| losses.accuracy = 1.5,
        |losses| losses.alone[0] = Some(-0.5),
        |losses| losses.node_errors[0] = -1.0,
        |losses| losses.node_errors.clear(),
    ];
    for (k, change) in changes.iter().enumerate() {
        let mut changed = found.clone();
        change(&mut changed.graph.as_mut().unwrap().losses[0]);
        assert!(read(&changed).is_err(), "change {k}");
    }
}

/// Where any finite number would do, no interval is named.
#[test]
fn features_that_are_no_numbers_are_said_to_be_so() {
    let error = batched(1, &[0.5, 0.5]).forward(&[0.5, f64::NAN]).unwrap_err().to_string();
    assert!(error.contains("not a finite number"), "{error}");
}

/// Scores that a product in binary makes have no counting noise to be ahead of.
#[test]
fn scores_in_binary_are_not_stopped() {
    let network = scaled().to_graph().unwrap();
    for (name, stops) in [("first", true), ("last", false)] {
        let network = network.clone().with_mode(name, Mode::Binary).unwrap();
        let plan = plan(&["sobol"], &[16]);
        let found = evaluate(&network, &eights(5), &plan, None, Cancel::NEVER, |_| ()).unwrap();
        let cell = &found.cells[0];
        assert_eq!((!cell.early.is_empty(), cell.certain.is_some()), (stops, stops), "{name}");
    }
}

/// Layers are asked for by name, shape and place; those that are not there are errors that say so.
#[test]
fn layers_that_are_not_there_are_errors() {
    let network = scaled().to_graph().unwrap();
    let first = network.layer("first").unwrap();
    assert!(first.topology(&[1, 8]).is_ok());
    for shape in [&[][..], &[8, 1], &[usize::MAX, 2, 8]] {
        assert!(matches!(first.topology(shape), Err(EngineError::Graph(_))), "{shape:?}");
    }
    let fault = network.layer("third").unwrap_err().to_string();
    assert!(fault.starts_with("there is no layer \"third\"; the layers are first, last"), "{fault}");
    let streams = network.to_streams(&StreamConfig::new(16)).unwrap();
    for place in [1, 7] {
        let fault = streams.part(place, 8).unwrap_err();
        assert!(matches!(fault, EngineError::NotRun { place: at } if at == place), "{fault}");
    }
    streams.forward(&features(8, 3), 0).unwrap();
    assert_eq!(streams.part(1, 8).unwrap().spec().length().bits(), 8);
    assert!(matches!(streams.made_layer(7), Err(EngineError::NotRun { place: 7 })));
    assert_eq!(streams.integers(7).unwrap(), None);
}
