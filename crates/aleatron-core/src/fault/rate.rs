//! Rates of faults as pairs of comparisons.

use crate::error::{Error, Quantity, Result};
use crate::threshold::Threshold;
use std::fmt;
use std::str::FromStr;

/// The probability that a bit flips, or that a burst begins in a cycle: 0, or in [1e-9, 0.5].
///
/// ```
/// use aleatron_core::fault::FaultRate;
/// let [coarse, fine] = FaultRate::new(1e-9)?.thresholds();
/// let p = coarse.get() as f64 * fine.get() as f64 / 2f64.powi(64);
/// assert!((p / 1e-9 - 1.0).abs() < 2f64.powi(-32));
/// assert!(FaultRate::new(0.6).is_err());
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FaultRate {
    /// The bits of the rate, which is not NaN and has one form of 0.
    bits: u64,
}

impl FaultRate {
    /// The rate of a bit that never flips.
    pub const ZERO: Self = Self { bits: 0 };

    /// The lowest rate above 0.
    pub const LEAST: f64 = 1e-9;

    /// The highest rate, at which bits carry no information.
    pub const MOST: f64 = 0.5;

    /// Creates a rate.
    ///
    /// # Errors
    /// Returns [`Error::Syntax`] for NaN and for a number that is neither 0 nor in [1e-9, 0.5].
    pub fn new(rate: f64) -> Result<Self> {
        if rate == 0.0 {
            return Ok(Self::ZERO);
        }
        if (Self::LEAST..=Self::MOST).contains(&rate) {
            return Ok(Self { bits: rate.to_bits() });
        }
        let reason = "use 0 or a number from 1e-9 to 0.5".to_owned();
        Err(Error::Syntax { what: Quantity::FaultRate, text: rate.to_string(), reason })
    }

    /// Returns the rate.
    #[must_use]
    pub const fn get(self) -> f64 {
        f64::from_bits(self.bits)
    }

    /// Returns whether the rate is 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.bits == 0
    }

    /// Returns the thresholds of the two comparisons of a mask bit: a power of two, and one of at
    /// least 2^31.
    #[must_use]
    pub fn thresholds(self) -> [Threshold; 2] {
        if self.is_zero() {
            return [Threshold::ZERO; 2];
        }
        let (mut share, mut coarse) = (2.0 * self.get(), Threshold::ONE.get() / 2);
        while share <= 0.5 {
            (share, coarse) = (2.0 * share, coarse / 2);
        }
        let fine = (share * Threshold::ONE.get() as f64 + 0.5).floor() as u64;
        [Threshold::saturating(coarse), Threshold::saturating(fine)]
    }
}

impl fmt::Display for FaultRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            rate if rate == 0.0 || rate >= 0.01 => write!(f, "{rate}"),
            rate => write!(f, "{rate:e}"),
        }
    }
}

impl FromStr for FaultRate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let reason = || "use 0 or a number from 1e-9 to 0.5".to_owned();
        let fault =
            || Error::Syntax { what: Quantity::FaultRate, text: text.to_owned(), reason: reason() };
        Self::new(text.trim().parse().map_err(|_| fault())?)
    }
}
