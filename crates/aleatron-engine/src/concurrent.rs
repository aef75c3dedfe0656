//! Work on separate threads, while the caller's thread polls for cancellation.

use aleatron_core::Cancel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// The interval at which the caller's thread polls for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs `work` for each number below `n`, each on a separate thread, and returns the results;
/// `None` for a panic. The caller's thread polls for cancellation and forwards the result.
pub(crate) fn on_threads<T: Send>(
    n: usize,
    cancel: Cancel<'_>,
    work: impl Fn(usize, Cancel<'_>) -> T + Sync,
) -> Vec<Option<T>> {
    let stopped = AtomicBool::new(false);
    let is_stopped = || stopped.load(Ordering::Relaxed);
    // Work that cannot be cancelled need not be divided into chunks that poll.
    let cancel_of_part = if cancel.is_never() { Cancel::NEVER } else { Cancel::when(&is_stopped) };
    let work = &work;
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for k in 0..n {
            let (caller, done) = (std::thread::current(), Done::default());
            let is_done = Arc::clone(&done.0);
            let thread = scope.spawn(move || {
                let results = work(k, cancel_of_part);
                drop(done);
                caller.unpark();
                results
            });
            running.push((thread, is_done));
        }
        while !cancel.is_never()
            && !running.iter().all(|(_, is_done)| is_done.load(Ordering::Acquire))
        {
            if cancel.check().is_err() {
                stopped.store(true, Ordering::Relaxed);
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
        running
            .into_iter()
            .map(|(thread, _): (ScopedJoinHandle<'_, T>, _)| thread.join().ok())
            .collect()
    })
}

/// Signals the end of a thread, also by a panic.
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
    fn results_are_in_order_and_panics_are_none() {
        let results = on_threads(3, Cancel::NEVER, |k, _| {
            assert_ne!(k, 1, "this one panics");
            k
        });
        assert_eq!(results, [Some(0), None, Some(2)]);
    }

    #[test]
    fn cancellation_is_polled_by_the_caller_and_forwarded_to_threads() {
        let caller = std::thread::current().id();
        let ask = || {
            assert_eq!(std::thread::current().id(), caller);
            true
        };
        let results = on_threads(2, Cancel::when(&ask), |_, cancel| {
            while cancel.check().is_ok() {
                std::thread::yield_now();
            }
        });
        assert_eq!(results, [Some(()), Some(())]);
    }
}
