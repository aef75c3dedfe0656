//! The overlap of two streams, and the two measures of correlation derived from it.

use crate::error::{Error, Quantity, Result};
use crate::gates;
use crate::stream::{BitStream, Length};

/// The numbers of positions of two streams that hold 11, 10, 01 and 00.
///
/// ```
/// use aleatron_core::{BitStream, Overlap};
/// let a = BitStream::from_bits(&[1, 1, 0, 0])?;
/// assert_eq!(Overlap::of(&a, &a)?.scc(), 1.0);
/// let b = BitStream::from_bits(&[1, 0, 1, 0])?;
/// assert_eq!(Overlap::of(&a, &b)?.scc(), 0.0);
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Overlap {
    both: u64,
    first: u64,
    second: u64,
    neither: u64,
}

impl Overlap {
    /// Creates the overlap of streams of `length` with `ones` ones, `both` of them at the same
    /// positions.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] or [`Error::TooSmall`] if no two streams have such counts.
    pub fn new(length: Length, ones: [u64; 2], both: u64) -> Result<Self> {
        let what = Quantity::Counts;
        let [x, y] = ones;
        let bits = length.bits() as u64;
        if let Some(&actual) = ones.iter().find(|&&n| n > bits) {
            return Err(Error::TooLarge { what, actual: actual.into(), limit: bits.into() });
        }
        if both > x.min(y) {
            return Err(Error::TooLarge { what, actual: both.into(), limit: x.min(y).into() });
        }
        match (bits + both).checked_sub(x + y) {
            Some(neither) => Ok(Self { both, first: x - both, second: y - both, neither }),
            None => {
                Err(Error::TooSmall { what, actual: both.into(), limit: u128::from(x + y - bits) })
            }
        }
    }

    /// Computes the overlap of two streams of one length.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if the lengths differ.
    pub fn of(x: &BitStream, y: &BitStream) -> Result<Self> {
        Self::new(x.length(), [x.ones(), y.ones()], gates::and(x, y)?.ones())
    }

    /// Returns the numbers of positions that hold 11, 10, 01 and 00, in that order: a, b, c, d
    /// below.
    #[must_use]
    pub const fn counts(&self) -> [u64; 4] {
        [self.both, self.first, self.second, self.neither]
    }

    /// Returns the stochastic cross-correlation (SCC) of Alaghi and Hayes, in [-1, 1]: `(ad - bc)`
    /// over its largest possible magnitude for these numbers of ones, `N min(a+b, a+c) -
    /// (a+b)(a+c)` if positive, `(a+b)(a+c) - N max(a-d, 0)` otherwise; 0 if that is 0.
    #[must_use]
    pub fn scc(&self) -> f64 {
        let [a, b, c, d] = self.signed();
        let (n, x, y) = (a + b + c + d, a + b, a + c);
        let excess = a * d - b * c;
        let most = if excess > 0 { n * x.min(y) - x * y } else { x * y - n * (a - d).max(0) };
        if most == 0 { 0.0 } else { excess as f64 / most as f64 }
    }

    /// Returns the zero-correlation error (ZCE): how much further the overlap is from that of
    /// independent streams than the length makes unavoidable. With `D = a/N - (a+b)(a+c)/N^2` and
    /// `D0` the same for the integer nearest to `(a+b)(a+c)/N` instead of a, it is `sign(D) (|D| -
    /// |D0|)`.
    #[must_use]
    pub fn zce(&self) -> f64 {
        let [a, b, c, d] = self.signed();
        let (n, product) = (a + b + c + d, (a + b) * (a + c));
        // All in units of 1 / N^2, in which every term is an integer.
        let nearest = (2 * product + n) / (2 * n);
        let (distance, unavoidable) = (n * a - product, (n * nearest - product).abs());
        (distance.signum() * (distance.abs() - unavoidable)) as f64 / (n * n) as f64
    }

    fn signed(&self) -> [i128; 4] {
        self.counts().map(i128::from)
    }
}
