//! Where elements are: in the memory of the host, or in that of a GPU, never in both.

mod cpu;

pub(crate) use cpu::HostBuffer;
pub use cpu::{CpuStorage, HostMemory};

use std::fmt;
use std::sync::Arc;

use crate::dtype::DType;
use crate::gpu::GpuStorage;

/// The elements of a tensor, shared by all of its views.
///
/// There is no hidden copy on another device: elements are where the storage says, and
/// [`Tensor::to_device`](crate::Tensor::to_device) is the one way to move them.
#[derive(Clone)]
pub enum Storage {
    /// In the memory of the host.
    Cpu(Arc<CpuStorage>),
    /// In the memory of a GPU, or still to be computed there.
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

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether both are one.
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
        let place = match self {
            Self::Cpu(_) => "Cpu",
            Self::Gpu(_) => "Gpu",
        };
        write!(f, "Storage::{place}({} x {})", self.len(), self.dtype())
    }
}
