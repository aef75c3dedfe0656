//! The `aleatron` program as a library, so that the Python package can be the same program.
//!
//! [`run`] takes the arguments and answers with an exit code: 0 when all is well, 1 when something was found to be wrong
//! (a difference, a failure), 2 when the arguments make no sense. One file per subcommand under `commands/`.
#![forbid(unsafe_code)]

mod commands;
mod distributed;
mod hint;
mod interrupt;
mod output;

pub use distributed::DistributedEval;

use clap::{Parser, Subcommand};
use commands::Failure;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

/// Neural networks as streams of random bits, the same bits on every processor.
#[derive(Debug, Parser)]
#[command(name = "aleatron", version, about, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure how fast this machine is.
    Bench(commands::bench::Arguments),
    /// Judge a network as bit streams: accuracy against length and generator.
    Eval(Box<commands::eval::Arguments>),
    /// Continue a text with a transformer.
    Generate(commands::generate::Arguments),
    /// Show version, SIMD tiers, threads and devices.
    Info(commands::info::Arguments),
    /// Put the shards of an evaluation together.
    Merge(commands::merge::Arguments),
    /// Show the graph of an ONNX network, and which of its nodes can run as streams.
    #[cfg(feature = "graph")]
    Inspect(commands::inspect::Arguments),
    /// Tabulate how wrong products of two generators are.
    Tables(commands::tables::Arguments),
    /// Compare every backend of this machine with the plain reference, bit for bit.
    Verify(commands::verify::Arguments),
}

/// What a command found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// All is well.
    Good,
    /// Something is wrong, and the command has said what.
    Bad,
}

/// Runs the program with `arguments`, the first of which is its name.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    match execute(arguments) {
        0 => ExitCode::SUCCESS,
        code => ExitCode::from(code),
    }
}

/// The versions of the software a program runs inside, by name: an interpreter's and its libraries'.
pub type Host = BTreeMap<String, String>;

/// Like [`run`], with the exit code as a number.
pub fn execute(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    execute_within(&Host::new(), arguments)
}

/// Like [`execute`], inside another program, of which `info` tells.
pub fn execute_within(host: &Host, arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let command = match parse(arguments) {
        Ok(command) => command,
        Err(code) => return code,
    };
    code_of(match command {
        Command::Bench(arguments) => commands::bench::run(&arguments),
        Command::Eval(arguments) => commands::eval::run(&arguments),
        Command::Generate(arguments) => commands::generate::run(&arguments),
        Command::Info(arguments) => commands::info::run(&arguments, host),
        Command::Merge(arguments) => commands::merge::run(&arguments),
        #[cfg(feature = "graph")]
        Command::Inspect(arguments) => commands::inspect::run(&arguments),
        Command::Tables(arguments) => commands::tables::run(&arguments),
        Command::Verify(arguments) => commands::verify::run(&arguments),
    })
}

/// The command, or the exit code of arguments that are none.
fn parse(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Command, u8> {
    Arguments::try_parse_from(arguments).map(|arguments| arguments.command).map_err(|error| {
        // Help and version go to standard output and are no failure; clap knows which is which. Nothing is left to
        // do where even that cannot be written.
        let _ = error.print();
        u8::try_from(error.exit_code()).unwrap_or(2)
    })
}

/// The exit code of what a command found; failures are printed.
fn code_of(outcome: commands::Outcome) -> u8 {
    match outcome {
        Ok(Verdict::Good) => 0,
        Ok(Verdict::Bad) => 1,
        Err(Failure::Work(message)) => {
            output::message(format!("aleatron: {message}"));
            1
        }
        Err(Failure::Usage(message)) => {
            output::message(format!("aleatron: {message}\n\nFor more information, try '--help'."));
            2
        }
    }
}
