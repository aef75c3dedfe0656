//! The one error of the core: which quantity was wrong, where, and what it was.

use std::fmt;

/// The result of every fallible operation of the core.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What an [`Error`] speaks of.
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
    /// The index among the independent sequences that one generator offers.
    Sequence,
    /// The number of threads of a pool.
    Threads,
    /// The counts of all products of two sequences.
    CountTable,
    /// The name of a polarity.
    Polarity,
    /// The name of a way to share sequences.
    Sharing,
    /// The name of a generator.
    Generator,
    /// The name of an arithmetic between layers.
    Arithmetic,
    /// A multiplier of the integer arithmetic between layers.
    Multiplier,
    /// A right shift of the integer arithmetic between layers.
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

/// What kind of fault a backend reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendFault {
    /// There is no such device, driver or build.
    Unavailable,
    /// The backend has no code for this operation.
    Unsupported,
    /// The device has no memory left for this.
    OutOfMemory,
    /// The device is gone. Preparing the layer again opens it anew.
    Lost,
    /// Anything else.
    Failed,
}

/// What went wrong, with the index and the value at fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number is NaN or lies outside its interval.
    #[error("{what} at index {index} is {value}, not in [{low}, {high}]")]
    OutOfRange {
        /// What the number is.
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
        /// What has the wrong size.
        what: Quantity,
        /// The size it must have.
        expected: usize,
        /// The size it has.
        actual: usize,
    },
    /// A number of elements does not divide into rows.
    #[error("{what}: {actual} is not a multiple of {divisor}")]
    Ragged {
        /// What is ragged.
        what: Quantity,
        /// The number of elements.
        actual: usize,
        /// The size of a row.
        divisor: usize,
    },
    /// A size is past what the specification or the type can hold.
    #[error("{what} is {actual}, the most is {limit}")]
    TooLarge {
        /// What is too large.
        what: Quantity,
        /// Its size.
        actual: u128,
        /// The largest size allowed.
        limit: u128,
    },
    /// A size is below what is allowed.
    #[error("{what} is {actual}, the least is {limit}")]
    TooSmall {
        /// What is too small.
        what: Quantity,
        /// Its size.
        actual: u128,
        /// The smallest size allowed.
        limit: u128,
    },
    /// Something would not fit into memory; nothing was allocated.
    #[error("{what} would take {bytes} bytes{}", available_text(.available))]
    Memory {
        /// What would be allocated.
        what: Quantity,
        /// The bytes it would take.
        bytes: u128,
        /// The bytes free at the time, where the system says.
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
        /// The input found there.
        input: usize,
    },
    /// A connection names an input the layer does not have.
    #[error("neuron {neuron} is connected to input {input}, but there are {n_inputs} inputs")]
    UnknownInput {
        /// The neuron.
        neuron: usize,
        /// The input named.
        input: usize,
        /// The inputs there are.
        n_inputs: usize,
    },
    /// A tap of an LFSR is named twice.
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
        /// What it should be.
        what: Quantity,
        /// What was given.
        text: String,
        /// What is wrong with it, or what there is.
        reason: String,
    },
    /// Numbers changed while they were read.
    #[error("a {what} changed while it was read: another thread writes to the array")]
    Changed {
        /// What the numbers are.
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
    /// The work was stopped on request; see [`crate::Cancel`].
    #[error("cancelled")]
    Cancelled,
    /// A backend cannot do what was asked of it.
    #[error("{backend}: {message}")]
    Backend {
        /// The backend.
        backend: String,
        /// What kind of fault it is.
        fault: BackendFault,
        /// What the backend says.
        message: String,
    },
    /// A state that a crate of this project rules out was reached: a defect of the crate, not of
    /// its use.
    #[error(
        "internal error, {place}: please report it with the call at https://github.com/aleatron/aleatron/issues"
    )]
    Internal {
        /// The place in the code.
        place: &'static str,
    },
    /// A packed stream has ones past its length.
    #[error("stream {stream} has ones past its length of {length} bits")]
    DirtyTail {
        /// The row of the stream.
        stream: usize,
        /// Its length.
        length: usize,
    },
}

impl Error {
    /// The error for a name that is none of those there are.
    pub fn unknown_name<const N: usize>(what: Quantity, text: &str, names: [&str; N]) -> Self {
        let reason = format!("use {}", alternatives(&names));
        Self::Syntax { what, text: text.to_owned(), reason }
    }

    /// The error of a backend that has no code for an operation.
    pub fn unsupported(backend: impl Into<String>, operation: impl fmt::Display) -> Self {
        let (fault, message) =
            (BackendFault::Unsupported, format!("{operation} are not supported here"));
        Self::Backend { backend: backend.into(), fault, message }
    }

    /// The same error for a part of an argument that starts at index `offset` of the whole.
    #[must_use]
    pub fn shifted(self, offset: usize) -> Self {
        match self {
            Self::OutOfRange { what, index, value, low, high } => {
                Self::OutOfRange { what, index: index.saturating_add(offset), value, low, high }
            }
            error => error,
        }
    }

    /// The fault of a backend, where this is one.
    #[must_use]
    pub fn backend_fault(&self) -> Option<BackendFault> {
        match self {
            Self::Backend { fault, .. } => Some(*fault),
            Self::InLayer { source, .. } => source.backend_fault(),
            _ => None,
        }
    }
}

/// `a, b or c`.
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
