//! Operations on GPUs, one file each; `cpu/` has the same files, and `no_gpu.rs` the same interface
//! in builds without GPUs.
//!
//! Kernels are written from descriptions (`kernel.rs`, `wgsl.rs`), recorded on a device
//! (`device.rs`) and compiled once. Every kernel accepts any view and writes a new contiguous
//! buffer.
//!
//! # Why kernels without run-time checks stay in bounds
//!
//! Every index into an operand is made from the shape, strides and offset of a
//! [`Layout`](crate::Layout), whose offsets all lie inside its storage, for coordinates inside that
//! shape: threads past the last element return or use the last element instead. Buffers are whole
//! vectors of four elements and of 16 bytes, so the vector of an element is inside where the
//! element is. Loops run from 0 to sizes of axes; divisors are sizes of axes, which are at least 1,
//! since nothing is launched for a tensor without elements. Indices that are themselves elements
//! are compared with the size of their axis before they are used. Whatever a kernel adds to this is
//! said beside it.
//!
//! All of this relies on kernels receiving the numbers of the host: they pass `size.rs`, and casts
//! that could truncate are denied.

#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

pub(crate) mod assemble;
pub(crate) mod attention;
pub(crate) mod conv;
mod data;
mod device;
mod device_pool;
mod elementwise;
mod fault;
pub(crate) mod gather;
mod kernel;
pub(crate) mod matmul;
mod matmul_cache;
pub(crate) mod normalize;
mod operand;
pub(crate) mod pool;
pub(crate) mod pool_gradient;
mod program;
pub(crate) mod reduce;
pub(crate) mod resize;
pub(crate) mod scan;
mod size;
pub(crate) mod sort;
mod transfer;
mod wgsl;

pub use data::GpuStorage;
pub use device::GpuDevice;
pub use device_pool::GpuDevicePool;
pub use matmul_cache::GpuMatmulCache;

pub(crate) use data::{GpuData, GpuView};
pub(crate) use transfer::{GpuRead, upload};

/// Returns the functions of helper files in WGSL, with their dependencies.
#[cfg(feature = "raw")]
pub(crate) fn helper_source(helpers: &[crate::math::Helper]) -> String {
    wgsl::helpers(helpers, &[])
}

#[cfg(feature = "raw")]
pub(crate) use data::raw_buffer;
