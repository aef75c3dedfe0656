//! Kernels in plain Rust, for every processor.

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
pub(crate) mod table;
pub(crate) mod transpose;
