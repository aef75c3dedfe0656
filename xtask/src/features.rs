//! Builds with other cargo features than the default ones: they must compile, and those without
//! `gpu` must not contain wgpu.

use crate::step::{Step, cargo};
use std::process::Command;

/// The crates whose cargo feature `gpu` must be the only reason for wgpu to be compiled.
const WITH_GPU_FEATURE: [&str; 9] = [
    "aleatron",
    "aleatron-cli",
    "aleatron-engine",
    "aleatron-eval",
    "aleatron-graph",
    "aleatron-python",
    "aleatron-tensor",
    "aleatron-train",
    "aleatron-transformer",
];

/// Features of the program; all of them together are among the lints.
const PROGRAM_FEATURES: [&str; 7] =
    ["", "cuda", "gpu", "transformer", "cuda,gpu", "cuda,transformer", "gpu,transformer"];

/// Returns the steps that compile other combinations of features.
pub(crate) fn steps() -> Vec<Step> {
    let lints = |package: &str| {
        let arguments = [
            "clippy",
            "-p",
            package,
            "--no-default-features",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        Step::new("lints without default features", cargo(&arguments))
    };
    let mut steps: Vec<Step> = ["aleatron-tensor", "aleatron-graph", "aleatron"].map(lints).into();
    // The lints have compiled all tests; operations of the CPU do not depend on the feature.
    let without_gpu =
        ["test", "-p", "aleatron-tensor", "--no-default-features", "--test", "no_gpu"];
    steps.push(Step::new("tensors without GPUs", cargo(&without_gpu)));
    let extension = ["check", "-p", "aleatron-python", "--no-default-features"];
    steps.push(Step::new("Python extension without GPUs", cargo(&extension)));
    for features in PROGRAM_FEATURES {
        let arguments =
            ["check", "-p", "aleatron-cli", "--no-default-features", "--features", features];
        steps.push(Step::new("command line with other features", cargo(&arguments)));
    }
    steps
}

/// Checks that no crate depends on wgpu without its feature `gpu`, and that each crate does with
/// it.
pub(crate) fn check_gpu_feature() -> Result<(), String> {
    println!("\n=== wgpu is compiled with the feature gpu only");
    for package in WITH_GPU_FEATURE {
        let found = gpu_dependencies(&tree(package, "")?);
        if !found.is_empty() {
            return Err(format!(
                "{package} without default features depends on {}",
                found.join(", ")
            ));
        }
        if gpu_dependencies(&tree(package, "gpu")?).is_empty() {
            return Err(format!(
                "{package} with the feature gpu does not depend on wgpu: is the check right?"
            ));
        }
    }
    Ok(())
}

/// Returns the crates that a crate is compiled with, one for each line.
fn tree(package: &str, features: &str) -> Result<String, String> {
    let arguments = ["tree", "-p", package, "--no-default-features", "--features", features];
    let command = cargo(&[&arguments[..], &["--edges", "normal", "--prefix", "none"]].concat());
    let output = Command::new(&command[0])
        .args(&command[1..])
        .output()
        .map_err(|error| format!("cannot run {}: {error}", command[0]))?;
    if !output.status.success() {
        return Err(format!(
            "{} failed: {}",
            command.join(" "),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the names in a dependency tree that belong to GPUs.
fn gpu_dependencies(tree: &str) -> Vec<String> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let mut found: Vec<String> = names
        .filter(|name| {
            name.starts_with("wgpu") || ["aleatron-device", "aleatron-gpu", "naga"].contains(name)
        })
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::gpu_dependencies;

    #[test]
    fn gpu_crates_are_found_by_name_in_a_tree() {
        let tree = "aleatron v0.1.0 (/a/wgpu)\naleatron-device v0.1.0 (/b)\nwgpu-core v30.0.0\nwgpu v30.0.0 (*)\nwgpu v30.0.0\n";
        assert_eq!(gpu_dependencies(tree), ["aleatron-device", "wgpu", "wgpu-core"]);
        assert!(gpu_dependencies("aleatron v0.1.0 (/a/wgpu)\ncc v1.0.0\n").is_empty());
    }
}
