//! Forked processes: a child has none of the threads of its parent's drivers, so that a call to one
//! would wait for ever.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

static FORKED: AtomicBool = AtomicBool::new(false);

/// To be called in the child of a fork, before anything else of this crate: it has no adapters from
/// then on, and what uses a context of its parent's is [`Error::Forked`].
pub fn after_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Checks that this process may call drivers.
pub(crate) fn check() -> Result<()> {
    if is_forked() { Err(Error::Forked) } else { Ok(()) }
}
