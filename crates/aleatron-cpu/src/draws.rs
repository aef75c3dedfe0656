//! Draws that are used again.
//!
//! The random numbers a stream is compared with depend on its address, not on its probability: a layer called again with the
//! same seed needs the same numbers, whatever its inputs. Making them is most of the work of encoding, so the first planes,
//! which decide nearly all bits, are kept from the second such call on. Calls that never repeat a seed keep nothing.

use crate::dispatch;
use crate::memory::WordBuffer;
use crate::tier::Tier;
use aleatron_core::address::Domain;
use aleatron_core::{Length, Quantity, StreamAddress};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the first draws of an encoding come from.
pub(crate) enum Draws<'a> {
    /// They are made and forgotten.
    Made,
    /// They are made and written here.
    ToKeep(&'a mut [u64]),
    /// They were made and written here before.
    Kept(&'a [u64]),
}

/// Calls that are remembered: a few layers' worth.
const CALLS: usize = 32;

/// The bytes of kept draws at most, until [`set_draw_memory`] says otherwise.
const DEFAULT_MEMORY: usize = 64 << 20;

static MEMORY: AtomicUsize = AtomicUsize::new(DEFAULT_MEMORY);

/// The last calls, the latest last.
static CALLED: Mutex<Vec<Called>> = Mutex::new(Vec::new());

/// Keeps at most `bytes` of draws in this process, and none for 0; 64 MiB until this is called.
///
/// Encoding again with a seed that was used before takes a third of the time while its draws are kept, in 1.5 bytes for
/// each stream bit of the call. Results do not depend on it.
///
/// ```
/// aleatron_cpu::set_draw_memory(16 << 20);
/// assert_eq!(aleatron_cpu::get_draw_memory(), 16 << 20);
/// ```
pub fn set_draw_memory(bytes: usize) {
    MEMORY.store(bytes, Ordering::Relaxed);
    // Nobody is at them for longer than a moment.
    let mut called = CALLED.lock().unwrap_or_else(PoisonError::into_inner);
    let all = called.len();
    make_room(&mut called, all, 0, 1);
}

/// The bytes of draws kept at most.
#[must_use]
pub fn get_draw_memory() -> usize {
    MEMORY.load(Ordering::Relaxed)
}

/// All that decides the draws of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) tier: Tier,
    pub(crate) address: StreamAddress,
    pub(crate) rows: usize,
    pub(crate) per_row: usize,
    /// Streams that a thread encodes at a time: they decide how draws lie in memory.
    pub(crate) per_item: usize,
    pub(crate) length: Length,
}

/// A call that was made, and its draws if they are kept.
struct Called {
    call: Call,
    draws: Option<Arc<WordBuffer>>,
}

/// What is to be done about the draws of a call.
pub(crate) enum Plan {
    /// Make them.
    Make,
    /// Make and keep them.
    Keep(WordBuffer),
    /// Use these.
    Use(Arc<WordBuffer>),
}

impl Plan {
    /// The draws of one item of the call after another, without end: those of rows past the kept ones are made.
    pub(crate) fn items(&mut self, call: &Call) -> Box<dyn Iterator<Item = Draws<'_>> + '_> {
        let (row_words, item_words) = (call.row_words(), call.words(call.per_item));
        let made = std::iter::repeat_with(|| Draws::Made);
        match self {
            Self::Make => Box::new(made),
            Self::Keep(words) => {
                let items = words.chunks_mut(row_words).flat_map(move |row| row.chunks_mut(item_words));
                Box::new(items.map(Draws::ToKeep).chain(made))
            }
            Self::Use(words) => {
                let items = words.chunks(row_words).flat_map(move |row| row.chunks(item_words));
                Box::new(items.map(Draws::Kept).chain(made))
            }
        }
    }
}

impl Call {
    /// The words that the draws of `streams` streams take.
    fn words(&self, streams: usize) -> usize {
        dispatch::first_draws(self.tier, streams, self.length)
    }

    /// The words that the draws of a row take.
    fn row_words(&self) -> usize {
        let (items, rest) = (self.per_row / self.per_item, self.per_row % self.per_item);
        items.saturating_mul(self.words(self.per_item)).saturating_add(self.words(rest))
    }

    /// What to do about the draws of this call.
    pub(crate) fn plan(self) -> Plan {
        let row_words = self.row_words();
        // Weights are encoded once.
        if self.address.domain != Domain::Input || row_words == 0 {
            return Plan::Make;
        }
        let Some(mut called) = called() else { return Plan::Make };
        let Some(at) = called.iter().rposition(|called| called.call == self) else {
            if called.len() >= CALLS {
                called.remove(0);
            }
            called.push(Called { call: self, draws: None });
            return Plan::Make;
        };
        let again = called.remove(at);
        let kept = again.draws.clone();
        // Draws that were used since this call was last made are not forgotten for it: where calls take turns that do not
        // all fit, some are kept for good rather than each until the next.
        let rows = match kept {
            Some(_) => 0,
            None => make_room(&mut called, at, self.rows, row_words.saturating_mul(8)),
        };
        called.push(again);
        drop(called);
        match kept {
            Some(draws) => Plan::Use(draws),
            None if rows == 0 => Plan::Make,
            // Where the system has no memory to spare, nothing is kept.
            None => WordBuffer::zeroed(rows * row_words, Quantity::Words).map_or(Plan::Make, Plan::Keep),
        }
    }

    /// Keeps the draws that were made, if that was the plan.
    pub(crate) fn done(self, plan: Plan) {
        let Plan::Keep(draws) = plan else { return };
        let Some(mut called) = called() else { return };
        let all = called.len();
        if make_room(&mut called, all, 1, 8 * draws.len()) == 1
            && let Some(same) = called.iter_mut().find(|called| called.call == self)
        {
            same.draws = Some(Arc::new(draws));
        }
    }
}

/// The calls, unless another thread is at them: nobody waits for what is only a matter of speed, least of all the child of a
/// process that was forked just then.
fn called() -> Option<MutexGuard<'static, Vec<Called>>> {
    CALLED.try_lock().ok()
}

/// Forgets draws, the oldest first and those of the first `n` calls at most, for `rows` of `row_bytes` to fit; how many do.
fn make_room(called: &mut [Called], n: usize, rows: usize, row_bytes: usize) -> usize {
    let kept = |called: &[Called]| -> usize {
        called.iter().filter_map(|called| called.draws.as_ref()).map(|draws| 8 * draws.len()).sum()
    };
    let memory = get_draw_memory();
    let fitting = rows.min(memory.saturating_sub(kept(&called[n..])) / row_bytes);
    for i in 0..n {
        if kept(called) + fitting * row_bytes <= memory {
            break;
        }
        called[i].draws = None;
    }
    fitting
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn calls_that_take_turns_keep_as_many_draws_as_fit() {
        let length = Length::new(1024).unwrap();
        let call = |seed| Call {
            tier: Tier::best(),
            address: StreamAddress::input(seed, 0, 0),
            rows: 1,
            per_row: 64,
            per_item: 64,
            length,
        };
        set_draw_memory(8 * call(0).row_words() * 5 / 2);
        let kept = usize::from(call(0).row_words() > 0);
        let mut used = [0; 6];
        for round in &mut used {
            for seed in 0..3 {
                let plan = call(seed).plan();
                *round += usize::from(matches!(plan, Plan::Use(_)));
                call(seed).done(plan);
            }
        }
        // Seen, kept, and then two of three are used every time (by a tier that keeps any).
        assert_eq!(used, [0, 0, 2, 2, 2, 2].map(|n| n * kept));
        // They give way to calls that are made instead.
        let other = Call { rows: 2, ..call(9) };
        let used = [(); 3].map(|()| {
            let plan = other.plan();
            let used = matches!(plan, Plan::Use(_));
            other.done(plan);
            used
        });
        assert_eq!(used, [false, false, kept > 0]);
        // Without memory nothing is used that was kept before.
        set_draw_memory(0);
        assert!(matches!(other.plan(), Plan::Make));
        set_draw_memory(DEFAULT_MEMORY);
    }
}
