//! Steps: commands that run in order. Each is printed and timed, and the first failure ends the
//! run.

use std::process::Command;
use std::time::{Duration, Instant};

/// A command with a name.
pub(crate) struct Step {
    name: &'static str,
    command: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

impl Step {
    pub(crate) fn new(name: &'static str, command: Vec<String>) -> Self {
        Self { name, command, variables: Vec::new() }
    }

    /// Sets an environment variable of the command.
    pub(crate) fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((variable, value.into()));
        self
    }

    fn run(&self) -> Result<Duration, String> {
        let (program, arguments) = self.command.split_first().ok_or("an empty command")?;
        println!("\n=== {}: {}", self.name, self.command.join(" "));
        let start = Instant::now();
        let mut command = Command::new(program);
        // Mesa's device selection layer would warn of a missing display.
        command
            .args(arguments)
            .env("NODEVICE_SELECT", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        match command.status() {
            Ok(status) if status.success() => Ok(start.elapsed()),
            Ok(status) => Err(format!("{} failed: {status}", self.name)),
            Err(error) => Err(format!("{}: cannot run {program}: {error}", self.name)),
        }
    }
}

/// Returns a command line.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Vec<String> {
    std::iter::once(program).chain(arguments.iter().copied()).map(str::to_owned).collect()
}

/// Returns a command line of the cargo that runs this.
pub(crate) fn cargo(arguments: &[&str]) -> Vec<String> {
    command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), arguments)
}

/// Runs all steps and prints their times.
pub(crate) fn run_all(steps: &[Step]) -> Result<(), String> {
    let mut times = Vec::new();
    let mut failure = Ok(());
    for step in steps {
        match step.run() {
            Ok(time) => times.push((step.name, time)),
            Err(error) => {
                failure = Err(error);
                break;
            }
        }
    }
    println!("\n=== {}", if failure.is_ok() { "all good" } else { "failed; before that" });
    for (name, time) in times {
        println!("{:6.1} s  {name}", time.as_secs_f64());
    }
    failure
}
