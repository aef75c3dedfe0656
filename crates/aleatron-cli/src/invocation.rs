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

    /// Returns the command of the run as a shell takes it.
    pub(crate) fn command(&self) -> String {
        let all = self.0.iter().map(|argument| quoted(&argument.to_string_lossy()));
        all.collect::<Vec<_>>().join(" ")
    }

    /// Returns the command that resumes the run.
    pub(crate) fn resumed(&self) -> String {
        let all = self.0.iter().map(|argument| argument.to_string_lossy());
        let kept = all.filter(|argument| !["--force", "--resume"].contains(&argument.as_ref()));
        kept.map(|argument| quoted(&argument))
            .chain(["--resume".to_owned()])
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Returns another command with the arguments of this run, without the options in `omitted` and
    /// without the network, which is `replaced` or the value of --network, if it is given,
    /// followed by `options`. Those of the omitted options that are in `flags` have no value.
    pub(crate) fn as_command(
        &self,
        command: &str,
        omitted: &[&str],
        flags: &[&str],
        mut replaced: Option<String>,
        options: &[String],
    ) -> String {
        let given: Vec<_> = self.0.iter().map(|argument| argument.to_string_lossy()).collect();
        let mut arguments = given.iter().map(AsRef::as_ref);
        let mut kept: Vec<&str> = vec![arguments.next().unwrap_or("aleatron"), command];
        arguments.next();
        while let Some(argument) = arguments.next() {
            let name = argument.split('=').next().unwrap_or_default();
            if flags.contains(&name) {
                continue;
            }
            if omitted.contains(&name) || (name == "--network" && replaced.take().is_some()) {
                if !argument.contains('=') {
                    arguments.next();
                }
            } else if replaced.as_deref() == Some(argument) {
                replaced = None;
            } else {
                kept.push(argument);
            }
        }
        let all = kept.into_iter().chain(options.iter().map(String::as_str));
        all.map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// Quotes an argument for a shell.
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
        let whole = Invocation::new(&arguments).command();
        assert_eq!(whole, "aleatron eval 'my net.onnx' --report 'it'\\''s' --force");
        let again = ["aleatron", "eval", "--resume", "--report", "r"].map(OsString::from);
        assert_eq!(Invocation::new(&again).resumed(), "aleatron eval --report r --resume");
    }

    #[test]
    fn other_command_keeps_shared_arguments() {
        let arguments = [
            "aleatron",
            "explore",
            "a b.onnx",
            "--data",
            "x.npz",
            "--lengths=8,16",
            "--loss",
            "2",
            "--json",
        ];
        let invocation = Invocation::new(&arguments.map(OsString::from));
        let command = |replaced: Option<&str>, options: &[&str]| {
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            invocation.as_command(
                "rtl",
                &["--lengths", "--loss"],
                &["--json"],
                replaced.map(str::to_owned),
                &options,
            )
        };
        assert_eq!(
            command(None, &["--length", "8"]),
            "aleatron rtl 'a b.onnx' --data x.npz --length 8"
        );
        assert_eq!(
            command(Some("a b.onnx"), &["--network", "c"]),
            "aleatron rtl --data x.npz --network c"
        );
    }
}
