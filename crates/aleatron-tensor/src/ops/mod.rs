//! The operations of tensors, one file for each family.

mod elementwise;

pub use elementwise::Operand;
