//! A popcount per 64-bit lane of 512-bit registers.

pub(crate) mod ceiling;
pub(crate) mod count;
