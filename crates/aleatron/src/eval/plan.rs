//! What to evaluate.

use super::error::PlanError;
use crate::network::Generator;
use crate::{Device, Result};
use aleatron_core::generator::{Halton, Lfsr, Pairing, Ramp, Sequence, Sharing, Sobol, Width};
use std::fmt;
use std::str::FromStr;

/// Lengths, generators and seeds to evaluate a network with.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The lengths of streams, in bits.
    pub lengths: Vec<usize>,
    /// The generators.
    pub generators: Vec<GeneratorSpec>,
    /// How many seeds to run for generators that have one.
    pub seeds: usize,
    /// The width of shared sequences.
    pub width: Width,
    /// How many sequences streams share.
    pub sharing: Sharing,
    /// Leads at which samples stop early, in standard deviations of counting noise; see [`super::EarlyStop`].
    pub margins: Vec<f64>,
    /// Where to run. It changes times and nothing else.
    pub device: Device,
}

impl Default for Plan {
    /// Eight lengths from 8 to 1024, Bernoulli, Sobol and LFSR streams, three seeds, eight bits.
    fn default() -> Self {
        Self {
            lengths: (3..=10).map(|k| 1 << k).collect(),
            generators: vec![GeneratorSpec::Bernoulli, GeneratorSpec::SOBOL, GeneratorSpec::Lfsr],
            seeds: 3,
            width: Width::EIGHT,
            sharing: Sharing::OneForAll,
            margins: vec![0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0],
            device: Device::Auto,
        }
    }
}

impl Plan {
    /// Checks what a plan on its own can be wrong in.
    pub(super) fn check(&self) -> Result<()> {
        for (what, is_empty) in [
            ("lengths", self.lengths.is_empty()),
            ("generators", self.generators.is_empty()),
            ("seeds", self.seeds == 0),
            ("margins", self.margins.is_empty()),
        ] {
            if is_empty {
                return Err(PlanError::Empty(what).into());
            }
        }
        match self.margins.iter().find(|margin| !(0.0..).contains(*margin)) {
            Some(&margin) => Err(PlanError::Margin(margin).into()),
            None => Ok(()),
        }
    }

    /// The seeds to run for a generator: several only where they make a difference.
    pub(super) fn seeds_of(&self, generator: &GeneratorSpec) -> std::ops::Range<usize> {
        if generator.is_seeded() { 0..self.seeds } else { 0..1 }
    }
}

/// A generator by name, for inputs and weights.
///
/// As text: `bernoulli`; `lfsr`, a register whose two starting states follow from the seed of a run; or `INPUTS+WEIGHTS` with
/// each of `sobol:DIMENSION`, `halton:BASE`, `vdc`, `ramp` and `lfsr:SEED`. `sobol` alone is `sobol:1+sobol:2`, `halton`
/// `halton:2+halton:3`, `vdc` `vdc+ramp` and `ramp` `ramp+vdc`.
///
/// ```
/// use aleatron::eval::GeneratorSpec;
/// let spec: GeneratorSpec = "sobol".parse()?;
/// assert_eq!(spec, "sobol:1+sobol:2".parse()?);
/// assert_eq!(spec.to_string(), "sobol");
/// # Ok::<(), aleatron::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GeneratorSpec {
    /// Random bits of its own for every stream.
    Bernoulli,
    /// Two phases of the longest register, chosen by the seed.
    Lfsr,
    /// Given sequences.
    Pair {
        /// Of the inputs.
        inputs: SequenceSpec,
        /// Of the weights.
        weights: SequenceSpec,
    },
}

/// A sequence without its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SequenceSpec {
    /// A Sobol dimension, counted from 1.
    Sobol(u32),
    /// A Halton base.
    Halton(u32),
    /// The temporal code.
    Ramp,
    /// The longest register from a state.
    Lfsr(u32),
}

impl GeneratorSpec {
    /// Sobol dimensions 1 and 2.
    pub const SOBOL: Self = Self::Pair { inputs: SequenceSpec::Sobol(1), weights: SequenceSpec::Sobol(2) };

    /// Pairs that have a name of their own.
    const NAMED: [(&'static str, Self); 6] = [
        ("bernoulli", Self::Bernoulli),
        ("lfsr", Self::Lfsr),
        ("sobol", Self::SOBOL),
        ("halton", Self::Pair { inputs: SequenceSpec::Halton(2), weights: SequenceSpec::Halton(3) }),
        ("vdc", Self::Pair { inputs: SequenceSpec::Halton(2), weights: SequenceSpec::Ramp }),
        ("ramp", Self::Pair { inputs: SequenceSpec::Ramp, weights: SequenceSpec::Halton(2) }),
    ];

    /// Whether its bits depend on a seed.
    #[must_use]
    pub fn is_seeded(&self) -> bool {
        matches!(self, Self::Bernoulli | Self::Lfsr)
    }

    /// The generator for run number `seed`, with shared sequences of `width`.
    ///
    /// # Errors
    /// [`aleatron_core::Error`] where there is no such sequence: a dimension, base or state out of range.
    pub fn generator(&self, seed: u64, width: Width, sharing: Sharing) -> Result<Generator> {
        let (inputs, weights) = match *self {
            Self::Bernoulli => return Ok(Generator::Bernoulli { seed }),
            Self::Lfsr => {
                // Phases a golden section of the cycle apart, and one more section for every seed. The first state has
                // ones and zeros mixed: a register that starts at 1 takes many cycles to leave the small numbers.
                let state = 0x9e37_79b9_u32 >> (Width::MAX - width.bits());
                let register = Sequence::Lfsr(Lfsr::new(width, state)?);
                let run = usize::try_from(seed).unwrap_or(usize::MAX) % (1 << 31);
                (register.nth(run)?, register.nth(2 * run + 1)?)
            }
            Self::Pair { inputs, weights } => (inputs.sequence(width)?, weights.sequence(width)?),
        };
        Ok(Generator::Sequences(Pairing { inputs, weights, sharing }))
    }
}

impl SequenceSpec {
    /// The sequence at a width.
    ///
    /// # Errors
    /// [`aleatron_core::Error`] for a dimension, base or state out of range.
    pub fn sequence(&self, width: Width) -> Result<Sequence> {
        Ok(match *self {
            Self::Sobol(dimension) => Sequence::Sobol(Sobol::new(dimension, width)?),
            Self::Halton(base) => Sequence::Halton(Halton::new(base, width)?),
            Self::Ramp => Sequence::Ramp(Ramp::new(width)),
            Self::Lfsr(seed) => Sequence::Lfsr(Lfsr::new(width, seed)?),
        })
    }
}

impl FromStr for GeneratorSpec {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.trim().to_ascii_lowercase();
        if let Some((_, spec)) = Self::NAMED.iter().find(|(known, _)| *known == name) {
            return Ok(*spec);
        }
        let fault = |reason: String| PlanError::Generator { text: text.to_owned(), reason };
        let names = || Self::NAMED.map(|(name, _)| name).join(", ");
        let (inputs, weights) = name.split_once('+').ok_or_else(|| {
            fault(format!("use one of {}, or two sequences as in sobol:1+sobol:2", names()))
        })?;
        Ok(Self::Pair { inputs: inputs.parse()?, weights: weights.parse()? })
    }
}

impl FromStr for SequenceSpec {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self> {
        let fault = |reason: &str| PlanError::Generator { text: text.to_owned(), reason: reason.to_owned() };
        let (name, parameter) = match text.trim().split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text.trim(), None),
        };
        let number = |default: u32| match parameter {
            Some(parameter) => {
                parameter.parse().map_err(|_| fault("the part after the colon is not a number"))
            }
            None => Ok(default),
        };
        match name {
            "sobol" => Ok(Self::Sobol(number(1)?)),
            "halton" => Ok(Self::Halton(number(2)?)),
            "lfsr" => Ok(Self::Lfsr(number(1)?)),
            "vdc" | "ramp" if parameter.is_some() => Err(fault("it takes no parameter").into()),
            "vdc" => Ok(Self::Halton(2)),
            "ramp" => Ok(Self::Ramp),
            _ => Err(fault("sequences are sobol:DIMENSION, halton:BASE, vdc, ramp and lfsr:SEED").into()),
        }
    }
}

impl fmt::Display for GeneratorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Self::NAMED.iter().find(|(_, spec)| spec == self) {
            return f.write_str(name);
        }
        match self {
            Self::Pair { inputs, weights } => write!(f, "{inputs}+{weights}"),
            Self::Bernoulli | Self::Lfsr => Ok(()),
        }
    }
}

impl fmt::Display for SequenceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sobol(dimension) => write!(f, "sobol:{dimension}"),
            Self::Halton(2) => f.write_str("vdc"),
            Self::Halton(base) => write!(f, "halton:{base}"),
            Self::Ramp => f.write_str("ramp"),
            Self::Lfsr(seed) => write!(f, "lfsr:{seed}"),
        }
    }
}
