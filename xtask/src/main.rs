//! The project's tasks: `cargo xtask test` runs every check of a tree.
#![forbid(unsafe_code)]

mod aarch64;
mod api;
mod docs;
mod features;
mod instructions;
mod mutants;
mod notes;
mod packages;
mod ptx;
mod python;
mod readme;
mod sanitize;
mod step;
mod system;
mod vocabulary;

use std::process::ExitCode;
use step::{Step, cargo};

const USAGE: &str = "\
usage: cargo xtask TASK

tasks:
  test    every check of continuous integration: terms, format, lints, documentation, all tests; installs missing tools
  vocabulary
          terms to avoid in all tracked text files, each with the recommended term
  python  build and tests of the Python package
  docs    the documentation site with the Rust API, in target/site; every link is checked
  aarch64 tests on AArch64, in an emulator on other processors
  instructions
          instruction counts of the neon tier and of portable code, measured in the emulator
  ptx [--check | --variants FOLDER]
          compiles the kernels of aleatron-cuda to the committed PTX, compares it, or writes the PTX of all variants
  fuzz [SECONDS]
          runs every fuzz target for this time, by default a minute each (needs a nightly toolchain and cargo-fuzz)
  mutants [-p CRATE] [OPTION OF CARGO-MUTANTS ...]
          every mutant of the crates, or of one of them, must make a test fail; --shard 0/12 runs a shard of them
          (installs cargo-mutants if it is missing)
  notes TAG
          the notes of a release: the section of its version in CHANGELOG.md
  sanitize [python]
          tests of the crates with unsafe code and of the Python extension under AddressSanitizer, or of the extension
          only (needs a nightly toolchain and gcc, on Linux on x86-64)
  features
          builds with other combinations of cargo features; wgpu must need the feature gpu
  api [REVISION]
          changes of public interfaces since a revision that break programs, by default since the newest release
          (installs cargo-semver-checks if it is missing)
  packages
          compiles each crate from its package, as a registry would have it
  deny    licences, advisories and sources of all dependencies (installs cargo-deny if it is missing)";

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let result = match task.as_str() {
        "test" => test(),
        "vocabulary" => vocabulary::check(),
        "python" => python::steps().and_then(|steps| step::run_all(&steps)),
        "docs" => docs::steps(docs::Rustdoc::Build).and_then(|steps| step::run_all(&steps)),
        "aarch64" => aarch64::steps().and_then(|steps| step::run_all(&steps)),
        "instructions" => instructions::count(),
        "ptx" => {
            let arguments: Vec<String> = std::env::args().skip(2).collect();
            ptx::Task::parse(&arguments).and_then(|task| ptx::run(&task))
        }
        "fuzz" => fuzz(std::env::args().nth(2).as_deref()),
        "mutants" => mutants::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        "notes" => notes::print(std::env::args().nth(2).as_deref()),
        "sanitize" => match std::env::args().nth(2).as_deref() {
            None => sanitize::run(),
            Some("python") => sanitize::extension(),
            Some(part) => Err(format!("\"{part}\" is not a part of sanitize; expected python")),
        },
        "features" => {
            features::check_gpu_feature().and_then(|()| step::run_all(&features::steps()))
        }
        "api" => api::check(std::env::args().nth(2).as_deref()),
        "packages" => packages::check(),
        "deny" => deny(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn test() -> Result<(), String> {
    vocabulary::check()?;
    system::install_software_vulkan()?;
    // The tests of `aleatron-cuda` compile its kernels for the CPU.
    system::install_accelerator_tools()?;
    system::install_hardware_tools()?;
    let mut steps = vec![
        Step::new("format", cargo(&["fmt", "--all", "--check"])),
        Step::new(
            "lints",
            cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--all-features",
                "--",
                "-D",
                "warnings",
            ]),
        ),
        Step::new(
            "documentation without features",
            cargo(&[
                "doc",
                "-p",
                "aleatron",
                "-p",
                "aleatron-tensor",
                "--no-deps",
                "--no-default-features",
            ]),
        )
        .with("RUSTDOCFLAGS", "-D warnings"),
        // After the one without features, which it replaces in the site.
        docs::rustdoc(),
        // The GPU tests must not be skipped: they fail without this adapter.
        Step::new("tests", cargo(&["test", "--workspace", "--all-features"]))
            .with("SC_GPU_ADAPTER", "llvmpipe"),
    ];
    steps.extend(docs::steps(docs::Rustdoc::Built)?);
    steps.extend(features::steps());
    // An AArch64 machine has just run these tests.
    if !cfg!(target_arch = "aarch64") {
        steps.extend(aarch64::steps()?);
    }
    steps.extend(readme::steps()?);
    steps.extend(python::steps()?);
    features::check_gpu_feature()?;
    step::run_all(&steps)?;
    packages::check()?;
    ptx::run(&ptx::Task::Check)
}

/// The default time of each fuzz target in seconds.
const FUZZ_SECONDS: u64 = 60;

/// The fuzz targets: the files of `fuzz/fuzz_targets`, each of which describes its input.
const FUZZ_TARGETS: [&str; 12] = [
    "conformance",
    "network",
    "layer_settings",
    "npz",
    "npy",
    "csv",
    "png",
    "evaluation",
    "onnx_file",
    "onnx_node",
    "safetensors",
    "transformer_config",
];

fn fuzz(seconds: Option<&str>) -> Result<(), String> {
    let not_a_time = |text: &str| format!("\"{text}\" is not a number of seconds");
    let seconds = match seconds {
        Some(text) => text.parse::<u64>().map_err(|_| not_a_time(text))?,
        None => FUZZ_SECONDS,
    };
    let limit = format!("-max_total_time={seconds}");
    let seeds =
        ["+nightly", "run", "--quiet", "--manifest-path", "fuzz/Cargo.toml", "--example", "seeds"];
    let mut steps = vec![Step::new("files to begin with", step::command("cargo", &seeds))];
    for target in FUZZ_TARGETS {
        let run = step::command("cargo", &["+nightly", "fuzz", "run", target, "--", &limit]);
        steps.push(Step::new(target, run));
    }
    step::run_all(&steps)
}

fn deny() -> Result<(), String> {
    let mut steps = Vec::new();
    if !system::has_program("cargo-deny") {
        steps.push(Step::new("install cargo-deny", cargo(&["install", "--locked", "cargo-deny"])));
    }
    steps.push(Step::new("deny", cargo(&["deny", "check"])));
    step::run_all(&steps)
}
