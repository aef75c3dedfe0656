//! The error of this crate: what the device, the streams or the caller did.

use std::fmt;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A size that stream kernels limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// The 32-bit words of one row of streams.
    RowWords,
    /// The bytes of the smallest part a kernel takes of a row of streams.
    StreamBytes,
    /// The bytes of the thresholds of one sample.
    ThresholdBytes,
    /// The bytes of the counts of one sample.
    CountBytes,
    /// The bytes of a table of counts, or of the integers of the sequences it is made of.
    TableBytes,
    /// The rows and units a counter can name.
    Rows,
    /// A number that kernels take as 32 bits.
    Number,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RowWords => "32-bit words of a row of streams",
            Self::StreamBytes => "bytes of streams in one binding",
            Self::ThresholdBytes => "bytes of the thresholds of a sample",
            Self::CountBytes => "bytes of the counts of a sample",
            Self::TableBytes => "bytes of a table of counts",
            Self::Rows => "rows of a counter",
            Self::Number => "a number of a kernel",
        })
    }
}

/// What went wrong with streams on a device.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device, its driver or the lack of one.
    #[error(transparent)]
    Device(#[from] aleatron_device::Error),
    /// The arguments are wrong before any GPU is involved.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// A state that this crate rules out was reached: a defect of the crate, not of its use.
    #[error(
        "internal error in aleatron-gpu, {place}: please report it with the call at https://github.com/aleatron/aleatron/issues"
    )]
    Internal {
        /// The place in the code.
        place: &'static str,
    },
    /// Something is past what the device can hold at once and cannot be split.
    #[error("{what}: {actual}, the device's most is {limit}")]
    TooLarge {
        /// What is too large.
        what: Limit,
        /// Its size.
        actual: u128,
        /// The largest size allowed.
        limit: u64,
    },
}

impl From<Error> for aleatron_core::Error {
    fn from(error: Error) -> Self {
        use aleatron_core::BackendFault::{Failed, Lost, OutOfMemory, Unavailable, Unsupported};
        use aleatron_device::Error as DeviceError;
        let fault = match &error {
            Error::Core(error) => return error.clone(),
            Error::TooLarge { .. } => Unsupported,
            Error::Internal { .. } => Failed,
            Error::Device(error) => match error {
                DeviceError::NoAdapter { .. }
                | DeviceError::Open { .. }
                | DeviceError::Unsupported { .. } => Unavailable,
                DeviceError::OutOfMemory { .. } => OutOfMemory,
                DeviceError::DeviceLost { .. } => Lost,
                _ => Failed,
            },
        };
        Self::Backend { backend: "gpu".to_owned(), fault, message: error.to_string() }
    }
}

/// Converts a number of bytes or elements of a device that the host is to have room for. The host
/// counts all memory that it can name.
pub(crate) fn host_size(value: impl TryInto<usize>) -> usize {
    value.try_into().unwrap_or(usize::MAX)
}
