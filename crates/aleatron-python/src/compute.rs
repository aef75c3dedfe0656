//! Releases the interpreter around computations, so that Python's other threads run while the
//! engine computes, and polls for Ctrl-C.

use crate::error::exception;
use crate::interpreter::{attach, detached, is_over};
use aleatron::{Cancel, CoreError, Error};
use pyo3::intern;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// Tells a computation to end: after an exception, such as that of Ctrl-C, or because the
/// interpreter ends.
pub(crate) struct Interruption {
    /// The calling thread if it is the main one, the only thread that handles signals.
    main: Option<ThreadId>,
    raised: Mutex<Option<PyErr>>,
    is_over: AtomicBool,
}

impl Interruption {
    /// Creates the state of a computation of the calling thread.
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let threading = py.import(intern!(py, "threading"))?;
        let main =
            threading.call_method0(intern!(py, "main_thread"))?.getattr(intern!(py, "ident"))?;
        let own = threading.call_method0(intern!(py, "get_ident"))?;
        let main = main.eq(own)?.then(|| thread::current().id());
        Ok(Self { main, raised: Mutex::new(None), is_over: AtomicBool::new(false) })
    }

    /// Returns whether the computation must end, after running the handlers of signals that have
    /// arrived.
    pub(crate) fn is_set(&self) -> bool {
        if self.main == Some(thread::current().id()) {
            self.attach(|py| py.check_signals());
        } else if is_over() {
            self.is_over.store(true, Ordering::Release);
        }
        self.is_over.load(Ordering::Acquire)
    }

    /// Calls a function with the interpreter, and ends the computation if it raises or if the
    /// interpreter ends.
    pub(crate) fn call(&self, call: impl FnOnce(Python<'_>) -> PyResult<()>) {
        self.attach(call);
    }

    fn attach(&self, call: impl FnOnce(Python<'_>) -> PyResult<()>) {
        match attach(call) {
            Some(Ok(())) => {}
            Some(Err(error)) => self.fail(error),
            None => self.is_over.store(true, Ordering::Release),
        }
    }

    /// Ends the computation with an exception; the first one is raised.
    pub(crate) fn fail(&self, error: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.is_over.store(true, Ordering::Release);
    }

    /// Returns the exception that ended the computation, if one did.
    pub(crate) fn into_raised(self) -> Option<PyErr> {
        self.raised.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `task` without the interpreter; `shape` is that of the argument that errors refer to.
pub(crate) fn compute<T: Send>(
    py: Python<'_>,
    shape: &[usize],
    task: impl FnOnce() -> aleatron::Result<T> + Send,
) -> PyResult<T> {
    detached(py, task)?.map_err(|error| exception(error, shape))
}

/// Runs like [`compute`], with cancellation by Ctrl-C.
pub(crate) fn compute_with_cancellation<T: Send>(
    py: Python<'_>,
    shape: &[usize],
    task: impl FnOnce(Cancel<'_>) -> aleatron::Result<T> + Send,
) -> PyResult<T> {
    let interruption = Interruption::new(py)?;
    let is_set = || interruption.is_set();
    let result = detached(py, || task(Cancel::when(&is_set)))?;
    match (result, interruption.into_raised()) {
        (Err(Error::Core(CoreError::Cancelled)), Some(error)) => Err(error),
        (Err(error), _) => Err(exception(error, shape)),
        (Ok(value), _) => Ok(value),
    }
}
