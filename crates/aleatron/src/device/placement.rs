//! Which side is faster, measured once for each kind of call and remembered on disk.
//!
//! A kind is a layer's shape, a batch size up to the next power of two, and everything that decides speed: the adapter with its
//! driver, the SIMD tier and the threads. The first call of a kind runs on both sides, several times, and keeps the faster; its
//! result is the same either way. The cache is a small JSON file in `ALEATRON_CACHE`, else the user's cache folder; without a
//! place to write it, measurements last as long as the process.

use aleatron_core::DenseShape;
use aleatron_gpu::AdapterInfo;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The environment variable that names the folder of the cache.
pub const CACHE_VARIABLE: &str = "ALEATRON_CACHE";

/// How often each side is timed: the best of these counts.
const TRIES: usize = 3;

/// A side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The CPU.
    Cpu,
    /// The GPU.
    Gpu,
}

/// What was measured for one kind of call; kept in full, so that a choice can be explained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Microseconds on the CPU.
    pub cpu_us: f64,
    /// Microseconds on the GPU.
    pub gpu_us: f64,
}

impl Measurement {
    /// The faster side.
    #[must_use]
    pub fn winner(&self) -> Side {
        if self.gpu_us < self.cpu_us { Side::Gpu } else { Side::Cpu }
    }
}

/// The best time of a few runs in microseconds; one run before them only warms up.
///
/// # Errors
/// That of the first run to fail.
pub fn time<E>(mut work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    work()?;
    let mut best = Duration::MAX;
    for _ in 0..TRIES {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed());
    }
    Ok(best.as_secs_f64() * 1e6)
}

/// The name of a kind of call.
#[must_use]
pub fn kind(
    shape: &DenseShape,
    n_samples: usize,
    adapter: &AdapterInfo,
    tier: &str,
    threads: usize,
) -> String {
    let AdapterInfo { name, driver, driver_info, .. } = adapter;
    let (n_inputs, n_neurons, bits) = (shape.n_inputs(), shape.n_neurons(), shape.length().bits());
    let (polarity, batch) = (shape.polarity(), n_samples.next_power_of_two());
    format!(
        "{n_inputs}x{n_neurons} L{bits} {polarity:?} batch {batch} | {tier}, {threads} threads | {name}, {driver} {driver_info}"
    )
}

/// What is known of a kind of call.
#[must_use]
pub fn lookup(kind: &str) -> Option<Measurement> {
    cache().known.get(kind).copied()
}

/// Remembers what was measured for a kind of call.
pub fn remember(kind: String, measurement: Measurement) {
    let mut cache = cache();
    cache.known.insert(kind, measurement);
    // Not being able to write costs a measurement in the next process, nothing else.
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
        // A file that is missing or not ours is as good as an empty one: everything in it can be measured again.
        let text = file.as_deref().and_then(|file| std::fs::read_to_string(file).ok());
        let known = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Self { file, known }
    }

    /// Writes a new file beside the old one and swaps them, so that no reader ever sees half of one.
    fn save(&self) -> std::io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let new = file.with_extension(format!("{}.tmp", std::process::id()));
        std::fs::write(&new, serde_json::to_vec_pretty(&self.known)?)?;
        std::fs::rename(&new, file)
    }
}

fn folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable(CACHE_VARIABLE)
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("aleatron")))
        .or_else(|| variable("HOME").map(|folder| folder.join(".cache/aleatron")))
        .or_else(|| variable("LOCALAPPDATA").map(|folder| folder.join("aleatron")))
}
