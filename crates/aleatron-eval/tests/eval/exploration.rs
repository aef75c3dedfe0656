//! Exploring designs: scores, Pareto sets, budgets, resuming and pages.

use aleatron_core::Cancel;
use aleatron_core::arithmetic::Arithmetic;
use aleatron_data::Dataset;
use aleatron_engine::network::{Network, NetworkBuilder, StreamConfig};
use aleatron_eval::{
    Design, DesignSpace, EarlyTermination, Error, Exploration, Lanes, Plan, Rung, evaluate,
    explore, pending_trials, report, run_trial,
};
use aleatron_hardware::cost::Technology;
use aleatron_hardware::{Circuit, Margin, Options, Output};
use std::cell::{Cell, RefCell};

fn space(lengths: &[usize], generators: &[&str]) -> DesignSpace {
    DesignSpace {
        lengths: lengths.to_vec(),
        generators: generators.iter().map(|name| name.parse().unwrap()).collect(),
        ..DesignSpace::default()
    }
}

fn plan() -> Plan {
    Plan { seeds: 2, ..Plan::default() }
}

fn run(space: &DesignSpace, known: Option<Exploration>) -> Exploration {
    let networks = [Network::digits_noise_aware().unwrap()];
    explore(&networks, &Dataset::digits_test(), &plan(), space, known, Cancel::NEVER, |_| ())
        .unwrap()
}

/// Workers that run trials in any order find what one process finds, also if they lose a batch.
#[test]
fn trials_of_workers_lead_to_the_designs_of_one_process() {
    let networks = [Network::digits_noise_aware().unwrap()];
    let (data, plan) = (Dataset::digits_test(), plan());
    for (space, least) in [
        (space(&[8, 16, 32], &["sobol", "int4"]), 2),
        (DesignSpace { budget: 3, ..space(&[8, 16], &["sobol", "lfsr"]) }, 1),
    ] {
        let mut known = None;
        let mut batches = 0;
        loop {
            let (mut found, pending) =
                pending_trials(&networks, &data, &plan, &space, known, Cancel::NEVER).unwrap();
            if pending.is_empty() {
                known = Some(found);
                break;
            }
            batches += 1;
            for trial in pending.iter().rev().take(if batches == 1 { 1 } else { usize::MAX }) {
                found.trials.push(
                    run_trial(&networks, &data, &plan, &space, trial, Cancel::NEVER).unwrap(),
                );
            }
            known = Some(found);
        }
        assert!(batches > least, "{batches}");
        let n_trials = known.as_ref().unwrap().trials.len();
        let (workers, alone) = (run(&space, known), run(&space, None));
        assert_eq!(workers.trials.len(), n_trials);
        assert_eq!((workers.designs, workers.is_finished), (alone.designs, alone.is_finished));
    }
}

/// Returns whether one design is at least as good as another in every respect and better in one.
fn is_better(a: &Design, b: &Design) -> bool {
    let gains = [
        a.score - b.score,
        b.cost.energy - a.cost.energy,
        b.cost.area - a.cost.area,
        b.cost.latency as f64 - a.cost.latency as f64,
    ];
    gains.iter().all(|&gain| gain >= 0.0) && gains.iter().any(|&gain| gain > 0.0)
}

#[test]
fn explored_scores_are_those_of_an_evaluation_in_integers() {
    let found = run(&space(&[8, 16, 32], &["sobol", "lfsr"]), None);
    assert!(found.is_finished);
    let network = Network::digits_noise_aware().unwrap();
    for design in &found.designs {
        let streams = &design.streams;
        let mut plan = Plan {
            lengths: vec![1],
            generators: vec![streams.generator],
            arithmetic: Arithmetic::Integer,
            ..plan()
        };
        for (layer, length) in found.layers.iter().zip(&streams.lengths) {
            plan.layers.insert(layer.clone(), format!("length={length}").parse().unwrap());
        }
        let evaluation =
            evaluate(&network, &Dataset::digits_test(), &plan, None, Cancel::NEVER, |_| ())
                .unwrap();
        let row = &evaluation.rows()[0];
        assert_eq!(
            (row.score(), row.worst_score()),
            (design.score, design.worst_score),
            "{streams:?}"
        );
    }
    // Layers with lengths of their own are among the designs.
    assert!(found.designs.iter().any(|design| design.streams.bits() == "16/8"));
}

#[test]
fn optimal_designs_are_not_dominated() {
    let found = run(&space(&[8, 16, 32], &["sobol", "lfsr", "vdc"]), None);
    for design in &found.designs {
        let is_beaten = found.designs.iter().any(|other| is_better(other, design));
        assert_eq!(design.is_optimal, !is_beaten, "{design:?}");
    }
    assert!(found.optimal().count() > 3 && found.optimal().count() < found.designs.len());
    assert!(found.optimal().all(|design| design.score >= found.float_score() - 0.05 - 1e-9));
    // Every half of an optimal design was tried.
    for design in found.optimal() {
        for (k, &length) in
            design.streams.lengths.iter().enumerate().filter(|(_, length)| **length >= 16)
        {
            let mut half = design.streams.clone();
            half.lengths[k] = length / 2;
            assert!(found.trials.iter().any(|trial| trial.streams == half), "{half:?}");
        }
    }
}

/// Integers have no length: halves of their layer would be the same design.
#[test]
fn lengths_of_integer_layers_are_not_halved() {
    let networks = [Network::digits_noise_aware().unwrap()];
    let layers = [("output".to_owned(), "generator=int8".parse().unwrap())].into();
    let plan = Plan { layers, ..plan() };
    let space = space(&[8, 16, 32], &["sobol"]);
    let data = Dataset::digits_test();
    let found = explore(&networks, &data, &plan, &space, None, Cancel::NEVER, |_| ()).unwrap();
    let lengths: Vec<_> = found.trials.iter().map(|trial| &trial.streams.lengths).collect();
    assert!(lengths.iter().any(|lengths| lengths[0] < lengths[1]), "{lengths:?}");
    assert!(lengths.iter().all(|lengths| lengths[0] <= lengths[1]), "{lengths:?}");
}

#[test]
fn exploration_interrupted_after_any_trial_resumes_to_the_same_result() {
    let space = space(&[8, 16], &["sobol", "lfsr"]);
    let networks = [Network::digits_noise_aware().unwrap()];
    let saved = RefCell::new(Vec::new());
    let whole = explore(
        &networks,
        &Dataset::digits_test(),
        &plan(),
        &space,
        None,
        Cancel::NEVER,
        |state| {
            saved.borrow_mut().push(state.to_json().unwrap());
        },
    )
    .unwrap();
    for text in saved.into_inner() {
        let part = Exploration::from_json(&text).unwrap();
        let n = part.trials.len();
        let again = Cell::new(0);
        let resumed = explore(
            &networks,
            &Dataset::digits_test(),
            &plan(),
            &space,
            Some(part),
            Cancel::NEVER,
            |_| {
                again.set(again.get() + 1);
            },
        )
        .unwrap();
        assert_eq!(resumed, whole);
        // Two calls for each trial that was missing, and none for the others.
        assert_eq!(again.get(), 2 * (whole.trials.len() - n));
    }
    assert_eq!(Exploration::from_json(&whole.to_json().unwrap()).unwrap(), whole);
}

#[test]
fn exploration_ends_with_its_budget_and_goes_on_with_a_larger_one() {
    let wide = space(&[8, 16, 32], &["sobol"]);
    let whole = run(&wide, None);
    let narrow = DesignSpace { budget: 4, ..wide.clone() };
    let part = run(&narrow, None);
    assert!(!part.is_finished && part.trials.len() == 4 && whole.trials.len() > 4);
    assert!(part.designs.iter().any(|design| design.is_optimal));
    // The same budget adds nothing.
    assert_eq!(run(&narrow, Some(part.clone())), part);
    assert_eq!(run(&wide, Some(part)), whole);
}

#[test]
fn screening_drops_designs_that_others_beat_at_no_higher_cost() {
    let networks = [Network::digits_noise_aware().unwrap()];
    let data = Dataset::digits_train();
    // An LFSR for weights that is the one of the inputs: streams overlap, scores are poor, circuits
    // are as large.
    let space = space(&[16, 32], &["sobol", "sobol:1+sobol:1", "lfsr"]);
    let found = explore(&networks, &data, &plan(), &space, None, Cancel::NEVER, |_| ()).unwrap();
    let of = |rung: Rung| found.trials.iter().filter(move |trial| trial.rung == rung);
    assert!(of(Rung::Screening).count() >= 6);
    assert!(of(Rung::Full).count() < of(Rung::Screening).count());
    let full_names: Vec<String> =
        of(Rung::Full).map(|trial| trial.streams.generator.to_string()).collect();
    assert!(!full_names.contains(&"sobol:1+sobol:1".to_owned()), "{full_names:?}");
    // Every full trial was screened before.
    for trial in of(Rung::Full) {
        assert!(of(Rung::Screening).any(|screened| screened.streams == trial.streams));
    }
}

#[test]
fn streams_without_a_circuit_are_named_with_the_reason() {
    let found = run(&space(&[16], &["bernoulli", "sobol"]), None);
    assert_eq!(found.missing.len(), 1);
    assert!(found.missing[0].reason.contains("Bernoulli"), "{}", found.missing[0].reason);
    assert!(found.designs.iter().all(|design| design.streams.generator.to_string() == "sobol"));
    let page = report::exploration(&found, |_| "aleatron rtl".to_owned());
    assert!(page.contains("Streams without a circuit") && page.contains("Bernoulli"));
}

#[test]
fn variants_are_explored_with_the_network() {
    let networks = [Network::digits_noise_aware().unwrap(), Network::digits_plain().unwrap()];
    let space = space(&[16, 32], &["sobol"]);
    let found =
        explore(&networks, &Dataset::digits_test(), &plan(), &space, None, Cancel::NEVER, |_| ());
    let found = found.unwrap();
    assert_eq!((found.networks.len(), found.float_scores.len()), (2, 2));
    for network in 0..2 {
        assert!(found.designs.iter().any(|design| design.streams.network == network));
    }
    let other =
        NetworkBuilder::new("other", &[64]).dense("one", 64, &[0.5; 640], &[]).build().unwrap();
    let networks = [networks[0].clone(), other];
    let error =
        explore(&networks, &Dataset::digits_test(), &plan(), &space, None, Cancel::NEVER, |_| ());
    assert!(matches!(error, Err(Error::Variant { name }) if name == "other"));
}

#[test]
fn spaces_without_designs_and_other_checkpoints_are_errors() {
    let networks = [Network::digits_noise_aware().unwrap()];
    let data = Dataset::digits_test();
    let base = space(&[16], &["sobol"]);
    let refuse = |space: DesignSpace| {
        explore(&networks, &data, &plan(), &space, None, Cancel::NEVER, |_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(refuse(DesignSpace { lengths: vec![], ..base.clone() }).contains("lengths"));
    assert!(refuse(DesignSpace { lengths: vec![0, 8], ..base.clone() }).contains("lengths"));
    assert!(
        refuse(DesignSpace { lanes: vec![Lanes::Limited(0)], ..base.clone() }).contains("lanes")
    );
    assert!(refuse(DesignSpace { budget: 0, ..base.clone() }).contains("trials"));
    assert!(refuse(DesignSpace { loss: f64::NAN, ..base.clone() }).contains("NaN"));
    let found = run(&base, None);
    let other = Plan { seeds: 3, ..plan() };
    let error =
        explore(&networks, &data, &other, &base, Some(found.clone()), Cancel::NEVER, |_| ());
    assert!(matches!(error, Err(Error::Checkpoint(_))));
    let text = found.to_json().unwrap().replacen("\"scores\": [", "\"scores\": [7.0,", 1);
    assert!(Exploration::from_json(&text).is_err());
}

#[test]
fn page_and_table_have_every_optimal_design() {
    let found = run(&space(&[8, 16], &["sobol", "lfsr"]), None);
    let page = report::exploration(&found, |design| design.rtl_options(&found.layers).join(" "));
    let n = found.optimal().count();
    // A row of the table and one of the commands for each design.
    assert_eq!(page.matches("<tr class=\"d").count(), 2 * n);
    assert_eq!(page.matches("<circle class=\"d").count(), 3 * n);
    assert!(page.contains("--length 16 --generator sobol"));
    assert_eq!(found.to_csv().lines().count(), found.designs.len() + 1);
    let columns = |line: &str| line.split(',').count();
    assert!(found.to_csv().lines().all(|line| columns(line) == 15));
}

/// Circuits that stop early have the classes of their trace, and less energy for them.
#[test]
fn early_termination_is_explored_with_the_classes_of_the_circuit() {
    let network = Network::digits_noise_aware().unwrap();
    let data = Dataset::digits_test();
    let margins: Vec<EarlyTermination> =
        ["none", "0.001", "3"].iter().map(|text| text.parse().unwrap()).collect();
    let space = DesignSpace {
        early: margins.clone(),
        lanes: vec![Lanes::All, Lanes::Limited(4)],
        ..space(&[64], &["sobol", "int8"])
    };
    let space = DesignSpace { budget: 4, ..space };
    let found = run(&space, None);
    let of = |early: EarlyTermination| -> Vec<&Design> {
        let is_own = |design: &&Design| {
            design.streams.early == early && design.streams.generator.integer_bits().is_none()
        };
        found.designs.iter().filter(is_own).collect()
    };
    let (full, hasty, careful) = (of(margins[0]), of(margins[1]), of(margins[2]));
    // All neurons of the last layer are read at a time, and integers have no early scores.
    assert_eq!([full.len(), hasty.len(), careful.len()], [2, 1, 1]);
    let full = full.iter().find(|design| design.lanes == Lanes::All).unwrap();
    for (design, margin) in [(hasty[0], 0.001), (careful[0], 3.0)] {
        let config = StreamConfig::new(64)
            .generator("sobol".parse().unwrap())
            .arithmetic(Arithmetic::Integer);
        let options = Options {
            output: Output::Class,
            early_termination: Some(Margin::new(margin).unwrap()),
            ..Options::default()
        };
        let circuit = Circuit::new(&network, &config, &options).unwrap();
        let trace = circuit.trace(&data.samples(0..data.len()).unwrap()).unwrap();
        let classes = trace.early.unwrap().classes;
        let right = classes.iter().zip(data.labels()).filter(|(a, b)| a == b).count();
        assert_eq!(design.score, right as f64 / data.len() as f64);
        assert!(design.cost.energy < full.cost.energy && design.cost.area > full.cost.area);
        assert!(design.cost.latency > full.cost.latency);
        let options = design.rtl_options(&found.layers).join(" ");
        assert!(options.ends_with(&format!("--class --early-margin {margin}")), "{options}");
    }
    assert!(hasty[0].cost.energy < careful[0].cost.energy);
    // Resuming without margins leaves the costs of the designs that have one.
    let resumed =
        run(&DesignSpace { early: margins[..1].to_vec(), ..space.clone() }, Some(found.clone()));
    assert_eq!(resumed.designs, found.designs);
    // Files are often sorted by class: the cycles are those of evenly spread samples.
    let mut indices: Vec<usize> = (0..data.len()).collect();
    indices.sort_by_key(|&k| data.labels()[k]);
    let sorted = data.subset("sorted", &indices).unwrap();
    let found_sorted = explore(
        std::slice::from_ref(&network),
        &sorted,
        &plan(),
        &space,
        None,
        Cancel::NEVER,
        |_| (),
    )
    .unwrap();
    let design = found_sorted.designs.iter().find(|design| design.streams.early == margins[2]);
    let spread: Vec<usize> = (0..64).map(|k| k * data.len() / 64).collect();
    let spread = sorted.subset("spread", &spread).unwrap();
    let config = StreamConfig::new(64).generator("sobol".parse().unwrap());
    let config = config.arithmetic(Arithmetic::Integer);
    let options = Options {
        output: Output::Class,
        early_termination: Some(Margin::new(3.0).unwrap()),
        ..Options::default()
    };
    let circuit = Circuit::new(&network, &config, &options).unwrap();
    let trace = circuit.trace(spread.features()).unwrap();
    let cost = circuit.cost(&options, Technology::Generic, Some(&trace)).unwrap();
    assert_eq!(design.unwrap().cost.energy, cost.energy);
    assert_eq!(Exploration::from_json(&found.to_json().unwrap()).unwrap(), found);
    // Lanes that the last layer cannot have are a reason if no others are left.
    let few = DesignSpace { lanes: vec![Lanes::Limited(4)], early: margins[1..].to_vec(), ..space };
    let none = run(&few, None);
    assert!(none.missing.iter().any(|missing| missing.reason.contains("lanes")), "{none:?}");
    let space = DesignSpace { lanes: vec![Lanes::All], ..few };
    let faulty = Plan { faults: vec!["0.01".parse().unwrap()], ..plan() };
    let networks = [network];
    let error = explore(&networks, &data, &faulty, &space, None, Cancel::NEVER, |_| ());
    assert!(matches!(error, Err(Error::EarlyTermination(_))));
    let integers = DesignSpace { generators: vec!["int8".parse().unwrap()], ..space };
    let error = explore(&networks, &data, &plan(), &integers, None, Cancel::NEVER, |_| ());
    assert!(matches!(error, Err(Error::EarlyTermination(_))));
}

#[test]
fn explored_scores_under_faults_are_those_of_an_evaluation() {
    let networks = [Network::digits_noise_aware().unwrap()];
    let data = Dataset::digits_test();
    let plan = Plan { faults: vec!["0.01".parse().unwrap()], ..plan() };
    let space = DesignSpace { budget: 1, lanes: vec![Lanes::All], ..space(&[32], &["sobol"]) };
    let found = explore(&networks, &data, &plan, &space, None, Cancel::NEVER, |_| ()).unwrap();
    let evaluated = Plan {
        lengths: vec![32],
        generators: vec!["sobol".parse().unwrap()],
        arithmetic: Arithmetic::Integer,
        ..plan.clone()
    };
    let evaluation =
        evaluate(&networks[0], &data, &evaluated, None, Cancel::NEVER, |_| ()).unwrap();
    assert_eq!(found.designs[0].score, evaluation.rows()[0].score());
    assert_ne!(found.designs[0].score, found.designs[0].worst_score);
    // Trials without faults are not those of an exploration with faults.
    let known = run(&space, None);
    let error = explore(&networks, &data, &plan, &space, Some(known), Cancel::NEVER, |_| ());
    assert!(matches!(error, Err(Error::Checkpoint(_))));
    let several = Plan { faults: vec!["0".parse().unwrap(), "0.01".parse().unwrap()], ..plan };
    let error = explore(&networks, &data, &several, &space, None, Cancel::NEVER, |_| ());
    assert!(matches!(error, Err(Error::SeveralFaults)));
}
