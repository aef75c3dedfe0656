//! `aleatron eval` for programs that run its tasks on processes of their own, such as the ranks of MPI.

use crate::commands::eval::Distributed;
use crate::commands::report::Earlier;
use crate::{Command, Failure, code_of, parse};
use aleatron::eval::{Evaluation, Job};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The arguments of `aleatron eval`, understood, and everything they name, read.
pub struct DistributedEval(Distributed);

impl DistributedEval {
    /// Reads arguments, the first of which is the program's name and the second `eval`.
    ///
    /// # Errors
    /// The exit code where there is nothing to run: help was asked for, or something is wrong and was printed.
    pub fn parse(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, u8> {
        let opened = match parse(arguments)? {
            Command::Eval(arguments) => Distributed::open(*arguments),
            _ => Err(Failure::Usage("only eval runs on several processes".to_owned())),
        };
        opened.map(Self).map_err(|failure| code_of(Err(failure)))
    }

    /// What to run.
    #[must_use]
    pub fn job(&self) -> &Job<'static> {
        &self.0.job
    }

    /// The result to go on from.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&Evaluation> {
        self.0.report.as_ref().and_then(|report| report.checkpoint.as_ref())
    }

    /// The file to keep finished tasks in.
    #[must_use]
    pub fn tasks_file(&self) -> Option<PathBuf> {
        self.0.report.as_ref().map(|report| report.tasks())
    }

    /// Whether finished tasks in that file are to be kept.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.0.report.as_ref().is_some_and(|report| report.earlier == Earlier::Resume)
    }

    /// Writes and prints what was found, and what has failed, and gives the exit code.
    #[must_use]
    pub fn finish(&self, found: &Evaluation, failure: Option<String>, elapsed: Duration) -> u8 {
        code_of(self.0.finish(found, failure, elapsed))
    }
}

impl std::fmt::Debug for DistributedEval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DistributedEval").field("job", self.job()).finish_non_exhaustive()
    }
}
