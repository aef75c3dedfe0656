//! Addresses of random draws: the Philox counter from which each bit is drawn.
//!
//! A counter identifies the drawn value and never the order of drawing. Thread count, tile order,
//! batch splits, devices and ranks therefore cannot change a bit:
//!
//! | counter word | meaning |
//! |---|---|
//! | c0 | draw in bits 0..3, index of the 32-bit stream word in bits 3..32 |
//! | c1 | unit: index of the input |
//! | c2 | row: index of the sample (input streams) or of the neuron (weight streams) |
//! | c3 | [`Domain`] in bits 0..4, [`LayerIndex`] in bits 4..32 |

use crate::error::{Error, Quantity, Result};
use crate::philox;

/// Draws per 32-bit stream word: eight draws of four planes make the 32 planes of a uniform
/// integer.
pub const DRAWS: u32 = 8;

/// Bit planes per draw.
pub const PLANES_PER_DRAW: u32 = 4;

/// The purpose of a stream. Streams of different domains never share a counter, even under one
/// seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Domain {
    /// Streams of a layer's inputs.
    Input = 0,
    /// Streams of a layer's weights.
    Weight = 1,
    /// Values of random weights.
    WeightInit = 2,
    /// Select streams of multiplexers.
    Select = 3,
    /// Noise of neurons.
    Noise = 4,
    /// Keys of faults; see [`crate::fault`].
    FaultKey = 5,
    /// Fault masks.
    Fault = 6,
    /// Fault masks, the second comparison of each bit.
    FaultFine = 7,
}

impl Domain {
    /// All domains of a circuit without faults, in the order of their numbers.
    pub const ALL: [Self; 5] =
        [Self::Input, Self::Weight, Self::WeightInit, Self::Select, Self::Noise];
}

/// The index of a layer in its network; 0 for a single layer. Below 2^28.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LayerIndex(u32);

impl LayerIndex {
    /// The index of a layer outside of a network.
    pub const ALONE: Self = Self(0);

    /// The largest index a counter can hold.
    pub const MAX: u32 = (1 << 28) - 1;

    /// Returns the index of the layer at `index`.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] above [`Self::MAX`].
    pub fn new(index: usize) -> Result<Self> {
        match u32::try_from(index) {
            Ok(index) if index <= Self::MAX => Ok(Self(index)),
            _ => Err(Error::TooLarge {
                what: Quantity::Layer,
                actual: index as u128,
                limit: Self::MAX.into(),
            }),
        }
    }

    /// Returns the index.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Everything except the bit index that determines a stream: one address identifies one sequence of
/// uniform integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamAddress {
    /// The 64-bit seed, which is the Philox key.
    pub seed: u64,
    /// The purpose of the stream.
    pub domain: Domain,
    /// The layer that the stream belongs to.
    pub layer: LayerIndex,
    /// Index of the sample (input streams) or of the neuron (weight streams).
    pub row: u32,
    /// Index of the input.
    pub unit: u32,
}

impl StreamAddress {
    /// Returns the stream of input `unit` of sample `row`, for a single layer.
    #[must_use]
    pub const fn input(seed: u64, unit: u32, row: u32) -> Self {
        Self { seed, domain: Domain::Input, layer: LayerIndex::ALONE, row, unit }
    }

    /// Returns the stream of the weight of input `unit` at neuron `row`, for a single layer.
    #[must_use]
    pub const fn weight(seed: u64, unit: u32, row: u32) -> Self {
        Self { seed, domain: Domain::Weight, layer: LayerIndex::ALONE, row, unit }
    }

    /// Returns the same stream in the layer at `layer`.
    #[must_use]
    pub const fn in_layer(self, layer: LayerIndex) -> Self {
        Self { layer, ..self }
    }

    /// Returns the same stream for another input.
    #[must_use]
    pub const fn at_unit(self, unit: u32) -> Self {
        Self { unit, ..self }
    }

    /// Returns the same stream for another sample or neuron.
    #[must_use]
    pub const fn at_row(self, row: u32) -> Self {
        Self { row, ..self }
    }

    /// Returns counter word c3.
    #[must_use]
    pub const fn tag(self) -> u32 {
        self.domain as u32 | self.layer.get() << 4
    }

    /// Returns the counter of `draw` for 32-bit stream word `word`.
    #[must_use]
    pub const fn counter(self, word: u32, draw: u32) -> [u32; 4] {
        [word << 3 | draw, self.unit, self.row, self.tag()]
    }

    /// Returns the Philox key.
    #[must_use]
    pub const fn key(self) -> [u32; 2] {
        philox::key(self.seed)
    }
}
