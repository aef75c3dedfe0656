//! The Python package: built as for users, installed into a separate environment, and tested there.

use crate::step::{Step, command};
use std::path::Path;

/// Runs the test cases of the package `onnx`.
const ONNX_TESTS: &str = "crates/aleatron-graph/tests/onnx/run.py";

/// Returns the steps that build and test the package, under `target`.
///
/// The wheel is made of the same release build as the program, in the same folder, so nothing is
/// compiled twice.
pub(crate) fn steps() -> Result<Vec<Step>, String> {
    let target = crate::system::target_folder()?;
    let (environment, wheels) = (target.join("python"), target.join("wheels"));
    // Otherwise an older wheel could be installed.
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels)
            .map_err(|error| format!("{}: {error}", wheels.display()))?;
    }
    let python = environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let (environment, wheels, python) = (path(&environment), path(&wheels), path(&python));
    let run = |arguments: &[&str]| command(&python, arguments);
    let system = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    crate::system::install_python_environments(&system)?;
    crate::system::install_accelerator_tools()?;
    // Commands of the documentation simulate circuits.
    crate::system::install_hardware_tools()?;
    // The tests name this adapter and fail without it.
    crate::system::install_software_vulkan()?;

    Ok(vec![
        Step::new("Python environment", command(&system, &["-m", "venv", &environment])),
        Step::new(
            "Python tools",
            run(&[
                "-m",
                "pip",
                "install",
                "--quiet",
                "--requirement",
                "python/requirements-test.txt",
            ]),
        ),
        Step::new(
            "Python wheel",
            run(&[
                "-m",
                "maturin",
                "build",
                "--release",
                "--out",
                &wheels,
                "--interpreter",
                &python,
            ]),
        ),
        Step::new(
            "Python package",
            run(&[
                "-m",
                "pip",
                "install",
                "--quiet",
                "--force-reinstall",
                "--no-deps",
                "--no-index",
                "--find-links",
                &wheels,
                "aleatron",
            ]),
        ),
        Step::new("Python types", run(&["-m", "mypy"])),
        Step::new(
            "Python stubs",
            run(&[
                "-m",
                "mypy.stubtest",
                "aleatron",
                "--allowlist",
                "python/stubtest-allowlist.txt",
            ]),
        ),
        // Files of tests in two processes: most tests use one core.
        Step::new(
            "Python tests",
            run(&["-m", "pytest", "--quiet", "--numprocesses", "2", "--dist", "loadfile"]),
        )
        .with("SC_GPU_ADAPTER", "llvmpipe"),
        Step::new("ONNX's tests", run(&[ONNX_TESTS])),
        Step::new("ONNX's tests on a GPU", run(&[ONNX_TESTS, "--device", "gpu"]))
            .with("SC_GPU_ADAPTER", "llvmpipe"),
    ])
}
