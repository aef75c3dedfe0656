//! The digits of a counter: the products of their streams are those of binary multipliers.

use super::Width;
use crate::error::{Error, Quantity, Result};
use std::fmt;

/// One digit of a counter in base `B = 2^W - 1`: `U_k = floor(k / B^DIGIT) mod B`.
///
/// Streams of digit 0 and of digit 1 meet every pair of values once in `B^2` cycles, so that the
/// ones of their AND are the product of the thresholds: clock division (Jenson and Riedel, ICCAD
/// 2016). A threshold of `2^W` counts as `2^W - 1`, the greatest magnitude of `W` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digit {
    digit: u32,
    width: Width,
}

impl Digit {
    /// The widest digit: two of them have a period below 2^32.
    pub const MAX_WIDTH: u32 = 16;

    /// Creates digit 0, which changes in every cycle, or digit 1, which changes when digit 0 starts
    /// over.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] for another digit and for a width above [`Self::MAX_WIDTH`].
    pub fn new(digit: u32, width: Width) -> Result<Self> {
        if digit > 1 {
            return Err(Error::TooLarge {
                what: Quantity::Sequence,
                actual: digit.into(),
                limit: 1,
            });
        }
        if width.bits() > Self::MAX_WIDTH {
            let (actual, limit) = (width.bits().into(), Self::MAX_WIDTH.into());
            return Err(Error::TooLarge { what: Quantity::Width, actual, limit });
        }
        Ok(Self { digit, width })
    }

    /// Returns the number of the digit.
    #[must_use]
    pub const fn digit(&self) -> u32 {
        self.digit
    }

    /// Returns the width of the integers.
    #[must_use]
    pub const fn width(&self) -> Width {
        self.width
    }

    /// Returns the base, which is the greatest magnitude of an operand: `2^W - 1`.
    #[must_use]
    pub const fn base(&self) -> u64 {
        self.width.one() - 1
    }

    /// Returns an endless iterator over the integers.
    #[must_use]
    pub const fn values(&self) -> DigitValues {
        let base = self.base();
        let hold = if self.digit == 0 { 1 } else { base };
        DigitValues { base, hold, cycle: 0, value: 0 }
    }

    pub(super) fn from_parameter(digit: u32, width: Width) -> Result<Self> {
        Self::new(digit, width)
    }

    pub(super) const fn period(&self) -> u64 {
        if self.digit == 0 { self.base() } else { self.base() * self.base() }
    }

    pub(super) fn nth(&self, index: usize) -> Result<Self> {
        match index {
            0 => Ok(*self),
            _ => Err(Error::TooLarge { what: Quantity::Sequence, actual: index as u128, limit: 0 }),
        }
    }
}

impl fmt::Display for Digit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "digit {} {} bits", self.digit, self.width.bits())
    }
}

/// The integers of a [`Digit`].
#[derive(Debug, Clone)]
pub struct DigitValues {
    base: u64,
    /// The number of cycles per value.
    hold: u64,
    /// The number of cycles since the value last changed.
    cycle: u64,
    value: u64,
}

impl Iterator for DigitValues {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let value = self.value;
        self.cycle += 1;
        if self.cycle == self.hold {
            self.cycle = 0;
            self.value = if value + 1 == self.base { 0 } else { value + 1 };
        }
        Some(value as u32)
    }
}
