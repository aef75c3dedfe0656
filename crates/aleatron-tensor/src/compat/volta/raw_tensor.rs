//! Tensors of 32-bit floats behind shared handles.

use std::sync::Arc;

use super::{GpuBuffer, GpuKernels, Storage};
use crate::error::{Error, Result};
use crate::op::{BinaryOp, UnaryOp};

/// The requested device of a tensor.
#[allow(clippy::upper_case_acronyms, reason = "the names that callers have")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// The host.
    CPU,
    /// A GPU: `default`, or what [`crate::Device::named`] takes after `gpu:`.
    GPU(String),
    /// A GPU, reached through Metal if the machine has it.
    Metal(String),
}

impl Device {
    /// Returns the GPU of the machine; `None` without one.
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

/// Reports on standard error that work stays on the CPU.
pub(super) fn warn_cpu(reason: &str) {
    eprintln!("warning: a GPU was requested, but {reason}; the CPU is used instead");
}

/// A tensor with its shape in the open.
#[derive(Debug, Clone)]
pub struct RawTensor {
    /// The sizes of its axes; empty for a failed operation.
    pub shape: Vec<usize>,
    tensor: Option<crate::Tensor>,
}

/// A handle of a tensor, or of the first error: operations on an error return the error.
#[derive(Debug, Clone)]
pub struct Tensor {
    raw: Arc<RawTensor>,
    error: Option<Error>,
}

fn shared(tensor: Result<crate::Tensor>) -> Tensor {
    let (tensor, error) = match tensor {
        Ok(tensor) => (Some(tensor), None),
        Err(error) => (None, Some(error)),
    };
    let shape = tensor.as_ref().map_or_else(Vec::new, |tensor| tensor.shape().to_vec());
    Tensor { raw: Arc::new(RawTensor { shape, tensor }), error }
}

impl RawTensor {
    /// Draws normal floats, other ones on each call; [`crate::manual_seed`] makes a program repeat
    /// them.
    #[must_use]
    pub fn randn(shape: &[usize]) -> Tensor {
        shared(crate::Tensor::randn(shape, crate::DType::F32, &crate::Device::Cpu))
    }

    /// Draws floats from [0, 1), other ones on each call.
    #[must_use]
    pub fn rand(shape: &[usize]) -> Tensor {
        shared(crate::Tensor::rand(shape, crate::DType::F32, &crate::Device::Cpu))
    }

    /// Creates zeros.
    #[must_use]
    pub fn zeros(shape: &[usize]) -> Tensor {
        shared(crate::Tensor::zeros(shape, crate::DType::F32, &crate::Device::Cpu))
    }

    /// Creates ones.
    #[must_use]
    pub fn ones(shape: &[usize]) -> Tensor {
        shared(crate::Tensor::ones(shape, crate::DType::F32, &crate::Device::Cpu))
    }

    /// Creates a tensor of these floats.
    #[must_use]
    #[allow(clippy::new_ret_no_self, reason = "tensors of this interface are handles")]
    pub fn new(data: impl AsRef<[f32]>, shape: &[usize]) -> Tensor {
        shared(crate::Tensor::from_slice(data.as_ref(), shape, &crate::Device::Cpu))
    }

    /// Returns the tensor of this crate; `None` after an error.
    #[must_use]
    pub fn tensor(&self) -> Option<&crate::Tensor> {
        self.tensor.as_ref()
    }

    /// Returns the device that the tensor is on.
    #[must_use]
    pub fn device(&self) -> Device {
        match self.tensor.as_ref().map(crate::Tensor::device) {
            Some(crate::Device::Gpu(gpu)) => Device::GPU(gpu.info().index.to_string()),
            _ => Device::CPU,
        }
    }

    /// Adds the floats of two storages on the GPU; `None` unless both are there and of one length.
    #[must_use]
    pub fn gpu_add(a: &Storage, b: &Storage) -> Option<Storage> {
        gpu_binary(a, b, BinaryOp::Add)
    }

    /// Subtracts, like [`Self::gpu_add`].
    #[must_use]
    pub fn gpu_sub(a: &Storage, b: &Storage) -> Option<Storage> {
        gpu_binary(a, b, BinaryOp::Sub)
    }

    /// Multiplies, like [`Self::gpu_add`].
    #[must_use]
    pub fn gpu_mul(a: &Storage, b: &Storage) -> Option<Storage> {
        gpu_binary(a, b, BinaryOp::Mul)
    }

    /// Divides, like [`Self::gpu_add`].
    #[must_use]
    pub fn gpu_div(a: &Storage, b: &Storage) -> Option<Storage> {
        gpu_binary(a, b, BinaryOp::Div)
    }

    /// Multiplies an m x k and a k x n matrix on the GPU; `None` unless both are there and of these
    /// sizes.
    #[must_use]
    pub fn gpu_matmul(a: &Storage, b: &Storage, m: usize, k: usize, n: usize) -> Option<Storage> {
        GpuKernels::matmul(a.gpu_buffer()?, b.gpu_buffer()?, m, k, n).map(on_gpu)
    }

    /// Applies an operation to every float on the GPU; `None` unless the storage is there and the
    /// operation exists.
    #[must_use]
    pub fn gpu_unary(input: &Storage, op: &str) -> Option<Storage> {
        GpuKernels::unary_op(input.gpu_buffer()?, op).map(on_gpu)
    }
}

fn gpu_binary(a: &Storage, b: &Storage, op: BinaryOp) -> Option<Storage> {
    GpuKernels::binary_op(a.gpu_buffer()?, b.gpu_buffer()?, op.name()).map(on_gpu)
}

fn on_gpu(buffer: GpuBuffer) -> Storage {
    Storage::Gpu { buffer: Arc::new(buffer), cpu_cache: std::sync::OnceLock::new() }
}

impl Tensor {
    /// Returns the tensor of this crate.
    ///
    /// # Errors
    /// The error of the first operation that failed.
    pub fn get(&self) -> Result<&crate::Tensor> {
        match (&self.raw.tensor, &self.error) {
            (Some(tensor), None) => Ok(tensor),
            (_, Some(error)) => Err(error.clone()),
            (None, None) => Err(Error::Name { what: "tensor", name: String::new() }),
        }
    }

    /// Returns the tensor with its shape.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "the name that callers have")]
    pub fn borrow(&self) -> &RawTensor {
        &self.raw
    }

    /// Returns the floats and where they are.
    ///
    /// # Errors
    /// As [`Self::get`], and as [`crate::Tensor::to_vec`].
    pub fn storage(&self) -> Result<Storage> {
        Storage::of(self.get()?)
    }

    /// Moves the tensor to a device. If it is not available, the tensor moves to the CPU, with a
    /// warning on standard error.
    #[must_use]
    pub fn to_device(&self, device: Device) -> Self {
        let device = device.resolve().unwrap_or_else(|error| {
            warn_cpu(&error.to_string());
            crate::Device::Cpu
        });
        shared(self.get().and_then(|tensor| tensor.to_device(&device)))
    }
}

macro_rules! tensor_ops {
    (
        binary: $($(#[$binary_doc:meta])* $binary:ident $binary_op:ident)*;
        unary: $($(#[$unary_doc:meta])* $unary:ident $unary_op:ident)*;
        reduce: $($(#[$reduce_doc:meta])* $reduce:ident $reduce_all:ident)*;
    ) => {
        /// Operations on tensors, where the arguments are.
        pub trait TensorOps {
            /// Returns the matrix product.
            #[must_use]
            fn matmul(&self, other: &Self) -> Self;
            $($(#[$binary_doc])* #[must_use] fn $binary(&self, other: &Self) -> Self;)*
            $($(#[$unary_doc])* #[must_use] fn $unary(&self) -> Self;)*
            $($(#[$reduce_doc])* #[must_use] fn $reduce(&self) -> Self;)*
        }

        impl TensorOps for Tensor {
            fn matmul(&self, other: &Self) -> Self {
                shared(self.get().and_then(|x| x.matmul(other.get()?)))
            }
            $(fn $binary(&self, other: &Self) -> Self {
                shared(self.get().and_then(|x| crate::Tensor::binary(BinaryOp::$binary_op, x, other.get()?)))
            })*
            $(fn $unary(&self) -> Self {
                shared(self.get().and_then(|x| x.unary(UnaryOp::$unary_op)))
            })*
            $(fn $reduce(&self) -> Self {
                shared(self.get().and_then(crate::Tensor::$reduce_all))
            })*
        }
    };
}

tensor_ops! {
    binary:
        /// Returns the sum, element by element.
        add Add
        /// Returns the difference, element by element.
        sub Sub
        /// Returns the product, element by element.
        elem_mul Mul
        /// Returns the quotient, element by element.
        div Div
        /// Returns the larger element of each pair.
        max_elem Max;
    unary:
        /// Returns the negated elements.
        neg Neg
        /// Returns e to the power of each element.
        exp Exp
        /// Returns the natural logarithm of each element.
        log Log
        /// Returns the larger of each element and 0.
        relu Relu
        /// Returns 1 / (1 + e^-x) of each element.
        sigmoid Sigmoid
        /// Returns the hyperbolic tangent of each element.
        tanh Tanh
        /// Returns the square root of each element.
        sqrt Sqrt
        /// Returns 1 over each element.
        recip Recip
        /// Returns the sine of each element.
        sin Sin
        /// Returns the cosine of each element.
        cos Cos;
    reduce:
        /// Returns the sum of all elements.
        sum sum_all
        /// Returns the mean of all elements.
        mean mean_all
        /// Returns the largest element.
        max max_all;
}
