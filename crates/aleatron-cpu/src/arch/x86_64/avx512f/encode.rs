//! Bernoulli encoding, sixteen 32-bit stream words at a time. See
//! [`encode`](crate::arch::vector::encode).

use super::simd::Avx512f;

crate::arch::vector::encode::encoder!(Avx512f, "avx512f,popcnt");
