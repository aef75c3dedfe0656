//! Work on threads of its own, while the caller's thread asks whether to go on.

use aleatron_core::Cancel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// How often the caller's thread asks whether to go on.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// What `work` gives for each number below `n`, each on a thread of its own; `None` where one
/// panicked. The caller's thread asks whether to go on, and hands on the answer.
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
        while !cancel.is_never()
            && !running.iter().all(|(_, is_done)| is_done.load(Ordering::Acquire))
        {
            if cancel.check().is_err() {
                stopped.store(true, Ordering::Relaxed);
            }
            std::thread::park_timeout(ASK_EVERY);
        }
        running
            .into_iter()
            .map(|(thread, _): (ScopedJoinHandle<'_, T>, _)| thread.join().ok())
            .collect()
    })
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
}
