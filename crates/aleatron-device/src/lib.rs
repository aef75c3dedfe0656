//! Compute programs on GPUs, through wgpu but without any of its types.
//!
//! - [`adapter`] lists the GPUs of a machine and selects one, [`capability`] has its optional
//!   capabilities.
//! - [`context`] opens a device once per adapter and turns its failures into [`Error`]s.
//! - [`buffer`] holds typed memory: bytes, halves, floats, vectors, and views of parts of it.
//! - [`kernel`] is the interface for shaders of other crates, including generated ones;
//!   [`pipeline`] compiles each once.
//! - [`size`] converts sizes for kernels with checks.
//! - [`record`] sends many commands at once, [`batch`] does so over typed handles, [`wait`] waits
//!   for them, synchronously or asynchronously.
//! - [`profile`] times kernels, [`bandwidth`] measures peak memory bandwidth.
//! - `raw`, behind the cargo feature of this name, exposes wgpu's handles to applications that
//!   share a device.
//!
//! Start with [`GpuContext`], [`Kernel`] and [`Recorder`].
//!
//! ```no_run
//! use std::borrow::Cow;
//! use aleatron_device::{Access, AdapterChoice, Capabilities, GpuContext, Kernel};
//!
//! #[derive(Clone, PartialEq, Eq, Hash)]
//! struct Scale;
//!
//! impl Kernel for Scale {
//!     fn name(&self) -> Cow<'static, str> {
//!         "scale".into()
//!     }
//!     fn source(&self, _: Capabilities) -> Cow<'static, str> {
//!         "var<immediate> factor: f32;
//!          @group(0) @binding(0) var<storage, read_write> data: array<f32>;
//!          @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
//!              if (id.x < arrayLength(&data)) { data[id.x] *= factor; }
//!          }"
//!         .into()
//!     }
//!     fn bindings(&self) -> Cow<'static, [Access]> {
//!         Cow::Borrowed(&[Access::ReadWrite])
//!     }
//!     fn immediate_bytes(&self) -> usize {
//!         4
//!     }
//! }
//!
//! let context = GpuContext::get(&AdapterChoice::from_env())?;
//! let data = context.upload(&[1.0f32, 2.0, 3.0])?;
//! let bound = context.bind(&context.pipeline(&Scale, &[])?, &[data.view()])?;
//! let mut recorder = context.recorder(None)?;
//! recorder.dispatch(&bound, &2.0f32, [1, 1, 1], 24)?;
//! let read = recorder.read::<f32>(data.view())?;
//! recorder.submit()?;
//! assert_eq!(read.wait()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), aleatron_device::Error>(())
//! ```
//!
//! # Unsafe code
//!
//! All of it is in `trusted.rs`, with its safety argument: compiling modules of kernels that
//! declare [`BoundsChecks::Removed`], and the token with which wgpu enables cooperative matrices.
//! The promise behind such kernels, [`BoundsProof::assume`], is made by their author.
#![deny(unsafe_code)]
#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

pub mod adapter;
pub mod bandwidth;
pub mod batch;
pub mod buffer;
pub mod capability;
pub mod context;
pub mod error;
mod fork;
mod health;
pub mod kernel;
pub mod pipeline;
pub mod profile;
#[cfg(feature = "raw")]
pub mod raw;
pub mod record;
pub mod size;
mod trusted;
pub mod wait;

pub use adapter::{
    ADAPTER_VARIABLE, AdapterChoice, AdapterInfo, AdapterKind, GPU_VARIABLE, adapters,
    hardware_adapters,
};
pub use bandwidth::Bandwidth;
pub use batch::{BatchBuffer, BufferId, GpuCommandBatch};
pub use buffer::{BufferView, GpuBuffer, HostBuffer, PendingRead};
pub use capability::{Capabilities, CooperativeMatrix, MatrixElement};
pub use context::{Checks, ContextOptions, Created, GpuContext, is_gpu_available};
pub use error::{DriverError, Error, Limit, Owner, Result};
pub use fork::after_fork;
pub use kernel::{Access, BoundsChecks, BoundsProof, ConstantValue, Constants, Kernel};
pub use pipeline::{Bound, Pipeline, grid, max_grid};
pub use profile::{ProfileRow, Profiler};
pub use record::Recorder;
pub use size::size_u32;
pub use wait::{Submission, SubmissionDone};
