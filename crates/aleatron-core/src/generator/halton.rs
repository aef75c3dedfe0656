//! The radical inverse: the digits of k in a base, mirrored about the radix point.

use super::Width;
use crate::error::{Error, Quantity, Result};
use std::fmt;

/// The primes up to the largest base, of which there are 6542.
static PRIMES: [u16; 6542] = {
    let mut primes = [0; 6542];
    let mut composite = [false; Halton::MAX_BASE as usize];
    let (mut n, mut found) = (2, 0);
    while n < composite.len() {
        if !composite[n] {
            primes[found] = n as u16;
            found += 1;
            let mut multiple = n * n;
            while multiple < composite.len() {
                composite[multiple] = true;
                multiple += n;
            }
        }
        n += 1;
    }
    primes
};

/// `U_k = floor(2^W * r)` with r the radical inverse of k in `base`, in exact integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Halton {
    base: u32,
    width: Width,
}

impl Halton {
    /// The largest base.
    pub const MAX_BASE: u32 = 1 << 16;

    /// Returns the sequence in `base`, at least 2.
    ///
    /// # Errors
    /// Returns [`Error::TooSmall`] or [`Error::TooLarge`] for the base.
    pub fn new(base: u32, width: Width) -> Result<Self> {
        let (what, actual) = (Quantity::HaltonBase, base.into());
        match base {
            0..2 => Err(Error::TooSmall { what, actual, limit: 2 }),
            2..=Self::MAX_BASE => Ok(Self { base, width }),
            _ => Err(Error::TooLarge { what, actual, limit: Self::MAX_BASE.into() }),
        }
    }

    /// Returns the van der Corput sequence, which is base 2.
    #[must_use]
    pub const fn van_der_corput(width: Width) -> Self {
        Self { base: 2, width }
    }

    /// Returns the base.
    #[must_use]
    pub const fn base(&self) -> u32 {
        self.base
    }

    /// Returns the width of its integers.
    #[must_use]
    pub const fn width(&self) -> Width {
        self.width
    }

    /// Returns the integer at index `k`.
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

    /// Returns an endless iterator over the integers.
    #[must_use]
    pub fn values(&self) -> HaltonValues {
        let base = u128::from(self.base);
        let mut scale = base;
        while scale < 1 << 64 {
            scale *= base;
        }
        HaltonValues {
            halton: *self,
            scale,
            digits: Vec::new(),
            steps: Vec::new(),
            value: 0,
            remainder: 0,
        }
    }

    /// Returns the sequence in `base`.
    pub(super) fn from_parameter(base: u32, width: Width) -> Result<Self> {
        Self::new(base, width)
    }

    /// Returns the number of points after which the integers are about evenly spread.
    pub(super) const fn period(&self) -> u64 {
        self.width.one()
    }

    /// Returns this sequence for index 0, and otherwise the prime `2 * index` after the base.
    pub(super) fn nth(&self, index: usize) -> Result<Self> {
        if index == 0 {
            return Ok(*self);
        }
        let first_greater = PRIMES.partition_point(|&prime| u32::from(prime) <= self.base);
        let position = index.checked_mul(2).and_then(|steps| first_greater.checked_add(steps - 1));
        match position.and_then(|position| PRIMES.get(position)) {
            Some(&base) => Ok(Self { base: base.into(), ..*self }),
            None => Err(Error::TooLarge {
                what: Quantity::HaltonBase,
                actual: u128::from(Self::MAX_BASE) + 1,
                limit: Self::MAX_BASE.into(),
            }),
        }
    }
}

impl fmt::Display for Halton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Halton {} bits, base {}", self.width.bits(), self.base)
    }
}

/// The integers of a [`Halton`] sequence, each computed from the previous one without a division.
///
/// With a power D of the base, `2^W * r = U + remainder / D`, all of them integers. From k to k + 1
/// some last digits of k, all of them base - 1, become 0, and the digit before them grows by 1. The
/// increments of U and of the remainder depend on the number of these digits alone.
#[derive(Debug, Clone)]
pub struct HaltonValues {
    halton: Halton,
    /// D, which has as many digits as any index.
    scale: u128,
    /// The digits of the next index, least significant first.
    digits: Vec<u32>,
    /// The increments of U and of the remainder, by the number of digits that become 0.
    steps: Vec<(u32, u128)>,
    value: u32,
    remainder: u128,
}

impl HaltonValues {
    /// Returns the increments if `zeroed` digits become 0.
    fn step(&self, zeroed: usize) -> (u32, u128) {
        // r falls by 1 - b^-zeroed and grows by b^-(zeroed + 1). The fall by 1 is a fall of U by
        // 2^W, which wraps.
        let base = u128::from(self.halton.base);
        let remaining = (0..zeroed).fold(self.scale, |part, _| part / base);
        let grown = (remaining + remaining / base) << self.halton.width.bits();
        let fall = self.halton.width.one();
        (((grown / self.scale) as u64).wrapping_sub(fall) as u32, grown % self.scale)
    }
}

impl Iterator for HaltonValues {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let value = self.value;
        let mut zeroed = 0;
        while self.digits.get(zeroed) == Some(&(self.halton.base - 1)) {
            self.digits[zeroed] = 0;
            zeroed += 1;
        }
        if zeroed == self.digits.len() {
            self.digits.push(0);
            self.steps.push(self.step(zeroed));
        }
        self.digits[zeroed] += 1;
        let (whole, part) = self.steps[zeroed];
        self.remainder += part;
        let carry = self.remainder >= self.scale;
        if carry {
            self.remainder -= self.scale;
        }
        self.value = value.wrapping_add(whole).wrapping_add(carry.into());
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_equal_at_for_each_index() {
        for base in [2, 3, 4, 5, 6, 7, 10, 16, 97, 255, 256, 257, 1000, 65_521, 65_535, 65_536] {
            for bits in [1, 2, 7, 8, 16, 31, 32] {
                let halton = Halton { base, width: Width(bits) };
                let alone = (0..3000).map(|k| halton.at(k));
                assert!(halton.values().take(3000).eq(alone), "base {base}, {bits} bits");
            }
        }
        // Beyond the squares and cubes of the base, where three digits become 0 at once.
        for base in [41, 65] {
            let halton = Halton { base, width: Width(32) };
            assert!(
                halton.values().take(300_000).eq((0..300_000).map(|k| halton.at(k))),
                "base {base}"
            );
        }
    }

    #[test]
    fn primes_equal_those_of_trial_division() {
        let is_prime = |n: &u32| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
        assert!(
            PRIMES
                .iter()
                .map(|&prime| u32::from(prime))
                .eq((2..=Halton::MAX_BASE).filter(is_prime))
        );
    }
}
