//! Running the program, and folders for its files.
#![allow(dead_code, reason = "every test program uses some of these")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking, too")]

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Returns the program with arguments.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aleatron"));
    command.args(arguments).env_remove("ALEATRON_TIER");
    command
}

pub(crate) fn aleatron(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Returns the standard output.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the standard error of a failure.
pub(crate) fn fault(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the output of a success.
pub(crate) fn good(output: Output) -> Output {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Returns the JSON that the program prints.
pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_slice(&good(aleatron(arguments)).stdout).unwrap()
}

/// A folder of its own for a test, removed when the test is over.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Creates a folder; the name must be unique among all tests.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("aleatron-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn join(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes an array of NumPy's format and returns its path.
    pub(crate) fn npy(&self, name: &str, descr: &str, shape: &str, bytes: &[u8]) -> String {
        let path = self.join(name);
        std::fs::write(&path, npy(descr, shape, bytes)).unwrap();
        path
    }

    pub(crate) fn floats(&self, name: &str, shape: &str, values: &[f32]) -> String {
        self.npy(name, "<f4", shape, &bytes(values))
    }
}

/// Returns the bytes of an array of NumPy's format.
pub(crate) fn npy(descr: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    header.push_str(&" ".repeat(63 - (10 + header.len()) % 64));
    header.push('\n');
    let size = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &size[..], header.as_bytes(), bytes].concat()
}

pub(crate) fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
