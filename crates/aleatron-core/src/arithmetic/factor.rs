//! Ratios as integer multipliers and right shifts.

use super::integer::{Requantizer, bounded};
use crate::error::{Error, Quantity, Result};

/// A positive ratio as a multiplier and a right shift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Factor {
    pub(super) multiplier: u64,
    pub(super) width: u32,
    pub(super) shift: u32,
    /// The ratio is in 2^(e-1)..2^e.
    pub(super) exponent: i32,
}

impl Factor {
    /// Creates the factor closest to `ratio` with a multiplier of at least `multiplier_width` bits,
    /// rounding half up.
    pub(super) fn new(ratio: f64, multiplier_width: u32) -> Result<Self> {
        const MAX_WIDTH: i32 = Requantizer::MAX_MULTIPLIER_WIDTH as i32;
        const MAX_SHIFT: i32 = Requantizer::MAX_SHIFT as i32;
        bounded(Quantity::MultiplierWidth, multiplier_width, 1, MAX_WIDTH as u32)?;
        let [low, high] = [-MAX_SHIFT, MAX_WIDTH].map(|e| 2f64.powi(e));
        if !(ratio > low && ratio < high) {
            let what = Quantity::Multiplier;
            return Err(Error::OutOfRange { what, index: 0, value: ratio, low, high });
        }
        // Read from its bits because a logarithm may differ between systems. No ratio in the
        // interval is subnormal.
        let exponent = (ratio.to_bits() >> 52) as i32 - 1022;
        let width = (multiplier_width as i32).max(exponent);
        let shift = (width - exponent).clamp(0, MAX_SHIFT);
        // The product with a power of two is exact.
        let rounded = round_half_up(ratio * 2f64.powi(shift)) as u64;
        // Rounding up may have lengthened it by one bit.
        let multiplier = rounded.min((1 << width) - 1);
        Ok(Self { multiplier, width: width as u32, shift: shift as u32, exponent })
    }
}

/// Returns the nearest integer, halves rounded up.
///
/// The rounding is exact. `(x + 0.5).floor()` rounds twice: from 2^52 on the sum would move odd
/// integers to their even neighbours, and 0.5 less one unit in the last place to 1.
pub(super) fn round_half_up(x: f64) -> f64 {
    let floor = x.floor();
    if x - floor >= 0.5 { floor + 1.0 } else { floor }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `floor(mantissa * 2^exponent + 1/2)` in integers.
    fn exact(mantissa: u64, exponent: i32) -> u128 {
        let mantissa = u128::from(mantissa);
        match u32::try_from(-exponent) {
            Err(_) => mantissa << exponent,
            Ok(0) => mantissa,
            // A 53-bit mantissa is below half of 2^55.
            Ok(shift) if shift >= 55 => 0,
            Ok(shift) => (mantissa + (1 << (shift - 1))) >> shift,
        }
    }

    /// Mantissas of 53 bits: ends of the interval, odd and even ones, and others.
    fn mantissas() -> Vec<u64> {
        let one = 1_u64 << 52;
        let mut all = vec![
            one,
            one + 1,
            one + 2,
            one + 3,
            2 * one - 1,
            2 * one - 2,
            one + one / 2,
            one + one / 2 + 1,
        ];
        let mut state = 1_u64;
        all.extend((0..200).map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            one | state >> 12
        }));
        all
    }

    #[test]
    fn multiplier_matches_integer_arithmetic_for_every_exponent_and_width() {
        for exponent in -124..=62 {
            for mantissa in mantissas() {
                let ratio = mantissa as f64 * 2f64.powi(exponent - 53);
                for width in [1, 16, 31, 52, 53, 54, 61, 62] {
                    let case = format!("{mantissa} * 2^{} with {width} bits", exponent - 53);
                    if ratio == 2f64.powi(-125) {
                        assert!(Factor::new(ratio, width).is_err(), "{case}");
                        continue;
                    }
                    let factor = Factor::new(ratio, width).unwrap();
                    let expected_width = exponent.max(width as i32);
                    let shift = (expected_width - exponent).min(125);
                    let expected =
                        exact(mantissa, exponent - 53 + shift).min((1 << expected_width) - 1);
                    assert_eq!(u128::from(factor.multiplier), expected, "{case}");
                    assert_eq!(
                        (factor.width as i32, factor.shift as i32),
                        (expected_width, shift),
                        "{case}"
                    );
                    assert_eq!(factor.exponent, exponent, "{case}");
                }
            }
        }
    }

    #[test]
    fn new_accepts_ratios_up_to_widest_multiplier() {
        let limit = 2f64.powi(62);
        for ratio in
            [2f64.powi(61).next_down(), 2f64.powi(61), 1.5 * 2f64.powi(61), limit.next_down()]
        {
            let factor = Factor::new(ratio, 16).unwrap();
            assert_eq!((factor.multiplier as u128, factor.shift), (ratio as u128, 0), "{ratio}");
        }
        for ratio in [limit, 2f64.powi(-125), 0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = Factor::new(ratio, 16);
            assert!(
                matches!(refused, Err(Error::OutOfRange { what: Quantity::Multiplier, high, .. }) if high == limit),
                "{ratio}"
            );
        }
    }

    #[test]
    fn round_half_up_keeps_odd_integers_from_2_to_the_52() {
        for integer in [(1_u64 << 52) + 1, (1 << 52) + 3, (1 << 53) - 1, (1 << 52) - 1] {
            let factor = Factor::new(integer as f64, 16).unwrap();
            assert_eq!((factor.multiplier, factor.shift), (integer, 0));
            assert_eq!(round_half_up(integer as f64), integer as f64);
            assert_eq!(round_half_up(-(integer as f64)), -(integer as f64));
        }
    }

    #[test]
    fn round_half_up_rounds_halves_up_but_not_their_neighbours() {
        for half in [-2.5_f64, -1.5, -0.5, 0.5, 1.5, 2.5, (1_u64 << 51) as f64 + 0.5] {
            assert_eq!(round_half_up(half), half + 0.5);
            assert_eq!(round_half_up(half.next_down()), half - 0.5);
        }
        assert_eq!(round_half_up(-1e-20), 0.0);
        assert_eq!(round_half_up(0.0), 0.0);
    }
}
