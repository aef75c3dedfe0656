//! Evaluations: known figures, required accuracies, cancellation and resumption, and errors by
//! name.

use crate::support::{Classes, evaluated, generator, plan, run, two_scores};
use aleatron_core::arithmetic::Activation;
use aleatron_core::generator::Width;
use aleatron_core::{Cancel, Polarity};
use aleatron_data::{Dataset, ReadOptions};
use aleatron_engine::Error as EngineError;
use aleatron_engine::network::{Arithmetic, Network, NetworkBuilder, ValueRange};
use aleatron_eval::{Error, Evaluation, Plan, evaluate};
use std::sync::atomic::{AtomicBool, Ordering};

fn default_plan(generators: &[&str], lengths: &[usize]) -> Plan {
    let generators = generators.iter().map(|text| text.parse().unwrap()).collect();
    Plan { generators, lengths: lengths.to_vec(), ..Plan::default() }
}

/// Returns the evaluation of the noise-aware network on the digits.
fn digits_run(plan: &Plan) -> Evaluation {
    evaluated(&Network::digits_noise_aware().unwrap(), &Dataset::digits_test(), plan)
}

#[test]
fn noise_aware_network_meets_its_accuracy() {
    let evaluation = digits_run(&default_plan(&["sobol", "bernoulli"], &[16, 32, 64, 256]));
    assert!(evaluation.is_complete());
    assert_eq!(evaluation.cells.len(), 4 + 3 * 4);
    let sobol = evaluation.rows_of("sobol");
    assert!(sobol[0].score() >= 0.9 && sobol[1].score() >= evaluation.float.score() - 0.01);
    assert!(evaluation.shortest_within("sobol", 1.0).unwrap().unwrap() <= 32);
    let unknown = evaluation.shortest_within("foo", 1.0).unwrap_err().to_string();
    assert_eq!(unknown, "\"foo\" was not evaluated; the generators are sobol, bernoulli");
    // Half the cycles for at most half a point, with one margin for all.
    for row in evaluation.rows().iter().filter(|row| row.length >= 64) {
        let stop = row.classes().early.iter().find(|stop| stop.margin == 3.0).unwrap();
        assert!(
            stop.mean_cycles <= row.length as f64 / 2.0 && stop.accuracy_lost <= 0.005,
            "{row:?}"
        );
        assert!(row.early_within(0.5).unwrap().mean_cycles <= stop.mean_cycles);
    }
}

#[test]
fn cell_figures_are_consistent() {
    let evaluation = digits_run(&default_plan(&["bernoulli", "lfsr"], &[24, 8]));
    assert_eq!(evaluation.plan.lengths, [8, 24]);
    for cell in &evaluation.cells {
        let samples: u32 = cell.classes().confusion.iter().flatten().sum();
        let right: u32 = (0..10).map(|k| cell.classes().confusion[k][k]).sum();
        assert_eq!(samples, 360);
        assert_eq!(cell.classes().accuracy, f64::from(right) / 360.0);
        assert_eq!(
            cell.layers.iter().map(|layer| layer.counts).collect::<Vec<_>>(),
            [64 * 360, 10 * 360]
        );
        // A bipolar count is half the length times its value.
        for layer in &cell.layers {
            assert!((layer.mean_count - layer.mean_value * cell.length as f64 / 2.0).abs() < 1e-9);
        }
        let never = cell.classes().early.last().unwrap();
        assert!(
            never.mean_cycles >= cell.classes().early[0].mean_cycles
                && never.stopped <= cell.classes().early[0].stopped
        );
        assert!((never.accuracy + never.accuracy_lost - cell.classes().accuracy).abs() < 1e-12);
    }
    let rows = evaluation.rows();
    assert_eq!(rows.len(), 4);
    for row in &rows {
        let cells = evaluation
            .cells
            .iter()
            .filter(|c| c.generator == row.generator && c.length == row.length);
        let accuracies: Vec<f64> = cells.map(|cell| cell.classes().accuracy).collect();
        assert_eq!(accuracies.len(), 3);
        assert!((row.score() - accuracies.iter().sum::<f64>() / 3.0).abs() < 1e-12);
        assert!(
            row.classes().accuracy.low <= row.score() && row.score() <= row.classes().accuracy.high
        );
        assert!(
            accuracies.iter().any(|a| *a != accuracies[0]),
            "seeds make no difference: {row:?}"
        );
    }
}

/// Runs a plan until `limit` of its cells are done.
fn stopped(plan: &Plan, checkpoint: Option<Evaluation>, limit: usize) -> Evaluation {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    // The pass in floating point, before the first call of progress, is not cancelled.
    let is_cancelled = AtomicBool::new(false);
    let cancel = || is_cancelled.load(Ordering::Relaxed);
    evaluate(&network, &data, plan, checkpoint, Cancel::when(&cancel), |progress| {
        is_cancelled.fetch_or(progress.done >= limit, Ordering::Relaxed);
    })
    .unwrap()
}

#[test]
fn stopped_evaluation_resumes_from_its_checkpoint() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let plan = default_plan(&["bernoulli", "sobol"], &[8, 16]);
    let part = stopped(&plan, None, 3);
    assert!(!part.is_complete() && !part.cells.is_empty());
    assert_eq!(part.cells.len() + part.unfinished, 8);
    let part = Evaluation::from_json(&part.to_json().unwrap()).unwrap();
    let kept = part.cells.len();
    let mut seen = Vec::new();
    let whole = evaluate(&network, &data, &plan, Some(part.clone()), Cancel::NEVER, |progress| {
        seen.push(progress.done);
        assert_eq!(progress.total, 8);
    })
    .unwrap();
    assert!(whole.is_complete());
    assert_eq!(seen.first(), Some(&kept));
    assert!(part.cells.iter().all(|cell| whole.cells.contains(cell)));
    assert_eq!(whole.without_times(), digits_run(&plan).without_times());

    let message = |plan: &Plan, network: &Network| {
        evaluate(network, &data, plan, Some(part.clone()), Cancel::NEVER, |_| ())
            .unwrap_err()
            .to_string()
    };
    let wide = Plan { width: Width::new(9).unwrap().into(), ..plan.clone() };
    assert_eq!(message(&wide, &network), "the checkpoint differs in its settings");
    let integer = Plan { arithmetic: Arithmetic::Integer, ..plan.clone() };
    assert_eq!(message(&integer, &network), "the checkpoint differs in its settings");
    let plain = Network::digits_plain().unwrap();
    assert_eq!(message(&plan, &plain), "the checkpoint differs in the network");
}

/// No finished cell is lost under any later plan, however often it is cancelled.
#[test]
fn checkpoint_keeps_its_cells_under_every_later_plan() {
    let keys = |evaluation: &Evaluation| -> Vec<(String, usize, u64)> {
        evaluation
            .cells
            .iter()
            .map(|cell| (cell.generator.to_string(), cell.length, cell.seed))
            .collect()
    };
    let first = digits_run(&default_plan(&["sobol", "lfsr:1+lfsr:2"], &[8, 16]));
    assert!(first.cells.len() == 4 && !first.warnings.is_empty());
    // Another generator and another length, interrupted at once.
    let next = Plan { seeds: 2, ..default_plan(&["bernoulli"], &[32, 16]) };
    let second = stopped(&next, Some(first.clone()), 0);
    assert_eq!((keys(&second), second.unfinished), (keys(&first), 4));
    assert_eq!(second.warnings, first.warnings);
    // Interrupted again, later.
    let third = stopped(&next, Some(second), 2);
    assert!(
        third.cells.len() > 4 && third.unfinished > 0,
        "{} {}",
        third.cells.len(),
        third.unfinished
    );
    let done = stopped(&next, Some(third), usize::MAX);
    assert!(done.is_complete());
    assert_eq!(done.cells.len(), 8);
    assert_eq!(done.plan.lengths, [8, 16, 32]);
    assert_eq!(done.plan.generators, ["bernoulli", "sobol", "lfsr:1+lfsr:2"].map(generator));
    // Cells of the first plan are as they were, and rows of all are shown.
    assert!(first.cells.iter().all(|cell| done.cells.contains(cell)));
    assert_eq!(done.rows().len(), 2 + 2 + 2);
    // More seeds of the same.
    let more = stopped(&Plan { seeds: 3, ..next.clone() }, Some(done.clone()), usize::MAX);
    assert_eq!(more.cells.len(), 10);
    // Fewer lengths of the same: nothing to do, nothing lost.
    let fewer = stopped(&default_plan(&["sobol"], &[8]), Some(more.clone()), 0);
    assert!(fewer.is_complete());
    assert_eq!(fewer.cells.len(), 10);
}

#[test]
fn broken_checkpoint_files_are_errors() {
    let json = digits_run(&default_plan(&["sobol"], &[8])).to_json().unwrap();
    assert!(Evaluation::from_json(&json).is_ok());
    let refused = |from: &str, to: &str| {
        assert!(json.contains(from), "{from}");
        Evaluation::from_json(&json.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let accuracy =
        json.lines().rfind(|line| line.starts_with("      \"accuracy\":")).unwrap().trim();
    assert!(refused(accuracy, "\"accuracy\": 17.0,").contains("its accuracy is 17, not in [0, 1]"));
    assert!(refused(accuracy, "\"accuracy\": 0.5,").contains("its confusion matrix says"));
    assert!(
        refused("\"generator\": \"sobol\"", "\"generator\": \"sobl\"")
            .contains("is not a generator")
    );
    assert!(refused("\"length\": 8", "\"length\": 0").contains("stream length must be at least 1"));
    assert!(refused("\"cells\"", "\"sells\"").contains("unknown field"));
    assert!(Evaluation::from_json("{}").is_err() && Evaluation::from_json("").is_err());
}

#[test]
fn warnings_of_generator_pairs_are_reported_once() {
    let evaluation =
        digits_run(&default_plan(&["lfsr:1+lfsr:113", "sobol:4+sobol:4"], &[255, 256]));
    assert_eq!(evaluation.warnings.len(), 2, "{:?}", evaluation.warnings);
    assert!(evaluation.warnings[0].starts_with(
        "lfsr:1+lfsr:113: the LFSRs of inputs and weights, of 8 bits, are 10 steps apart"
    ));
    assert!(evaluation.warnings[1].contains("share one sequence (Sobol 8 bits, dimension 4)"));
    let cut = digits_run(&Plan { width: Width::EIGHT.into(), ..default_plan(&["ramp"], &[16]) });
    assert!(
        cut.warnings[0].contains("streams of 16 bits end before the period of 256"),
        "{:?}",
        cut.warnings
    );
}

/// Layers may differ in all settings; partial lengths of early termination scale with each.
#[test]
fn layer_settings_change_lengths_generators_and_seeds() {
    let same = digits_run(&default_plan(&["sobol"], &[32]));
    let with = |settings: &str| {
        let mut plan = default_plan(&["sobol"], &[32]);
        plan.layers.insert("output".into(), settings.parse().unwrap());
        digits_run(&plan)
    };
    assert_eq!(
        with("length=32,generator=sobol").cells[0].classes().confusion,
        same.cells[0].classes().confusion
    );
    let longer = with("length=128");
    assert_eq!(longer.plan.layers["output"].to_string(), "length=128");
    assert_ne!(longer.cells[0].layers, same.cells[0].layers);
    // 64 x 64 products of 32 bits and 64 x 10 of 128.
    let products = longer.cells[0].bit_macs_per_second / longer.cells[0].samples_per_second;
    assert!((products - (4096.0 * 32.0 + 640.0 * 128.0)).abs() < 1e-3, "{products}");
    // A seeded generator in one layer is run for all seeds.
    assert_eq!(with("generator=bernoulli").cells.len(), 3);
    let mixed = with("generator=bernoulli+sobol:2");
    assert_eq!(mixed.plan.layers["output"].to_string(), "generator=bernoulli+sobol:2");
    assert_eq!(mixed.cells.len(), 3);
    assert_ne!(mixed.cells[0].layers, same.cells[0].layers);
}

#[test]
fn integer_arithmetic_has_the_accuracy_of_floating_point() {
    let float = digits_run(&default_plan(&["sobol", "bernoulli"], &[64]));
    let integer = digits_run(&Plan {
        arithmetic: Arithmetic::Integer,
        ..default_plan(&["sobol", "bernoulli"], &[64])
    });
    assert_eq!(integer.plan.arithmetic, Arithmetic::Integer);
    for (a, b) in float.rows().iter().zip(integer.rows()) {
        assert!(
            (a.classes().accuracy.mean - b.classes().accuracy.mean).abs() <= 0.003 + 1e-9,
            "{a:?} {b:?}"
        );
    }
    assert_ne!(float.cells[0].layers, integer.cells[0].layers);
}

/// If the outcome is certain, stopping loses nothing: the class at the end is the one that was
/// certain.
#[test]
fn certain_stops_lose_no_accuracy() {
    let evaluation = digits_run(&default_plan(
        &["sobol", "bernoulli", "bernoulli+sobol:2", "vdc+bernoulli"],
        &[16, 128],
    ));
    let names: Vec<_> = evaluation.rows().iter().map(|row| row.generator.to_string()).collect();
    assert!(
        names.contains(&"bernoulli+sobol:2".to_owned())
            && names.contains(&"vdc+bernoulli".to_owned())
    );
    for cell in &evaluation.cells {
        let certain = cell.classes().certain.unwrap();
        assert!(
            certain.mean_cycles <= cell.length as f64
                && certain.mean_cycles >= cell.length as f64 / 16.0
        );
        assert_eq!(certain.stopped > 0.0, certain.mean_cycles < cell.length as f64);
    }
    // A network of one product per class, whose inputs decide it soon.
    let data = Dataset::new("d", 1, vec![1.0, 0.9, 0.0], vec![0, 0, 0]).unwrap();
    let plan = default_plan(&["sobol"], &[64]);
    let cell_of = |activation: Activation| {
        evaluated(&two_scores([1.0, 0.0], &[], activation), &data, &plan).cells.remove(0)
    };
    let cell = cell_of(Activation::Identity);
    // A stream of ones leads by more than the rest of the cycles after half of them; one of zeros
    // ends in a tie, which is never certain.
    let certain = cell.classes().certain.unwrap();
    assert!(
        certain.stopped == 2.0 / 3.0 && certain.mean_cycles >= (36.0 + 36.0 + 64.0) / 3.0,
        "{certain:?}"
    );
    assert_eq!(cell.classes().accuracy, 1.0);
    assert!(cell_of(Activation::Relu).classes().certain.is_none());
}

#[test]
fn saturated_features_are_counted() {
    let network = NetworkBuilder::new("n", &[1]).dense("a", 1, &[1.0], &[]);
    let network = network.polarity(Polarity::Bipolar).build().unwrap();
    let data = Dataset::new("d", 1, vec![2.0, -0.5, -3.0], vec![1, 0, 0]).unwrap();
    let run = |range| {
        let plan = Plan { range, ..default_plan(&["sobol"], &[16]) };
        evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ())
    };
    assert!(matches!(
        run(ValueRange::Check),
        Err(Error::Engine(EngineError::Feature { sample: 0, feature: 0, .. }))
    ));
    let clipped = run(ValueRange::Saturate).unwrap();
    assert_eq!(
        (clipped.cells[0].clipped, clipped.cells[0].classes().accuracy, clipped.float.score()),
        (2, 1.0, 1.0)
    );
    assert!(clipped.to_string().contains("clipped: 2 features outside"), "{clipped}");
}

#[test]
fn text_tables_fit_their_width() {
    let evaluation = digits_run(&default_plan(&["sobol", "bernoulli"], &[8, 256]));
    let wide = evaluation.to_string();
    for heading in [
        "generator",
        "bits",
        "accuracy %",
        "agrees %",
        "early cycles",
        "points lost",
        "samples/s",
        "bit-MAC/s",
        "layer errors",
    ] {
        assert!(wide.contains(heading), "{heading} is missing:\n{wide}");
    }
    for width in [20, 40, 60, 80, 100, 120] {
        let text = evaluation.text(width);
        let table: Vec<&str> = text.lines().skip(2).take(6).collect();
        let longest = table.iter().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= width.max(48), "{width}: {longest}\n{text}");
        assert!(text.contains("accuracy %") && text.contains("sobol: within one point"), "{text}");
    }
    // At chance level stopping loses nothing: there is no figure for it.
    let row = evaluation.rows_of("bernoulli")[0].clone();
    assert!(!evaluation.has_early(&row) || row.score() > evaluation.float.score() - 0.05);
    let lines = evaluation.to_csv();
    assert_eq!(lines.lines().count(), 1 + evaluation.cells.len());
    assert!(lines.starts_with("generator,length,seed,accuracy,agreement,"), "{lines}");
}

#[test]
fn results_are_written_atomically() {
    let path = std::env::temp_dir().join(format!("aleatron-written-{}.txt", std::process::id()));
    for text in ["a longer text", "short"] {
        aleatron_eval::write(&path, text).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let settings = r#"{"a": {"length": 4}}"#;
    aleatron_eval::write(&path, settings).unwrap();
    let layers = aleatron_engine::network::read_layers(&path).unwrap();
    assert_eq!(layers, [("a".to_owned(), "length=4".parse().unwrap())].into());
    std::fs::remove_file(&path).unwrap();
    let error = aleatron_engine::network::read_layers(&path).unwrap_err().to_string();
    assert!(error.contains("aleatron-written-"), "{error}");
    assert!(aleatron_eval::write("/no such folder/x", "").is_err());
}

/// The core error is found through the errors around it.
#[test]
fn core_error_is_found_below_layer_and_evaluation() {
    let inner = aleatron_core::Error::Cancelled;
    let layer = aleatron_engine::Error::Layer {
        layer: 1,
        name: "b".to_owned(),
        source: Box::new(aleatron_engine::Error::Core(inner.clone())),
    };
    assert_eq!(layer.core(), Some(&inner));
    let done = Box::new(run(&plan(&["sobol"], &[8])));
    let unfinished = aleatron_eval::Error::Unfinished { done, source: Box::new(layer.into()) };
    assert_eq!(unfinished.core(), Some(&inner));
    assert_eq!(aleatron_engine::Error::NoLayers.core(), None);
}

/// Eight colours, then another stroke and another mark with the same colours again.
#[test]
fn each_of_many_curves_has_its_own_style() {
    let page = |n: usize| {
        let names: Vec<String> = (1..=n).map(|k| format!("sobol:{k}+bernoulli")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let plan = Plan { seeds: 1, ..plan(&names, &[8, 16]) };
        aleatron_eval::report::evaluation(&run(&plan))
    };
    let strokes =
        ["stroke-dasharray=\"7 4\"", "stroke-dasharray=\"2 4\"", "stroke-dasharray=\"9 4 2 4\""];
    let marks = ["width=\"8\" height=\"8\" fill", "l5.5 5.5 -5.5 5.5 -5.5 -5.5z", "l5.5 9.5h-11z"];
    for (n, groups) in [(8, 0), (9, 1), (16, 1), (17, 2), (25, 3)] {
        let page = page(n);
        for (k, (stroke, mark)) in strokes.iter().zip(marks).enumerate() {
            let is_used = k < groups;
            assert_eq!(
                (page.contains(stroke), page.contains(mark)),
                (is_used, is_used),
                "{n}: {stroke}"
            );
        }
        // The part of a drawing that curves are in ends below the axis, 58 above the lower edge,
        // with room for half a mark.
        assert!(page.contains(&format!("height=\"{}\" viewBox=\"0 0 760 {0}\"", 380 - 58 + 7)));
    }
}

/// A folder of its own for a test, removed at its end.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An evaluation of a file that is read in chunks equals that of the same samples in memory.
#[test]
fn evaluation_of_mapped_samples_equals_that_of_samples_in_memory() {
    let folder =
        Folder(std::env::temp_dir().join(format!("aleatron-eval-mapped-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).unwrap();
    let npy = |name: &str, shape: &str, bytes: &[u8]| {
        let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
        let size = u16::try_from(header.len()).unwrap().to_le_bytes();
        let path = folder.0.join(name);
        std::fs::write(&path, [b"\x93NUMPY\x01\x00", &size[..], header.as_bytes(), bytes].concat())
            .unwrap();
        path
    };
    let (digits, n) = (Dataset::digits_train(), 300);
    let x: Vec<u8> = digits.features()[..n * 64].iter().map(|&pixel| pixel as u8).collect();
    let y: Vec<u8> = digits.labels()[..n].iter().map(|&label| label as u8).collect();
    let (x, y) = (npy("x.npy", &format!("({n}, 8, 8)"), &x), npy("y.npy", &format!("({n},)"), &y));
    let options = ReadOptions { labels: Some(y), ..ReadOptions::default() };
    let on_disk = Dataset::read_with(&x, &options).unwrap();
    let held = digits.features()[..n * 64].to_vec();
    let held =
        Dataset::new(x.display().to_string(), 64, held, digits.labels()[..n].to_vec()).unwrap();
    let network = Network::digits_noise_aware().unwrap();
    let run = |data: &Dataset| {
        evaluated(&network, data, &default_plan(&["sobol"], &[16])).without_times()
    };
    assert_eq!(run(&on_disk), run(&held));
}
