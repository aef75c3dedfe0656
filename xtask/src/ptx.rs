//! The kernels of `aleatron-cuda`: compiled to PTX, which is committed, and compared with it.
//!
//! No card and no toolkit is needed. The compiler is NVRTC of a package of PyPI, in an environment
//! under `target`; `ptxas`, from there too, shows that cards of every kind take what it makes.

use crate::step::{Step, command};
use std::path::{Path, PathBuf};

/// The crate of the kernels, from the root of the repository: PTX must not depend on where that
/// lies.
const CRATE: &str = "crates/aleatron-cuda";

/// The modules, by the architecture they are compiled for, and the cards that must take them.
const MODULES: [(&str, &[&str]); 2] =
    [("80", &["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100"]), ("90a", &["sm_90a"])];

/// What to do with the PTX that the sources give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    /// Commit it.
    Write,
    /// Compare it with what is committed.
    Check,
    /// Write that of all variants of the kernels to a folder, for measurements.
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

/// Compiles the kernels, and does with them what was asked.
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
            (format!("{CRATE}/kernels/sm_{architecture}.cu"), made(&folder, architecture));
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

/// Runs the assembler, wherever its package has put it.
const PTXAS: &str = "\
import importlib.metadata, subprocess, sys
files = importlib.metadata.files('nvidia-cuda-nvcc-cu12')
ptxas = next(file for file in files if file.stem == 'ptxas').locate()
sys.exit(subprocess.call([ptxas, *sys.argv[1:]]))";

fn made(folder: &Path, architecture: &str) -> PathBuf {
    folder.join(format!("sm_{architecture}.ptx"))
}

/// Compares what was made with what is committed.
fn compare(folder: &Path) -> Result<(), String> {
    for (architecture, _) in MODULES {
        let read = |file: &Path| {
            std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
        };
        let committed = made(&Path::new(CRATE).join("ptx"), architecture);
        if read(&committed)? != read(&made(folder, architecture))? {
            let file = committed.display();
            return Err(format!(
                "{file} is not what the kernels give: run `cargo xtask ptx` and commit it"
            ));
        }
    }
    Ok(())
}
