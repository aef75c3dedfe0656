//! Evaluations, searches and tasks of graphs.

use crate::support::{
    Classes, cnn, constant, evaluated, features, gemm, given, graph, labelled, one_seed,
    same_convolution,
};
use aleatron_core::arithmetic::{Activation, Border, Pool, PoolKind};
use aleatron_core::generator::GeneratorName;
use aleatron_core::{Cancel, Convolution, Polarity};
use aleatron_data::Dataset;
use aleatron_engine::network::{
    Arithmetic, Calibration, Mode, Network, NetworkBuilder, Op, StreamConfig,
};
use aleatron_engine::{Device, Error as EngineError};
use aleatron_eval::{
    Error, Evaluation, Found, Job, Plan, Search, Task, TaskResult, evaluate, find, find_losses,
};
use aleatron_graph::{Binary, Unary};
use std::borrow::Cow;
use std::sync::Arc;

#[test]
fn evaluation_has_all_cells_and_resumes() {
    let x = features(30 * 40, 8);
    let network = cnn().calibrated(&x, &Calibration::default()).unwrap();
    let labels = network.predict(&x).unwrap();
    let data = Dataset::new("own", 40, x, labels).unwrap();
    let plan = Plan {
        lengths: vec![8, 2048],
        generators: vec!["bernoulli".parse().unwrap(), "sobol".parse().unwrap()],
        seeds: 2,
        ..Plan::default()
    };
    let found = evaluated(&network, &data, &plan);
    assert_eq!(found.cells.len(), 2 * 2 + 2);
    assert_eq!(found.float.score(), 1.0);
    for cell in &found.cells {
        assert_eq!(cell.layers.len(), 2);
        assert!(cell.layers.iter().all(|layer| layer.counts > 0 && layer.mean_value > 0.0));
        assert_eq!(cell.layers[0].saturated, 0);
    }
    let mean = |length: usize| {
        let cells: Vec<f64> = found
            .cells
            .iter()
            .filter(|cell| cell.length == length)
            .map(|cell| cell.classes().accuracy)
            .collect();
        cells.iter().sum::<f64>() / cells.len() as f64
    };
    assert!(mean(2048) > mean(8) && mean(2048) > 0.9, "{} {}", mean(8), mean(2048));
    let read = Evaluation::from_json(&found.to_json().unwrap()).unwrap();
    let mut ran = 0;
    let again = evaluate(&network, &data, &plan, Some(read), Cancel::NEVER, |_| ran += 1).unwrap();
    assert_eq!((again.cells.clone(), ran), (found.cells.clone(), 0));
    assert!(!found.text(usize::MAX).is_empty());
}

#[test]
fn search_shortens_layers_within_the_loss() {
    let x = features(30 * 40, 8);
    let network = cnn().calibrated(&x, &Calibration::default()).unwrap();
    let labels = network.predict(&x).unwrap();
    let data = Dataset::new("own", 40, x, labels).unwrap();
    let generator = "sobol".parse().unwrap();
    let search = Search { generator, loss: 5.0, longest: 1024, shortest: 4, budget: 40 };
    let plan = Plan { seeds: 1, ..Plan::default() };
    let found = find(&network, &data, &plan, &search, None, Cancel::NEVER, |_| {}).unwrap();
    assert!(found.is_finished && found.score >= found.bar);
    assert!(found.bit_macs < found.bit_macs_before, "{found:?}");
    // A search that used up its budget resumes to the same end without running a trial twice.
    let part =
        find(&network, &data, &plan, &Search { budget: 2, ..search }, None, Cancel::NEVER, |_| {})
            .unwrap();
    assert!(!part.is_finished);
    assert_eq!(part.trials.len(), 2);
    let mut ran = 0;
    let part = Found::from_json(&part.to_json().unwrap()).unwrap();
    let resume = |network: &Network, search: &Search, ran: &mut usize| {
        // Progress is reported before and after each trial.
        find(network, &data, &plan, search, Some(part.clone()), Cancel::NEVER, |found| {
            *ran = found.trials.len() - 2;
        })
    };
    let whole = resume(&network, &search, &mut ran).unwrap();
    assert_eq!((&whole.lengths, ran + 2), (&found.lengths, found.trials.len()));
    assert!(whole.is_good());
    // Trials of another network, generator or loss are refused.
    let other = network.clone().with_polarity(Polarity::Bipolar).unwrap();
    assert!(matches!(resume(&other, &search, &mut ran), Err(Error::Checkpoint(_))));
    let other = Search { generator: "lfsr".parse().unwrap(), ..search };
    assert!(matches!(resume(&network, &other, &mut ran), Err(Error::Checkpoint("the generator"))));
    let lossy = Search { loss: f64::NAN, ..search };
    assert!(matches!(resume(&network, &lossy, &mut ran), Err(Error::Loss(_))));
    let mut broken = part.clone();
    broken.trials[0].score = 1.5;
    assert!(Found::from_json(&broken.to_json().unwrap()).is_err());
}

#[test]
fn tasks_of_a_graph_merge_to_the_whole_evaluation() {
    let (network, data) = labelled(600);
    // A network whose scores come from streams, and one whose scores are computed in binary.
    let binary = network.clone().with_mode("fc", Mode::Binary).unwrap();
    for (network, arithmetic) in [
        (&network, Arithmetic::Float),
        (&network, Arithmetic::Integer),
        (&binary, Arithmetic::Float),
        (&binary, Arithmetic::Integer),
    ] {
        let margins = vec![2.0, 1.0];
        let plan = Plan { seeds: 2, margins, arithmetic, ..one_seed("bernoulli", &[16, 24]) };
        let whole = evaluated(network, &data, &plan).without_times();
        assert!(whole.is_complete() && whole.cells.len() == 4);
        let job = Job::new(Arc::new(network.clone()), Cow::Borrowed(&data), plan.clone()).unwrap();
        // A worker on another machine has the bytes alone.
        let worker = Job::from_bytes(&job.to_bytes().unwrap()).unwrap();
        let mut journal = job.journal(None).unwrap();
        let tasks = job.schedule().split(&journal.missing(), 20);
        assert!(tasks.len() >= 10);
        for (k, task) in tasks.iter().rev().enumerate() {
            let runs = if k % 2 == 0 { &worker } else { &job };
            let line = runs.run(task, Cancel::NEVER, &mut || ()).unwrap().to_line().unwrap();
            journal.add(TaskResult::from_line(&line).unwrap()).unwrap();
        }
        assert_eq!(journal.finish().unwrap().without_times(), whole);
        assert!(Job::from_bytes(&job.to_bytes().unwrap()[..900]).is_err());
    }
}

#[test]
fn layers_on_a_second_output_are_evaluated() {
    let network = graph(&[6], |graph, x| {
        let split = Op::Split { axis: 1, sizes: None, parts: Some(2) };
        let second = graph.add_node_with_outputs("halves", split, &[x], 2)[1];
        let w = constant(graph, "w", &[3, 2], 1);
        graph.add_node("fc", Op::MatMul, &[second, w])
    });
    let data = Dataset::new("halves", 6, features(24, 3), vec![0, 1, 0, 1]).unwrap();
    let found = evaluated(&network, &data, &one_seed("sobol", &[64]));
    assert_eq!((found.cells.len(), found.network.layers), (1, vec!["fc".to_owned()]));
}

/// Numbers in [-1, 1] that do not repeat soon.
fn spread(n: usize, step: usize) -> Vec<f64> {
    (0..n).map(|k| ((k * step + 5) % 101) as f64 / 50.0 - 1.0).collect()
}

/// Strides, padding, groups and both pools.
fn convolutions() -> Network {
    let first = Convolution::conv2d([2, 6, 7], 4, [3, 2]).with_padding([1, 0]).with_groups(2);
    let second = Convolution::conv2d([4, 3, 3], 3, [2, 2])
        .with_stride([1, 2])
        .with_paddings([[0, 1], [1, 0]]);
    NetworkBuilder::new("convolutions", &[2, 6, 7])
        .features(&[0.5], &[2.0])
        .convolution("first", first, &spread(24, 37), &spread(4, 17))
        .activation(Activation::Relu)
        .pool(Pool::new(PoolKind::Max, [2, 2]))
        .convolution("second", second, &spread(48, 41), &spread(3, 17))
        .input_scale(4.0)
        .activation(Activation::Clamp { low: -3.0, high: 5.0 })
        .pool(Pool::new(PoolKind::Average, [2, 1]).with_paddings([[1, 0], [0, 0]], Border::Zeros))
        .dense("last", 12, &spread(36, 29), &[0.25, -0.5, 0.0])
        .input_scale(3.0)
        .build()
        .unwrap()
}

/// Every generator, early termination and certain stops, in both arithmetics.
#[test]
fn convolutions_are_evaluated_with_every_generator() {
    let network = convolutions();
    let features: Vec<f64> = spread(40 * 84, 13).iter().map(|x| 2.0 * x + 0.5).collect();
    let labels = network.predict(&features).unwrap();
    let data = Dataset::new("made", 84, features, labels).unwrap();
    for arithmetic in Arithmetic::ALL {
        let plan = Plan { lengths: vec![16, 256], seeds: 1, arithmetic, ..Plan::default() };
        let evaluation = evaluated(&network, &data, &plan);
        assert_eq!((evaluation.float.score(), evaluation.network.sizes.len()), (1.0, 4));
        // The features, and the rows of weights of each layer.
        assert_eq!(evaluation.network.sizes, [84, 4, 3, 3]);
        for row in evaluation.rows() {
            let certain = row.classes().certain.unwrap();
            assert!(certain.mean_cycles <= row.length as f64);
            if row.length == 256 {
                assert!(row.score() >= 0.8, "{} {arithmetic}", row.generator);
                // Signs alone decide much before the end.
                assert!(certain.stopped > 0.0, "{} {arithmetic}", row.generator);
            }
        }
    }
}

/// Convolutions with a residual sum and a dense layer, on images of 2 x 6 x 5.
fn residual() -> Network {
    let network = graph(&[2, 6, 5], |graph, x| {
        let (k1, b1) = (constant(graph, "k1", &[4, 2, 3, 3], 1), constant(graph, "b1", &[4], 2));
        let conv1 = graph.add_node("conv1", same_convolution(), &[x, k1, b1]);
        let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[conv1]);
        let k2 = constant(graph, "k2", &[4, 4, 3, 3], 3);
        let conv2 = graph.add_node("conv2", same_convolution(), &[relu, k2]);
        let sum = graph.add_node("sum", Op::Binary(Binary::Add), &[conv2, relu]);
        let flat = graph.add_node("flat", Op::Flatten { axis: 1 }, &[sum]);
        let (w, b) = (constant(graph, "w", &[5, 120], 4), constant(graph, "b", &[5], 5));
        graph.add_node("fc", gemm(), &[flat, w, b])
    });
    network.calibrated(&features(300 * 60, 21), &Calibration::default()).unwrap()
}

#[test]
fn graphs_are_evaluated_in_integer_arithmetic() {
    let network = residual();
    let x = features(300 * 60, 21);
    let data = Dataset::new("own", 60, x.clone(), network.predict(&x).unwrap()).unwrap();
    let generators = vec!["sobol".parse().unwrap()];
    let arithmetic = Arithmetic::Integer;
    let plan =
        Plan { lengths: vec![16, 1024], generators, seeds: 1, arithmetic, ..Plan::default() };
    let mut found = evaluated(&network, &data, &plan);
    assert_eq!(found.plan.arithmetic, Arithmetic::Integer);
    let config = StreamConfig::new(1024).generator("sobol".parse().unwrap()).arithmetic(arithmetic);
    let streams = network.to_streams(&config).unwrap();
    let right =
        streams.predict(&x, 0).unwrap().iter().zip(data.labels()).filter(|(a, b)| a == b).count();
    assert_eq!(found.cells[1].classes().accuracy, right as f64 / 300.0);
    assert!(
        found.cells[1].classes().accuracy > 0.9
            && found.cells[0].classes().accuracy < found.cells[1].classes().accuracy
    );
    // Errors of long streams are small in every layer.
    assert!(
        found.cells[1].layers.iter().all(|layer| layer.mean_value < 0.02),
        "{:?}",
        found.cells[1].layers
    );
    find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
    let losses = &found.graph.as_ref().unwrap().losses[0];
    assert!(
        losses.node_errors.iter().all(|error| error.is_some_and(|error| error > 0.0)),
        "{losses:?}"
    );
    assert_eq!(losses.alone.iter().flatten().count(), 3);
    // An unsupported node is an error before the first pass.
    let sigmoid = graph(&[6], |graph, x| {
        let w = constant(graph, "w", &[6, 6], 1);
        let first = graph.add_node("first", gemm(), &[x, w]);
        let gate = graph.add_node("sigmoid", Op::Unary(Unary::Sigmoid), &[first]);
        let v = constant(graph, "v", &[4, 6], 3);
        graph.add_node("second", gemm(), &[gate, v])
    });
    let six = Dataset::new("six", 6, features(30, 1), vec![0; 5]).unwrap();
    let refused = evaluate(&sigmoid, &six, &plan, None, Cancel::NEVER, |_| panic!()).unwrap_err();
    assert!(matches!(refused, Error::Engine(EngineError::NoIntegerForm { .. })));
}

#[test]
fn regression_of_a_graph_has_errors_that_fall_with_the_length() {
    let network = cnn().calibrated(&features(50 * 40, 3), &Calibration::default()).unwrap();
    let x = features(20 * 40, 21);
    let data =
        Dataset::with_targets("made", 40, x.clone(), 3, network.forward(&x).unwrap()).unwrap();
    let plan = one_seed("sobol", &[64, 1024]);
    let found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
    assert_eq!(found.float.regression().unwrap().root_mean_square, 0.0);
    let errors: Vec<_> =
        found.cells.iter().map(|cell| cell.figures.regression().unwrap()).collect();
    let [short, long] = [0, 1].map(|k| errors[k].to_targets.root_mean_square);
    assert!(long < short / 4.0, "{errors:?}");
    assert_eq!(errors[0].to_targets, errors[0].to_float);
}

/// A score that is NaN has no rank among the others: there is no best class.
#[test]
fn outputs_that_are_not_numbers_are_errors() {
    let network = |factor: f32| {
        graph(&[6], |graph, x| {
            let w = constant(graph, "w", &[4, 6], 1);
            let product = graph.add_node("fc", gemm(), &[x, w]);
            let b = given(graph, "b", &[0.0, 0.0, 0.0, factor], &[4]);
            graph.add_node("product", Op::Binary(Binary::Mul), &[product, b])
        })
    };
    let plan =
        Plan { lengths: vec![8], generators: vec!["sobol".parse().unwrap()], ..Plan::default() };
    // Zero times infinity, in the second chunk of samples only.
    let n = 300;
    let mut x = features(6 * n, 3);
    x[6 * 299..].fill(0.0);
    let data = Dataset::new("made", 6, x.clone(), vec![0; n]).unwrap();
    let error =
        evaluate(&network(f32::INFINITY), &data, &plan, None, Cancel::NEVER, |_| ()).unwrap_err();
    let error = match error {
        Error::Unfinished { source, .. } => *source,
        error => error,
    };
    assert!(matches!(error, Error::Output { sample: 299, output: 3, .. }), "{error}");
    let search = Search {
        generator: "sobol".parse().unwrap(),
        loss: 1.0,
        longest: 8,
        shortest: 8,
        budget: 1,
    };
    let error =
        find(&network(f32::NAN), &data, &plan, &search, None, Cancel::NEVER, |_| ()).unwrap_err();
    assert!(matches!(error, Error::Output { sample: 0, output: 3, .. }), "{error}");
    let numbers = Dataset::with_targets("made", 6, x[..12].to_vec(), 4, vec![0.0; 8]).unwrap();
    let infinite = &network(f32::INFINITY);
    let error = evaluate(infinite, &numbers, &plan, None, Cancel::NEVER, |_| ()).unwrap_err();
    assert!(matches!(error, Error::Output { sample: 0, output: 3, .. }), "{error}");
}

fn digits(n: usize) -> Dataset {
    let all = Dataset::digits_test();
    Dataset::new("some", 64, all.features()[..64 * n].to_vec(), all.labels()[..n].to_vec()).unwrap()
}

#[test]
fn pool_of_devices_has_the_early_stops_of_the_cpu() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), digits(200));
    let on = |device: Device| -> Evaluation {
        let plan = Plan { device, ..one_seed("sobol", &[32]) };
        evaluated(&network, &data, &plan).without_times()
    };
    let (cpu, pool) = (on(Device::Cpu), on(Device::Pool(vec![Device::Cpu, Device::Cpu])));
    assert!(cpu.cells[0].classes().early[0].stopped > 0.0);
    assert_eq!(pool.cells, cpu.cells);
}

fn run(job: &Job<'_>, task: &Task) -> serde_json::Value {
    let result = job.run(task, Cancel::NEVER, &mut || ()).unwrap();
    serde_json::from_str(&result.to_line().unwrap()).unwrap()
}

/// A generator is warned of once, not for each of its passes.
#[test]
fn journal_warns_of_a_generator_once() {
    let (network, data) = (Arc::new(Network::digits_noise_aware().unwrap()), digits(3));
    for (generator, warns) in [("sobol", false), ("sobol:1+sobol:1", true)] {
        let job = Job::new(Arc::clone(&network), Cow::Borrowed(&data), one_seed(generator, &[16]))
            .unwrap();
        // Floating point, the partial length of eight cycles, and the cell: only the cell has
        // certain stops.
        let certain = |task: &Task| run(&job, task)["chunks"][0]["certain"].is_array();
        assert_eq!(
            job.schedule().tasks().iter().map(certain).collect::<Vec<_>>(),
            [false, false, true]
        );
        let mut journal = job.journal(None).unwrap();
        for task in job.schedule().tasks() {
            journal.add(job.run(&task, Cancel::NEVER, &mut || ()).unwrap()).unwrap();
        }
        let found = journal.finish().unwrap();
        let name: GeneratorName = generator.parse().unwrap();
        let warnings = found.warnings.iter().filter(|text| text.starts_with(&format!("{name}: ")));
        assert_eq!(warnings.count(), usize::from(warns), "{:?}", found.warnings);
    }
}
