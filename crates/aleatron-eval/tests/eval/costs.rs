//! The cost of circuits in evaluations and searches.

use aleatron_core::Cancel;
use aleatron_data::Dataset;
use aleatron_engine::network::{Network, NetworkBuilder};
use aleatron_eval::{
    CircuitCost, Evaluation, Found, Plan, Search, add_cost, add_costs, evaluate, find, report,
};

fn evaluated(generators: &[&str]) -> Evaluation {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let generators = generators.iter().map(|name| name.parse().unwrap()).collect();
    let plan = Plan { lengths: vec![16, 64], generators, seeds: 1, ..Plan::default() };
    let mut found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
    assert!(found.rows().iter().all(|row| row.cost.is_none()));
    add_costs(&network, &data, &mut found);
    found
}

#[test]
fn rows_have_the_cost_of_their_circuits_or_the_reason() {
    let found = evaluated(&["sobol", "bernoulli"]);
    let rows = found.rows();
    let figures = |k: usize| *rows[k].cost.as_ref().unwrap().figures().unwrap();
    // 64 words enter, streams run after one cycle, and 64 neurons are read.
    assert_eq!((figures(0).cycles, figures(1).cycles), (64 + 17 + 64, 64 + 65 + 64));
    assert!(figures(0).area < figures(1).area && figures(0).energy < figures(1).energy);
    let reason = rows[2].cost.as_ref().unwrap().reason().unwrap();
    assert!(reason.contains("Bernoulli") && reason.contains("hidden"), "{reason}");
    let text = found.to_string();
    assert!(text.contains("energy nJ") && text.contains("no circuit: bernoulli: layer"), "{text}");
    assert_eq!(text.matches("no circuit").count(), 1);
    let page = report::evaluation(&found);
    assert!(page.contains("Cost of the circuit") && page.contains("<th>energy nJ</th>"));
}

#[test]
fn extrapolated_costs_carry_a_note() {
    let plan =
        Plan { lengths: vec![16], generators: vec!["sobol".parse().unwrap()], ..Plan::default() };
    for (size, is_noted) in [(64, false), (65, true)] {
        let weights = vec![0.5; 2 * size];
        let network = NetworkBuilder::new("wide", &[size])
            .dense("layer", size, &weights, &[])
            .build()
            .unwrap();
        let data = Dataset::new("zeros", size, vec![0.0; size], vec![0]).unwrap();
        let mut found = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap();
        add_costs(&network, &data, &mut found);
        for text in [found.to_string(), report::evaluation(&found)] {
            assert_eq!(text.contains("are extrapolated"), is_noted, "{size}: {text}");
        }
    }
}

#[test]
fn costs_survive_json_and_impossible_ones_are_errors() {
    let found = evaluated(&["lfsr"]);
    let text = found.to_json().unwrap();
    assert_eq!(Evaluation::from_json(&text).unwrap(), found);
    let mut broken = found.clone();
    broken.costs.push(broken.costs[0].clone());
    let error = Evaluation::from_json(&broken.to_json().unwrap()).unwrap_err().to_string();
    assert!(error.contains("twice"), "{error}");
    let mut broken = found;
    if let CircuitCost::Known(cost) = &mut broken.costs[0].cost {
        cost.area = -1.0;
    }
    let error = Evaluation::from_json(&broken.to_json().unwrap()).unwrap_err().to_string();
    assert!(error.contains("lfsr at 16 bits") && error.contains("negative"), "{error}");
}

#[test]
fn search_has_the_cost_of_the_lengths_found() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let plan = Plan { seeds: 1, ..Plan::default() };
    let search = Search {
        generator: "sobol".parse().unwrap(),
        loss: 1.0,
        longest: 64,
        shortest: 64,
        budget: 3,
    };
    let mut found = find(&network, &data, &plan, &search, None, Cancel::NEVER, |_| ()).unwrap();
    add_cost(&network, &data, &plan, &mut found);
    let cost = found.cost.as_ref().and_then(CircuitCost::figures).unwrap();
    assert_eq!(cost.cycles, 64 + 65 + 64);
    assert_eq!(Found::from_json(&found.to_json().unwrap()).unwrap(), found);
    assert!(report::search(&found, "digits").contains("193 cycles"));
}
