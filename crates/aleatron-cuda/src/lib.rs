//! Aleatron's stream operations on NVIDIA cards, bit for bit those of [`aleatron_core::reference`].
//!
//! Counting ANDs over a batch is a matrix product of bits, for which these cards have an
//! instruction. Nothing of CUDA is needed to build this crate or to start a program with it: the
//! driver's library is loaded when a card is first asked for, and the kernels are text (PTX) that
//! it compiles. Where there is no driver, or an old one, or an old card, [`devices`] says why.
//!
//! [`CudaBackend`] is a card behind the one trait of backends, [`CudaLayer`] a layer on it, which
//! also takes arrays that are on the card already. `driver/` is the driver and the crate's unsafe
//! code; `plan/` cuts work to fit a card, with plain arithmetic; the other modules make launches of
//! it. [`measure`] times kernels alone.
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
