//! The error of this crate: what the driver, the card, the streams or the caller did.

use std::fmt;

use aleatron_core::BackendFault;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The oldest driver that can be used, as it counts versions: that of CUDA 12.0.
pub const OLDEST_DRIVER: u32 = 12_000;

/// The oldest card that can be used, as (major, minor): the first with one-bit tensor cores that
/// multiply by AND.
pub const OLDEST_CAPABILITY: (u32, u32) = (8, 0);

/// A size that kernels limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Streams of one row.
    Units,
    /// 32-bit words of one stream.
    StreamWords,
    /// The rows and units a counter can name.
    Rows,
    /// The blocks of one launch.
    Blocks,
    /// Bits of all products of a neuron, where values are asked for on the device.
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

/// What went wrong with streams on an NVIDIA card.
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
        /// Its version, 1000 times the major number and 10 times the minor.
        version: u32,
    },
    /// The driver lacks a function.
    #[error("the CUDA driver has no function {symbol}: update it")]
    NoSymbol {
        /// The function.
        symbol: &'static str,
    },
    /// The driver sees no card.
    #[error("the CUDA driver finds no card")]
    NoDevice,
    /// There is no card at this place.
    #[error("there is no cuda:{index}: the cards are {}", places(*count))]
    UnknownDevice {
        /// The place asked for.
        index: usize,
        /// The cards there are.
        count: usize,
    },
    /// The card is too old.
    #[error("{name} has compute capability {}.{}, but {}.{} is needed", capability.0, capability.1, OLDEST_CAPABILITY.0,
        OLDEST_CAPABILITY.1)]
    OldDevice {
        /// The card.
        name: String,
        /// Its compute capability, major and minor.
        capability: (u32, u32),
    },
    /// The card has no memory left for this.
    #[error("{bytes} bytes do not fit the memory of the card, of which {free} are free")]
    OutOfMemory {
        /// The bytes asked for.
        bytes: u128,
        /// The bytes free at the time.
        free: u64,
    },
    /// Work on the card failed in a way that leaves nothing of it in use.
    #[error("the card was lost: {message}")]
    Lost {
        /// What the driver said.
        message: String,
    },
    /// Something is past what kernels count with and cannot be split.
    #[error("{what}: {actual}, the most is {limit}")]
    TooLarge {
        /// What is too large.
        what: Limit,
        /// Its size.
        actual: u128,
        /// The largest size allowed.
        limit: u128,
    },
    /// A kernel would reach past the memory it was given. This is a fault of this crate.
    #[error("a kernel needs {needed} bytes of a buffer of {bytes}")]
    OutOfBounds {
        /// The bytes the kernel would reach.
        needed: u128,
        /// The bytes there are.
        bytes: u64,
    },
    /// A state that this crate rules out was reached: a defect of the crate, not of its use.
    #[error(
        "internal error in aleatron-cuda, {place}: please report it with the call at https://github.com/aleatron/aleatron/issues"
    )]
    Internal {
        /// The place in the code.
        place: &'static str,
    },
    /// An array cannot be used as it is.
    #[error("{0}")]
    Array(String),
    /// The arguments are wrong before any card is involved.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// The driver refused something.
    #[error("{call}: {name} ({code})")]
    Driver {
        /// What was asked of it.
        call: &'static str,
        /// Its answer as a number.
        code: i32,
        /// Its answer as a name.
        name: String,
    },
}

/// `cuda:0 to cuda:3`, `cuda:0 alone`.
fn places(count: usize) -> String {
    match count {
        0 => "none".to_owned(),
        1 => "cuda:0 alone".to_owned(),
        n => format!("cuda:0 to cuda:{}", n - 1),
    }
}

impl Error {
    /// What kind of fault of a backend this is.
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
