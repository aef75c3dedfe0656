//! The names that two other GPU libraries use, over this crate's own types: code written for those needs little more than another import.
//!
//! - [`GpuBackend`], [`PipelineCache`], [`shaders`], [`runtime`], and on slices [`tiled_sum_2d`] and its kin: slices in, vectors out.
//!   `GpuDevice`, `GpuDevicePool`, `GpuCommandBatch`, `BufferId`, `GpuMatmulCache`, `TensorView` and the rest are the crate's own types, which
//!   are exported here too.
//! - [`GpuContext`], [`GpuBuffer`], [`GpuKernels`], [`RawTensor`], [`Device`], [`Storage`]: tensors that say where they are.
//!
//! What is different: sizes and names of operations are checked, nothing panics, nothing moves silently to another device, and a software
//! adapter is used only where the environment names it.

mod backend;
mod buffer;
mod raw_tensor;
pub mod runtime;
pub mod shaders;

pub use backend::{
    GpuBackend, PipelineCache, tiled_max_2d, tiled_min_2d, tiled_reduce_2d, tiled_reduce_partial,
    tiled_sum_2d,
};
pub use buffer::{GpuBuffer, GpuContext, GpuKernels, get_gpu_context, is_gpu_available};
pub use raw_tensor::{Device, RawTensor, SharedTensor, TensorOps};

pub use crate::batch::{BufferId, GpuCommandBatch};
pub use crate::gpu::{GpuDevice, GpuDevicePool, GpuMatmulCache};
pub use crate::storage::Storage;
pub use crate::tiles::{
    MaxOp, MemoryLayout, MinOp, PartitionView, ReduceOp, SumOp, TILE_SIZE, TensorView, TileInfo,
};
