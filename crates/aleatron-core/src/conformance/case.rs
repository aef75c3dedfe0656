//! The cases: an operation and all it needs.

use crate::address::{LayerIndex, StreamAddress};
use crate::connections::Connections;
use crate::dense::{DenseShape, Polarity};
use crate::gates::Gate;
use crate::lif::{LifDrive, LifParams};
use crate::reference;
use crate::stream::{BitStream, Length, StreamMatrix};
use crate::threshold::Threshold;

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
}

impl Operation {
    /// Every kind, in order.
    pub const ALL: [Self; 8] = [
        Self::Encode,
        Self::Pack,
        Self::Unpack,
        Self::Gates,
        Self::Count,
        Self::Dense,
        Self::Sparse,
        Self::Lif,
    ];

    /// Its name in reports.
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
        }
    }
}

/// An operation with its inputs.
#[derive(Debug, Clone)]
pub enum Case {
    /// Streams of `thresholds` at units `address.unit`, `address.unit + 1`, …; their words.
    Encode {
        /// One per stream.
        thresholds: Vec<Threshold>,
        /// Their length.
        length: Length,
        /// Where the first one is drawn.
        address: StreamAddress,
    },
    /// Packed words of bytes; any byte other than 0 is a 1.
    Pack {
        /// One byte per bit.
        bits: Vec<u8>,
    },
    /// The bits of a stream, one per word.
    Unpack {
        /// The stream.
        stream: BitStream,
    },
    /// The words of a gate over two streams of one length.
    Gate {
        /// The gate.
        gate: Gate,
        /// Left.
        a: BitStream,
        /// Right.
        b: BitStream,
    },
    /// The words of the complement.
    Not {
        /// The stream.
        a: BitStream,
    },
    /// The words of the multiplexer over three streams of one length.
    Mux {
        /// The select stream.
        select: BitStream,
        /// Taken where select is 1.
        a: BitStream,
        /// Taken where select is 0.
        b: BitStream,
    },
    /// The ones of a stream.
    Popcount {
        /// The stream.
        a: BitStream,
    },
    /// The ones two streams of one length share.
    AndPopcount {
        /// Left.
        a: BitStream,
        /// Right.
        b: BitStream,
    },
    /// The positions where two streams of one length differ.
    Hamming {
        /// Left.
        a: BitStream,
        /// Right.
        b: BitStream,
    },
    /// The counts of a dense layer, from thresholds to counts.
    Dense(DenseCase),
    /// The counts of a sparse layer, from thresholds to counts.
    Sparse(SparseCase),
    /// One neuron through a list of drives; see [`super::trace_words`].
    LifRun {
        /// The neuron.
        params: LifParams,
        /// One per step. Leak and gain are the same in all.
        drives: Vec<LifDrive>,
    },
    /// Many neurons with a constant current each; see [`super::trace_words`].
    LifMulti {
        /// The neurons.
        params: LifParams,
        /// Leak, gain and noise of all; its current is not used.
        drive: LifDrive,
        /// One per neuron.
        currents: Vec<i16>,
        /// Steps.
        n_steps: usize,
    },
}

impl Case {
    /// What kind of case this is.
    #[must_use]
    pub fn operation(&self) -> Operation {
        match self {
            Self::Encode { .. } => Operation::Encode,
            Self::Pack { .. } => Operation::Pack,
            Self::Unpack { .. } => Operation::Unpack,
            Self::Gate { .. } | Self::Not { .. } | Self::Mux { .. } => Operation::Gates,
            Self::Popcount { .. } | Self::AndPopcount { .. } | Self::Hamming { .. } => Operation::Count,
            Self::Dense(_) => Operation::Dense,
            Self::Sparse(_) => Operation::Sparse,
            Self::LifRun { .. } | Self::LifMulti { .. } => Operation::Lif,
        }
    }
}

/// A dense layer and a batch.
#[derive(Debug, Clone)]
pub struct DenseCase {
    /// The layer.
    pub shape: DenseShape,
    /// Its place in a network.
    pub layer: LayerIndex,
    /// One per neuron and input.
    pub weights: Vec<Threshold>,
    /// The seed of the weight streams.
    pub weight_seed: u64,
    /// One per sample and input.
    pub inputs: Vec<Threshold>,
    /// The seed of the input streams.
    pub input_seed: u64,
    /// The row of the first sample.
    pub first_row: u32,
}

impl DenseCase {
    /// The samples of the batch.
    #[must_use]
    pub fn n_samples(&self) -> usize {
        self.inputs.len() / self.shape.n_inputs()
    }

    /// The weight streams by the reference, rows of neurons by inputs.
    #[must_use]
    pub fn weight_streams(&self) -> StreamMatrix {
        let first = StreamAddress::weight(self.weight_seed, 0, 0).in_layer(self.layer);
        encode_rows(&self.weights, self.shape.n_inputs(), self.shape.length(), first)
    }

    /// The input streams by the reference, rows of samples by inputs.
    #[must_use]
    pub fn input_streams(&self) -> StreamMatrix {
        let first = StreamAddress::input(self.input_seed, 0, self.first_row).in_layer(self.layer);
        encode_rows(&self.inputs, self.shape.n_inputs(), self.shape.length(), first)
    }
}

/// A sparse layer and a batch.
#[derive(Debug, Clone)]
pub struct SparseCase {
    /// Who sees whom.
    pub connections: Connections,
    /// The stream length.
    pub length: Length,
    /// The polarity.
    pub polarity: Polarity,
    /// One per connection.
    pub weights: Vec<Threshold>,
    /// The seed of the weight streams.
    pub weight_seed: u64,
    /// One per sample and input.
    pub inputs: Vec<Threshold>,
    /// The seed of the input streams.
    pub input_seed: u64,
    /// The row of the first sample.
    pub first_row: u32,
}

impl SparseCase {
    /// The weight streams by the reference, one per connection: the ones the dense layer would have there.
    #[must_use]
    pub fn weight_streams(&self) -> StreamMatrix {
        let mut words = Vec::new();
        let mut weights = self.weights.iter();
        for neuron in 0..self.connections.n_neurons() {
            for (&unit, &weight) in self.connections.inputs_of(neuron).iter().zip(&mut weights) {
                let address = StreamAddress::weight(self.weight_seed, unit, neuron as u32);
                words.extend(reference::encode(weight, self.length, address).into_words());
            }
        }
        matrix(words, self.length)
    }

    /// The input streams by the reference, rows of samples by inputs.
    #[must_use]
    pub fn input_streams(&self) -> StreamMatrix {
        let first = StreamAddress::input(self.input_seed, 0, self.first_row);
        encode_rows(&self.inputs, self.connections.n_inputs(), self.length, first)
    }
}

fn encode_rows(
    thresholds: &[Threshold],
    per_row: usize,
    length: Length,
    first: StreamAddress,
) -> StreamMatrix {
    let mut words = Vec::new();
    for (row, thresholds) in (first.row..=u32::MAX).zip(thresholds.chunks(per_row)) {
        for (unit, &threshold) in (0..).zip(thresholds) {
            words.extend(reference::encode(threshold, length, first.at_row(row).at_unit(unit)).into_words());
        }
    }
    matrix(words, length)
}

fn matrix(words: Vec<u64>, length: Length) -> StreamMatrix {
    let rows = words.len() / length.words();
    StreamMatrix::from_clean_words(words, rows, length)
}

/// The words of bits, one bit at a time.
pub(super) fn pack(bits: &[u8]) -> Vec<u64> {
    let mut words = vec![0; bits.len().div_ceil(64)];
    for (k, _) in bits.iter().enumerate().filter(|(_, bit)| **bit != 0) {
        words[k / 64] |= 1u64 << (k % 64);
    }
    words
}
