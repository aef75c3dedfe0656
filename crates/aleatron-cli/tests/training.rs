//! `train`, as a user runs it.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

mod common;

use aleatron::network::NetworkBuilder;
use common::{Folder, aleatron, json, text};

#[test]
fn train_improves_short_streams_and_writes_network_and_report() {
    let folder = Folder::new("train");
    let (out, report) = (folder.join("short.onnx"), folder.join("report"));
    let found = json(&[
        "train",
        "plain",
        "--lengths",
        "8",
        "--eval-lengths",
        "8,64",
        "--epochs",
        "3",
        "--out",
        &out,
        "--report",
        &report,
        "--json",
    ]);
    let accuracy = |when: &str| found[when]["cells"][0]["accuracy"].as_f64().unwrap();
    assert!(
        accuracy("after") > accuracy("before") + 0.05,
        "{} {}",
        accuracy("before"),
        accuracy("after")
    );
    assert_eq!(found["epochs"].as_array().unwrap().len(), 3);
    // The file has the results of the report, bit for bit.
    let again =
        json(&["eval", &out, "--lengths", "8", "--generators", "sobol", "--clip", "--json"]);
    assert_eq!(again["cells"][0]["accuracy"], found["after"]["cells"][0]["accuracy"]);
    let page = std::fs::read_to_string(folder.join("report/training.html")).unwrap();
    assert!(
        page.contains("sobol, before") && page.contains("sobol, after") && page.contains("Loss")
    );
}

#[test]
fn train_resumes_from_a_checkpoint_and_prints_both_curves() {
    let folder = Folder::new("train-resume");
    let state = folder.join("state");
    let arguments = [
        "train",
        "--lengths",
        "16",
        "--eval-lengths",
        "16",
        "--epochs",
        "1",
        "--checkpoint",
        &state,
    ];
    let first = aleatron(&arguments);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let text = String::from_utf8(first.stdout).unwrap();
    assert!(text.contains("before") && text.contains("after") && text.contains("float"), "{text}");
    assert!(String::from_utf8_lossy(&first.stderr).contains("--out"));
    assert!(aleatron(&arguments).status.success());
    let other = aleatron(&[&arguments[..], &["--seed", "1"]].concat());
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("another training"));
}

#[test]
fn train_find_writes_a_network_and_lengths_that_eval_reads() {
    let folder = Folder::new("train-find");
    let (out, layers) = (folder.join("short.onnx"), folder.join("layers.json"));
    let (report, state) = (folder.join("report"), folder.join("state"));
    let arguments = [
        "train",
        "plain",
        "--polarity",
        "signed",
        "--find",
        "2",
        "--lengths",
        "4,32",
        "--epochs",
        "2",
        "--validation",
        "0.2",
        "--out",
        &out,
        "--out-layers",
        &layers,
        "--report",
        &report,
        "--checkpoint",
        &state,
    ];
    // One trial, then the others from the checkpoint.
    let first = aleatron(&[&arguments[..], &["--budget", "1"]].concat());
    assert_eq!(first.status.code(), Some(1), "{}", String::from_utf8_lossy(&first.stderr));
    let text = String::from_utf8(first.stdout).unwrap();
    assert!(text.contains("32-32 bits") && text.contains("has not finished"), "{text}");
    let found = json(&[&arguments[..], &["--json"]].concat());
    let bits = |search: &str| found[search]["bit_macs"].as_u64().unwrap();
    assert!(bits("found") < bits("without_retraining"), "{found}");
    let trials = found["found"]["trials"].as_array().unwrap();
    assert!(trials.len() > 1 && trials[1]["start"] == 0, "{found}");

    // The files have the result, bit for bit.
    let after = &found["after"]["cells"][0];
    let again =
        json(&["eval", &out, "--generators", "sobol", "--clip", "--layers", &layers, "--json"]);
    assert_eq!(again["cells"][0]["accuracy"], after["accuracy"]);
    assert_eq!(again["cells"][0]["lengths"], found["found"]["lengths"]);
    let rows = found["comparison"].as_array().unwrap();
    assert_eq!(rows[4]["test"], after["accuracy"]);
    assert_eq!(rows[4]["validation"], found["found"]["score"]);
    assert_eq!(rows[3]["test"], found["before"]["cells"][0]["accuracy"]);
    let read =
        |name: &str| std::fs::read_to_string(folder.join(&format!("report/{name}"))).unwrap();
    assert_eq!(read("layers.json"), std::fs::read_to_string(&layers).unwrap());
    let page = read("find.html");
    assert!(page.contains("before training") && page.contains("trained, found with training"));
    for name in ["find.json", "before.json", "after.json"] {
        assert!(read(name).contains("provenance"), "{name}");
    }
}

/// Without training, a budget of 2 ends with lengths that are too short, and the longest are never
/// tried.
#[test]
fn train_find_with_a_small_budget_reports_measured_scores_only() {
    for budget in ["1", "2"] {
        let options = ["--find", "1", "--lengths", "2,64", "--epochs", "1", "--budget", budget];
        let arguments = [&["train", "plain", "--polarity", "signed"], &options[..]].concat();
        let printed = text(&aleatron(&arguments));
        assert!(!printed.contains("not even the longest"), "{printed}");
        assert!(!printed.contains("% without training"), "{printed}");
        assert!(printed.contains("given, found without training (unfinished)"), "{printed}");
        assert!(printed.contains("has not finished"), "{printed}");
        let output = aleatron(&[&arguments[..], &["--json"]].concat());
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = found["comparison"].as_array().unwrap();
        assert_eq!(rows[2]["name"], "given, found without training (unfinished)");
        assert!(rows[2]["validation"].is_null() && rows[4]["validation"].is_number(), "{found}");
    }
    let options = ["--generators", "sobol", "--find", "1", "--lengths", "2,64", "--budget", "1"];
    let printed = text(&aleatron(&[&["eval", "plain"], &options[..]].concat()));
    assert!(printed.contains("no lengths were good enough in 1 trial"), "{printed}");
    assert!(!printed.contains("not even") && !printed.contains("0.00 %"), "{printed}");
}

#[test]
fn train_find_replaces_no_unfinished_or_foreign_search() {
    let folder = Folder::new("train-find-report");
    let report = folder.join("report");
    let options = ["--lengths", "4,32", "--budget", "1", "--report", &report];
    let train = |network: &str, more: &[&str]| {
        let fixed = ["train", network, "--find", "2", "--epochs", "1"];
        aleatron(&[&fixed[..], &options, more].concat())
    };
    let read = || std::fs::read(folder.join("report/find.json")).unwrap();
    let refused = |network: &str, more: &[&str], part: &str| {
        let before = read();
        let output = train(network, more);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(part) && message.contains("choose another folder"), "{message}");
        assert_eq!(read(), before);
    };
    // An unfinished search of eval can be resumed by eval alone, whatever the checkpoint.
    let state = folder.join("state");
    std::fs::write(&state, "").unwrap();
    let eval = ["eval", "plain", "--generators", "sobol", "--find", "0"];
    assert_eq!(aleatron(&[&eval[..], &options].concat()).status.code(), Some(1));
    refused("plain", &["--checkpoint", &state], "it holds an unfinished search");
    std::fs::remove_file(&state).unwrap();
    // That of a training goes on from its checkpoint.
    std::fs::remove_file(folder.join("report/find.json")).unwrap();
    let unfinished = text(&train("plain", &["--checkpoint", &state]));
    assert!(unfinished.contains("has not finished"), "{unfinished}");
    refused("plain", &[], "it holds an unfinished search");
    let again = text(&train("plain", &["--checkpoint", &state]));
    assert!(again.contains("has not finished"), "{again}");
    refused("cnn", &["--checkpoint", &state], "it holds a search of another network");
    std::fs::write(folder.join("report/find.json"), "{}").unwrap();
    refused("plain", &[], "it holds a search of something else");
}

#[test]
fn train_find_rejects_options_that_it_cannot_have() {
    let cases: [(&[&str], &str); 7] = [
        (&["--find", "1"], "--lengths 4,64"),
        (&["--find", "101", "--lengths", "4,8"], "from 0 to 100"),
        (&["--find", "1", "--lengths", "4,8", "--generators", "sobol,lfsr"], "one generator"),
        (&["--find", "1", "--lengths", "4,8", "--through", "noise"], "--through streams"),
        (&["--find", "1", "--lengths", "4,8", "--faults", "0.1"], "--faults"),
        (&["--find", "1", "--lengths", "4,8", "--validation", "0"], "validation share"),
        (&["--out-layers", "layers.json"], "--find"),
    ];
    for (case, part) in cases {
        let refused = aleatron(&[&["train"], case].concat());
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{case:?}: {text}");
        assert!(text.contains(part), "{case:?}: {text}");
    }
}

/// Returns the first lines of a .csv file of digits, `label` being the class of the last one.
fn digits(n: usize, label: usize) -> String {
    let line = |k: usize| {
        let features: Vec<String> = (0..64).map(|i| format!("0.{}", (i * 7 + k) % 10)).collect();
        let label = if k + 1 == n { label } else { k % 10 };
        format!("{},{label}\n", features.join(","))
    };
    (0..n).map(line).collect()
}

#[test]
fn train_find_checks_test_samples_before_the_search() {
    let folder = Folder::new("train-find-test");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (data, bad) = (write("data.csv", &digits(40, 1)), write("bad.csv", &digits(5, 99)));
    let two = write("two.csv", &digits(2, 1));
    let state = folder.join("state");
    let cases: [(&[&str], &str); 2] = [
        (&["--data", &data, "--test", &bad], "the label of sample 4 is 99"),
        (&["--data", &two], "two.csv: a fifth of 2 samples is none for the evaluation"),
    ];
    for (samples, part) in cases {
        let options = ["--find", "1", "--lengths", "4,8", "--checkpoint", &state];
        let refused = aleatron(&[&["train"], samples, &options].concat());
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{samples:?}: {text}");
        assert!(text.contains(part), "{samples:?}: {text}");
        assert!(!std::path::Path::new(&state).exists(), "{samples:?}");
    }
}

/// Results name the scales that were chosen for the streams of the training.
#[test]
fn train_records_the_calibration_that_it_chose() {
    let folder = Folder::new("train-calibration");
    let network = NetworkBuilder::new("plain", &[2])
        .dense("fc", 2, &[1.0, 0.0, 0.0, 0.25], &[])
        .build()
        .unwrap();
    // The graph alone has no scales.
    let model = folder.join("plain.onnx");
    std::fs::write(&model, network.graph().to_onnx().unwrap()).unwrap();
    let data = folder.join("d.csv");
    std::fs::write(&data, "3,0,0\n0,2,1\n".repeat(10)).unwrap();
    let options = ["--lengths", "8", "--eval-lengths", "8", "--epochs", "1", "--json"];
    let found = json(&[&["train", &model, "--data", &data], &options[..]].concat());
    for result in ["before", "after"] {
        let sources = found[result]["provenance"][0]["sources"].as_array().unwrap();
        let calibration = sources.iter().find(|source| source["role"] == "calibration").unwrap();
        let name = calibration["name"].as_str().unwrap();
        assert!(name.contains(" % of the inputs of ") && name.ends_with("d.csv"), "{name}");
    }
}

/// Gradients of one epoch on the CPU and on the adapter of continuous integration: rounding differs,
/// which 23 steps at this rate multiply to a few units in the sixth digit of the loss.
#[cfg(feature = "gpu")]
#[test]
fn train_has_equal_losses_with_gradients_on_a_gpu() {
    let loss = |device: &str| {
        let arguments = [
            "train",
            "plain",
            "--through",
            "float",
            "--epochs",
            "1",
            "--json",
            "--gradient-device",
        ];
        let found = json(&[&arguments[..], &[device]].concat());
        let used = found["after"]["provenance"][0]["device"].as_str().unwrap().to_owned();
        (found["epochs"][0]["loss"].as_f64().unwrap(), used)
    };
    let ((cpu, on_cpu), (gpu, on_gpu)) = (loss("cpu"), loss("gpu:llvmpipe"));
    assert!((cpu - gpu).abs() < 1e-5 * cpu, "{cpu} and {gpu}");
    assert_eq!(on_cpu, "cpu");
    assert!(on_gpu.starts_with("cpu; gradients on ") && on_gpu.contains("llvmpipe"), "{on_gpu}");
}

#[test]
fn train_rejects_invalid_usage_before_any_work() {
    let folder = Folder::new("train-usage");
    let cases: [&[&str]; 7] = [
        &["--gradient-device", "tpu"],
        &["--rate", "0"],
        &["--lengths", "0"],
        &["--validation", "1"],
        &["--test", "test.npz"],
        &["--epochs", "0"],
        &["--through", "air"],
    ];
    for case in cases {
        let refused = aleatron(&[&["train"], case].concat());
        assert_eq!(
            refused.status.code(),
            Some(2),
            "{case:?}: {}",
            String::from_utf8_lossy(&refused.stderr)
        );
    }
    let nowhere = folder.join("missing/out.onnx");
    assert_eq!(aleatron(&["train", "--out", &nowhere]).status.code(), Some(1));
    // The name of a device is valid even if there is no such adapter.
    let missing = aleatron(&["train", "--gradient-device", "gpu:no such adapter"]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
}
