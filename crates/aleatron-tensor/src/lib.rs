//! Float tensors on CPUs and on any GPU.
#![deny(unsafe_code)]

mod cpu;
pub mod device;
pub mod dtype;
pub mod error;
mod expr;
mod gpu;
pub mod layout;
mod math;
pub mod op;
mod ops;
pub mod storage;
pub mod tensor;
pub mod trace;

pub use device::Device;
pub use dtype::{DType, Element, Kind, Scalar};
pub use error::{Error, Result};
pub use gpu::matmul::{CooperativeTile, MatmulPlan, Shared, Tile};
pub use gpu::{GpuDevicePool, GpuMatmulCache};
pub use gpu::{GpuDevice, GpuStorage};
pub use layout::Layout;
pub use op::{BinaryOp, UnaryOp};
pub use ops::{
    AttentionOptions, Causality, ConvOptions, ConvTransposeOptions, Coordinates, Interpolation, Nearest, Padding, PoolOptions,
    ResizeAxis, Rounding,
};
pub use ops::{Dims, Operand, Reduction, SUM_DEPTH};
pub use storage::{CpuStorage, Storage};
pub use tensor::{PendingValues, Slice, Tensor};
