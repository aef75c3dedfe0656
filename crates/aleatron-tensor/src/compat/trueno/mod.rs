//! The names of trueno's module `backends::gpu`.
//!
//! The types of tiles, pools and weight caches are this crate's own. `docs/trueno.md` lists the
//! differences, and where the transformer of that module is.

mod backend;
mod device;
pub mod runtime;
pub mod shaders;

#[cfg(feature = "raw")]
pub use aleatron_device::raw::wgpu;
pub use backend::{
    GpuBackend, tiled_max_2d, tiled_min_2d, tiled_reduce_2d, tiled_reduce_partial, tiled_sum_2d,
};
pub use device::{GpuCommandBatch, GpuDevice, PipelineCache};

pub use crate::batch::BufferId;
pub use crate::gpu::{GpuDevicePool, GpuMatmulCache};
pub use crate::tiles::{
    MaxOp, MemoryLayout, MinOp, PartitionView, ReduceOp, SumOp, TILE_SIZE, TensorView, TileInfo,
};
