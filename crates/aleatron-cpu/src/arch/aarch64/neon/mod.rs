//! 128-bit registers, which every AArch64 processor has.

pub(crate) mod bits;
pub(crate) mod ceiling;
pub(crate) mod count;
pub(crate) mod encode;
pub(crate) mod lif;
pub(crate) mod map;
pub(crate) mod sequence;
mod simd;
pub(crate) mod table;
mod transpose;
