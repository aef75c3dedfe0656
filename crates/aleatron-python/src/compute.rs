//! The one place where the interpreter is released: Python's other threads run while the engine computes.

use crate::error::{exception, panicked};
use aleatron::{Cancel, CoreError, Error};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

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

/// As [`compute`], for work that looks now and then whether the user has pressed Ctrl-C, and ends with what that raised.
pub(crate) fn compute_unless<T: Send>(
    py: Python<'_>,
    shape: &[usize],
    task: impl FnOnce(Cancel<'_>) -> aleatron::Result<T> + Send,
) -> PyResult<T> {
    let raised: Mutex<Option<PyErr>> = Mutex::new(None);
    let is_pressed = || match Python::attach(|py| py.check_signals()) {
        Ok(()) => false,
        Err(error) => {
            *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            true
        }
    };
    let result = match py.detach(|| catch_unwind(AssertUnwindSafe(|| task(Cancel::when(&is_pressed))))) {
        Ok(result) => result,
        Err(payload) => return Err(panicked(&*payload)),
    };
    let raised = raised.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (result, raised) {
        (Err(Error::Core(CoreError::Cancelled)), Some(error)) => Err(error),
        (Err(error), _) => Err(exception(error, shape)),
        (Ok(value), _) => Ok(value),
    }
}
