//! The error of this crate: what was wrong, where, and the value.

use std::path::PathBuf;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a model, its files, or a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be opened or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file is not of its format.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A folder holds no weights.
    #[error("{}: no .safetensors file", path.display())]
    NoWeights {
        /// The folder.
        path: PathBuf,
    },
    /// A configuration lacks an option.
    #[error("option \"{option}\" is missing")]
    MissingOption {
        /// The option.
        option: String,
    },
    /// A configuration has an unsupported option or value: ignoring it could change results.
    #[error("option \"{option}\": {value} is not supported")]
    UnknownOption {
        /// The option.
        option: String,
        /// The value.
        value: String,
    },
    /// Sizes of a configuration contradict each other.
    #[error("option \"{option}\": {value} {reason}")]
    BadOption {
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// The reason.
        reason: String,
    },
    /// A tensor that the model needs is in no file.
    #[error("tensor \"{name}\" is missing")]
    MissingTensor {
        /// The name.
        name: String,
    },
    /// A file has a tensor that the model does not.
    #[error("tensor \"{name}\" is not part of this model")]
    ExtraTensor {
        /// The name.
        name: String,
    },
    /// Two files have a tensor of one name.
    #[error("tensor \"{name}\" is in two files")]
    RepeatedTensor {
        /// The name.
        name: String,
    },
    /// A tensor has another shape than the configuration says.
    #[error("tensor \"{name}\" has shape {actual:?} instead of {expected:?}")]
    TensorShape {
        /// The name.
        name: String,
        /// The shape that follows from the configuration.
        expected: Vec<usize>,
        /// The shape in the file.
        actual: Vec<usize>,
    },
    /// The elements of a tensor are of a type that is not supported.
    #[error("tensor \"{name}\" has elements of type {element}; f32, f16 and bf16 are supported")]
    TensorType {
        /// The name.
        name: String,
        /// The type.
        element: String,
    },
    /// A tensor with values that the requested precision cannot represent.
    #[error("tensor \"{name}\" holds {value}, which {precision} cannot represent")]
    TensorValue {
        /// The name.
        name: String,
        /// The number.
        value: f32,
        /// The precision.
        precision: crate::Precision,
    },
    /// A token is not in the vocabulary.
    #[error("token {index} is {value}; the vocabulary has {vocabulary}")]
    Token {
        /// The index of the token in the call.
        index: usize,
        /// The token.
        value: u32,
        /// The size of the vocabulary.
        vocabulary: usize,
    },
    /// A call without tokens.
    #[error("no tokens")]
    NoTokens,
    /// More positions than the model supports.
    #[error("{positions} positions exceed the {limit} of the model")]
    TooLong {
        /// The requested positions.
        positions: usize,
        /// The positions of the model.
        limit: usize,
    },
    /// The cache of keys and values cannot grow to this size.
    #[error(
        "no memory for a cache of {bytes} bytes ({sequences} sequences of {positions} positions): {reason}"
    )]
    Cache {
        /// The size of the cache in bytes.
        bytes: u128,
        /// The number of sequences.
        sequences: usize,
        /// The positions of each.
        positions: usize,
        /// The reason.
        reason: String,
    },
    /// More sequences than one batch may have.
    #[error("{sequences} sequences exceed the limit of {limit} for a batch")]
    TooManySequences {
        /// The requested sequences.
        sequences: usize,
        /// The largest number of sequences.
        limit: usize,
    },
    /// A sequence that was closed, or that belongs to another pass.
    #[error("there is no sequence {sequence}")]
    NoSequence {
        /// The index.
        sequence: usize,
    },
    /// A sequence appears twice in one batch.
    #[error("sequence {sequence} is in the batch twice")]
    RepeatedSequence {
        /// The index.
        sequence: usize,
    },
    /// A sequence cannot be truncated to more positions than it holds.
    #[error("sequence {sequence} holds {len} positions, fewer than {keep}")]
    Truncation {
        /// The index.
        sequence: usize,
        /// The positions of the sequence.
        len: usize,
        /// The positions to retain.
        keep: usize,
    },
    /// An adapter that was not loaded into this pass.
    #[error("there is no adapter {adapter}")]
    NoAdapter {
        /// The index.
        adapter: usize,
    },
    /// An option of sampling out of its range.
    #[error("{option}: {value} is not {range}")]
    Sampling {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
        /// The valid range.
        range: &'static str,
    },
    /// All logits of a sequence are NaN or infinite: no token can be chosen.
    #[error("the logits of sequence {sequence} are not finite")]
    NotFinite {
        /// The index.
        sequence: usize,
    },
    /// The model has no tokenizer.
    #[error("the model has no tokenizer.json")]
    NoTokenizer,
    /// The tokenizer failed.
    #[error("tokenizer: {reason}")]
    Tokenizer {
        /// The reason.
        reason: String,
    },
    /// A step without a prefill to continue, or more tokens taken than steps submitted.
    #[error("no step in flight: call prefill, then submit_step, before take_step")]
    NoStep,
    /// A linear product that runs outside of the pass failed.
    #[error("product \"{linear}\": {source}")]
    Product {
        /// The product.
        linear: crate::products::LinearId,
        /// The failure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The linear products of this device cannot run elsewhere.
    #[error(
        "linear products on {device} cannot be replaced or observed; load the model on the device cpu"
    )]
    NoLinearProducts {
        /// The device.
        device: String,
    },
    /// A linear product of a layer that the model does not have.
    #[error("there is no product \"{linear}\"; the model has {layers} layers")]
    UnknownProduct {
        /// The product.
        linear: crate::products::LinearId,
        /// The layers of the model.
        layers: usize,
    },
    /// A state that this crate rules out was reached: a defect of the crate, not of its use.
    #[error(
        "internal error in aleatron-transformer, {place}: please report it with the call at https://github.com/aleatron/aleatron/issues"
    )]
    Internal {
        /// The location in the code.
        place: &'static str,
    },
    /// An unknown name of a size.
    #[error("there is no size \"{name}\"; there are: {known}")]
    UnknownSize {
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },
    /// A projection to adapt that the model does not have.
    #[error("target \"{name}\" is not a projection of this model; its projections are {known}")]
    UnknownTarget {
        /// The name.
        name: String,
        /// The names of the model's projections.
        known: String,
    },
    /// A correction of an adapter of the wrong size.
    #[error(
        "the correction of \"{module}\" has {actual} elements in {matrix} instead of {expected}"
    )]
    CorrectionSize {
        /// The module.
        module: String,
        /// The matrix: `lora_A` or `lora_B`.
        matrix: &'static str,
        /// The elements that follow from the adapter.
        expected: usize,
        /// The given elements.
        actual: usize,
    },
    /// An unknown name of a precision.
    #[error("there is no precision \"{name}\"; there are: f32, f16, int8")]
    UnknownPrecision {
        /// The name.
        name: String,
    },
    /// This build has no GPU support.
    #[error(
        "this build has no GPU support; compile it with the cargo feature `gpu`, or use the device \"cpu\""
    )]
    NoGpuSupport,
    /// An error of host memory.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// An error of the threads of the CPU.
    #[error(transparent)]
    Cpu(#[from] aleatron_cpu::Error),
    /// An error of the GPU.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(#[from] aleatron_device::Error),
}

impl Error {
    pub(crate) fn format(path: &std::path::Path, reason: impl ToString) -> Self {
        Self::Format { path: path.to_owned(), reason: reason.to_string() }
    }
}
