//! The textual form of generators: one grammar for Rust, Python, the command line and files.
//!
//! ```text
//! generator = "bernoulli" | "lfsr" | "sobol" | "halton" | "vdc" | "ramp" | "int" BITS | operand "+" operand
//! operand   = "bernoulli" | sequence
//! sequence  = KIND [ ":" PARAMETER ] | "vdc"
//! ```
//!
//! A generator names the sequences of inputs and weights, inputs first; `sobol` alone is
//! `sobol:1+sobol:2`. The kinds and their parameters are those of the table in the parent module.
//! `int8` is not a generator of streams, but binary arithmetic: products of integers of 8 bits.

use super::{OperandSequences, Pairing, Sequence, SequenceKind, Sharing, Warning, Width};
use crate::error::{Error, Quantity, Result};
use crate::layer::Encoding;
use crate::stream::Length;
use std::fmt;
use std::str::FromStr;

/// A sequence without its width. As text: `sobol:DIMENSION`, `halton:BASE`, `vdc`, `ramp` or
/// `lfsr:SEED`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SequenceName {
    kind: SequenceKind,
    parameter: u32,
}

/// Short names for sequences.
const ALIASES: [(&str, SequenceName); 1] = [("vdc", SequenceName::new(SequenceKind::Halton, 2))];

impl SequenceName {
    /// Creates a name from a kind and its parameter; 0 for a kind without one.
    #[must_use]
    pub const fn new(kind: SequenceKind, parameter: u32) -> Self {
        match kind.parameter() {
            Some(_) => Self { kind, parameter },
            None => Self { kind, parameter: 0 },
        }
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> SequenceKind {
        self.kind
    }

    /// Creates the sequence at a width.
    ///
    /// # Errors
    /// Returns an error if the parameter or the width is invalid for the kind.
    pub fn sequence(&self, width: Width) -> Result<Sequence> {
        self.kind.sequence(self.parameter, width)
    }

    /// Parses a name; `known` introduces the list of names in the error for an unknown one.
    fn read(text: &str, known: &str) -> Result<Self> {
        let fault = |reason: String| Error::Syntax {
            what: Quantity::Generator,
            text: text.to_owned(),
            reason,
        };
        let (name, parameter) = match text.trim().split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text.trim(), None),
        };
        let name = name.to_ascii_lowercase();
        if let Some((_, alias)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
            return match parameter {
                None => Ok(*alias),
                Some(_) => Err(fault(format!("{name} takes no parameter"))),
            };
        }
        let Some(&kind) = SequenceKind::ALL.iter().find(|kind| kind.name() == name) else {
            return Err(fault(format!("{known} {}", all_sequences())));
        };
        match (kind.parameter(), parameter) {
            (None, Some(_)) => Err(fault(format!("{name} takes no parameter"))),
            (None, None) => Ok(Self::new(kind, 0)),
            (Some((_, default)), None) => Ok(Self::new(kind, default)),
            (Some((meaning, _)), Some(parameter)) => match parameter.parse() {
                Ok(parameter) => Ok(Self::new(kind, parameter)),
                Err(_) => Err(fault(format!(
                    "\"{parameter}\" is not a {} in 0..2^32",
                    meaning.to_lowercase()
                ))),
            },
        }
    }
}

impl FromStr for SequenceName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::read(text, "sequences are")
    }
}

impl fmt::Display for SequenceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((alias, _)) = ALIASES.iter().find(|(_, name)| name == self) {
            return f.write_str(alias);
        }
        match self.kind.parameter() {
            Some(_) => write!(f, "{}:{}", self.kind.name(), self.parameter),
            None => f.write_str(self.kind.name()),
        }
    }
}

/// Formats `lfsr:SEED, sobol:DIMENSION, …`.
fn all_sequences() -> String {
    let kinds = SequenceKind::ALL.iter().map(|kind| match kind.parameter() {
        Some((meaning, _)) => format!("{}:{meaning}", kind.name()),
        None => kind.name().to_owned(),
    });
    kinds.chain(ALIASES.map(|(alias, _)| alias.to_owned())).collect::<Vec<_>>().join(", ")
}

/// Number of phases of a register to try: enough to leave the neighbourhood of any other.
const PHASES: usize = 64;

/// A generator for inputs and weights.
///
/// As text: `bernoulli`; `lfsr`, a register whose two starting states follow from the seed of a
/// run; or `INPUTS+WEIGHTS`, each a sequence or `bernoulli`. Some pairs have names of their own:
/// `sobol` is `sobol:1+sobol:2`, `halton` `halton:2+halton:3`, `vdc` `vdc+ramp` and `ramp`
/// `ramp+vdc`. `int8` stands for binary multipliers of 8 bits; see [`IntegerBits`].
///
/// ```
/// use aleatron_core::generator::GeneratorName;
/// let name: GeneratorName = "sobol".parse()?;
/// assert_eq!(name, "sobol:1+sobol:2".parse()?);
/// assert_eq!(name.to_string(), "sobol");
/// let mixed: GeneratorName = "bernoulli+sobol:2".parse()?; // random inputs, weights from a sequence
/// assert!(mixed.is_seeded());
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GeneratorName {
    /// Independent random bits for every stream.
    Bernoulli,
    /// Two phases of the longest register, chosen by the seed.
    Lfsr,
    /// Given sequences.
    Pair {
        /// The sequence of the inputs.
        inputs: SequenceName,
        /// The sequence of the weights.
        weights: SequenceName,
    },
    /// Independent random bits for every input stream, a given sequence for weights.
    BernoulliInputs {
        /// The sequence of the weights.
        weights: SequenceName,
    },
    /// Independent random bits for every weight stream, a given sequence for inputs.
    BernoulliWeights {
        /// The sequence of the inputs.
        inputs: SequenceName,
    },
    /// Products of signed integers, as binary circuits compute them, instead of streams.
    Integer(IntegerBits),
}

/// The bits of the integers that a binary circuit multiplies: a sign and a magnitude of one bit
/// less. As text: `int8`.
///
/// The counts of a layer are sums of such products, each of the integers `0..=M` with
/// `M = 2^(bits - 1) - 1` and a sign. They are the counts of the streams of two
/// [digits](super::Digit) of `M^2` bits, so that count tables compute them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IntegerBits(u32);

impl IntegerBits {
    /// The fewest bits: a sign and one bit.
    pub const MIN: u32 = 2;

    /// The most bits: a count table of their products is computed in less than a second.
    pub const MAX: u32 = 10;

    /// Creates integers of `bits` bits, including the sign.
    ///
    /// # Errors
    /// Returns [`Error::Syntax`] for fewer than [`Self::MIN`] or more than [`Self::MAX`].
    pub fn new(bits: u32) -> Result<Self> {
        match bits {
            Self::MIN..=Self::MAX => Ok(Self(bits)),
            _ => {
                let reason = format!("use int{} to int{}", Self::MIN, Self::MAX);
                Err(Error::Syntax { what: Quantity::Generator, text: format!("int{bits}"), reason })
            }
        }
    }

    /// Returns the number of bits, including the sign.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the width of a magnitude.
    #[must_use]
    pub const fn width(self) -> Width {
        Width(self.0 - 1)
    }

    /// Returns the greatest magnitude.
    #[must_use]
    pub const fn greatest(self) -> u64 {
        self.width().one() - 1
    }

    /// Returns the factor between an operand as an integer and as a threshold: a threshold t of W
    /// bits represents `t / 2^W`, the integer t represents `t / greatest`. Operands are divided by
    /// it before they are encoded, so that 1 becomes the greatest magnitude.
    #[must_use]
    pub fn gain(self) -> f64 {
        self.width().one() as f64 / self.greatest() as f64
    }

    /// Returns the length of the streams whose counts are the products: the square of the greatest
    /// magnitude.
    ///
    /// # Errors
    /// Never fails for the bits of integers.
    pub fn length(self) -> Result<Length> {
        Length::new((self.greatest() * self.greatest()) as usize)
    }

    /// Returns the sequences whose counts are the products.
    fn pairing(self) -> Result<Pairing> {
        let digit = |digit| SequenceKind::Digit.sequence(digit, self.width());
        Ok(Pairing { inputs: digit(0)?, weights: digit(1)?, sharing: Sharing::OneForAll })
    }

    /// Returns the width of the integers that a layer of this encoding and length multiplies;
    /// `None` for a layer of streams.
    #[must_use]
    pub fn of(encoding: &Encoding, length: Length) -> Option<Self> {
        let Encoding::Sequences(Pairing {
            inputs: Sequence::Digit(inputs),
            weights: Sequence::Digit(weights),
            ..
        }) = encoding
        else {
            return None;
        };
        let is_pair =
            [inputs.digit(), weights.digit()] == [0, 1] && inputs.width() == weights.width();
        let bits = Self::new(inputs.width().bits() + 1).ok().filter(|_| is_pair)?;
        (bits.length() == Ok(length)).then_some(bits)
    }
}

impl fmt::Display for IntegerBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{INTEGER}{}", self.0)
    }
}

/// The prefix of the names of integer generators.
const INTEGER: &str = "int";

/// The name of random bits, as a generator and as one operand of a generator.
const BERNOULLI: &str = "bernoulli";

/// Parses one operand: a sequence, or `None` for random bits.
fn operand(text: &str) -> Result<Option<SequenceName>> {
    match text.trim().strip_prefix(BERNOULLI) {
        Some("") => Ok(None),
        Some(rest) if rest.starts_with(':') => {
            let reason = format!("{BERNOULLI} takes no parameter: its seed is that of the run");
            Err(Error::Syntax { what: Quantity::Generator, text: text.to_owned(), reason })
        }
        _ => SequenceName::read(text, "operands are bernoulli,").map(Some),
    }
}

const fn pair(inputs: SequenceName, weights: SequenceName) -> GeneratorName {
    GeneratorName::Pair { inputs, weights }
}

impl GeneratorName {
    /// Sobol dimensions 1 and 2.
    pub const SOBOL: Self =
        pair(SequenceName::new(SequenceKind::Sobol, 1), SequenceName::new(SequenceKind::Sobol, 2));

    /// Generators that have a name of their own.
    pub const NAMED: [(&'static str, Self); 6] = [
        (BERNOULLI, Self::Bernoulli),
        ("sobol", Self::SOBOL),
        ("lfsr", Self::Lfsr),
        (
            "halton",
            pair(
                SequenceName::new(SequenceKind::Halton, 2),
                SequenceName::new(SequenceKind::Halton, 3),
            ),
        ),
        (
            "vdc",
            pair(
                SequenceName::new(SequenceKind::Halton, 2),
                SequenceName::new(SequenceKind::Ramp, 0),
            ),
        ),
        (
            "ramp",
            pair(
                SequenceName::new(SequenceKind::Ramp, 0),
                SequenceName::new(SequenceKind::Halton, 2),
            ),
        ),
    ];

    /// Returns whether the bits depend on a seed.
    #[must_use]
    pub const fn is_seeded(&self) -> bool {
        !matches!(self, Self::Pair { .. } | Self::Integer(_))
    }

    /// Checks that this is a generator of streams. Integers are not supported in layers outside of
    /// networks and in searches for lengths.
    ///
    /// # Errors
    /// Returns [`Error::Syntax`] for integers.
    pub fn check_streams(&self) -> Result<()> {
        match self.integer_bits() {
            None => Ok(()),
            Some(bits) => {
                let reason = "integers have no streams and are supported only in networks; use a generator of streams";
                let (what, text, reason) =
                    (Quantity::Generator, bits.to_string(), reason.to_owned());
                Err(Error::Syntax { what, text, reason })
            }
        }
    }

    /// Returns the bits of integers; `None` for a generator of streams.
    #[must_use]
    pub const fn integer_bits(&self) -> Option<IntegerBits> {
        match self {
            Self::Integer(bits) => Some(*bits),
            _ => None,
        }
    }

    /// Returns whether the streams of an operand have independent random bits, so that count tables
    /// do not apply.
    #[must_use]
    pub const fn has_random_bits(&self) -> bool {
        !matches!(self, Self::Lfsr | Self::Pair { .. } | Self::Integer(_))
    }

    /// Returns the encoding of run number `seed`, with shared sequences of `width`. Integers have a
    /// width and a sharing of their own.
    ///
    /// # Errors
    /// Returns an error for an invalid sequence: a dimension, base or state out of range.
    pub fn encoding(&self, seed: u64, width: Width, sharing: Sharing) -> Result<Encoding> {
        let (inputs, weights) = match *self {
            Self::Bernoulli => return Ok(Encoding::Bernoulli { seed }),
            Self::Integer(bits) => return bits.pairing().map(Encoding::Sequences),
            Self::Lfsr => {
                // The phases are a golden section of the cycle apart, with one more section for
                // every seed. The first state mixes ones and zeros: a register that starts at 1
                // takes many cycles to leave the small numbers.
                let state = 0x9e37_79b9_u32 >> (Width::MAX - width.bits());
                let register = SequenceKind::Lfsr.sequence(state, width)?;
                let run = usize::try_from(seed % (1 << 31)).unwrap_or(0);
                let inputs = register.nth(run)?;
                // The first phase from there on that is not too close to that of the inputs.
                let mut weights = register.nth(2 * run + 1)?;
                for k in 2..=PHASES {
                    if Warning::of(&inputs, &weights).is_none() {
                        break;
                    }
                    weights = register.nth(2 * run + k)?;
                }
                (inputs, weights)
            }
            Self::Pair { inputs, weights } => (inputs.sequence(width)?, weights.sequence(width)?),
            Self::BernoulliInputs { weights } => {
                let weights = OperandSequences { first: weights.sequence(width)?, sharing };
                return Ok(Encoding::BernoulliInputs { weights });
            }
            Self::BernoulliWeights { inputs } => {
                let inputs = OperandSequences { first: inputs.sequence(width)?, sharing };
                return Ok(Encoding::BernoulliWeights { seed, inputs });
            }
        };
        Ok(Encoding::Sequences(Pairing { inputs, weights, sharing }))
    }
}

impl FromStr for GeneratorName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.trim().to_ascii_lowercase();
        if let Some((_, generator)) = Self::NAMED.iter().find(|(known, _)| *known == name) {
            return Ok(*generator);
        }
        if let Some(bits) = name.strip_prefix(INTEGER).and_then(|bits| bits.parse().ok()) {
            return IntegerBits::new(bits).map(Self::Integer);
        }
        let Some((inputs, weights)) = name.split_once('+') else {
            let names = Self::NAMED.map(|(name, _)| name).join(", ");
            let reason = format!(
                "use one of {names}, two sequences as in sobol:1+lfsr:77, one of which may be {BERNOULLI}, or int8 for \
                 binary arithmetic of 8 bits"
            );
            return Err(Error::Syntax { what: Quantity::Generator, text: text.to_owned(), reason });
        };
        Ok(match (operand(inputs)?, operand(weights)?) {
            (Some(inputs), Some(weights)) => Self::Pair { inputs, weights },
            (None, Some(weights)) => Self::BernoulliInputs { weights },
            (Some(inputs), None) => Self::BernoulliWeights { inputs },
            (None, None) => Self::Bernoulli,
        })
    }
}

impl fmt::Display for GeneratorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Self::NAMED.iter().find(|(_, generator)| generator == self) {
            return f.write_str(name);
        }
        match self {
            Self::Pair { inputs, weights } => write!(f, "{inputs}+{weights}"),
            Self::BernoulliInputs { weights } => write!(f, "{BERNOULLI}+{weights}"),
            Self::BernoulliWeights { inputs } => write!(f, "{inputs}+{BERNOULLI}"),
            Self::Bernoulli => f.write_str(BERNOULLI),
            Self::Lfsr => f.write_str("lfsr"),
            Self::Integer(bits) => bits.fmt(f),
        }
    }
}

/// The width of shared sequences. As text: `auto` or a number of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WidthChoice {
    /// As wide as the length covers if a generator needs its whole period, otherwise eight bits;
    /// wider if a seed requires it.
    #[default]
    Auto,
    /// A given width.
    Fixed(Width),
}

impl WidthChoice {
    /// Returns the width for a generator and a length.
    ///
    /// An LFSR or a ramp that is cut off before its period ends has produced only some of its
    /// integers, and the wrong share of small ones; a Sobol or Halton sequence is even at every
    /// length. Integers have the width of their magnitudes.
    #[must_use]
    pub fn resolve(self, generator: &GeneratorName, length: Length) -> Width {
        match self {
            _ if let Some(bits) = generator.integer_bits() => bits.width(),
            Self::Fixed(width) => width,
            Self::Auto if generator.needs_whole_period() => {
                Width::covered_by(length).max(generator.least_width())
            }
            Self::Auto => Width::EIGHT.max(generator.least_width()),
        }
    }
}

impl GeneratorName {
    /// Returns the least width that fits its parameters: a register must hold its seed.
    fn least_width(&self) -> Width {
        let of = |name: &SequenceName| match name.kind {
            SequenceKind::Lfsr => Width((u32::BITS - name.parameter.leading_zeros()).max(3)),
            _ => Width(1),
        };
        self.sequences().map(of).max().unwrap_or(Width(1))
    }

    /// Iterates over the sequences.
    fn sequences(&self) -> impl Iterator<Item = &SequenceName> {
        let named = match self {
            Self::Bernoulli | Self::Lfsr | Self::Integer(_) => [None, None],
            Self::Pair { inputs, weights } => [Some(inputs), Some(weights)],
            Self::BernoulliInputs { weights: one } | Self::BernoulliWeights { inputs: one } => {
                [Some(one), None]
            }
        };
        named.into_iter().flatten()
    }

    /// Returns whether one of the sequences is even only over its whole period.
    #[must_use]
    pub fn needs_whole_period(&self) -> bool {
        let of = |name: &SequenceName| matches!(name.kind, SequenceKind::Lfsr | SequenceKind::Ramp);
        *self == Self::Lfsr || self.sequences().any(of)
    }
}

impl Width {
    /// Returns the width of the widest register whose cycle of `2^W - 1` states a stream covers,
    /// within 3 to 12 bits.
    #[must_use]
    pub const fn covered_by(length: Length) -> Self {
        let bits = (length.bits() as u64 + 1).ilog2();
        match bits {
            0..3 => Self(3),
            3..=12 => Self(bits),
            _ => Self(12),
        }
    }
}

impl FromStr for WidthChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse() {
            Ok(bits) => Width::new(bits).map(Self::Fixed),
            Err(_) => {
                let reason = "use auto or a number of bits".to_owned();
                Err(Error::Syntax { what: Quantity::Width, text: text.to_owned(), reason })
            }
        }
    }
}

impl fmt::Display for WidthChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(width) => width.bits().fmt(f),
        }
    }
}

impl From<Width> for WidthChoice {
    fn from(width: Width) -> Self {
        Self::Fixed(width)
    }
}
