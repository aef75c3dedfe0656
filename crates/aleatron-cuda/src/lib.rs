//! Aleatron's stream operations on NVIDIA GPUs, bit-exact with [`aleatron_core::reference`].
//!
//! Counting ANDs over a batch is a matrix product of bits, for which these GPUs have an
//! instruction. Neither building this crate nor starting a program with it requires CUDA: the
//! driver's library is loaded when a GPU is first requested, and the kernels are text (PTX) that it
//! compiles. If the driver is missing or the driver or GPU is too old, [`devices`] returns the
//! reason.
//!
//! [`CudaBackend`] is a GPU behind the interface of backends, [`CudaLayer`] a layer on it, which
//! also accepts arrays in device memory. `driver/` has the driver and the crate's unsafe code;
//! `plan/` divides work to fit a GPU, with plain arithmetic; the other modules launch it.
//! [`measure`] times kernels alone.
//!
//! Start with [`devices`], then [`CudaBackend::open`].
#![deny(unsafe_code)]
#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

pub mod array;
mod backend;
mod buffers;
mod conv;
mod dense;
mod driver;
mod encode;
mod error;
mod gates;
mod inputs;
mod kernels;
mod launch;
mod layer;
pub mod measure;
mod plan;
mod product;
mod program;
mod queue;
mod results;
mod signed;
mod size;
mod sparse;
mod table;
mod weights;

pub use aleatron_core::program::KernelTime;
pub use backend::CudaBackend;
pub use dense::KernelChoice;
pub use driver::{ContextOptions, CudaContext, DeviceInfo, devices};
pub use error::{Error, Limit, OLDEST_CAPABILITY, OLDEST_DRIVER, Result};
pub use gates::encode;
pub use layer::CudaLayer;
pub use plan::tiles::{SharedOperand, TileEngine, TileShape};
pub use queue::Profiler;
