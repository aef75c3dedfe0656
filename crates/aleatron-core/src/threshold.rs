//! Probabilities as integer thresholds: a stream bit is 1 when its uniform integer is below the
//! threshold.
//!
//! The operands of signed layers have a sign next to the threshold of their magnitude. In a single
//! integer, the sign is the highest bit, [`NEGATIVE`]; a [`Threshold`] is that of a magnitude
//! alone.

use crate::error::{Error, Quantity, Result};
use crate::polarity::Polarity;

/// The bit of a threshold that marks a negative operand, in layers whose operands have signs.
pub const NEGATIVE: u64 = 1 << 63;

/// Returns a threshold without its sign.
#[inline]
#[must_use]
pub const fn magnitude(threshold: u64) -> u64 {
    threshold & !NEGATIVE
}

/// Returns whether a threshold is that of a negative operand.
#[inline]
#[must_use]
pub const fn is_negative(threshold: u64) -> bool {
    threshold & NEGATIVE != 0
}

/// A threshold `floor(p * 2^32 + 0.5)` in `0..=2^32`; both ends are exact, all zeros and all ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Threshold(u64);

impl Threshold {
    /// The threshold of the stream of zeros.
    pub const ZERO: Self = Self(0);

    /// The threshold of the stream of ones, `2^32`.
    pub const ONE: Self = Self(1 << 32);

    /// Returns the threshold of a probability in [0, 1].
    ///
    /// ```
    /// use aleatron_core::Threshold;
    /// assert_eq!(Threshold::from_probability(0.25)?.get(), 1 << 30);
    /// assert!(Threshold::from_probability(f64::NAN).is_err());
    /// # Ok::<(), aleatron_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] for NaN and anything outside [0, 1].
    pub fn from_probability(p: f64) -> Result<Self> {
        if (0.0..=1.0).contains(&p) {
            Ok(Self(rounded(p * Self::ONE.0 as f64)))
        } else {
            Err(Error::OutOfRange {
                what: Quantity::Probability,
                index: 0,
                value: p,
                low: 0.0,
                high: 1.0,
            })
        }
    }

    /// Creates a threshold without its sign; values above `2^32` give the stream of ones.
    #[must_use]
    pub const fn saturating(threshold: u64) -> Self {
        let threshold = magnitude(threshold);
        if threshold < Self::ONE.0 { Self(threshold) } else { Self::ONE }
    }

    /// Returns the threshold as an integer in `0..=2^32`.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Returns the thresholds of `values`, each of which must lie in the interval of `polarity`; for
/// signed values, those of their magnitudes.
///
/// # Errors
/// Returns [`Error::OutOfRange`] with the index and value of the first value outside, named `what`.
pub fn thresholds(values: &[f64], polarity: Polarity, what: Quantity) -> Result<Vec<Threshold>> {
    let mut out = Vec::new();
    extend_thresholds(values, polarity, what, &mut out)?;
    Ok(out)
}

/// Appends the thresholds of `values` to `out`, or nothing on an error.
///
/// Each value is read only once, so that the checked value is the converted one, and a threshold is
/// valid whatever bits were read: another thread may write to the array of the caller.
///
/// # Errors
/// As for [`thresholds`], and [`Error::Changed`] if a value was outside the interval and no longer
/// is.
pub fn extend_thresholds(
    values: &[f64],
    polarity: Polarity,
    what: Quantity,
    out: &mut Vec<Threshold>,
) -> Result<()> {
    convert(values, polarity, Threshold::ONE.0, what, out, |threshold, _| Threshold(threshold))
}

/// Appends the thresholds of `values` for comparators that have `one` as the stream of ones, a
/// power of two up to 2^32; `threshold` creates each from the integer and the value.
pub(crate) fn convert<T>(
    values: &[f64],
    polarity: Polarity,
    one: u64,
    what: Quantity,
    out: &mut Vec<T>,
    threshold: impl Fn(u64, f64) -> T,
) -> Result<()> {
    let before = out.len();
    // One loop per polarity, so that the compiler uses vector registers.
    let outside = match polarity {
        Polarity::Unipolar => extend_with(Polarity::Unipolar, values, one, out, threshold),
        Polarity::Bipolar => extend_with(Polarity::Bipolar, values, one, out, threshold),
        Polarity::Signed => extend_with(Polarity::Signed, values, one, out, threshold),
    };
    if outside == 0 {
        return Ok(());
    }
    out.truncate(before);
    polarity.check(values, what).and(Err(Error::Changed { what }))
}

/// Appends thresholds, clamping values outside the interval to its ends. Returns a value other than
/// 0 if any was outside.
#[inline(always)]
fn extend_with<T>(
    polarity: Polarity,
    values: &[f64],
    one: u64,
    out: &mut Vec<T>,
    threshold: impl Fn(u64, f64) -> T,
) -> u64 {
    let ([low, high], scale) = (polarity.interval(), one as f64);
    let mut outside = 0;
    out.extend(values.iter().map(|&value| {
        // NaN becomes `low`. Comparisons in this form are one instruction each.
        let above = if value > low { value } else { low };
        let inside = if above < high { above } else { high };
        outside |= u64::from(!(value == inside));
        threshold(rounded(polarity.probability(inside) * scale), inside)
    }));
    outside
}

/// Returns `floor(x + 0.5)` of a number in 0..=2^32.
#[inline]
fn rounded(x: f64) -> u64 {
    // Floor and integer conversion by additions alone, so that slices are converted in vector
    // registers: adding 2^52 rounds to the nearest integer and leaves it in the low bits.
    const SHIFT: f64 = (1u64 << 52) as f64;
    let x = x + 0.5;
    let nearest = (x + SHIFT) - SHIFT;
    let floor = if nearest > x { nearest - 1.0 } else { nearest };
    (floor + SHIFT).to_bits() & ((1 << 52) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_matches_floor_of_specification() {
        let plain = |p: f64| (p * 4_294_967_296.0 + 0.5).floor() as u64;
        let threshold = |p: f64| Threshold::from_probability(p).map(Threshold::get);
        let unit = 1.0 / 4_294_967_296.0;
        let mut p = 0.37;
        for i in 0..200_000u32 {
            p = (p * 1.000_371 + f64::from(i) * unit) % 1.0;
            // Half-way points and their neighbours, where rounding could go either way, and
            // integers.
            let half = (f64::from(i * 21_473) + 0.5) * unit;
            for p in [
                p,
                half,
                half.next_up(),
                half.next_down(),
                f64::from(i) * unit,
                f64::from(i) * unit * unit,
            ] {
                assert_eq!(threshold(p), Ok(plain(p)), "{p}");
            }
        }
        for p in [0.0, 1.0, 1f64.next_down(), f64::MIN_POSITIVE, 0.5, 0.5f64.next_down()] {
            assert_eq!(threshold(p), Ok(plain(p)), "{p}");
        }
    }
}
