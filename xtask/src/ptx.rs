//! The kernels of `aleatron-cuda`: compiled to PTX, which is committed, and compared with it.
//!
//! No card and no toolkit is needed. The compiler is NVRTC of a package of PyPI, in an environment
//! under `target`; `ptxas`, also from there, checks the result for every kind of card.

use crate::step::{Step, command};
use std::path::{Path, PathBuf};

/// The crate of the kernels, relative to the root of the repository: PTX must not depend on the
/// location of the repository.
const CRATE: &str = "crates/aleatron-cuda";

/// The modules by architecture, with the cards that must accept them.
const MODULES: [(&str, &[&str]); 2] =
    [("80", &["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100"]), ("90a", &["sm_90a"])];

/// The action on the compiled PTX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    /// Write it to the committed files.
    Write,
    /// Compare it with the committed files.
    Check,
    /// Write the PTX of all variants of the kernels to a folder, for measurements.
    Variants(PathBuf),
}

impl Task {
    /// Reads the arguments after `ptx`.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match arguments[..] {
            [] => Ok(Self::Write),
            ["--check"] => Ok(Self::Check),
            ["--variants", folder] => Ok(Self::Variants(folder.into())),
            _ => Err("usage: cargo xtask ptx [--check | --variants FOLDER]".to_owned()),
        }
    }

    fn folder(&self) -> Result<PathBuf, String> {
        Ok(match self {
            Self::Write => Path::new(CRATE).join("ptx"),
            Self::Check => crate::system::target_folder()?.join("ptx"),
            Self::Variants(folder) => folder.clone(),
        })
    }
}

/// Compiles the kernels and runs the task.
pub(crate) fn run(task: &Task) -> Result<(), String> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent folder")?;
    std::env::set_current_dir(root).map_err(|error| format!("{}: {error}", root.display()))?;
    let environment = crate::system::target_folder()?.join("cuda");
    let python = environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let python = text(&python);
    let system = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    crate::system::install_python_environments(&system)?;
    let requirements = format!("{CRATE}/kernels/requirements.txt");
    crate::step::run_all(&[
        Step::new("CUDA environment", command(&system, &["-m", "venv", &text(&environment)])),
        Step::new(
            "CUDA compiler",
            command(&python, &["-m", "pip", "install", "--quiet", "--requirement", &requirements]),
        ),
    ])?;

    let folder = task.folder()?;
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut steps = Vec::new();
    for (architecture, cards) in MODULES {
        let (source, made) =
            (format!("{CRATE}/kernels/sm_{architecture}.cu"), output_file(&folder, architecture));
        let (compile, made) = (format!("{CRATE}/kernels/compile.py"), text(&made));
        let mut arguments = vec![&*compile, &*source, architecture, &*made];
        if matches!(task, Task::Variants(_)) {
            arguments.push("-DALL_VARIANTS");
        }
        steps.push(Step::new("PTX", command(&python, &arguments)));
        for card in cards {
            let check = ["-c", PTXAS, &format!("-arch={card}"), &made, "-o", "/dev/null"];
            steps.push(Step::new("ptxas", command(&python, &check)));
        }
    }
    crate::step::run_all(&steps)?;
    if *task == Task::Check { compare(&folder) } else { Ok(()) }
}

/// Runs the assembler from its package.
const PTXAS: &str = "\
import importlib.metadata, subprocess, sys
files = importlib.metadata.files('nvidia-cuda-nvcc-cu12')
ptxas = next(file for file in files if file.stem == 'ptxas').locate()
sys.exit(subprocess.call([ptxas, *sys.argv[1:]]))";

fn output_file(folder: &Path, architecture: &str) -> PathBuf {
    folder.join(format!("sm_{architecture}.ptx"))
}

/// Compares the compiled PTX with the committed one.
fn compare(folder: &Path) -> Result<(), String> {
    for (architecture, _) in MODULES {
        let read = |file: &Path| {
            std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
        };
        let committed = output_file(&Path::new(CRATE).join("ptx"), architecture);
        if read(&committed)? != read(&output_file(folder, architecture))? {
            let file = committed.display();
            return Err(format!(
                "{file} does not match the kernels: run `cargo xtask ptx` and commit it"
            ));
        }
    }
    Ok(())
}
