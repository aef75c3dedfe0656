//! `rtl` and `explore`, as a user runs them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

mod common;

use common::{Folder, aleatron, json};

#[test]
fn rtl_writes_a_circuit_and_checks_it() {
    let folder = std::env::temp_dir().join(format!("aleatron-rtl-{}", std::process::id()));
    let out = folder.to_str().unwrap();
    let arguments = [
        "rtl",
        "plain",
        "--length",
        "8",
        "--samples",
        "1",
        "--check",
        "--simulator",
        "icarus",
        "--synth",
        "--out",
        out,
    ];
    let made = aleatron(&arguments);
    let text = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(
        text.contains("network_tb +stall +reset") && text.contains("equal to the engine"),
        "{text}"
    );
    assert!(text.contains("gate equivalents") && text.contains("parallel counters"), "{text}");
    assert!(text.contains("cells between registers"), "{text}");
    let report = std::fs::read_to_string(folder.join("synthesis.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let depth = report["area"]["depth"].as_u64().unwrap();
    assert!(text.contains(&format!("depth {depth} cells")) && depth > 0, "{text}");
    for file in ["README.md", "Makefile", "circuit.json", "rtl/al_window.v", "tb/network_tb.v"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn rtl_rejects_bernoulli_streams_with_a_remedy() {
    let made = aleatron(&["rtl", "plain", "--generator", "bernoulli", "--out", "never-written"]);
    let text = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!(made.status.code(), Some(1), "{text}");
    assert!(
        text.contains("layer \"hidden\": Bernoulli streams") && text.contains("--generator lfsr"),
        "{text}"
    );
    assert!(!std::path::Path::new("never-written").exists());
}

#[test]
fn explore_writes_designs_that_rtl_accepts_and_resumes() {
    let folder = Folder::new("explore");
    let report = folder.join("report");
    let options = ["--lengths", "8,16", "--generators", "sobol", "--lanes", "all,4"];
    let run = |more: &[&str]| {
        aleatron(&[&["explore"], &options[..], &["--report", &report], more].concat())
    };
    let first = run(&["--budget", "2"]);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert!(String::from_utf8_lossy(&first.stdout).contains("has not finished"));
    // An unfinished exploration is not replaced by accident.
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--resume"));
    assert!(run(&["--resume"]).status.success());
    let saved: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("report/explore.json")).unwrap())
            .unwrap();
    assert_eq!(saved["is_finished"], true);
    let whole = json(&[&["explore"], &options[..], &["--json"]].concat());
    // Equal but for the runs that contributed.
    let results = |found: &serde_json::Value| {
        let mut found = found.as_object().unwrap().clone();
        let runs = found.remove("provenance").unwrap().as_array().unwrap().len();
        (found, runs)
    };
    let ((saved, saved_runs), (same, runs)) = (results(&saved), results(&whole));
    assert_eq!(saved, same);
    assert!(saved_runs > 1 && runs == 1, "{saved_runs} {runs}");
    // The command of a design that mixes lengths generates the circuit with the cycles of the
    // model.
    let design = whole["designs"].as_array().unwrap().iter();
    let design = design.filter(|design| design["lanes"] == "4").find(|design| {
        design["is_optimal"] == true && design["streams"]["lengths"] == serde_json::json!([16, 8])
    });
    let cycles = design.unwrap()["cost"]["cycles"].as_u64().unwrap();
    let page = std::fs::read_to_string(folder.join("report/explore.html")).unwrap();
    let command = "rtl --length 16 --generator sobol --sharing all --width auto --layer output:length=8 --lanes 4";
    assert!(page.contains(command), "{page}");
    let out = folder.join("circuit");
    let circuit =
        aleatron(&[&command.split(' ').collect::<Vec<_>>()[..], &["--out", &out]].concat());
    let text = String::from_utf8_lossy(&circuit.stdout).into_owned();
    assert!(text.contains(&format!("at least {cycles} cycles")), "{text}");
    let twice = aleatron(&["rtl", "--layer", "a:length=8", "--layer", "a:length=9", "--out", &out]);
    assert_eq!(twice.status.code(), Some(2));
}

#[test]
fn explore_rejects_invalid_usage() {
    for arguments in [
        ["--loss", "101"],
        ["--loss", "NaN"],
        ["--lanes", "0"],
        ["--lanes", "some"],
        ["--budget", "0"],
        ["--lengths", "0"],
    ] {
        let output = aleatron(&[&["explore"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
