//! Conformance cases: an operation with all of its inputs.

use super::mask::MaskCase;
use super::network::NetworkCase;
use super::program::ProgramCase;
use crate::address::StreamAddress;
use crate::backend::CountMethod;
use crate::error::Result;
use crate::gates::Gate;
use crate::generator::{Sequence, Width};
use crate::layer::{Encoding, LayerSpec, SampleSeed, Topology, Weights};
use crate::lif::{LifDrive, LifParams};
use crate::polarity::Polarity;
use crate::reference;
use crate::stream::{BitStream, Length, StreamMatrix};
use crate::threshold::{Threshold, is_negative};

/// The kind of a case, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Bernoulli encoding.
    Encode,
    /// Packing bytes to bits.
    Pack,
    /// Unpacking bits to bytes.
    Unpack,
    /// AND, OR, XOR, XNOR, NOT and MUX.
    Gates,
    /// Population counts and Hamming distances.
    Count,
    /// Dense layers.
    Dense,
    /// Sparse layers.
    Sparse,
    /// Fixed-point neurons.
    Lif,
    /// Shared sequences, bit by bit.
    Sequence,
    /// Shared sequences, from tables.
    Table,
    /// Networks in floating point and in integers between layers.
    Network,
    /// Dense and sparse layers with signed streams, and networks of them.
    Signed,
    /// Convolutions, and networks with pools between them.
    Conv,
    /// Layers of every kind with random bits for one operand and sequences for the other, and
    /// networks of them.
    Mixed,
    /// Every step of the inter-layer arithmetic of compiled networks.
    Program,
    /// Dense layers and convolutions that multiply integers instead of streams.
    Integer,
    /// Masks of faults.
    Mask,
}

impl Operation {
    /// Every kind, in order.
    pub const ALL: [Self; 17] = [
        Self::Encode,
        Self::Pack,
        Self::Unpack,
        Self::Gates,
        Self::Count,
        Self::Dense,
        Self::Sparse,
        Self::Lif,
        Self::Sequence,
        Self::Table,
        Self::Network,
        Self::Signed,
        Self::Conv,
        Self::Mixed,
        Self::Program,
        Self::Integer,
        Self::Mask,
    ];

    /// Returns the name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::Pack => "pack",
            Self::Unpack => "unpack",
            Self::Gates => "gates",
            Self::Count => "count",
            Self::Dense => "dense",
            Self::Sparse => "sparse",
            Self::Lif => "lif",
            Self::Sequence => "sequence",
            Self::Table => "table",
            Self::Network => "network",
            Self::Signed => "signed",
            Self::Conv => "conv",
            Self::Mixed => "mixed",
            Self::Program => "program",
            Self::Integer => "integer",
            Self::Mask => "mask",
        }
    }
}

/// An operation with its inputs.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there are few cases, and each is looked at once")]
pub enum Case {
    /// Encodes streams of `thresholds` at units `address.unit`, `address.unit + 1`, …; the answer
    /// is their words.
    Encode {
        /// One threshold per stream.
        thresholds: Vec<Threshold>,
        /// Their length.
        length: Length,
        /// The address of the first stream.
        address: StreamAddress,
    },
    /// Packs bytes into words; any byte other than 0 is a 1.
    Pack {
        /// One byte per bit.
        bits: Vec<u8>,
    },
    /// Unpacks the bits of a stream, one per word.
    Unpack {
        /// The stream.
        stream: BitStream,
    },
    /// Applies a gate to two streams of one length.
    Gate {
        /// The gate.
        gate: Gate,
        /// The left operand.
        a: BitStream,
        /// The right operand.
        b: BitStream,
    },
    /// Computes the complement.
    Not {
        /// The stream.
        a: BitStream,
    },
    /// Multiplexes two streams by a third of the same length.
    Mux {
        /// The select stream.
        select: BitStream,
        /// Selected where `select` is 1.
        a: BitStream,
        /// Selected where `select` is 0.
        b: BitStream,
    },
    /// Counts the ones of a stream.
    Popcount {
        /// The stream.
        a: BitStream,
    },
    /// Counts the ones that two streams of one length share.
    AndPopcount {
        /// The left operand.
        a: BitStream,
        /// The right operand.
        b: BitStream,
    },
    /// Counts the positions where two streams of one length differ.
    Hamming {
        /// The left operand.
        a: BitStream,
        /// The right operand.
        b: BitStream,
    },
    /// Encodes streams of one shared sequence; the answer is their words.
    EncodeSequence {
        /// The sequence.
        sequence: Sequence,
        /// One threshold per stream, at most 2^W.
        thresholds: Vec<u64>,
        /// Their length.
        length: Length,
    },
    /// The words of fault masks.
    Mask(MaskCase),
    /// Counts a layer.
    Layer(LayerCase),
    /// Runs a network on a batch; see [`NetworkCase`].
    Network(NetworkCase),
    /// Runs a compiled network on a batch; see [`ProgramCase`].
    Program(ProgramCase),
    /// Runs one neuron through a list of drives; see [`super::trace_words`].
    LifRun {
        /// The neuron.
        params: LifParams,
        /// One per step. Leak and gain are the same in all.
        drives: Vec<LifDrive>,
    },
    /// Runs many neurons with a constant current each; see [`super::trace_words`].
    LifMulti {
        /// The neurons.
        params: LifParams,
        /// Leak, gain and noise of all neurons; its current is not used.
        drive: LifDrive,
        /// One current per neuron.
        currents: Vec<i16>,
        /// The number of steps.
        n_steps: usize,
    },
}

impl Case {
    /// Returns the kind of the case.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            Self::Encode { .. } => Operation::Encode,
            Self::Pack { .. } => Operation::Pack,
            Self::Unpack { .. } => Operation::Unpack,
            Self::Gate { .. } | Self::Not { .. } | Self::Mux { .. } => Operation::Gates,
            Self::Popcount { .. } | Self::AndPopcount { .. } | Self::Hamming { .. } => {
                Operation::Count
            }
            Self::EncodeSequence { .. } => Operation::Sequence,
            Self::Mask(_) => Operation::Mask,
            Self::Layer(layer) => layer.operation(),
            Self::Network(network) => network.operation(),
            Self::Program(_) => Operation::Program,
            Self::LifRun { .. } | Self::LifMulti { .. } => Operation::Lif,
        }
    }
}

/// A layer and a batch.
#[derive(Debug, Clone)]
pub struct LayerCase {
    /// The layer.
    pub spec: LayerSpec,
    /// One threshold per weight, as wide as the generator of the weights, with the bit
    /// [`NEGATIVE`](crate::threshold::NEGATIVE) for negative weights of a signed layer.
    pub weights: Vec<u64>,
    /// One threshold per sample and input, as wide as the generator of the inputs, with signs as
    /// above.
    pub inputs: Vec<u64>,
    /// The seed of the input streams, and the first sample.
    pub seed: SampleSeed,
    /// How shared sequences are counted.
    pub method: CountMethod,
}

impl LayerCase {
    /// Returns the kind of the case.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match (self.spec.encoding(), self.spec.topology(), self.method) {
            (Encoding::BernoulliInputs { .. } | Encoding::BernoulliWeights { .. }, ..) => {
                Operation::Mixed
            }
            _ if self.spec.integer_bits().is_some() => Operation::Integer,
            (_, Topology::Conv(_), _) => Operation::Conv,
            _ if self.spec.polarity() == Polarity::Signed => Operation::Signed,
            (Encoding::Sequences(_), _, CountMethod::Bits) => Operation::Sequence,
            (Encoding::Sequences(_), ..) => Operation::Table,
            (_, Topology::Dense { .. }, _) => Operation::Dense,
            _ => Operation::Sparse,
        }
    }

    /// Returns the number of samples of the batch.
    #[must_use]
    pub fn n_samples(&self) -> usize {
        self.inputs.len() / self.spec.n_inputs()
    }

    /// Returns the weights as values that have exactly these thresholds.
    ///
    /// # Errors
    /// Never fails for a valid case.
    pub fn weight_values(&self) -> Result<Weights> {
        let width = self.spec.encoding().weight_width();
        Weights::new(&self.spec, values(&self.weights, width, self.spec.polarity()))
    }

    /// Returns the inputs as values that have exactly these thresholds.
    #[must_use]
    pub fn input_values(&self) -> Vec<f64> {
        values(&self.inputs, self.spec.encoding().input_width(), self.spec.polarity())
    }

    /// Returns the signs of the inputs of a signed layer; empty for other layers.
    #[must_use]
    pub fn negative_inputs(&self) -> Vec<bool> {
        signs(&self.inputs, self.spec.polarity())
    }

    /// Returns the signs of the weights of a signed layer; empty for other layers.
    #[must_use]
    pub fn negative_weights(&self) -> Vec<bool> {
        signs(&self.weights, self.spec.polarity())
    }

    /// Returns the weight streams by the reference, one per weight in their order.
    #[must_use]
    pub fn weight_streams(&self) -> StreamMatrix {
        reference::weight_streams(&self.spec, &self.weights)
    }

    /// Returns the input streams by the reference, rows of samples by inputs.
    #[must_use]
    pub fn input_streams(&self) -> StreamMatrix {
        reference::input_streams(&self.spec, &self.inputs, self.seed)
    }
}

/// Returns values that have exactly the given thresholds: dividing by a power of two is exact, and
/// so is the mapping of a polarity.
fn values(thresholds: &[u64], width: Width, polarity: Polarity) -> Vec<f64> {
    thresholds.iter().map(|&threshold| width.value(threshold, polarity)).collect()
}

fn signs(thresholds: &[u64], polarity: Polarity) -> Vec<bool> {
    match polarity {
        Polarity::Unipolar | Polarity::Bipolar => Vec::new(),
        Polarity::Signed => thresholds.iter().map(|&threshold| is_negative(threshold)).collect(),
    }
}

/// Packs bits into words, one bit at a time.
pub(super) fn pack(bits: &[u8]) -> Vec<u64> {
    let mut words = vec![0; bits.len().div_ceil(64)];
    for (k, _) in bits.iter().enumerate().filter(|(_, bit)| **bit != 0) {
        words[k / 64] |= 1u64 << (k % 64);
    }
    words
}
