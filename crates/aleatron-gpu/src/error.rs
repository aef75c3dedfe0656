//! The error of this crate: what the device, the driver or the caller did.

use std::fmt;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A size a device limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// The bytes of one buffer.
    BufferBytes,
    /// The bytes of a buffer one kernel can see through one binding.
    BindingBytes,
    /// The workgroups of one dispatch.
    Workgroups,
    /// The bytes of parameters a kernel takes.
    ImmediateBytes,
    /// The 32-bit words of one row of streams.
    RowWords,
    /// The bytes of the thresholds of one sample.
    ThresholdBytes,
    /// The rows of samples a counter can name.
    Rows,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BufferBytes => "bytes of a buffer",
            Self::BindingBytes => "bytes of a storage binding",
            Self::Workgroups => "workgroups of a dispatch",
            Self::ImmediateBytes => "bytes of kernel parameters",
            Self::RowWords => "32-bit words of a row of streams",
            Self::ThresholdBytes => "bytes of the thresholds of a sample",
            Self::Rows => "rows of samples",
        })
    }
}

/// What went wrong on the way to, on, or back from a GPU.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No adapter fits the wish.
    #[error("{}", no_adapter(.wanted, .found))]
    NoAdapter {
        /// The name asked for; `None` for any hardware adapter.
        wanted: Option<String>,
        /// The adapters there are.
        found: Vec<String>,
    },
    /// The adapter would not open a device.
    #[error("{adapter}: no device: {message}")]
    Device {
        /// The adapter.
        adapter: String,
        /// What the driver said.
        message: String,
    },
    /// The device lacks something this operation needs.
    #[error("{adapter} does not support {feature}")]
    Unsupported {
        /// The adapter.
        adapter: String,
        /// What is missing.
        feature: &'static str,
    },
    /// The device is gone; a new one is opened on the next [`GpuContext::get`](crate::GpuContext::get).
    #[error("{adapter}: device lost: {message}")]
    DeviceLost {
        /// The adapter.
        adapter: String,
        /// What the driver said.
        message: String,
    },
    /// The device has no memory left for this.
    #[error("out of device memory: {message}")]
    OutOfMemory {
        /// What was asked for.
        message: String,
    },
    /// A command or a shader is not valid.
    #[error("invalid: {message}")]
    Validation {
        /// What is wrong with it.
        message: String,
    },
    /// The driver failed.
    #[error("driver failure: {message}")]
    Internal {
        /// What it said.
        message: String,
    },
    /// A buffer could not be mapped to the host.
    #[error("buffer could not be mapped: {message}")]
    Map {
        /// Why.
        message: String,
    },
    /// Something is past what the device can hold in one piece and cannot be split.
    #[error("{what}: {actual}, the device's most is {limit}")]
    TooLarge {
        /// What is too large.
        what: Limit,
        /// Its size.
        actual: u128,
        /// The largest size allowed.
        limit: u64,
    },
    /// A buffer belongs to another device or another batch.
    #[error("buffer of {owner} used with {user}")]
    ForeignBuffer {
        /// Whose it is.
        owner: String,
        /// Who was given it.
        user: String,
    },
    /// A range or a copy passes the end of a buffer.
    #[error("elements {start}..{end} of a buffer of {len}")]
    OutOfBounds {
        /// The first element.
        start: usize,
        /// One past the last element.
        end: usize,
        /// The elements there are.
        len: usize,
    },
    /// A kernel got other buffers or parameters than it declares.
    #[error("kernel {kernel} takes {expected} {what}, got {actual}")]
    Arguments {
        /// The kernel.
        kernel: &'static str,
        /// What was counted.
        what: &'static str,
        /// As many as it declares.
        expected: usize,
        /// As many as were given.
        actual: usize,
    },
    /// The arguments are wrong before any GPU is involved.
    #[error(transparent)]
    Core(#[from] aleatron_core::Error),
}

fn no_adapter(wanted: &Option<String>, found: &[String]) -> String {
    let wish = match wanted {
        Some(name) => format!("no GPU adapter matches \"{name}\""),
        None => "no hardware GPU adapter".to_owned(),
    };
    match found {
        [] => format!("{wish}: there is none (is a Vulkan, Metal or DirectX 12 driver installed?)"),
        found => format!("{wish}; there are: {}", found.join(", ")),
    }
}

impl From<wgpu::Error> for Error {
    fn from(error: wgpu::Error) -> Self {
        match error {
            wgpu::Error::OutOfMemory { source } => Self::OutOfMemory { message: source.to_string() },
            wgpu::Error::Validation { description, .. } => Self::Validation { message: description },
            wgpu::Error::Internal { description, .. } => Self::Internal { message: description },
        }
    }
}
