//! Bernoulli encoding, four 32-bit stream words at a time. See
//! [`encode`](crate::arch::vector::encode).

use super::simd::Neon;

crate::arch::vector::encode::encoder!(Neon, "neon");
