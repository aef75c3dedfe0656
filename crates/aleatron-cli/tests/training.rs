//! `train`, as a user runs it.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

mod common;

use common::{Folder, aleatron, json};

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
fn train_rejects_invalid_usage_before_any_work() {
    let folder = Folder::new("train-usage");
    let cases: [&[&str]; 6] = [
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
}
