//! Networks that are to find numbers.

use aleatron::data::Dataset;
use aleatron::eval::{Plan, RegressionEvaluation, evaluate, evaluate_regression, report};
use aleatron::network::{Network, StreamConfig};
use aleatron::{Cancel, Error};
use std::sync::atomic::{AtomicUsize, Ordering};

fn plan() -> Plan {
    let generators = vec!["sobol".parse().unwrap(), "bernoulli".parse().unwrap()];
    Plan { lengths: vec![16, 256], generators, seeds: 2, ..Plan::default() }
}

/// The digits, whose scores in floating point plus one are to be found.
fn data(n: usize) -> (Network, Dataset) {
    let (network, digits) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let features = digits.features()[..64 * n].to_vec();
    let targets = network.forward(&features).unwrap().iter().map(|score| score + 1.0).collect();
    (network, Dataset::with_targets("scores", 64, features, 10, targets).unwrap())
}

fn run(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    checkpoint: Option<RegressionEvaluation>,
) -> aleatron::Result<RegressionEvaluation> {
    evaluate_regression(network, data, plan, checkpoint, Cancel::NEVER, |_| ())
}

#[test]
fn errors_are_those_of_the_outputs() {
    // More than one piece of samples.
    let (network, data) = data(300);
    let found = run(&network, &data, &plan(), None).unwrap();
    assert!((found.float.mean_absolute - 1.0).abs() < 1e-12);
    assert!((found.float.root_mean_square - 1.0).abs() < 1e-12);
    // Sobol has no seed.
    assert_eq!(found.cells.len(), 2 + 2 * 2);
    let cell =
        found.cells.iter().find(|cell| (&*cell.generator, cell.length, cell.seed) == ("bernoulli", 16, 1));
    let cell = cell.unwrap();
    let config = StreamConfig::new(16).seed(1);
    let outputs = network.to_streams(&config).unwrap().forward(data.features(), 0).unwrap();
    let differences: Vec<f64> = outputs.iter().zip(data.targets()).map(|(a, b)| a - b).collect();
    let n = differences.len() as f64;
    let absolute = differences.iter().map(|d| d.abs()).sum::<f64>() / n;
    let square = (differences.iter().map(|d| d * d).sum::<f64>() / n).sqrt();
    // The same sums in another order: rounding.
    assert!((cell.to_targets.mean_absolute - absolute).abs() < 1e-10 * absolute);
    assert!((cell.to_targets.root_mean_square - square).abs() < 1e-10 * square);
    let to_float = (differences.iter().map(|d| (d + 1.0).powi(2)).sum::<f64>() / n).sqrt();
    assert!((cell.to_float.root_mean_square - to_float).abs() < 1e-9 * to_float);
    // Longer streams are closer.
    let rows = found.rows();
    assert!(rows[1].to_float.root_mean_square.mean < rows[0].to_float.root_mean_square.mean);
    assert_eq!((rows[2].to_float.mean_absolute.n, rows[0].to_float.mean_absolute.n), (2, 1));
}

#[test]
fn evaluations_are_saved_shown_and_gone_on_from() {
    let (network, data) = data(40);
    let found = run(&network, &data, &plan(), None).unwrap();
    let read = RegressionEvaluation::from_json(&found.to_json().unwrap()).unwrap();
    assert_eq!(read, found);
    let lines: Vec<String> = found.to_csv().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 7);
    assert!(lines.iter().all(|line| line.matches(',').count() == lines[0].matches(',').count()), "{lines:?}");
    let text = found.text(100);
    assert!(text.contains("floating point: mean error 1.00, rms error 1.00"), "{text}");
    let page = report::regression(&found);
    for part in ["Against the numbers to be found", "Against floating point", "<svg", "rms to float"] {
        assert!(page.contains(part), "{part}");
    }
    for outside in ["NaN", "inf", "http:"] {
        assert!(!page.contains(outside), "{outside}");
    }
    // Cells that are there are not run again.
    let mut part = found.clone();
    part.cells.retain(|cell| cell.generator == "sobol");
    part.cells[0].seconds = 1234.0;
    let whole = run(&network, &data, &plan(), Some(part)).unwrap();
    assert_eq!(whole.cells[0].seconds, 1234.0);
    assert_eq!(whole.without_times(), found.clone().without_times());
    let other = Plan { width: "10".parse().unwrap(), ..plan() };
    assert!(matches!(
        run(&network, &data, &other, Some(found.clone())),
        Err(Error::Checkpoint("its settings"))
    ));
    let broken =
        found.to_json().unwrap().replacen("\"root_mean_square\": 1.", "\"root_mean_square\": -1.", 1);
    assert!(RegressionEvaluation::from_json(&broken).is_err());
    // Cancelled before floating point was done, and on the way.
    let cancelled = |when: &(dyn Fn() -> bool + Sync)| {
        evaluate_regression(&network, &data, &plan(), None, Cancel::when(when), |_| ())
    };
    let at_once = cancelled(&|| true).unwrap_err();
    assert!(matches!(at_once, Error::Core(aleatron::CoreError::Cancelled)), "{at_once}");
    let looks = AtomicUsize::new(0);
    let later = cancelled(&|| looks.fetch_add(1, Ordering::Relaxed) > 0).unwrap();
    assert_eq!((later.unfinished, later.float), (6, found.float));
}

#[test]
fn what_does_not_fit_is_refused() {
    let (network, data) = data(3);
    let classes = Dataset::digits_test();
    assert!(matches!(
        run(&network, &classes, &plan(), None),
        Err(Error::LabelKind { needed: "numbers to be found", .. })
    ));
    let error = evaluate(&network, &data, &plan(), None, Cancel::NEVER, |_| ());
    assert!(matches!(error, Err(Error::LabelKind { needed: "classes", .. })));
    let features = data.features().to_vec();
    let one = Dataset::with_targets("one", 64, features.clone(), 1, vec![0.0; 3]).unwrap();
    assert!(matches!(
        run(&network, &one, &plan(), None),
        Err(Error::TargetCount { expected: 10, actual: 1 })
    ));
    assert!(Dataset::with_targets("n", 64, features.clone(), 0, vec![]).is_err());
    assert!(Dataset::with_targets("n", 64, features.clone(), 2, vec![0.0; 3]).is_err());
    for bad in [f64::NAN, f64::INFINITY, -1.1e100, 1.1e100] {
        let bad = Dataset::with_targets("n", 64, features.clone(), 1, vec![0.0, bad, 0.0]);
        assert!(matches!(bad, Err(Error::Target { sample: 1, .. })));
    }
    // The largest have errors that can be written and read.
    let large = vec![1e100; 10 * data.len()];
    let large = Dataset::with_targets("n", 64, data.features().to_vec(), 10, large).unwrap();
    let found = run(&network, &large, &plan(), None).unwrap();
    assert_eq!(RegressionEvaluation::from_json(&found.to_json().unwrap()).unwrap(), found);
}
