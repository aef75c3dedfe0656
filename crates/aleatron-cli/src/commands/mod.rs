//! The subcommands, one file each: their arguments and `run`.

pub(crate) mod bench;
pub(crate) mod eval;
pub(crate) mod info;
pub(crate) mod tables;
pub(crate) mod verify;

/// What a command returns: a verdict, or why it could not reach one.
pub(crate) type Outcome = Result<crate::Verdict, Box<dyn std::error::Error>>;
