//! Tensors: a storage and a layout over it.

mod create;
mod print;
mod random;
mod read;
mod view;

pub(crate) use create::small;
pub use random::{Generator, manual_seed};
pub use read::PendingValues;
pub use view::Slice;

use std::sync::Arc;

use crate::autograd::Node;
use crate::cpu::CpuView;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::gpu::{GpuData, GpuDevice, GpuStorage, GpuView};
use crate::layout::Layout;
use crate::storage::{CpuStorage, Storage};

/// An immutable array of any rank, on the host or on a GPU.
///
/// Clones and views share one storage. Operations return new tensors on the device of their
/// arguments; arguments of two devices are an error.
///
/// ```
/// use aleatron_tensor::{Device, Tensor};
///
/// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3], &Device::Cpu)?;
/// let y = x.t()?.add(1.0)?;
/// assert_eq!(y.shape(), [3, 2]);
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 5.0, 3.0, 6.0, 4.0, 7.0]);
/// # Ok::<(), aleatron_tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    storage: Storage,
    layout: Layout,
    /// The leaf or the recorded operation that the gradient of this tensor goes to.
    node: Option<Arc<Node>>,
}

impl Tensor {
    /// Creates a view of a storage.
    ///
    /// # Errors
    /// [`Error::Argument`] if the layout reaches outside the storage.
    pub fn new(storage: Storage, layout: Layout) -> Result<Self> {
        match layout.span() {
            Some((_, last)) if last >= storage.len() => {
                Err(Error::argument("tensor", "layout", layout, "it reaches outside its storage"))
            }
            _ => Ok(Self { storage, layout, node: None }),
        }
    }

    /// Creates an untracked view with a layout that is known to be inside the storage.
    pub(crate) fn with_layout(&self, layout: Layout) -> Self {
        Self { storage: self.storage.clone(), layout, node: None }
    }

    /// Returns the same elements without the recorded computation that led to them: no gradient
    /// passes through the result.
    #[must_use]
    pub fn detach(&self) -> Self {
        self.with_layout(self.layout.clone())
    }

    /// Returns the node that the gradient of this tensor goes to.
    pub(crate) fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    pub(crate) fn with_node(mut self, node: Arc<Node>) -> Self {
        self.node = Some(node);
        self
    }

    /// Creates a tensor over a new storage on the host.
    pub(crate) fn from_cpu(storage: CpuStorage, shape: &[usize]) -> Result<Self> {
        Self::whole_of(Storage::Cpu(Arc::new(storage)), shape)
    }

    /// Creates a tensor over a new storage on a GPU.
    pub(crate) fn from_gpu(storage: GpuStorage, shape: &[usize]) -> Result<Self> {
        Self::whole_of(Storage::Gpu(Arc::new(storage)), shape)
    }

    /// Creates a tensor over a whole storage, which must have as many elements as the shape:
    /// kernels rely on it.
    fn whole_of(storage: Storage, shape: &[usize]) -> Result<Self> {
        let (layout, actual) = (Layout::contiguous(shape)?, storage.len());
        if layout.len() == actual {
            return Ok(Self { storage, layout, node: None });
        }
        Err(Error::Elements { shape: shape.to_vec(), expected: layout.len() as u128, actual })
    }

    /// Creates a tensor over new elements on a GPU.
    pub(crate) fn from_gpu_data(
        device: &GpuDevice,
        data: GpuData,
        shape: &[usize],
    ) -> Result<Self> {
        Self::from_gpu(GpuStorage::ready(device, data), shape)
    }

    /// Returns the sizes of the axes.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Returns the number of axes.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Returns whether the tensor has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.storage.dtype()
    }

    /// Returns the device of the tensor.
    #[must_use]
    pub fn device(&self) -> Device {
        match &self.storage {
            Storage::Cpu(_) => Device::Cpu,
            Storage::Gpu(storage) => Device::Gpu(storage.device().clone()),
        }
    }

    /// Returns the layout of the tensor in its storage.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the storage, which views share.
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Returns whether the elements are contiguous in row-major order.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// Checks that another tensor is on the same device.
    pub(crate) fn check_device(&self, op: &'static str, other: &Self) -> Result<()> {
        let is_same = match (&self.storage, &other.storage) {
            (Storage::Cpu(_), Storage::Cpu(_)) => true,
            (Storage::Gpu(a), Storage::Gpu(b)) => a.device() == b.device(),
            _ => false,
        };
        if is_same {
            return Ok(());
        }
        Err(Error::Devices {
            op,
            left: self.device().to_string(),
            right: other.device().to_string(),
        })
    }

    /// Returns the view for the device of the tensor.
    pub(crate) fn device_view(&self) -> Result<DeviceView> {
        let layout = self.layout.clone();
        Ok(match &self.storage {
            Storage::Cpu(storage) => {
                DeviceView::Cpu(CpuView { storage: Arc::clone(storage), layout })
            }
            Storage::Gpu(storage) => {
                DeviceView::Gpu(storage.device().clone(), GpuView { data: storage.data()?, layout })
            }
        })
    }
}

impl Tensor {
    /// Returns the view of a tensor that is known to be on the host.
    pub(crate) fn host_view(&self) -> Result<CpuView> {
        match self.device_view()? {
            DeviceView::Cpu(view) => Ok(view),
            DeviceView::Gpu(..) => Err(Error::internal("tensor::host_view, tensor on a GPU")),
        }
    }

    /// Returns the view of a tensor that is known to be on a GPU.
    pub(crate) fn gpu_view(&self) -> Result<GpuView> {
        match self.device_view()? {
            DeviceView::Gpu(_, view) => Ok(view),
            DeviceView::Cpu(_) => Err(Error::internal("tensor::gpu_view, tensor on the host")),
        }
    }
}

/// A view of a tensor on the host or on a GPU.
pub(crate) enum DeviceView {
    Cpu(CpuView),
    Gpu(GpuDevice, GpuView),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_length_that_differs_from_the_shape_is_an_error() {
        let storage = |len| crate::cpu::filled(DType::F32, len, |_| Ok(())).unwrap();
        assert!(Tensor::from_cpu(storage(6), &[2, 3]).is_ok());
        for shape in [&[7][..], &[5], &[], &[2, 0], &[1 << 32, 1 << 20]] {
            let refused = Tensor::from_cpu(storage(6), shape);
            assert!(matches!(refused, Err(Error::Elements { actual: 6, .. })), "{refused:?}");
        }
        let tensor = Tensor::from_cpu(storage(6), &[2, 3]).unwrap();
        assert!(matches!(tensor.gpu_view(), Err(Error::Internal { .. })));
    }
}
