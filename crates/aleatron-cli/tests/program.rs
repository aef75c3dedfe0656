//! The program as a user runs it.
#![allow(clippy::unwrap_used)]

mod common;

use common::{command as aleatron, text};
use std::process::Output;

#[test]
fn info_names_version_tiers_and_threads() {
    let output = aleatron(&["info"]).output().unwrap();
    assert!(output.status.success());
    let text = text(&output);
    assert!(text.starts_with(&format!("aleatron {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.contains("portable") && text.contains("Threads:"), "{text}");
}

#[test]
fn info_prints_json() {
    let output = aleatron(&["info", "--json"]).output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    assert!(info["tiers"].as_array().unwrap().contains(&info["tier"]));
    assert!(info["threads"].as_u64().unwrap() >= 1);
}

#[test]
fn forced_tier_is_used() {
    let output = aleatron(&["info", "--json"]).env("ALEATRON_TIER", "portable").output().unwrap();
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["tier"], "portable");
}

#[test]
fn unknown_tier_is_an_error() {
    let output = aleatron(&["info"]).env("ALEATRON_TIER", "mmx").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("unknown tier \"mmx\"") && error.contains("avx2"), "{error}");
}

#[test]
fn verify_prints_the_known_hashes() {
    let output = aleatron(&["verify", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let reports: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let reports = reports.as_array().unwrap();
    let known = include_str!("../../aleatron-core/golden/verify.kat");
    let known = known.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (question, hash) = line.split_once(" = ").unwrap();
        (question.split_once(' ').unwrap().0, hash)
    });
    let (first, hashes): (Vec<_>, Vec<_>) = known.partition(|(name, _)| *name == "first");
    let full: Vec<_> = reports.iter().filter(|r| r["cases"] == reports[0]["cases"]).collect();
    // The reference, and at least the portable tier on one and on several threads.
    assert!(full.len() >= 3);
    for report in full {
        assert_eq!(report["equal"], true, "{report}");
        assert_eq!(report["first"], first[0].1, "{report}");
        for (name, hash) in &hashes {
            assert_eq!(report["hashes"][name], *hash, "{name}: {report}");
        }
    }
    let text = text(&aleatron(&["verify"]).output().unwrap());
    let equal = format!("equal in {} operations", hashes.len());
    assert!(text.contains("first      78364bbc62a50730") && text.contains(&equal), "{text}");
}

#[test]
fn unknown_arguments_are_exit_code_two() {
    assert_eq!(aleatron(&["frobnicate"]).output().unwrap().status.code(), Some(2));
    assert_eq!(aleatron(&["verify", "--no-such-flag"]).output().unwrap().status.code(), Some(2));
}

/// Runs the program on the adapter of continuous integration, even if there are others.
#[cfg(feature = "gpu")]
fn on_llvmpipe(arguments: &[&str]) -> Output {
    aleatron(arguments).env("SC_GPU_ADAPTER", "llvmpipe").output().unwrap()
}

#[cfg(feature = "gpu")]
#[test]
fn info_lists_adapters_and_the_one_in_use() {
    let info: serde_json::Value =
        serde_json::from_slice(&on_llvmpipe(&["info", "--json"]).stdout).unwrap();
    let devices = info["devices"].as_array().unwrap();
    let used: Vec<_> = devices.iter().filter(|device| device["is_default"] == true).collect();
    assert!(
        used.len() == 1 && used[0]["name"].as_str().unwrap().contains("llvmpipe"),
        "{devices:?}"
    );
    assert_eq!(used[0]["device"], "gpu:0");
    assert!(used[0]["max_binding_bytes"].as_u64().unwrap() > 0);
}

#[cfg(feature = "gpu")]
#[test]
fn verify_includes_every_adapter() {
    let reports: serde_json::Value =
        serde_json::from_slice(&on_llvmpipe(&["verify", "--json"]).stdout).unwrap();
    let gpu = reports
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["backend"].as_str().unwrap().contains("llvmpipe"));
    let gpu = gpu.unwrap();
    assert_eq!(gpu["equal"], true, "{gpu}");
    assert!(gpu["cases"].as_u64().unwrap() >= 50, "{gpu}");
}

#[cfg(feature = "gpu")]
#[test]
fn bench_gpu_profiles_its_kernels() {
    let output = on_llvmpipe(&[
        "bench",
        "gpu",
        "--profile",
        "--json",
        "--layers",
        "16x8,16x8x40",
        "--length",
        "100",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for (row, kernel) in rows.as_array().unwrap().iter().zip(["accumulate", "tile"]) {
        let profile = row["profile"].as_str().unwrap();
        assert!(profile.contains("encode") && profile.contains(kernel), "{profile}");
        assert!(row["gpu_us"].as_f64().unwrap() > 0.0);
        // A software adapter is never faster than the cores it runs on, and never taken for it.
        assert_eq!(row["auto"], "cpu");
    }
}

#[cfg(feature = "gpu")]
#[test]
fn missing_adapter_is_an_error() {
    let output = aleatron(&["bench", "gpu"]).env("SC_GPU_ADAPTER", "abacus").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("no GPU adapter matches \"abacus\"") && error.contains("llvmpipe"),
        "{error}"
    );
}

#[cfg(feature = "gpu")]
#[test]
fn bench_network_compares_with_the_cpu() {
    let arguments =
        ["bench", "network", "--network", "lenet5", "--images", "3", "--length", "16", "--json"];
    for device in ["cpu", "gpu"] {
        let output = on_llvmpipe(&[&arguments[..], &["--device", device]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["images"], &report["device"]), (&3.into(), &device.into()));
        assert!(report["images_per_second"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(
        aleatron(&["bench", "network", "--network", "vgg"]).output().unwrap().status.code(),
        Some(2)
    );
}

#[test]
fn bench_cpu_takes_layers() {
    let output = aleatron(&["bench", "cpu", "--json", "--layers", "8x4"]).output().unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows[0]["layer"], "8->4 x 1");
    assert_eq!(
        aleatron(&["bench", "cpu", "--layers", "8by4"]).output().unwrap().status.code(),
        Some(2)
    );
}
