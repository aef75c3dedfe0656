//! System requirements of the tests: a software Vulkan driver, so that GPU tests run on machines
//! without a GPU, a Python that can make environments, MPI, a C++ compiler that runs CUDA kernels
//! on the CPU, and simulators of circuits. Also installs and queries Debian's packages.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the target folder of cargo.
pub(crate) fn target_folder() -> Result<PathBuf, String> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent folder")?;
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from))
}

/// Returns whether a program is on the path.
pub(crate) fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Installs lavapipe and the Vulkan loader with Debian's packages if they are missing and the user
/// is permitted to.
pub(crate) fn install_software_vulkan() -> Result<(), String> {
    if has_software_vulkan() {
        return Ok(());
    }
    if !has_program("apt-get") {
        return Err(
            "the GPU tests need Mesa's software Vulkan driver (lavapipe) and the Vulkan loader: \
                    install them with your system's packages"
                .into(),
        );
    }
    install(&["libvulkan1", "mesa-vulkan-drivers"])?;
    if has_software_vulkan() {
        Ok(())
    } else {
        Err("lavapipe is still missing after its packages were installed".into())
    }
}

/// Installs the packages that Debian separates from Python and that virtual environments need.
pub(crate) fn install_python_environments(python: &str) -> Result<(), String> {
    let works = Command::new(python).args(["-c", "import ensurepip, venv"]).output();
    match works {
        Ok(output) if output.status.success() => Ok(()),
        _ if has_program("apt-get") => install(&["python3", "python3-venv"]),
        _ => Err(format!(
            "{python} cannot make virtual environments: install Python 3.10 or newer with its venv module"
        )),
    }
}

/// Installs Open MPI and a C++ compiler with Debian's packages if they are missing and the user is
/// permitted to: the tests of `aleatron.accel` and `aleatron.cluster` start ranks with `mpirun`,
/// and those of `aleatron.accel` and `aleatron-cuda` run CUDA kernels on the CPU.
pub(crate) fn install_accelerator_tools() -> Result<(), String> {
    let has_compiler = ["c++", "g++", "clang++"].into_iter().any(has_program);
    let needed = [("openmpi-bin", has_program("mpirun")), ("g++", has_compiler)];
    let missing: Vec<&str> =
        needed.into_iter().filter(|(_, there)| !there).map(|(package, _)| package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !has_program("apt-get") {
        return Err("the Python tests need MPI's `mpirun` and a C++ compiler: install them with your system's packages".into());
    }
    install(&missing)
}

/// Installs the simulators and the synthesis tool of circuits with Debian's packages if they are
/// missing and the user is permitted to: the tests of `aleatron-hardware` simulate what they
/// generate.
pub(crate) fn install_hardware_tools() -> Result<(), String> {
    let needed = [
        ("iverilog", "iverilog"),
        ("verilator", "verilator"),
        ("yosys", "yosys"),
        ("make", "make"),
    ];
    let missing: Vec<&str> = needed
        .into_iter()
        .filter(|(_, program)| !has_program(program))
        .map(|(package, _)| package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !has_program("apt-get") {
        return Err("the tests of circuits need Icarus Verilog, Verilator and Yosys: install them with your system's packages".into());
    }
    install(&missing)
}

/// Returns the file of an installed Debian package whose path ends like this.
pub(crate) fn packaged(package: &str, end: &str) -> Option<String> {
    let output = Command::new("dpkg").args(["-L", package]).output().ok()?;
    let files = String::from_utf8_lossy(&output.stdout).into_owned();
    files.lines().find(|file| file.ends_with(end) && Path::new(file).is_file()).map(str::to_owned)
}

/// Lets packages of another architecture be installed.
pub(crate) fn add_architecture(name: &str) -> Result<(), String> {
    let known = Command::new("dpkg").arg("--print-foreign-architectures").output();
    let is_known = known.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|line| line == name)
    });
    if is_known { Ok(()) } else { run("dpkg", &["--add-architecture", name]) }
}

/// Installs Debian packages.
pub(crate) fn install(packages: &[&str]) -> Result<(), String> {
    println!("=== installing {}", packages.join(", "));
    run("apt-get", &["update", "-qq"])?;
    let options = ["install", "-y", "-qq", "--no-install-recommends"];
    run("apt-get", &[&options, packages].concat())
}

fn has_software_vulkan() -> bool {
    let drivers = std::fs::read_dir("/usr/share/vulkan/icd.d").into_iter().flatten().flatten();
    let lavapipe =
        drivers.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("lvp_icd"));
    let loader =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    lavapipe && loader.iter().any(|folder| Path::new(folder).join("libvulkan.so.1").exists())
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(format!("{program} {} failed ({status}); are you root?", arguments.join(" ")))
        }
        Err(error) => Err(format!("cannot run {program}: {error}")),
    }
}
