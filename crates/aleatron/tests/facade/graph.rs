//! Graphs in floating point and as streams.
#![cfg(feature = "graph")]

use aleatron::data::Dataset;
use aleatron::eval::{Assembly, Found, Job, Part, Plan, Search, evaluate, evaluate_regression, find};
use aleatron::graph::{
    Calibration, Graph, GraphNetwork, InputScale, Mode, NetworkShape, Op, Statistics, WeightScale,
};
use aleatron::network::{Arithmetic, StreamConfig};
use aleatron::{Cancel, CoreError, EngineError, Error, Polarity, StreamLayer};
use aleatron_graph::op::{Padding, Window};
use aleatron_graph::{Binary, Dim, Unary, Value, ValueId};
use aleatron_tensor::{DType, Device, Tensor};
use std::borrow::Cow;

/// Numbers in [-1, 1) that look random and are the same every time.
pub(crate) fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1 << 23) as f32) - 1.0
        })
        .collect()
}

pub(crate) fn constant(graph: &mut Graph, name: &str, shape: &[usize], seed: u64) -> ValueId {
    let values = numbers(shape.iter().product(), seed);
    graph.add_constant(name, Tensor::from_slice(&values, shape, &Device::Cpu).unwrap())
}

pub(crate) fn input(graph: &mut Graph, sample: &[usize]) -> ValueId {
    let mut shape = vec![Dim::Named("n".to_owned())];
    shape.extend(sample.iter().map(|&n| Dim::Fixed(n)));
    graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape: Some(shape) })
}

pub(crate) fn gemm() -> Op {
    Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true }
}

pub(crate) fn window(strides: &[i64], pads: &[i64]) -> Window {
    Window {
        kernel: Vec::new(),
        strides: strides.to_vec(),
        dilations: Vec::new(),
        padding: Padding::Explicit(pads.to_vec()),
    }
}

/// A dense layer alone.
pub(crate) fn dense() -> GraphNetwork {
    let mut graph = Graph::new("dense");
    let x = input(&mut graph, &[6]);
    let (w, b) = (constant(&mut graph, "w", &[4, 6], 1), constant(&mut graph, "b", &[4], 2));
    let y = graph.add_node("fc", gemm(), &[x, w, b]);
    graph.add_output(y);
    GraphNetwork::new(graph).unwrap()
}

/// A convolution, relu and a dense layer.
pub(crate) fn cnn() -> GraphNetwork {
    let mut graph = Graph::new("cnn");
    let x = input(&mut graph, &[2, 5, 4]);
    let (k, b) = (constant(&mut graph, "k", &[3, 2, 3, 3], 1), constant(&mut graph, "kb", &[3], 2));
    let window = window(&[2, 1], &[1, 0, 1, 1]);
    let conv = graph.add_node("conv", Op::Conv { window, groups: 1 }, &[x, k, b]);
    let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[conv]);
    let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[relu]);
    let (w, b) = (constant(&mut graph, "w", &[3, 27], 3), constant(&mut graph, "b", &[3], 4));
    let y = graph.add_node("fc", gemm(), &[flat, w, b]);
    graph.add_output(y);
    GraphNetwork::new(graph).unwrap()
}

pub(crate) fn features(n: usize, seed: u64) -> Vec<f64> {
    numbers(n, seed).into_iter().map(f64::from).collect()
}

#[test]
fn a_dense_node_counts_what_a_layer_counts() {
    for (polarity, generator) in [
        (Polarity::Signed, "bernoulli"),
        (Polarity::Bipolar, "bernoulli"),
        (Polarity::Signed, "bernoulli+sobol:2"),
        (Polarity::Bipolar, "sobol:1+bernoulli"),
    ] {
        let network = dense().with_polarity(polarity).unwrap();
        let x = features(3 * 6, 7);
        let config = StreamConfig::new(100).generator(generator.parse().unwrap()).seed(5);
        let scores = network.to_streams(&config).unwrap().forward(&x, 11).unwrap();
        let layer = &network.layers()[0];
        let weights: Vec<f64> = layer
            .product
            .weights
            .iter()
            .enumerate()
            .map(|(k, &w)| f64::from(w) / layer.weight_scale(k / 6))
            .collect();
        let stream = StreamLayer::dense(6, 4)
            .polarity(polarity)
            .length(100)
            .seed(5)
            .generator(generator.parse().unwrap())
            .weights(&weights)
            .build()
            .unwrap();
        let sums = stream.forward_batch(&x, aleatron::SampleSeed::new(5).starting_at(11)).unwrap();
        let expected: Vec<f64> = sums
            .iter()
            .enumerate()
            .map(|(k, sum)| {
                f64::from((sum * layer.weight_scale(k % 4) + f64::from(layer.product.bias[k % 4])) as f32)
            })
            .collect();
        assert_eq!(scores, expected);
    }
}

#[test]
fn samples_in_pieces_are_the_same_samples() {
    let network = cnn();
    let x = features(5 * 40, 9);
    let streams = network.to_streams(&StreamConfig::new(64)).unwrap();
    let whole = streams.forward(&x, 0).unwrap();
    let parts = [streams.forward(&x[..80], 0).unwrap(), streams.forward(&x[80..], 2).unwrap()].concat();
    assert_eq!(whole, parts);
}

#[test]
fn pieces_beside_each_other_are_the_same_samples() {
    let (network, x) = (cnn(), features(150 * 40, 5));
    let config = StreamConfig::new(48).generator("sobol".parse().unwrap());
    let on_cpu = network.to_streams(&config).unwrap().forward(&x, 7).unwrap();
    let pool = aleatron::Device::Pool(vec![aleatron::Device::Cpu, aleatron::Device::Cpu]);
    let streams = network.to_streams(&config.device(pool)).unwrap();
    for _ in 0..3 {
        assert_eq!(streams.forward(&x, 7).unwrap(), on_cpu);
    }
    let stop = Cancel::when(&|| true);
    let error = streams.run(&x, 7, Statistics::LeftOut, stop).unwrap_err();
    assert!(matches!(error, EngineError::Core(aleatron::CoreError::Cancelled)), "{error}");
}

#[test]
fn random_networks_have_their_shapes() {
    for (shape, n_features, n_products) in
        [(NetworkShape::Lenet5, 784, 5), (NetworkShape::Resnet20, 3072, 22)]
    {
        let network = GraphNetwork::random(shape, 3).unwrap();
        assert_eq!(
            (network.n_features(), network.n_outputs(), network.layers().len()),
            (n_features, 10, n_products)
        );
        assert_eq!(shape.to_string().parse::<NetworkShape>().unwrap(), shape);
        assert_ne!(network.layers()[0].product, GraphNetwork::random(shape, 4).unwrap().layers()[0].product);
    }
    // Places by inputs and outputs of the channels of each stage.
    let first = 1024 * 3 * 9 * 16;
    let stages = [(1024, 16, 16), (256, 16, 32), (64, 32, 64)];
    let in_stages = stages.map(|(places, before, channels)| {
        let shortcut = if before == channels { 0 } else { before * channels };
        places * (9 * before * channels + 5 * 9 * channels * channels + shortcut)
    });
    let network = GraphNetwork::random(NetworkShape::Resnet20, 3).unwrap();
    let products = first + in_stages.iter().sum::<u64>() + 64 * 10;
    assert_eq!(network.inspect(1).unwrap().stream_products, products);
    assert!("vgg".parse::<NetworkShape>().unwrap_err().to_string().contains("lenet5, resnet20"));
}

#[test]
fn nodes_in_binary_are_those_of_floats() {
    let network = cnn().with_mode("conv", Mode::Binary).unwrap().with_mode("fc", Mode::Binary).unwrap();
    let x = features(4 * 40, 3);
    let streams = network.to_streams(&StreamConfig::new(8)).unwrap();
    assert_eq!(streams.forward(&x, 0).unwrap(), network.forward(&x).unwrap());
    assert!(matches!(cnn().with_mode("nope", Mode::Binary), Err(EngineError::UnknownLayer { .. })));
}

#[test]
fn long_streams_come_close_to_floats() {
    let network = dense();
    let x = features(50 * 6, 4);
    let length = 4096;
    let streams = network.to_streams(&StreamConfig::new(length)).unwrap();
    let (scores, exact) = (streams.forward(&x, 0).unwrap(), network.forward(&x).unwrap());
    // Six products, each of a variance of at most 1/4 per bit, weights below 1: six standard deviations.
    let bound = 6.0 * (6.0 * 0.25 / length as f64).sqrt();
    for (a, b) in scores.iter().zip(&exact) {
        assert!((a - b).abs() < bound, "{a} {b}");
    }
    // And are no floats.
    assert_ne!(scores, exact);
}

#[test]
fn scales_come_from_samples() {
    let x: Vec<f64> = features(20 * 6, 4).iter().map(|value| 3.0 * value).collect();
    let largest = x.iter().fold(0.0_f64, |all, value| all.max(value.abs()));
    let calibration = Calibration { inputs: InputScale::Maximum, weights: WeightScale::Tensor };
    let network = dense().calibrated(&x, &calibration).unwrap();
    assert_eq!(network.layers()[0].input_scale, f64::from(largest as f32));
    assert_eq!(network.layers()[0].weight_scales.len(), 1);
    let calibration = Calibration { inputs: InputScale::Percentile(0.5), ..Calibration::default() };
    let half = dense().calibrated(&x, &calibration).unwrap();
    let mut magnitudes: Vec<f64> = x.iter().map(|value| value.abs()).collect();
    magnitudes.sort_by(f64::total_cmp);
    assert_eq!(half.layers()[0].input_scale, f64::from(magnitudes[59] as f32));
    let refused = Calibration { inputs: InputScale::Percentile(0.0), ..Calibration::default() };
    assert!(matches!(dense().calibrated(&x, &refused), Err(EngineError::Setting { .. })));
}

#[test]
fn evaluations_have_all_cells_and_go_on() {
    let network = cnn();
    let x = features(30 * 40, 8);
    let network = network.calibrated(&x, &Calibration::default()).unwrap();
    let labels = network.predict(&x).unwrap();
    let data = Dataset::new("own", 40, x, labels).unwrap();
    let plan = Plan {
        lengths: vec![8, 2048],
        generators: vec!["bernoulli".parse().unwrap(), "sobol".parse().unwrap()],
        seeds: 2,
        ..Plan::default()
    };
    let found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| {}).unwrap();
    assert_eq!(found.cells.len(), 2 * 2 + 2);
    assert_eq!(found.float_accuracy, 1.0);
    for cell in &found.cells {
        assert_eq!(cell.layers.len(), 2);
        assert!(cell.layers.iter().all(|layer| layer.counts > 0 && layer.mean_value > 0.0));
        assert_eq!(cell.layers[0].saturated, 0);
    }
    let mean = |length: usize| {
        let cells: Vec<f64> =
            found.cells.iter().filter(|cell| cell.length == length).map(|cell| cell.accuracy).collect();
        cells.iter().sum::<f64>() / cells.len() as f64
    };
    assert!(mean(2048) > mean(8) && mean(2048) > 0.9, "{} {}", mean(8), mean(2048));
    let read = aleatron::eval::Evaluation::from_json(&found.to_json().unwrap()).unwrap();
    let mut ran = 0;
    let again = evaluate(&network, &data, &plan, Some(read), Cancel::NEVER, |_| ran += 1).unwrap();
    assert_eq!((again.cells.clone(), ran), (found.cells.clone(), 0));
    assert!(!found.text(usize::MAX).is_empty());
}

#[test]
fn a_search_shortens_layers_within_the_loss() {
    let network = cnn();
    let x = features(30 * 40, 8);
    let network = network.calibrated(&x, &Calibration::default()).unwrap();
    let labels = network.predict(&x).unwrap();
    let data = Dataset::new("own", 40, x, labels).unwrap();
    let generator = "sobol".parse().unwrap();
    let search = Search { generator, loss: 20.0, longest: 1024, shortest: 16, budget: 40 };
    let plan = Plan { seeds: 1, ..Plan::default() };
    let found = find(&network, &data, &plan, &search, None, Cancel::NEVER, |_| {}).unwrap();
    assert!(found.is_finished && found.accuracy >= found.bar);
    assert!(found.bit_macs < found.bit_macs_before, "{found:?}");
    // An interrupted one goes on to the same end without running a trial twice.
    let part =
        find(&network, &data, &plan, &Search { budget: 2, ..search }, None, Cancel::NEVER, |_| {}).unwrap();
    assert!(!part.is_finished);
    assert_eq!(part.trials.len(), 2);
    let mut ran = 0;
    let part = Found::from_json(&part.to_json().unwrap()).unwrap();
    let go_on = |network: &GraphNetwork, search: &Search, ran: &mut usize| {
        find(network, &data, &plan, search, Some(part.clone()), Cancel::NEVER, |_| *ran += 1)
    };
    let whole = go_on(&network, &search, &mut ran).unwrap();
    assert_eq!((&whole.lengths, ran + 2), (&found.lengths, found.trials.len()));
    assert!(whole.is_good());
    // Not from trials of something else.
    let other = network.clone().with_polarity(Polarity::Bipolar).unwrap();
    assert!(matches!(go_on(&other, &search, &mut ran), Err(Error::Checkpoint(_))));
    let other = Search { generator: "lfsr".parse().unwrap(), ..search };
    assert!(matches!(go_on(&network, &other, &mut ran), Err(Error::Checkpoint("the generator"))));
    let lossy = Search { loss: f64::NAN, ..search };
    assert!(matches!(go_on(&network, &lossy, &mut ran), Err(Error::Loss(_))));
    let mut broken = part.clone();
    broken.trials[0].accuracy = 1.5;
    assert!(Found::from_json(&broken.to_json().unwrap()).is_err());
}

#[test]
fn tasks_of_a_graph_make_what_one_run_makes() {
    let network = cnn().calibrated(&features(30 * 40, 8), &Calibration::default()).unwrap();
    let x = features(600 * 40, 9);
    let labels = network.predict(&x).unwrap();
    let data = Dataset::new("own", 40, x, labels).unwrap();
    // One whose scores are watched, and one whose scores are made in binary.
    let binary = network.clone().with_mode("fc", Mode::Binary).unwrap();
    for (network, arithmetic) in [
        (&network, Arithmetic::Float),
        (&network, Arithmetic::Integer),
        (&binary, Arithmetic::Float),
        (&binary, Arithmetic::Integer),
    ] {
        let margins = vec![2.0, 1.0];
        let plan = Plan { seeds: 2, margins, arithmetic, ..small_plan(&[16, 24], "bernoulli") };
        let whole = evaluate(network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap().without_times();
        assert!(whole.is_complete() && whole.cells.len() == 4);
        let job = Job::new(network, Cow::Borrowed(&data), plan.clone()).unwrap();
        // Somebody else has the bytes alone.
        let worker = Job::from_bytes(&job.to_bytes().unwrap()).unwrap();
        let mut assembly = Assembly::new(job.outline().clone(), None).unwrap();
        let tasks = job.outline().split(&assembly.missing(), 20);
        assert!(tasks.len() >= 10);
        for (k, task) in tasks.iter().rev().enumerate() {
            let runs = if k % 2 == 0 { &worker } else { &job };
            let line = runs.run(task, Cancel::NEVER, &mut || ()).unwrap().to_line().unwrap();
            assembly.add(Part::from_line(&line).unwrap()).unwrap();
        }
        assert_eq!(assembly.finish().unwrap().without_times(), whole);
        assert!(Job::from_bytes(&job.to_bytes().unwrap()[..900]).is_err());
    }
}

#[test]
fn what_cannot_run_is_an_error() {
    let network = dense();
    assert!(matches!(network.forward(&[0.0; 7]), Err(EngineError::RaggedSamples { .. })));
    assert!(matches!(
        network.forward(&[f64::NAN; 6]),
        Err(EngineError::Feature { sample: 0, feature: 0, .. })
    ));
    let config = StreamConfig::new(8).layer("nope", "length=4".parse().unwrap());
    assert!(matches!(network.to_streams(&config), Err(EngineError::UnknownLayer { .. })));
    let too_long = network.to_streams(&StreamConfig::new(0)).unwrap().forward(&[0.0; 6], 0);
    assert!(matches!(too_long, Err(EngineError::Layer { layer: 0, .. })), "{too_long:?}");
    assert!(network.clone().with_polarity(Polarity::Unipolar).is_err());
    let mut graph = Graph::new("two inputs");
    let (a, b) = (input(&mut graph, &[2]), input(&mut graph, &[2]));
    let sum = graph.add_node("sum", Op::Binary(aleatron_graph::Binary::Add), &[a, b]);
    graph.add_output(sum);
    assert!(matches!(GraphNetwork::new(graph), Err(EngineError::Graph(_))));
}

/// Samples of the CNN with the classes of floating point.
fn labelled(n: usize) -> (GraphNetwork, Dataset) {
    let network = cnn().calibrated(&features(50 * 40, 3), &Calibration::default()).unwrap();
    let x = features(n * 40, 21);
    let labels = network.predict(&x).unwrap();
    (network, Dataset::new("made", 40, x, labels).unwrap())
}

fn small_plan(lengths: &[usize], generator: &str) -> Plan {
    let generators = vec![generator.parse().unwrap()];
    Plan { lengths: lengths.to_vec(), generators, seeds: 1, ..Plan::default() }
}

#[test]
fn graphs_stop_early() {
    // More than one piece of samples.
    let (network, data) = labelled(300);
    for generator in ["bernoulli", "lfsr"] {
        let plan = small_plan(&[64, 512], generator);
        let found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
        for cell in &found.cells {
            assert_eq!(cell.early.len(), plan.margins.len());
            // The wider the margin, the later samples stop.
            assert!(cell.early.is_sorted_by(|a, b| a.mean_cycles <= b.mean_cycles), "{:?}", cell.early);
            let (hasty, careful) = (cell.early[0], cell.early[cell.early.len() - 1]);
            assert!(hasty.stopped > 0.5 && hasty.mean_cycles < cell.length as f64, "{hasty:?}");
            assert!(careful.accuracy_lost <= hasty.accuracy_lost);
            let certain = cell.certain.unwrap();
            assert!(certain.stopped > 0.0 && certain.mean_cycles < cell.length as f64, "{certain:?}");
        }
        // A run of one length finds the same as one of several, which has the looks of the shorter.
        let alone = evaluate(&network, &data, &small_plan(&[512], generator), None, Cancel::NEVER, |_| ());
        assert_eq!(alone.unwrap().without_times().cells[0], found.without_times().cells[1]);
    }
}

/// A margin that nobody reaches stops nobody: every look and every restart is counted.
#[test]
fn looks_of_graphs_count_restarts() {
    let (network, data) = labelled(20);
    let plan = Plan { margins: vec![1e12], ..small_plan(&[32], "sobol") };
    let found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
    let stop = found.cells[0].early[0];
    // 8, 16 and 32 cycles: 32 in the first layer, their sum in the second.
    assert_eq!((stop.mean_cycles, stop.stopped), ((32.0 + 56.0) / 2.0, 0.0));
    assert_eq!(stop.accuracy, found.cells[0].accuracy);
}

/// The rule of certainty against every sample's end: the class in the lead when it stops is that of the whole run.
#[test]
fn certainty_never_loses() {
    let (network, n) = (dense(), 400);
    let x = features(n * 6, 5);
    let data = Dataset::new("made", 6, x.clone(), network.predict(&x).unwrap()).unwrap();
    for generator in ["bernoulli", "bernoulli+sobol:2", "sobol:1+bernoulli"] {
        let plan = small_plan(&[64], generator);
        let found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
        let certain = found.cells[0].certain.unwrap();
        assert!(certain.stopped > 0.0, "{certain:?}");
        // Where the class of the first bits is another than that of all, nothing was certain yet: the sample went on past that look.
        let classes = |length| {
            let config = StreamConfig::new(length).generator(generator.parse().unwrap()).seed(0);
            network.to_streams(&config).unwrap().predict(&x, 0).unwrap()
        };
        let ends = classes(64);
        let mut least = vec![4; ends.len()];
        for length in (4..64).step_by(4) {
            for (sample, class) in classes(length).into_iter().enumerate() {
                if class != ends[sample] {
                    least[sample] = length + 4;
                }
            }
        }
        let least: usize = least.iter().sum();
        assert!(least > n * 4, "{generator}: no class changes, so the samples show nothing");
        assert!(certain.mean_cycles * n as f64 >= least as f64, "{generator}: {certain:?} {least}");
    }
}

#[test]
fn scores_behind_other_nodes_are_not_stopped() {
    let with = |op: Option<Op>| {
        let mut graph = Graph::new("g");
        let x = input(&mut graph, &[6]);
        let w = constant(&mut graph, "w", &[4, 6], 1);
        let mut y = graph.add_node(
            "fc",
            Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true },
            &[x, w],
        );
        if let Some(op) = op {
            y = graph.add_node("after", op, &[y]);
        }
        graph.add_output(y);
        let network = GraphNetwork::new(graph).unwrap();
        let x = features(30 * 6, 8);
        let data = Dataset::new("d", 6, x.clone(), network.predict(&x).unwrap()).unwrap();
        let plan = small_plan(&[16], "sobol");
        evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap()
    };
    let plain = with(None);
    assert!(!plain.cells[0].early.is_empty() && plain.cells[0].certain.is_some());
    assert_eq!(with(Some(Op::Flatten { axis: 1 })).cells[0].early, plain.cells[0].early);
    let relu = with(Some(Op::Unary(Unary::Relu)));
    assert!(
        relu.cells[0].early.is_empty() && relu.cells[0].certain.is_none() && relu.plan.margins.is_empty()
    );
    // What is saved is read again.
    for found in [plain, relu] {
        let read = aleatron::eval::Evaluation::from_json(&found.to_json().unwrap()).unwrap();
        assert_eq!(read, found);
    }
}

#[test]
fn losses_are_found_node_by_node() {
    let (network, data) = labelled(100);
    let plan = small_plan(&[8, 1024], "sobol");
    let mut found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
    aleatron::eval::find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
    let graph = found.graph.clone().unwrap();
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["conv", "relu", "flat", "fc"]);
    assert_eq!(graph.nodes[3].inputs, [2]);
    assert!(graph.nodes[0].inputs.is_empty());
    assert_eq!(graph.nodes.iter().filter(|node| node.stream_products.is_some()).count(), 2);
    let losses = &graph.losses[0];
    // Labels are those of floats, so the shortest streams lose.
    assert_eq!((losses.length, losses.accuracy), (8, found.cells[0].accuracy));
    assert_eq!(losses.alone.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false, true]);
    // One layer alone is the network with the other in binary.
    let only = network.clone().with_mode("fc", Mode::Binary).unwrap();
    let config = StreamConfig::new(8).generator("sobol".parse().unwrap()).seed(0);
    let classes = only.to_streams(&config).unwrap().predict(data.features(), 0).unwrap();
    let right = classes.iter().zip(data.labels()).filter(|(a, b)| a == b).count();
    assert_eq!(losses.alone[0], Some(right as f64 / 100.0));
    // The error of the last node by hand.
    let [made, exact] = [
        network.to_streams(&config).unwrap().forward(data.features(), 0).unwrap(),
        network.forward(data.features()).unwrap(),
    ];
    let squares: f64 = made.iter().zip(&exact).map(|(a, b)| (a - b).powi(2)).sum();
    let error = (squares / exact.iter().map(|b| b * b).sum::<f64>()).sqrt();
    assert!((losses.node_errors[3] - error).abs() < 1e-9 * error, "{} {error}", losses.node_errors[3]);
    // A node without products hands on what it is given.
    assert_eq!(losses.node_errors[1], losses.node_errors[2]);
    let page = aleatron::eval::report::evaluation(&found);
    for part in ["The graph", "Where accuracy is lost", "streams, ", "sobol, 8 bits", "Stopping early"] {
        assert!(page.contains(part), "{part}");
    }
    let read = aleatron::eval::Evaluation::from_json(&found.to_json().unwrap()).unwrap();
    assert_eq!(read, found);
    let broken = found.to_json().unwrap().replacen("\"inputs\": []", "\"inputs\": [3]", 1);
    assert!(aleatron::eval::Evaluation::from_json(&broken).is_err());
}

#[test]
fn graphs_of_regression_have_errors() {
    let network = cnn().calibrated(&features(50 * 40, 3), &Calibration::default()).unwrap();
    let x = features(20 * 40, 21);
    let data = Dataset::with_targets("made", 40, x.clone(), 3, network.forward(&x).unwrap()).unwrap();
    let plan = small_plan(&[64, 1024], "sobol");
    let subject = &network;
    let found =
        aleatron::eval::evaluate_regression(subject, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
    assert_eq!(found.float.root_mean_square, 0.0);
    let errors: Vec<f64> = found.cells.iter().map(|cell| cell.to_targets.root_mean_square).collect();
    assert!(errors[1] < errors[0] / 4.0, "{errors:?}");
    assert_eq!(found.cells[0].to_targets, found.cells[0].to_float);
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for (what, index, value) in [("weights", 7, f32::NAN), ("bias", 2, f32::INFINITY)] {
        let mut graph = Graph::new("bad");
        let x = input(&mut graph, &[6]);
        let (mut w, mut b) = (numbers(24, 1), numbers(4, 2));
        if what == "weights" {
            w[index] = value
        } else {
            b[index] = value
        }
        let w = graph.add_constant("w", Tensor::from_slice(&w, &[4, 6], &Device::Cpu).unwrap());
        let b = graph.add_constant("b", Tensor::from_slice(&b, &[4], &Device::Cpu).unwrap());
        let y = graph.add_node("fc", gemm(), &[x, w, b]);
        graph.add_output(y);
        let error = GraphNetwork::new(graph).unwrap_err().to_string();
        let said = format!("the {what} of \"fc\" at flat index {index}: {value} is not finite");
        assert!(error.contains(&said), "{error}");
    }
}

/// A score that is NaN has no place among the others: no class is the best, and no accuracy can be said.
#[test]
fn outputs_that_are_not_numbers_are_not_judged() {
    let network = |constant: f32| {
        let mut graph = Graph::new("sum");
        let x = input(&mut graph, &[6]);
        let w = self::constant(&mut graph, "w", &[4, 6], 1);
        let made = graph.add_node("fc", gemm(), &[x, w]);
        let values = [0.0, 0.0, 0.0, constant];
        let b = graph.add_constant("b", Tensor::from_slice(&values, &[4], &Device::Cpu).unwrap());
        let y = graph.add_node("sum", Op::Binary(Binary::Mul), &[made, b]);
        graph.add_output(y);
        GraphNetwork::new(graph).unwrap()
    };
    let plan = Plan { lengths: vec![8], generators: vec!["sobol".parse().unwrap()], ..Plan::default() };
    // Zero times infinity, in the second piece of the samples alone.
    let n = 300;
    let mut x = features(6 * n, 3);
    x[6 * 299..].fill(0.0);
    let data = Dataset::new("made", 6, x.clone(), vec![0; n]).unwrap();
    let error = evaluate(&network(f32::INFINITY), &data, &plan, None, Cancel::NEVER, |_| ()).unwrap_err();
    let error = match error {
        Error::Unfinished { source, .. } => *source,
        error => error,
    };
    assert!(matches!(error, Error::Output { sample: 299, output: 3, .. }), "{error}");
    let search =
        Search { generator: "sobol".parse().unwrap(), loss: 1.0, longest: 8, shortest: 8, budget: 1 };
    let error = find(&network(f32::NAN), &data, &plan, &search, None, Cancel::NEVER, |_| ()).unwrap_err();
    assert!(matches!(error, Error::Output { sample: 0, output: 3, .. }), "{error}");
    let numbers = Dataset::with_targets("made", 6, x[..12].to_vec(), 4, vec![0.0; 8]).unwrap();
    let infinite = &network(f32::INFINITY);
    let error = evaluate_regression(infinite, &numbers, &plan, None, Cancel::NEVER, |_| ()).unwrap_err();
    assert!(matches!(error, Error::Output { sample: 0, output: 3, .. }), "{error}");
}

/// What makes a run impossible is found before it begins: no cell is run that could be.
#[test]
fn generators_are_checked_before_a_graph_runs() {
    let network = cnn();
    let data = Dataset::new("own", 40, features(40, 8), vec![0]).unwrap();
    let plan = |default: &str, layers: &[(&str, &str)]| {
        let layers = layers.iter().map(|(name, text)| ((*name).to_owned(), text.parse().unwrap()));
        let generators = vec!["bernoulli".parse().unwrap(), default.parse().unwrap()];
        Plan { lengths: vec![8], generators, layers: layers.collect(), seeds: 1, ..Plan::default() }
    };
    let run = |network: &GraphNetwork, plan: &Plan| {
        evaluate(network, &data, plan, None, Cancel::NEVER, |_| ()).map(|found| found.cells.len())
    };
    // A counter is one sequence; inputs of their own need as many as there are inputs.
    for (name, place) in [("conv", 0), ("fc", 1)] {
        let error = run(&network, &plan("sobol", &[(name, "generator=ramp,sharing=input")])).unwrap_err();
        let Error::Engine(EngineError::Layer { layer, name: named, .. }) = error else { panic!("{error}") };
        assert_eq!((layer, named.as_str()), (place, name));
    }
    // A layer in binary needs no sequences.
    let per_input = Plan { sharing: aleatron::generator::Sharing::OnePerInput, ..plan("ramp", &[]) };
    assert!(matches!(run(&network, &per_input), Err(Error::Core(_))));
    let conv = [("conv", "generator=sobol")];
    let conv_alone = Plan { sharing: per_input.sharing, ..plan("ramp", &conv) };
    assert!(matches!(run(&network, &conv_alone), Err(Error::Engine(EngineError::Layer { layer: 1, .. }))));
    let binary = network.clone().with_mode("fc", Mode::Binary).unwrap();
    assert_eq!(run(&binary, &conv_alone).unwrap(), 2);
    // Settings of a layer that has none, or is not there.
    let fc = plan("sobol", &[("fc", "length=4")]);
    assert!(matches!(run(&binary, &fc), Err(Error::BinaryLayer(name)) if name == "fc"));
    assert_eq!(run(&network, &fc).unwrap(), 2);
    let error = run(&network, &plan("sobol", &[("nope", "length=4")])).unwrap_err();
    assert!(matches!(error, Error::Engine(EngineError::UnknownLayer { .. })));
    for network in [&network, &binary] {
        assert!(run(network, &Plan { seeds: (1 << 20) + 1, ..plan("sobol", &[]) }).is_err());
    }
}

/// What a node in binary makes may not be a number: the product that gets it says where.
#[test]
fn inputs_of_products_that_are_not_numbers_are_named() {
    let mut graph = Graph::new("log");
    let x = input(&mut graph, &[6]);
    let made = graph.add_node("log", Op::Unary(Unary::Log), &[x]);
    let w = constant(&mut graph, "w", &[4, 6], 1);
    let y = graph.add_node("fc", gemm(), &[made, w]);
    graph.add_output(y);
    let streams = GraphNetwork::new(graph).unwrap().to_streams(&StreamConfig::new(16)).unwrap();
    let mut x = vec![1.5; 18];
    assert_eq!(streams.forward(&x, 0).unwrap().len(), 12);
    (x[8], x[11]) = (-1.0, -1.0);
    let error = streams.forward(&x, 0).unwrap_err();
    let Some(CoreError::OutOfRange { index: 8, value, .. }) = error.core() else { panic!("{error}") };
    assert!(value.is_nan());
}

/// Random weights have a variance of two over the fan-in, which the variance of what a rectifier lets through makes up for, and no two
/// layers have the same.
#[test]
fn random_networks_keep_the_size_of_their_values() {
    let network = GraphNetwork::random(NetworkShape::Resnet20, 3).unwrap();
    let mut seen: Vec<&[f32]> = Vec::new();
    for layer in network.layers() {
        let weights = &layer.product.weights;
        let squares: f64 = weights.iter().map(|&w| f64::from(w).powi(2)).sum();
        let n = weights.len() as f64;
        let variance = squares / n * layer.product.fan_in() as f64 / 2.0;
        // The mean of n squares of a normal number has a standard deviation of the root of 2 / n.
        assert!((variance - 1.0).abs() < 6.0 * (2.0 / n).sqrt(), "{}: {variance}", layer.name);
        assert!(!seen.contains(&&weights[..8]), "{}", layer.name);
        // The same draws with another scale would show in the ratio of two of them.
        let ratio = |w: &[f32]| w[0] / w[1];
        assert!(seen.iter().all(|other| (ratio(other) - ratio(weights)).abs() > 1e-4), "{}", layer.name);
        seen.push(&weights[..8]);
    }
}
