//! Aleatron's stream operations on GPUs, bit for bit those of [`aleatron_core::reference`].
//!
//! Devices, buffers, pipelines and profiling are those of [`device`], the crate `aleatron-device`.
//! On it stand the stream operations: [`encode`] and [`sequence`] make streams, [`gates`] combines
//! them, [`dense`], [`sparse`], [`conv`], and [`table`] and [`conv_table`] (for shared sequences)
//! are layers, and [`backend`] is all of it behind the one trait of backends. Compiled networks in
//! integer arithmetic run without leaving the device (`program/`). [`inputs`] is what layers count
//! over, `kernels.rs` says which shaders there are and why those without run-time checks need none.
//! That promise is the crate's unsafe code.
//!
//! Start with [`GpuContext`], then [`GpuDense`].
#![deny(unsafe_code)]
#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

pub mod backend;
mod buffers;
pub mod conv;
pub mod conv_table;
pub mod dense;
pub mod encode;
pub mod error;
pub mod gates;
pub mod inputs;
mod kernels;
mod partition;
mod program;
pub mod sequence;
pub mod sparse;
pub mod table;

pub use aleatron_device as device;
pub use aleatron_device::{
    AdapterChoice, AdapterInfo, AdapterKind, Bandwidth, Capabilities, Checks, ContextOptions,
    GpuContext, Profiler, adapter, adapters, is_gpu_available,
};
pub use backend::GpuBackend;
pub use conv::GpuConv;
pub use conv_table::GpuTabledConv;
pub use dense::{GpuDense, KernelChoice, RowGroup, TileShape};
pub use error::{Error, Limit, Result};
pub use inputs::{CountOptions, Inputs, ThresholdSource};
pub use sparse::GpuSparse;
pub use table::GpuTabled;
