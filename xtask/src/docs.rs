//! The documentation site: built with MkDocs in a separate environment, with every link checked.

use crate::step::{Step, cargo, command};
use std::path::Path;

/// Selects whether the Rust documentation is built first or has been built by an earlier step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rustdoc {
    /// Builds the documentation.
    Build,
    /// Uses the documentation under `target/doc`.
    Built,
}

/// Returns the step that builds the Rust documentation of the workspace.
pub(crate) fn rustdoc() -> Step {
    Step::new("documentation", cargo(&["doc", "--workspace", "--no-deps", "--all-features"]))
        .with("RUSTDOCFLAGS", "-D warnings")
}

/// Returns the steps that build the site into `target/site` and check its links.
pub(crate) fn steps(rust: Rustdoc) -> Result<Vec<Step>, String> {
    let target = crate::system::target_folder()?;
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let environment = target.join("docs-python");
    let python =
        path(&environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" }));
    let site = path(&target.join("site"));
    let system = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    crate::system::install_python_environments(&system)?;
    let run = |arguments: &[&str]| command(&python, arguments);

    let mut steps = Vec::new();
    if rust == Rustdoc::Build {
        steps.push(rustdoc());
    }
    steps.extend([
        Step::new("site environment", command(&system, &["-m", "venv", &path(&environment)])),
        Step::new(
            "site tools",
            run(&[
                "-m",
                "pip",
                "install",
                "--quiet",
                "--requirement",
                "docs/site/requirements.txt",
            ]),
        ),
        Step::new("site", run(&["-m", "mkdocs", "build", "--strict", "--site-dir", &site]))
            .with("ALEATRON_RUSTDOC", path(&target.join("doc")))
            // Suppresses a banner about another program.
            .with("NO_MKDOCS_2_WARNING", "1"),
        Step::new("lines of Markdown files", run(&["docs/site/wrap.py", "--check"])),
        Step::new("links of the site", run(&["docs/site/check.py", &site])),
    ]);
    Ok(steps)
}
