//! Intervals of integers, for the widths of words.

use crate::{Error, Result};

/// Returns the number of bits in two's complement of all integers from `low` to `high`.
pub(crate) fn signed_bits(low: i128, high: i128) -> u32 {
    let bits = |value: i128| 128 - if value < 0 { !value } else { value }.leading_zeros();
    1 + bits(low).max(bits(high))
}

/// An interval of integers in a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) low: i128,
    pub(crate) high: i128,
}

impl Interval {
    pub(crate) fn new(low: i128, high: i128) -> Self {
        Self { low, high }
    }

    /// Returns the least interval with the values of both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Returns the interval of a monotonic function.
    pub(crate) fn map(self, f: impl Fn(i128) -> i128) -> Self {
        Self { low: f(self.low), high: f(self.high) }
    }

    /// Returns the ends as 64-bit integers, which the engine uses.
    pub(crate) fn ends(self, part: &str) -> Result<[i64; 2]> {
        match (i64::try_from(self.low), i64::try_from(self.high)) {
            (Ok(low), Ok(high)) => Ok([low, high]),
            _ => Err(Error::Unsupported {
                part: part.to_owned(),
                what: format!("an integer between {} and {}", self.low, self.high),
                remedy: "use shorter streams, or other scales",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_bits_hold_both_ends() {
        for (low, high, bits) in [
            (0, 0, 1),
            (-1, 0, 1),
            (0, 1, 2),
            (-2, 1, 2),
            (-3, 1, 3),
            (0, 127, 8),
            (-129, 0, 9),
            (-128, 128, 9),
        ] {
            assert_eq!(signed_bits(low, high), bits, "{low}..={high}");
        }
    }
}
