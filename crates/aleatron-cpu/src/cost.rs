//! The cost of work on one thread of this machine, measured once per tier, so that small work stays
//! on the calling thread.

use crate::dispatch;
use crate::draws::{DrawSource, Draws};
use crate::tier::Tier;
use aleatron_core::{Length, StreamAddress, Threshold};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Costs in nanoseconds of one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    /// Per pair of words ANDed and counted.
    count: f64,
    /// Per 64 bits encoded.
    encode: f64,
    /// Per 64 bits packed or unpacked.
    pack: f64,
}

/// Number of words of the trial buffers: they fit the first-level cache, so that a trial takes
/// microseconds.
const TRIAL_WORDS: usize = 1024;

impl Costs {
    /// Returns the costs of a tier. If two threads measure at once, the last one to finish wins.
    /// Atomics replace a lock, which a child of a fork could find locked.
    pub(crate) fn of(tier: Tier) -> Self {
        static MEASURED: [Measured; Tier::COUNT] = [const { Measured::new() }; Tier::COUNT];
        let measured = &MEASURED[tier.index()];
        measured.load().unwrap_or_else(|| {
            let costs = Self::measure(tier);
            measured.store(costs);
            costs
        })
    }

    fn measure(tier: Tier) -> Self {
        let mut words = vec![0u64; TRIAL_WORDS];
        let thresholds = [Threshold::from_probability(0.3).unwrap_or_default()];
        let encode = match Length::new(64 * TRIAL_WORDS) {
            Ok(length) => per_word(|| {
                dispatch::encode(
                    tier,
                    &thresholds,
                    length,
                    StreamAddress::input(0, 0, 0),
                    Draws::Generate,
                    &mut words,
                );
            }),
            Err(_) => 0.0,
        };
        let other = words.clone();
        let count = per_word(|| {
            std::hint::black_box(dispatch::and_ones(tier, std::hint::black_box(&words), &other));
        });
        let bits = vec![1; 64 * TRIAL_WORDS];
        let pack = per_word(|| dispatch::pack(tier, std::hint::black_box(&bits), &mut words));
        Self { count, encode, pack }
    }

    /// Returns the cost of ANDing and counting `pairs` pairs of words.
    pub(crate) fn count(self, pairs: usize) -> Duration {
        nanoseconds(self.count * pairs as f64)
    }

    /// Returns the cost of encoding `words` words.
    pub(crate) fn encode(self, words: usize, source: &DrawSource) -> Duration {
        let share = match source {
            DrawSource::Generate | DrawSource::Store(_) => 1.0,
            // An estimate: the exact cost depends on the caches of the processor.
            DrawSource::Cached(_) => 0.4,
        };
        nanoseconds(self.encode * words as f64 * share)
    }

    /// Returns the cost of packing or unpacking `words` words.
    pub(crate) fn pack(self, words: usize) -> Duration {
        nanoseconds(self.pack * words as f64)
    }
}

/// The measured costs of a tier; each is the bits of an `f64`.
struct Measured {
    count: AtomicU64,
    encode: AtomicU64,
    pack: AtomicU64,
    is_known: AtomicBool,
}

impl Measured {
    const fn new() -> Self {
        let [count, encode, pack] = [const { AtomicU64::new(0) }; 3];
        Self { count, encode, pack, is_known: AtomicBool::new(false) }
    }

    fn load(&self) -> Option<Costs> {
        let load = |cost: &AtomicU64| f64::from_bits(cost.load(Ordering::Relaxed));
        self.is_known.load(Ordering::Acquire).then(|| Costs {
            count: load(&self.count),
            encode: load(&self.encode),
            pack: load(&self.pack),
        })
    }

    fn store(&self, costs: Costs) {
        self.count.store(costs.count.to_bits(), Ordering::Relaxed);
        self.encode.store(costs.encode.to_bits(), Ordering::Relaxed);
        self.pack.store(costs.pack.to_bits(), Ordering::Relaxed);
        self.is_known.store(true, Ordering::Release);
    }
}

fn nanoseconds(n: f64) -> Duration {
    // A minute is worth threads however long it really takes, and cannot overflow.
    Duration::from_nanos(n.min(6e10) as u64)
}

/// Returns the nanoseconds per trial word: the best of a few trials, since disturbances only add.
fn per_word(mut work: impl FnMut()) -> f64 {
    let mut once = || {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let best = (0..5).map(|_| once()).min().unwrap_or_default();
    best.as_nanos() as f64 / TRIAL_WORDS as f64
}
