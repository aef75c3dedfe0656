//! Bernoulli encoding, eight 32-bit stream words at a time. See [`encode`](crate::arch::x86_64::encode).

use super::simd::Avx2;

crate::arch::x86_64::encode::encoder!(Avx2, "avx2,popcnt");
