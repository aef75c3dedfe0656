//! The AVX-512 foundation: 512-bit lanes of 32 and 64 bits, no bytes.

pub(crate) mod arithmetic;
pub(crate) mod ceiling;
pub(crate) mod encode;
pub(crate) mod gates;
pub(crate) mod hits;
pub(crate) mod lif;
pub(crate) mod sequence;
mod simd;
