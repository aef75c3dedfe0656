//! Writing results: a reader that has gone away (`| head`) ends the program quietly, it is no
//! failure.

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

/// Prints text without the end of a line; returns `false` if its reader has gone away.
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

/// Returns the columns of characters that a table may have: those of the terminal, or any number
/// where the output is read by a program.
pub(crate) fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    match columns {
        Some(columns) => columns,
        None if io::stdout().is_terminal() => console::Term::stdout().size().1.into(),
        None => usize::MAX,
    }
}
