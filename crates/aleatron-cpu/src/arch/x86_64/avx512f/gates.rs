//! Gates: the portable loops, compiled for registers of 512 bits.

use crate::arch::portable::gates as portable;
use aleatron_core::gates::Gate;

/// Applies a gate to two buffers of one size.
#[target_feature(enable = "avx512f")]
pub(crate) fn gate(gate: Gate, a: &[u64], b: &[u64], out: &mut [u64]) {
    portable::gate(gate, a, b, out);
}

/// Computes the complement.
#[target_feature(enable = "avx512f")]
pub(crate) fn not(a: &[u64], out: &mut [u64]) {
    portable::not(a, out);
}

/// Selects `a` where `select` is 1 and `b` where it is 0.
#[target_feature(enable = "avx512f")]
pub(crate) fn mux(select: &[u64], a: &[u64], b: &[u64], out: &mut [u64]) {
    portable::mux(select, a, b, out);
}
