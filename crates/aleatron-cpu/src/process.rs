//! State of the process as a whole, and how a forked child gets its own.
//!
//! A child has one thread, the one that forked. The threads of a pool are not there, and a lock
//! that another thread held at that moment is never released. So a child gets new locks and, when
//! it first needs them, new threads; the old ones are left alone. What is read without locks, such
//! as measured costs, stays as it is.

use crate::draws::DrawCache;
use crate::threads::Pool;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// The state behind locks.
pub(crate) struct Shared {
    /// The pool in use.
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

/// The number of forks, from the first process on: threads of an earlier generation are gone.
static GENERATION: AtomicUsize = AtomicUsize::new(0);

/// The state of this process.
pub(crate) fn shared() -> &'static Shared {
    // SAFETY: the pointer is that of a static or of a box that is never freed, and both are only
    // ever shared.
    unsafe { &*CURRENT.load(Ordering::Acquire) }
}

/// The number of forks, from the first process on.
pub(crate) fn generation() -> usize {
    GENERATION.load(Ordering::Relaxed)
}

/// To be called in the child of a fork, before anything else of this crate: see
/// [`crate::threads::forget_after_fork`].
pub(crate) fn forget_after_fork() {
    let (old, mut new) = (shared(), Shared::new());
    // Nobody was modifying a cache whose lock is free, so it can be used further.
    if let (Ok(mut old), Ok(new)) = (old.draws.try_lock(), new.draws.get_mut()) {
        std::mem::swap(&mut *old, new);
    }
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // The old state is not dropped, and neither is its pool, whose threads could not be told to
    // end.
    CURRENT.store(Box::leak(Box::new(new)), Ordering::Release);
}
