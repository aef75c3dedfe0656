//! Draws that are used again.
//!
//! The random numbers a stream is compared with depend on its address, not on its probability: a layer called again with the
//! same seed needs the same numbers, whatever its inputs. Making them is most of the work of encoding, so the first eight
//! planes, which decide nearly all bits, are kept from the second such call on. Calls that never repeat a seed keep nothing.

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
/// Encoding again with a seed that was used before takes a third of the time while its draws are kept: 1 byte for each
/// stream bit of the call. Results do not depend on it.
///
/// ```
/// aleatron_cpu::set_draw_memory(16 << 20);
/// assert_eq!(aleatron_cpu::draw_memory(), 16 << 20);
/// ```
pub fn set_draw_memory(bytes: usize) {
    MEMORY.store(bytes, Ordering::Relaxed);
    make_room(&mut called(), 0);
}

/// The bytes of draws kept at most.
#[must_use]
pub fn draw_memory() -> usize {
    MEMORY.load(Ordering::Relaxed)
}

/// All that decides the draws of a call, but for how many rows it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) tier: Tier,
    pub(crate) address: StreamAddress,
    pub(crate) per_row: usize,
    /// Streams that a thread encodes at a time: they decide how draws lie in memory.
    pub(crate) per_item: usize,
    pub(crate) length: Length,
}

/// A call that was made, and its draws if they are kept.
struct Called {
    call: Call,
    rows: usize,
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
    /// The draws of one item of the call after another.
    pub(crate) fn items(&mut self, call: &Call) -> Box<dyn Iterator<Item = Draws<'_>> + '_> {
        let (row_words, item_words) = (call.row_words(), call.words(call.per_item));
        match self {
            Self::Make => Box::new(std::iter::repeat_with(|| Draws::Made)),
            Self::Keep(words) => {
                let rows = words.chunks_mut(row_words);
                Box::new(rows.flat_map(move |row| row.chunks_mut(item_words)).map(Draws::ToKeep))
            }
            Self::Use(words) => {
                let rows = words.chunks(row_words);
                Box::new(rows.flat_map(move |row| row.chunks(item_words)).map(Draws::Kept))
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

    /// What to do about the draws of this call of `rows` rows.
    pub(crate) fn plan(self, rows: usize) -> Plan {
        let words = rows.saturating_mul(self.row_words());
        // Weights are encoded once.
        if self.address.domain != Domain::Input || words == 0 || words > draw_memory() / 8 {
            return Plan::Make;
        }
        let known = {
            let mut called = called();
            let at = called.iter().rposition(|called| called.call == self);
            let mut latest = match at {
                Some(at) => called.remove(at),
                None => Called { call: self, rows: 0, draws: None },
            };
            let known = latest.rows >= rows;
            if !known {
                // More rows than before: the next such call is to keep them all.
                (latest.rows, latest.draws) = (rows, None);
            }
            let draws = latest.draws.clone();
            if called.len() >= CALLS {
                called.remove(0);
            }
            called.push(latest);
            known.then_some(draws)
        };
        match known {
            None => Plan::Make,
            Some(Some(draws)) => Plan::Use(draws),
            // Where there is no memory, nothing is kept.
            Some(None) => WordBuffer::zeroed(words, Quantity::Words).map_or(Plan::Make, Plan::Keep),
        }
    }

    /// Keeps the draws of `rows` rows, if that was the plan.
    pub(crate) fn done(self, rows: usize, plan: Plan) {
        let Plan::Keep(draws) = plan else { return };
        let mut called = called();
        make_room(&mut called, draws.len() * 8);
        if let Some(same) = called.iter_mut().find(|called| called.call == self) {
            (same.rows, same.draws) = (rows, Some(Arc::new(draws)));
        }
    }
}

fn called() -> MutexGuard<'static, Vec<Called>> {
    CALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets draws, the oldest first, until `bytes` more fit.
fn make_room(called: &mut [Called], bytes: usize) {
    let kept = |called: &Called| called.draws.as_ref().map_or(0, |draws| draws.len() * 8);
    let mut total = called.iter().map(kept).sum::<usize>() + bytes;
    for called in called {
        if total <= draw_memory() {
            break;
        }
        total -= kept(called);
        called.draws = None;
    }
}
