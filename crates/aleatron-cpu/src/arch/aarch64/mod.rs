//! Kernels for AArch64.

mod memory;
pub(crate) mod neon;
