//! Storages of elements, in host memory or in the memory of a GPU.

mod cpu;

pub(crate) use cpu::HostBuffer;
pub use cpu::{CpuStorage, HostMemory};

use std::fmt;
use std::sync::Arc;

use crate::dtype::DType;
use crate::gpu::GpuStorage;

/// The elements of a tensor, shared by all its views.
///
/// There is no hidden copy on another device; [`Tensor::to_device`](crate::Tensor::to_device) is
/// the only way to move elements.
#[derive(Clone)]
pub enum Storage {
    /// In host memory.
    Cpu(Arc<CpuStorage>),
    /// In the memory of a GPU, or pending there.
    Gpu(Arc<GpuStorage>),
}

impl Storage {
    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        match self {
            Self::Cpu(storage) => storage.dtype(),
            Self::Gpu(storage) => storage.dtype(),
        }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Cpu(storage) => storage.len(),
            Self::Gpu(storage) => storage.len(),
        }
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether both are the same storage.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cpu(a), Self::Cpu(b)) => Arc::ptr_eq(a, b),
            (Self::Gpu(a), Self::Gpu(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Cpu(_) => "Cpu",
            Self::Gpu(_) => "Gpu",
        };
        write!(f, "Storage::{kind}({} x {})", self.len(), self.dtype())
    }
}
