//! The names of Volta: tensors of 32-bit floats that are moved between the CPU and one GPU of the
//! process.
//!
//! Modules and re-exports are those of that library: [`gpu`], [`storage`], [`is_gpu_available`],
//! [`RawTensor`], [`TensorOps`], [`Device`]. `docs/volta.md` lists the differences.

mod buffer;
#[cfg(feature = "raw")]
mod pipelines;
mod raw_tensor;
pub mod storage;

/// The GPU of the process, its buffers and its kernels.
pub mod gpu {
    pub use super::buffer::{
        GpuBuffer, GpuContext, GpuKernels, MatMulParams, ReduceParams, get_gpu_context,
        is_gpu_available,
    };
    #[cfg(feature = "raw")]
    pub use super::pipelines::ComputePipelines;
}

#[cfg(feature = "raw")]
pub use gpu::ComputePipelines;
pub use gpu::{
    GpuBuffer, GpuContext, GpuKernels, MatMulParams, ReduceParams, get_gpu_context,
    is_gpu_available,
};
pub use raw_tensor::{Device, RawTensor, Tensor, TensorOps};
pub use storage::Storage;
