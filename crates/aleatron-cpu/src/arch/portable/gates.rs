//! Gates on words, in loops that the compiler vectorizes. The caller clears ones beyond the length
//! of a stream.

use aleatron_core::gates::Gate;

/// Applies a gate to two buffers of one size.
#[inline(always)]
pub(crate) fn gate(gate: Gate, a: &[u64], b: &[u64], out: &mut [u64]) {
    // The gate is selected outside the loop.
    match gate {
        Gate::And => each_pair(a, b, out, |a, b| Gate::And.apply(a, b)),
        Gate::Or => each_pair(a, b, out, |a, b| Gate::Or.apply(a, b)),
        Gate::Xor => each_pair(a, b, out, |a, b| Gate::Xor.apply(a, b)),
        Gate::Xnor => each_pair(a, b, out, |a, b| Gate::Xnor.apply(a, b)),
    }
}

#[inline(always)]
fn each_pair(a: &[u64], b: &[u64], out: &mut [u64], gate: impl Fn(u64, u64) -> u64) {
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *out = gate(a, b);
    }
}

/// Computes the complement.
#[inline(always)]
pub(crate) fn not(a: &[u64], out: &mut [u64]) {
    for (out, &a) in out.iter_mut().zip(a) {
        *out = !a;
    }
}

/// Selects `a` where `select` is 1 and `b` where it is 0.
#[inline(always)]
pub(crate) fn mux(select: &[u64], a: &[u64], b: &[u64], out: &mut [u64]) {
    for (((out, &s), &a), &b) in out.iter_mut().zip(select).zip(a).zip(b) {
        *out = s & a | !s & b;
    }
}
