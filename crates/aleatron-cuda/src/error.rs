//! The error type of this crate: errors of the driver, the GPU, the streams or the caller.

use std::fmt;

use aleatron_core::BackendFault;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The oldest supported driver, as version number: that of CUDA 12.0.
pub const OLDEST_DRIVER: u32 = 12_000;

/// The oldest supported GPU, as (major, minor): the first with one-bit tensor cores that multiply
/// by AND.
pub const OLDEST_CAPABILITY: (u32, u32) = (8, 0);

/// A limit of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// The number of streams of one row.
    Units,
    /// The number of 32-bit words of one stream.
    StreamWords,
    /// The number of rows and units that a counter can address.
    Rows,
    /// The number of blocks of one launch.
    Blocks,
    /// The bits of all products of a neuron, for values computed on the device.
    Products,
    /// A number that kernels take in 32 bits, by its name.
    Kernel(&'static str),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Units => "streams of a row",
            Self::StreamWords => "words of a stream",
            Self::Rows => "rows of a counter",
            Self::Blocks => "blocks of a launch",
            Self::Products => "bits of all products of a neuron",
            Self::Kernel(what) => what,
        })
    }
}

/// An error of streams on an NVIDIA GPU.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The driver is not installed.
    #[error("there is no CUDA driver: its library (libcuda.so.1 or nvcuda.dll) cannot be loaded")]
    NoLibrary,
    /// The driver is too old.
    #[error("the CUDA driver is of version {}.{}, but {}.{} is needed: update it", version / 1000, version % 1000 / 10,
        OLDEST_DRIVER / 1000, OLDEST_DRIVER % 1000 / 10)]
    OldDriver {
        /// The version, 1000 times the major number and 10 times the minor.
        version: u32,
    },
    /// The driver lacks a function.
    #[error("the CUDA driver has no function {symbol}: update it")]
    NoSymbol {
        /// The function.
        symbol: &'static str,
    },
    /// The driver finds no GPU.
    #[error("the CUDA driver finds no card")]
    NoDevice,
    /// There is no GPU at this index.
    #[error("there is no cuda:{index}: the cards are {}", index_range(*count))]
    UnknownDevice {
        /// The requested index.
        index: usize,
        /// The number of GPUs.
        count: usize,
    },
    /// The GPU is too old.
    #[error("{name} has compute capability {}.{}, but {}.{} is needed", capability.0, capability.1, OLDEST_CAPABILITY.0,
        OLDEST_CAPABILITY.1)]
    OldDevice {
        /// The name of the GPU.
        name: String,
        /// Its compute capability, major and minor.
        capability: (u32, u32),
    },
    /// Device memory is exhausted.
    #[error("{bytes} bytes do not fit the memory of the card, of which {free} are free")]
    OutOfMemory {
        /// The requested size in bytes.
        bytes: u128,
        /// The free memory in bytes.
        free: u64,
    },
    /// Work on the GPU failed in a way that invalidates all its state.
    #[error("the card was lost: {message}")]
    Lost {
        /// The message of the driver.
        message: String,
    },
    /// A size exceeds a limit of kernels and cannot be split.
    #[error("{what}: {actual}, the maximum is {limit}")]
    TooLarge {
        /// The limit.
        what: Limit,
        /// Its size.
        actual: u128,
        /// The largest size allowed.
        limit: u128,
    },
    /// A kernel would access memory outside of its buffer. This is a defect of this crate.
    #[error("a kernel needs {needed} bytes of a buffer of {bytes}")]
    OutOfBounds {
        /// The bytes that the kernel would access.
        needed: u128,
        /// The size of the buffer in bytes.
        bytes: u64,
    },
    /// A state that should be impossible was reached: a defect of this crate, not of its use.
    #[error(
        "internal error in aleatron-cuda, {place}: please report it with the call at https://github.com/aleatron/aleatron/issues"
    )]
    Internal {
        /// The location in the code.
        place: &'static str,
    },
    /// An array is not usable.
    #[error("{0}")]
    Array(String),
    /// Invalid arguments, before any GPU is involved.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// A call of the driver failed.
    #[error("{call}: {name} ({code})")]
    Driver {
        /// The function of the driver.
        call: &'static str,
        /// The result as a number.
        code: i32,
        /// The result as a name.
        name: String,
    },
}

/// Formats `cuda:0 to cuda:3`, `cuda:0 alone`.
fn index_range(count: usize) -> String {
    match count {
        0 => "none".to_owned(),
        1 => "cuda:0 alone".to_owned(),
        n => format!("cuda:0 to cuda:{}", n - 1),
    }
}

impl Error {
    /// Returns the kind of backend error.
    #[must_use]
    pub const fn fault(&self) -> BackendFault {
        match self {
            Self::NoLibrary
            | Self::OldDriver { .. }
            | Self::NoSymbol { .. }
            | Self::NoDevice
            | Self::UnknownDevice { .. }
            | Self::OldDevice { .. } => BackendFault::Unavailable,
            Self::TooLarge { .. } => BackendFault::Unsupported,
            Self::OutOfMemory { .. } => BackendFault::OutOfMemory,
            Self::Lost { .. } => BackendFault::Lost,
            _ => BackendFault::Failed,
        }
    }
}

impl From<Error> for aleatron_core::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Core(error) => error,
            error => {
                let (backend, fault) = ("cuda".to_owned(), error.fault());
                Self::Backend { backend, fault, message: error.to_string() }
            }
        }
    }
}

impl From<aleatron_cpu::Error> for Error {
    fn from(error: aleatron_cpu::Error) -> Self {
        Self::Core(error.into())
    }
}
