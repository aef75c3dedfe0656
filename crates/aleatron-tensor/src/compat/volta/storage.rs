//! Floats that are either in the memory of the host or in that of the GPU.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::{Device, GpuBuffer};
use crate::error::Result;

/// Floats on the host, or on the GPU with a copy on the host that is read when it is first needed.
#[derive(Clone)]
pub enum Storage {
    /// In the memory of the host.
    Cpu(Vec<f32>),
    /// In the memory of the GPU.
    Gpu {
        /// The floats.
        buffer: Arc<GpuBuffer>,
        /// A copy on the host, once it was needed.
        cpu_cache: OnceLock<Vec<f32>>,
    },
}

impl Storage {
    /// Holds floats on the host.
    #[must_use]
    pub fn cpu(data: Vec<f32>) -> Self {
        Self::Cpu(data)
    }

    /// Copies floats to the GPU. Without a GPU they stay on the host, with a warning on standard
    /// error.
    #[must_use]
    pub fn gpu(data: Vec<f32>) -> Self {
        match GpuBuffer::from_slice(&data) {
            Some(buffer) => Self::Gpu { buffer: Arc::new(buffer), cpu_cache: OnceLock::from(data) },
            None => {
                super::raw_tensor::warn_cpu("the GPU is not available");
                Self::Cpu(data)
            }
        }
    }

    /// Returns the floats; those of a GPU are read at the first call. They are none if the device
    /// is lost.
    #[must_use]
    pub fn as_slice(&self) -> &[f32] {
        match self {
            Self::Cpu(data) => data,
            Self::Gpu { buffer, cpu_cache } => cpu_cache.get_or_init(|| buffer.to_vec()),
        }
    }

    /// Returns the floats for writing; `None` on the GPU.
    pub fn as_mut_slice(&mut self) -> Option<&mut [f32]> {
        match self {
            Self::Cpu(data) => Some(data),
            Self::Gpu { .. } => None,
        }
    }

    /// Copies the floats to a vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<f32> {
        self.as_slice().to_vec()
    }

    /// Returns the number of floats.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Cpu(data) => data.len(),
            Self::Gpu { buffer, .. } => buffer.len(),
        }
    }

    /// Returns whether there are no floats.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the floats are on the GPU.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        matches!(self, Self::Gpu { .. })
    }

    /// Copies the floats to a device. If it is not available, they stay on the host, with a warning
    /// on standard error.
    #[must_use]
    pub fn to_device(&self, device: &Device) -> Self {
        match device {
            Device::CPU => Self::Cpu(self.to_vec()),
            Device::GPU(_) | Device::Metal(_) => Self::gpu(self.to_vec()),
        }
    }

    /// Returns the buffer on the GPU; `None` on the host.
    #[must_use]
    pub fn gpu_buffer(&self) -> Option<&GpuBuffer> {
        match self {
            Self::Cpu(_) => None,
            Self::Gpu { buffer, .. } => Some(buffer),
        }
    }

    /// Returns the storage of a tensor of floats.
    pub(super) fn of(tensor: &crate::Tensor) -> Result<Self> {
        let flat = tensor.reshape(&[tensor.len()])?;
        match flat.device().is_gpu().then(|| GpuBuffer::of(Ok(flat.clone()))).flatten() {
            Some(buffer) => Ok(Self::Gpu { buffer: Arc::new(buffer), cpu_cache: OnceLock::new() }),
            None => Ok(Self::Cpu(flat.to_vec()?)),
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_gpu() { "Gpu" } else { "Cpu" };
        write!(f, "Storage::{kind}({} elements)", self.len())
    }
}
