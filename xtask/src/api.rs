//! Checks of the public interfaces against a release: `cargo-semver-checks` for the crates, griffe
//! for the Python package and its stubs.

use crate::step::{Step, cargo, command};
use crate::system;
use std::process::Command;

/// The crates whose interfaces are not checked: they are never published, or are programs.
const UNCHECKED: [&str; 4] =
    ["aleatron-cli", "aleatron-python", "aleatron-shared-features", "xtask"];

/// The version of griffe that compares Python packages.
const GRIFFE: &str = "griffe==2.4.1";

/// Compares the interfaces with those of a revision, by default the newest release; does nothing
/// before the first release.
pub(crate) fn check(baseline: Option<&str>) -> Result<(), String> {
    let Some(baseline) = baseline.map(str::to_owned).or_else(newest_release) else {
        println!(
            "=== no tag v* in this clone, so there is no release to compare with; \
             name a revision, as in cargo xtask api HEAD~10"
        );
        return Ok(());
    };
    let mut steps = Vec::new();
    if !system::has_program("cargo-semver-checks") {
        let install = ["install", "--locked", "cargo-semver-checks"];
        steps.push(Step::new("install cargo-semver-checks", cargo(&install)));
    }
    let mut crates = vec!["semver-checks", "--workspace", "--baseline-rev", &baseline];
    for name in UNCHECKED {
        crates.extend(["--exclude", name]);
    }
    steps.push(Step::new("interfaces of the crates", cargo(&crates)));
    let environment = system::target_folder()?.join("api");
    let python = environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let (environment, python) =
        (environment.to_string_lossy().into_owned(), python.to_string_lossy().into_owned());
    let base = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    system::install_python_environments(&base)?;
    steps.push(Step::new("Python environment", command(&base, &["-m", "venv", &environment])));
    let install = ["-m", "pip", "install", "--quiet", GRIFFE];
    steps.push(Step::new("griffe", command(&python, &install)));
    // Stubs are the interface of the extension module.
    let compare =
        ["-m", "griffe", "check", "aleatron", "--search", "python", "--against", &baseline];
    steps.push(Step::new("interface of the Python package", command(&python, &compare)));
    crate::step::run_all(&steps)
}

/// Returns the newest tag of a release that is an ancestor of this tree.
fn newest_release() -> Option<String> {
    let words = ["describe", "--tags", "--abbrev=0", "--match", "v*"];
    let output = Command::new("git").args(words).output().ok()?;
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !name.is_empty()).then_some(name)
}
