//! Integers in f64, in the range where f64 is exact. x86-64 has vector instructions for f64 that it
//! lacks for integers of 64 bits, and the compiler uses them for loops over these functions.

/// Width of two's complement integers that are exact in f64, as are sums of two of them.
pub(super) const BITS: u32 = 51;

/// From this number to twice it, the low bits of an f64 are the integer.
const SHIFT: f64 = (1u64 << 52) as f64;

/// The middle of that interval, for integers of either sign.
const MIDDLE: f64 = 1.5 * SHIFT;

/// Converts a count below 2^52.
#[inline]
pub(super) fn of_count(count: u64) -> f64 {
    f64::from_bits(count | SHIFT.to_bits()) - SHIFT
}

/// Converts a number in 0..2^52 that is an integer.
#[inline]
pub(super) fn to_count(x: f64) -> u64 {
    (x + SHIFT).to_bits() & ((1 << 52) - 1)
}

/// Converts an integer between -2^51 and 2^51.
#[inline]
pub(super) fn of_integer(value: i64) -> f64 {
    f64::from_bits(MIDDLE.to_bits().wrapping_add(value as u64)) - MIDDLE
}

/// Converts a number between -2^51 and 2^51 that is an integer.
#[inline]
pub(super) fn to_integer(x: f64) -> i64 {
    (x + MIDDLE).to_bits().wrapping_sub(MIDDLE.to_bits()) as i64
}

/// Returns the greatest integer not above a number between -2^51 and 2^51; never -0.
#[inline]
pub(super) fn floor(x: f64) -> f64 {
    let nearest = (x + MIDDLE) - MIDDLE;
    if nearest > x { nearest - 1.0 } else { nearest }
}

/// Limits a number to an interval; each comparison in this form is one instruction.
#[inline]
pub(super) fn clamp(x: f64, low: f64, high: f64) -> f64 {
    let above = if x > low { x } else { low };
    if above < high { above } else { high }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_round_trip_through_f64() {
        for value in [0, 1, -1, 12_345, -12_345, (1 << 51) - 1, 1 - (1 << 51)] {
            assert_eq!(of_integer(value), value as f64);
            assert_eq!(to_integer(value as f64), value);
        }
        for count in [0, 1, 12_345, (1 << 52) - 1] {
            assert_eq!(of_count(count), count as f64);
            assert_eq!(to_count(count as f64), count);
        }
    }

    #[test]
    fn floor_matches_standard_library() {
        for numerator in (-40_i32..40).chain([i32::MAX, i32::MIN, i32::MAX - 1]) {
            let x = f64::from(numerator) / 8.0;
            assert_eq!(floor(x), x.floor());
            assert!(floor(x) != 0.0 || floor(x).is_sign_positive());
            assert_eq!(clamp(x, -2.0, 1.5), x.clamp(-2.0, 1.5));
        }
        assert!(floor(0.0).is_sign_positive());
    }
}
