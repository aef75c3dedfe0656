//! Networks whose outputs are numbers: errors against targets and against floating point.

use crate::support::generator;
use aleatron_core::Cancel;
use aleatron_data::{Dataset, Error as DataError};
use aleatron_engine::network::{Network, StreamConfig, ValueRange};
use aleatron_eval::{
    Cell, Error, Errors, Evaluation, Figures, Found, Measure, Plan, Regression, RegressionRow,
    Search, evaluate, find, find_losses, report,
};
use std::sync::atomic::{AtomicBool, Ordering};

fn plan() -> Plan {
    let generators = vec!["sobol".parse().unwrap(), "bernoulli".parse().unwrap()];
    Plan { lengths: vec![16, 256], generators, seeds: 2, ..Plan::default() }
}

/// Returns the digits, with their scores in floating point plus one as targets.
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
    checkpoint: Option<Evaluation>,
) -> aleatron_eval::Result<Evaluation> {
    evaluate(network, data, plan, checkpoint, Cancel::NEVER, |_| ())
}

fn errors(cell: &Cell) -> &Regression {
    cell.figures.regression().unwrap()
}

fn errors_mut(cell: &mut Cell) -> &mut Regression {
    match &mut cell.figures {
        Figures::Regression(figures) => figures,
        Figures::Classification(_) => panic!("a classification has no errors"),
    }
}

fn float(found: &Evaluation) -> &Errors {
    found.float.regression().unwrap()
}

fn row(found: &Evaluation, index: usize) -> RegressionRow {
    found.rows()[index].figures.regression().unwrap().clone()
}

#[test]
fn errors_equal_a_computation_from_the_outputs() {
    // More than one chunk of samples.
    let (network, data) = data(300);
    let found = run(&network, &data, &plan(), None).unwrap();
    assert!((float(&found).mean_absolute - 1.0).abs() < 1e-12);
    assert!((float(&found).root_mean_square - 1.0).abs() < 1e-12);
    // Sobol has no seed.
    assert_eq!(found.cells.len(), 2 + 2 * 2);
    let key = (generator("bernoulli"), 16, 1);
    let cell = found.cells.iter().find(|cell| (cell.generator, cell.length, cell.seed) == key);
    let cell = errors(cell.unwrap());
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
    // R² of each output around the mean of its targets.
    let mean = |k: usize| data.targets().iter().skip(k).step_by(10).sum::<f64>() / 300.0;
    let means: Vec<f64> = (0..10).map(mean).collect();
    let spread: f64 =
        data.targets().iter().enumerate().map(|(k, y)| (y - means[k % 10]).powi(2)).sum();
    let r_squared = 1.0 - square * square * n / spread;
    assert!((cell.to_targets.r_squared - r_squared).abs() < 1e-10, "{r_squared}");
    // Longer streams are closer.
    let rows = [0, 1, 2].map(|k| row(&found, k).to_float);
    assert!(rows[1].root_mean_square.mean < rows[0].root_mean_square.mean);
    assert!(rows[1].r_squared.mean > rows[0].r_squared.mean && rows[1].r_squared.mean <= 1.0);
    assert_eq!((rows[2].mean_absolute.n, rows[0].mean_absolute.n), (2, 1));
}

#[test]
fn evaluation_is_saved_printed_and_resumed() {
    let (network, data) = data(40);
    let found = run(&network, &data, &plan(), None).unwrap();
    let read = Evaluation::from_json(&found.to_json().unwrap()).unwrap();
    assert_eq!(read, found);
    let lines: Vec<String> = found.to_csv().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 7);
    assert!(
        lines.iter().all(|line| line.matches(',').count() == lines[0].matches(',').count()),
        "{lines:?}"
    );
    let text = found.text(100);
    assert!(text.contains("floating point: mean error 1.00, rms error 1.00"), "{text}");
    let page = report::evaluation(&found);
    for part in ["Against the targets", "Against floating point", "<svg", "rms to float"] {
        assert!(page.contains(part), "{part}");
    }
    for outside in ["NaN", "inf", "http:"] {
        assert!(!page.contains(outside), "{outside}");
    }
    // An error of zero has its point.
    let mut exact = found.clone();
    for cell in exact
        .cells
        .iter_mut()
        .filter(|cell| cell.generator == generator("sobol") && cell.length == 256)
    {
        errors_mut(cell).to_float.root_mean_square = 0.0;
    }
    let drawn = |found: &Evaluation| -> Vec<usize> {
        let page = report::evaluation(found);
        let lines = section(&page).split("<polyline points=\"").skip(1);
        lines.map(|line| line.split('"').next().unwrap().split(' ').count()).collect()
    };
    assert_eq!((drawn(&found), drawn(&exact)), (vec![2; 4], vec![2; 4]));
    // Cells of the checkpoint do not run again.
    let mut part = found.clone();
    part.cells.retain(|cell| cell.generator == generator("sobol"));
    part.cells[0].seconds = 1234.0;
    let whole = run(&network, &data, &plan(), Some(part)).unwrap();
    assert_eq!(whole.cells[0].seconds, 1234.0);
    assert_eq!(whole.without_times(), found.clone().without_times());
    let other = Plan { width: "10".parse().unwrap(), ..plan() };
    assert!(matches!(
        run(&network, &data, &other, Some(found.clone())),
        Err(Error::Checkpoint("its settings"))
    ));
    let broken = found.to_json().unwrap().replacen(
        "\"root_mean_square\": 1.",
        "\"root_mean_square\": -1.",
        1,
    );
    assert!(Evaluation::from_json(&broken).is_err());
    // Cancelled before the pass in floating point ends, and later.
    let cancelled = |when: &(dyn Fn() -> bool + Sync)| {
        evaluate(&network, &data, &plan(), None, Cancel::when(when), |_| ())
    };
    let at_once = cancelled(&|| true).unwrap_err();
    assert!(matches!(at_once, Error::Core(aleatron_core::Error::Cancelled)), "{at_once}");
    let is_started = AtomicBool::new(false);
    let cancel = || is_started.load(Ordering::Relaxed);
    let later = evaluate(&network, &data, &plan(), None, Cancel::when(&cancel), |_| {
        is_started.store(true, Ordering::Relaxed);
    });
    let later = later.unwrap();
    assert_eq!((later.unfinished, later.float), (6, found.float));
}

#[test]
fn data_without_matching_targets_are_errors() {
    let (network, data) = data(3);
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
        assert!(matches!(bad, Err(DataError::Target { sample: 1, .. })));
    }
    // Errors of the largest targets survive a file.
    let large = vec![1e100; 10 * data.len()];
    let large = Dataset::with_targets("n", 64, data.features().to_vec(), 10, large).unwrap();
    let found = run(&network, &large, &plan(), None).unwrap();
    assert_eq!(Evaluation::from_json(&found.to_json().unwrap()).unwrap(), found);
}

#[test]
fn cells_sum_over_chunks_and_are_in_order() {
    let (network, data) = data(300);
    // In an order of their own, with features that are clipped: one of the first chunk and two of
    // the second.
    let mut features = data.features().to_vec();
    for index in [5, 64 * 280, 64 * 299 + 63] {
        features[index] = 17.0;
    }
    let data = Dataset::with_targets("clipped", 64, features, 10, data.targets().to_vec()).unwrap();
    let generators = vec!["sobol".parse().unwrap(), "halton".parse().unwrap()];
    let range = ValueRange::Saturate;
    let plan = Plan { lengths: vec![32, 16], generators, range, ..Plan::default() };
    let found = run(&network, &data, &plan, None).unwrap();
    let order: Vec<_> = found.cells.iter().map(|cell| (cell.generator, cell.length)).collect();
    let [sobol, halton] = ["sobol", "halton"].map(generator);
    assert_eq!(order, [(sobol, 16), (sobol, 32), (halton, 16), (halton, 32)]);
    assert!(found.plan.margins.is_empty());
    for cell in &found.cells {
        assert_eq!(cell.clipped, 3);
        assert!(cell.seconds > 0.0);
        assert!((cell.samples_per_second * cell.seconds / 300.0 - 1.0).abs() < 1e-9);
        let bits = (64 * 64 + 64 * 10) * cell.length;
        assert!(
            (cell.bit_macs_per_second / cell.samples_per_second / bits as f64 - 1.0).abs() < 1e-9
        );
    }
}

#[test]
fn inconsistent_files_are_errors() {
    let (network, data) = data(3);
    let whole = run(&network, &data, &plan(), None).unwrap();
    type Change = fn(&mut Evaluation);
    let changes: [Change; 10] = [
        |e| e.cells[0].generator = generator("halton"),
        |e| e.cells[0].length = 17,
        |e| errors_mut(&mut e.cells[0]).to_targets.mean_absolute = -1.0,
        |e| errors_mut(&mut e.cells[0]).to_float.root_mean_square = -1.0,
        |e| errors_mut(&mut e.cells[0]).to_float.r_squared = 1.5,
        |e| e.float = crate::support::float_accuracy(0.5),
        |e| e.cells[0].seconds = -1.0,
        |e| e.cells[0].layers[0].mean_count = -1.0,
        |e| e.cells[0].layers.truncate(1),
        |e| e.cells.push(e.cells[0].clone()),
    ];
    for (k, change) in changes.iter().enumerate() {
        let mut changed = whole.clone();
        change(&mut changed);
        assert!(Evaluation::from_json(&changed.to_json().unwrap()).is_err(), "change {k}");
    }
}

/// Figures that are known, for pages and tables: two lengths of a generator with two seeds, and of
/// one without.
fn known() -> Evaluation {
    let (network, data) = data(3);
    let mut found = run(&network, &data, &plan(), None).unwrap();
    for cell in &mut found.cells {
        let size = if cell.length == 16 { 0.5 } else { 0.25 };
        let size = if cell.generator == generator("sobol") {
            size
        } else {
            size + 0.125 * cell.seed as f64
        };
        let figures = errors_mut(cell);
        for errors in [&mut figures.to_targets, &mut figures.to_float] {
            (errors.mean_absolute, errors.root_mean_square) = (size / 2.0, size);
        }
    }
    found
}

#[test]
fn tables_have_intervals_if_there_are_several_seeds() {
    let text = known().text(usize::MAX);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0]
            .starts_with("Network noise_aware (64-64-10) on scores, 3 samples; floating point: ")
    );
    let rows: Vec<&str> =
        lines[3..].iter().copied().take_while(|line| !line.contains("within")).collect();
    let of =
        |name: &str| rows.iter().copied().filter(|row| row.starts_with(name)).collect::<Vec<_>>();
    let (sobol, bernoulli) = (of("sobol"), of("bernoulli"));
    assert_eq!((sobol.len(), bernoulli.len()), (2, 2), "{text}");
    assert!(sobol.iter().all(|row| !row.contains('[')), "{text}");
    assert!(bernoulli.iter().all(|row| row.matches('[').count() >= 2), "{text}");
    assert!(sobol[0].contains(" 0.25 ") && sobol[0].contains(" 0.50 "), "{text}");
    // A blank line stands between generators and nowhere else.
    assert_eq!((rows[2], rows[0] == sobol[0], rows[3] == bernoulli[0]), ("", true, true), "{text}");
}

/// Returns the section of a page with the errors against length.
fn section(page: &str) -> &str {
    page.split("<h2>").find(|part| part.starts_with("Error against length")).unwrap()
}

#[test]
fn the_page_has_a_heading_curves_and_all_figures() {
    let known = known();
    let page = report::evaluation(&known);
    assert!(page.contains(
        "<h1>noise_aware as streams</h1>\n<p>A network 64-64-10 run as bit streams on scores, 3 samples."
    ));
    // Three figures of floating point, and the shortest length of each generator.
    assert_eq!(page.matches("<div class=\"card\">").count(), 5);
    // A point for each row in both drawings, a band for the generator with seeds, and the errors of
    // floats as a level in the first.
    for point in [
        "sobol, 16 bits: 0.50",
        "sobol, 256 bits: 0.25",
        "bernoulli, 16 bits: 0.56",
        "bernoulli, 256 bits: 0.31",
    ] {
        assert_eq!(section(&page).matches(point).count(), 2, "{point}");
    }
    assert_eq!(page.matches("floating point, 1.00").count(), 1);
    // The axis is linear, from 0 to the level.
    for label in ["0.00", "0.20", "0.40", "0.60", "0.80", "1.00"] {
        assert!(section(&page).contains(&format!("\"end\">{label}</text>")), "{label}");
    }
    let rows = page.lines().filter(|line| line.starts_with("<tr") && line.contains("<td"));
    let firsts: Vec<bool> = rows.map(|row| row.contains("class=\"first\"")).collect();
    assert_eq!(firsts, [true, false, true, false]);
    // An error of zero has its point on the linear axis.
    let mut exact = known.clone();
    exact.cells.retain(|cell| cell.generator == generator("sobol"));
    errors_mut(&mut exact.cells[0]).to_float.root_mean_square = 0.0;
    let page = report::evaluation(&exact);
    let part = section(&page);
    assert!(part.contains("</svg>sobol</li>") && !part.contains("</svg>bernoulli</li>"));
    assert_eq!(part.matches("sobol, 16 bits: 0.00").count(), 1);
    assert_eq!(part.matches("sobol, 256 bits: ").count(), 2);
    exact.float = Figures::Regression(Errors { root_mean_square: 0.0, ..*float(&exact) });
    exact.cells.iter_mut().for_each(|cell| errors_mut(cell).to_float.root_mean_square = 0.0);
    let page = report::evaluation(&exact);
    let part = section(&page);
    assert_eq!(
        (part.matches("<h3>").count(), part.matches("floating point, 0.00").count()),
        (2, 1)
    );
    assert_eq!(part.matches("bits: 0.00").count(), 2);
}

/// An R² far below 0 is drawn on a linear axis that ends two below floating point.
#[test]
fn chart_of_costs_shows_negative_r_squared() {
    let mut found = known();
    found.float = Figures::Regression(Errors { r_squared: -3.5, ..*float(&found) });
    let cost = aleatron_eval::CostFigures { cycles: 10, area: 1e3, energy: 5.0 };
    for (length, r_squared) in [(16, -4.5), (256, -1e300)] {
        let cells = found.cells.iter_mut().filter(|cell| cell.length == length);
        cells.for_each(|cell| errors_mut(cell).to_targets.r_squared = r_squared);
        let (generator, cost) = (generator("sobol"), aleatron_eval::CircuitCost::Known(cost));
        found.costs.push(aleatron_eval::RowCost { generator, length, cost });
    }
    let page = report::evaluation(&found);
    let part = page.split("<h2>").find(|part| part.starts_with("Cost of the circuit")).unwrap();
    // From -5.5 less a margin to 1, in steps of 2.
    for label in ["-4.00", "-2.00", "0.00"] {
        assert!(part.contains(&format!("\"end\">{label}</text>")), "{label}: {part}");
    }
    assert_eq!(part.matches("sobol, 16 bits: R² -4.5000").count(), 2, "{part}");
    assert!(!part.contains("sobol, 256 bits"));
}

#[test]
fn warnings_name_their_generator() {
    let (network, data) = data(3);
    for (generator, n) in [("bernoulli", 0), ("sobol:1+sobol:1", 1)] {
        let generators = vec![generator.parse().unwrap()];
        let plan = Plan { lengths: vec![16], generators, seeds: 1, ..Plan::default() };
        let found = run(&network, &data, &plan, None).unwrap();
        assert_eq!(found.warnings.len(), n, "{:?}", found.warnings);
        let heading = format!("{}: ", found.plan.generators[0]);
        assert!(
            found.warnings.iter().all(|warning| warning.starts_with(&heading)),
            "{:?}",
            found.warnings
        );
    }
}

#[test]
fn bands_are_drawn_down_to_zero() {
    let page = |spread: f64| {
        let mut found = known();
        for cell in &mut found.cells {
            let size = 0.5 + spread * cell.seed as f64;
            errors_mut(cell).to_targets.root_mean_square = size;
            errors_mut(cell).to_float.root_mean_square = size;
        }
        report::evaluation(&found)
    };
    // Of two seeds, the interval is 12.7 times half of their distance on either side.
    let bands = |page: &str| page.matches("<polygon").count();
    assert_eq!((bands(&page(0.001)), bands(&page(0.5))), (2, 2));
}

#[test]
fn score_of_a_regression_is_r_squared() {
    let (network, data) = data(60);
    let targets = network.forward(data.features()).unwrap();
    let data = Dataset::with_targets("scores", 64, data.features().to_vec(), 10, targets).unwrap();
    let plan = Plan {
        lengths: vec![8, 64, 1024],
        generators: vec![generator("sobol")],
        ..Plan::default()
    };
    let mut found = run(&network, &data, &plan, None).unwrap();
    assert_eq!((found.float.score(), float(&found).r_squared), (1.0, 1.0));
    let scores: Vec<f64> = found.cells.iter().map(|cell| cell.figures.score()).collect();
    assert!(scores.is_sorted(), "{scores:?}");
    let lost: Vec<f64> = scores.iter().map(|score| 100.0 * (found.float.score() - score)).collect();
    assert_eq!(found.shortest_within("sobol", lost[1] + 0.001).unwrap(), Some(64));
    assert_eq!(found.shortest_within("sobol", lost[1] - 0.001).unwrap(), Some(1024));
    let text = found.to_string();
    assert!(text.contains("of the R² of floating point"), "{text}");
    find_losses(&network, &data, &plan, &mut found, Cancel::NEVER).unwrap();
    let losses = found.graph.as_ref().unwrap().losses[0].clone();
    assert_eq!(losses.alone.iter().flatten().count(), 2);
    assert!(
        losses.alone.iter().flatten().all(|alone| *alone > losses.score && *alone <= 1.0),
        "{losses:?}"
    );
    assert!(report::evaluation(&found).contains("Where accuracy is lost"));
    assert_eq!(Evaluation::from_json(&found.to_json().unwrap()).unwrap(), found);
}

#[test]
fn search_finds_lengths_within_a_loss_of_r_squared() {
    let (network, data) = data(60);
    let search =
        Search { generator: generator("sobol"), loss: 2.0, longest: 512, shortest: 16, budget: 50 };
    let found =
        find(&network, &data, &Plan::default(), &search, None, Cancel::NEVER, |_| ()).unwrap();
    assert!(found.is_good() && found.measure == Measure::RSquared, "{found:?}");
    assert!(found.lengths.iter().any(|&length| length < 512), "{found:?}");
    for trial in &found.trials {
        let layers = found.layers.iter().zip(&trial.lengths);
        let layers = layers
            .map(|(name, length)| (name.clone(), format!("length={length}").parse().unwrap()));
        let plan = Plan {
            layers: layers.collect(),
            ..Plan { generators: vec![search.generator], ..plan() }
        };
        let score = run(&network, &data, &plan, None).unwrap().cells[0].figures.score();
        assert_eq!(trial.score, score, "{trial:?}");
    }
    assert_eq!(Found::from_json(&found.to_json().unwrap()).unwrap(), found);
    let page = report::search(&found, "scores");
    assert!(page.contains("R² "), "{page}");
}

/// Of targets without a spread, R² is 0 for all wrong outputs alike.
#[test]
fn search_needs_targets_that_differ() {
    let (network, data) = data(60);
    let search =
        Search { generator: generator("sobol"), loss: 1.0, longest: 32, shortest: 16, budget: 5 };
    let run = |n: usize, targets: Vec<f64>| {
        let features = data.features()[..64 * n].to_vec();
        let data = Dataset::with_targets("d", 64, features, 10, targets).unwrap();
        find(&network, &data, &Plan::default(), &search, None, Cancel::NEVER, |_| ())
    };
    let row: Vec<f64> = (0..10).map(f64::from).collect();
    for (n, targets) in [(1, row.clone()), (3, row.repeat(3))] {
        let error = run(n, targets).unwrap_err();
        assert!(matches!(error, Error::ConstantTargets { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("({n} samples")) && text.contains("validation share"));
    }
    let mut targets = row.repeat(3);
    targets[25] = -1.0;
    assert!(run(3, targets).is_ok());
}

/// Features are checked before anything runs, not in the first pass of streams.
#[test]
fn features_outside_the_interval_are_errors_before_the_first_pass() {
    let (network, data) = data(300);
    let mut features = data.features().to_vec();
    features[64 * 280 + 7] = 17.0;
    let data = Dataset::with_targets("d", 64, features, 10, data.targets().to_vec()).unwrap();
    let job =
        aleatron_eval::Job::new(network.clone().into(), std::borrow::Cow::Borrowed(&data), plan());
    let error = job.unwrap_err();
    let expected = aleatron_engine::Error::Feature {
        sample: 280,
        feature: 7,
        value: 17.0,
        low: 0.0,
        high: 16.0,
    };
    assert_eq!(error.to_string(), expected.to_string());
    let search =
        Search { generator: generator("sobol"), loss: 2.0, longest: 32, shortest: 16, budget: 50 };
    let error = find(&network, &data, &plan(), &search, None, Cancel::NEVER, |_| ()).unwrap_err();
    assert_eq!(error.to_string(), expected.to_string());
}
