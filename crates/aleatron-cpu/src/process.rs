//! State of the process, and its reset in a forked child.
//!
//! A child has one thread, the one that forked. The threads of a pool do not exist, and a lock that
//! another thread held at that moment is never released. So a child gets new locks and, when it
//! first needs them, new threads; the old ones are leaked. State that is read without locks, such
//! as measured costs, stays as it is.

use crate::draws::DrawCache;
use crate::threads::Pool;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// The state behind locks.
pub(crate) struct Shared {
    /// The current pool.
    pub(crate) pool: RwLock<Option<Arc<Pool>>>,
    /// Random draws of earlier calls.
    pub(crate) draws: Mutex<DrawCache>,
}

impl Shared {
    const fn new() -> Self {
        Self { pool: RwLock::new(None), draws: Mutex::new(DrawCache::new()) }
    }
}

static FIRST: Shared = Shared::new();

static CURRENT: AtomicPtr<Shared> = AtomicPtr::new((&raw const FIRST).cast_mut());

/// The number of forks since the first process: threads of an earlier generation do not exist.
static GENERATION: AtomicUsize = AtomicUsize::new(0);

/// Returns the state of this process.
pub(crate) fn shared() -> &'static Shared {
    // SAFETY: the pointer is that of a static or of a box that is never freed, and both are only
    // ever shared.
    unsafe { &*CURRENT.load(Ordering::Acquire) }
}

/// Returns the number of forks since the first process.
pub(crate) fn generation() -> usize {
    GENERATION.load(Ordering::Relaxed)
}

/// Resets the state in the child of a fork. Must be called before anything else of this crate: see
/// [`crate::threads::forget_after_fork`].
pub(crate) fn forget_after_fork() {
    let (old, mut new) = (shared(), Shared::new());
    // A cache whose lock is free was not being modified and can still be used.
    if let (Ok(mut old), Ok(new)) = (old.draws.try_lock(), new.draws.get_mut()) {
        std::mem::swap(&mut *old, new);
    }
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // The old state is not dropped, and neither is its pool, whose threads could not be joined.
    CURRENT.store(Box::leak(Box::new(new)), Ordering::Release);
}
