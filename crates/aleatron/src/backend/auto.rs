//! The backend that chooses: the CPU or an accelerator, whichever was measured to be faster for a layer and a batch size.

use super::placement::{self, Measurement};
use super::{Backend, Batch, Device, DeviceInfo, PrepareOptions, PreparedLayer, open};
use aleatron_core::backend::{CountMethod, Inputs};
use aleatron_core::{Cancel, Error, LayerSpec, Result, Weights};
use aleatron_cpu::CpuBackend;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

/// Microseconds in which no accelerator has ever answered: a call the CPU makes in less is not worth opening a device for.
const ACCELERATOR_FLOOR_US: f64 = 20.0;

/// Pairs of words below which a call may be so short.
const SMALL_CALL_WORDS: usize = 1 << 18;

/// Chooses among the CPU and the default GPU. A driver that computes on the CPU is never chosen.
#[derive(Debug, Clone, Default)]
pub struct AutoBackend(());

impl AutoBackend {
    /// The backend.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl Backend for AutoBackend {
    fn name(&self) -> String {
        "auto".to_owned()
    }

    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<Box<dyn PreparedLayer>> {
        let cpu = CpuBackend::CURRENT.prepare(spec, weights, options)?;
        // Tables leave so little to do that sending it elsewhere takes longer.
        let stays = options.method.resolve(spec)? == CountMethod::Tables;
        Ok(Box::new(AutoLayer {
            spec: spec.clone(),
            weights: weights.clone(),
            max_batch: options.max_batch,
            cpu,
            stays: AtomicBool::new(stays),
            accelerator: OnceLock::new(),
            choices: RwLock::default(),
            notes: Mutex::default(),
        }))
    }
}

/// A layer on the CPU, and on the accelerator once that is worth measuring.
#[derive(Debug)]
struct AutoLayer {
    spec: LayerSpec,
    weights: Weights,
    max_batch: usize,
    cpu: Box<dyn PreparedLayer>,
    /// Whether nothing but the CPU is tried.
    stays: AtomicBool,
    /// `None` where there is none, or it cannot hold the layer.
    accelerator: OnceLock<Option<Box<dyn PreparedLayer>>>,
    /// By the batch size, rounded up to a power of two.
    choices: RwLock<BTreeMap<usize, Choice>>,
    notes: Mutex<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Cpu,
    Accelerator,
}

impl PreparedLayer for AutoLayer {
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        if self.choice(batch, n_samples, cancel)? == Choice::Accelerator
            && let Some(Some(layer)) = self.accelerator.get()
        {
            match layer.counts(batch, cancel) {
                Err(error) if error.backend_fault().is_some() => self.give_up(&error),
                counts => return counts,
            }
        }
        self.cpu.counts(batch, cancel)
    }

    fn backend_for(&self, n_samples: usize) -> Option<String> {
        match self.known(n_samples)? {
            Choice::Cpu => self.cpu.backend_for(n_samples),
            Choice::Accelerator => self.accelerator.get()?.as_ref()?.backend_for(n_samples),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl AutoLayer {
    fn known(&self, n_samples: usize) -> Option<Choice> {
        if self.stays.load(Ordering::Relaxed) || super::is_forked() {
            return Some(Choice::Cpu);
        }
        let choices = self.choices.read().unwrap_or_else(PoisonError::into_inner);
        choices.get(&n_samples.next_power_of_two()).copied()
    }

    /// The choice for a call, measured on the call itself where it is the first of its kind.
    fn choice(&self, batch: &Batch<'_>, n_samples: usize, cancel: Cancel<'_>) -> Result<Choice> {
        // Streams that are encoded lie in the CPU's memory.
        if n_samples == 0 || matches!(batch.inputs, Inputs::Streams(_) | Inputs::SignedStreams { .. }) {
            return Ok(Choice::Cpu);
        }
        if let Some(choice) = self.known(n_samples) {
            return Ok(choice);
        }
        let choice = self.measured(batch, n_samples, cancel)?;
        let mut choices = self.choices.write().unwrap_or_else(PoisonError::into_inner);
        choices.insert(n_samples.next_power_of_two(), choice);
        Ok(choice)
    }

    fn measured(&self, batch: &Batch<'_>, n_samples: usize, cancel: Cancel<'_>) -> Result<Choice> {
        let time = |layer: &dyn PreparedLayer| placement::time(|| layer.counts(batch, cancel).map(drop));
        // Listing devices alone takes longer than a few such calls.
        let pairs = self.spec.weight_words().saturating_mul(n_samples);
        if pairs < SMALL_CALL_WORDS && time(&*self.cpu)? < ACCELERATOR_FLOOR_US {
            return Ok(Choice::Cpu);
        }
        let Some(info) = super::accelerator() else { return Ok(Choice::Cpu) };
        let cpu = "cpu".to_owned();
        let accelerator = format!("{}, {}", info.name, info.driver);
        let backends = [cpu.clone(), accelerator.clone()];
        let tier = aleatron_cpu::Tier::current()?.name();
        let kind = placement::kind(&self.spec, n_samples, &backends, tier, aleatron_cpu::get_num_threads()?);
        let measurement = match placement::lookup(&kind) {
            Some(measurement) => measurement,
            None => {
                let Some(layer) = self.accelerator(&info) else { return Ok(Choice::Cpu) };
                let mut measurement = Measurement::from([(cpu.clone(), time(&*self.cpu)?)]);
                match time(layer) {
                    Ok(us) => measurement.insert(accelerator.clone(), us),
                    Err(error) if error.backend_fault().is_some() => {
                        self.give_up(&error);
                        return Ok(Choice::Cpu);
                    }
                    Err(error) => return Err(error),
                };
                placement::remember(kind, measurement.clone());
                measurement
            }
        };
        // The winner is of no use where it cannot hold the layer.
        Ok(match placement::fastest(&measurement) {
            Some(name) if name == accelerator && self.accelerator(&info).is_some() => Choice::Accelerator,
            _ => Choice::Cpu,
        })
    }

    /// The layer on the accelerator, prepared on first use.
    fn accelerator(&self, info: &DeviceInfo) -> Option<&dyn PreparedLayer> {
        let prepare = || {
            let options = PrepareOptions { max_batch: self.max_batch, ..PrepareOptions::default() };
            let device: &Device = &info.device;
            let backend = match open(device) {
                Ok(backend) => backend,
                Err(error) => {
                    self.note(format!("{device} is not used: {error}"));
                    return None;
                }
            };
            match backend.prepare(&self.spec, &self.weights, &options) {
                Ok(layer) => Some(layer),
                Err(error) => {
                    self.note(format!("{device} is not used: {error}"));
                    None
                }
            }
        };
        self.accelerator.get_or_init(prepare).as_deref()
    }

    /// Stays on the CPU from now on, and says why.
    fn give_up(&self, error: &Error) {
        self.note(format!("the layer moved to the CPU: {error}"));
        self.stays.store(true, Ordering::Relaxed);
    }

    fn note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
}
