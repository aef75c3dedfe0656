//! A dense layer that runs where it is told, or where it is faster.

use super::Device;
use crate::{DenseLayer, Result, SampleSeed};

#[cfg(feature = "gpu")]
use super::{
    gpu::{DEFAULT_MAX_BATCH, GpuTwin},
    placement::{self, Measurement, Side},
};
#[cfg(feature = "gpu")]
use aleatron_gpu::{AdapterChoice, AdapterKind};
#[cfg(feature = "gpu")]
use std::{
    collections::BTreeMap,
    sync::{OnceLock, PoisonError, RwLock},
};

/// A dense layer with a place to run. Counts are the same wherever that is.
///
/// ```
/// use aleatron::{DenseLayer, Device, DeviceLayer};
/// let layer = DeviceLayer::new(DenseLayer::new(64, 32, 1024, 1)?, Device::Auto)?;
/// let x = vec![0.25; 64];
/// assert_eq!(layer.counts_batch(&x, 7)?, layer.cpu().counts_batch(&x, 7)?);
/// # Ok::<(), aleatron::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceLayer {
    cpu: DenseLayer,
    device: Device,
    #[cfg(feature = "gpu")]
    gpu: Gpu,
}

#[cfg(feature = "gpu")]
#[derive(Debug, Default)]
struct Gpu {
    /// The weights on the device, once needed; `None` where [`Device::Auto`] found no GPU that can hold them.
    twin: OnceLock<Option<GpuTwin>>,
    /// The faster side by the batch size, rounded up to a power of two.
    sides: RwLock<BTreeMap<usize, Side>>,
}

/// Microseconds in which no GPU has ever answered: a call the CPU makes in less is not worth opening a device for.
#[cfg(feature = "gpu")]
const GPU_FLOOR_US: f64 = 20.0;

/// Pairs of words below which a call may be so short.
#[cfg(feature = "gpu")]
const SMALL_CALL_WORDS: usize = 1 << 18;

impl DeviceLayer {
    /// `cpu` to run on `device`; `ALEATRON_DEVICE` decides for [`Device::Auto`] where it is set.
    ///
    /// # Errors
    /// `Error::Gpu` where `device` is the GPU and there is none or it cannot hold the layer;
    /// [`crate::Error::NotBuilt`] where this build has no GPU support.
    pub fn new(cpu: DenseLayer, device: Device) -> Result<Self> {
        let device = device.resolved()?;
        #[cfg(feature = "gpu")]
        {
            let gpu = Gpu::default();
            if device == Device::Gpu {
                let twin = GpuTwin::new(&cpu, AdapterChoice::from_env(), DEFAULT_MAX_BATCH)?;
                // The cell is new, so this cannot be too late.
                let _ = gpu.twin.set(Some(twin));
            }
            Ok(Self { cpu, device, gpu })
        }
        #[cfg(not(feature = "gpu"))]
        match device {
            Device::Gpu => Err(crate::Error::NotBuilt),
            device => Ok(Self { cpu, device }),
        }
    }

    /// The layer on the CPU.
    #[must_use]
    pub fn cpu(&self) -> &DenseLayer {
        &self.cpu
    }

    /// The device asked for.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Where a batch of `n_samples` runs: [`Device::Cpu`] or [`Device::Gpu`], or [`Device::Auto`] where that has yet to be
    /// measured.
    #[must_use]
    pub fn device_for(&self, n_samples: usize) -> Device {
        #[cfg(feature = "gpu")]
        if self.device == Device::Auto {
            let sides = self.gpu.sides.read().unwrap_or_else(PoisonError::into_inner);
            return match sides.get(&n_samples.next_power_of_two()) {
                Some(Side::Cpu) => Device::Cpu,
                Some(Side::Gpu) => Device::Gpu,
                None => Device::Auto,
            };
        }
        let _ = n_samples;
        match self.device {
            Device::Gpu => Device::Gpu,
            _ => Device::Cpu,
        }
    }

    /// The counts of a batch, row-major of samples by neurons; `values` are samples by inputs.
    ///
    /// # Errors
    /// As [`DenseLayer::counts_batch`], and `Error::Gpu` where the device fails.
    pub fn counts_batch(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<u64>> {
        let seed = seed.into();
        #[cfg(feature = "gpu")]
        {
            let n_samples = self.cpu.shape().samples_in(values.len())?;
            if self.side(values, seed, n_samples)? == Side::Gpu
                && let Some(Some(twin)) = self.gpu.twin.get()
            {
                return twin.counts_batch(&self.cpu, values, seed);
            }
        }
        self.cpu.counts_batch(values, seed)
    }

    /// The values of [`Self::counts_batch`].
    ///
    /// # Errors
    /// As [`Self::counts_batch`].
    pub fn forward_batch(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<f64>> {
        Ok(self.cpu.decode(&self.counts_batch(values, seed)?))
    }

    /// Replaces all weights wherever they are. On an error of the values the old ones stay.
    ///
    /// # Errors
    /// As [`DenseLayer::set_weights`], and `Error::Gpu` where the upload fails.
    pub fn set_weights(&mut self, weights: &[f64]) -> Result<()> {
        self.cpu.set_weights(weights)?;
        #[cfg(feature = "gpu")]
        if let Some(Some(twin)) = self.gpu.twin.get_mut() {
            return twin.weights_changed(&self.cpu);
        }
        Ok(())
    }
}

#[cfg(feature = "gpu")]
impl DeviceLayer {
    /// The side for a call, measured on the call itself where it is the first of its kind.
    fn side(&self, values: &[f64], seed: SampleSeed, n_samples: usize) -> Result<Side> {
        match self.device {
            Device::Cpu => return Ok(Side::Cpu),
            Device::Gpu => return Ok(Side::Gpu),
            Device::Auto => {}
        }
        let batch = n_samples.next_power_of_two();
        let known = self.gpu.sides.read().unwrap_or_else(PoisonError::into_inner).get(&batch).copied();
        if let Some(side) = known {
            return Ok(side);
        }
        let side = self.measured(values, seed, n_samples)?;
        self.gpu.sides.write().unwrap_or_else(PoisonError::into_inner).insert(batch, side);
        Ok(side)
    }

    fn measured(&self, values: &[f64], seed: SampleSeed, n_samples: usize) -> Result<Side> {
        let time_cpu = || placement::time(|| self.cpu.counts_batch(values, seed).map(drop));
        // Listing adapters alone takes longer than a few such calls.
        let pairs = self.cpu.shape().weight_words().saturating_mul(n_samples);
        if pairs < SMALL_CALL_WORDS && time_cpu()? < GPU_FLOOR_US {
            return Ok(Side::Cpu);
        }
        let Ok(adapter) = aleatron_gpu::adapter::find(&AdapterChoice::from_env()) else {
            return Ok(Side::Cpu);
        };
        if adapter.kind == AdapterKind::Software {
            // It computes on the same cores, only slower.
            return Ok(Side::Cpu);
        }
        let threads = crate::get_num_threads()?;
        let kind = placement::kind(self.cpu.shape(), n_samples, &adapter, crate::simd_tier()?, threads);
        let measurement = match placement::lookup(&kind) {
            Some(measurement) => measurement,
            None => {
                let cpu_us = time_cpu()?;
                let Some(twin) = self.twin() else { return Ok(Side::Cpu) };
                let gpu_us = placement::time(|| twin.counts_batch(&self.cpu, values, seed).map(drop))?;
                let measurement = Measurement { cpu_us, gpu_us };
                placement::remember(kind, measurement);
                measurement
            }
        };
        // The winner is of no use where its weights do not fit.
        Ok(match measurement.winner() {
            Side::Gpu if self.twin().is_some() => Side::Gpu,
            _ => Side::Cpu,
        })
    }

    fn twin(&self) -> Option<&GpuTwin> {
        let make = || GpuTwin::new(&self.cpu, AdapterChoice::from_env(), DEFAULT_MAX_BATCH).ok();
        self.gpu.twin.get_or_init(make).as_ref()
    }
}
