//! Integers in f64, where all of them are exact: x86-64 has vector instructions for f64 that it
//! lacks for integers of 64 bits, and the compiler uses them for loops over these functions.

/// Integers of so many bits in two's complement, and sums of two of them, are exact.
pub(super) const BITS: u32 = 51;

/// From here to twice of it, the low bits of a number are an integer as it stands.
const SHIFT: f64 = (1u64 << 52) as f64;

/// The middle of that interval, for integers of either sign.
const MIDDLE: f64 = 1.5 * SHIFT;

/// A count below 2^52.
#[inline]
pub(super) fn of_count(count: u64) -> f64 {
    f64::from_bits(count | SHIFT.to_bits()) - SHIFT
}

/// The integer that is a number in 0..2^52.
#[inline]
pub(super) fn to_count(x: f64) -> u64 {
    (x + SHIFT).to_bits() & ((1 << 52) - 1)
}

/// An integer between -2^51 and 2^51.
#[inline]
pub(super) fn of_integer(value: i64) -> f64 {
    f64::from_bits(MIDDLE.to_bits().wrapping_add(value as u64)) - MIDDLE
}

/// The integer that is a number between -2^51 and 2^51.
#[inline]
pub(super) fn to_integer(x: f64) -> i64 {
    (x + MIDDLE).to_bits().wrapping_sub(MIDDLE.to_bits()) as i64
}

/// The greatest integer that is not above a number between -2^51 and 2^51; not -0.
#[inline]
pub(super) fn floor(x: f64) -> f64 {
    let nearest = (x + MIDDLE) - MIDDLE;
    if nearest > x { nearest - 1.0 } else { nearest }
}

/// A number limited to an interval; each comparison in this form is one instruction.
#[inline]
pub(super) fn clamp(x: f64, low: f64, high: f64) -> f64 {
    let above = if x > low { x } else { low };
    if above < high { above } else { high }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back() {
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
    fn floors_are_those_of_the_standard_library() {
        for numerator in (-40_i32..40).chain([i32::MAX, i32::MIN, i32::MAX - 1]) {
            let x = f64::from(numerator) / 8.0;
            assert_eq!(floor(x), x.floor());
            assert!(floor(x) != 0.0 || floor(x).is_sign_positive());
            assert_eq!(clamp(x, -2.0, 1.5), x.clamp(-2.0, 1.5));
        }
        assert!(floor(0.0).is_sign_positive());
    }
}
