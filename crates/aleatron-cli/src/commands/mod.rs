//! The subcommands, one file each: their arguments and `run`.

pub(crate) mod bench;
mod bindings;
pub(crate) mod compare;
pub(crate) mod completions;
mod data;
pub(crate) mod eval;
pub(crate) mod explore;
mod find;
#[cfg(feature = "transformer")]
pub(crate) mod finetune;
#[cfg(feature = "transformer")]
mod finetune_streams;
#[cfg(feature = "transformer")]
pub(crate) mod generate;
#[cfg(feature = "transformer")]
mod generate_streams;
pub(crate) mod info;
pub(crate) mod inspect;
#[cfg(feature = "transformer")]
mod language;
#[cfg(feature = "transformer")]
mod language_report;
pub(crate) mod man;
pub(crate) mod merge;
mod names;
pub(crate) mod network;
mod plan;
pub(crate) mod provenance;
pub(crate) mod report;
pub(crate) mod rtl;
pub(crate) mod shard;
mod source;
pub(crate) mod tables;
pub(crate) mod train;
mod train_find;
#[cfg(feature = "transformer")]
pub(crate) mod transformer;
pub(crate) mod verify;

use std::fmt;

/// The result of a command: a verdict or a failure.
pub(crate) type Outcome = Result<crate::Verdict, Failure>;

/// The reason why a command reached no verdict.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments are invalid.
    Usage(String),
    /// The arguments are valid, and the work failed.
    Work(String),
}

impl Failure {
    /// Returns the failure of an error that is about the arguments alone.
    pub(crate) fn usage(error: impl fmt::Display) -> Self {
        Self::Usage(error.to_string())
    }

    /// Returns the failure with a line that helps.
    pub(crate) fn with_hint(self, hint: &str) -> Self {
        match self {
            Self::Usage(text) => Self::Usage(format!("{text}\n{hint}")),
            Self::Work(text) => Self::Work(format!("{text}\n{hint}")),
        }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Work(error.to_string())
    }
}

/// Reads a length in bits.
pub(crate) fn read_length(text: &str) -> Result<usize, String> {
    let most = aleatron::Length::MAX;
    let fault = || format!("a length is a whole number of bits from 1 to {most}");
    let bits: usize = text.trim().parse().map_err(|_| fault())?;
    aleatron::Length::new(bits).map(|_| bits).map_err(|_| fault())
}

/// Reads a number from 1 on.
pub(crate) fn read_positive(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("a whole number from 1 on is needed".to_owned()),
    }
}
