//! 512-bit lanes of bytes.

pub(crate) mod bits;
pub(crate) mod ceiling;
pub(crate) mod count;
pub(crate) mod map;
pub(crate) mod signed;
mod simd;
pub(crate) mod table;
