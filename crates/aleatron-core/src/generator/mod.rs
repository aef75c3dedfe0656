//! Sequences of integers that many streams share, as hardware does.
//!
//! A [`Sequence`] is U_0, U_1, … of W-bit integers; bit k of a stream is 1 when `U_k < T`, with
//! `T = floor(p * 2^W + 0.5)`. Nothing here is drawn: a sequence is a fixed function of its parameters. [`Pairing`]
//! says which sequences the inputs and the weights of a layer use, and [`CountTable`] counts their products without
//! making the bits. Bernoulli streams, which share nothing, are addressed by [`crate::address`].

mod halton;
mod lfsr;
mod pairing;
mod ramp;
mod sobol;
mod table;

pub use halton::{Halton, HaltonValues};
pub use lfsr::{Lfsr, LfsrValues};
pub use pairing::{Pairing, Sharing, Warning};
pub use ramp::{Ramp, RampValues};
pub use sobol::{Sobol, SobolValues};
pub use table::{CountTable, PrefixCounts};

use std::fmt;

use lfsr::LfsrPowers;

use crate::dense::Polarity;
use crate::error::{Error, Quantity, Result};
use crate::stream::{BitStream, Length, WORD_BITS};

/// The width W of a sequence in bits, 1 to 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Width(u32);

impl Width {
    /// Eight bits, what most stochastic hardware uses.
    pub const EIGHT: Self = Self(8);

    /// The widest sequence.
    pub const MAX: u32 = 32;

    /// A width of `bits`.
    ///
    /// # Errors
    /// [`Error::Zero`] for 0, [`Error::TooLarge`] past [`Self::MAX`].
    pub fn new(bits: u32) -> Result<Self> {
        match bits {
            0 => Err(Error::Zero(Quantity::Width)),
            1..=Self::MAX => Ok(Self(bits)),
            _ => Err(Error::TooLarge { what: Quantity::Width, actual: bits.into(), limit: Self::MAX.into() }),
        }
    }

    /// The width in bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The threshold of the stream of ones, `2^W`.
    #[must_use]
    pub const fn one(self) -> u64 {
        1 << self.0
    }

    /// The thresholds of `values`, each of which must lie in the interval of `polarity`.
    ///
    /// ```
    /// use aleatron_core::{Polarity, Quantity, Width};
    /// let thresholds = Width::EIGHT.thresholds(&[-1.0, 0.0, 0.51, 1.0], Polarity::Bipolar, Quantity::Value)?;
    /// assert_eq!(thresholds, [0, 128, 193, 256]);
    /// # Ok::<(), aleatron_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfRange`] with the index and value of the first one outside, called `what`.
    pub fn thresholds(self, values: &[f64], polarity: Polarity, what: Quantity) -> Result<Vec<u64>> {
        let [low, high] = polarity.interval();
        let scale = self.one() as f64;
        let threshold = |(index, &value)| {
            if (low..=high).contains(&value) {
                Ok((polarity.probability(value) * scale + 0.5).floor() as u64)
            } else {
                Err(Error::OutOfRange { what, index, value, low, high })
            }
        };
        values.iter().enumerate().map(threshold).collect()
    }
}

/// A deterministic generator, with all its parameters.
///
/// ```
/// use aleatron_core::generator::{Sequence, Sobol, Width};
/// let sobol = Sequence::Sobol(Sobol::new(2, Width::EIGHT)?);
/// assert_eq!(sobol.values().take(4).collect::<Vec<_>>(), [0, 128, 64, 192]);
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sequence {
    /// A linear-feedback shift register.
    Lfsr(Lfsr),
    /// One dimension of the Sobol sequence.
    Sobol(Sobol),
    /// The radical inverse in some base; base 2 is the van der Corput sequence.
    Halton(Halton),
    /// A counter, the temporal code.
    Ramp(Ramp),
}

impl Sequence {
    /// The width of its integers.
    #[must_use]
    pub const fn width(&self) -> Width {
        match self {
            Self::Lfsr(lfsr) => lfsr.width(),
            Self::Sobol(sobol) => sobol.width(),
            Self::Halton(halton) => halton.width(),
            Self::Ramp(ramp) => ramp.width(),
        }
    }

    /// The integers, from the first on; the iterator does not end.
    #[must_use]
    pub fn values(&self) -> Values {
        match self {
            Self::Lfsr(lfsr) => Values::Lfsr(lfsr.values()),
            Self::Sobol(sobol) => Values::Sobol(Box::new(sobol.values())),
            Self::Halton(halton) => Values::Halton(halton.values()),
            Self::Ramp(ramp) => Values::Ramp(ramp.values()),
        }
    }

    /// The sequence at `index` among those that can stand beside this one; index 0 is this one. A Sobol sequence
    /// moves on by two dimensions, a Halton sequence by two primes, so that a pair that starts at neighbours never
    /// meets; an LFSR moves along its cycle by the golden section, so that phases stay spread.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where the generator has no more sequences; a ramp has only one.
    pub fn nth(&self, index: usize) -> Result<Self> {
        match self {
            Self::Lfsr(lfsr) => Ok(Self::Lfsr(lfsr.nth(index))),
            Self::Sobol(sobol) => sobol.nth(index).map(Self::Sobol),
            Self::Halton(halton) => halton.nth(index).map(Self::Halton),
            Self::Ramp(ramp) => ramp.nth(index).map(Self::Ramp),
        }
    }

    /// The sequences that [`Self::nth`] gives, for those who ask for many.
    #[must_use]
    pub fn siblings(&self) -> Siblings {
        let powers = match self {
            Self::Lfsr(lfsr) => Some(LfsrPowers::new(*lfsr)),
            Self::Sobol(_) | Self::Halton(_) | Self::Ramp(_) => None,
        };
        Siblings { first: *self, powers }
    }

    /// The stream of a threshold: bit k is 1 when `U_k < threshold`.
    #[must_use]
    pub fn encode(&self, threshold: u64, length: Length) -> BitStream {
        let mut values = self.values();
        BitStream::from_fn(length, |_| {
            let bits = values.by_ref().take(WORD_BITS).enumerate();
            bits.fold(0, |word, (k, u)| word | u64::from(u64::from(u) < threshold) << k)
        })
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.width().bits();
        match self {
            Self::Lfsr(lfsr) => {
                write!(f, "LFSR {bits} bits, taps {}, seed {}", lfsr.taps_text(), lfsr.seed())
            }
            Self::Sobol(sobol) => write!(f, "Sobol {bits} bits, dimension {}", sobol.dimension()),
            Self::Halton(halton) => write!(f, "Halton {bits} bits, base {}", halton.base()),
            Self::Ramp(_) => write!(f, "ramp {bits} bits"),
        }
    }
}

/// The sequences that can stand beside one: what finding them takes is made once.
///
/// ```
/// use aleatron_core::generator::{Lfsr, Sequence, Width};
/// let first = Sequence::Lfsr(Lfsr::new(Width::EIGHT, 1)?);
/// assert_eq!(first.siblings().nth(1000), first.nth(1000));
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Siblings {
    first: Sequence,
    powers: Option<LfsrPowers>,
}

impl Siblings {
    /// The same as [`Sequence::nth`] of the first.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where the generator has no more sequences.
    pub fn nth(&self, index: usize) -> Result<Sequence> {
        match &self.powers {
            Some(powers) => Ok(Sequence::Lfsr(powers.nth(index))),
            None => self.first.nth(index),
        }
    }
}

/// The integers of a [`Sequence`], without end.
#[derive(Debug, Clone)]
pub enum Values {
    /// Of an LFSR.
    Lfsr(LfsrValues),
    /// Of a Sobol sequence.
    Sobol(Box<SobolValues>),
    /// Of a Halton sequence.
    Halton(HaltonValues),
    /// Of a ramp.
    Ramp(RampValues),
}

impl Values {
    /// Writes the next integers: as taking them one by one, but without asking for each what kind it is.
    pub fn fill(&mut self, out: &mut [u32]) {
        fn fill(values: &mut impl Iterator<Item = u32>, out: &mut [u32]) {
            out.iter_mut().zip(values).for_each(|(out, value)| *out = value);
        }
        match self {
            Self::Lfsr(values) => fill(values, out),
            Self::Sobol(values) => fill(&mut **values, out),
            Self::Halton(values) => fill(values, out),
            Self::Ramp(values) => fill(values, out),
        }
    }
}

impl Iterator for Values {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        match self {
            Self::Lfsr(values) => values.next(),
            Self::Sobol(values) => values.next(),
            Self::Halton(values) => values.next(),
            Self::Ramp(values) => values.next(),
        }
    }
}
