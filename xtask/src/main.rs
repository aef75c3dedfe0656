//! The project's chores: `cargo xtask test` is the one command that says whether a tree is good.
#![forbid(unsafe_code)]

mod aarch64;
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
  test    everything continuous integration checks: format, lints, documentation, all tests; installs what it needs
  vocabulary
          the terms of all tracked text files alone: an avoided term is an error with the term to use
  python  the part of it about the Python package alone
  docs    the documentation site with the Rust API, in target/site; every link is checked
  aarch64 the part of it about AArch64 alone, in an emulator on other processors
  instructions
          the instructions of the neon tier beside those of portable code, counted in the emulator
  ptx [--check | --variants FOLDER]
          the kernels of aleatron-cuda as PTX, which is committed; or compares it, or writes that of all variants
  fuzz [SECONDS]
          every fuzz target for so long, or for a minute each (needs a nightly toolchain and cargo-fuzz)
  mutants [-p CRATE] [OPTION OF CARGO-MUTANTS ...]
          every mutant of the crates, or of one of them, which their tests must catch, or a shard of them: --shard 0/12
          (installs cargo-mutants if it is missing)
  notes TAG
          the notes of a release: the section of its version in CHANGELOG.md
  sanitize [python]
          the tests of the crates with unsafe code and of the Python extension under AddressSanitizer, or of the extension
          alone (needs a nightly toolchain and gcc, on Linux on x86-64)
  features
          the part of it about cargo features alone: other combinations compile, and wgpu needs the feature gpu
  packages
          the part of it about publishing alone: each crate is compiled from what a registry would get
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
            Some(part) => {
                Err(format!("\"{part}\" is not a part of sanitize: python is the only one"))
            }
        },
        "features" => {
            features::check_gpu_feature().and_then(|()| step::run_all(&features::steps()))
        }
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
        // The GPU tests must run and not be passed over: they fail without this adapter.
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

/// The seconds each fuzz target runs for, where nothing else is asked for.
const FUZZ_SECONDS: u64 = 60;

/// The fuzz targets: the files of `fuzz/fuzz_targets`, each of which describes how it uses its
/// bytes.
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
