//! Measurements of backends, taken once for each kind of call and cached on disk.
//!
//! A kind is a layer's spec, a batch size up to the next power of two, and everything that affects
//! speed: the version of Aleatron, the backends with their drivers, the SIMD tier and the threads.
//! The first call of a kind runs on every backend, several times, and the fastest is recorded; all
//! results are equal. The cache is a small JSON file in `ALEATRON_CACHE`, otherwise in the user's
//! cache folder; if it cannot be written, measurements last as long as the process.

use crate::VERSION;
use aleatron_core::{Encoding, InputSource, LayerSpec, WeightSource};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The environment variable with the folder of the cache.
pub const CACHE_VARIABLE: &str = "ALEATRON_CACHE";

/// Number of timed runs of each backend: the best of these counts.
const TRIES: usize = 3;

/// Time after which no further run is started.
const ENOUGH: Duration = Duration::from_millis(300);

/// The time of each backend in microseconds, by name; all of them are recorded, so that a choice
/// can be explained.
pub type Measurement = BTreeMap<String, f64>;

/// Returns the fastest backend of a measurement.
#[must_use]
pub fn fastest(measurement: &Measurement) -> Option<&str> {
    measurement.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(name, _)| name.as_str())
}

/// Returns the best time of a few runs in microseconds, after a warm-up run.
///
/// # Errors
/// Returns the error of the first failing run.
pub fn time<E>(mut work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    work()?;
    let (first, mut best) = (Instant::now(), Duration::MAX);
    for _ in 0..TRIES {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed());
        if first.elapsed() > ENOUGH {
            break;
        }
    }
    Ok(best.as_secs_f64() * 1e6)
}

/// Returns the name of a kind of call.
#[must_use]
pub fn kind(
    spec: &LayerSpec,
    n_samples: usize,
    backends: &[String],
    tier: &str,
    threads: usize,
) -> String {
    let (n_inputs, n_neurons, bits) = (spec.n_inputs(), spec.n_neurons(), spec.length().bits());
    let (n_weights, polarity, batch) =
        (spec.n_weights(), spec.polarity(), n_samples.next_power_of_two());
    let encoding = match spec.encoding() {
        Encoding::Sequences(pairing) => {
            format!("{} {}", pairing.sharing, pairing.inputs.width().bits())
        }
        mixed => match (mixed.input_source(), mixed.weight_source()) {
            (InputSource::Sequences(inputs), _) => format!("{}+bernoulli", inputs.sharing),
            (_, WeightSource::Sequences(weights)) => format!("bernoulli+{}", weights.sharing),
            _ => "bernoulli".to_owned(),
        },
    };
    format!(
        "{VERSION} | {n_inputs}x{n_neurons} ({n_weights}) L{bits} {polarity} {encoding} batch {batch} | {tier}, {threads} threads | {}",
        backends.join(" | ")
    )
}

/// Returns the measurement of a kind of call, if known.
#[must_use]
pub fn lookup(kind: &str) -> Option<Measurement> {
    cache().known.get(kind).cloned()
}

/// Records the measurement of a kind of call.
pub fn remember(kind: String, measurement: Measurement) {
    let mut cache = cache();
    cache.known.insert(kind, measurement);
    // A failed write costs only a measurement in the next process.
    let _ = cache.save();
}

/// The measurements of this process and of the file.
#[derive(Debug)]
struct Cache {
    file: Option<PathBuf>,
    known: BTreeMap<String, Measurement>,
}

fn cache() -> MutexGuard<'static, Cache> {
    static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(|| Mutex::new(Cache::load()));
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cache {
    fn load() -> Self {
        let file = folder().map(|folder| folder.join("placement.json"));
        // A missing or invalid file is equivalent to an empty one: everything in it can be measured
        // again.
        let text = file.as_deref().and_then(|file| std::fs::read_to_string(file).ok());
        let known = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Self { file, known }
    }

    fn save(&self) -> std::io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        aleatron_core::file::replace(file, &serde_json::to_vec_pretty(&self.known)?)
    }
}

fn folder() -> Option<PathBuf> {
    let variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable(CACHE_VARIABLE)
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("aleatron")))
        .or_else(|| variable("HOME").map(|folder| folder.join(".cache/aleatron")))
        .or_else(|| variable("LOCALAPPDATA").map(|folder| folder.join("aleatron")))
}
