//! Detaching from the interpreter and attaching again, also while it ends.
//!
//! A thread that attaches after the interpreter has ended is terminated by Python in the middle of
//! Rust code, or crashes. So every attachment of this extension goes through this file: once the
//! interpreter is about to end, threads other than the one that ends it stay detached.

use crate::error::panicked;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Whether the interpreter is about to end.
static EXITING: AtomicBool = AtomicBool::new(false);

/// The thread that ends the interpreter, set before [`EXITING`].
static EXITING_THREAD: OnceLock<ThreadId> = OnceLock::new();

/// The number of threads that were allowed to attach and have not done so yet.
static ATTACHING: AtomicUsize = AtomicUsize::new(0);

/// Records that the interpreter is about to end; Python's `atexit` calls it.
///
/// It returns when every thread that was allowed to attach has done so, because Python ends next.
#[pyfunction]
#[pyo3(name = "_at_exit")]
pub(crate) fn at_exit(py: Python<'_>) {
    let _ = EXITING_THREAD.set(thread::current().id());
    EXITING.store(true, Ordering::SeqCst);
    py.detach(|| {
        while ATTACHING.load(Ordering::SeqCst) > 0 {
            thread::sleep(Duration::from_micros(100));
        }
    });
}

/// Forgets the threads of the parent in a forked child.
pub(crate) fn after_fork() {
    ATTACHING.store(0, Ordering::SeqCst);
}

/// Returns whether the calling thread must not attach any more.
pub(crate) fn is_over() -> bool {
    EXITING.load(Ordering::SeqCst) && EXITING_THREAD.get() != Some(&thread::current().id())
}

/// The permission to attach: the interpreter does not end until it is dropped.
struct Permission;

impl Permission {
    /// Returns `None` once the interpreter is about to end.
    fn get() -> Option<Self> {
        // Counted first: either this thread sees that the interpreter ends, or `at_exit` sees this
        // thread.
        ATTACHING.fetch_add(1, Ordering::SeqCst);
        let permission = Self;
        (!is_over()).then_some(permission)
    }
}

impl Drop for Permission {
    fn drop(&mut self) {
        // A forked child has set the number to 0, also that of permissions which the forking thread
        // held.
        let _ = ATTACHING.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
    }
}

/// Calls a function with the interpreter. Returns `None` if it is about to end.
pub(crate) fn attach<T>(call: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let permission = Permission::get()?;
    Python::try_attach(|py| {
        drop(permission);
        call(py)
    })
}

/// Runs `task` without the interpreter; a panic becomes an exception.
///
/// If the interpreter is about to end when the task is done, the calling thread sleeps until the
/// process ends.
pub(crate) fn detached<T: Send>(py: Python<'_>, task: impl FnOnce() -> T + Send) -> PyResult<T> {
    let (result, permission) = py.detach(|| {
        let result = catch_unwind(AssertUnwindSafe(task));
        let Some(permission) = Permission::get() else {
            loop {
                thread::park();
            }
        };
        (result, permission)
    });
    drop(permission);
    result.map_err(|payload| panicked(&*payload))
}
