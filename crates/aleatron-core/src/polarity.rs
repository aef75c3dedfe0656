//! Encodings of values as fractions of ones: the interval of values, the product, and the value of
//! a count.

use crate::arithmetic::divide;
use crate::error::{Error, Quantity, Result};
use crate::stream::Length;
use std::fmt;
use std::str::FromStr;

/// The encoding of a value as a fraction of ones. As text: `unipolar`, `bipolar` or `signed`.
///
/// ```
/// use aleatron_core::Polarity;
/// assert_eq!("bipolar".parse::<Polarity>()?, Polarity::Bipolar);
/// assert_eq!(Polarity::Unipolar.to_string(), "unipolar");
/// assert!("tripolar".parse::<Polarity>().is_err());
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Polarity {
    /// Values in [0, 1], the fraction of ones; AND multiplies.
    #[default]
    Unipolar,
    /// Values in [-1, 1], twice the fraction of ones minus one; XNOR multiplies.
    Bipolar,
    /// Values in [-1, 1], a sign and the fraction of ones; AND multiplies, and products count up or
    /// down by the product of their signs.
    Signed,
}

impl Polarity {
    /// All polarities.
    pub const ALL: [Self; 3] = [Self::Unipolar, Self::Bipolar, Self::Signed];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unipolar => "unipolar",
            Self::Bipolar => "bipolar",
            Self::Signed => "signed",
        }
    }

    /// Returns the least and the greatest value.
    #[must_use]
    pub const fn interval(self) -> [f64; 2] {
        match self {
            Self::Unipolar => [0.0, 1.0],
            Self::Bipolar | Self::Signed => [-1.0, 1.0],
        }
    }

    /// Returns the greatest variance of a product of two independent stream bits.
    #[must_use]
    pub const fn product_variance(self) -> f64 {
        match self {
            // A signed product is 0, or the same of 1 and -1 in every cycle.
            Self::Unipolar | Self::Signed => 0.25,
            Self::Bipolar => 1.0,
        }
    }

    /// Checks that all `values`, named `what`, lie in the interval.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] with the index and value of the first value that is NaN or
    /// outside.
    pub fn check(self, values: &[f64], what: Quantity) -> Result<()> {
        let [low, high] = self.interval();
        let inside = |value: f64| (low <= value) & (value <= high);
        // Without a branch, so that the compiler uses vector registers; the index is searched only
        // after a failure.
        if values.iter().fold(true, |all, &value| all & inside(value)) {
            return Ok(());
        }
        match values.iter().enumerate().find(|(_, value)| !inside(**value)) {
            Some((index, &value)) => Err(Error::OutOfRange { what, index, value, low, high }),
            None => Ok(()),
        }
    }

    /// Returns the fraction of ones that encodes `value`, or its magnitude if the polarity has
    /// signs.
    #[inline]
    #[must_use]
    pub fn probability(self, value: f64) -> f64 {
        match self {
            Self::Unipolar => value,
            Self::Bipolar => (value + 1.0) / 2.0,
            Self::Signed => value.abs(),
        }
    }

    /// Returns the value at a `share` of the interval; for unipolar and bipolar streams, the value
    /// of that fraction of ones.
    #[inline]
    #[must_use]
    pub fn value_of(self, share: f64) -> f64 {
        match self {
            Self::Unipolar => share,
            Self::Bipolar | Self::Signed => 2.0 * share - 1.0,
        }
    }

    /// Returns whether an operand with this value counts down: a value below 0 of a polarity with
    /// signs. Zero, of either sign, does not.
    #[inline]
    #[must_use]
    pub fn is_negative(self, value: f64) -> bool {
        self == Self::Signed && value < 0.0
    }

    /// Returns the sum of `n` products of streams of `length` with `count` ones, in units of `1 /
    /// length`: `count` for ones, `2 count - n L` for matches, `count - n L` for an up-down count
    /// that begins with `n L`.
    #[inline]
    #[must_use]
    pub const fn sum(self, count: u64, n: usize, length: Length) -> i128 {
        match self {
            Self::Unipolar => count as i128,
            // i128: n * L may exceed 2^63 before a layer stops fitting into memory.
            Self::Bipolar => 2 * count as i128 - n as i128 * length.bits() as i128,
            Self::Signed => count as i128 - n as i128 * length.bits() as i128,
        }
    }

    /// Returns the value of a `count` summed over `n` products of streams of `length`:
    /// [`Self::sum`] over the length. All preceding arithmetic is integer, so this is the only
    /// rounding of a layer.
    #[inline]
    #[must_use]
    pub fn decode(self, count: u64, n: usize, length: Length) -> f64 {
        let bits = length.bits() as f64;
        match self {
            // A conversion from u64 is much cheaper than one from i128.
            Self::Unipolar => count as f64 / bits,
            Self::Bipolar | Self::Signed => self.sum(count, n, length) as f64 / bits,
        }
    }

    /// Applies [`Self::decode`] to many counts of neurons with `n` products each.
    #[must_use]
    pub fn decode_all(self, counts: &[u64], n: usize, length: Length) -> Vec<f64> {
        self.decode_rows(counts, &[n], length)
    }

    /// Applies [`Self::decode`] to rows of counts, one for each of the products in `fan_ins`.
    #[must_use]
    pub fn decode_rows(self, counts: &[u64], fan_ins: &[usize], length: Length) -> Vec<f64> {
        // Below 2^52 every intermediate integer is exact in f64, and the conversion uses vector
        // registers: the low bits of an f64 from 2^52 on are the integer.
        const SHIFT: f64 = (1u64 << 52) as f64;
        let products = fan_ins.iter().max().map_or(0, |&n| n as u128 * length.bits() as u128);
        let largest = counts.iter().fold(0, |all, &count| all | count);
        if products >= 1 << 52 || largest >= 1 << 51 {
            let counts = counts.iter().zip(fan_ins.iter().cycle());
            return counts.map(|(&count, &n)| self.decode(count, n, length)).collect();
        }
        let (factor, scale) = match self {
            Self::Unipolar => (1.0, 0.0),
            Self::Bipolar => (2.0, length.bits() as f64),
            Self::Signed => (1.0, length.bits() as f64),
        };
        let sum = |count: u64, offset: f64| {
            (f64::from_bits(count | SHIFT.to_bits()) - SHIFT) * factor - offset
        };
        let mut values: Vec<f64> = match fan_ins {
            [n, others @ ..] if others.iter().all(|other| other == n) => {
                counts.iter().map(|&count| sum(count, *n as f64 * scale)).collect()
            }
            _ => {
                let offsets: Vec<f64> = fan_ins.iter().map(|&n| n as f64 * scale).collect();
                let mut values = Vec::with_capacity(counts.len());
                for row in counts.chunks(offsets.len().max(1)) {
                    values.extend(
                        row.iter().zip(&offsets).map(|(&count, &offset)| sum(count, offset)),
                    );
                }
                values
            }
        };
        divide(&mut values, length.bits() as f64);
        values
    }
}

impl fmt::Display for Polarity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Polarity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|polarity| polarity.name() == text);
        found
            .ok_or_else(|| Error::unknown_name(Quantity::Polarity, text, Self::ALL.map(Self::name)))
    }
}
