//! The subcommands, one file each: their arguments and `run`.

pub(crate) mod bench;
pub(crate) mod eval;
#[cfg(feature = "graph")]
mod find;
pub(crate) mod generate;
pub(crate) mod info;
#[cfg(feature = "graph")]
pub(crate) mod inspect;
pub(crate) mod merge;
#[cfg(feature = "graph")]
pub(crate) mod network;
pub(crate) mod report;
pub(crate) mod shard;
pub(crate) mod tables;
pub(crate) mod transformer;
pub(crate) mod verify;

use std::fmt;

/// What a command returns: a verdict, or why it could not reach one.
pub(crate) type Outcome = Result<crate::Verdict, Failure>;

/// Why a command reached no verdict.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments make no sense.
    Usage(String),
    /// The arguments do, and something went wrong.
    Work(String),
}

impl Failure {
    /// For errors that are about the arguments alone.
    pub(crate) fn usage(error: impl fmt::Display) -> Self {
        Self::Usage(error.to_string())
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
