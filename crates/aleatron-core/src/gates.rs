//! Gates on packed streams. AND multiplies unipolar values, XNOR bipolar ones, NOT is `1 - v` (or
//! `-v`), and MUX with a select stream of 1/2 is the scaled sum `(a + b) / 2`. All of them keep the
//! bits after the last one at 0.
//!
//! These gates work on single streams, a word at a time; backends work on whole buffers of streams.

use crate::error::{Error, Quantity, Result};
use crate::stream::BitStream;

/// A gate of two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gate {
    /// 1 if both are 1: the product of independent unipolar streams.
    And,
    /// 1 if at least one is 1.
    Or,
    /// 1 if they differ.
    Xor,
    /// 1 if they agree: the product of independent bipolar streams.
    Xnor,
}

impl Gate {
    /// Every gate of two inputs.
    pub const ALL: [Self; 4] = [Self::And, Self::Or, Self::Xor, Self::Xnor];

    /// Applies the gate to whole words. XNOR sets bits beyond a stream's length: mask the last
    /// word.
    #[inline]
    #[must_use]
    pub const fn apply(self, a: u64, b: u64) -> u64 {
        match self {
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Xnor => !(a ^ b),
        }
    }
}

/// Applies a gate to two streams of one length.
///
/// # Errors
/// Returns [`Error::Mismatch`] if the lengths differ.
pub fn gate(gate: Gate, a: &BitStream, b: &BitStream) -> Result<BitStream> {
    same_length(a, b)?;
    Ok(BitStream::from_fn(a.length(), |i| gate.apply(a.words()[i], b.words()[i])))
}

/// Computes [`Gate::And`] of two streams.
///
/// # Errors
/// Returns [`Error::Mismatch`] if the lengths differ.
pub fn and(a: &BitStream, b: &BitStream) -> Result<BitStream> {
    gate(Gate::And, a, b)
}

/// Computes [`Gate::Or`] of two streams.
///
/// # Errors
/// Returns [`Error::Mismatch`] if the lengths differ.
pub fn or(a: &BitStream, b: &BitStream) -> Result<BitStream> {
    gate(Gate::Or, a, b)
}

/// Computes [`Gate::Xor`] of two streams.
///
/// # Errors
/// Returns [`Error::Mismatch`] if the lengths differ.
pub fn xor(a: &BitStream, b: &BitStream) -> Result<BitStream> {
    gate(Gate::Xor, a, b)
}

/// Computes [`Gate::Xnor`] of two streams.
///
/// # Errors
/// Returns [`Error::Mismatch`] if the lengths differ.
pub fn xnor(a: &BitStream, b: &BitStream) -> Result<BitStream> {
    gate(Gate::Xnor, a, b)
}

/// Returns the complement of a stream.
#[must_use]
pub fn not(a: &BitStream) -> BitStream {
    BitStream::from_fn(a.length(), |i| !a.words()[i])
}

/// Selects `a` where `select` is 1 and `b` where it is 0.
///
/// # Errors
/// Returns [`Error::Mismatch`] if the lengths differ.
pub fn mux(select: &BitStream, a: &BitStream, b: &BitStream) -> Result<BitStream> {
    same_length(select, a)?;
    same_length(select, b)?;
    Ok(BitStream::from_fn(a.length(), |i| {
        let s = select.words()[i];
        s & a.words()[i] | !s & b.words()[i]
    }))
}

/// Returns the number of positions where two streams differ.
///
/// # Errors
/// Returns [`Error::Mismatch`] if the lengths differ.
pub fn hamming_distance(a: &BitStream, b: &BitStream) -> Result<u64> {
    Ok(xor(a, b)?.ones())
}

fn same_length(a: &BitStream, b: &BitStream) -> Result<()> {
    let (expected, actual) = (a.length().bits(), b.length().bits());
    if expected == actual {
        Ok(())
    } else {
        Err(Error::Mismatch { what: Quantity::Length, expected, actual })
    }
}
