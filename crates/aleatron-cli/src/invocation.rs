//! The command line of a run, so that messages can show how to go on with it.

use std::ffi::OsString;

/// The arguments of a run, the first of which is the name of the program.
#[derive(Debug, Clone)]
pub(crate) struct Invocation(Vec<OsString>);

impl Invocation {
    pub(crate) fn new(arguments: &[OsString]) -> Self {
        Self(arguments.to_vec())
    }

    /// Returns the arguments.
    #[cfg(feature = "transformer")]
    pub(crate) fn arguments(&self) -> &[OsString] {
        &self.0
    }

    /// Returns the command that resumes the run.
    pub(crate) fn resumed(&self) -> String {
        let all = self.0.iter().map(|argument| argument.to_string_lossy());
        let kept = all.filter(|argument| !["--force", "--resume"].contains(&argument.as_ref()));
        kept.map(|argument| quoted(&argument)).chain(["--resume".to_owned()]).collect::<Vec<_>>().join(" ")
    }
}

/// Returns an argument as a shell takes it.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resumed_command_is_quoted_and_has_no_force() {
        let arguments =
            ["aleatron", "eval", "my net.onnx", "--report", "it's", "--force"].map(OsString::from);
        let command = Invocation::new(&arguments).resumed();
        assert_eq!(command, "aleatron eval 'my net.onnx' --report 'it'\\''s' --resume");
        let again = ["aleatron", "eval", "--resume", "--report", "r"].map(OsString::from);
        assert_eq!(Invocation::new(&again).resumed(), "aleatron eval --report r --resume");
    }
}
