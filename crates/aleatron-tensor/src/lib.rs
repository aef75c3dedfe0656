//! Float tensors on CPUs and on any GPU.
//!
//! A [`Tensor`] is immutable; views of it copy nothing, and every operation takes them, on the CPU
//! and on GPUs alike. A result stays where its arguments are. On GPUs, chains of elementwise
//! operations become one kernel, commands are sent together, and only reads wait.
//!
//! ```
//! use aleatron_tensor::{Device, Tensor};
//!
//! let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3], &Device::Cpu)?;
//! let y = x.t()?.matmul(&x)?.add(1.0)?;
//! assert_eq!(y.to_vec::<f32>()?, [18.0, 23.0, 28.0, 23.0, 30.0, 37.0, 28.0, 37.0, 46.0]);
//! assert_eq!(y.sum(0)?.to_vec::<f32>()?, [69.0, 90.0, 111.0]);
//! # Ok::<(), aleatron_tensor::Error>(())
//! ```
//!
//! Rules for NaN, infinity, rounding, empty tensors and the order of sums are in the guide,
//! `docs/tensors.md`, and beside the operations: elementwise ones in [`op`], reductions at
//! [`Reduction`].
#![deny(unsafe_code)]
#![cfg_attr(
    not(feature = "gpu"),
    allow(dead_code, reason = "the tables of operations hold their WGSL in every build")
)]

pub mod autograd;
#[cfg(feature = "gpu")]
pub mod batch;
#[cfg(feature = "gpu")]
pub mod compat;
mod cpu;
pub mod device;
pub mod dtype;
pub mod error;
mod expr;
#[cfg(feature = "gpu")]
mod gpu;
#[cfg(not(feature = "gpu"))]
#[path = "no_gpu.rs"]
mod gpu;
pub mod io;
pub mod layout;
#[cfg(feature = "linalg")]
pub mod linalg;
mod math;
pub mod op;
mod ops;
pub mod storage;
pub mod tensor;
pub mod tiles;
pub mod trace;

#[cfg(feature = "gpu")]
pub use batch::{BufferId, GpuCommandBatch};
pub use device::{AutoDevice, Device, Work};
pub use dtype::{DType, Element, Kind, Scalar};
pub use error::{Error, Result};
pub use gpu::{GpuDevice, GpuStorage};
#[cfg(feature = "gpu")]
pub use gpu::{
    GpuDevicePool, GpuMatmulCache,
    matmul::{CooperativeTile, MatmulPlan, Shared, Tile},
};
pub use layout::Layout;
pub use op::{BinaryOp, UnaryOp};
pub use ops::operators;
pub use ops::{
    AttentionOptions, Border, Causality, ConvOptions, ConvTransposeOptions, Coordinates, Filter,
    Interpolation, Nearest, Padding, PoolOptions, ResizeAxis, ResizeOptions, Rounding,
};
pub use ops::{Axes, Dims, Operand, Order, PadMode, Reduction, SUM_DEPTH};
pub use storage::{CpuStorage, Storage};
pub use tensor::{Generator, PendingValues, Slice, Tensor, manual_seed};

/// Runs the examples of the guides as they stand there.
#[cfg(all(doctest, feature = "gpu"))]
#[doc = include_str!("../../../docs/tensors.md")]
#[doc = include_str!("../../../docs/volta.md")]
#[doc = include_str!("../../../docs/trueno.md")]
struct Guide;
