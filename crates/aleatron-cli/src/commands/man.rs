//! `aleatron man`: manual pages.

use super::report::fault;
use super::{Failure, Outcome};
use crate::{Verdict, output};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron man ~/.local/share/man/man1\n  \
    man aleatron-eval")]
pub(crate) struct Arguments {
    /// The folder for the pages; it is created if it is missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes a page for the program and for each of its commands.
pub(crate) fn run(arguments: &Arguments, program: clap::Command) -> Outcome {
    let folder = &arguments.folder;
    let failure = |error: std::io::Error| -> Failure { fault(folder, &error) };
    std::fs::create_dir_all(folder).map_err(failure)?;
    clap_mangen::generate_to(program, folder).map_err(failure)?;
    output::line(format!("{}: written", folder.join("aleatron.1").display()))?;
    Ok(Verdict::Good)
}
