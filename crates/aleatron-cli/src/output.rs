//! Writing results: a reader that has gone away (`| head`) ends the program quietly, it is no failure.

use std::io::{self, ErrorKind, Write};

/// Prints a line to standard output.
pub(crate) fn line(text: impl AsRef<str>) -> io::Result<()> {
    match writeln!(io::stdout().lock(), "{}", text.as_ref()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints a value as JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<(), Box<dyn std::error::Error>> {
    Ok(line(serde_json::to_string_pretty(value)?)?)
}
