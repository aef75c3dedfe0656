//! The error type of this crate: errors of the device, the streams or the caller.

use std::fmt;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A limit of stream kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// The number of 32-bit words of one row of streams.
    RowWords,
    /// The size in bytes of the smallest part of a row of streams that a kernel takes.
    StreamBytes,
    /// The size in bytes of the thresholds of one sample.
    ThresholdBytes,
    /// The size in bytes of the counts of one sample.
    CountBytes,
    /// The size in bytes of a table of counts, or of the integers of its sequences.
    TableBytes,
    /// The number of rows and units that a counter can address.
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

/// An error of streams on a device.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the device or its driver.
    #[error(transparent)]
    Device(#[from] aleatron_device::Error),
    /// Invalid arguments, before any GPU is involved.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
    /// A state that should be impossible was reached: a defect of this crate, not of its use.
    #[error(
        "internal error in aleatron-gpu, {place}: please report it with the call at https://github.com/aleatron/aleatron/issues"
    )]
    Internal {
        /// The location in the code.
        place: &'static str,
    },
    /// A size exceeds a limit of the device and cannot be split.
    #[error("{what}: {actual}, the device's maximum is {limit}")]
    TooLarge {
        /// The limit.
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

/// Converts a number of bytes or elements of a device to a size of the host, which can address all
/// memory it counts.
pub(crate) fn host_size(value: impl TryInto<usize>) -> usize {
    value.try_into().unwrap_or(usize::MAX)
}
