//! Buffers of floats on the one GPU of the process, and kernels over them.

use std::str::FromStr;
use std::sync::OnceLock;

use bytemuck::{Pod, Zeroable};

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::gpu::GpuDevice;
use crate::op::{BinaryOp, UnaryOp};
use crate::tensor::Tensor;

/// The GPU of the process.
#[derive(Debug, Clone)]
pub struct GpuContext {
    device: GpuDevice,
    #[cfg(feature = "raw")]
    pipelines: std::sync::Arc<OnceLock<super::ComputePipelines>>,
}

impl GpuContext {
    /// Opens the GPU that the environment names, otherwise the strongest one.
    ///
    /// # Errors
    /// [`Error::Device`] if there is none.
    pub fn new() -> Result<Self> {
        match Device::gpu()? {
            Device::Gpu(device) => Ok(Self {
                device,
                #[cfg(feature = "raw")]
                pipelines: std::sync::Arc::default(),
            }),
            Device::Cpu => Err(Error::Name { what: "device", name: "gpu".to_owned() }),
        }
    }

    /// Returns the name of the adapter.
    #[must_use]
    pub fn device_name(&self) -> &str {
        self.device.name()
    }

    /// Returns the device as the other modules of this crate take it.
    #[must_use]
    pub fn gpu_device(&self) -> &GpuDevice {
        &self.device
    }

    /// Returns wgpu's device.
    #[cfg(feature = "raw")]
    #[must_use]
    pub fn device(&self) -> &aleatron_device::raw::wgpu::Device {
        aleatron_device::raw::device(self.device.context())
    }

    /// Returns wgpu's queue. Commands of this crate that were recorded before are submitted to it
    /// first.
    #[cfg(feature = "raw")]
    #[must_use]
    pub fn queue(&self) -> &aleatron_device::raw::wgpu::Queue {
        // A failure is reported to the reader of the results.
        let _ = self.device.submit();
        aleatron_device::raw::queue(self.device.context())
    }

    /// Returns pipelines for an application's own command encoders, compiled at the first call.
    #[cfg(feature = "raw")]
    #[must_use]
    pub fn pipelines(&self) -> &super::ComputePipelines {
        self.pipelines.get_or_init(|| super::ComputePipelines::new(self.device()))
    }
}

/// Returns the GPU of the process, which the first call opens and names on standard error; `None`,
/// with a warning there, if there is none.
pub fn get_gpu_context() -> Option<&'static GpuContext> {
    static CONTEXT: OnceLock<Option<GpuContext>> = OnceLock::new();
    let open = || match GpuContext::new() {
        Ok(context) => {
            eprintln!("GPU initialized: {}", context.device_name());
            Some(context)
        }
        Err(error) => {
            eprintln!("warning: GPU initialization failed: {error}; the CPU is used instead");
            None
        }
    };
    CONTEXT.get_or_init(open).as_ref()
}

/// Returns whether the process has a GPU.
#[must_use]
pub fn is_gpu_available() -> bool {
    get_gpu_context().is_some()
}

/// Floats on the GPU.
#[derive(Debug, Clone)]
pub struct GpuBuffer {
    tensor: Tensor,
    #[cfg(feature = "raw")]
    raw: (std::sync::Arc<crate::GpuStorage>, OnceLock<aleatron_device::raw::wgpu::Buffer>),
}

impl GpuBuffer {
    /// Copies floats to the GPU; `None` without one, or without room.
    #[must_use]
    pub fn from_slice(data: &[f32]) -> Option<Self> {
        let device = Device::Gpu(get_gpu_context()?.device.clone());
        Self::of(Tensor::from_slice(data, &[data.len()], &device))
    }

    /// Creates zeros on the GPU.
    #[must_use]
    pub fn zeros(len: usize) -> Option<Self> {
        let device = Device::Gpu(get_gpu_context()?.device.clone());
        Self::of(Tensor::zeros(&[len], DType::F32, &device))
    }

    /// Returns the elements of a tensor on a GPU, in order.
    pub(super) fn of(tensor: Result<Tensor>) -> Option<Self> {
        let tensor = tensor.and_then(|tensor| tensor.contiguous()).ok()?;
        tensor.record().ok()?;
        #[cfg(feature = "raw")]
        let raw = match tensor.storage() {
            crate::Storage::Gpu(storage) => (std::sync::Arc::clone(storage), OnceLock::new()),
            crate::Storage::Cpu(_) => return None,
        };
        Some(Self {
            tensor,
            #[cfg(feature = "raw")]
            raw,
        })
    }

    /// Copies the floats to the host; the result is empty if the device is lost, and
    /// [`Self::try_to_vec`] returns the reason.
    #[must_use]
    pub fn to_vec(&self) -> Vec<f32> {
        self.try_to_vec().unwrap_or_default()
    }

    /// Copies the floats to the host.
    ///
    /// # Errors
    /// [`Error::Device`] with the report of the device.
    pub fn try_to_vec(&self) -> Result<Vec<f32>> {
        self.tensor.to_vec()
    }

    /// Returns the number of floats.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tensor.len()
    }

    /// Returns whether there are no floats.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tensor.is_empty()
    }

    /// Returns the floats as a tensor.
    #[must_use]
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Returns wgpu's buffer, which may be longer than [`Self::len`]. Commands that compute its
    /// floats are submitted first.
    #[cfg(feature = "raw")]
    #[must_use]
    pub fn buffer(&self) -> &aleatron_device::raw::wgpu::Buffer {
        self.raw.1.get_or_init(|| crate::gpu::raw_buffer(&self.raw.0))
    }
}

/// Operations on buffers. Names of operations are those of [`UnaryOp`] and [`BinaryOp`]; other
/// names give `None`, as do buffers of sizes that do not match.
#[derive(Debug, Clone, Copy)]
pub struct GpuKernels;

impl GpuKernels {
    /// Applies an operation to pairs of floats of two buffers of one length.
    #[must_use]
    pub fn binary_op(a: &GpuBuffer, b: &GpuBuffer, op: &str) -> Option<GpuBuffer> {
        let op = BinaryOp::from_str(op).ok()?;
        if a.len() != b.len() || op.result(DType::F32) != Ok(DType::F32) {
            return None;
        }
        GpuBuffer::of(Tensor::binary(op, &a.tensor, &b.tensor))
    }

    /// Applies an operation to every float.
    #[must_use]
    pub fn unary_op(input: &GpuBuffer, op: &str) -> Option<GpuBuffer> {
        let op = UnaryOp::from_str(op).ok()?;
        if op.result(DType::F32) != Ok(DType::F32) {
            return None;
        }
        GpuBuffer::of(input.tensor.unary(op))
    }

    /// Returns the sum of all floats, finished on the GPU.
    #[must_use]
    pub fn sum(input: &GpuBuffer) -> Option<f32> {
        input.tensor.sum_all().and_then(|sum| sum.item()).ok()
    }

    /// Returns the product of an m x k and a k x n matrix.
    #[must_use]
    pub fn matmul(a: &GpuBuffer, b: &GpuBuffer, m: usize, k: usize, n: usize) -> Option<GpuBuffer> {
        let product =
            || a.tensor.reshape(&[m, k])?.matmul(&b.tensor.reshape(&[k, n])?)?.reshape(&[m * n]);
        GpuBuffer::of(product())
    }
}

/// The sizes of a matrix product, as the pipeline `matmul` takes them in a uniform buffer.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct MatMulParams {
    /// The rows of the left matrix.
    pub m: u32,
    /// The columns of the left matrix.
    pub k: u32,
    /// The columns of the right matrix.
    pub n: u32,
    /// Fills up 16 bytes.
    pub _padding: u32,
}

/// The size of a reduction, as the pipeline `sum_reduce` takes it in a uniform buffer.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct ReduceParams {
    /// The number of floats.
    pub input_size: u32,
    /// Fills up 16 bytes.
    pub _padding: [u32; 3],
}
