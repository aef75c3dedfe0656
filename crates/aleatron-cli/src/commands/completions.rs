//! `aleatron completions`: completion scripts of shells.

use super::Outcome;
use crate::{Verdict, output};
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron completions bash \\\n      > ~/.local/share/bash-completion/completions/aleatron\n  \
    aleatron completions zsh > ~/.zfunc/_aleatron\n  \
    aleatron completions fish > ~/.config/fish/completions/aleatron.fish")]
pub(crate) struct Arguments {
    /// The shell that reads the script.
    shell: Shell,
}

/// Prints the completion script of a shell.
pub(crate) fn run(arguments: &Arguments, mut program: clap::Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "aleatron", &mut script);
    output::bytes(&script)?;
    Ok(Verdict::Good)
}
