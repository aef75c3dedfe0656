//! Tensors of 32-bit floats behind shared handles.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Where a tensor is asked to be.
#[allow(clippy::upper_case_acronyms, reason = "the names that callers have")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// The host.
    CPU,
    /// A GPU: `default`, or what [`crate::Device::named`] takes after `gpu:`.
    GPU(String),
    /// A GPU, reached through Metal where the machine has it.
    Metal(String),
}

impl Device {
    /// The GPU of the machine, where there is one.
    #[must_use]
    pub fn gpu() -> Option<Self> {
        crate::Device::gpu().is_ok().then(|| Self::GPU("default".to_owned()))
    }

    fn resolve(&self) -> Result<crate::Device> {
        match self {
            Self::CPU => Ok(crate::Device::Cpu),
            Self::GPU(name) | Self::Metal(name) if name == "default" || name.is_empty() => {
                crate::Device::gpu()
            }
            Self::GPU(name) | Self::Metal(name) => crate::Device::named(&format!("gpu:{name}")),
        }
    }
}

/// A tensor with its shape in the open.
#[derive(Debug, Clone)]
pub struct RawTensor {
    /// The sizes of its axes.
    pub shape: Vec<usize>,
    tensor: Option<Tensor>,
}

/// A handle of a tensor, or of the error that there is instead of it: operations on an error give the error.
#[derive(Debug, Clone)]
pub struct SharedTensor {
    raw: Arc<RawTensor>,
    error: Option<Error>,
}

fn shared(tensor: Result<Tensor>) -> SharedTensor {
    let (tensor, error) = match tensor {
        Ok(tensor) => (Some(tensor), None),
        Err(error) => (None, Some(error)),
    };
    let shape = tensor.as_ref().map_or_else(Vec::new, |tensor| tensor.shape().to_vec());
    SharedTensor { raw: Arc::new(RawTensor { shape, tensor }), error }
}

impl RawTensor {
    /// Normal floats, the same for the same shape.
    #[must_use]
    pub fn randn(shape: &[usize]) -> SharedTensor {
        shared(Tensor::randn(shape, 0, crate::DType::F32, &crate::Device::Cpu))
    }

    /// These floats.
    #[must_use]
    #[allow(clippy::new_ret_no_self, reason = "tensors of this interface are handles")]
    pub fn new(data: &[f32], shape: &[usize]) -> SharedTensor {
        shared(Tensor::from_slice(data, shape, &crate::Device::Cpu))
    }

    /// The tensor, where there is no error instead.
    #[must_use]
    pub fn tensor(&self) -> Option<&Tensor> {
        self.tensor.as_ref()
    }
}

impl SharedTensor {
    /// The tensor, or the error there is instead.
    ///
    /// # Errors
    /// What went wrong in the first operation that failed.
    pub fn get(&self) -> Result<&Tensor> {
        match (&self.raw.tensor, &self.error) {
            (Some(tensor), None) => Ok(tensor),
            (_, Some(error)) => Err(error.clone()),
            (None, None) => Err(Error::Name { what: "tensor", name: String::new() }),
        }
    }

    /// The tensor with its shape, which is empty where there is an error.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "the name that callers have")]
    pub fn borrow(&self) -> &RawTensor {
        &self.raw
    }

    /// The tensor on a device. No device is an error, never another device.
    #[must_use]
    pub fn to_device(&self, device: Device) -> Self {
        shared(self.get().and_then(|tensor| tensor.to_device(&device.resolve()?)))
    }
}

/// Operations on shared tensors.
pub trait TensorOps {
    /// The matrix product.
    #[must_use]
    fn matmul(&self, other: &Self) -> Self;

    /// The sum.
    #[must_use]
    fn add(&self, other: &Self) -> Self;

    /// The product, element by element.
    #[must_use]
    fn elem_mul(&self, other: &Self) -> Self;

    /// The larger of each element and 0.
    #[must_use]
    fn relu(&self) -> Self;
}

impl TensorOps for SharedTensor {
    fn matmul(&self, other: &Self) -> Self {
        shared(self.get().and_then(|x| x.matmul(other.get()?)))
    }

    fn add(&self, other: &Self) -> Self {
        shared(self.get().and_then(|x| x.add(other.get()?)))
    }

    fn elem_mul(&self, other: &Self) -> Self {
        shared(self.get().and_then(|x| x.mul(other.get()?)))
    }

    fn relu(&self) -> Self {
        shared(self.get().and_then(Tensor::relu))
    }
}
