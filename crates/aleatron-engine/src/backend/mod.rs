//! The processors that layers run on: their list, and how they are opened.
//!
//! Each is a [`Backend`] of [`aleatron_core::backend`]; [`open`] is the only function that knows
//! their crates. [`AutoBackend`] chooses among them by measurements, which `placement.rs` caches,
//! [`PoolBackend`] combines several of them, and [`FaultBackend`] adds faults to any of them. Code
//! above this module does not depend on the processor.

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
    DeviceStream, InputOrder, Inputs, PrepareOptions, PreparedLayer, WeightStreams,
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

/// Resets the library in the child of a fork. Must be called before anything else of this library.
/// The child lacks its parent's threads and starts its own when it needs them; drivers do not
/// survive a fork, so every device except the CPU is rejected, and [`Device::Auto`] is the CPU.
pub fn after_fork() {
    FORKED.store(true, Ordering::Relaxed);
    aleatron_cpu::threads::forget_after_fork();
    gpu::after_fork();
}

/// Returns whether only the CPU can be used, because the process was forked.
#[must_use]
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Checks that a device can be used in this process; a call to a driver would hang.
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
/// Returns [`aleatron_core::Error::Backend`] if there is no such device or this build does not
/// support it, [`crate::Error::UnknownDevice`] if `ALEATRON_DEVICE` is not a device.
pub fn open(device: &Device) -> Result<Arc<dyn Backend>> {
    let device = device.resolved()?;
    check_fork(&device)?;
    Ok(match device {
        Device::Auto => Arc::new(AutoBackend::new()),
        Device::Cpu => Arc::new(CpuBackend::CURRENT),
        Device::Gpu(index) => gpu::open(index)?,
        Device::Cuda(index) => cuda::open(index)?,
        Device::Pool(devices) => {
            let backends = devices.iter().map(open).collect::<Result<_>>()?;
            Arc::new(PoolBackend::new(backends, Split::Best)?)
        }
    })
}

/// Prepares a program on a backend: resident if supported, otherwise with its layers on the backend
/// and the steps between them on the host.
///
/// # Errors
/// As for [`Backend::prepare_program`].
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
    /// The device by which it is selected.
    pub device: Device,
    /// Its name.
    pub name: String,
    /// `discrete`, `integrated`, `virtual`, `other` or `software`.
    pub kind: String,
    /// The graphics or compute interface, such as `vulkan`.
    pub interface: String,
    /// Its driver.
    pub driver: String,
    /// The size of its largest buffer in bytes.
    pub max_buffer_bytes: u64,
    /// The size of its largest binding in bytes.
    pub max_binding_bytes: u64,
    /// Whether [`Device::Gpu`] without an index selects it.
    pub is_default: bool,
    /// Whether it computes on the CPU, so that it is never chosen for speed.
    pub is_software: bool,
}

/// Returns all devices of this machine other than the CPU, including software ones.
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

/// Returns why [`Device::Cuda`] cannot be used here; `None` if it can.
#[must_use]
pub fn cuda_absence() -> Option<String> {
    cuda::devices().err()
}

/// Returns the devices that [`Device::Auto`] measures besides the CPU: the default GPU, unless its
/// driver computes on the CPU, and the first CUDA GPU, though both may be the same.
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

/// Opens a device as a subject of the conformance suite of [`aleatron_core::conformance`].
///
/// # Errors
/// As for [`open`].
pub fn subject(device: &Device) -> Result<Box<dyn Subject>> {
    match device.resolved()? {
        Device::Gpu(index) => gpu::subject(index),
        Device::Cuda(index) => cuda::subject(index),
        device => {
            let backend = open(&device)?;
            Ok(Box::new(LayersOf(backend)))
        }
    }
}

/// A backend restricted to layers.
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

    /// The default GPU, unless it computes on the CPU, and the first CUDA GPU.
    #[test]
    fn accelerators_exclude_software_devices() {
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
