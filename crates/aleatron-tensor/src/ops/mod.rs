//! The operations of tensors, one file for each family.

mod assemble;
mod elementwise;
mod gather;
mod normalize;
pub(crate) mod reduce;
mod scan;
mod sort;

pub use assemble::PadMode;
pub use elementwise::Operand;
pub use sort::Order;
pub use reduce::{Dims, Reduction, SUM_DEPTH};
