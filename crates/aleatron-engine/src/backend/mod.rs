//! The processors layers run on: which there are, and how one is opened.
//!
//! Each is a [`Backend`] of [`aleatron_core::backend`]; [`open`] is the one place that knows which
//! crates bring them. [`AutoBackend`] chooses among them by measuring (`placement.rs` keeps what
//! was measured), [`PoolBackend`] makes several of them one, and [`FaultBackend`] adds faults to
//! any of them. Nothing above this module asks which processor it is.

mod auto;
mod cuda;
mod device;
#[cfg(test)]
pub(crate) mod fake;
mod fault;
mod gpu;
pub mod placement;
mod pool;
mod pool_program;

pub use aleatron_core::backend::{
    Backend, Batch, CountMethod, DeviceArray, DeviceArrayMut, DeviceBatch, DeviceElement,
    DeviceStream, InputOrder, Inputs, PrepareOptions, PreparedLayer,
};
pub use aleatron_core::program::KernelTime;
pub use auto::AutoBackend;
pub use device::{DEVICE_VARIABLE, Device};
pub use fault::FaultBackend;
pub use pool::{PoolBackend, Split};

use crate::Result;
use aleatron_core::BackendFault;
use aleatron_core::conformance::Subject;
use aleatron_core::program::{PreparedProgram, Program};
use aleatron_cpu::{Cpu, CpuBackend, CpuProgram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process was forked from one that may have used drivers.
static FORKED: AtomicBool = AtomicBool::new(false);

/// To be called in the child of a fork, before anything else of this library. The child has none of
/// its parent's threads and starts its own when it needs them; drivers do not survive a fork, so
/// that everything but the CPU is refused here, and [`Device::Auto`] is the CPU.
pub fn after_fork() {
    FORKED.store(true, Ordering::Relaxed);
    aleatron_cpu::threads::forget_after_fork();
    gpu::after_fork();
}

/// Whether nothing but the CPU can be used, because the process was forked.
#[must_use]
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Checks that a device can be used in this process; a call to a driver would wait for ever.
pub(crate) fn check_fork(device: &Device) -> Result<()> {
    if device.may_use_host_memory() || !is_forked() {
        return Ok(());
    }
    let message =
        "a device cannot be used in a forked process: start processes with the method \"spawn\"";
    let (backend, fault, message) =
        (device.to_string(), BackendFault::Unavailable, message.to_owned());
    Err(aleatron_core::Error::Backend { backend, fault, message }.into())
}

/// Returns the processor of the host, which encodes weights and inputs for callers that ask for
/// them.
pub(crate) fn host() -> Result<Cpu> {
    Ok(Cpu::current()?)
}

/// Opens a device.
///
/// # Errors
/// [`aleatron_core::Error::Backend`] where there is no such device or this build has no code for
/// it, [`crate::Error::UnknownDevice`] where `ALEATRON_DEVICE` names none.
pub fn open(device: &Device) -> Result<Arc<dyn Backend>> {
    let device = device.resolved()?;
    check_fork(&device)?;
    Ok(match device {
        Device::Auto => Arc::new(AutoBackend::new()),
        Device::Cpu => Arc::new(CpuBackend::CURRENT),
        Device::Gpu(place) => gpu::open(place)?,
        Device::Cuda(place) => cuda::open(place)?,
        Device::Pool(devices) => {
            let backends = devices.iter().map(open).collect::<Result<_>>()?;
            Arc::new(PoolBackend::new(backends, Split::Best)?)
        }
    })
}

/// Prepares a program on a backend: resident if the backend can, otherwise with its layers there
/// and everything between them on the host.
///
/// # Errors
/// As [`Backend::prepare_program`].
pub fn prepare_program(
    backend: &dyn Backend,
    program: &Arc<Program>,
    options: &PrepareOptions<'_>,
) -> aleatron_core::Result<Box<dyn PreparedProgram>> {
    if let Some(prepared) = backend.prepare_program(program, options)? {
        return Ok(prepared);
    }
    let layers =
        program.prepare_layers(|layer| backend.prepare(&layer.spec, &layer.weights, options))?;
    Ok(Box::new(CpuProgram::new(Arc::clone(program), layers, CpuBackend::CURRENT)?))
}

/// A device other than the CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// How to ask for it.
    pub device: Device,
    /// Its name.
    pub name: String,
    /// `discrete`, `integrated`, `virtual`, `other` or `software`.
    pub kind: String,
    /// The interface it is reached through, such as `vulkan`.
    pub interface: String,
    /// Its driver.
    pub driver: String,
    /// The bytes of its largest buffer.
    pub max_buffer_bytes: u64,
    /// The bytes a kernel sees through one binding.
    pub max_binding_bytes: u64,
    /// Whether it is what [`Device::Gpu`] without a place means.
    pub is_default: bool,
    /// Whether it computes on the CPU, so that it is never chosen for speed.
    pub is_software: bool,
}

/// Every device of this machine other than the CPU, software ones too.
#[must_use]
pub fn devices() -> Vec<DeviceInfo> {
    if is_forked() {
        return Vec::new();
    }
    let mut devices = gpu::devices();
    devices.extend(cuda::devices().unwrap_or_default());
    devices
}

/// Returns the description of a device other than the CPU; `None` for several devices and for the
/// CPU.
#[must_use]
pub fn describe(device: &Device) -> Option<DeviceInfo> {
    devices().into_iter().find(|info| match device {
        Device::Gpu(None) => info.is_default,
        device => info.device == *device,
    })
}

/// Why [`Device::Cuda`] cannot be used here; `None` where it can.
#[must_use]
pub fn cuda_absence() -> Option<String> {
    cuda::devices().err()
}

/// The devices that [`Device::Auto`] measures beside the CPU: the default GPU, if it is no driver
/// that computes on the CPU, and the first card of CUDA, though both may be the same.
pub(crate) fn accelerators() -> Vec<DeviceInfo> {
    // Loading drivers takes tens of milliseconds.
    if !(gpu::may_have_hardware() || cuda::may_have_hardware()) {
        return Vec::new();
    }
    devices().into_iter().filter(is_accelerator).collect()
}

fn is_accelerator(info: &DeviceInfo) -> bool {
    (info.is_default && !info.is_software) || info.device == Device::Cuda(0)
}

/// A device for the conformance suite of [`aleatron_core::conformance`].
///
/// # Errors
/// As [`open`].
pub fn subject(device: &Device) -> Result<Box<dyn Subject>> {
    match device.resolved()? {
        Device::Gpu(place) => gpu::subject(place),
        Device::Cuda(place) => cuda::subject(place),
        device => {
            let backend = open(&device)?;
            Ok(Box::new(LayersOf(backend)))
        }
    }
}

/// A backend as far as it runs layers.
struct LayersOf(Arc<dyn Backend>);

impl Subject for LayersOf {
    fn run(
        &self,
        case: &aleatron_core::conformance::Case,
    ) -> Option<aleatron_core::Result<Vec<u64>>> {
        aleatron_core::conformance::run_layers(&*self.0, case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The default GPU, unless it computes on the CPU, and the first card of CUDA.
    #[test]
    fn accelerators_are_faster_than_the_cpu_may_be() {
        for (device, is_default, is_software, expected) in [
            (Device::Gpu(Some(0)), true, false, true),
            (Device::Gpu(Some(0)), true, true, false),
            (Device::Gpu(Some(1)), false, false, false),
            (Device::Gpu(Some(1)), false, true, false),
            (Device::Cuda(0), false, false, true),
            (Device::Cuda(1), false, false, false),
        ] {
            let info = DeviceInfo { is_default, is_software, ..fake::device_info(device) };
            assert_eq!(is_accelerator(&info), expected, "{info:?}");
        }
    }
}
