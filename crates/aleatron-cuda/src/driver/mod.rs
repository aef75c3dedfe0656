//! The CUDA driver, loaded at run time: the unsafe code of this crate.
//!
//! `symbols.rs` loads its functions, `device.rs` lists the GPUs, `context.rs` is an open GPU with
//! its kernels, `memory.rs` has device and host memory, `stream.rs` the order of work, `graph.rs`
//! recorded and repeated work, `launch.rs` kernels. The interface of this module is safe: handles
//! live as long as they are used and are used in their context, copies are checked against both of
//! their ends. Kernels rely on their parameters; code that creates parameters checks the memory
//! that they refer to (`kernels.rs`).
//!
//! A wrong device pointer makes the GPU stop with an error. Host memory is critical: kernels write
//! only to [`PinnedBuffer`]s, whose size `View::check` compares.
#![allow(unsafe_code, reason = "all unsafe code is in this module")]

mod context;
mod device;
mod graph;
mod launch;
mod memory;
mod stream;
mod symbols;

pub use context::{ContextOptions, CudaContext};
pub use device::{DeviceInfo, devices};
pub(crate) use graph::{Graph, RepeatedLaunch};
pub(crate) use launch::{Grid, Kernel, Module, TensorMap, kernels};
pub(crate) use memory::{
    DeviceBuffer, PinnedBuffer, Pitched, View, append_parallel, copy_parallel, copy_rows,
};
pub(crate) use stream::{Event, Stream};
