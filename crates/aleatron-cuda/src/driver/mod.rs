//! The driver of CUDA, loaded at run time: the unsafe code of this crate.
//!
//! `symbols.rs` loads its functions, `device.rs` lists the cards, `context.rs` is one of them in
//! use, with its kernels, `memory.rs` its memory and the host's, `stream.rs` the order of work,
//! `graph.rs` work that is recorded and repeated, `launch.rs` kernels. What this module offers is
//! safe: handles live as long as they are used and are used in their context, copies are checked
//! against both of their ends. Kernels trust their parameters; whoever makes parameters checks what
//! they reach (`kernels.rs`).
//!
//! A pointer of a card that is wrong all the same makes the card stop with an error. Memory of the
//! host is what matters: kernels write to none but that of [`PinnedBuffer`]s, whose size
//! `View::check` compares.
#![allow(unsafe_code, reason = "this is the place for it")]

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
