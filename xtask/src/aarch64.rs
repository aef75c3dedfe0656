//! AArch64 on other processors: the core and the CPU crate cross-compiled, and their tests run in
//! an emulator.
//!
//! Debian has the required packages: a Rust compiler with a standard library for AArch64
//! (`rustc-web`), a linker and QEMU. If rustup has the target installed for the pinned toolchain,
//! that compiler is used instead.

use crate::step::{self, Step};
use crate::system;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const TARGET: &str = "aarch64-unknown-linux-gnu";
pub(crate) const EMULATOR: &str = "qemu-aarch64";
const LINKER: &str = "aarch64-linux-gnu-gcc";

/// The names of Debian's packages. The standard library is a package of the other architecture.
const PACKAGES: [&str; 6] = [
    "rustc-web",
    "rust-web-clippy",
    "libstd-rust-web-dev:arm64",
    "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross",
    "qemu-user",
];

/// Lints and tests of the crates that have code for AArch64.
pub(crate) fn steps() -> Result<Vec<Step>, String> {
    let crates = ["-p", "aleatron-core", "-p", "aleatron-cpu"];
    if cfg!(target_arch = "aarch64") {
        return Ok(vec![Step::new(
            "AArch64 tests",
            step::cargo(&[&["test", "--tests"], &crates[..]].concat()),
        )]);
    }
    let tools = Tools::find()?;
    let lints = [&["--all-targets"], &crates[..], &["--", "-D", "warnings"]].concat();
    // The emulator cannot fork a process of several threads.
    let tests = [&["--tests"], &crates[..], &["--", "--skip", "children_compute"]].concat();
    Ok(vec![tools.clippy(&lints), tools.cargo("AArch64 tests", &[&["test"], &tests[..]].concat())])
}

/// A compiler for AArch64, and a compatible cargo.
pub(crate) struct Tools {
    rustc: String,
    cargo: String,
    /// Debian's clippy is a separate program; cargo finds that of rustup.
    clippy: Option<String>,
}

impl Tools {
    /// Finds the tools, or installs them on systems with Debian's packages.
    pub(crate) fn find() -> Result<Self, String> {
        if let Some(tools) = Self::installed() {
            return Ok(tools);
        }
        let needed = |reason: &str| {
            format!(
                "{reason}; the AArch64 tests need {LINKER} and {EMULATOR}, from your system's packages, and Rust's \
                 standard library for {TARGET}, from Debian or with `rustup target add {TARGET}`"
            )
        };
        if !system::has_program("apt-get") {
            return Err(needed("this system has no Debian packages"));
        }
        let installed = system::add_architecture("arm64").and_then(|()| system::install(&PACKAGES));
        installed.map_err(|error| needed(&error))?;
        Self::installed().ok_or_else(|| {
            needed("something is still missing after Debian's packages were installed")
        })
    }

    fn installed() -> Option<Self> {
        if !system::has_program(LINKER) || !system::has_program(EMULATOR) {
            return None;
        }
        let own = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
        if has_target(&own) {
            let [cargo] = <[String; 1]>::try_from(step::cargo(&[])).ok()?;
            return Some(Self { rustc: own, cargo, clippy: None });
        }
        let rustc = system::packaged("rustc-web", "bin/rustc").filter(|rustc| has_target(rustc))?;
        let clippy = Some(system::packaged("rust-web-clippy", "bin/cargo-clippy")?);
        let cargo = cargo_for(&rustc)?;
        Some(Self { rustc, cargo, clippy })
    }

    /// Returns a command of cargo, for AArch64.
    pub(crate) fn cargo(&self, name: &'static str, arguments: &[&str]) -> Step {
        let (command, rest) = arguments.split_at(1.min(arguments.len()));
        let arguments = [command, &["--target", TARGET], rest].concat();
        self.with_environment(Step::new(name, step::command(&self.cargo, &arguments)))
    }

    fn clippy(&self, arguments: &[&str]) -> Step {
        let name = "AArch64 lints";
        let Some(clippy) = &self.clippy else {
            return self.cargo(name, &[&["clippy"], arguments].concat());
        };
        let arguments = [&["clippy", "--target", TARGET], arguments].concat();
        self.with_environment(Step::new(name, step::command(clippy, &arguments)))
            .with("CARGO", &self.cargo)
    }

    fn with_environment(&self, step: Step) -> Step {
        step.with("RUSTC", &self.rustc)
            .with("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
            .with("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", EMULATOR)
            // Programs linked dynamically hang in the emulator when they start a thread.
            .with(
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
                "-C target-feature=+crt-static -D warnings",
            )
    }
}

/// Returns whether a compiler has the standard library of the target.
fn has_target(rustc: &str) -> bool {
    let output =
        Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// Returns a cargo that is compatible with a compiler of another version: the one that runs this
/// program, otherwise Debian's.
fn cargo_for(rustc: &str) -> Option<String> {
    let mut candidates = step::cargo(&[]);
    candidates.extend(system::packaged("cargo-web", "bin/cargo"));
    candidates.into_iter().find(|cargo| {
        // This makes cargo query the compiler as it does before a compilation.
        let mut probe = Command::new(cargo);
        probe
            .args(["metadata", "--format-version", "1", "--filter-platform", TARGET])
            .env("RUSTC", rustc);
        probe
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

/// Returns the folder of optimised builds for AArch64.
pub(crate) fn release_folder() -> Result<PathBuf, String> {
    Ok(system::target_folder()?.join(TARGET).join("release"))
}
