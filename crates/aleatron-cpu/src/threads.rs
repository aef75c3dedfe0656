//! Threads: a pool that includes the calling thread, and that can be replaced at any time.
//!
//! Work is divided into items that any thread may take; the assignment affects nothing but time.
//! Work that costs less than waking workers stays on the calling thread; its cost is measured, see
//! `cost.rs`. Workers are fast to start only while they do not sleep, so they spin-wait for a
//! moment after each operation.

use crate::error::Error;
use crate::process;
use aleatron_core::{Error as CoreError, Quantity};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long workers spin-wait for more work after an operation: most programs call again sooner,
/// and waking a worker takes longer than many operations.
const WORKER_SPIN: Duration = Duration::from_micros(200);

/// How long a caller without work spin-waits for the workers to finish before it sleeps.
const SPIN_BEFORE_SLEEP: Duration = Duration::from_micros(100);

/// A pool of threads. The caller of an operation is one of them, so a pool of one has no additional
/// thread.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
    workers: Option<Workers>,
    hand_over: HandOver,
    /// The [`process::generation`] of its creation: a child of a fork lacks its workers.
    generation: usize,
}

/// The least cost of work that is worth distributing.
///
/// Not measured: timings of the first microseconds of a process say little about later ones.
#[derive(Debug, Clone, Copy)]
struct HandOver {
    /// To spinning workers.
    spinning: Duration,
    /// To sleeping workers.
    sleeping: Duration,
}

impl HandOver {
    /// A few times the cost of distribution: 1 to 3 us, and 15 to 30 us if a worker must be woken.
    const USUAL: Self =
        Self { spinning: Duration::from_micros(10), sleeping: Duration::from_micros(50) };

    /// All work is distributed.
    const NOTHING: Self = Self { spinning: Duration::ZERO, sleeping: Duration::ZERO };
}

impl Pool {
    /// Creates a pool of `threads`, or of one per core for 0.
    ///
    /// # Errors
    /// Returns [`CoreError::TooLarge`] for more than [`max_threads`], [`Error::Threads`] if the
    /// system could not start them.
    pub fn new(threads: usize) -> Result<Self, Error> {
        let (threads, limit) = (if threads == 0 { cores() } else { threads }, max_threads());
        if threads > limit {
            let (actual, limit) = (threads as u128, limit as u128);
            return Err(CoreError::TooLarge { what: Quantity::Threads, actual, limit }.into());
        }
        let workers = match threads {
            1 => None,
            _ => Some(
                Workers::new(threads - 1)
                    .map_err(|e| Error::Threads { threads, reason: e.to_string() })?,
            ),
        };
        Ok(Self { threads, workers, hand_over: HandOver::USUAL, generation: process::generation() })
    }

    /// Creates a pool that distributes all work, however small, for tests of its results.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn eager(threads: usize) -> Result<Self, Error> {
        let mut pool = Self::new(threads)?;
        pool.hand_over = HandOver::NOTHING;
        Ok(pool)
    }

    /// Returns the number of threads, including the calling one.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `task` on every item, on the calling thread and as many others as pay off, and returns
    /// when all are done. Any thread may take any item, in the order of the iterator; a few large
    /// items for each thread are best.
    ///
    /// `cost` is the approximate time of all items on one thread. If it is too short to be worth
    /// distributing, the caller runs all items; above some ten microseconds, work is always
    /// distributed.
    ///
    /// ```
    /// use aleatron_cpu::Pool;
    /// use std::time::Duration;
    ///
    /// let (pool, mut values) = (Pool::new(2)?, vec![0.0_f32; 100_000]);
    /// let cost = Duration::from_nanos(values.len() as u64);
    /// pool.for_each(values.chunks_mut(10_000).enumerate(), cost, |(chunk, values)| values.fill(chunk as f32));
    /// assert_eq!(values[99_999], 9.0);
    /// # Ok::<(), aleatron_cpu::Error>(())
    /// ```
    ///
    /// # Panics
    /// Panics if `task` does: a panic on another thread is propagated to the caller once the others
    /// are done.
    pub fn for_each<I>(&self, items: I, cost: Duration, task: impl Fn(I::Item) + Sync)
    where
        I: ExactSizeIterator + Send,
        I::Item: Send,
    {
        // At most as many threads as items.
        let most = cost.as_nanos() / self.hand_over.spinning.as_nanos().max(1);
        let helpers = (self.threads - 1).min(items.len().saturating_sub(1)).min(most as usize);
        match &self.workers {
            Some(workers) if helpers > 0 && self.has_workers() && self.pays(workers, cost) => {
                let queue = Mutex::new(items);
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                workers.run(helpers, &|| std::iter::from_fn(next).for_each(&task));
                workers.spin();
            }
            _ => items.for_each(task),
        }
    }

    /// Runs the tasks of all items, as [`Self::for_each`] does, and returns the first error of a
    /// task. The other tasks still run.
    ///
    /// # Errors
    /// Returns the first error of `task`.
    ///
    /// # Panics
    /// As for [`Self::for_each`].
    pub fn try_for_each<I, E>(
        &self,
        items: I,
        cost: Duration,
        task: impl Fn(I::Item) -> Result<(), E> + Sync,
    ) -> Result<(), E>
    where
        I: ExactSizeIterator + Send,
        I::Item: Send,
        E: Send,
    {
        let first: Mutex<Option<E>> = Mutex::new(None);
        self.for_each(items, cost, |item| {
            if let Err(error) = task(item) {
                first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        });
        first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Returns whether the workers are threads of this process, and not of its parent.
    fn has_workers(&self) -> bool {
        self.generation == process::generation()
    }

    /// Returns whether work of this cost is worth distributing now.
    fn pays(&self, workers: &Workers, cost: Duration) -> bool {
        let HandOver { spinning, sleeping } = self.hand_over;
        if cost <= spinning {
            return false;
        }
        if workers.are_spinning() || cost > sleeping {
            return true;
        }
        // Not this time; but if such calls follow each other, the workers spin for the next.
        if workers.missed_before() {
            workers.spin();
        }
        false
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Workers of another process cannot be joined, and a lock of theirs may never be released.
        if !self.has_workers() {
            std::mem::forget(self.workers.take());
        }
    }
}

/// The threads other than the caller.
#[derive(Debug)]
struct Workers {
    pool: rayon::ThreadPool,
    spin_wait: Arc<SpinWait>,
}

/// The state of spin-waiting workers.
#[derive(Debug)]
struct SpinWait {
    start: Instant,
    /// End of spin-waiting, in nanoseconds from the start.
    until: AtomicU64,
    is_active: AtomicBool,
    /// When work was last not distributed because workers slept, in nanoseconds from the start; 0
    /// for never.
    missed: AtomicU64,
}

impl Workers {
    fn new(threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let builder = rayon::ThreadPoolBuilder::new();
        let pool = builder.num_threads(threads).thread_name(|i| format!("aleatron-{i}")).build()?;
        let spin_wait = SpinWait {
            start: Instant::now(),
            until: AtomicU64::new(0),
            is_active: AtomicBool::new(false),
            missed: AtomicU64::new(0),
        };
        Ok(Self { pool, spin_wait: Arc::new(spin_wait) })
    }

    /// Runs `work` on the calling thread and on `helpers` others, until all are done. It is called
    /// once per thread, so that compiling this function for each kind of work would not pay.
    fn run(&self, helpers: usize, work: &(dyn Fn() + Sync)) {
        let busy = AtomicUsize::new(helpers);
        self.pool.in_place_scope(|scope| {
            for _ in 0..helpers {
                scope.spawn(|_| {
                    work();
                    busy.fetch_sub(1, Ordering::Release);
                });
            }
            work();
            // The scope would put this thread to sleep immediately, though the others rarely have
            // much left to do.
            let start = Instant::now();
            for i in 0.. {
                if busy.load(Ordering::Acquire) == 0 || start.elapsed() > SPIN_BEFORE_SLEEP {
                    break;
                }
                pause(i);
            }
            // The workers still have to notify the scope.
            pause(0);
        });
    }

    fn are_spinning(&self) -> bool {
        self.spin_wait.is_active.load(Ordering::Acquire)
    }

    /// Records that work is not distributed to sleeping workers. Returns whether that also happened
    /// a moment ago.
    fn missed_before(&self) -> bool {
        let now = self.spin_wait.now();
        let before = self.spin_wait.missed.swap(now, Ordering::Relaxed);
        before > 0 && now - before.min(now) < WORKER_SPIN.as_nanos() as u64
    }

    /// Makes the workers spin-wait for a while. A sleeping worker takes tens of microseconds to
    /// wake.
    fn spin(&self) {
        let spin_wait = &self.spin_wait;
        spin_wait.until.store(spin_wait.now() + WORKER_SPIN.as_nanos() as u64, Ordering::Relaxed);
        if !spin_wait.is_active.swap(true, Ordering::AcqRel) {
            let spin_wait = Arc::clone(spin_wait);
            self.pool.spawn_broadcast(move |_| spin_wait.run());
        }
    }
}

impl SpinWait {
    /// Returns the nanoseconds from the start.
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Runs work of the pool, and spins in between, until the time is over.
    fn run(&self) {
        thread_local! {
            static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
        }
        // The work may be this function again: without the test it would recurse until the stack
        // overflows.
        if IS_RUNNING.replace(true) {
            return;
        }
        for i in 0.. {
            if rayon::yield_now() == Some(rayon::Yield::Executed) {
                continue;
            }
            pause(i);
            if self.now() > self.until.load(Ordering::Relaxed) {
                break;
            }
        }
        IS_RUNNING.set(false);
        self.is_active.store(false, Ordering::Release);
    }
}

/// Spins for some hundred nanoseconds, for the `i`th time; every eighth time it yields the core.
fn pause(i: u64) {
    (0..16).for_each(|_| std::hint::spin_loop());
    if i % 8 == 7 {
        std::thread::yield_now();
    }
}

/// Returns the number of cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the largest number of threads of a pool: eight for each core, and 64 on small machines.
/// More threads would only contend.
#[must_use]
pub fn max_threads() -> usize {
    cores().saturating_mul(8).max(64).min(rayon::max_num_threads())
}

/// The last requested number of threads; 0 for one per core.
static REQUESTED: AtomicUsize = AtomicUsize::new(0);

/// Returns the current pool of this process: one thread per core unless changed by
/// [`set_num_threads`].
///
/// # Errors
/// Returns [`Error::Threads`] if the system could not start them.
pub fn current() -> Result<Arc<Pool>, Error> {
    let shared = &process::shared().pool;
    if let Some(pool) = &*shared.read().unwrap_or_else(PoisonError::into_inner) {
        return Ok(Arc::clone(pool));
    }
    let mut current = shared.write().unwrap_or_else(PoisonError::into_inner);
    match &*current {
        Some(pool) => Ok(Arc::clone(pool)),
        None => {
            Ok(Arc::clone(current.insert(Arc::new(Pool::new(REQUESTED.load(Ordering::Relaxed))?))))
        }
    }
}

/// Uses `threads` from now on, or one per core for 0. Calls in flight finish on their threads;
/// results do not depend on the number of threads.
///
/// # Errors
/// Returns [`CoreError::TooLarge`] for more than [`max_threads`], [`Error::Threads`] if the system
/// could not start them; the old threads then stay in use.
pub fn set_num_threads(threads: usize) -> Result<(), Error> {
    let pool = Arc::new(Pool::new(threads)?);
    let mut current = process::shared().pool.write().unwrap_or_else(PoisonError::into_inner);
    REQUESTED.store(threads, Ordering::Relaxed);
    let old = current.replace(pool);
    // The lock is released before the old threads end.
    drop(current);
    drop(old);
    Ok(())
}

/// Returns the number of threads in use.
///
/// # Errors
/// Returns [`Error::Threads`] if the system could not start them.
pub fn get_num_threads() -> Result<usize, Error> {
    Ok(current()?.threads())
}

/// Makes this crate usable in the child of a `fork`, in which the threads of the parent do not
/// exist. Must be called in the child before anything else of this crate. The child starts its own
/// threads when it first needs them, as many as were last requested; pools from before the fork
/// work on the calling thread. The child never waits for a lock that a thread of the parent held.
pub fn forget_after_fork() {
    process::forget_after_fork();
}
