//! Linear products that run outside of a pass: the interface of an executor or observer, and the
//! names of the products.
//!
//! A pass multiplies activations with a matrix four times in each layer and once in the head.
//! [`LinearProducts`] receives the inputs of every such product together with the position of each
//! row in its text. It may compute the product, on any hardware and in any arithmetic, or decline
//! it, in which case the pass computes it in floating point. Biases, adapters, attention, norms and
//! activations stay in the pass.

use std::fmt;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::weights::Slot;

/// Identifies one linear product of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinearId {
    /// A matrix of a layer.
    Layer {
        /// The index of the layer.
        layer: usize,
        /// The matrix.
        slot: Slot,
    },
    /// The matrix that computes logits.
    Head,
}

impl LinearId {
    /// Returns the linear products of a model in the order in which a pass computes them.
    #[must_use]
    pub fn all(config: &Config) -> Vec<Self> {
        let layers =
            (0..config.layers).flat_map(|layer| Slot::ALL.map(|slot| Self::Layer { layer, slot }));
        layers.chain([Self::Head]).collect()
    }

    /// Returns the index of the product in [`Self::all`].
    #[must_use]
    pub fn index(self, config: &Config) -> usize {
        match self {
            Self::Layer { layer, slot } => layer * Slot::ALL.len() + slot as usize,
            Self::Head => config.layers * Slot::ALL.len(),
        }
    }

    /// Returns the outputs and inputs of the product.
    #[must_use]
    pub fn shape(self, config: &Config) -> [usize; 2] {
        match self {
            Self::Layer { slot, .. } => slot.shape(config),
            Self::Head => [config.vocabulary, config.hidden],
        }
    }
}

/// Writes the name of the product: `layers.0.qkv`, `layers.0.output`, `layers.0.up`,
/// `layers.0.down` or `head`.
impl fmt::Display for LinearId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layer, slot) = match self {
            Self::Head => return f.write_str("head"),
            Self::Layer { layer, slot } => (layer, slot),
        };
        let slot = match slot {
            Slot::Qkv => "qkv",
            Slot::Output => "output",
            Slot::Up => "up",
            Slot::Down => "down",
        };
        write!(f, "layers.{layer}.{slot}")
    }
}

/// The position of a token: which text, and where in it. It depends neither on the batch nor on the
/// cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenPosition {
    /// The number of the text, by
    /// [`ForwardPass::set_sequence_number`](crate::ForwardPass::set_sequence_number); 0 by
    /// default.
    pub sequence: u64,
    /// The index of the token in the text.
    pub position: usize,
}

/// The inputs of one linear product.
#[derive(Debug, Clone, Copy)]
pub struct LinearProduct<'a> {
    /// The product.
    pub linear: LinearId,
    /// The inputs, one row per token.
    pub inputs: &'a [f32],
    /// The position of each row.
    pub positions: &'a [TokenPosition],
}

/// Whether a product was computed outside of the pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProductOutcome {
    /// The outputs are written.
    Computed,
    /// The pass must compute the product in floating point.
    Declined,
}

/// Executes or observes the linear products of a pass.
pub trait LinearProducts: fmt::Debug + Send + Sync {
    /// Writes the products of all rows of inputs with the matrix, without its bias, one row of
    /// outputs per row of inputs; or declines.
    ///
    /// # Errors
    /// [`Error::Product`] if the product cannot be computed.
    fn product(&self, product: &LinearProduct<'_>, outputs: &mut [f32]) -> Result<ProductOutcome>;
}

/// Returns the error of a device whose products cannot be replaced.
pub(crate) fn unsupported(device: String) -> Error {
    Error::NoLinearProducts { device }
}
