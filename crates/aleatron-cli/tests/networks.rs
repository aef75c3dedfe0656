//! `inspect`, and `eval` of ONNX networks, as a user runs them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

mod common;

use common::{Folder, aleatron, json};
use serde_json::Value;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/cnn.onnx");

#[test]
fn inspect_shows_nodes_and_streams() {
    let found = json(&["inspect", MODEL, "--length", "64", "--json"]);
    let nodes = found["nodes"].as_array().unwrap();
    let names: Vec<&str> = nodes.iter().map(|node| node["name"].as_str().unwrap()).collect();
    // The normalisation is part of the convolution.
    assert_eq!(names, ["conv", "relu", "pool", "flatten", "classes"]);
    assert_eq!(nodes[0]["stream"]["fan_in"], 9);
    assert_eq!(nodes[0]["stream"]["products"], 16 * 64 * 9);
    assert_eq!(nodes[4]["stream"]["bit_macs"], 10 * 256 * 64);
    assert!(nodes[1]["stream"].is_null());
    assert_eq!(found["parameters"], 16 * 9 + 16 + 10 * 256 + 10);
    let written = json(&["inspect", MODEL, "--as-written", "--json"]);
    assert_eq!(written["nodes"].as_array().unwrap().len(), 6);
    let text = String::from_utf8(aleatron(&["inspect", MODEL]).stdout).unwrap();
    assert!(text.contains("5 nodes, 2 of them can run as streams"), "{text}");
}

#[test]
fn eval_measures_an_onnx_network() {
    let evaluation =
        json(&["eval", MODEL, "--lengths", "16,512", "--generators", "sobol", "--json"]);
    let float = evaluation["float"]["accuracy"].as_f64().unwrap();
    assert!(float > 0.95, "{float}");
    let accuracies: Vec<f64> = evaluation["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["accuracy"].as_f64().unwrap())
        .collect();
    // Long streams lose less than a point; short ones more.
    assert!(accuracies[1] > float - 0.01 && accuracies[0] < accuracies[1], "{accuracies:?}");
    assert_eq!(evaluation["network"]["layers"], serde_json::json!(["conv", "classes"]));
}

#[test]
fn layers_can_run_in_binary_or_with_streams_of_their_own() {
    let accuracy = |arguments: &[&str]| {
        let all =
            [&["eval", MODEL, "--lengths", "16", "--generators", "sobol", "--json"], arguments]
                .concat();
        json(&all)["cells"][0]["accuracy"].as_f64().unwrap()
    };
    let plain = accuracy(&[]);
    assert!(accuracy(&["--binary", "classes"]) > plain);
    assert!(accuracy(&["--layer", "classes:length=512"]) > plain);
}

#[test]
fn search_reduces_the_number_of_bits() {
    let found = json(&[
        "eval",
        MODEL,
        "--lengths",
        "16,256",
        "--generators",
        "sobol",
        "--find",
        "2",
        "--json",
    ]);
    assert_eq!(found["is_finished"], true);
    assert!(found["score"].as_f64() >= found["bar"].as_f64());
    assert!(found["bit_macs"].as_u64() < found["bit_macs_before"].as_u64(), "{found}");
    // A chain of layers is searched alike.
    let found =
        json(&["eval", "--lengths", "16,64", "--generators", "sobol", "--find", "2", "--json"]);
    assert_eq!(found["layers"], serde_json::json!(["hidden", "output"]));
    assert_eq!(found["lengths"], serde_json::json!([16, 16]));
}

#[test]
fn invalid_options_are_errors() {
    for (arguments, code, text) in [
        (&["eval", MODEL, "--layer", "nope:length=4"][..], 2, "there is no layer \"nope\""),
        (&["eval", MODEL, "--binary", "nope"], 2, "there is no layer \"nope\""),
        (&["eval", MODEL, "--polarity", "unipolar"], 2, "weight"),
        (
            &["eval", MODEL, "--binary", "conv", "--layer", "conv:length=4"],
            2,
            "layer \"conv\" runs in binary",
        ),
        (&["eval", MODEL, "--percentile", "0"], 2, "0 is not a share"),
        (&["eval", MODEL, "--percentile", "100.5"], 2, "100.5 is not a share"),
        (&["eval", "cnn", "--binary", "nope"], 2, "there is no layer \"nope\""),
        (&["eval", "cnn", "--calibrate", "nowhere.npz"], 1, "nowhere.npz"),
        (&["eval", MODEL, "--input", "mask=1"], 1, "the graph has no input \"mask\""),
        (&["eval", MODEL, "--output", "nope"], 1, "output \"nope\""),
        // Before the first generator runs, which would be possible.
        (
            &["eval", MODEL, "--generators", "bernoulli,sobol", "--sharing", "stream"],
            2,
            "Sobol dimension",
        ),
        (
            &["eval", MODEL, "--layer", "classes:generator=sobol,sharing=stream"],
            2,
            "layer 1 (classes)",
        ),
        (
            &["eval", MODEL, "--binary", "conv", "--binary", "classes"],
            1,
            "layers that run as streams",
        ),
        (&["eval", "plain", "--generators", "sobol", "--find", "101"], 2, "percentage points"),
        (&["inspect", "nowhere.onnx"], 1, "nowhere.onnx"),
        (&["inspect", file!()], 1, ""),
    ] {
        let output = aleatron(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(text),
            "{arguments:?}: {output:?}"
        );
    }
}

#[test]
fn calibration_samples_need_the_features_of_the_network() {
    let folder = Folder::new("graph-calibrate");
    let run = |columns: usize| {
        let path = folder.join("c.csv");
        std::fs::write(&path, format!("{},0\n", vec!["1"; columns].join(",")).repeat(4)).unwrap();
        aleatron(&["eval", MODEL, "--lengths", "16", "--generators", "sobol", "--calibrate", &path])
    };
    assert!(run(64).status.success());
    // Two of these would make a sample.
    let text = String::from_utf8(run(32).stderr).unwrap();
    assert!(text.contains("32") && text.contains("64"), "{text}");
}

#[test]
fn a_report_of_a_graph_shows_its_nodes() {
    let folder = Folder::new("graph-report");
    let report = folder.join("r");
    let output =
        aleatron(&["eval", MODEL, "--lengths", "16", "--generators", "sobol", "--report", &report]);
    assert!(output.status.success(), "{output:?}");
    let found: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("r/evaluation.json")).unwrap())
            .unwrap();
    let losses = &found["graph"]["losses"][0];
    assert_eq!(
        (losses["generator"].as_str(), losses["length"].as_u64()),
        (Some("sobol"), Some(16))
    );
    assert_eq!(losses["score"], found["cells"][0]["accuracy"]);
    assert!(!found["cells"][0]["early"].as_array().unwrap().is_empty());
    let page = std::fs::read_to_string(folder.join("r/index.html")).unwrap();
    assert!(page.contains("Where accuracy is lost") && page.contains("The graph"));
    let resumed = aleatron(&[
        "eval",
        MODEL,
        "--lengths",
        "8",
        "--generators",
        "sobol",
        "--report",
        &report,
        "--resume",
    ]);
    assert!(resumed.status.success(), "{resumed:?}");
}

#[test]
fn graphs_run_in_integers_and_in_shards() {
    let folder = Folder::new("graph-shards");
    let asked =
        ["eval", MODEL, "--lengths", "32,256", "--generators", "sobol", "--arithmetic", "integer"];
    let whole = json(&[&asked[..], &["--json"]].concat());
    assert_eq!(whole["plan"]["arithmetic"], "integer");
    let float = json(&[&asked[..6], &["--json"]].concat());
    let accuracy = |found: &serde_json::Value| found["cells"][1]["accuracy"].as_f64().unwrap();
    assert!(whole["cells"] != float["cells"] && (accuracy(&whole) - accuracy(&float)).abs() < 0.05);
    let shards = folder.join("parts");
    for shard in ["2/2", "1/2"] {
        let output = aleatron(&[&asked[..], &["--shard", shard, "--report", &shards]].concat());
        assert!(output.status.success(), "{output:?}");
    }
    let merged = json(&["merge", &shards, "--json"]);
    for (one, other) in [0, 1].map(|k| (&merged["cells"][k], &whole["cells"][k])) {
        for what in ["accuracy", "agreement", "layers", "early", "certain", "confusion"] {
            assert_eq!(one[what], other[what], "{what}");
        }
    }
}

#[test]
fn found_lengths_are_valid_settings() {
    let folder = Folder::new("graph-found");
    let all =
        ["eval", MODEL, "--lengths", "16,256", "--generators", "sobol", "--find", "2", "--json"];
    let found = json(&[&all[..], &["--report", &folder.join("f")]].concat());
    let layers = folder.join("f/layers.json");
    let run =
        ["eval", MODEL, "--lengths", "256", "--generators", "sobol", "--layers", &layers, "--json"];
    assert_eq!(json(&run)["cells"][0]["accuracy"], found["score"]);
    let twice = aleatron(&[&run[..], &["--layer", "conv:length=3"]].concat());
    assert!(
        String::from_utf8_lossy(&twice.stderr).contains("\"conv\" is given twice"),
        "{twice:?}"
    );
    std::fs::write(&layers, r#"{"conv": {"length": "many"}}"#).unwrap();
    let broken = aleatron(&run);
    let text = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert!(text.contains("layers.json: layer \"conv\", \"length\""), "{text}");
}
