//! The temporal code: a counter.

use super::Width;
use crate::error::{Error, Quantity, Result};
use std::fmt;

/// `U_k = k mod 2^W`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ramp {
    width: Width,
}

impl Ramp {
    /// Creates a counter of `width` bits.
    #[must_use]
    pub const fn new(width: Width) -> Self {
        Self { width }
    }

    /// Returns the width of its integers.
    #[must_use]
    pub const fn width(&self) -> Width {
        self.width
    }

    /// Returns an endless iterator over the integers.
    #[must_use]
    pub const fn values(&self) -> RampValues {
        RampValues { next: 0, width: self.width }
    }

    /// Creates a counter of `width` bits, ignoring the parameter.
    pub(super) fn from_parameter(_: u32, width: Width) -> Result<Self> {
        Ok(Self::new(width))
    }

    /// Returns the number of cycles after which the counter starts over.
    pub(super) const fn period(&self) -> u64 {
        self.width.one()
    }

    pub(super) fn nth(&self, index: usize) -> Result<Self> {
        match index {
            0 => Ok(*self),
            _ => Err(Error::TooLarge { what: Quantity::Sequence, actual: index as u128, limit: 0 }),
        }
    }
}

impl fmt::Display for Ramp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ramp {} bits", self.width.bits())
    }
}

/// The integers of a [`Ramp`].
#[derive(Debug, Clone)]
pub struct RampValues {
    next: u64,
    width: Width,
}

impl Iterator for RampValues {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let value = self.next & (self.width.one() - 1);
        self.next = self.next.wrapping_add(1);
        Some(value as u32)
    }
}
