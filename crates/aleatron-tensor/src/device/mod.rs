//! Devices of tensors.

mod auto;

pub use auto::{AutoDevice, Work};

use std::fmt;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::gpu::GpuDevice;

/// The largest number of elements of a tensor on a GPU, and the largest size that kernels count:
/// indices have 32 bits, and those of a last, half-empty vector, tile or workgroup must not wrap
/// either.
pub(crate) const MAX_ELEMENTS: usize = u32::MAX as usize - (1 << 16);

/// The device that stores a tensor and runs the operations on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// The host.
    Cpu,
    /// A GPU. No value of this variant exists in builds without the cargo feature `gpu`.
    Gpu(GpuDevice),
}

impl Device {
    /// Returns the GPU that the environment names (`ALEATRON_GPU`, `SC_GPU_ADAPTER`), otherwise the
    /// fastest one. A software adapter is used only if it is named.
    ///
    /// # Errors
    /// `Error::Device` if there is none, or it opens no device; [`Error::NoGpuSupport`] in builds
    /// without the cargo feature `gpu`.
    pub fn gpu() -> Result<Self> {
        GpuDevice::named(None).map(Self::Gpu)
    }

    /// Returns the device with this name: `cpu`, `gpu`, `gpu:` and the index of an adapter, or
    /// `gpu:` and a part of its name.
    ///
    /// ```
    /// use aleatron_tensor::Device;
    /// assert_eq!(Device::named("cpu")?, Device::Cpu);
    /// assert!(Device::named("tpu").is_err());
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Name`] for another name, or as [`Self::gpu`].
    pub fn named(name: &str) -> Result<Self> {
        let is = |kind: &str, expected: &str| kind.eq_ignore_ascii_case(expected);
        match name.split_once(':') {
            None if is(name, "cpu") => Ok(Self::Cpu),
            None if is(name, "gpu") => Self::gpu(),
            Some((kind, adapter)) if is(kind, "gpu") && !adapter.is_empty() => {
                GpuDevice::named(Some(adapter)).map(Self::Gpu)
            }
            _ => Err(Error::Name { what: "device", name: name.to_owned() }),
        }
    }

    /// Returns whether the device is a GPU.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        matches!(self, Self::Gpu(_))
    }

    /// Returns whether the device supports tensors of a type. 64-bit integers need a GPU that has
    /// them; 64-bit floats are supported on the CPU only.
    #[must_use]
    pub fn supports(&self, dtype: DType) -> bool {
        match self {
            Self::Cpu => true,
            Self::Gpu(gpu) => gpu.supports(dtype),
        }
    }

    /// Waits until all work recorded on the device is done.
    ///
    /// # Errors
    /// `Error::Device` with what the device has reported.
    pub fn finish(&self) -> Result<()> {
        match self {
            Self::Cpu => Ok(()),
            Self::Gpu(gpu) => gpu.finish(),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(gpu) => gpu.fmt(f),
        }
    }
}

/// Checks that tensors of a type can be on a GPU.
pub(crate) fn check_dtype(gpu: &GpuDevice, dtype: DType) -> Result<()> {
    if gpu.supports(dtype) {
        return Ok(());
    }
    Err(Error::Unsupported { device: gpu.to_string(), what: crate::ops::missing(dtype) })
}
