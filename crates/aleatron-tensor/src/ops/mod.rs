//! The operations of tensors, one file for each family.

mod assemble;
pub(crate) mod attention;
mod axes;
pub(crate) mod conv;
mod distinct;
mod elementwise;
pub(crate) mod fold;
pub(crate) mod gather;
mod matmul;
pub(crate) mod normalize;
pub mod operators;
pub(crate) mod pool;
pub(crate) mod reduce;
pub(crate) mod resize;
pub(crate) mod scan;
mod sort;

pub use assemble::PadMode;
pub use attention::{AttentionOptions, Causality};
pub use axes::Axes;
pub use conv::{ConvOptions, ConvTransposeOptions, Rounding};
pub use elementwise::Operand;
pub(crate) use elementwise::{evaluate_formula, missing};
pub use pool::{Padding, PoolOptions};
pub use reduce::{Dims, Reduction, SUM_DEPTH};
pub use resize::{Border, Coordinates, Filter, Interpolation, Nearest, ResizeAxis, ResizeOptions};
pub use sort::Order;
