//! The one place where the interpreter is released: Python's other threads run while the engine computes.

use crate::error::{exception, panicked};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Words a call counts on the CPU before it looks whether the user has pressed Ctrl-C: tens of milliseconds.
pub(crate) const PATIENCE: usize = 1 << 30;

/// Runs `task` without the interpreter; `shape` is that of the argument its errors speak of.
pub(crate) fn compute<T: Send>(
    py: Python<'_>,
    shape: &[usize],
    task: impl FnOnce() -> aleatron::Result<T> + Send,
) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(task))) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(exception(error, shape)),
        Err(payload) => Err(panicked(&*payload)),
    }
}
