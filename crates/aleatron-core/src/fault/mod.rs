//! Faults: bits of a layer that flip, each a function of a seed, a site and an address.
//!
//! A [`Fault`] names a [site](FaultSite), a [kind](FaultKind) and a [rate](FaultRate); [`Faults`]
//! are several faults under one seed. The flips of a site are [masks](FaultMask): streams at an
//! address of their own, so that the encoders of streams create them. `docs/streams.md` defines
//! every bit, and [`plain`] computes it one bit at a time.

mod block;
mod generator;
mod name;
pub mod plain;
mod rate;
mod sites;

pub use block::FlipBlocks;
pub use generator::{check_generators, encode_faulty, sequence_of_input, sequence_of_weight};
pub use rate::FaultRate;
pub use sites::FaultSites;

use crate::address::{Domain, LayerIndex, StreamAddress};
use crate::error::{Error, Quantity, Result};
use crate::generator::Width;
use crate::layer::LayerSpec;
use crate::philox::{key, philox4x32};
use crate::polarity::Polarity;
use crate::threshold::{NEGATIVE, Threshold, is_negative, magnitude};

/// The bits of a layer that a fault flips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum FaultSite {
    /// Bits of input streams.
    Inputs = 0,
    /// Bits of weight streams.
    Weights = 1,
    /// Outputs of the gates that multiply.
    Products = 2,
    /// Bits of counts.
    Counters = 3,
    /// Bits of the accumulators of integer arithmetic.
    Accumulators = 4,
    /// Stored thresholds of weights.
    Memory = 5,
    /// Outputs of stochastic number generators, stuck at 0.
    StuckAtZero = 6,
    /// Outputs of stochastic number generators, stuck at 1.
    StuckAtOne = 7,
    /// First states of shared sequences.
    Generators = 8,
    /// Registers of the inputs: their thresholds, or the integers of a binary circuit.
    Activations = 9,
}

impl FaultSite {
    /// Every site, in order of its number.
    pub const ALL: [Self; 10] = [
        Self::Inputs,
        Self::Weights,
        Self::Products,
        Self::Counters,
        Self::Accumulators,
        Self::Memory,
        Self::StuckAtZero,
        Self::StuckAtOne,
        Self::Generators,
        Self::Activations,
    ];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inputs => "inputs",
            Self::Weights => "weights",
            Self::Products => "products",
            Self::Counters => "counters",
            Self::Accumulators => "accumulators",
            Self::Memory => "memory",
            Self::StuckAtZero => "stuck-at-0",
            Self::StuckAtOne => "stuck-at-1",
            Self::Generators => "generators",
            Self::Activations => "activations",
        }
    }

    /// Returns whether the site changes bits of streams or products, so that count tables do not
    /// apply.
    #[must_use]
    pub const fn changes_bits(self) -> bool {
        matches!(self, Self::Inputs | Self::Weights | Self::Products | Self::Generators)
    }

    /// Returns whether a circuit that multiplies integers instead of streams has the site.
    #[must_use]
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::Counters | Self::Accumulators | Self::Memory | Self::Activations)
    }

    /// Returns whether faults of the site are always permanent.
    const fn is_lasting(self) -> bool {
        matches!(self, Self::Memory | Self::StuckAtZero | Self::StuckAtOne | Self::Generators)
    }

    /// Returns the kind of the site's faults if none is given: permanent for memory and generators,
    /// otherwise transient.
    #[must_use]
    pub const fn default_kind(self) -> FaultKind {
        if self.is_lasting() { FaultKind::Permanent } else { FaultKind::Transient }
    }
}

/// The duration of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// Each bit flips on its own, anew in every sample.
    Transient,
    /// The same bits flip in every sample.
    Permanent,
    /// Runs of cycles flip, anew in every sample; the rate is that of their first cycles.
    Burst {
        /// The cycles of a run.
        cycles: u32,
    },
}

impl FaultKind {
    /// The longest burst.
    pub const MAX_CYCLES: u32 = 1 << 20;

    /// Returns the number of the kind in a key.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Transient => 0,
            Self::Permanent => 1,
            Self::Burst { .. } => 2,
        }
    }

    /// Returns the name, without the cycles of a burst.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Burst { .. } => "burst",
        }
    }

    /// Returns the duration of a flip in cycles.
    #[must_use]
    pub const fn cycles(self) -> usize {
        match self {
            Self::Transient | Self::Permanent => 1,
            Self::Burst { cycles } => cycles as usize,
        }
    }
}

/// A fault of one site.
///
/// As text: `SITE:KIND:RATE`, or `SITE:RATE` with the [default kind](FaultSite::default_kind).
///
/// ```
/// use aleatron_core::fault::{Fault, FaultKind, FaultSite};
/// let fault: Fault = "products:burst=4:1e-3".parse()?;
/// assert_eq!((fault.site(), fault.kind()), (FaultSite::Products, FaultKind::Burst { cycles: 4 }));
/// assert_eq!("memory:0.01".parse::<Fault>()?.to_string(), "memory:permanent:0.01");
/// assert!("memory:transient:0.01".parse::<Fault>().is_err());
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fault {
    site: FaultSite,
    kind: FaultKind,
    rate: FaultRate,
}

impl Fault {
    /// Creates a fault.
    ///
    /// # Errors
    /// Returns [`Error::Syntax`] for a kind that the site cannot have, [`Error::Zero`] or
    /// [`Error::TooLarge`] for the cycles of a burst.
    pub fn new(site: FaultSite, kind: FaultKind, rate: FaultRate) -> Result<Self> {
        let reason = match (site, kind) {
            (site, FaultKind::Transient | FaultKind::Burst { .. }) if site.is_lasting() => {
                Some(format!("faults of {} are always permanent; use permanent", site.name()))
            }
            (
                FaultSite::Counters | FaultSite::Accumulators | FaultSite::Activations,
                FaultKind::Burst { .. },
            ) => Some(format!("{} have no cycles; use transient or permanent", site.name())),
            _ => None,
        };
        if let Some(reason) = reason {
            let text = format!("{}:{kind}", site.name());
            return Err(Error::Syntax { what: Quantity::Fault, text, reason });
        }
        if let FaultKind::Burst { cycles } = kind {
            let (what, limit) = (Quantity::BurstCycles, FaultKind::MAX_CYCLES);
            match cycles {
                0 => return Err(Error::Zero(what)),
                _ if cycles > limit => {
                    return Err(Error::TooLarge {
                        what,
                        actual: cycles.into(),
                        limit: limit.into(),
                    });
                }
                _ => {}
            }
        }
        Ok(Self { site, kind, rate })
    }

    /// Returns the site.
    #[must_use]
    pub const fn site(&self) -> FaultSite {
        self.site
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> FaultKind {
        self.kind
    }

    /// Returns the rate.
    #[must_use]
    pub const fn rate(&self) -> FaultRate {
        self.rate
    }

    /// Returns whether the fault flips different bits in every sample.
    #[must_use]
    pub const fn is_per_sample(&self) -> bool {
        !matches!(self.kind, FaultKind::Permanent)
    }
}

/// The faults of a layer or a network under one seed, ordered by site and kind.
///
/// ```
/// use aleatron_core::fault::Faults;
/// let faults = Faults::new(7, vec!["weights:1e-3".parse()?, "inputs:1e-3".parse()?, "counters:0".parse()?])?;
/// assert_eq!(faults.to_string(), "inputs:transient:1e-3,weights:transient:1e-3");
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Faults {
    seed: u64,
    faults: Vec<Fault>,
}

impl Faults {
    /// Creates faults under a seed. Faults with a rate of 0 are dropped.
    ///
    /// # Errors
    /// Returns [`Error::Syntax`] for two faults of one site and kind.
    pub fn new(seed: u64, mut faults: Vec<Fault>) -> Result<Self> {
        faults.sort_by_key(|fault| (fault.site, fault.kind.number()));
        let same = |pair: &&[Fault]| {
            pair[0].site == pair[1].site && pair[0].kind.number() == pair[1].kind.number()
        };
        if let Some(pair) = faults.windows(2).find(same) {
            let reason =
                format!("{} already has a fault of this kind; give one rate", pair[0].site.name());
            return Err(Error::Syntax { what: Quantity::Fault, text: pair[1].to_string(), reason });
        }
        faults.retain(|fault| !fault.rate.is_zero());
        Ok(Self { seed, faults })
    }

    /// Returns the seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the faults with a rate above 0, ordered by site and kind.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns whether there are no faults.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns the masks of a site in a layer, in the order of the kinds.
    pub fn at(&self, site: FaultSite, layer: LayerIndex) -> impl Iterator<Item = FaultMask> + '_ {
        let own = self.faults.iter().filter(move |fault| fault.site == site);
        own.map(move |&fault| FaultMask { seed: self.seed, layer, fault })
    }

    /// Returns whether a site has faults.
    #[must_use]
    pub fn has(&self, site: FaultSite) -> bool {
        self.faults.iter().any(|fault| fault.site == site)
    }
}

/// The operand whose generators have faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// Inputs, and every other site.
    Inputs = 0,
    /// Weights.
    Weights = 1,
}

/// The masks of one fault in one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FaultMask {
    seed: u64,
    layer: LayerIndex,
    fault: Fault,
}

impl FaultMask {
    /// Returns the fault.
    #[must_use]
    pub const fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Returns the addresses of the two comparisons of a mask at unit 0. `sample` is ignored for
    /// permanent faults, and `row` is the row of sites whose masks do not depend on the sample.
    #[must_use]
    pub fn addresses(&self, sample: u32, row: u32, operand: Operand) -> [StreamAddress; 2] {
        let sample = if self.fault.is_per_sample() { sample } else { 0 };
        let (in_key, row) = match self.fault.site {
            FaultSite::Inputs
            | FaultSite::Counters
            | FaultSite::Accumulators
            | FaultSite::Activations => (0, sample),
            FaultSite::Weights | FaultSite::Products => (sample, row),
            FaultSite::Memory
            | FaultSite::StuckAtZero
            | FaultSite::StuckAtOne
            | FaultSite::Generators => (0, row),
        };
        let site = self.fault.site as u32 + 16 * self.fault.kind.number();
        let words =
            philox4x32([site, in_key, operand as u32, Domain::FaultKey as u32], key(self.seed));
        let seed = u64::from(words[1]) << 32 | u64::from(words[0]);
        let address = |domain| StreamAddress { seed, domain, layer: self.layer, row, unit: 0 };
        [address(Domain::Fault), address(Domain::FaultFine)]
    }

    /// Returns the blocks that masks of low rates are drawn by, at the first of the two addresses;
    /// `None` for masks that are drawn by two comparisons.
    #[must_use]
    pub fn blocks(&self) -> Option<FlipBlocks> {
        FlipBlocks::new(self.fault.rate)
    }

    /// Returns the thresholds of the two comparisons.
    #[must_use]
    pub fn thresholds(&self) -> [Threshold; 2] {
        self.fault.rate.thresholds()
    }
}

/// Returns the width of a layer's counters: the bits of its greatest count.
///
/// # Errors
/// Returns [`Error::TooLarge`] for more than 63 bits.
pub fn counter_width(spec: &LayerSpec) -> Result<u32> {
    let width = spec.max_count().checked_ilog2().map_or(1, |highest| highest + 1);
    match width {
        0..=63 => Ok(width),
        _ => Err(Error::TooLarge { what: Quantity::CounterWidth, actual: width.into(), limit: 63 }),
    }
}

/// The stored form of an operand: its magnitude, and for signed operands a sign in the bit above
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoredOperand {
    /// The bits of the magnitude.
    bits: u32,
    /// The greatest magnitude; greater ones saturate.
    greatest: u64,
    polarity: Polarity,
}

impl StoredOperand {
    /// Returns the stored form of a layer's weights.
    #[must_use]
    pub fn weights(spec: &LayerSpec) -> Self {
        Self::new(spec, spec.encoding().weight_width())
    }

    /// Returns the stored form of a layer's inputs.
    #[must_use]
    pub fn inputs(spec: &LayerSpec) -> Self {
        Self::new(spec, spec.encoding().input_width())
    }

    fn new(spec: &LayerSpec, width: Width) -> Self {
        let polarity = spec.polarity();
        match spec.integer_bits() {
            Some(integers) => Self { bits: width.bits(), greatest: integers.greatest(), polarity },
            // The threshold of the stream of ones needs one bit more than all others.
            None => Self { bits: width.bits() + 1, greatest: width.one(), polarity },
        }
    }

    /// Returns the number of stored bits, including the sign.
    #[must_use]
    pub const fn n_bits(&self) -> u32 {
        match self.polarity {
            Polarity::Unipolar | Polarity::Bipolar => self.bits,
            Polarity::Signed => self.bits + 1,
        }
    }

    /// Flips the stored bits of a threshold where `mask` has ones.
    #[must_use]
    pub fn flip(&self, threshold: u64, mask: u64) -> u64 {
        let sign = 1u64 << self.bits;
        let stored = magnitude(threshold).min(self.greatest)
            | if is_negative(positive_zero(threshold)) { sign } else { 0 };
        let flipped = stored ^ mask;
        let is_negative = self.polarity == Polarity::Signed && flipped & sign != 0;
        positive_zero(
            (flipped & (sign - 1)).min(self.greatest) | if is_negative { NEGATIVE } else { 0 },
        )
    }
}

/// Clears the sign of a threshold if its magnitude is 0.
#[must_use]
pub const fn positive_zero(threshold: u64) -> u64 {
    if magnitude(threshold) == 0 { 0 } else { threshold }
}

/// Returns the threshold of an operand whose generator is stuck at a level; `one` is the threshold
/// of the stream of ones.
#[must_use]
pub const fn stick_threshold(threshold: u64, level: bool, one: u64) -> u64 {
    let sign = positive_zero(threshold) & NEGATIVE;
    if level { one | sign } else { 0 }
}

/// Flips the bits of `mask` in an accumulator's value of `width` bits in two's complement.
#[must_use]
pub const fn flip_accumulator(value: i64, mask: u64, width: u32) -> i64 {
    let unused = 64 - width;
    (value ^ mask as i64) << unused >> unused
}
