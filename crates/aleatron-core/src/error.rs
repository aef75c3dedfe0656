//! The error type of the core: which quantity is wrong, where, and its value.

use std::fmt;

/// The result of every fallible operation of the core.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The quantity that an [`Error`] refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Quantity {
    /// A probability, in [0, 1].
    Probability,
    /// A value of a unipolar ([0, 1]), bipolar or signed ([-1, 1]) stream.
    Value,
    /// A weight of a layer.
    Weight,
    /// The number of inputs of a layer.
    Inputs,
    /// The number of neurons of a layer.
    Neurons,
    /// The number of samples in a batch.
    Samples,
    /// The length of a stream in bits.
    Length,
    /// The number of packed words.
    Words,
    /// The number of streams in a matrix.
    Streams,
    /// The index of a layer in its network.
    Layer,
    /// The row (sample or neuron) in a Philox counter.
    Row,
    /// The weights of a layer as a whole.
    Weights,
    /// The encoded inputs of a call as a whole.
    EncodedInputs,
    /// The counts a layer returns.
    Counts,
    /// The confusion matrices of an evaluation.
    Confusion,
    /// The number of seeds of an evaluation.
    Seeds,
    /// The connections of a sparse layer.
    Connections,
    /// The width of a neuron's registers in bits.
    DataWidth,
    /// The number of fraction bits of a fixed-point number.
    Fraction,
    /// The steps of a neuron's run.
    Steps,
    /// The input currents of a neuron's run.
    Currents,
    /// The noise of a neuron's run.
    Noise,
    /// The result of a neuron's run.
    Trace,
    /// A bit, which is 0 or 1.
    Bit,
    /// The width of a generator's integers in bits.
    Width,
    /// The dimension of a Sobol sequence, counted from 1.
    SobolDimension,
    /// The base of a Halton sequence.
    HaltonBase,
    /// A tap of an LFSR, counted from 1 at the low end.
    LfsrTap,
    /// The first state of an LFSR.
    LfsrSeed,
    /// The index of one of the independent sequences of a generator.
    Sequence,
    /// The number of threads of a pool.
    Threads,
    /// The counts of all products of two sequences.
    CountTable,
    /// The name of a polarity.
    Polarity,
    /// The name of a sharing of sequences.
    Sharing,
    /// The name of a generator.
    Generator,
    /// The name of an inter-layer arithmetic.
    Arithmetic,
    /// A multiplier of the integer inter-layer arithmetic.
    Multiplier,
    /// A right shift of the integer inter-layer arithmetic.
    Shift,
    /// The width of an accumulator in bits.
    AccumulatorWidth,
    /// The fraction bits of an accumulator.
    FractionBits,
    /// The width of a multiplier in bits.
    MultiplierWidth,
    /// The width of a comparator in bits.
    ComparatorWidth,
    /// An integer bias.
    Bias,
    /// The scale of a layer's inputs.
    InputScale,
    /// A scale of a layer's weights.
    WeightScale,
    /// The product of the scales of a layer's inputs and weights.
    ScaleProduct,
    /// A bound of an activation.
    Bound,
    /// The signs of streams.
    Signs,
    /// The number of channels.
    Channels,
    /// The rows or columns of an image.
    ImageSize,
    /// The rows or columns of an image with its padding.
    PaddedSize,
    /// The rows or columns of a kernel, dilated.
    KernelSize,
    /// The steps from one position of a kernel to the next.
    Stride,
    /// The steps from one tap of a kernel to the next.
    Dilation,
    /// The padding of an image.
    Padding,
    /// The groups of a convolution.
    Groups,
    /// The rate of a fault.
    FaultRate,
    /// The name of a fault site.
    FaultSite,
    /// The name of a fault kind.
    FaultKind,
    /// The description of a fault.
    Fault,
    /// The cycles of a burst of faults.
    BurstCycles,
    /// The width of a counter in bits.
    CounterWidth,
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Probability => "probability",
            Self::Value => "value",
            Self::Weight => "weight",
            Self::Inputs => "number of inputs",
            Self::Neurons => "number of neurons",
            Self::Samples => "number of samples",
            Self::Length => "stream length",
            Self::Words => "number of packed words",
            Self::Streams => "number of streams",
            Self::Layer => "layer index",
            Self::Row => "row",
            Self::Weights => "weights",
            Self::EncodedInputs => "encoded inputs",
            Self::Counts => "counts",
            Self::Confusion => "confusion matrices",
            Self::Seeds => "number of seeds",
            Self::Connections => "connections",
            Self::DataWidth => "data width",
            Self::Fraction => "fraction bits",
            Self::Steps => "number of steps",
            Self::Currents => "number of currents",
            Self::Noise => "number of noise values",
            Self::Trace => "trace",
            Self::Bit => "bit",
            Self::Width => "generator width",
            Self::SobolDimension => "Sobol dimension",
            Self::HaltonBase => "Halton base",
            Self::LfsrTap => "LFSR tap",
            Self::LfsrSeed => "LFSR seed",
            Self::Sequence => "index of an independent sequence",
            Self::Threads => "number of threads",
            Self::CountTable => "count table",
            Self::Polarity => "polarity",
            Self::Sharing => "sharing",
            Self::Generator => "generator",
            Self::Arithmetic => "arithmetic",
            Self::Multiplier => "multiplier",
            Self::Shift => "right shift",
            Self::AccumulatorWidth => "accumulator width",
            Self::FractionBits => "number of fraction bits",
            Self::MultiplierWidth => "multiplier width",
            Self::ComparatorWidth => "comparator width",
            Self::Bias => "bias",
            Self::InputScale => "input scale",
            Self::WeightScale => "weight scale",
            Self::ScaleProduct => "product of input scale and weight scale",
            Self::Bound => "bound of an activation",
            Self::Signs => "signs",
            Self::Channels => "number of channels",
            Self::ImageSize => "image size",
            Self::PaddedSize => "padded image size",
            Self::KernelSize => "kernel size",
            Self::Stride => "stride",
            Self::Dilation => "dilation",
            Self::Padding => "padding",
            Self::Groups => "number of groups",
            Self::FaultRate => "fault rate",
            Self::FaultSite => "fault site",
            Self::FaultKind => "fault kind",
            Self::Fault => "fault",
            Self::BurstCycles => "number of cycles of a burst",
            Self::CounterWidth => "counter width",
        })
    }
}

/// The kind of an error of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendFault {
    /// There is no such device, driver or build feature.
    Unavailable,
    /// The backend does not support the operation.
    Unsupported,
    /// Device memory is exhausted.
    OutOfMemory,
    /// The device is lost. Preparing the layer again opens it anew.
    Lost,
    /// Any other failure.
    Failed,
}

/// An error, with the index and the value at fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number is NaN or lies outside its interval.
    #[error("{what} at index {index} is {value}, not in [{low}, {high}]")]
    OutOfRange {
        /// The quantity.
        what: Quantity,
        /// Its flat, row-major index in the argument.
        index: usize,
        /// The number.
        value: f64,
        /// The least value allowed.
        low: f64,
        /// The greatest value allowed.
        high: f64,
    },
    /// A size that must be at least 1 is 0.
    #[error("{0} must be at least 1")]
    Zero(Quantity),
    /// Two sizes that must agree do not.
    #[error("{what}: expected {expected}, got {actual}")]
    Mismatch {
        /// The quantity of the wrong size.
        what: Quantity,
        /// The required size.
        expected: usize,
        /// The actual size.
        actual: usize,
    },
    /// A number of elements does not divide into rows.
    #[error("{what}: {actual} is not a multiple of {divisor}")]
    Ragged {
        /// The quantity.
        what: Quantity,
        /// The number of elements.
        actual: usize,
        /// The size of a row.
        divisor: usize,
    },
    /// A size exceeds the limit of the specification or of its type.
    #[error("{what} is {actual}, the maximum is {limit}")]
    TooLarge {
        /// The quantity.
        what: Quantity,
        /// Its size.
        actual: u128,
        /// The largest allowed size.
        limit: u128,
    },
    /// A size is below its minimum.
    #[error("{what} is {actual}, the minimum is {limit}")]
    TooSmall {
        /// The quantity.
        what: Quantity,
        /// Its size.
        actual: u128,
        /// The smallest allowed size.
        limit: u128,
    },
    /// An allocation does not fit into memory; nothing was allocated.
    #[error("{what} would take {bytes} bytes{}", available_text(.available))]
    Memory {
        /// The quantity.
        what: Quantity,
        /// The size of the allocation in bytes.
        bytes: u128,
        /// The free memory in bytes, if known.
        available: Option<u64>,
    },
    /// A neuron's list of connections is not strictly increasing.
    #[error(
        "connections of neuron {neuron} are not strictly increasing at position {position} (input {input})"
    )]
    UnsortedConnections {
        /// The neuron.
        neuron: usize,
        /// The position in its list.
        position: usize,
        /// The input at this position.
        input: usize,
    },
    /// A connection refers to an input that the layer does not have.
    #[error("neuron {neuron} is connected to input {input}, but there are {n_inputs} inputs")]
    UnknownInput {
        /// The neuron.
        neuron: usize,
        /// The referenced input.
        input: usize,
        /// The number of inputs.
        n_inputs: usize,
    },
    /// A tap of an LFSR is repeated.
    #[error("LFSR tap {tap} is given twice")]
    RepeatedTap {
        /// The tap, counted from 1.
        tap: u32,
    },
    /// The highest tap of an LFSR is missing: its states would not form a cycle.
    #[error("the taps of an LFSR of {width} bits must include {width}")]
    MissingTap {
        /// The width.
        width: u32,
    },
    /// A name or a description cannot be read.
    #[error("\"{text}\" is not {} {what}: {reason}", article(.what))]
    Syntax {
        /// The quantity that was expected.
        what: Quantity,
        /// The given text.
        text: String,
        /// What is wrong with the text, or the alternatives.
        reason: String,
    },
    /// Numbers changed while they were read.
    #[error("a {what} changed while it was read: another thread writes to the array")]
    Changed {
        /// The quantity.
        what: Quantity,
    },
    /// A layer of a program cannot be prepared.
    #[error("layer {layer} of the program: {source}")]
    InLayer {
        /// The index of the layer in the program.
        layer: usize,
        /// The error of the layer.
        source: Box<Error>,
    },
    /// The computation was cancelled; see [`crate::Cancel`].
    #[error("cancelled")]
    Cancelled,
    /// A backend cannot do what was requested.
    #[error("{backend}: {message}")]
    Backend {
        /// The backend.
        backend: String,
        /// The kind of failure.
        fault: BackendFault,
        /// The message of the backend.
        message: String,
    },
    /// A state that should be impossible was reached: a defect of the crate, not of its use.
    #[error(
        "internal error, {place}: please report it with the call at https://github.com/aleatron/aleatron/issues"
    )]
    Internal {
        /// The location in the code.
        place: &'static str,
    },
    /// A packed stream has ones beyond its length.
    #[error("stream {stream} has ones past its length of {length} bits")]
    DirtyTail {
        /// The row of the stream.
        stream: usize,
        /// Its length.
        length: usize,
    },
}

impl Error {
    /// Creates the error for an unknown name.
    pub fn unknown_name<const N: usize>(what: Quantity, text: &str, names: [&str; N]) -> Self {
        let reason = format!("use {}", alternatives(&names));
        Self::Syntax { what, text: text.to_owned(), reason }
    }

    /// Creates the error of a backend that does not support an operation.
    pub fn unsupported(backend: impl Into<String>, operation: impl fmt::Display) -> Self {
        let (fault, message) =
            (BackendFault::Unsupported, format!("{operation} are not supported"));
        Self::Backend { backend: backend.into(), fault, message }
    }

    /// Shifts indices of an error in a slice that starts at index `offset` of the whole argument.
    #[must_use]
    pub fn shifted(self, offset: usize) -> Self {
        match self {
            Self::OutOfRange { what, index, value, low, high } => {
                Self::OutOfRange { what, index: index.saturating_add(offset), value, low, high }
            }
            error => error,
        }
    }

    /// Returns the kind of failure if this is a backend error.
    #[must_use]
    pub fn backend_fault(&self) -> Option<BackendFault> {
        match self {
            Self::Backend { fault, .. } => Some(*fault),
            Self::InLayer { source, .. } => source.backend_fault(),
            _ => None,
        }
    }
}

/// Formats `a, b or c`.
fn alternatives(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn article(what: &Quantity) -> &'static str {
    if what.to_string().starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

fn available_text(available: &Option<u64>) -> String {
    available.map_or_else(String::new, |bytes| format!(", {bytes} are available"))
}
