//! 512-bit lanes of bytes.

pub(crate) mod bits;
pub(crate) mod ceiling;
pub(crate) mod count;
pub(crate) mod table;
