//! Random sources shared by many streams: deterministic sequences of integers, as in hardware.
//!
//! A [`Sequence`] is U_0, U_1, … of W-bit integers; bit k of a stream is 1 if `U_k < T`, with `T =
//! floor(p * 2^W + 0.5)`. A sequence is a fixed function of its parameters. [`Pairing`] assigns
//! sequences to the inputs and the weights of a layer, [`OperandSequences`] to one of the two, and
//! [`CountTable`] counts their products without generating the bits. [`GeneratorName`] is the
//! textual form of generators in every language. Bernoulli streams, which share nothing, are
//! addressed by [`crate::address`].
//!
//! To add a generator, write its file, with a type that has the functions of the others, and add
//! its line to the table `sequences!` below.

mod digit;
mod halton;
mod lfsr;
mod name;
mod pairing;
mod ramp;
mod sobol;
mod table;

pub use digit::{Digit, DigitValues};
pub use halton::{Halton, HaltonValues};
pub use lfsr::{Lfsr, LfsrValues};
pub use name::{GeneratorName, IntegerBits, SequenceName, WidthChoice};
pub use pairing::{OperandSequences, Pairing, Sharing, Warning};
pub use ramp::{Ramp, RampValues};
pub use sobol::{Sobol, SobolValues};
pub use table::{CountTable, PrefixCounts};

use std::fmt;

use lfsr::LfsrPowers;

use crate::error::{Error, Quantity, Result};
use crate::polarity::Polarity;
use crate::stream::{BitStream, Length, WORD_BITS};
use crate::threshold::{NEGATIVE, is_negative, magnitude};

/// The width W of a sequence in bits, 1 to 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Width(u32);

impl Width {
    /// Eight bits, the most common width in stochastic hardware.
    pub const EIGHT: Self = Self(8);

    /// The width of the integers of Bernoulli streams.
    pub const BERNOULLI: Self = Self(32);

    /// The widest sequence.
    pub const MAX: u32 = 32;

    /// Creates a width of `bits`.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for 0, [`Error::TooLarge`] above [`Self::MAX`].
    pub fn new(bits: u32) -> Result<Self> {
        match bits {
            0 => Err(Error::Zero(Quantity::Width)),
            1..=Self::MAX => Ok(Self(bits)),
            _ => Err(Error::TooLarge {
                what: Quantity::Width,
                actual: bits.into(),
                limit: Self::MAX.into(),
            }),
        }
    }

    /// Returns the width in bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the threshold of the stream of ones, `2^W`.
    #[must_use]
    pub const fn one(self) -> u64 {
        1 << self.0
    }

    /// Returns the thresholds of `values`, each of which must lie in the interval of `polarity`;
    /// negative ones of a signed operand have the bit [`NEGATIVE`].
    ///
    /// ```
    /// use aleatron_core::{Polarity, Quantity, Width};
    /// let thresholds = Width::EIGHT.thresholds(&[-1.0, 0.0, 0.51, 1.0], Polarity::Bipolar, Quantity::Value)?;
    /// assert_eq!(thresholds, [0, 128, 193, 256]);
    /// let signed = Width::EIGHT.thresholds(&[-0.5, -0.0, 0.5], Polarity::Signed, Quantity::Value)?;
    /// assert_eq!(signed, [1 << 63 | 128, 0, 128]);
    /// # Ok::<(), aleatron_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] with the index and value of the first value outside; `what`
    /// names the quantity.
    pub fn thresholds(
        self,
        values: &[f64],
        polarity: Polarity,
        what: Quantity,
    ) -> Result<Vec<u64>> {
        let mut out = Vec::new();
        let sign = |value| if polarity.is_negative(value) { NEGATIVE } else { 0 };
        let signed = |threshold: u64, value| threshold | sign(value);
        crate::threshold::convert(values, polarity, self.one(), what, &mut out, signed)?;
        Ok(out)
    }

    /// Returns the value of a threshold. [`Self::thresholds`] is its inverse, except for the sign
    /// of zero.
    #[inline]
    #[must_use]
    pub fn value(self, threshold: u64, polarity: Polarity) -> f64 {
        let share = magnitude(threshold) as f64 / self.one() as f64;
        match polarity {
            Polarity::Unipolar | Polarity::Bipolar => polarity.value_of(share),
            Polarity::Signed if is_negative(threshold) => -share,
            Polarity::Signed => share,
        }
    }

    /// Checks that no threshold of an operand of `polarity`, named `what`, is above that of the
    /// stream of ones. Only signed operands may have a sign.
    ///
    /// # Errors
    /// Returns [`Error::OutOfRange`] with the index of the first such threshold.
    pub fn check_thresholds(
        self,
        thresholds: &[u64],
        polarity: Polarity,
        what: Quantity,
    ) -> Result<()> {
        let sign = if polarity == Polarity::Signed { NEGATIVE } else { 0 };
        match thresholds.iter().position(|&threshold| threshold & !sign > self.one()) {
            None => Ok(()),
            Some(index) => {
                let (value, high) = ((thresholds[index] & !sign) as f64, self.one() as f64);
                Err(Error::OutOfRange { what, index, value, low: 0.0, high })
            }
        }
    }
}

/// Defines [`Sequence`] and everything that depends on the list of sequences. A line of the table
/// is a type of the file of the same name, the name that users write, and the meaning and the
/// default of the parameter after its colon.
macro_rules! sequences {
    ($($(#[$doc:meta])* $kind:ident($values:ident) = $name:literal, $parameter:expr;)+) => {
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
            $($(#[$doc])* $kind($kind),)+
        }

        impl Sequence {
            /// Returns the width of its integers.
            #[must_use]
            pub const fn width(&self) -> Width {
                match self { $(Self::$kind(sequence) => sequence.width(),)+ }
            }

            /// Returns an endless iterator over the integers.
            #[must_use]
            pub fn values(&self) -> Values {
                match self { $(Self::$kind(sequence) => Values::$kind(sequence.values()),)+ }
            }

            /// Returns the sequence at `index` among the siblings of this sequence; index 0 is the
            /// sequence itself. A Sobol sequence advances by two dimensions, a Halton sequence by
            /// two primes, so that a pair that starts at neighbours never meets; an LFSR advances
            /// along its cycle by the golden section, so that phases stay spread.
            ///
            /// # Errors
            /// Returns [`Error::TooLarge`] if the generator has no more sequences; a ramp has only
            /// one.
            pub fn nth(&self, index: usize) -> Result<Self> {
                match self { $(Self::$kind(sequence) => sequence.nth(index).map(Self::$kind),)+ }
            }

            /// Returns the number of cycles after which the integers repeat or, for sequences that
            /// never repeat, cover the interval evenly.
            #[must_use]
            pub fn period(&self) -> u64 {
                match self { $(Self::$kind(sequence) => sequence.period(),)+ }
            }
        }

        impl fmt::Display for Sequence {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$kind(sequence) => sequence.fmt(f),)+ }
            }
        }

        /// An endless iterator over the integers of a [`Sequence`].
        #[derive(Debug, Clone)]
        pub enum Values {
            $($(#[$doc])* $kind($values),)+
        }

        impl Values {
            /// Writes the next integers; faster than taking them individually, because the kind is
            /// matched only once.
            pub fn fill(&mut self, out: &mut [u32]) {
                match self { $(Self::$kind(values) => out.iter_mut().zip(values).for_each(|(out, value)| *out = value),)+ }
            }
        }

        impl Iterator for Values {
            type Item = u32;

            #[inline]
            fn next(&mut self) -> Option<u32> {
                match self { $(Self::$kind(values) => values.next(),)+ }
            }
        }

        /// A kind of [`Sequence`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum SequenceKind {
            $($(#[$doc])* $kind,)+
        }

        impl SequenceKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Returns the name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// Returns the meaning and the default of the parameter; `None` for a kind without one.
            #[must_use]
            pub const fn parameter(self) -> Option<(&'static str, u32)> {
                match self { $(Self::$kind => $parameter,)+ }
            }

            /// Creates the sequence of this kind with a parameter, which a kind without one
            /// ignores.
            ///
            /// # Errors
            /// Returns an error if the parameter or the width is invalid for the kind.
            pub fn sequence(self, parameter: u32, width: Width) -> Result<Sequence> {
                match self { $(Self::$kind => $kind::from_parameter(parameter, width).map(Sequence::$kind),)+ }
            }
        }
    };
}

sequences! {
    /// A linear-feedback shift register.
    Lfsr(LfsrValues) = "lfsr", Some(("SEED", 1));
    /// One dimension of the Sobol sequence.
    Sobol(SobolValues) = "sobol", Some(("DIMENSION", 1));
    /// The radical inverse in some base; base 2 is the van der Corput sequence.
    Halton(HaltonValues) = "halton", Some(("BASE", 2));
    /// A counter, the temporal code.
    Ramp(RampValues) = "ramp", None;
    /// A digit of a counter, for the products of binary multipliers.
    Digit(DigitValues) = "digit", Some(("DIGIT", 0));
}

impl Sequence {
    /// Returns the sequences of [`Self::nth`], for callers that need many.
    #[must_use]
    pub fn siblings(&self) -> Siblings {
        let powers = match self {
            Self::Lfsr(lfsr) => Some(LfsrPowers::new(*lfsr)),
            _ => None,
        };
        Siblings { first: *self, powers }
    }

    /// Encodes a threshold: bit k is 1 when `U_k < threshold`.
    #[must_use]
    pub fn encode(&self, threshold: u64, length: Length) -> BitStream {
        let mut values = self.values();
        BitStream::from_fn(length, |_| {
            let bits = values.by_ref().take(WORD_BITS).enumerate();
            bits.fold(0, |word, (k, u)| word | u64::from(u64::from(u) < threshold) << k)
        })
    }
}

/// The siblings of a sequence, with the preparation for finding them done once.
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
    /// Returns the same sequence as [`Sequence::nth`] of the first.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the generator has no more sequences.
    pub fn nth(&self, index: usize) -> Result<Sequence> {
        match &self.powers {
            Some(powers) => Ok(Sequence::Lfsr(powers.nth(index))),
            None => self.first.nth(index),
        }
    }
}
