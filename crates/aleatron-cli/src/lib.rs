//! The `aleatron` program as a library, so that the Python package can be the same program.
//!
//! [`run`] takes the arguments and returns an exit code: 0 for success, 1 for a failure or a
//! difference that was found, 2 for invalid usage. There is one file per subcommand under
//! `commands/`.
#![forbid(unsafe_code)]

mod commands;
mod distributed;
mod hint;
mod interrupt;
mod invocation;
mod output;

pub use distributed::DistributedEval;

use clap::{CommandFactory, Parser, Subcommand};
use commands::Failure;
use invocation::Invocation;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

/// Neural networks as streams of random bits, the same bits on every processor.
#[derive(Debug, Parser)]
#[command(
    name = "aleatron",
    version,
    about,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
#[command(after_help = "Examples:\n  \
    aleatron eval            accuracy of the embedded network against stream length\n  \
    aleatron verify          every backend of this machine against the reference\n  \
    aleatron help eval       all options of a command")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure how fast this machine is.
    Bench(commands::bench::Arguments),
    /// Compare two evaluations: settings that differ, and the differences of their rows.
    Compare(commands::compare::Arguments),
    /// Print the completion script of a shell.
    Completions(commands::completions::Arguments),
    /// Evaluate a network as bitstreams: accuracy against length and generator.
    Eval(Box<commands::eval::Arguments>),
    /// Explore designs of a network: accuracy against energy, area and latency of circuits.
    Explore(Box<commands::explore::Arguments>),
    /// Fine-tune a transformer by a LoRA adapter, and show its loss.
    #[cfg(feature = "transformer")]
    Finetune(Box<commands::finetune::Arguments>),
    /// Continue a text with a transformer.
    #[cfg(feature = "transformer")]
    Generate(commands::generate::Arguments),
    /// Show version, SIMD tiers, threads and devices.
    Info(commands::info::Arguments),
    /// Write manual pages into a folder.
    Man(commands::man::Arguments),
    /// Put the shards of an evaluation together.
    Merge(commands::merge::Arguments),
    /// Show the graph of an ONNX network, and how it runs as streams.
    Inspect(commands::inspect::Arguments),
    /// Write the circuit of a network in Verilog, and check it against the engine.
    Rtl(Box<commands::rtl::Arguments>),
    /// Tabulate how wrong products of two generators are.
    Tables(commands::tables::Arguments),
    /// Fine-tune a network for short streams, and show its accuracy before and after.
    Train(Box<commands::train::Arguments>),
    /// Compare every backend of this machine with the plain reference, bit for bit.
    Verify(commands::verify::Arguments),
}

/// The verdict of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Success.
    Good,
    /// A failure that the command has printed.
    Bad,
}

/// Runs the program with `arguments`, the first of which is its name.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    match execute(arguments) {
        0 => ExitCode::SUCCESS,
        code => ExitCode::from(code),
    }
}

/// The versions of the software that the program runs inside, by name: those of an interpreter and
/// its libraries.
pub type Host = BTreeMap<String, String>;

/// Runs like [`run`], and returns the exit code as a number.
pub fn execute(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    execute_within(&Host::new(), arguments)
}

/// Runs like [`execute`], inside another program, which `info` shows.
pub fn execute_within(
    host: &Host,
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let command = match parse(&arguments) {
        Ok(command) => command,
        Err(code) => return code,
    };
    code_of(match command {
        Command::Bench(arguments) => commands::bench::run(&arguments),
        Command::Compare(arguments) => commands::compare::run(&arguments),
        Command::Completions(arguments) => {
            commands::completions::run(&arguments, Arguments::command())
        }
        Command::Eval(eval) => commands::eval::run(&eval, &Invocation::new(&arguments)),
        Command::Explore(explore) => commands::explore::run(&explore, &Invocation::new(&arguments)),
        #[cfg(feature = "transformer")]
        Command::Finetune(finetune) => {
            commands::finetune::run(&finetune, &Invocation::new(&arguments))
        }
        #[cfg(feature = "transformer")]
        Command::Generate(arguments) => commands::generate::run(&arguments),
        Command::Info(arguments) => commands::info::run(&arguments, host),
        Command::Man(arguments) => commands::man::run(&arguments, Arguments::command()),
        Command::Merge(merge) => commands::merge::run(&merge, &Invocation::new(&arguments)),
        Command::Inspect(arguments) => commands::inspect::run(&arguments),
        Command::Rtl(arguments) => commands::rtl::run(&arguments),
        Command::Tables(tables) => commands::tables::run(&tables, &Invocation::new(&arguments)),
        Command::Train(train) => commands::train::run(&train, &Invocation::new(&arguments)),
        Command::Verify(arguments) => commands::verify::run(&arguments),
    })
}

/// Reads the command, or returns the exit code of invalid arguments.
fn parse(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Command, u8> {
    Arguments::try_parse_from(arguments).map(|arguments| arguments.command).map_err(|error| {
        // Help and version go to standard output and are not failures; clap tells them apart.
        // Nothing is left to do if even that cannot be written.
        let _ = error.print();
        u8::try_from(error.exit_code()).unwrap_or(2)
    })
}

/// Returns the exit code of the result of a command, and prints failures.
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
