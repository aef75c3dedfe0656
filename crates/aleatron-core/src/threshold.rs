//! Probabilities as integer thresholds: a stream bit is 1 when its uniform integer is below the threshold.

use crate::dense::Polarity;
use crate::error::{Error, Quantity, Result};

/// A threshold `floor(p * 2^32 + 0.5)` in `0..=2^32`; both ends are exact, all zeros and all ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Threshold(u64);

impl Threshold {
    /// The stream of zeros.
    pub const ZERO: Self = Self(0);

    /// The stream of ones, `2^32`.
    pub const ONE: Self = Self(1 << 32);

    /// The threshold of a probability in [0, 1].
    ///
    /// ```
    /// use aleatron_core::Threshold;
    /// assert_eq!(Threshold::from_probability(0.25)?.get(), 1 << 30);
    /// assert!(Threshold::from_probability(f64::NAN).is_err());
    /// # Ok::<(), aleatron_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for NaN and anything outside [0, 1].
    pub fn from_probability(p: f64) -> Result<Self> {
        if (0.0..=1.0).contains(&p) {
            Ok(Self::of(p))
        } else {
            Err(Error::OutOfRange { what: Quantity::Probability, index: 0, value: p, low: 0.0, high: 1.0 })
        }
    }

    /// Rounds a probability already known to lie in [0, 1]. The conversion to an integer is the `floor`: of what is not
    /// negative they are the same, and without SSE 4.1 the other is a call.
    #[inline]
    fn of(p: f64) -> Self {
        Self((p * 4_294_967_296.0 + 0.5) as u64)
    }

    /// The threshold as an integer in `0..=2^32`.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The thresholds of `values`, each of which must lie in the interval of `polarity`.
///
/// # Errors
/// [`Error::OutOfRange`] with the index and value of the first one outside, called `what`.
pub fn thresholds(values: &[f64], polarity: Polarity, what: Quantity) -> Result<Vec<Threshold>> {
    polarity.check(values, what)?;
    Ok(values.iter().map(|&value| Threshold::of(polarity.probability(value))).collect())
}
