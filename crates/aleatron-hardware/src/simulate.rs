//! Simulation of a design with Icarus Verilog or Verilator.

use crate::{Bench, Design, Error, Result};
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// A simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Simulator {
    /// Icarus Verilog: starts at once, thousands of cycles per second.
    Icarus,
    /// Verilator: compiles C++, hundreds of thousands of cycles per second.
    Verilator,
}

impl Simulator {
    /// All simulators.
    pub const ALL: [Self; 2] = [Self::Icarus, Self::Verilator];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Icarus => "icarus",
            Self::Verilator => "verilator",
        }
    }

    /// Returns whether the simulator is installed.
    #[must_use]
    pub fn is_installed(self) -> bool {
        match self {
            Self::Icarus => is_installed("iverilog") && is_installed("vvp"),
            Self::Verilator => is_installed("verilator"),
        }
    }

    /// Returns the first simulator that is installed.
    ///
    /// # Errors
    /// Returns [`Error::MissingTool`] if there is none.
    pub fn installed() -> Result<Self> {
        let missing = Error::MissingTool {
            tool: "a simulator (Icarus Verilog or Verilator)",
            package: "iverilog",
        };
        Self::ALL.into_iter().find(|simulator| simulator.is_installed()).ok_or(missing)
    }

    fn check(self) -> Result<()> {
        match (self.is_installed(), self) {
            (true, _) => Ok(()),
            (false, Self::Icarus) => {
                Err(Error::MissingTool { tool: "Icarus Verilog", package: "iverilog" })
            }
            (false, Self::Verilator) => {
                Err(Error::MissingTool { tool: "Verilator", package: "verilator g++ make" })
            }
        }
    }
}

impl fmt::Display for Simulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Simulator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|simulator| simulator.name() == text);
        found.ok_or_else(|| format!("there is no simulator \"{text}\"; use icarus or verilator"))
    }
}

/// A successful simulation, which agreed with the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The test bench and its arguments.
    pub run: String,
    /// The last line of the simulation.
    pub summary: String,
    /// The cycles of the network; 0 for the bench of constants.
    pub cycles: u64,
    /// The time of the simulation.
    pub elapsed: Duration,
}

/// Runs the test benches of a design whose files are below `folder`: every generated constant, then
/// the samples of the bench without stalls, with random stalls, and with a reset during the run.
///
/// # Errors
/// Returns [`Error::MissingTool`], [`Error::Tool`] for a design that the simulator does not accept,
/// [`Error::Different`] for the first simulation that differs from the engine.
pub fn check(folder: &Path, design: &Design, simulator: Simulator) -> Result<Vec<Passed>> {
    simulator.check()?;
    let mut passed = Vec::new();
    compile(folder, design, simulator, "units_tb")?;
    passed.push(run(folder, simulator, "units_tb", &[])?);
    compile(folder, design, simulator, "network_tb")?;
    let first = run(folder, simulator, "network_tb", &[])?;
    let reset = format!("+reset={}", first.cycles / 2);
    passed.push(first);
    passed.push(run(folder, simulator, "network_tb", &["+stall"])?);
    passed.push(run(folder, simulator, "network_tb", &["+stall", &reset])?);
    Ok(passed)
}

/// Synthesizes a design whose files are below `folder` into generic gates with Yosys, flattened,
/// and runs the samples of the bench on the netlist with Icarus Verilog: without and with random
/// stalls.
///
/// # Errors
/// As for [`check`].
pub fn check_netlist(folder: &Path, design: &Design) -> Result<Vec<Passed>> {
    Simulator::Icarus.check()?;
    if !is_installed("yosys") {
        return Err(Error::MissingTool { tool: "Yosys", package: "yosys" });
    }
    let build = folder.join("build");
    std::fs::create_dir_all(&build)
        .map_err(|source| Error::File { path: build.clone(), source })?;
    let script = format!(
        "read_verilog {}; synth -flatten -top {}; abc -g AND,NAND,OR,NOR,XOR,XNOR,MUX; opt_clean -purge; write_verilog -noattr \
         build/netlist.v",
        design.sources().join(" "),
        design.top()
    );
    command("yosys", &["-q", "-p", &script], folder)?;
    let arguments = [
        "-g2005",
        "-DNETLIST",
        "-o",
        "build/netlist.vvp",
        "-s",
        "network_tb",
        "build/netlist.v",
        "tb/network_tb.v",
    ];
    command("iverilog", &arguments, folder)?;
    [&[][..], &["+stall"]]
        .into_iter()
        .map(|arguments| run(folder, Simulator::Icarus, "netlist", arguments))
        .collect()
}

/// Writes a design and its test benches below `folder` and runs them; see [`check`].
///
/// # Errors
/// As for [`check`], and [`Error::File`].
pub fn write_and_check(
    folder: &Path,
    design: &Design,
    bench: &Bench,
    simulator: Simulator,
) -> Result<Vec<Passed>> {
    design.write(folder)?;
    bench.write(folder)?;
    check(folder, design, simulator)
}

/// Checks that Verilator reports no warnings for a design.
///
/// # Errors
/// Returns [`Error::MissingTool`], and [`Error::Tool`] with the warnings.
pub fn lint(folder: &Path, design: &Design) -> Result<()> {
    Simulator::Verilator.check()?;
    let mut arguments = vec!["--lint-only", "-Wall", "--top-module", design.top()];
    arguments.extend(design.sources().iter().map(String::as_str));
    let output = command("verilator", &arguments, folder)?;
    match output.trim().is_empty() {
        true => Ok(()),
        false => Err(Error::Tool { tool: "verilator -Wall".to_owned(), output }),
    }
}

fn compile(folder: &Path, design: &Design, simulator: Simulator, bench: &str) -> Result<()> {
    let source = format!("tb/{bench}.v");
    let mut files: Vec<&str> = design.sources().iter().map(String::as_str).collect();
    files.push(&source);
    let build = folder.join("build");
    std::fs::create_dir_all(&build)
        .map_err(|source| Error::File { path: build.clone(), source })?;
    match simulator {
        Simulator::Icarus => {
            let output = format!("build/{bench}.vvp");
            // Synthesizable modules have no time unit, and take that of the bench.
            let mut arguments =
                vec!["-g2005", "-Wall", "-Wno-timescale", "-o", &output, "-s", bench];
            arguments.extend(files);
            let warnings = command("iverilog", &arguments, folder)?;
            match warnings.trim().is_empty() {
                true => Ok(()),
                false => {
                    Err(Error::Tool { tool: "iverilog -Wall".to_owned(), output: tail(&warnings) })
                }
            }
        }
        Simulator::Verilator => {
            let folder_of_bench = format!("build/{bench}");
            let mut arguments = vec![
                "--cc",
                "--exe",
                "--main",
                "--timing",
                "-O3",
                "-Wno-fatal",
                "-Wno-lint",
                "--output-split",
                "4000",
                "--output-split-cfuncs",
                "500",
                "--top-module",
                bench,
                "-Mdir",
                &folder_of_bench,
            ];
            arguments.extend(files);
            command("verilator", &arguments, folder)?;
            let makefile = format!("V{bench}.mk");
            let arguments = [
                "-C",
                &folder_of_bench,
                "-f",
                &makefile,
                "-j",
                "2",
                "OPT_FAST=-O1",
                "OPT_SLOW=-O0",
                "OPT_GLOBAL=-O1",
            ];
            command("make", &arguments, folder).map(drop)
        }
    }
}

fn run(folder: &Path, simulator: Simulator, bench: &str, arguments: &[&str]) -> Result<Passed> {
    let start = Instant::now();
    let tb = folder.join("tb");
    let output = match simulator {
        Simulator::Icarus => {
            let program = format!("../build/{bench}.vvp");
            let mut all = vec!["-n", &program];
            all.extend(arguments);
            command("vvp", &all, &tb)?
        }
        Simulator::Verilator => {
            let program = folder.join("build").join(bench).join(format!("V{bench}"));
            let program = std::path::absolute(&program)
                .map_err(|source| Error::File { path: program, source })?;
            command(&program.to_string_lossy(), arguments, &tb)?
        }
    };
    let elapsed = start.elapsed();
    let run = std::iter::once(bench).chain(arguments.iter().copied()).collect::<Vec<_>>().join(" ");
    let has_failed = output.lines().any(|line| line.starts_with("FAIL"));
    let Some(summary) =
        output.lines().find(|line| line.starts_with("PASS")).filter(|_| !has_failed)
    else {
        return Err(Error::Different { run, output: tail(&output) });
    };
    let words: Vec<&str> = summary.split_whitespace().collect();
    let cycles = match words[..] {
        [.., cycles, "cycles"] => cycles.parse().unwrap_or(0),
        _ => 0,
    };
    Ok(Passed { run, summary: summary.to_owned(), cycles, elapsed })
}

/// Runs a tool and returns its output.
pub(crate) fn command(tool: &str, arguments: &[&str], folder: &Path) -> Result<String> {
    let fault = |source| Error::File { path: tool.into(), source };
    let finished =
        Command::new(tool).args(arguments).current_dir(folder).output().map_err(fault)?;
    let mut output = String::from_utf8_lossy(&finished.stdout).into_owned();
    output.push_str(&String::from_utf8_lossy(&finished.stderr));
    match finished.status.success() {
        true => Ok(output),
        false => Err(Error::Tool { tool: tool.to_owned(), output: tail(&output) }),
    }
}

/// Returns the first and the last lines of an output.
fn tail(output: &str) -> String {
    const LINES: usize = 20;
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.len() > 2 * LINES {
        true => [&lines[..LINES], &["..."], &lines[lines.len() - LINES..]].concat().join("\n"),
        false => lines.join("\n"),
    }
}

/// Returns whether a program is on the path.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
