//! `aleatron eval` for programs that run its tasks on other processes, such as the ranks of MPI.

use crate::commands::eval::Distributed;
use crate::commands::report::Earlier;
use crate::invocation::Invocation;
use crate::{Command, Failure, code_of, parse};
use aleatron::eval::{Evaluation, Job};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The arguments of `aleatron eval`, with the network and the data that they name.
pub struct DistributedEval(Distributed);

impl DistributedEval {
    /// Reads arguments, the first of which is the program's name and the second `eval`.
    ///
    /// # Errors
    /// The exit code if there is nothing to run: help was requested, or an error was printed.
    pub fn parse(
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, u8> {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let opened = match parse(&arguments)? {
            Command::Eval(eval) => Distributed::open(*eval, &Invocation::new(&arguments)),
            _ => Err(Failure::Usage("only eval runs on several processes".to_owned())),
        };
        opened.map(Self).map_err(|failure| code_of(Err(failure)))
    }

    /// Returns the job.
    #[must_use]
    pub fn job(&self) -> &Job<'static> {
        &self.0.job
    }

    /// Returns the result to resume from.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&Evaluation> {
        self.0.report.as_ref().and_then(|report| report.checkpoint.as_ref())
    }

    /// Returns the file for finished tasks.
    #[must_use]
    pub fn tasks_file(&self) -> Option<PathBuf> {
        self.0.report.as_ref().map(|report| report.tasks())
    }

    /// Returns whether finished tasks in that file are retained.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.0.report.as_ref().is_some_and(|report| report.earlier == Earlier::Resume)
    }

    /// Writes and prints the result and the failure that ended the run, and returns the exit code.
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
