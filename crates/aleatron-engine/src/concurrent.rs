//! Work on threads of its own, while the caller's thread asks whether to go on.

#[cfg(feature = "graph")]
use crate::Result;
use aleatron_core::Cancel;
#[cfg(feature = "graph")]
use aleatron_core::{BackendFault, Error};
use std::sync::Arc;
#[cfg(feature = "graph")]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// How often the caller's thread asks whether to go on.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// What `work` gives for each number below `n`, each on a thread of its own; `None` where one panicked. The caller's thread asks whether
/// to go on, and hands on the answer.
pub(crate) fn on_threads<T: Send>(
    n: usize,
    cancel: Cancel<'_>,
    work: impl Fn(usize, Cancel<'_>) -> T + Sync,
) -> Vec<Option<T>> {
    let stopped = AtomicBool::new(false);
    let is_stopped = || stopped.load(Ordering::Relaxed);
    // Work that nobody can stop need not be cut into pieces that ask.
    let cancel_of_part = if cancel.is_never() { Cancel::NEVER } else { Cancel::when(&is_stopped) };
    let work = &work;
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for k in 0..n {
            let (caller, done) = (std::thread::current(), Done::default());
            let is_done = Arc::clone(&done.0);
            let thread = scope.spawn(move || {
                let made = work(k, cancel_of_part);
                drop(done);
                caller.unpark();
                made
            });
            running.push((thread, is_done));
        }
        while !cancel.is_never() && !running.iter().all(|(_, is_done)| is_done.load(Ordering::Acquire)) {
            if cancel.check().is_err() {
                stopped.store(true, Ordering::Relaxed);
            }
            std::thread::park_timeout(ASK_EVERY);
        }
        running.into_iter().map(|(thread, _): (ScopedJoinHandle<'_, T>, _)| thread.join().ok()).collect()
    })
}

/// What `work` gives for each number below `n`, which several threads take one after the other. After an error no more are begun; of
/// several, the one of the lowest number is given.
#[cfg(feature = "graph")]
pub(crate) fn in_order<T: Send>(
    n: usize,
    n_threads: usize,
    cancel: Cancel<'_>,
    work: impl Fn(usize, Cancel<'_>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let made = on_threads(n_threads.min(n), cancel, |_, cancel| {
        let mut made = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let k = next.fetch_add(1, Ordering::Relaxed);
            if k >= n {
                break;
            }
            let result = work(k, cancel);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            made.push((k, result));
        }
        made
    });
    let mut all = Vec::with_capacity(n);
    for made in made {
        all.extend(made.ok_or_else(|| {
            let (backend, fault) = ("cpu".to_owned(), BackendFault::Failed);
            Error::Backend { backend, fault, message: "a thread panicked".to_owned() }
        })?);
    }
    all.sort_by_key(|(k, _)| *k);
    all.into_iter().map(|(_, made)| made).collect()
}

/// Says that a thread has come to its end, also by a panic.
#[derive(Default)]
struct Done(Arc<AtomicBool>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_panics_are_none() {
        let made = on_threads(3, Cancel::NEVER, |k, _| {
            assert_ne!(k, 1, "this one panics");
            k
        });
        assert_eq!(made, [Some(0), None, Some(2)]);
    }

    #[test]
    fn the_caller_is_asked_and_the_threads_are_told() {
        let caller = std::thread::current().id();
        let ask = || {
            assert_eq!(std::thread::current().id(), caller);
            true
        };
        let made = on_threads(2, Cancel::when(&ask), |_, cancel| {
            while cancel.check().is_ok() {
                std::thread::yield_now();
            }
        });
        assert_eq!(made, [Some(()), Some(())]);
    }

    #[cfg(feature = "graph")]
    #[test]
    fn the_first_error_in_order_is_given() {
        let squares = in_order(20, 3, Cancel::NEVER, |k, _| Ok(k * k)).unwrap();
        assert!(squares.into_iter().eq((0..20).map(|k| k * k)));
        let made: Result<Vec<()>> = in_order(2, 2, Cancel::NEVER, |k, _| {
            let what =
                if k == 0 { aleatron_core::Quantity::Samples } else { aleatron_core::Quantity::Inputs };
            Err(Error::Zero(what).into())
        });
        let expected = Error::Zero(aleatron_core::Quantity::Samples).to_string();
        assert_eq!(made.unwrap_err().to_string(), expected);
    }
}
