//! Searches for short streams: the lengths found are accurate enough, and no half of them is.

use crate::support::{Classes, network, samples};
use aleatron_core::Cancel;
use aleatron_data::Dataset;
use aleatron_engine::network::{LayerOverride, Network};
use aleatron_eval::{Error, Found, Plan, Search, Trial, evaluate, find, report};

fn data() -> Dataset {
    let digits = Dataset::digits_test();
    Dataset::new(
        "some",
        64,
        digits.features()[..64 * 120].to_vec(),
        digits.labels()[..120].to_vec(),
    )
    .unwrap()
}

fn search(loss: f64, [shortest, longest]: [usize; 2]) -> Search {
    Search { generator: "bernoulli".parse().unwrap(), loss, longest, shortest, budget: 100 }
}

/// A search takes neither lengths nor generators from the plan.
fn plan() -> Plan {
    Plan { lengths: Vec::new(), generators: Vec::new(), seeds: 2, ..Plan::default() }
}

/// Returns the accuracy of lengths from an evaluation with layer settings.
fn accuracy(network: &Network, lengths: &[usize]) -> f64 {
    let own = |length: usize| LayerOverride { length: Some(length), ..LayerOverride::default() };
    let names = network.layers().iter().map(|layer| layer.name.clone());
    let layers = names.zip(lengths.iter().map(|&length| own(length))).collect();
    let generators = vec!["bernoulli".parse().unwrap()];
    let plan = Plan { lengths: vec![8], generators, layers, seeds: 2, ..Plan::default() };
    let found = evaluate(network, &data(), &plan, None, Cancel::NEVER, |_| ()).unwrap();
    found.cells.iter().map(|cell| cell.classes().accuracy).sum::<f64>() / found.cells.len() as f64
}

#[test]
fn found_lengths_are_accurate_and_cannot_be_halved() {
    let network = Network::digits_noise_aware().unwrap();
    let found =
        find(&network, &data(), &plan(), &search(3.0, [8, 128]), None, Cancel::NEVER, |_| ())
            .unwrap();
    assert!(found.is_good() && found.lengths != [128, 128], "{found:?}");
    // A little below, so that rounding does not refuse an accuracy that is just good enough.
    let below = found.float_score - 0.03 - found.bar;
    assert!(below > 0.0 && below < 2e-9, "{below}");
    for trial in &found.trials {
        assert!((trial.score - accuracy(&network, &trial.lengths)).abs() < 1e-12, "{trial:?}");
        assert!(trial.lengths.iter().all(|length| (8..=128).contains(length)), "{trial:?}");
    }
    let of = |lengths: &[usize]| {
        found.trials.iter().find(|trial| trial.lengths == lengths).map(|trial| trial.score)
    };
    assert_eq!(of(&found.lengths), Some(found.score));
    assert!(found.score >= found.bar);
    let products = [64 * 64, 64 * 10];
    let cost = |lengths: &[usize]| -> u64 {
        products.iter().zip(lengths).map(|(p, &n)| p * n as u64).sum()
    };
    assert_eq!((found.bit_macs_before, found.bit_macs), (cost(&[128, 128]), cost(&found.lengths)));
    // Each layer ends at the shortest length, or with a half that was tried and was not accurate
    // enough.
    for (layer, &length) in found.lengths.iter().enumerate() {
        let is_half = |trial: &&Trial| trial.lengths[layer] == length / 2;
        let tried = found.trials.iter().filter(is_half).any(|trial| trial.score < found.bar);
        assert!(length / 2 < 8 || tried, "{found:?}");
    }
}

#[test]
fn search_without_a_solution_tries_uniform_lengths_only() {
    let network = Network::digits_plain().unwrap();
    let found = find(&network, &data(), &plan(), &search(0.0, [2, 4]), None, Cancel::NEVER, |_| ())
        .unwrap();
    // Both lengths for all layers, and no layer alone.
    assert_eq!((found.trials.len(), found.lengths.as_slice()), (2, &[4, 4][..]));
    assert!(found.is_finished && found.score < found.bar && !found.is_good());
    assert_eq!(found.measured_score(), Some(found.score));
    assert!(report::search(&found, "net").contains("The longest streams are not good enough."));
    let spent = Search { budget: 1, ..search(0.0, [2, 4]) };
    let found = find(&network, &data(), &plan(), &spent, None, Cancel::NEVER, |_| ()).unwrap();
    assert_eq!((found.trials.len(), found.is_finished, found.is_good()), (1, false, false));
    // The longest lengths were not tried: nothing is known about them.
    assert_eq!((&found.lengths[..], found.measured_score()), (&[4, 4][..], None));
    assert!(!found.has_good_lengths());
    let page = report::search(&found, "net");
    assert!(page.contains("no lengths were good enough. The search has not finished."), "{page}");
    assert!(!page.contains("not good enough") && page.contains(">-</td>"), "{page}");
}

#[test]
fn search_needs_a_range_of_lengths_and_a_budget() {
    let network = network();
    let run = |range: [usize; 2]| {
        find(&network, &samples(), &plan(), &search(100.0, range), None, Cancel::NEVER, |_| ())
    };
    assert!(matches!(run([0, 8]), Err(Error::Nothing("lengths to search"))));
    assert!(matches!(run([16, 8]), Err(Error::Nothing("lengths to search"))));
    assert_eq!(run([8, 8]).unwrap().lengths, [8, 8]);
    assert_eq!(run([4, 16]).unwrap().lengths, [4, 4]);
    let none = Search { budget: 0, ..search(1.0, [4, 8]) };
    let none = find(&network, &samples(), &plan(), &none, None, Cancel::NEVER, |_| ());
    assert!(matches!(none, Err(Error::Nothing("trials"))));
}

#[test]
fn search_keeps_no_length_of_a_single_layer() {
    let network = network();
    let layer = network.layers()[0].name.clone();
    let run = |own: &str| {
        let layers = [(layer.clone(), own.parse().unwrap())].into();
        let plan = Plan { layers, ..plan() };
        find(&network, &samples(), &plan, &search(100.0, [4, 8]), None, Cancel::NEVER, |_| ())
    };
    let error = run("length=16").unwrap_err();
    let expected = format!("layer \"{layer}\" has the length 16, which the search would replace");
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert!(run("width=4").is_ok());
    // Integers have no length: each half would pass.
    let error = run("generator=int8").unwrap_err().to_string();
    assert!(error.contains("int8") && error.contains("use a generator of streams"), "{error}");
}

#[test]
fn search_file_has_one_length_per_layer() {
    let network = network();
    let whole =
        find(&network, &samples(), &plan(), &search(100.0, [4, 8]), None, Cancel::NEVER, |_| ())
            .unwrap();
    assert_eq!(Found::from_json(&whole.to_json().unwrap()).unwrap(), whole);
    for broken in [
        Found { lengths: vec![4], ..whole.clone() },
        Found { products: vec![4; 3], ..whole.clone() },
        Found { layers: vec!["a".to_owned()], ..whole.clone() },
    ] {
        assert!(Found::from_json(&broken.to_json().unwrap()).is_err());
    }
}

#[test]
fn lengths_of_integers_cannot_be_searched() {
    let search = Search { generator: "int8".parse().unwrap(), ..search(1.0, [8, 64]) };
    let network = Network::digits_noise_aware().unwrap();
    let error = find(&network, &data(), &plan(), &search, None, Cancel::NEVER, |_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"int8\"") && error.contains("use a generator of streams"), "{error}");
}
