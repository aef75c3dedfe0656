//! The error of this crate: the operation, what was wrong, and the value.

use std::fmt;
use std::sync::Arc;

use crate::dtype::{DType, Scalar};

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A size that something limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// The elements of a tensor.
    Elements,
    /// The elements of a tensor on a GPU, where 32 bits count them.
    GpuElements,
    /// The elements along an axis, whose indices are results.
    AxisLength,
    /// The buffers one kernel needs.
    Bindings,
    /// The length of a head of attention.
    HeadLength,
    /// The rank of a tensor.
    Rank,
    /// A number that a kernel takes in 32 bits, by its name.
    Kernel(&'static str),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Elements => "elements of a tensor",
            Self::GpuElements => "elements of a tensor on a GPU",
            Self::AxisLength => "elements along an axis",
            Self::Bindings => "buffers of a kernel",
            Self::HeadLength => "length of a head",
            Self::Rank => "rank of a tensor",
            Self::Kernel(what) => what,
        })
    }
}

/// An error of a tensor operation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two shapes that are not compatible.
    #[error("{op}: shapes {left:?} and {right:?} are not compatible")]
    Shapes {
        /// The operation.
        op: &'static str,
        /// One shape.
        left: Vec<usize>,
        /// The other.
        right: Vec<usize>,
    },
    /// A tensor has another rank than the operation takes.
    #[error("{op}: expected a tensor of rank {expected}, got shape {shape:?}")]
    Rank {
        /// The operation.
        op: &'static str,
        /// The rank it takes.
        expected: RankNeeded,
        /// The shape it got.
        shape: Vec<usize>,
    },
    /// An axis out of range.
    #[error("{op}: axis {axis} is out of range for a tensor of rank {rank}")]
    Axis {
        /// The operation.
        op: &'static str,
        /// The axis; negative ones count from the end.
        axis: isize,
        /// The rank.
        rank: usize,
    },
    /// An axis named twice.
    #[error("{op}: axis {axis} is named twice")]
    RepeatedAxis {
        /// The operation.
        op: &'static str,
        /// The axis.
        axis: isize,
    },
    /// An operation that is not defined for a type.
    #[error("{op}: elements of type {dtype} are not supported; expected {expected}")]
    DType {
        /// The operation.
        op: &'static str,
        /// The type.
        dtype: DType,
        /// The supported types.
        expected: &'static str,
    },
    /// Two types that do not combine without a cast.
    #[error("{op}: {left} and {right} cannot be combined; cast one of them")]
    Promotion {
        /// The operation.
        op: &'static str,
        /// One type.
        left: DType,
        /// The other.
        right: DType,
    },
    /// A number that a type cannot hold.
    #[error("{value} is not representable in {dtype}")]
    Scalar {
        /// The number.
        value: Scalar,
        /// The type.
        dtype: DType,
    },
    /// Another number of elements than the shape has.
    #[error("shape {shape:?} has {expected} elements, got {actual}")]
    Elements {
        /// The shape.
        shape: Vec<usize>,
        /// The number of elements of the shape.
        expected: u128,
        /// The elements given.
        actual: usize,
    },
    /// A reshape that changes the number of elements, or a view that would need a copy.
    #[error("{}", reshape_message(from, to))]
    Reshape {
        /// The shape it has.
        from: Vec<usize>,
        /// The shape asked for.
        to: Vec<usize>,
    },
    /// A range that is out of bounds.
    #[error("{op}: range {start}..{end} is out of bounds for an axis of length {len}")]
    Range {
        /// The operation.
        op: &'static str,
        /// The first element.
        start: usize,
        /// One past the last.
        end: usize,
        /// The length of the axis.
        len: usize,
    },
    /// An element of an index tensor that is out of range.
    #[error(
        "{op}: index {value} at position {position} is out of range for an axis of length {len}"
    )]
    Index {
        /// The operation.
        op: &'static str,
        /// The position of the index among the indices.
        position: u64,
        /// The index.
        value: i64,
        /// The length of the axis.
        len: usize,
    },
    /// An argument out of its range.
    #[error("{op}: {what} is {value}, {expected}")]
    Argument {
        /// The operation.
        op: &'static str,
        /// The argument.
        what: &'static str,
        /// The value.
        value: String,
        /// The expected value.
        expected: &'static str,
    },
    /// Tensors of two devices in one operation.
    #[error("{op}: one tensor is on {left}, another on {right}; move one of them with to_device")]
    Devices {
        /// The operation.
        op: &'static str,
        /// One device.
        left: String,
        /// The other.
        right: String,
    },
    /// Elements read as another type than they have.
    #[error("a tensor of {actual} cannot be read as {wanted}")]
    ReadAs {
        /// The type asked for.
        wanted: DType,
        /// The type it has.
        actual: DType,
    },
    /// A size above its limit.
    #[error("{what}: {actual} exceeds the limit of {limit}")]
    TooLarge {
        /// The kind of the size.
        what: Limit,
        /// The size.
        actual: u128,
        /// The largest size allowed.
        limit: u128,
    },
    /// The device lacks something this operation needs.
    #[error("{device} has no {what}")]
    Unsupported {
        /// The device.
        device: String,
        /// The missing feature.
        what: &'static str,
    },
    /// The host is out of memory.
    #[error("out of memory: {bytes} bytes{}", available.map_or(String::new(), |left| format!(", {left} are left")))]
    Memory {
        /// The bytes asked for.
        bytes: u128,
        /// The available bytes, if the system reports them.
        available: Option<u64>,
    },
    /// A handle of another batch, or of an earlier round of this one.
    #[error(
        "handle {index} of batch {owner}, round {round}, used in batch {user}, round {current}"
    )]
    Handle {
        /// The index of the handle.
        index: usize,
        /// The batch of the handle.
        owner: u64,
        /// The round of that batch.
        round: u64,
        /// The batch that received the handle.
        user: u64,
        /// The round of that batch.
        current: u64,
    },
    /// A file that cannot be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The reason, from the system or the reader of the format.
        reason: String,
    },
    /// An unknown name.
    #[error("there is no {what} named \"{name}\"")]
    Name {
        /// The kind of the name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A gradient of a tensor that is not the result of a recorded computation.
    #[error(
        "backward: the output is not part of a recorded computation; compute it outside no_grad from a tensor created by requires_grad"
    )]
    NoGraph,
    /// A gradient of an output of several elements without a gradient to begin with.
    #[error(
        "backward: the output has shape {shape:?}; reduce it to one element, or pass its gradient to backward_with"
    )]
    NotScalar {
        /// The shape of the output.
        shape: Vec<usize>,
    },
    /// A second backward pass through a graph that the first one freed.
    #[error(
        "backward: the graph at {op} was freed by an earlier backward pass; compute the output again, or add the outputs and call \
         backward once"
    )]
    GraphFreed {
        /// The operation whose record was freed.
        op: &'static str,
    },
    /// An error of a user-defined function.
    #[error("{function}: {error}")]
    Custom {
        /// The name of the function.
        function: &'static str,
        /// The error.
        #[source]
        error: CustomError,
    },
    /// A state that this crate rules out was reached: a defect of the crate, not of its use.
    #[error(
        "internal error in aleatron-tensor, {place}: please report it with the call at https://github.com/aleatron/aleatron/issues"
    )]
    Internal {
        /// The location in the code.
        place: &'static str,
    },
    /// A matrix of a batch that an operation of linear algebra is not defined for.
    #[error("{op}: matrix {index} of the batch {fault}")]
    Matrix {
        /// The operation.
        op: &'static str,
        /// The index of the matrix in the batch, in row-major order.
        index: usize,
        /// The reason.
        fault: MatrixFault,
    },
    /// A GPU was requested in a build without the cargo feature `gpu`.
    #[error(
        "this build has no GPU support; compile it with the cargo feature `gpu`, or use the device \"cpu\""
    )]
    NoGpuSupport,
    /// An error of a GPU or its driver, or a missing GPU.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(#[from] aleatron_device::Error),
    /// An error of the threads or SIMD tiers of the CPU.
    #[error(transparent)]
    Cpu(#[from] aleatron_cpu::Error),
}

/// The reason why an operation of linear algebra has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MatrixFault {
    /// The matrix is singular.
    Singular,
    /// The matrix is not positive definite.
    NotPositiveDefinite,
    /// The result has elements that the type cannot hold: the matrix is nearly singular.
    Overflow,
    /// An iterative algorithm did not converge.
    NoConvergence,
}

impl fmt::Display for MatrixFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Singular => "is singular",
            Self::NotPositiveDefinite => "is not positive definite",
            Self::Overflow => "has a result that the type of its elements cannot hold; use 64-bit floats or scale the matrix",
            Self::NoConvergence => "has no decomposition within the limit of iterations",
        })
    }
}

/// Returns the message of [`Error::Reshape`].
fn reshape_message(from: &[usize], to: &[usize]) -> String {
    let count =
        |shape: &[usize]| shape.iter().fold(1u128, |n, &size| n.saturating_mul(size as u128));
    match (count(from), count(to)) {
        (n, m) if n == m => {
            format!("cannot view a tensor of shape {from:?} as {to:?} without a copy; use reshape")
        }
        (n, m) => format!(
            "cannot reshape a tensor of shape {from:?} ({n} elements) into {to:?} ({m} elements)"
        ),
    }
}

/// The rank that an operation expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankNeeded {
    /// Exactly this rank.
    Exactly(usize),
    /// This rank or a higher one.
    AtLeast(usize),
}

impl fmt::Display for RankNeeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(rank) => rank.fmt(f),
            Self::AtLeast(rank) => write!(f, "{rank} or more"),
        }
    }
}

/// The error of a user-defined function. Clones refer to one error and are equal.
#[derive(Debug, Clone)]
pub struct CustomError(Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for CustomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for CustomError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl PartialEq for CustomError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl CustomError {
    /// Returns the error of the function, for a caller that knows its type.
    #[must_use]
    pub fn get(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }
}

/// Only a lack of memory reaches this crate from the core.
impl From<aleatron_core::Error> for Error {
    fn from(error: aleatron_core::Error) -> Self {
        match error {
            aleatron_core::Error::Memory { bytes, available, .. } => {
                Self::Memory { bytes, available }
            }
            other => Self::Cpu(other.into()),
        }
    }
}

impl Error {
    /// Returns whether memory ran out, of the host or of a GPU.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::Memory { .. } => true,
            #[cfg(feature = "gpu")]
            Self::Device(aleatron_device::Error::OutOfMemory { .. }) => true,
            _ => false,
        }
    }

    /// Wraps an error of a user-defined function, or a message.
    ///
    /// ```
    /// use aleatron_tensor::Error;
    /// let error = Error::custom("quantize", "the scale is 0, use a positive number");
    /// assert_eq!(error.to_string(), "quantize: the scale is 0, use a positive number");
    /// ```
    #[must_use]
    pub fn custom(
        function: &'static str,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Custom { function, error: CustomError(Arc::from(error.into())) }
    }

    /// Returns the error for a state that the code at `place` excludes.
    pub(crate) const fn internal(place: &'static str) -> Self {
        Self::Internal { place }
    }

    pub(crate) fn shapes(op: &'static str, left: &[usize], right: &[usize]) -> Self {
        Self::Shapes { op, left: left.to_vec(), right: right.to_vec() }
    }

    pub(crate) fn argument(
        op: &'static str,
        what: &'static str,
        value: impl fmt::Debug,
        expected: &'static str,
    ) -> Self {
        Self::Argument { op, what, value: format!("{value:?}"), expected }
    }
}
