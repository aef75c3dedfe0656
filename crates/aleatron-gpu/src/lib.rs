//! Aleatron's stream operations on GPUs, bit for bit those of [`aleatron_core::reference`].
//!
//! The device layer is general: [`adapter`] lists and chooses, [`context`] opens a device and turns its failures
//! into [`Error`]s, [`buffer`] holds typed memory, [`pipeline`] compiles [`Kernel`]s once, [`record`] and
//! [`batch`] send many commands at once, [`profile`] times them. On it stand the stream operations: [`encode`],
//! [`dense`], [`sparse`], [`table`] for shared sequences, and [`pool`], which spreads a layer over several devices.
//!
//! Start with [`GpuContext`], then [`GpuDense`].
#![forbid(unsafe_code)]

pub mod adapter;
pub mod batch;
pub mod buffer;
mod call;
pub mod conformance;
pub mod context;
pub mod dense;
pub mod encode;
pub mod error;
pub mod kernels;
mod partition;
pub mod pipeline;
pub mod pool;
pub mod profile;
pub mod record;
pub mod sparse;
pub mod table;

pub use adapter::{ADAPTER_VARIABLE, AdapterChoice, AdapterInfo, AdapterKind, Capabilities, adapters};
pub use batch::{BatchBuffer, BatchResults, GpuCommandBatch};
pub use buffer::{BufferView, GpuBuffer, Memory};
pub use conformance::GpuBackend;
pub use context::{ContextOptions, Created, GpuContext, is_gpu_available};
pub use dense::{Counting, GpuDense, RowGroup, TileShape};
pub use error::{Error, Limit, Result};
pub use kernels::StreamKernel;
pub use pipeline::{Access, Bound, Constants, Kernel, Pipeline};
pub use pool::{GpuDevicePool, PooledDense, Split};
pub use profile::{Bandwidth, ProfileRow, Profiler};
pub use record::Recorder;
pub use sparse::GpuSparse;
pub use table::GpuTabled;
