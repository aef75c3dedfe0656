//! The radical inverse: the digits of k in some base, mirrored behind the point.

use super::Width;
use crate::error::{Error, Quantity, Result};
use std::fmt;

/// `U_k = floor(2^W * r)` with r the radical inverse of k in `base`, in exact integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Halton {
    base: u32,
    width: Width,
}

impl Halton {
    /// The largest base. Primes up to it are found by trial division.
    pub const MAX_BASE: u32 = 1 << 16;

    /// The sequence in `base`, at least 2.
    ///
    /// # Errors
    /// [`Error::TooSmall`] or [`Error::TooLarge`] for the base.
    pub fn new(base: u32, width: Width) -> Result<Self> {
        let (what, actual) = (Quantity::HaltonBase, base.into());
        match base {
            0..2 => Err(Error::TooSmall { what, actual, limit: 2 }),
            2..=Self::MAX_BASE => Ok(Self { base, width }),
            _ => Err(Error::TooLarge { what, actual, limit: Self::MAX_BASE.into() }),
        }
    }

    /// The van der Corput sequence, which is base 2.
    #[must_use]
    pub const fn van_der_corput(width: Width) -> Self {
        Self { base: 2, width }
    }

    /// The base.
    #[must_use]
    pub const fn base(&self) -> u32 {
        self.base
    }

    /// The width of its integers.
    #[must_use]
    pub const fn width(&self) -> Width {
        self.width
    }

    /// The integer at index `k`.
    #[must_use]
    pub fn at(&self, mut k: u64) -> u32 {
        let base = u128::from(self.base);
        // mirrored < scale <= k * base < 2^80, so the shift by at most 32 stays inside u128.
        let (mut mirrored, mut scale) = (0_u128, 1_u128);
        while k > 0 {
            mirrored = mirrored * base + u128::from(k % u64::from(self.base));
            scale *= base;
            k /= u64::from(self.base);
        }
        ((mirrored << self.width.bits()) / scale) as u32
    }

    /// The integers, without end.
    #[must_use]
    pub const fn values(&self) -> HaltonValues {
        HaltonValues { next: 0, halton: *self }
    }

    /// The sequence in `base`.
    pub(super) fn from_parameter(base: u32, width: Width) -> Result<Self> {
        Self::new(base, width)
    }

    /// The points after which the integers are about evenly spread.
    pub(super) const fn period(&self) -> u64 {
        self.width.one()
    }

    /// This one for index 0, else the prime that comes `2 * index` after the base.
    pub(super) fn nth(&self, index: usize) -> Result<Self> {
        if index == 0 {
            return Ok(*self);
        }
        let mut primes = (self.base + 1..=Self::MAX_BASE).filter(|&n| is_prime(n));
        let past = Error::TooLarge {
            what: Quantity::HaltonBase,
            actual: u128::from(Self::MAX_BASE) + 1,
            limit: Self::MAX_BASE.into(),
        };
        let base = index.checked_mul(2).and_then(|steps| primes.nth(steps - 1)).ok_or(past)?;
        Ok(Self { base, ..*self })
    }
}

impl fmt::Display for Halton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Halton {} bits, base {}", self.width.bits(), self.base)
    }
}

fn is_prime(n: u32) -> bool {
    n >= 2 && (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

/// The integers of a [`Halton`] sequence.
#[derive(Debug, Clone)]
pub struct HaltonValues {
    next: u64,
    halton: Halton,
}

impl Iterator for HaltonValues {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let value = self.halton.at(self.next);
        self.next = self.next.wrapping_add(1);
        Some(value)
    }
}
