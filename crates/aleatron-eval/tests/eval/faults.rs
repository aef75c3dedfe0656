//! Evaluations with faults: cells, checkpoints, shards, tables and pages.

use aleatron_core::Cancel;
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::fault::{FaultKind, FaultRate, FaultSites};
use aleatron_data::Dataset;
use aleatron_engine::Device;
use aleatron_engine::network::Network;
use aleatron_eval::{Evaluation, FaultPoint, Job, Plan, evaluate, report};
use std::borrow::Cow;

fn rates(rates: &[f64]) -> Vec<FaultRate> {
    rates.iter().map(|&rate| FaultRate::new(rate).unwrap()).collect()
}

fn sites_of(text: &str) -> Vec<FaultSites> {
    text.split(',').map(|sites| sites.parse().unwrap()).collect()
}

fn plan(faults: &[f64], fault_sites: &str) -> Plan {
    Plan {
        lengths: vec![16, 32],
        generators: vec!["sobol".parse().unwrap()],
        seeds: 2,
        margins: vec![1.0],
        device: Device::Cpu,
        faults: rates(faults),
        fault_sites: sites_of(fault_sites),
        ..Plan::default()
    }
}

fn data() -> Dataset {
    let digits = Dataset::digits_test();
    Dataset::new("few", 64, digits.features()[..64 * 40].to_vec(), digits.labels()[..40].to_vec())
        .unwrap()
}

fn run(plan: &Plan, checkpoint: Option<Evaluation>) -> Evaluation {
    let network = Network::digits_noise_aware().unwrap();
    let found = evaluate(&network, &data(), plan, checkpoint, Cancel::NEVER, |_| ()).unwrap();
    assert!(found.is_complete());
    found.without_times()
}

#[test]
fn integers_have_the_sites_of_a_binary_circuit() {
    let mut plan = plan(&[0.0, 0.01], "streams,memory,activations");
    plan.generators.push("int8".parse().unwrap());
    let found = run(&plan, None);
    let rows: Vec<_> =
        found.rows().into_iter().filter(|row| row.generator.integer_bits().is_some()).collect();
    let sites: Vec<_> =
        rows.iter().map(|row| row.faults.map(|faults| faults.sites.to_string())).collect();
    assert_eq!(sites, [None, Some("memory".to_owned()), Some("activations".to_owned())]);
    assert!(rows.iter().all(|row| row.length == 127 * 127 && row.bits() == "-"));
    let text = found.to_string();
    assert!(
        text.contains("int8: without rows of inputs+weights: its circuit has no streams"),
        "{text}"
    );
    assert!(text.contains("int8: within one point of floating point\n"), "{text}");
    let read = Evaluation::from_json(&found.to_json().unwrap()).unwrap();
    assert_eq!(read, found);
    // The curves of integers are beside those of every length.
    let page = report::evaluation(&found);
    assert_eq!(page.matches("int8, memory</").count(), 2, "{page}");
    plan.fault_sites = sites_of("streams,products");
    let error = plan.check(&Network::digits_noise_aware().unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("int8 has no streams") && error.contains("add memory"), "{error}");
}

#[test]
fn cells_have_every_rate_and_site() {
    let found = run(&plan(&[0.0, 0.001, 0.5], "streams,counters"), None);
    // Without faults, Sobol sequences have no seed.
    assert_eq!(found.cells.len(), 2 + 2 * 2 * 2 * 2);
    let rows = found.rows();
    let point = |sites: &str, rate| {
        Some(FaultPoint { sites: sites.parse().unwrap(), rate: FaultRate::new(rate).unwrap() })
    };
    let points: Vec<_> = rows.iter().step_by(2).map(|row| row.faults).collect();
    let expected = [
        None,
        point("inputs+weights", 0.001),
        point("inputs+weights", 0.5),
        point("counters", 0.001),
        point("counters", 0.5),
    ];
    assert_eq!(points, expected);
    // Rows without faults are those of an evaluation without any.
    let without = run(&plan(&[], "streams"), None);
    assert_eq!(without.cells[..], found.cells[..2]);
    assert_eq!(found.rows_of("sobol").len(), 2);
    // Flipped with a probability of one half, bits carry no information: ten classes, 80 samples in
    // two seeds.
    assert!(rows[1].score() > 0.9);
    assert!(rows[5].score() < 0.3, "{}", rows[5].score());
    assert_ne!(found.cells[2].layers, found.cells[0].layers);
    let cells = found.cells.iter().filter(|cell| cell.faults.is_some());
    assert!(cells.clone().all(|cell| cell.figures.classification().unwrap().certain.is_none()));
    assert_eq!(Evaluation::from_json(&found.to_json().unwrap()).unwrap(), found);
}

#[test]
fn resumed_evaluation_equals_one_run() {
    let whole = run(&plan(&[0.0, 0.01, 0.1], "streams,counters"), None);
    // More rates, then more sites; the first run has no rates at all.
    let found = run(&plan(&[], "streams"), None);
    let found = run(&plan(&[0.1], "streams"), Some(found));
    assert_eq!(found.plan.faults, rates(&[0.0, 0.1]));
    let found = run(&plan(&[0.01, 0.1], "streams,counters"), Some(found));
    assert_eq!(found, whole);
    // Other kinds are other evaluations.
    let burst =
        Plan { fault_kind: Some(FaultKind::Burst { cycles: 4 }), ..plan(&[0.1], "streams") };
    let network = Network::digits_noise_aware().unwrap();
    let error =
        evaluate(&network, &data(), &burst, Some(whole), Cancel::NEVER, |_| ()).unwrap_err();
    assert!(error.to_string().contains("settings"), "{error}");
}

#[test]
fn tasks_in_any_order_equal_one_run() {
    let plan = Plan {
        fault_kind: Some(FaultKind::Permanent),
        arithmetic: Arithmetic::Integer,
        fault_layers: vec!["output".to_owned()],
        ..plan(&[0.05], "products,memory+stuck-at-1,accumulators")
    };
    let network = Network::digits_noise_aware().unwrap();
    let data = data();
    let job = Job::new(network.into(), Cow::Borrowed(&data), plan.clone()).unwrap();
    let job = Job::from_bytes(&job.to_bytes().unwrap()).unwrap();
    let mut journal = job.journal(None).unwrap();
    for task in job.schedule().split(&job.schedule().tasks(), 7).iter().rev() {
        journal.add(job.run(task, Cancel::NEVER, &mut || ()).unwrap()).unwrap();
    }
    assert_eq!(journal.finish().unwrap().without_times(), run(&plan, None));
}

#[test]
fn tables_and_pages_show_the_rate() {
    let found = run(&plan(&[0.0, 0.001], "memory"), None);
    let text = found.text(120);
    assert!(text.contains("fault site") && text.contains("fault rate"), "{text}");
    let line = text.lines().find(|line| line.contains("memory")).unwrap();
    assert!(line.contains("1e-3"), "{line}");
    let csv = found.to_csv();
    assert!(csv.lines().next().unwrap().contains(",fault site,fault rate,"), "{csv}");
    assert!(csv.lines().last().unwrap().contains(",memory,0.001,"), "{csv}");
    let page = report::evaluation(&found);
    assert!(
        page.contains("<h2>Accuracy against fault rate</h2>") && page.contains("sobol, memory")
    );
    let without = run(&plan(&[], "streams"), None);
    assert!(
        !report::evaluation(&without).contains("fault rate")
            && !without.text(120).contains("fault")
    );
    assert!(!without.to_json().unwrap().contains("fault"));
}

/// The rate tells rows of one length apart.
#[test]
fn page_of_a_training_shows_the_rate() {
    let found = run(&plan(&[0.0, 0.01], "streams"), None);
    let page = report::training(&found, &found, &[]);
    for part in ["<th>fault rate</th>", "<td>16</td><td>0</td>", "<td>16</td><td>0.01</td>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let without = run(&plan(&[], "streams"), None);
    assert!(!report::training(&without, &without, &[]).contains("fault rate"));
}

#[test]
fn plans_with_impossible_faults_are_errors() {
    let network = Network::digits_noise_aware().unwrap();
    let error = |plan: Plan| plan.check(&network).unwrap_err().to_string();
    assert_eq!(
        error(plan(&[0.1, 0.1], "streams")),
        "the fault rate 0.1 is given twice; give it once"
    );
    assert_eq!(
        error(plan(&[0.1], "counters,counters")),
        "the fault site counters is given twice; give it once"
    );
    let text = error(Plan { fault_kind: Some(FaultKind::Transient), ..plan(&[0.1], "memory") });
    assert!(text.contains("use permanent"), "{text}");
    let text = error(plan(&[0.1], "accumulators"));
    assert!(text.contains("use integer arithmetic"), "{text}");
    let text = error(Plan { fault_layers: vec!["none".to_owned()], ..plan(&[0.1], "streams") });
    assert!(text.contains("none"), "{text}");
    let text = error(Plan { fault_sites: Vec::new(), ..plan(&[0.1], "streams") });
    assert!(text.contains("fault sites"), "{text}");
}
