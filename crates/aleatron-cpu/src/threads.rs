//! Threads: a pool that the calling thread works in too, and that can be replaced at any time.
//!
//! Work is cut into items that any thread may take; which one takes which decides nothing but time. Work that costs
//! less than handing some of it over stays on the calling thread; what it costs is measured, see `cost.rs`. Handing over is
//! cheap only while the threads are awake, so they stay so for a moment after each operation, waiting for the next.

use crate::error::Error;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long threads stay awake after an operation: most programs call again sooner, and waking them takes longer than
/// many an operation.
const AWAKE: Duration = Duration::from_micros(200);

/// How long a caller that has run out of work looks for the others to finish before it goes to sleep.
const PATIENCE: Duration = Duration::from_micros(100);

/// A pool of threads. The caller of an operation is one of them, so a pool of one has no thread of its own.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
    workers: Option<Workers>,
    hand_over: HandOver,
}

/// What work must cost for handing some of it over to pay.
///
/// Not measured: what a machine does in the first microseconds of a process says little about later.
#[derive(Debug, Clone, Copy)]
struct HandOver {
    awake: Duration,
    asleep: Duration,
}

impl HandOver {
    /// Some times 1 to 3 us, and 15 to 30 us where a thread must be woken.
    const USUAL: Self = Self { awake: Duration::from_micros(10), asleep: Duration::from_micros(50) };

    /// Whatever work costs.
    const NOTHING: Self = Self { awake: Duration::ZERO, asleep: Duration::ZERO };
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
        let workers = match threads {
            1 => None,
            _ => Some(
                Workers::new(threads - 1).map_err(|e| Error::Threads { threads, reason: e.to_string() })?,
            ),
        };
        Ok(Self { threads, workers, hand_over: HandOver::USUAL })
    }

    /// A pool that shares out all work, however small, as if that cost nothing: for tests of its results.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn eager(threads: usize) -> Result<Self, Error> {
        Ok(Self { hand_over: HandOver::NOTHING, ..Self::new(threads)? })
    }

    /// The threads, the calling one included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `task` on every item, on the calling thread and as many others as pay, and returns when all are done. Any thread
    /// may take any item, in the order in which the iterator gives them; a few large ones for each thread are best.
    ///
    /// `cost` is about what all items would take on one thread. Where that does not pay for handing some over, the caller
    /// does them all; below some ten microseconds it always does.
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
    /// Where `task` does: on another thread, the panic is passed on to the caller once the others are done.
    pub fn for_each<I>(&self, items: I, cost: Duration, task: impl Fn(I::Item) + Sync)
    where
        I: ExactSizeIterator + Send,
        I::Item: Send,
    {
        // Each thread is to have something to do.
        let most = cost.as_nanos() / self.hand_over.awake.as_nanos().max(1);
        let helpers = (self.threads - 1).min(items.len().saturating_sub(1)).min(most as usize);
        match &self.workers {
            Some(workers) if helpers > 0 && self.pays(workers, cost) => {
                let queue = Mutex::new(items);
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                workers.run(helpers, || std::iter::from_fn(next).for_each(&task));
                workers.stay_awake();
            }
            _ => items.for_each(task),
        }
    }

    /// Whether work of this cost is worth handing over now.
    fn pays(&self, workers: &Workers, cost: Duration) -> bool {
        let HandOver { awake, asleep } = self.hand_over;
        if cost <= awake {
            return false;
        }
        if workers.are_awake() || cost > asleep {
            return true;
        }
        // Not this time; but where one such call follows another, it is for the next.
        if workers.was_wanted() {
            workers.stay_awake();
        }
        false
    }
}

/// The threads beside the caller.
#[derive(Debug)]
struct Workers {
    pool: rayon::ThreadPool,
    wakefulness: Arc<Wakefulness>,
}

/// Until when the workers stay awake.
#[derive(Debug)]
struct Wakefulness {
    start: Instant,
    /// Nanoseconds from the start.
    until: AtomicU64,
    awake: AtomicBool,
    /// When they would last have been of use had they been awake, in nanoseconds from the start.
    wanted: AtomicU64,
}

impl Workers {
    fn new(threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let builder = rayon::ThreadPoolBuilder::new();
        let pool = builder.num_threads(threads).thread_name(|i| format!("aleatron-{i}")).build()?;
        let wakefulness = Wakefulness {
            start: Instant::now(),
            until: AtomicU64::new(0),
            awake: AtomicBool::new(false),
            wanted: AtomicU64::new(0),
        };
        Ok(Self { pool, wakefulness: Arc::new(wakefulness) })
    }

    /// Runs `work` on the calling thread and on `helpers` others, until all are done.
    fn run(&self, helpers: usize, work: impl Fn() + Sync) {
        let busy = AtomicUsize::new(helpers);
        self.pool.in_place_scope(|scope| {
            for _ in 0..helpers {
                scope.spawn(|_| {
                    work();
                    busy.fetch_sub(1, Ordering::Release);
                });
            }
            work();
            // The scope would put this thread to sleep at once, though the others have seldom much left to do.
            let start = Instant::now();
            for i in 0.. {
                if busy.load(Ordering::Acquire) == 0 || start.elapsed() > PATIENCE {
                    break;
                }
                pause(i);
            }
            // They still have to tell the scope.
            pause(0);
        });
    }

    fn are_awake(&self) -> bool {
        self.wakefulness.awake.load(Ordering::Acquire)
    }

    /// Whether they would have been of use a moment ago; they would be now.
    fn was_wanted(&self) -> bool {
        let now = self.wakefulness.now();
        let before = self.wakefulness.wanted.swap(now, Ordering::Relaxed);
        before > 0 && now - before.min(now) < AWAKE.as_nanos() as u64
    }

    /// Keeps the workers looking for work for a while. A worker that sleeps takes tens of microseconds to wake.
    fn stay_awake(&self) {
        let wakefulness = &self.wakefulness;
        wakefulness.until.store(wakefulness.now() + AWAKE.as_nanos() as u64, Ordering::Relaxed);
        if !wakefulness.awake.swap(true, Ordering::AcqRel) {
            let wakefulness = Arc::clone(wakefulness);
            self.pool.spawn_broadcast(move |_| wakefulness.keep());
        }
    }
}

impl Wakefulness {
    /// Nanoseconds from the start.
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Does whatever the pool is given to do until the time is over.
    fn keep(&self) {
        thread_local! {
            static KEEPING: Cell<bool> = const { Cell::new(false) };
        }
        // What the pool is given may be this again; once at a time is enough, and any number would fill the stack.
        if KEEPING.replace(true) {
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
        KEEPING.set(false);
        self.awake.store(false, Ordering::Release);
    }
}

/// Lets some hundred nanoseconds pass for the `i`th time, and now and then whoever else wants this core have it.
fn pause(i: u64) {
    (0..16).for_each(|_| std::hint::spin_loop());
    if i % 8 == 7 {
        std::thread::yield_now();
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
