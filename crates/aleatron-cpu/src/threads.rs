//! Threads: a pool that the calling thread works in too, and that can be replaced at any time.
//!
//! Work is cut into items that any thread may take; which one takes which decides nothing but time. Work that costs
//! less than waking another thread stays on the calling one: both costs are measured, see `cost.rs`.

use crate::error::Error;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A pool of threads. The caller of an operation is one of them, so a pool of one has no thread of its own.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
    workers: Option<rayon::ThreadPool>,
    wake: OnceLock<Duration>,
}

impl Pool {
    /// A pool of `threads`, or of one per core for 0.
    ///
    /// # Errors
    /// [`Error::Threads`] where the system would not start them.
    pub fn new(threads: usize) -> Result<Self, Error> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let most = rayon::max_num_threads();
        if threads - 1 > most {
            return Err(Error::Threads { threads, reason: format!("a pool has at most {most}") });
        }
        let build = |workers| {
            let builder = rayon::ThreadPoolBuilder::new();
            builder.num_threads(workers).thread_name(|i| format!("aleatron-{i}")).build()
        };
        let workers = match threads {
            1 => None,
            _ => Some(build(threads - 1).map_err(|e| Error::Threads { threads, reason: e.to_string() })?),
        };
        Ok(Self { threads, workers, wake: OnceLock::new() })
    }

    /// A pool that shares out all work, however small, as if waking a thread cost nothing: for tests of its results.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn eager(threads: usize) -> Result<Self, Error> {
        let pool = Self::new(threads)?;
        pool.wake.get_or_init(|| Duration::ZERO);
        Ok(pool)
    }

    /// The threads, the calling one included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `task` on every item. `cost` is what all of them would take on one thread; where that does not pay for
    /// waking another, the caller does them all.
    pub(crate) fn for_each<I>(&self, items: I, cost: Duration, task: impl Fn(I::Item) + Sync)
    where
        I: ExactSizeIterator + Send,
        I::Item: Send,
    {
        let helpers = (self.threads - 1).min(items.len().saturating_sub(1));
        match &self.workers {
            Some(workers) if helpers > 0 && cost > 2 * self.wake_cost() => {
                let queue = Mutex::new(items);
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let work = || std::iter::from_fn(next).for_each(&task);
                workers.in_place_scope(|scope| {
                    (0..helpers).for_each(|_| scope.spawn(|_| work()));
                    work();
                });
            }
            _ => items.for_each(task),
        }
    }

    /// What it costs to have another thread do nothing: the median of a few tries, made on first need.
    pub(crate) fn wake_cost(&self) -> Duration {
        *self.wake.get_or_init(|| {
            let Some(workers) = &self.workers else { return Duration::MAX / 4 };
            let mut tries: [Duration; 9] = std::array::from_fn(|_| {
                let start = Instant::now();
                workers.in_place_scope(|scope| scope.spawn(|_| ()));
                start.elapsed()
            });
            tries.sort_unstable();
            tries[tries.len() / 2]
        })
    }
}

static CURRENT: RwLock<Option<Arc<Pool>>> = RwLock::new(None);

/// The pool in use in this process: one thread per core until [`set_num_threads`] says otherwise.
///
/// # Errors
/// [`Error::Threads`] where the system would not start them.
pub fn current() -> Result<Arc<Pool>, Error> {
    if let Some(pool) = &*CURRENT.read().unwrap_or_else(PoisonError::into_inner) {
        return Ok(Arc::clone(pool));
    }
    let mut current = CURRENT.write().unwrap_or_else(PoisonError::into_inner);
    match &*current {
        Some(pool) => Ok(Arc::clone(pool)),
        None => Ok(Arc::clone(current.insert(Arc::new(Pool::new(0)?)))),
    }
}

/// Uses `threads` from now on, or one per core for 0. Calls under way finish on the threads they have; results do not
/// depend on it.
///
/// # Errors
/// [`Error::Threads`] where the system would not start them; the old ones stay in use.
pub fn set_num_threads(threads: usize) -> Result<(), Error> {
    let pool = Arc::new(Pool::new(threads)?);
    *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = Some(pool);
    Ok(())
}

/// The threads in use.
///
/// # Errors
/// [`Error::Threads`] where the system would not start them.
pub fn get_num_threads() -> Result<usize, Error> {
    Ok(current()?.threads())
}
