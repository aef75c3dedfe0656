//! The operations of tensors, one file for each family.

mod elementwise;
mod reduce;

pub use elementwise::Operand;
pub use reduce::{Dims, Reduction, SUM_DEPTH};
