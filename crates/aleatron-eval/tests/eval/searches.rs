//! Plans, progress and searches over small networks.

use crate::support::{Classes, evaluated as run, float_accuracy};
use aleatron_core::Cancel;
use aleatron_core::arithmetic::Activation;
use aleatron_data::Dataset;
use aleatron_engine::network::{Batching, Network, NetworkBuilder};
use aleatron_eval::{Error, Evaluation, Plan, Search, evaluate, find};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

fn network() -> Network {
    NetworkBuilder::new("small", &[2])
        .dense("hidden", 2, &[0.5, -1.0, 1.0, 0.25, 0.0, 0.5], &[0.0, 0.1, -0.1])
        .activation(Activation::Relu)
        .dense("output", 3, &[1.0, -1.0, 0.5, -0.5, 1.0, 0.25], &[0.25, 0.0])
        .build()
        .unwrap()
}

/// Samples whose labels are the classes of a network.
fn data(network: &Network, n: usize) -> Dataset {
    let features: Vec<f64> = (0..2 * n).map(|k| (k * 37 % 101) as f64 / 100.0).collect();
    let labels = network.predict(&features).unwrap();
    Dataset::new("grid", 2, features, labels).unwrap()
}

fn plan(lengths: &[usize], generator: &str) -> Plan {
    let generators = vec![generator.parse().unwrap()];
    Plan { lengths: lengths.to_vec(), generators, seeds: 2, ..Plan::default() }
}

#[test]
fn plan_with_a_length_for_every_layer_has_one_row_of_these_lengths() {
    let (network, mut plan) = (network(), plan(&[16, 1024], "sobol"));
    let data = data(&network, 40);
    plan.layers.insert("hidden".to_owned(), "length=32".parse().unwrap());
    let both = run(&network, &data, &plan);
    let lengths: Vec<_> = both.rows().iter().map(|row| (row.length, row.lengths.clone())).collect();
    assert_eq!(lengths, [(16, vec![32, 16]), (1024, vec![32, 1024])]);
    plan.layers.insert("output".to_owned(), "length=512".parse().unwrap());
    let one = run(&network, &data, &plan);
    assert_eq!(one.plan.lengths, [512]);
    let row = &one.rows()[0];
    assert_eq!(
        (row.length, row.lengths.as_slice(), row.bits()),
        (512, &[32, 512][..], "32-512".to_owned())
    );
    assert_eq!(row.mean_length(), 272.0);
    // A sample that never stops takes all cycles, and restarts of the second layer at 8, 16, ... of
    // 512 cycles.
    let restarts: f64 = [8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0].iter().sum();
    let most = (32.0 + restarts) / 2.0;
    assert!(
        row.classes().early.iter().all(|stop| stop.mean_cycles <= most),
        "{:?}",
        row.classes().early
    );
    let text = one.to_string();
    assert!(text.contains("32-512") && !text.contains("from 512 bits"), "{text}");
    // The same streams as with the lengths of the plan.
    let alone =
        Plan { lengths: vec![512], layers: [plan.layers.pop_first().unwrap()].into(), ..plan };
    assert_eq!(
        run(&network, &data, &alone).cells[0].classes().confusion,
        one.cells[0].classes().confusion
    );
}

#[test]
fn headline_holds_for_the_worst_seed() {
    let network = network();
    let mut evaluation = run(&network, &data(&network, 60), &plan(&[64, 256], "bernoulli"));
    let n = evaluation.data.samples as f64;
    for cell in &mut evaluation.cells {
        let is_worst = cell.seed == 1 && cell.length == 64;
        cell.classes_mut().accuracy = if is_worst { (n - 1.0) / n - 0.1 } else { 1.0 };
    }
    evaluation.float = float_accuracy(1.0);
    assert_eq!(evaluation.shortest_within("bernoulli", 1.0).unwrap(), Some(256));
    // The mean of both seeds alone is within six points.
    assert_eq!(evaluation.shortest_within("bernoulli", 6.0).unwrap(), Some(256));
    assert_eq!(evaluation.shortest_within("bernoulli", 12.0).unwrap(), Some(64));
    assert!(evaluation.to_string().contains("from 256 bits on, the worst of 2 seeds included"));
}

#[test]
fn progress_has_every_finished_cell_in_an_evaluation_that_can_be_resumed() {
    let network = network();
    let (data, plan) = (data(&network, 300), plan(&[8, 16], "bernoulli"));
    let saved = RefCell::new(Vec::new());
    let whole = evaluate(&network, &data, &plan, None, Cancel::NEVER, |progress| {
        assert_eq!((progress.done, progress.total), (progress.evaluation.cells.len(), 4));
        if saved.borrow().len() < progress.done {
            saved.borrow_mut().push(progress.evaluation.to_json().unwrap());
        }
    });
    let whole = whole.unwrap().without_times();
    assert_eq!(saved.borrow().len(), 4);
    for (k, text) in saved.into_inner().iter().enumerate() {
        let part = Evaluation::from_json(text).unwrap();
        assert_eq!((part.cells.len(), part.unfinished), (k + 1, 3 - k));
        let resumed = evaluate(&network, &data, &plan, Some(part), Cancel::NEVER, |_| ()).unwrap();
        assert_eq!(resumed.without_times(), whole);
    }
}

/// The class depends on the mean of all samples: chunks of 256 would have other means.
#[test]
fn network_that_mixes_samples_runs_whole() {
    use aleatron_graph::op::{Dims, NoAxes, Reduction};
    use aleatron_graph::{Binary, Dim, Graph, Op, Value};
    use aleatron_tensor::{DType, Device, Tensor};
    let mut graph = Graph::new("centred");
    let shape = Some(vec![Dim::Named("n".to_owned()), Dim::Fixed(2)]);
    let input = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
    let (reduction, axes) = (Reduction::Mean, Some(vec![0]));
    let op = Op::Reduce { reduction, axes, reduced: Dims::Keep, no_axes: NoAxes::All };
    let mean = graph.add_node("mean", op, &[input]);
    let centred = graph.add_node("centred", Op::Binary(Binary::Sub), &[input, mean]);
    let weights = Tensor::from_slice(&[1.0_f32, -1.0, -1.0, 1.0], &[2, 2], &Device::Cpu).unwrap();
    let weights = graph.add_constant("w", weights);
    let scores = graph.add_node("scores", Op::MatMul, &[centred, weights]);
    graph.add_output(scores);
    let network = Network::new(graph).unwrap();
    assert_eq!(network.batching(), Batching::Whole);
    // The second feature of later samples is much larger: means of the first 256 samples differ
    // from those of all.
    let shift = |k: usize| if k > 512 && k % 2 == 1 { 0.8 } else { 0.0 };
    let features: Vec<f64> = (0..600).map(|k| (k * 37 % 101) as f64 / 1000.0 + shift(k)).collect();
    let labels = network.predict(&features).unwrap();
    let data = Dataset::new("grid", 2, features.clone(), labels.clone()).unwrap();
    let found = run(&network, &data, &plan(&[4096], "sobol"));
    assert_eq!(found.float.score(), 1.0);
    let split = network.predict(&features[..512]).unwrap();
    assert_ne!(split, labels[..256]);
}

#[test]
fn search_is_never_worse_than_a_uniform_length_that_passes() {
    let network = network();
    let data = data(&network, 200);
    let search = Search {
        generator: "sobol".parse().unwrap(),
        loss: 2.0,
        longest: 1024,
        shortest: 4,
        budget: 100,
    };
    let found =
        find(&network, &data, &Plan::default(), &search, None, Cancel::NEVER, |_| ()).unwrap();
    assert!(found.is_good());
    let uniform: Vec<_> =
        found.trials.iter().filter(|trial| trial.lengths[0] == trial.lengths[1]).collect();
    let first = uniform.iter().find(|trial| trial.score >= found.bar).unwrap();
    assert!(
        found.lengths.iter().zip(&first.lengths).all(|(own, uniform)| own <= uniform),
        "{found:?}"
    );
    assert_eq!(found.trials[0].lengths, [4, 4]);
}

#[test]
fn search_that_is_cancelled_returns_its_trials() {
    let (network, digits) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let (features, labels) =
        (digits.features()[..64 * 50].to_vec(), digits.labels()[..50].to_vec());
    let data = Dataset::new("few", 64, features, labels).unwrap();
    let search = Search {
        generator: "sobol".parse().unwrap(),
        loss: 0.0,
        longest: 64,
        shortest: 2,
        budget: 100,
    };
    let plan = Plan::default();
    let seen = AtomicUsize::new(0);
    let is_cancelled = || seen.load(Ordering::Relaxed) >= 2;
    let cancelled =
        find(&network, &data, &plan, &search, None, Cancel::when(&is_cancelled), |found| {
            seen.store(found.trials.len(), Ordering::Relaxed);
        });
    let part = cancelled.unwrap();
    assert_eq!((part.trials.len(), part.is_finished), (2, false));
    let whole =
        find(&network, &data, &plan, &search, Some(part.clone()), Cancel::NEVER, |_| ()).unwrap();
    assert_eq!(whole.trials[..2], part.trials);
    let other = Search { generator: "halton".parse().unwrap(), ..search };
    let wrong = find(&network, &data, &plan, &other, Some(part), Cancel::NEVER, |_| ());
    assert!(matches!(wrong, Err(Error::Checkpoint("the generator"))));
}
