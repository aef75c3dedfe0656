//! Comparisons of two evaluations: their settings, their rows and their intervals.

use super::{cell, evaluation, example};
use crate::support::Classes;
use aleatron_eval::{
    CircuitCost, CostFigures, Error, Errors, Evaluation, Figures, Method, Provenance, Regression,
    ResultFile, RowCost, Source, Subject, Verdict, compare, report,
};
use std::path::Path;

fn names() -> [&'static str; 2] {
    ["first.json", "second.json"]
}

/// The example with other accuracies, one length less and one more.
fn other() -> Evaluation {
    let sobol = [(8, 80), (16, 88)].map(|(length, right)| cell("sobol", length, 0, right));
    let mut cells = sobol.to_vec();
    for (length, rights) in [(8, [60, 64]), (32, [80, 82])] {
        cells.extend((0..).zip(rights).map(|(seed, right)| cell("bernoulli", length, seed, right)));
    }
    evaluation(cells)
}

#[test]
fn rows_are_matched_by_generator_and_length() {
    let found = compare(names(), [&example(), &other()], &[]).unwrap();
    let keys: Vec<String> = found.rows.iter().map(|row| row.key.to_string()).collect();
    assert_eq!(keys, ["sobol, 8 bits", "sobol, 16 bits", "bernoulli, 8 bits"]);
    let of =
        |keys: &[aleatron_eval::RowKey]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(of(&found.only_a), ["sobol, 64 bits", "bernoulli, 16 bits", "bernoulli, 64 bits"]);
    assert_eq!(of(&found.only_b), ["bernoulli, 32 bits"]);
    let row = &found.rows[0];
    assert!((row.score.difference - 0.1).abs() < 1e-12);
    // 70 and 80 of 100: Newcombe's interval is -2.02 to 21.67 points.
    let [low, high] = row.score.interval.unwrap();
    assert!((low + 0.0202).abs() < 5e-4 && (high - 0.2167).abs() < 5e-4, "{low} {high}");
    assert_eq!((row.score.verdict, row.score.method), (Verdict::Within, Method::Exact));
    // Both seeds differ by ten points: the noise of seeds is 0, that of samples remains.
    assert_eq!(found.rows[2].score.method, Method::PairedSeeds);
    assert!((found.rows[2].score.difference - 0.1).abs() < 1e-12);
    let text = found.to_string();
    for part in [
        "A  first.json: net on data, 100 samples",
        "only in A: sobol: 64 bits\nonly in A: bernoulli: 16, 64 bits\n",
        "only in B: bernoulli: 32 bits\n",
        "+10.00",
        "Newcombe",
        "no result of each sample",
        "paired seeds",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn equal_evaluations_differ_in_nothing() {
    let found = compare(names(), [&example(), &example()], &[]).unwrap();
    assert!(found.settings.is_empty() && found.only_a.is_empty() && found.only_b.is_empty());
    assert_eq!(found.rows.len(), 6);
    assert!(
        found
            .rows
            .iter()
            .all(|row| { row.score.difference == 0.0 && row.score.verdict == Verdict::Within })
    );
    let text = found.to_string();
    assert!(text.contains("No setting differs.") && !text.contains("-0.00 "), "{text}");
}

#[test]
fn settings_that_differ_are_listed() {
    let (a, mut b) = (example(), example());
    b.plan.width = "6".parse().unwrap();
    b.plan.layers.insert("only".to_owned(), "length=4".parse().unwrap());
    b.version = "0.0.1".to_owned();
    let run = |hash: &str| {
        let mut run = Provenance { device: Some("cpu".to_owned()), ..Provenance::new("avx2", 2) };
        let source = Source::described("calibration", "train.npz");
        run.sources.push(Source { sha256: Some(hash.repeat(64)), ..source });
        run
    };
    b.provenance.push(run("b"));
    let settings = |a: &Evaluation, b: &Evaluation| -> Vec<[String; 3]> {
        let found = compare(names(), [a, b], &[]).unwrap();
        found.settings.into_iter().map(|s| [s.setting, s.a, s.b]).collect()
    };
    let texts = |all: &[[&str; 3]]| all.iter().map(|s| s.map(str::to_owned)).collect::<Vec<_>>();
    let expected = [
        ["version", aleatron_engine::VERSION, "0.0.1"],
        ["layers", "{}", "{\"only\":\"length=4\"}"],
        ["width", "auto", "6"],
    ];
    assert_eq!(settings(&a, &b), texts(&expected));
    // Calibration data with the same name and another hash.
    let mut a = b.clone();
    a.provenance = vec![run("a")];
    let expected =
        [["calibration", "train.npz (aaaaaaaaaaaaaaaa)", "train.npz (bbbbbbbbbbbbbbbb)"]];
    assert_eq!(settings(&a, &b), texts(&expected));
    // A run that merges results computes nothing and has no calibration.
    let mut merged = b.clone();
    merged.provenance.push(Provenance::new("portable", 1));
    for (merged, other) in [(&merged, &b), (&b, &merged)] {
        assert_eq!(settings(merged, other), texts(&[]));
    }
    assert_eq!(settings(&a, &merged), texts(&expected));
    // Nothing is known about the calibration of a result without one.
    merged.provenance[0].sources.clear();
    assert_eq!(settings(&merged, &b), texts(&[]));
    // Provenance alone makes no evaluation another one.
    assert_eq!(a.without_times(), b.without_times());
}

#[test]
fn early_termination_and_cost_are_compared() {
    let (mut a, b) = (example(), example());
    for cell in &mut a.cells {
        cell.classes_mut().early[0].mean_cycles = 10.0;
    }
    let cost = CostFigures { cycles: 145, area: 84_300.0, energy: 10.75 };
    let generator = a.plan.generators[0];
    a.costs = vec![RowCost { generator, length: 64, cost: CircuitCost::Known(cost) }];
    let found = compare(names(), [&a, &b], &[]).unwrap();
    let row = found.rows.iter().find(|row| row.key.to_string() == "sobol, 64 bits").unwrap();
    assert_eq!(row.early_cycles, [Some(10.0), Some(16.0)]);
    assert_eq!(row.cost, [Some(cost), None]);
    // Far from floating point, stopping early says nothing.
    assert_eq!(found.rows[0].early_cycles, [None, None]);
    let text = found.to_string();
    assert!(text.contains("early cycles A") && text.contains("energy nJ A"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&found.to_json().unwrap()).unwrap();
    assert_eq!(json["rows"][2]["cost"][0]["cycles"], 145);
    assert_eq!(json["rows"][2]["early_cycles"][1], 16.0);
    assert_eq!(json["score"], "accuracy");
    assert!(json["rows"][0].get("cost").is_none());
}

#[test]
fn other_networks_and_data_are_compared_on_request() {
    let (a, mut b) = (example(), example());
    b.network.fingerprint = "1".to_owned();
    let refused = compare(names(), [&a, &b], &[]).unwrap_err();
    assert!(matches!(refused, Error::Incomparable { subject: Subject::Network, .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("first.json") && text.contains("second.json"), "{text}");
    let found = compare(names(), [&a, &b], &[Subject::Network]).unwrap();
    assert_eq!(found.settings[0].setting, "network");
    b.data.fingerprint = "1".to_owned();
    let refused = compare(names(), [&a, &b], &[Subject::Network]).unwrap_err();
    assert!(matches!(refused, Error::Incomparable { subject: Subject::Data, .. }), "{refused}");
    let found = compare(names(), [&a, &b], &[Subject::Data, Subject::Network]).unwrap();
    assert!(found.to_string().contains("the samples of both are independent"));
    b.float = Figures::Regression(Errors::default());
    let all = [Subject::Data, Subject::Network];
    let refused = compare(names(), [&a, &b], &all).unwrap_err();
    assert!(matches!(refused, Error::Incomparable { subject: Subject::Task, .. }), "{refused}");
}

#[test]
fn regressions_are_compared_by_their_errors() {
    let regression = |errors: [[f64; 2]; 2]| {
        let mut found = evaluation(vec![
            cell("sobol", 8, 0, 50),
            cell("bernoulli", 8, 0, 50),
            cell("bernoulli", 8, 1, 50),
        ]);
        found.plan.margins.clear();
        found.float = Figures::Regression(Errors { root_mean_square: 0.25, ..Errors::default() });
        let [[sobol, first], [second, _]] = errors;
        for (cell, root_mean_square) in found.cells.iter_mut().zip([sobol, first, second]) {
            let errors = Errors { root_mean_square, mean_absolute: 0.0, r_squared: 0.5 };
            let figures = Regression { to_targets: errors, to_float: errors };
            cell.figures = Figures::Regression(figures);
        }
        found
    };
    let a = regression([[0.5, 0.5], [0.75, 0.0]]);
    let b = regression([[0.25, 1.0], [1.25, 0.0]]);
    let found = compare(names(), [&a, &b], &[]).unwrap();
    let [sobol, bernoulli] = &found.rows[..] else { panic!("{found:?}") };
    // Nothing is random, and the choice of samples is in no file: there is no interval.
    assert_eq!((sobol.score.difference, sobol.score.interval), (-0.25, None));
    assert_eq!(sobol.score.verdict, Verdict::Unknown);
    // Both seeds differ by a half.
    assert_eq!((bernoulli.score.difference, bernoulli.score.interval), (0.5, Some([0.5, 0.5])));
    assert_eq!(bernoulli.score.verdict, Verdict::Outside);
    assert_eq!(bernoulli.r_squared, Some([0.5, 0.5]));
    let text = found.to_string();
    assert!(
        text.contains("rms error A") && text.contains("no interval covers the choice of samples")
    );
    assert!(report::comparison(&found).contains("rms error A"));
}

#[test]
fn page_has_the_settings_the_rows_and_the_statistics() {
    let (a, mut b) = (example(), other());
    b.plan.width = "6".parse().unwrap();
    b.network.name = "<b>".to_owned();
    b.provenance.push(Provenance::new("avx2", 2));
    let found = compare(["a&b", "c"], [&a, &b], &[]).unwrap();
    let page = report::comparison(&found);
    for part in [
        "<h1>a&amp;b and c</h1>",
        "<h2>Settings that differ</h2>",
        "<td class=\"text\">width</td><td class=\"text\">auto</td><td class=\"text\">6</td>",
        "<td class=\"text\">sobol</td><td>8</td><td>70.00</td><td>80.00</td><td>+10.00</td>",
        "sobol, A</li>",
        "<h2>Rows of one alone</h2>",
        "<h2>Statistics</h2>",
        "<h2>Provenance of B</h2>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("&lt;b&gt;") && !page.contains("<b>") && !page.contains("http"));
}

#[test]
fn results_are_told_from_other_json() {
    let text = example().to_json().unwrap();
    let read = ResultFile::from_json(&text).unwrap();
    assert_eq!(read, ResultFile::Network(Box::new(example())));
    for (bad, part) in [
        ("", "not the result of an evaluation (EOF"),
        ("[]", "not the result of an evaluation"),
        ("{}", "evaluation.json of a report"),
        ("{\"trials\": []}", "the result of a search"),
        (&text[..text.len() / 2], "not the result of an evaluation (EOF"),
        (&*text.replacen("\"samples\": 100", "\"samples\": 99", 1), "confusion matrix"),
    ] {
        let error = ResultFile::from_json(bad).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = ResultFile::read(Path::new("/no/such/file")).unwrap_err().to_string();
    assert!(error.contains("/no/such/file"), "{error}");
}
