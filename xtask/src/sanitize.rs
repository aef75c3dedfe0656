//! Tests under AddressSanitizer: the crates with unsafe code, and the Python extension, which
//! passes memory between two languages.

use crate::step::{Step, command};
use std::path::Path;

/// The target is named so that build scripts and procedural macros are compiled without the
/// sanitizer.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Drivers leak, forked children exit without their destructors, and tests exhaust memory.
const OPTIONS: &str = "detect_leaks=0:allocator_may_return_null=1";

/// The tests of the Python package that pass memory to or from the extension: arrays of every
/// layout, tensors, layers, networks, neurons, threads, forked processes, and errors. They need no
/// other packages than these.
const PYTHON_TESTS: [&str; 15] = [
    "python/tests/tensor/test_autograd.py",
    "python/tests/tensor/test_fork.py",
    "python/tests/tensor/test_functions.py",
    "python/tests/tensor/test_habits.py",
    "python/tests/tensor/test_linalg.py",
    "python/tests/tensor/test_namespace.py",
    "python/tests/test_arrays.py",
    "python/tests/test_bits.py",
    "python/tests/test_convolutions.py",
    "python/tests/test_errors.py",
    "python/tests/test_layers.py",
    "python/tests/test_lif.py",
    "python/tests/test_networks.py",
    "python/tests/test_streams.py",
    "python/tests/test_threads.py",
];
const PYTHON_PACKAGES: [&str; 5] =
    ["array-api-strict", "hypothesis", "numpy", "pytest", "pytest-timeout"];

/// Runs the tests of the crates with unsafe code, then those of the Python extension.
pub(crate) fn run() -> Result<(), String> {
    crate::system::install_software_vulkan()?;
    crate::system::install_accelerator_tools()?;
    let mut arguments = vec!["+nightly", "test", "--no-fail-fast", "--target", TARGET, "--tests"];
    for package in ["aleatron-cpu", "aleatron-device", "aleatron-tensor", "aleatron-cuda"] {
        arguments.extend(["-p", package]);
    }
    let tests = sanitized(Step::new("AddressSanitizer", command("cargo", &arguments)))
        .with("ASAN_OPTIONS", OPTIONS)
        .with("SC_GPU_ADAPTER", "llvmpipe");
    crate::step::run_all(&[tests])?;
    extension()
}

/// Builds the Python extension with the sanitizer and runs tests of the package with it.
pub(crate) fn extension() -> Result<(), String> {
    let target = crate::system::target_folder()?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (environment, package) = (target.join("python-asan"), target.join("package-asan"));
    let python = text(&environment.join("bin/python"));
    let system = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    crate::system::install_python_environments(&system)?;

    // Without GPUs: their drivers are not instrumented, and the tests of the crates above have
    // covered the code around them.
    let build =
        ["+nightly", "build", "-p", "aleatron-python", "--no-default-features", "--target", TARGET];
    let mut install = vec!["-m", "pip", "install", "--quiet"];
    install.extend(requirements(include_str!("../../python/requirements-test.txt")));
    crate::step::run_all(&[
        sanitized(Step::new("Python extension with AddressSanitizer", command("cargo", &build))),
        Step::new("Python environment", command(&system, &["-m", "venv", &text(&environment)])),
        Step::new("Python tools", command(&python, &install)),
    ])?;
    let library = target.join(TARGET).join("debug/lib_core.so");
    assemble(&package, &library).map_err(|error| format!("{}: {error}", package.display()))?;

    let mut tests = vec!["-m", "pytest", "--quiet", "-p", "no:cacheprovider"];
    tests.extend(PYTHON_TESTS);
    let tests = Step::new("Python extension under AddressSanitizer", command(&python, &tests))
        // The interpreter is not instrumented: the runtime must be loaded before it allocates.
        .with("LD_PRELOAD", runtime()?)
        .with("PYTHONPATH", text(&package))
        // The interpreter's own allocator would hide the ends of objects.
        .with("PYTHONMALLOC", "malloc")
        .with("ASAN_OPTIONS", OPTIONS);
    crate::step::run_all(&[tests])
}

/// Returns the lines of the package's test requirements that these tests need.
fn requirements(file: &str) -> Vec<&str> {
    let is_needed = |line: &&str| {
        line.split_once("==").is_some_and(|(name, _)| PYTHON_PACKAGES.contains(&name))
    };
    file.lines().filter(is_needed).collect()
}

fn sanitized(step: Step) -> Step {
    step.with("RUSTFLAGS", "-Zsanitizer=address")
}

/// Copies the Python package into a folder, with the extension in it, which must be instrumented.
fn assemble(folder: &Path, library: &Path) -> std::io::Result<()> {
    let check = b"__asan_report_load";
    if !std::fs::read(library)?.windows(check.len()).any(|bytes| bytes == check) {
        return Err(std::io::Error::other(format!(
            "{} has no checks of AddressSanitizer",
            library.display()
        )));
    }
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    copy_folder(Path::new("python/aleatron"), &folder.join("aleatron"))?;
    std::fs::copy(library, folder.join("aleatron/_core.abi3.so"))?;
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Returns the path of the C compiler's shared runtime of AddressSanitizer, whose interface is that
/// of the Rust compiler's.
fn runtime() -> Result<String, String> {
    let output = std::process::Command::new("gcc")
        .arg("-print-file-name=libasan.so")
        .output()
        .map_err(|error| format!("cannot run gcc, whose libasan.so is needed: {error}"))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    // Without the library, gcc prints its bare name.
    if Path::new(&path).is_absolute() {
        return Ok(path);
    }
    Err("gcc has no libasan.so: install it with your system's packages (libasan8, libgcc-dev)"
        .into())
}

#[cfg(test)]
mod tests {
    use super::{PYTHON_PACKAGES, requirements};

    #[test]
    fn every_package_of_the_tests_has_a_version() {
        let lines = requirements(include_str!("../../python/requirements-test.txt"));
        for package in PYTHON_PACKAGES {
            assert!(
                lines.iter().any(|line| line.starts_with(&format!("{package}=="))),
                "{package}"
            );
        }
        assert_eq!(
            requirements("numpy==1.0; python_version < \"3\"\njax[cpu]==1\n# numpy\n").len(),
            1
        );
    }
}
