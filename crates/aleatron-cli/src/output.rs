//! Output of results: a closed pipe (`| head`) ends the program quietly and is not a failure.

use std::io::{self, ErrorKind, IsTerminal, Write};

/// Prints a line to standard output.
pub(crate) fn line(text: impl AsRef<str>) -> io::Result<()> {
    match writeln!(io::stdout().lock(), "{}", text.as_ref()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints text without the end of a line; returns `false` if the pipe is closed.
#[cfg(feature = "transformer")]
pub(crate) fn text(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true),
    }
}

/// Prints a line to standard error; failures to write there are ignored.
pub(crate) fn message(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

/// Prints a value as JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> io::Result<()> {
    line(serde_json::to_string_pretty(value)?)
}

/// Returns the width of a table in characters: that of the terminal, or unlimited if the output is
/// not a terminal.
pub(crate) fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    match columns {
        Some(columns) => columns,
        None if io::stdout().is_terminal() => console::Term::stdout().size().1.into(),
        None => usize::MAX,
    }
}
