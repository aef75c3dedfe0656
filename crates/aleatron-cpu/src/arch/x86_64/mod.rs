//! Kernels for x86-64.

pub(crate) mod avx2;
pub(crate) mod avx512bw;
pub(crate) mod avx512f;
mod harley_seal;
mod memory;
pub(crate) mod popcnt;
pub(crate) mod sse2;
pub(crate) mod vpopcntdq;
