//! Kernels for x86-64.

pub(crate) mod avx2;
pub(crate) mod avx512bw;
pub(crate) mod avx512f;
mod encode;
mod harley_seal;
mod memory;
mod philox;
pub(crate) mod popcnt;
mod simd;
pub(crate) mod sse2;
pub(crate) mod vpopcntdq;
