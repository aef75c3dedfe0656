//! The operations of tensors, one file for each family.

pub(crate) mod attention;
pub(crate) mod conv;
mod elementwise;
mod matmul;
pub(crate) mod pool;
pub(crate) mod resize;
mod reduce;

pub use attention::{AttentionOptions, Causality};
pub use conv::{ConvOptions, ConvTransposeOptions, Rounding};
pub use elementwise::Operand;
pub use pool::{Padding, PoolOptions};
pub use resize::{Coordinates, Interpolation, Nearest, ResizeAxis};
pub use reduce::{Dims, Reduction, SUM_DEPTH};
