//! Bernoulli encoding, sixteen 32-bit stream words at a time. See [`encode`](crate::arch::x86_64::encode).

use super::simd::Avx512f;

crate::arch::x86_64::encode::encoder!(Avx512f, "avx512f,popcnt");
