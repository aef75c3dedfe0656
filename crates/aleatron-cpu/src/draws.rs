//! An LRU cache of random draws, for calls that repeat a seed.
//!
//! The random numbers that a stream is compared with depend on its address, not on its probability:
//! a layer called again with the same seed needs the same numbers, whatever its inputs. Generating
//! them is most of the work of encoding, so the first planes, which decide nearly all bits, are
//! cached. The first call with a key only records it and the second one stores its draws, so that
//! calls that never repeat a seed store nothing.

use crate::dispatch;
use crate::memory::WordBuffer;
use crate::process::shared;
use crate::tier::Tier;
use aleatron_core::address::Domain;
use aleatron_core::{Length, Quantity, StreamAddress};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

/// The largest number of recorded keys: a few layers' worth.
const MAX_ENTRIES: usize = 32;

/// The default limit of cached draws in bytes; see [`set_draw_memory`].
const DEFAULT_MEMORY: usize = 64 << 20;

static MEMORY: AtomicUsize = AtomicUsize::new(DEFAULT_MEMORY);

/// Limits cached draws in this process to `bytes`; 0 disables the cache. The default is 64 MiB.
///
/// Encoding again with a seed that was used before takes a third of the time while its draws are
/// cached, in 1.5 bytes for each stream bit of the call. Results do not depend on the limit.
///
/// ```
/// aleatron_cpu::set_draw_memory(16 << 20);
/// assert_eq!(aleatron_cpu::get_draw_memory(), 16 << 20);
/// ```
pub fn set_draw_memory(bytes: usize) {
    MEMORY.store(bytes, Ordering::Relaxed);
    // The lock is never held for long.
    let mut cache = shared().draws.lock().unwrap_or_else(PoisonError::into_inner);
    let all = cache.entries.len();
    cache.evict(all, 0, 1);
}

/// Returns the limit of cached draws in bytes.
#[must_use]
pub fn get_draw_memory() -> usize {
    MEMORY.load(Ordering::Relaxed)
}

/// The key of the draws of an encoding, with their layout in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DrawKey {
    pub(crate) tier: Tier,
    pub(crate) address: StreamAddress,
    pub(crate) rows: usize,
    pub(crate) per_row: usize,
    /// Number of streams in a work item: their draws are contiguous.
    pub(crate) per_item: usize,
    pub(crate) length: Length,
}

impl DrawKey {
    /// Returns the number of words of the draws of `streams` streams.
    fn words(&self, streams: usize) -> usize {
        dispatch::first_draws(self.tier, streams, self.length)
    }

    /// Returns the number of words of the draws of a row.
    fn row_words(&self) -> usize {
        let (items, rest) = (self.per_row / self.per_item, self.per_row % self.per_item);
        items.saturating_mul(self.words(self.per_item)).saturating_add(self.words(rest))
    }

    /// Returns the source of the draws of an encoding: the cache, if it has them.
    pub(crate) fn source(self) -> DrawSource {
        let row_words = self.row_words();
        // Weights are encoded once.
        if self.address.domain != Domain::Input || row_words == 0 {
            return DrawSource::Generate;
        }
        // The lock is only tried: the cache only affects speed.
        let Ok(mut cache) = shared().draws.try_lock() else { return DrawSource::Generate };
        match cache.look_up(self) {
            LookUp::Cached(draws) => DrawSource::Cached(draws),
            LookUp::Room { rows: 0 } => DrawSource::Generate,
            LookUp::Room { rows } => {
                drop(cache);
                // If the system has no memory to spare, nothing is stored.
                let buffer = WordBuffer::zeroed(rows * row_words, Quantity::Words);
                buffer.map_or(DrawSource::Generate, DrawSource::Store)
            }
        }
    }

    /// Stores draws that were generated for the cache.
    pub(crate) fn store(self, source: DrawSource) {
        let DrawSource::Store(draws) = source else { return };
        if let Ok(mut cache) = shared().draws.try_lock() {
            cache.store(self, draws);
        }
    }
}

/// The source of the first draws of an encoding.
pub(crate) enum DrawSource {
    /// Draws are generated and not cached.
    Generate,
    /// Draws are generated into this buffer, for the cache.
    Store(WordBuffer),
    /// Draws are cached.
    Cached(Arc<WordBuffer>),
}

/// The source of the first draws of a work item.
pub(crate) enum Draws<'a> {
    /// Draws are generated and not cached.
    Generate,
    /// Draws are generated and written here.
    Store(&'a mut [u64]),
    /// Draws are read from here.
    Cached(&'a [u64]),
}

impl DrawSource {
    /// Returns an endless iterator over the draws of work items: draws of rows beyond the cached
    /// ones are generated.
    pub(crate) fn items(&mut self, key: &DrawKey) -> Box<dyn Iterator<Item = Draws<'_>> + '_> {
        let (row_words, item_words) = (key.row_words(), key.words(key.per_item));
        let generated = std::iter::repeat_with(|| Draws::Generate);
        match self {
            Self::Generate => Box::new(generated),
            Self::Store(words) => {
                let items =
                    words.chunks_mut(row_words).flat_map(move |row| row.chunks_mut(item_words));
                Box::new(items.map(Draws::Store).chain(generated))
            }
            Self::Cached(words) => {
                let items = words.chunks(row_words).flat_map(move |row| row.chunks(item_words));
                Box::new(items.map(Draws::Cached).chain(generated))
            }
        }
    }
}

/// The cache of a process: recorded keys in the order of their last use, most recent last.
pub(crate) struct DrawCache {
    entries: Vec<Entry>,
}

/// A key, and its draws if they are cached.
struct Entry {
    key: DrawKey,
    draws: Option<Arc<WordBuffer>>,
}

/// The result of a look-up.
enum LookUp {
    Cached(Arc<WordBuffer>),
    /// There is room to store the draws of the first `rows` rows.
    Room {
        rows: usize,
    },
}

impl DrawCache {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Looks a key up and makes it the most recent. Evicts draws to make room for its own.
    fn look_up(&mut self, key: DrawKey) -> LookUp {
        let Some(at) = self.entries.iter().rposition(|entry| entry.key == key) else {
            if self.entries.len() >= MAX_ENTRIES {
                self.entries.remove(0);
            }
            self.entries.push(Entry { key, draws: None });
            return LookUp::Room { rows: 0 };
        };
        let entry = self.entries.remove(at);
        let found = match &entry.draws {
            Some(draws) => LookUp::Cached(Arc::clone(draws)),
            // Only draws that were last used before this key are evicted for it. A plain LRU cache
            // would miss every time if keys that do not all fit take turns; here some of them stay.
            None => {
                LookUp::Room { rows: self.evict(at, key.rows, key.row_words().saturating_mul(8)) }
            }
        };
        self.entries.push(entry);
        found
    }

    fn store(&mut self, key: DrawKey, draws: WordBuffer) {
        let all = self.entries.len();
        if self.evict(all, 1, 8 * draws.len()) == 1
            && let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key)
        {
            entry.draws = Some(Arc::new(draws));
        }
    }

    /// Evicts draws of the first `n` entries, least recently used first, until up to `rows` of
    /// `row_bytes` fit. Returns the number of rows that fit.
    fn evict(&mut self, n: usize, rows: usize, row_bytes: usize) -> usize {
        let cached = |entries: &[Entry]| -> usize {
            entries
                .iter()
                .filter_map(|entry| entry.draws.as_ref())
                .map(|draws| 8 * draws.len())
                .sum()
        };
        let memory = get_draw_memory();
        let fitting = rows.min(memory.saturating_sub(cached(&self.entries[n..])) / row_bytes);
        for i in 0..n {
            if cached(&self.entries) + fitting * row_bytes <= memory {
                break;
            }
            self.entries[i].draws = None;
        }
        fitting
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn alternating_keys_stay_cached_as_far_as_they_fit() {
        let length = Length::new(1024).unwrap();
        let key = |seed| DrawKey {
            tier: Tier::best(),
            address: StreamAddress::input(seed, 0, 0),
            rows: 1,
            per_row: 64,
            per_item: 64,
            length,
        };
        set_draw_memory(8 * key(0).row_words() * 5 / 2);
        let caches = usize::from(key(0).row_words() > 0);
        let mut hits = [0; 6];
        for round in &mut hits {
            for seed in 0..3 {
                let source = key(seed).source();
                *round += usize::from(matches!(source, DrawSource::Cached(_)));
                key(seed).store(source);
            }
        }
        // Recorded, stored, and then two of three are found every time (by a tier that caches any).
        assert_eq!(hits, [0, 0, 2, 2, 2, 2].map(|n| n * caches));
        // The draws are evicted for keys that are used instead.
        let other = DrawKey { rows: 2, ..key(9) };
        let hits = [(); 3].map(|()| {
            let source = other.source();
            let hit = matches!(source, DrawSource::Cached(_));
            other.store(source);
            hit
        });
        assert_eq!(hits, [false, false, caches > 0]);
        // Without memory, nothing that was stored before is found.
        set_draw_memory(0);
        assert!(matches!(other.source(), DrawSource::Generate));
        set_draw_memory(DEFAULT_MEMORY);
    }
}
