//! The file of an evaluation is checked, and so is a checkpoint that an evaluation resumes from.

use crate::support::{Classes, evaluated, float_accuracy, generator, network, plan, run, samples};
use aleatron_core::arithmetic::Activation;
use aleatron_core::{Cancel, Polarity};
use aleatron_data::Dataset;
use aleatron_engine::network::{Arithmetic, Network, NetworkBuilder, ValueRange};
use aleatron_eval::{Error, Evaluation, Plan, evaluate};

fn resume(plan: &Plan, checkpoint: Evaluation) -> aleatron_eval::Result<Evaluation> {
    evaluate(&network(), &samples(), plan, Some(checkpoint), Cancel::NEVER, |_| ())
}

/// Returns the message for a changed evaluation, from its file and as a checkpoint.
fn refusal(change: impl Fn(&mut Evaluation)) -> String {
    let plan = plan(&["sobol", "bernoulli"], &[8, 16]);
    let mut evaluation = run(&plan);
    change(&mut evaluation);
    let message = Evaluation::from_json(&evaluation.to_json().unwrap()).unwrap_err().to_string();
    if let Err(error) = resume(&plan, evaluation) {
        if !matches!(error, Error::Checkpoint(_)) {
            assert_eq!(error.to_string(), message);
        }
    } else {
        panic!("resumed: {message}");
    }
    message.strip_prefix("evaluation: ").unwrap_or(&message).to_owned()
}

#[test]
fn evaluation_survives_its_file() {
    let evaluation = run(&plan(&["sobol", "bernoulli"], &[8, 16]));
    assert_eq!(evaluation.cells.len(), 2 + 4);
    assert_eq!(Evaluation::from_json(&evaluation.to_json().unwrap()).unwrap(), evaluation);
    assert_eq!(
        resume(&plan(&["sobol", "bernoulli"], &[8, 16]), evaluation.clone()).unwrap(),
        evaluation
    );
}

#[test]
fn figures_out_of_range_are_errors() {
    let cell = "cell sobol, 8 bits, seed 0: ";
    assert_eq!(
        refusal(|e| e.float = float_accuracy(1.5)),
        "its accuracy in floating point is 1.5, not in [0, 1]"
    );
    assert_eq!(
        refusal(|e| e.cells[0].classes_mut().accuracy = -0.5),
        format!("{cell}its accuracy is -0.5, not in [0, 1]")
    );
    assert_eq!(
        refusal(|e| e.cells[0].classes_mut().agreement = 1.5),
        format!("{cell}its agreement is 1.5, not in [0, 1]")
    );
    assert_eq!(
        refusal(|e| e.cells[0].classes_mut().early[1].accuracy = 2.0),
        format!("{cell}its accuracy is 2, not in [0, 1]")
    );
    assert_eq!(
        refusal(|e| e.cells[0].classes_mut().early[1].stopped = 2.0),
        format!("{cell}its share that stopped is 2, not in [0, 1]")
    );
    assert_eq!(
        refusal(|e| e.cells[0].classes_mut().certain.as_mut().unwrap().stopped = 2.0),
        format!("{cell}its share that stopped is 2, not in [0, 1]")
    );
    assert_eq!(
        refusal(|e| e.cells[0].classes_mut().early[0].mean_cycles = -1.0),
        format!("{cell}its mean cycles are -1")
    );
    assert_eq!(
        refusal(|e| e.cells[0].classes_mut().certain.as_mut().unwrap().mean_cycles = -1.0),
        format!("{cell}its mean cycles are -1")
    );
    assert_eq!(
        refusal(|e| e.cells[0].classes_mut().early[0].margin = 3.0),
        format!("{cell}its margins are not those of the plan")
    );
    assert_eq!(
        refusal(|e| _ = e.cells[0].classes_mut().early.pop()),
        format!("{cell}its margins are not those of the plan")
    );
    assert_eq!(
        refusal(|e| _ = e.cells[0].layers.pop()),
        format!("{cell}it has 1 layers, the network 2")
    );
    assert_eq!(
        refusal(|e| e.cells[0].layers[1].mean_value = -1.0),
        format!("{cell}an error of a layer is -1")
    );
    assert_eq!(refusal(|e| e.cells[0].seconds = -1.0), format!("{cell}a time or a rate is -1"));
    assert_eq!(
        refusal(|e| e.cells[0].samples_per_second = -1.0),
        format!("{cell}a time or a rate is -1")
    );
    assert_eq!(
        refusal(|e| e.cells[0].bit_macs_per_second = -1.0),
        format!("{cell}a time or a rate is -1")
    );
}

/// Rows add up the counts of cells: counts that would overflow there are errors here.
#[test]
fn counts_whose_sum_overflows_are_errors() {
    let most = u64::MAX / 6;
    let too_many = format!("cell sobol, 8 bits, seed 0: a layer has {} counts", most + 1);
    assert_eq!(refusal(|e| e.cells[0].layers[0].counts = most + 1), too_many);
    assert_eq!(refusal(|e| e.cells[0].layers[0].saturated = most + 1), too_many);
    let mut evaluation = run(&plan(&["bernoulli"], &[8]));
    for cell in &mut evaluation.cells {
        cell.layers[0].saturated = u64::MAX / 2;
    }
    let evaluation = Evaluation::from_json(&evaluation.to_json().unwrap()).unwrap();
    assert_eq!(evaluation.rows()[0].layers[0].saturated, u64::MAX - 1);
}

#[test]
fn confusion_matrix_must_match_the_data() {
    let cell = "cell sobol, 8 bits, seed 0: ";
    let wrong = format!("{cell}its confusion matrix is not that of the data");
    assert_eq!(refusal(|e| e.cells[0].classes_mut().confusion[0][0] += 1), wrong);
    assert_eq!(refusal(|e| drop(e.cells[0].classes_mut().confusion.pop())), wrong);
    assert_eq!(refusal(|e| e.cells[0].classes_mut().confusion[1].push(0)), wrong);
    let moved = refusal(|e| {
        let row = &mut e.cells[0].classes_mut().confusion[0];
        row.rotate_left(1);
    });
    assert!(
        moved.starts_with(&format!("{cell}its accuracy is "))
            && moved.contains("its confusion matrix says"),
        "{moved}"
    );
}

/// A cell outside the plan would be in no row.
#[test]
fn cells_must_be_of_the_plan_and_unique() {
    let outside = "it is not of the plan";
    assert_eq!(
        refusal(|e| e.plan.lengths = vec![16]),
        format!("cell sobol, 8 bits, seed 0: {outside}")
    );
    assert_eq!(
        refusal(|e| _ = e.plan.generators.pop()),
        format!("cell bernoulli, 8 bits, seed 0: {outside}")
    );
    assert_eq!(
        refusal(|e| e.cells[0].length = 9),
        format!("cell sobol, 9 bits, seed 0: {outside}")
    );
    assert_eq!(
        refusal(|e| e.cells[0].length = 0),
        "cell sobol, 0 bits, seed 0: stream length must be at least 1"
    );
    assert_eq!(
        refusal(|e| e.cells[0].generator = generator("halton")),
        format!("cell halton, 8 bits, seed 0: {outside}")
    );
    assert_eq!(refusal(|e| e.cells[5].seed = 0), "cell bernoulli, 16 bits, seed 0 is there twice");
    assert_eq!(refusal(|e| e.plan.lengths = vec![16, 8]), "the lengths of its plan do not ascend");
    assert_eq!(
        refusal(|e| e.plan.lengths = vec![8, 8, 16]),
        "the lengths of its plan do not ascend"
    );
    assert_eq!(
        refusal(|e| e.plan.generators.push(generator("sobol"))),
        "generator sobol of its plan is there twice"
    );
}

#[test]
fn checkpoint_of_another_evaluation_is_an_error() {
    let plan = plan(&["sobol"], &[8]);
    let good = run(&plan);
    let differs = |checkpoint: Evaluation, plan: &Plan| match resume(plan, checkpoint) {
        Err(Error::Checkpoint(what)) => what,
        other => panic!("{other:?}"),
    };
    let changed = |change: fn(&mut Evaluation)| {
        let mut evaluation = good.clone();
        change(&mut evaluation);
        evaluation
    };
    assert_eq!(differs(changed(|e| e.network.name = "m".to_owned()), &plan), "the network");
    assert_eq!(differs(changed(|e| e.data.fingerprint = "0".to_owned()), &plan), "the data");
    assert_eq!(differs(changed(|e| e.version = "0".to_owned()), &plan), "the version that made it");
    assert_eq!(
        differs(changed(|e| e.float = float_accuracy(0.125)), &plan),
        "the score in floating point"
    );
    for other in [
        Plan { arithmetic: Arithmetic::Integer, ..plan.clone() },
        Plan { range: ValueRange::Saturate, ..plan.clone() },
        Plan { margins: vec![1.0], ..plan.clone() },
        Plan { sharing: "input".parse().unwrap(), ..plan.clone() },
        Plan { width: "7".parse().unwrap(), ..plan.clone() },
        Plan { layers: [("a".to_owned(), "length=4".parse().unwrap())].into(), ..plan.clone() },
    ] {
        assert_eq!(differs(good.clone(), &other), "its settings");
    }
    // Data of another name are the same data.
    assert!(resume(&plan, changed(|e| e.data.name = "other".to_owned())).is_ok());
}

/// Another weight, bias, scale, encoding, feature or label is another network or other data.
#[test]
fn fingerprint_changes_with_every_number() {
    let of = |network: &Network, data: &Dataset| {
        let evaluation = evaluated(network, data, &plan(&["sobol"], &[8]));
        [evaluation.network.fingerprint, evaluation.data.fingerprint]
    };
    let features = |offset: f64| NetworkBuilder::new("n", &[1]).features(&[offset], &[1.0]);
    let layer = |offset: f64, weights: &[f64], bias: &[f64]| {
        features(offset).dense("a", 1, weights, bias).polarity(Polarity::Bipolar)
    };
    let base_layer = || layer(0.0, &[0.5, 1.0], &[]);
    let build = |builder: NetworkBuilder| builder.build().unwrap();
    let data = |features: Vec<f64>, labels| Dataset::new("d", 1, features, labels).unwrap();
    let base = of(&build(base_layer()), &data(vec![0.5, 0.25], vec![0, 1]));
    assert_eq!(of(&build(base_layer()), &data(vec![0.5, 0.25], vec![0, 1])), base);
    for other in [
        build(layer(0.0, &[0.25, 1.0], &[])),
        build(layer(0.0, &[0.5, 1.0], &[0.0, 0.5])),
        build(base_layer().input_scale(2.0)),
        build(base_layer().weight_scale(2.0)),
        build(base_layer().polarity(Polarity::Signed)),
        build(base_layer().activation(Activation::Relu)),
        build(layer(0.125, &[0.5, 1.0], &[])),
    ] {
        let found = of(&other, &data(vec![0.5, 0.25], vec![0, 1]));
        assert_ne!(found[0], base[0], "{other:?}");
        assert_eq!(found[1], base[1]);
    }
    assert_ne!(of(&build(base_layer()), &data(vec![0.5, 0.125], vec![0, 1]))[1], base[1]);
    assert_ne!(of(&build(base_layer()), &data(vec![0.5, 0.25], vec![1, 1]))[1], base[1]);
}

#[test]
fn resumed_plan_has_lengths_generators_and_seeds_of_both() {
    let whole = run(&Plan { seeds: 3, ..plan(&["lfsr", "bernoulli"], &[16, 64]) });
    let plan = Plan { seeds: 2, ..plan(&["bernoulli"], &[8, 16]) };
    let (network, samples) = (network(), samples());
    let found = evaluate(&network, &samples, &plan, Some(whole), Cancel::NEVER, |_| ()).unwrap();
    assert_eq!(found.plan.lengths, [8, 16, 64]);
    assert_eq!(found.plan.generators, ["bernoulli", "lfsr"].map(generator));
    assert_eq!((found.plan.seeds, found.unfinished), (3, 0));
    // Twelve cells of the checkpoint, and the new length with two seeds.
    assert_eq!(found.cells.len(), 2 * 2 * 3 + 2);
}
