//! Counts the instructions of the `neon` tier and of the portable code in an emulator, where times
//! are meaningless.

use crate::aarch64::{EMULATOR, Tools, release_folder};
use crate::step;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The operations of the example `instructions`, and the units of their work.
const OPERATIONS: [(&str, &str); 10] = [
    ("ones", "word"),
    ("and_ones", "pair of words"),
    ("dense", "pair of words"),
    ("dense_batch", "pair of words"),
    ("encode", "word"),
    ("pack", "word"),
    ("unpack", "word"),
    ("sequences", "word"),
    ("look_up", "look-up"),
    ("lif", "step of a neuron"),
];

/// The repeats of the first run of an operation; the second run has twice as many.
const REPEATS: usize = 2;

pub(crate) fn count() -> Result<(), String> {
    let build = ["build", "--release", "-p", "aleatron-cpu", "--example", "instructions"];
    step::run_all(&[Tools::find()?.cargo("instructions", &build)])?;
    let program = release_folder()?.join("examples").join("instructions");
    let one_at_a_time = one_instruction_option()?;
    println!("\n| operation | instructions per | portable | neon | ratio |\n|---|---|---|---|---|");
    for (operation, unit) in OPERATIONS {
        let per_unit = |tier| -> Result<f64, String> {
            let run = |repeats| run(&program, one_at_a_time, [tier, operation], repeats);
            let ((fewer, units), (more, _)) = (run(REPEATS)?, run(2 * REPEATS)?);
            Ok((more - fewer) as f64 / (REPEATS as f64 * units))
        };
        let (portable, neon) = (per_unit("portable")?, per_unit("neon")?);
        println!("| {operation} | {unit} | {portable:.2} | {neon:.2} | {:.2} |", neon / portable);
    }
    Ok(())
}

/// Returns the instructions of a run, and the units of work in a repeat.
fn run(
    program: &Path,
    option: &str,
    arguments: [&str; 2],
    repeats: usize,
) -> Result<(u64, f64), String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("{EMULATOR} {}: {error}", program.display());
    let mut command = Command::new(EMULATOR);
    // A line on the standard error for every instruction.
    command
        .args([option, "-d", "exec,nochain"])
        .arg(program)
        .args(arguments)
        .arg(repeats.to_string());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    let log = child.stderr.take().ok_or_else(|| failed(&"no output"))?;
    let mut executed = 0;
    for line in BufReader::new(log).split(b'\n') {
        executed += u64::from(line.map_err(|error| failed(&error))?.starts_with(b"Trace"));
    }
    let output = child.wait_with_output().map_err(|error| failed(&error))?;
    let units =
        String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|error| failed(&error))?;
    Ok((executed, units))
}

/// Returns the name of the option that logs every instruction in this version of the emulator.
fn one_instruction_option() -> Result<&'static str, String> {
    let help = Command::new(EMULATOR)
        .arg("-h")
        .output()
        .map_err(|error| format!("{EMULATOR}: {error}"))?;
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    let known = ["-one-insn-per-tb", "-singlestep"];
    known.into_iter().find(|option| text.contains(option)).ok_or_else(|| {
        format!("{EMULATOR} can log single instructions with none of {}", known.join(", "))
    })
}
