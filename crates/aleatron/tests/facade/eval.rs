//! Evaluations: figures that are known, bars that must hold, stopping and going on, and faults by name.

use aleatron::data::Dataset;
use aleatron::eval::multiplier::{MAP_SIDE, MultiplierStats, Operand};
use aleatron::eval::{Evaluation, Plan, evaluate};
use aleatron::generator::{Sharing, Warning, Width};
use aleatron::network::{Activation, Arithmetic, FeatureMap, FeatureRange, Layer, Network};
use aleatron::{Cancel, EngineError, Error, Polarity};
use std::sync::atomic::{AtomicUsize, Ordering};

fn plan(generators: &[&str], lengths: &[usize]) -> Plan {
    let generators = generators.iter().map(|text| text.parse().unwrap()).collect();
    Plan { generators, lengths: lengths.to_vec(), ..Plan::default() }
}

fn run(plan: &Plan) -> Evaluation {
    let network = Network::digits_noise_aware().unwrap();
    evaluate(&network, &Dataset::digits_test(), plan, None, Cancel::NEVER, |_| ()).unwrap()
}

#[test]
fn the_bars_hold() {
    let evaluation = run(&plan(&["sobol", "bernoulli"], &[16, 32, 64, 256]));
    assert!(evaluation.is_complete());
    assert_eq!(evaluation.cells.len(), 4 + 3 * 4);
    let sobol = evaluation.rows_of("sobol");
    assert!(sobol[0].accuracy.mean >= 0.9 && sobol[1].accuracy.mean >= evaluation.float_accuracy - 0.01);
    assert!(evaluation.shortest_within("sobol", 1.0).unwrap().unwrap() <= 32);
    let unknown = evaluation.shortest_within("foo", 1.0).unwrap_err().to_string();
    assert_eq!(unknown, "\"foo\" was not evaluated; the generators are sobol, bernoulli");
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

/// Runs a plan until `limit` of its cells are done.
fn stopped(plan: &Plan, checkpoint: Option<Evaluation>, limit: usize) -> Evaluation {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let done = AtomicUsize::new(0);
    let is_over = || done.load(Ordering::Relaxed) >= limit;
    evaluate(&network, &data, plan, checkpoint, Cancel::when(&is_over), |progress| {
        done.fetch_max(progress.done, Ordering::Relaxed);
    })
    .unwrap()
}

#[test]
fn an_evaluation_that_was_stopped_goes_on_where_it_was() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let plan = plan(&["bernoulli", "sobol"], &[8, 16]);
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
    assert_eq!(whole.without_times(), run(&plan).without_times());

    let message = |plan: &Plan, network: &Network| {
        evaluate(network, &data, plan, Some(part.clone()), Cancel::NEVER, |_| ()).unwrap_err().to_string()
    };
    let wide = Plan { width: Width::new(9).unwrap().into(), ..plan.clone() };
    assert_eq!(message(&wide, &network), "the checkpoint differs in its settings");
    let integer = Plan { arithmetic: Arithmetic::Integer, ..plan.clone() };
    assert_eq!(message(&integer, &network), "the checkpoint differs in its settings");
    let plain = Network::digits_plain().unwrap();
    assert_eq!(message(&plan, &plain), "the checkpoint differs in the network");
}

/// What cannot be run is refused at once, not after all that can.
#[test]
fn faults_are_found_before_the_work() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let refusal = |plan: &Plan, data: &Dataset| {
        let ticks = AtomicUsize::new(0);
        let count = |_: aleatron::eval::Progress<'_>| _ = ticks.fetch_add(1, Ordering::Relaxed);
        let error = evaluate(&network, data, plan, None, Cancel::NEVER, count).unwrap_err();
        assert_eq!(ticks.load(Ordering::Relaxed), 0);
        error
    };
    let huge = plan(&["bernoulli"], &[8, 1 << 34]);
    let error = refusal(&huge, &data);
    assert!(matches!(error.core(), Some(aleatron::CoreError::Memory { .. })), "{error}");
    let mut features = data.features().to_vec();
    features[64 * 300 + 5] = 16.5;
    let outside = Dataset::new("outside", 64, features, data.labels().to_vec()).unwrap();
    let error = refusal(&plan(&["bernoulli"], &[8]), &outside);
    assert!(matches!(error, Error::Engine(EngineError::Feature { sample: 300, feature: 5, .. })), "{error}");
}

/// Nothing that was finished is lost, whatever is asked for next, and however often it is interrupted.
#[test]
fn checkpoints_grow() {
    let keys = |evaluation: &Evaluation| -> Vec<(String, usize, u64)> {
        evaluation.cells.iter().map(|cell| (cell.generator.clone(), cell.length, cell.seed)).collect()
    };
    let first = run(&plan(&["sobol", "lfsr:1+lfsr:2"], &[8, 16]));
    assert!(first.cells.len() == 4 && !first.warnings.is_empty());
    // Another generator and another length, interrupted at once.
    let next = Plan { seeds: 2, ..plan(&["bernoulli"], &[32, 16]) };
    let second = stopped(&next, Some(first.clone()), 0);
    assert_eq!((keys(&second), second.unfinished), (keys(&first), 4));
    assert_eq!(second.warnings, first.warnings);
    // Interrupted again, later.
    let third = stopped(&next, Some(second), 2);
    assert!(third.cells.len() > 4 && third.unfinished > 0, "{} {}", third.cells.len(), third.unfinished);
    let done = stopped(&next, Some(third), usize::MAX);
    assert!(done.is_complete());
    assert_eq!(done.cells.len(), 8);
    assert_eq!(done.plan.lengths, [8, 16, 32]);
    assert_eq!(done.plan.generators, ["bernoulli", "sobol", "lfsr:1+lfsr:2"]);
    // Cells of the first plan are as they were, and rows of all are shown.
    assert!(first.cells.iter().all(|cell| done.cells.contains(cell)));
    assert_eq!(done.rows().len(), 2 + 2 + 2);
    // More seeds of the same.
    let more = stopped(&Plan { seeds: 3, ..next.clone() }, Some(done.clone()), usize::MAX);
    assert_eq!(more.cells.len(), 10);
    // Fewer lengths of the same: nothing to do, nothing lost.
    let fewer = stopped(&plan(&["sobol"], &[8]), Some(more.clone()), 0);
    assert!(fewer.is_complete());
    assert_eq!(fewer.cells.len(), 10);
}

#[test]
fn checkpoints_are_checked() {
    let json = run(&plan(&["sobol"], &[8])).to_json().unwrap();
    assert!(Evaluation::from_json(&json).is_ok());
    let refused = |from: &str, to: &str| {
        assert!(json.contains(from), "{from}");
        Evaluation::from_json(&json.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let accuracy = json.lines().find(|line| line.trim_start().starts_with("\"accuracy\":")).unwrap().trim();
    assert!(refused(accuracy, "\"accuracy\": 17.0,").contains("its accuracy is 17, not in [0, 1]"));
    assert!(refused(accuracy, "\"accuracy\": 0.5,").contains("its confusion matrix says"));
    assert!(refused("\"generator\": \"sobol\"", "\"generator\": \"sobl\"").contains("is not a generator"));
    assert!(refused("\"length\": 8", "\"length\": 0").contains("stream length must be at least 1"));
    assert!(refused("\"cells\"", "\"sells\"").contains("unknown field"));
    assert!(Evaluation::from_json("{}").is_err() && Evaluation::from_json("").is_err());
}

#[test]
fn plans_that_cannot_be_run_say_why() {
    let (network, data) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
    let message = |plan: Plan, data: &Dataset| {
        let mut ran = false;
        let error =
            evaluate(&network, data, &plan, None, Cancel::NEVER, |_| ran = true).unwrap_err().to_string();
        assert!(!ran, "found out too late: {error}");
        error
    };
    assert_eq!(
        message(Plan { lengths: vec![], ..Plan::default() }, &data),
        "lengths: at least one is needed"
    );
    assert_eq!(message(Plan { seeds: 0, ..Plan::default() }, &data), "seeds: at least one is needed");
    assert_eq!(message(plan(&["sobol"], &[8, 0]), &data), "stream length must be at least 1");
    assert_eq!(
        message(plan(&["sobol"], &[8, 99_999_999_999]), &data),
        "stream length is 99999999999, the most is 17179869184"
    );
    for margin in [f64::NAN, f64::INFINITY, -1.0] {
        let error = message(Plan { margins: vec![margin], ..Plan::default() }, &data);
        assert_eq!(error, format!("the margin is {margin}, not a finite number from 0 on"));
    }
    let far = message(plan(&["bernoulli", "sobol:1+sobol:5000"], &[8]), &data);
    assert_eq!(far, "Sobol dimension is 5000, the most is 1111");
    let many = Plan { sharing: Sharing::OnePerStream, ..plan(&["sobol"], &[8]) };
    assert_eq!(message(many, &data), "Sobol dimension is 8192, the most is 1111");
    let mut layers = plan(&["sobol"], &[8]);
    layers.layers.insert("last".into(), "length=4".parse().unwrap());
    assert_eq!(message(layers, &data), "there is no layer \"last\"; the layers are hidden, output");
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
    let evaluation = run(&plan(&["lfsr:1+lfsr:113", "sobol:4+sobol:4"], &[255, 256]));
    assert_eq!(evaluation.warnings.len(), 2, "{:?}", evaluation.warnings);
    assert!(
        evaluation.warnings[0]
            .starts_with("lfsr:1+lfsr:113: the LFSRs of inputs and weights, of 8 bits, are 10 steps apart")
    );
    assert!(evaluation.warnings[1].contains("share one sequence (Sobol 8 bits, dimension 4)"));
    let cut = run(&Plan { width: Width::EIGHT.into(), ..plan(&["ramp"], &[16]) });
    assert!(
        cut.warnings[0].contains("streams of 16 bits end before the period of 256"),
        "{:?}",
        cut.warnings
    );
}

/// Layers may differ in all settings, and looks on the way come as far in each.
#[test]
fn layers_with_settings_of_their_own() {
    let same = run(&plan(&["sobol"], &[32]));
    let with = |settings: &str| {
        let mut plan = plan(&["sobol"], &[32]);
        plan.layers.insert("output".into(), settings.parse().unwrap());
        run(&plan)
    };
    assert_eq!(with("length=32,generator=sobol").cells[0].confusion, same.cells[0].confusion);
    let longer = with("length=128");
    assert_eq!(longer.plan.layers["output"], "length=128");
    assert_ne!(longer.cells[0].layers, same.cells[0].layers);
    // 64 x 64 products of 32 bits and 64 x 10 of 128.
    let products = longer.cells[0].bit_macs_per_second / longer.cells[0].samples_per_second;
    assert!((products - (4096.0 * 32.0 + 640.0 * 128.0)).abs() < 1e-3, "{products}");
    // A seeded generator in one layer is run for all seeds.
    assert_eq!(with("generator=bernoulli").cells.len(), 3);
    let mixed = with("generator=bernoulli+sobol:2");
    assert_eq!(mixed.plan.layers["output"], "generator=bernoulli+sobol:2");
    assert_eq!(mixed.cells.len(), 3);
    assert_ne!(mixed.cells[0].layers, same.cells[0].layers);
}

#[test]
fn both_arithmetics_can_be_judged() {
    let float = run(&plan(&["sobol", "bernoulli"], &[64]));
    let integer = run(&Plan { arithmetic: Arithmetic::Integer, ..plan(&["sobol", "bernoulli"], &[64]) });
    assert_eq!(integer.plan.arithmetic, "integer");
    for (a, b) in float.rows().iter().zip(integer.rows()) {
        assert!((a.accuracy.mean - b.accuracy.mean).abs() <= 0.003 + 1e-9, "{a:?} {b:?}");
    }
    assert_ne!(float.cells[0].layers, integer.cells[0].layers);
}

/// Where the outcome is certain, stopping loses nothing: the class at the end is the one that was certain.
#[test]
fn certainty_never_loses() {
    let evaluation = run(&plan(&["sobol", "bernoulli", "bernoulli+sobol:2", "vdc+bernoulli"], &[16, 128]));
    let names: Vec<_> = evaluation.rows().iter().map(|row| row.generator.clone()).collect();
    assert!(names.contains(&"bernoulli+sobol:2".to_owned()) && names.contains(&"vdc+bernoulli".to_owned()));
    for cell in &evaluation.cells {
        let certain = cell.certain.unwrap();
        assert!(
            certain.mean_cycles <= cell.length as f64 && certain.mean_cycles >= cell.length as f64 / 16.0
        );
        assert_eq!(certain.stopped > 0.0, certain.mean_cycles < cell.length as f64);
    }
    // A network of one product per class, whose inputs settle it soon.
    let layer = Layer::new("a", 1, vec![1.0, 0.0]).with_polarity(Polarity::Unipolar);
    let network = |activation| {
        Network::new("n", FeatureMap::IDENTITY, vec![layer.clone().with_activation(activation)]).unwrap()
    };
    let data = Dataset::new("d", 1, vec![1.0, 0.9, 0.0], vec![0, 0, 0]).unwrap();
    let plan = plan(&["sobol"], &[64]);
    let judge = |network: Network| {
        evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ()).unwrap().cells.remove(0)
    };
    let cell = judge(network(Activation::Identity));
    // A stream of ones leads by more than what is left after half of it; one of zeros ends in a tie, which is never certain.
    let certain = cell.certain.unwrap();
    assert!(certain.stopped == 2.0 / 3.0 && certain.mean_cycles >= (36.0 + 36.0 + 64.0) / 3.0, "{certain:?}");
    assert_eq!(cell.accuracy, 1.0);
    assert!(judge(network(Activation::Relu)).certain.is_none());
}

#[test]
fn clipped_features_are_counted() {
    let network = Network::new("n", FeatureMap::IDENTITY, vec![Layer::new("a", 1, vec![1.0])]).unwrap();
    let data = Dataset::new("d", 1, vec![2.0, -0.5, -3.0], vec![1, 0, 0]).unwrap();
    let judge = |range| {
        let plan = Plan { range, ..plan(&["sobol"], &[16]) };
        evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ())
    };
    assert!(matches!(
        judge(FeatureRange::Check),
        Err(Error::Engine(EngineError::Feature { sample: 0, feature: 0, .. }))
    ));
    let clipped = judge(FeatureRange::Clip).unwrap();
    assert_eq!((clipped.cells[0].clipped, clipped.cells[0].accuracy, clipped.float_accuracy), (2, 1.0, 1.0));
    assert!(clipped.to_string().contains("clipped: 2 features outside"), "{clipped}");
}

#[test]
fn tables_fit_their_width() {
    let evaluation = run(&plan(&["sobol", "bernoulli"], &[8, 256]));
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
    // At chance level nothing is lost by stopping: that is not worth a figure.
    let row = evaluation.rows_of("bernoulli")[0].clone();
    assert!(!evaluation.has_early(&row) || row.accuracy.mean > evaluation.float_accuracy - 0.05);
    let lines = evaluation.to_csv();
    assert_eq!(lines.lines().count(), 1 + evaluation.cells.len());
    assert!(lines.starts_with("generator,length,seed,accuracy,agreement,"), "{lines}");
}

fn errors(x: &str, y: &str, length: usize) -> MultiplierStats {
    MultiplierStats::of(x.parse().unwrap(), y.parse().unwrap(), length).unwrap()
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

#[test]
fn results_are_written_as_a_whole() {
    let path = std::env::temp_dir().join(format!("aleatron-written-{}.txt", std::process::id()));
    for text in ["a longer text", "short"] {
        aleatron::eval::write(&path, text).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let settings = r#"{"a": {"length": 4}}"#;
    aleatron::eval::write(&path, settings).unwrap();
    let layers = aleatron::network::read_layers(&path).unwrap();
    assert_eq!(layers, [("a".to_owned(), "length=4".parse().unwrap())].into());
    std::fs::remove_file(&path).unwrap();
    let error = aleatron::network::read_layers(&path).unwrap_err().to_string();
    assert!(error.contains("aleatron-written-"), "{error}");
    assert!(aleatron::eval::write("/no such folder/x", "").is_err());
}

#[test]
fn subjects_have_the_names_of_networks() {
    assert_eq!(aleatron::eval::Subject::from(&crate::network()).name(), "n");
}

/// The error of the engine is found through the layers around it.
#[test]
fn the_error_of_the_engine_is_at_the_bottom() {
    let inner = aleatron::CoreError::Cancelled;
    let layer = aleatron::EngineError::Layer {
        layer: 1,
        name: "b".to_owned(),
        source: Box::new(aleatron::EngineError::Core(inner.clone())),
    };
    assert_eq!(layer.core(), Some(&inner));
    let done = Box::new(crate::run(&plan(&["sobol"], &[8])));
    let unfinished = aleatron::Error::Unfinished { done, source: Box::new(layer.into()) };
    assert_eq!(unfinished.core(), Some(&inner));
    assert_eq!(aleatron::EngineError::NoLayers.core(), None);
}

/// Which sample, and which of its features.
#[test]
fn a_feature_outside_is_named_by_sample_and_place() {
    let network = crate::network();
    let error = network.to_streams(&aleatron::network::StreamConfig::new(8)).unwrap();
    let error = error.forward(&[0.0, 0.5, 0.25, 0.5, 1.0, 3.0], 0).unwrap_err();
    let expected = "sample 2, feature 1 is 3, ";
    assert!(error.to_string().starts_with(expected), "{error}");
}

/// Counters in natural and in bit-reversed order, multiplied by hand: a bit is one where the sequence is below the value.
#[test]
fn the_map_of_a_multiplier_shows_where_its_errors_are() {
    let found = MultiplierStats::of("ramp".parse().unwrap(), "vdc".parse().unwrap(), 64).unwrap();
    let block = 256 / MAP_SIDE;
    let error = |a: usize, b: usize| {
        let both = (0..64_usize).filter(|&t| t < a && ((t as u8).reverse_bits() as usize) < b).count();
        (both as f64 / 64.0 - (a * b) as f64 / 65536.0).abs()
    };
    for [row, column] in [[0, 0], [1, 3], [MAP_SIDE - 1, 2], [5, MAP_SIDE - 1], [MAP_SIDE / 2, MAP_SIDE / 4]]
    {
        let inside = (0..block * block).map(|k| error(row * block + k / block, column * block + k % block));
        let expected = inside.sum::<f64>() / (block * block) as f64;
        let shown = found.map[row * MAP_SIDE + column];
        assert!((shown - expected).abs() < 1e-12, "{row} {column}: {shown} {expected}");
    }
    let mean = found.map.iter().sum::<f64>() / found.map.len() as f64;
    assert!((mean - found.mae).abs() < 1e-12);
    let worst = (0..65536).map(|k| error(k / 256, k % 256)).fold(0.0, f64::max);
    assert_eq!((found.worst, found.x.as_str(), found.y.as_str()), (worst, "ramp", "vdc"));
    for text in ["ramp", "sobol:3", "bernoulli:5"] {
        assert_eq!(text.parse::<Operand>().unwrap().to_string(), text);
    }
    assert_eq!("bernoulli".parse::<Operand>().unwrap().to_string(), "bernoulli:0");
}

/// Eight colours, then another stroke and another mark with the same colours again.
#[test]
fn many_curves_can_be_told_apart() {
    let page = |n: usize| {
        let names: Vec<String> = (1..=n).map(|k| format!("sobol:{k}+bernoulli")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let plan = Plan { seeds: 1, ..crate::plan(&names, &[8, 16]) };
        aleatron::eval::report::evaluation(&crate::run(&plan))
    };
    let strokes = ["stroke-dasharray=\"7 4\"", "stroke-dasharray=\"2 4\"", "stroke-dasharray=\"9 4 2 4\""];
    let marks = ["width=\"8\" height=\"8\" fill", "l5.5 5.5 -5.5 5.5 -5.5 -5.5z", "l5.5 9.5h-11z"];
    for (n, groups) in [(8, 0), (9, 1), (16, 1), (17, 2), (25, 3)] {
        let page = page(n);
        for (k, (stroke, mark)) in strokes.iter().zip(marks).enumerate() {
            let is_used = k < groups;
            assert_eq!((page.contains(stroke), page.contains(mark)), (is_used, is_used), "{n}: {stroke}");
        }
        // The part of a drawing that curves are in ends below the axis, 58 above the lower edge, with room for half a mark.
        assert!(page.contains(&format!("height=\"{}\" viewBox=\"0 0 760 {0}\"", 380 - 58 + 7)));
    }
}

/// Settings are for layers that are there, whatever the others are called.
#[test]
fn settings_of_layers_that_are_not_there_are_refused() {
    let with = |name: &str| {
        let layers = [(name.to_owned(), "length=4".parse().unwrap())].into();
        Plan { layers, ..crate::plan(&["sobol"], &[8]) }.check(&crate::network())
    };
    assert!(with("a").is_ok() && with("b").is_ok());
    assert!(
        matches!(with("c"), Err(Error::Engine(EngineError::UnknownLayer { name, known })) if name == "c" && known == ["a", "b"])
    );
}
