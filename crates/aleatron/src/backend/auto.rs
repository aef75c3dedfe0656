//! The backend that chooses: the CPU or one of the accelerators, whichever was measured to be fastest for a layer and a batch size.

use super::placement::{self, Measurement};
use super::{Backend, Batch, DeviceInfo, PrepareOptions, PreparedLayer, open};
use aleatron_core::backend::{CountMethod, Inputs};
use aleatron_core::{Cancel, Error, LayerSpec, Result, Weights};
use aleatron_cpu::CpuBackend;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

/// Microseconds in which no accelerator has ever answered: a call the CPU makes in less is not worth opening a device for.
const ACCELERATOR_FLOOR_US: f64 = 8.0;

/// Pairs of words below which a call may be so short.
const SMALL_CALL_WORDS: usize = 1 << 18;

/// Chooses among the CPU, the default GPU and the first card of CUDA. A driver that computes on the CPU is never chosen.
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
            accelerators: OnceLock::new(),
            choices: RwLock::default(),
            notes: Mutex::default(),
        }))
    }
}

/// A layer on the CPU, and on the accelerators once those are worth measuring.
#[derive(Debug)]
struct AutoLayer {
    spec: LayerSpec,
    weights: Weights,
    max_batch: usize,
    cpu: Box<dyn PreparedLayer>,
    /// Whether nothing but the CPU is tried.
    stays: AtomicBool,
    /// Those of the machine, once it was asked for them.
    accelerators: OnceLock<Vec<Accelerator>>,
    /// By the batch size, rounded up to a power of two.
    choices: RwLock<BTreeMap<usize, Choice>>,
    notes: Mutex<Vec<String>>,
}

/// A device, and the layer on it.
#[derive(Debug)]
struct Accelerator {
    info: DeviceInfo,
    /// What measurements call it.
    name: String,
    /// Prepared on first use; `None` where it cannot hold the layer.
    layer: OnceLock<Option<Box<dyn PreparedLayer>>>,
}

impl Accelerator {
    fn new(info: DeviceInfo) -> Self {
        let name = format!("{}, {} {}", info.name, info.interface, info.driver);
        Self { info, name, layer: OnceLock::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Cpu,
    /// By its place.
    Accelerator(usize),
}

impl PreparedLayer for AutoLayer {
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        if let Choice::Accelerator(place) = self.choice(batch, n_samples, cancel)?
            && let Some(layer) = self.layer_at(place)
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
            Choice::Accelerator(place) => self.layer_at(place)?.backend_for(n_samples),
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
        let accelerators = self
            .accelerators
            .get_or_init(|| super::accelerators().into_iter().map(Accelerator::new).collect());
        if accelerators.is_empty() {
            return Ok(Choice::Cpu);
        }
        let cpu = "cpu".to_owned();
        let mut backends = vec![cpu.clone()];
        backends.extend(accelerators.iter().map(|accelerator| accelerator.name.clone()));
        let tier = aleatron_cpu::Tier::current()?.name();
        let kind = placement::kind(&self.spec, n_samples, &backends, tier, aleatron_cpu::get_num_threads()?);
        let measurement = match placement::lookup(&kind) {
            Some(measurement) => measurement,
            None => {
                let mut measurement = Measurement::new();
                for accelerator in accelerators {
                    let Some(layer) = self.prepared(accelerator) else { continue };
                    match time(layer) {
                        Ok(us) => drop(measurement.insert(accelerator.name.clone(), us)),
                        Err(error) if error.backend_fault().is_some() => {
                            self.note(format!("{} is not used: {error}", accelerator.info.device));
                        }
                        Err(error) => return Err(error),
                    }
                }
                // What no accelerator can run is not worth a measurement.
                if measurement.is_empty() {
                    return Ok(Choice::Cpu);
                }
                measurement.insert(cpu, time(&*self.cpu)?);
                placement::remember(kind, measurement.clone());
                measurement
            }
        };
        let fastest = placement::fastest(&measurement);
        let place = accelerators.iter().position(|accelerator| fastest == Some(&*accelerator.name));
        // The winner is of no use where it cannot hold the layer.
        Ok(match place {
            Some(place) if self.prepared(&accelerators[place]).is_some() => Choice::Accelerator(place),
            _ => Choice::Cpu,
        })
    }

    /// The layer on the accelerator at a place, if it was prepared.
    fn layer_at(&self, place: usize) -> Option<&dyn PreparedLayer> {
        self.accelerators.get()?.get(place)?.layer.get()?.as_deref()
    }

    /// The layer on an accelerator, prepared on first use.
    fn prepared<'a>(&self, accelerator: &'a Accelerator) -> Option<&'a dyn PreparedLayer> {
        let prepare = || {
            let options = PrepareOptions { max_batch: self.max_batch, ..PrepareOptions::default() };
            let device = &accelerator.info.device;
            let prepared =
                open(device).and_then(|backend| Ok(backend.prepare(&self.spec, &self.weights, &options)?));
            match prepared {
                Ok(layer) => Some(layer),
                Err(error) => {
                    self.note(format!("{device} is not used: {error}"));
                    None
                }
            }
        };
        accelerator.layer.get_or_init(prepare).as_deref()
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
