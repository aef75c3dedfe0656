//! `rtl`, as a user runs it.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

use std::process::{Command, Output};

fn aleatron(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aleatron")).args(arguments).output().unwrap()
}

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
    assert!(text.contains("network_tb +stall +reset") && text.contains("equal to the engine"), "{text}");
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
fn rtl_refuses_bernoulli_streams_with_a_remedy() {
    let made = aleatron(&["rtl", "plain", "--generator", "bernoulli", "--out", "never-written"]);
    let text = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!(made.status.code(), Some(1), "{text}");
    assert!(
        text.contains("layer \"hidden\": Bernoulli streams") && text.contains("--generator lfsr"),
        "{text}"
    );
    assert!(!std::path::Path::new("never-written").exists());
}
