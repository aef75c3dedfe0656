//! Aleatron's stream operations on GPUs, bit-exact with [`aleatron_core::reference`].
//!
//! Devices, buffers, pipelines and profiling are those of [`device`], the crate `aleatron-device`.
//! The stream operations use it: [`encode`] and [`sequence`] generate streams, [`gates`] combines
//! them, [`dense`], [`sparse`], [`conv`], and [`table`] and [`conv_table`] (for shared sequences)
//! are layers, and [`backend`] combines all of them behind the interface of backends. Compiled
//! networks in integer arithmetic run without leaving the device (`program/`). [`inputs`] has the
//! inputs of layers, `kernels.rs` lists the shaders and argues why those without run-time checks
//! need none. That promise is the crate's unsafe code.
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
