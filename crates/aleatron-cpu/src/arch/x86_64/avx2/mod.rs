//! 256-bit integer instructions.

pub(crate) mod arithmetic;
pub(crate) mod bits;
pub(crate) mod ceiling;
pub(crate) mod count;
pub(crate) mod encode;
pub(crate) mod gates;
pub(crate) mod hits;
pub(crate) mod lif;
pub(crate) mod map;
pub(crate) mod sequence;
pub(crate) mod signed;
mod simd;
