//! Buffers of floats on the one GPU of the process, and kernels over them.

use std::str::FromStr;
use std::sync::OnceLock;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::gpu::GpuDevice;
use crate::op::{BinaryOp, UnaryOp};
use crate::ops::Dims;
use crate::tensor::Tensor;

/// The GPU of the process.
#[derive(Debug, Clone)]
pub struct GpuContext {
    device: GpuDevice,
}

impl GpuContext {
    /// Opens the GPU that the environment names, else the strongest one.
    ///
    /// # Errors
    /// [`Error::Device`] where there is none.
    pub fn new() -> Result<Self> {
        match Device::gpu()? {
            Device::Gpu(device) => Ok(Self { device }),
            Device::Cpu => Err(Error::Name { what: "device", name: "gpu".to_owned() }),
        }
    }

    /// The name of its adapter.
    #[must_use]
    pub fn device_name(&self) -> &str {
        self.device.name()
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &GpuDevice {
        &self.device
    }
}

/// The GPU of the process, opened by the first call; `None` where there is none.
pub fn get_gpu_context() -> Option<&'static GpuContext> {
    static CONTEXT: OnceLock<Option<GpuContext>> = OnceLock::new();
    CONTEXT.get_or_init(|| GpuContext::new().ok()).as_ref()
}

/// Whether the process has a GPU.
#[must_use]
pub fn is_gpu_available() -> bool {
    get_gpu_context().is_some()
}

/// Floats on the GPU.
#[derive(Debug, Clone)]
pub struct GpuBuffer {
    tensor: Tensor,
}

impl GpuBuffer {
    /// Copies floats to the GPU; `None` without one, or without room.
    #[must_use]
    pub fn from_slice(data: &[f32]) -> Option<Self> {
        let device = Device::Gpu(get_gpu_context()?.device.clone());
        Tensor::from_slice(data, &[data.len()], &device).ok().map(|tensor| Self { tensor })
    }

    /// Zeros, which are made on the GPU.
    #[must_use]
    pub fn zeros(len: usize) -> Option<Self> {
        let device = Device::Gpu(get_gpu_context()?.device.clone());
        Tensor::zeros(&[len], DType::F32, &device).ok().map(|tensor| Self { tensor })
    }

    /// The floats, copied to the host; none where the device is lost, for which [`Self::try_to_vec`] has the reason.
    #[must_use]
    pub fn to_vec(&self) -> Vec<f32> {
        self.try_to_vec().unwrap_or_default()
    }

    /// The floats, copied to the host.
    ///
    /// # Errors
    /// [`Error::Device`] with what the device has reported.
    pub fn try_to_vec(&self) -> Result<Vec<f32>> {
        self.tensor.to_vec()
    }

    /// The number of floats.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tensor.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tensor.is_empty()
    }

    /// The floats as a tensor of one axis.
    #[must_use]
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }
}

/// Operations on buffers. Names of operations are those of [`UnaryOp`] and [`BinaryOp`]; others give `None`, as do buffers that do not
/// fit.
#[derive(Debug, Clone, Copy)]
pub struct GpuKernels;

fn kept(tensor: Result<Tensor>) -> Option<GpuBuffer> {
    tensor.and_then(|tensor| tensor.contiguous()).ok().map(|tensor| GpuBuffer { tensor })
}

impl GpuKernels {
    /// Applies an operation to pairs of floats of two buffers of one length.
    #[must_use]
    pub fn binary_op(a: &GpuBuffer, b: &GpuBuffer, op: &str) -> Option<GpuBuffer> {
        let op = BinaryOp::from_str(op).ok()?;
        if a.len() != b.len() || op.result(DType::F32) != Ok(DType::F32) {
            return None;
        }
        kept(Tensor::binary(op, &a.tensor, &b.tensor))
    }

    /// Applies an operation to every float.
    #[must_use]
    pub fn unary_op(a: &GpuBuffer, op: &str) -> Option<GpuBuffer> {
        let op = UnaryOp::from_str(op).ok()?;
        if op.result(DType::F32) != Ok(DType::F32) {
            return None;
        }
        kept(a.tensor.unary(op))
    }

    /// The sum of all floats, finished on the GPU.
    #[must_use]
    pub fn sum(a: &GpuBuffer) -> Option<f32> {
        a.tensor.sum(&[], Dims::Drop).and_then(|sum| sum.item()).ok()
    }

    /// The product of an m x k and a k x n matrix.
    #[must_use]
    pub fn matmul(a: &GpuBuffer, b: &GpuBuffer, m: usize, k: usize, n: usize) -> Option<GpuBuffer> {
        let product = || a.tensor.reshape(&[m, k])?.matmul(&b.tensor.reshape(&[k, n])?)?.reshape(&[m * n]);
        kept(product())
    }
}
