//! Bernoulli encoding, eight 32-bit stream words at a time. See
//! [`encode`](crate::arch::vector::encode).

use super::simd::Avx2;

crate::arch::vector::encode::encoder!(Avx2, "avx2,popcnt");
