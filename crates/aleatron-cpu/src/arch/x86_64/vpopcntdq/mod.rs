//! A popcount per 64-bit lane of 512-bit registers, and permutations of their bytes.

pub(crate) mod ceiling;
pub(crate) mod count;
pub(crate) mod map;
