//! The program as a user runs it.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn aleatron(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aleatron"));
    command.args(arguments).env_remove("ALEATRON_TIER");
    command
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn info_names_version_tiers_and_threads() {
    let output = aleatron(&["info"]).output().unwrap();
    assert!(output.status.success());
    let text = text(&output);
    assert!(text.starts_with(&format!("aleatron {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.contains("portable") && text.contains("Threads:"), "{text}");
}

#[test]
fn info_is_json_for_machines() {
    let output = aleatron(&["info", "--json"]).output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    assert!(info["tiers"].as_array().unwrap().contains(&info["tier"]));
    assert!(info["threads"].as_u64().unwrap() >= 1);
}

#[test]
fn a_forced_tier_is_the_one_used() {
    let output = aleatron(&["info", "--json"]).env("ALEATRON_TIER", "portable").output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["tier"], "portable");
}

#[test]
fn a_wrong_tier_is_a_clear_error() {
    let output = aleatron(&["info"]).env("ALEATRON_TIER", "mmx").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("there is no tier \"mmx\"") && error.contains("avx2"), "{error}");
}

#[test]
fn verify_prints_equal_hashes() {
    let output = aleatron(&["verify", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let reports: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let reports = reports.as_array().unwrap();
    let full: Vec<_> = reports.iter().filter(|r| r["cases"] == reports[0]["cases"]).collect();
    // The reference, and at least the portable tier on one and on several threads.
    assert!(full.len() >= 3);
    assert!(full.iter().all(|r| r["hash"] == full[0]["hash"] && r["equal"] == true), "{reports:?}");
}

#[test]
fn nonsense_is_exit_code_two() {
    assert_eq!(aleatron(&["frobnicate"]).output().unwrap().status.code(), Some(2));
    assert_eq!(aleatron(&["verify", "--no-such-flag"]).output().unwrap().status.code(), Some(2));
}
