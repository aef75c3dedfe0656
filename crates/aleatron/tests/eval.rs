//! Evaluations: figures that are known, bars that must hold, stopping and going on, and faults by name.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking, too")]

use aleatron::core::generator::{Sharing, Warning, Width};
use aleatron::data::Dataset;
use aleatron::eval::multiplier::{MAP_SIDE, MultiplierError, Operand};
use aleatron::eval::{Evaluation, GeneratorSpec, Plan, evaluate};
use aleatron::network::Network;
use std::ops::ControlFlow;

fn plan(generators: &[&str], lengths: &[usize]) -> Plan {
    let generators = generators.iter().map(|text| text.parse().unwrap()).collect();
    Plan { generators, lengths: lengths.to_vec(), ..Plan::default() }
}

fn run(plan: &Plan) -> Evaluation {
    let network = Network::digits_noise_aware().unwrap();
    evaluate(&network, &Dataset::digits_test(), plan, None, |_| ControlFlow::Continue(())).unwrap()
}

/// What does not depend on how fast the machine is.
fn timeless(mut evaluation: Evaluation) -> Evaluation {
    for cell in &mut evaluation.cells {
        (cell.seconds, cell.samples_per_second, cell.bit_macs_per_second) = (0.0, 0.0, 0.0);
    }
    evaluation
}

#[test]
fn the_bars_hold() {
    let evaluation = run(&plan(&["sobol", "bernoulli"], &[16, 32, 64, 256]));
    assert!(evaluation.is_complete());
    assert_eq!(evaluation.cells.len(), 4 + 3 * 4);
    let sobol = evaluation.rows_of("sobol");
    assert!(sobol[0].accuracy.mean >= 0.9 && sobol[1].accuracy.mean >= evaluation.float_accuracy - 0.01);
    assert!(evaluation.shortest_within("sobol", 1.0).unwrap() <= 32);
    // Half the cycles for at most half a point, with one margin for all.
    for row in evaluation.rows().iter().filter(|row| row.length >= 64) {
        let stop = row.early.iter().find(|stop| stop.margin == 3.0).unwrap();
        assert!(stop.mean_cycles <= row.length as f64 / 2.0 && stop.accuracy_lost <= 0.005, "{row:?}");
        assert!(row.early_within(0.5).unwrap().mean_cycles <= stop.mean_cycles);
    }
}

#[test]
fn cells_add_up() {
    let evaluation = run(&plan(&["bernoulli", "lfsr"], &[24, 8]));
    assert_eq!(evaluation.plan.lengths, [8, 24]);
    for cell in &evaluation.cells {
        let samples: u32 = cell.confusion.iter().flatten().sum();
        let right: u32 = (0..10).map(|k| cell.confusion[k][k]).sum();
        assert_eq!(samples, 360);
        assert_eq!(cell.accuracy, f64::from(right) / 360.0);
        assert_eq!(cell.layers.iter().map(|layer| layer.counts).collect::<Vec<_>>(), [64 * 360, 10 * 360]);
        // A bipolar count is half the length times its value.
        for layer in &cell.layers {
            assert!((layer.mean_count - layer.mean_value * cell.length as f64 / 2.0).abs() < 1e-9);
        }
        let never = cell.early.last().unwrap();
        assert!(never.mean_cycles >= cell.early[0].mean_cycles && never.stopped <= cell.early[0].stopped);
        assert!((never.accuracy + never.accuracy_lost - cell.accuracy).abs() < 1e-12);
    }
    let rows = evaluation.rows();
    assert_eq!(rows.len(), 4);
    for row in &rows {
        let cells =
            evaluation.cells.iter().filter(|c| c.generator == row.generator && c.length == row.length);
        let accuracies: Vec<f64> = cells.map(|cell| cell.accuracy).collect();
        assert_eq!(accuracies.len(), 3);
        assert!((row.accuracy.mean - accuracies.iter().sum::<f64>() / 3.0).abs() < 1e-12);
        assert!(row.accuracy.low <= row.accuracy.mean && row.accuracy.mean <= row.accuracy.high);
        assert!(accuracies.iter().any(|a| *a != accuracies[0]), "seeds make no difference: {row:?}");
    }
}

#[test]
fn an_evaluation_that_was_stopped_goes_on_where_it_was() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let plan = plan(&["bernoulli", "sobol"], &[8, 16]);
    let mut calls = 0;
    let stop_at = |limit| {
        move |_: aleatron::eval::Progress<'_>| {
            calls += 1;
            if calls > limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    };
    let part = evaluate(&network, &data, &plan, None, stop_at(9)).unwrap();
    assert!(!part.is_complete() && !part.cells.is_empty());
    let json = part.to_json().unwrap();
    let part: Evaluation = serde_json::from_str(&json).unwrap();
    let kept = part.cells.len();
    let mut seen = Vec::new();
    let whole = evaluate(&network, &data, &plan, Some(part.clone()), |progress| {
        seen.push(progress.done);
        assert_eq!(progress.total, 8);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(whole.is_complete());
    assert_eq!(seen.first(), Some(&kept));
    assert_eq!(whole.cells[..kept], part.cells);
    assert_eq!(timeless(whole), timeless(run(&plan)));

    let message = |plan: &Plan, network: &Network| {
        let part = Some(part.clone());
        evaluate(network, &data, plan, part, |_| ControlFlow::Continue(())).unwrap_err().to_string()
    };
    let wide = Plan { width: Width::new(9).unwrap(), ..plan.clone() };
    assert_eq!(message(&wide, &network), "the earlier evaluation differs in its settings");
    let plain = Network::digits_plain().unwrap();
    assert_eq!(message(&plan, &plain), "the earlier evaluation differs in the network");
}

#[test]
fn generators_are_read_and_written() {
    for text in ["bernoulli", "lfsr", "sobol", "halton", "vdc", "ramp", "sobol:3+lfsr:9", "vdc+halton:5"] {
        let spec: GeneratorSpec = text.parse().unwrap();
        assert_eq!(spec.to_string(), text);
    }
    assert_eq!(" SOBOL ".parse::<GeneratorSpec>().unwrap(), GeneratorSpec::SOBOL);
    let message = |text: &str| text.parse::<GeneratorSpec>().unwrap_err().to_string();
    assert!(message("sobl").contains("use one of bernoulli, lfsr, sobol"), "{}", message("sobl"));
    assert!(message("sobol:x+ramp").contains("not a number"));
    assert!(message("ramp:3+vdc").contains("takes no parameter"));
    let far: GeneratorSpec = "sobol:1+sobol:5000".parse().unwrap();
    let error = far.generator(0, Width::EIGHT, Sharing::OneForAll).unwrap_err();
    assert_eq!(error.to_string(), "Sobol dimension is 5000, the most is 1111");
}

#[test]
fn plans_that_cannot_be_run_say_why() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let message = |plan: Plan, data: &Dataset| {
        evaluate(&network, data, &plan, None, |_| ControlFlow::Continue(())).unwrap_err().to_string()
    };
    assert_eq!(
        message(Plan { lengths: vec![], ..Plan::default() }, &data),
        "lengths: at least one is needed"
    );
    assert_eq!(message(Plan { seeds: 0, ..Plan::default() }, &data), "seeds: at least one is needed");
    assert_eq!(message(plan(&["sobol"], &[8, 0]), &data), "stream length must be at least 1");
    let nan = Plan { margins: vec![f64::NAN], ..Plan::default() };
    assert_eq!(message(nan, &data), "the confidence margin is NaN, not a number from 0 on");
    let narrow = Dataset::new("narrow", 2, vec![0.0; 4], vec![0, 1]).unwrap();
    assert_eq!(message(Plan::default(), &narrow), "the samples have 2 features, the network takes 64");
    let strange = Dataset::new("strange", 64, vec![0.0; 128], vec![0, 10]).unwrap();
    assert_eq!(
        message(Plan::default(), &strange),
        "the label of sample 1 is 10, but the network has 10 classes"
    );
}

#[test]
fn bad_pairs_warn_once() {
    let evaluation = run(&plan(&["lfsr:1+lfsr:113", "sobol:4+sobol:4"], &[8, 16]));
    assert_eq!(evaluation.warnings.len(), 2, "{:?}", evaluation.warnings);
    assert!(
        evaluation.warnings[0]
            .starts_with("lfsr:1+lfsr:113: the LFSRs of inputs and weights are 10 steps apart")
    );
    assert!(evaluation.warnings[1].contains("share one sequence (Sobol 8 bits, dimension 4)"));
}

fn errors(x: &str, y: &str, length: usize) -> MultiplierError {
    MultiplierError::of(x.parse().unwrap(), y.parse().unwrap(), length).unwrap()
}

#[test]
fn multiplier_tables_hold_the_known_values() {
    let rounded = |value: f64| (value * 1e5).round() as i64;
    for (x, y, known) in [
        ("sobol:1", "sobol:2", [3735, 1843, 921, 451, 190]),
        ("lfsr:1", "lfsr:113", [15810, 15658, 8034, 1848, 304]),
    ] {
        let found = [16, 32, 64, 128, 256].map(|length| rounded(errors(x, y, length).mae));
        assert_eq!(found, known, "{x} {y}");
    }
    let error = errors("sobol:1", "sobol:2", 256);
    assert_eq!(rounded(error.rmse), 237);
    assert!(error.bias.abs() <= error.mae && error.mae <= error.rmse && error.rmse <= error.worst);
    assert_eq!(error.map.len(), MAP_SIDE * MAP_SIDE);
    let mean = error.map.iter().sum::<f64>() / error.map.len() as f64;
    assert!((mean - error.mae).abs() < 1e-12);
}

#[test]
fn correlation_tells_good_pairs_from_bad_ones() {
    // One sequence for both: the overlap is the greatest possible, so SCC is 1 wherever it is defined.
    let same = errors("sobol:1", "sobol:1", 256);
    assert!((same.mean_scc - (255.0 / 256.0_f64).powi(2)).abs() < 1e-12, "{}", same.mean_scc);
    assert!(same.bias > 0.08);
    let good = errors("sobol:1", "sobol:2", 256);
    assert!(good.mean_zce < 0.003 && same.mean_zce > 0.08, "{} {}", good.mean_zce, same.mean_zce);
    // Random streams are as wrong as chance makes them: one run of one stream per operand.
    let random = errors("bernoulli:1", "bernoulli:2", 256);
    assert!(random.mae > 5.0 * good.mae && random.mae < 0.05, "{}", random.mae);
    assert_eq!(random, errors("bernoulli:1", "bernoulli:2", 256));
    let operand = |text: &str| text.parse::<Operand>().unwrap();
    let warning = operand("lfsr:1").warning(&operand("lfsr:113")).unwrap();
    assert_eq!(warning, Some(Warning::NeighbouringStates { steps: 10, width: 8 }));
    assert_eq!(operand("bernoulli").warning(&operand("bernoulli")).unwrap(), None);
}
