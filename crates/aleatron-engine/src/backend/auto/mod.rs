//! Automatic choice of a backend: the CPU or one of the accelerators, whichever was measured to be
//! fastest for a layer or a program and a batch size.

mod layer;
mod program;

use super::placement::{self, Measurement};
use super::{Backend, Device, DeviceInfo, PrepareOptions, PreparedLayer, WeightStreams};
use aleatron_core::program::{PreparedProgram, Program};
use aleatron_core::{Error, LayerSpec, Result, Weights};
use aleatron_cpu::CpuBackend;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// A lower bound of the time of any accelerator in microseconds: a shorter call of the CPU is not
/// worth opening a device for.
const ACCELERATOR_FLOOR_US: f64 = 8.0;

/// Number of pairs of words below which a call may be so short.
const SMALL_CALL_WORDS: usize = 1 << 18;

/// Chooses among the CPU, the default GPU and the first CUDA GPU. A driver that computes on the CPU
/// is never chosen.
#[derive(Debug, Clone, Default)]
pub struct AutoBackend(());

impl AutoBackend {
    /// Creates the backend.
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
        Ok(Box::new(layer::AutoLayer::new(spec, weights, options)?))
    }

    fn prepare_program(
        &self,
        program: &Arc<Program>,
        options: &PrepareOptions<'_>,
    ) -> Result<Option<Box<dyn PreparedProgram>>> {
        Ok(Some(Box::new(program::AutoProgram::new(program, options)?)))
    }

    // Accelerators encode the weights that they count, and streams of inputs stay on the CPU.
    fn prepare_streams(
        &self,
        spec: &LayerSpec,
        weights: WeightStreams<'_>,
        options: &PrepareOptions<'_>,
    ) -> Result<Option<Box<dyn PreparedLayer>>> {
        CpuBackend::CURRENT.prepare_streams(spec, weights, options)
    }
}

/// A layer or a program on the CPU, and on accelerators that are worth measuring.
#[derive(Debug)]
struct Chooser<T: ?Sized> {
    cpu: Box<T>,
    /// Whether only the CPU is used.
    stays: AtomicBool,
    /// The accelerators of the machine, once they were listed.
    accelerators: OnceLock<Vec<Accelerator<T>>>,
    /// By the batch size, rounded up to a power of two.
    choices: RwLock<BTreeMap<usize, Choice>>,
    notes: Mutex<Vec<String>>,
}

/// A device with its layer or program.
#[derive(Debug)]
struct Accelerator<T: ?Sized> {
    info: DeviceInfo,
    /// The name in measurements.
    name: String,
    /// Prepared on first use; `None` if the device cannot hold it.
    prepared: OnceLock<Option<Box<T>>>,
}

impl<T: ?Sized> Accelerator<T> {
    fn new(info: DeviceInfo) -> Self {
        let name = format!("{}, {} {}", info.name, info.interface, info.driver);
        Self { info, name, prepared: OnceLock::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Cpu,
    /// The accelerator at this index.
    Accelerator(usize),
}

/// A call for which a backend is chosen.
struct Call<'a, T: ?Sized> {
    n_samples: usize,
    /// The number of pairs of words that it multiplies.
    words: usize,
    /// Returns the name of its kind, given the names of the backends.
    kind: &'a dyn Fn(&[String]) -> Result<String>,
    /// Measures it on a backend in microseconds.
    time: &'a dyn Fn(&T) -> Result<f64>,
    prepare: &'a dyn Fn(&Device) -> crate::Result<Box<T>>,
}

impl<T: ?Sized> Chooser<T> {
    fn new(cpu: Box<T>, stays: bool) -> Self {
        Self {
            cpu,
            stays: AtomicBool::new(stays),
            accelerators: OnceLock::new(),
            choices: RwLock::default(),
            notes: Mutex::default(),
        }
    }

    /// Returns the choice for a batch, if known.
    fn known(&self, n_samples: usize) -> Option<Choice> {
        if self.stays.load(Ordering::Relaxed) || super::is_forked() {
            return Some(Choice::Cpu);
        }
        let choices = self.choices.read().unwrap_or_else(PoisonError::into_inner);
        choices.get(&n_samples.next_power_of_two()).copied()
    }

    /// Returns the choice for a call, measured on the call itself if it is the first of its kind.
    fn choice(&self, call: &Call<'_, T>) -> Result<Choice> {
        if let Some(choice) = self.known(call.n_samples) {
            return Ok(choice);
        }
        let choice = self.measured(call)?;
        let mut choices = self.choices.write().unwrap_or_else(PoisonError::into_inner);
        choices.insert(call.n_samples.next_power_of_two(), choice);
        Ok(choice)
    }

    fn measured(&self, call: &Call<'_, T>) -> Result<Choice> {
        // Listing devices alone takes longer than a few such calls.
        if call.words < SMALL_CALL_WORDS && (call.time)(&self.cpu)? < ACCELERATOR_FLOOR_US {
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
        let kind = (call.kind)(&backends)?;
        let measurement = match placement::lookup(&kind) {
            Some(measurement) => measurement,
            None => {
                let mut measurement = Measurement::new();
                for accelerator in accelerators {
                    let Some(prepared) = self.prepared(accelerator, call.prepare) else { continue };
                    match (call.time)(prepared) {
                        Ok(us) => drop(measurement.insert(accelerator.name.clone(), us)),
                        Err(error) if error.backend_fault().is_some() => {
                            self.note(format!("{} is not used: {error}", accelerator.info.device));
                        }
                        Err(error) => return Err(error),
                    }
                }
                // A call that no accelerator supports is not worth a measurement.
                if measurement.is_empty() {
                    return Ok(Choice::Cpu);
                }
                measurement.insert(cpu, (call.time)(&self.cpu)?);
                placement::remember(kind, measurement.clone());
                measurement
            }
        };
        let fastest = placement::fastest(&measurement);
        let index = accelerators.iter().position(|accelerator| fastest == Some(&*accelerator.name));
        // The winner is useless if it cannot hold the layer.
        Ok(match index {
            Some(index) if self.prepared(&accelerators[index], call.prepare).is_some() => {
                Choice::Accelerator(index)
            }
            _ => Choice::Cpu,
        })
    }

    /// Returns the layer or program on the accelerator at an index, if it was prepared.
    fn at(&self, index: usize) -> Option<&T> {
        self.accelerators.get()?.get(index)?.prepared.get()?.as_deref()
    }

    /// Returns the layer or program on an accelerator, prepared on first use; `None`, with a note
    /// of the reason, if it cannot be prepared.
    fn prepared<'a>(
        &self,
        accelerator: &'a Accelerator<T>,
        prepare: &dyn Fn(&Device) -> crate::Result<Box<T>>,
    ) -> Option<&'a T> {
        let device = &accelerator.info.device;
        let prepared = accelerator.prepared.get_or_init(|| match prepare(device) {
            Ok(prepared) => Some(prepared),
            Err(error) => {
                self.note(format!("{device} is not used: {error}"));
                None
            }
        });
        prepared.as_deref()
    }

    /// Uses only the CPU from now on, and notes the reason.
    fn give_up(&self, error: &Error) {
        self.note(format!("moved to the CPU: {error}"));
        self.stays.store(true, Ordering::Relaxed);
    }

    fn note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
