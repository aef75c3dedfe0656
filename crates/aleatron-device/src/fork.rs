//! Forked processes: a child lacks the threads of its parent's drivers, so that a call to a
//! driver would hang.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

static FORKED: AtomicBool = AtomicBool::new(false);

/// Disables this crate in the child of a fork. Must be called before anything else of this crate:
/// there are no adapters from then on, and uses of the parent's contexts return [`Error::Forked`].
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
