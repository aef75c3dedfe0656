//! The error type of this crate: errors of the device, the driver or the caller.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::adapter::AdapterChoice;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A limit of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// The size of a buffer in bytes.
    BufferBytes,
    /// The size of a binding in bytes.
    BindingBytes,
    /// The number of workgroups of a dispatch.
    Workgroups,
    /// The size of the parameters of a kernel in bytes.
    ImmediateBytes,
    /// A number that a kernel takes in 32 bits, by its name.
    Kernel(&'static str),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BufferBytes => "bytes of a buffer",
            Self::BindingBytes => "bytes of a storage binding",
            Self::Workgroups => "workgroups of a dispatch",
            Self::ImmediateBytes => "bytes of kernel parameters",
            Self::Kernel(what) => what,
        })
    }
}

/// An error reported by a driver, or by wgpu. Its [source](std::error::Error::source) is the
/// original error.
#[derive(Clone)]
pub struct DriverError {
    text: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync + 'static>>,
}

impl DriverError {
    pub(crate) fn new(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { text: source.to_string(), source: Some(Arc::new(source)) }
    }

    fn described(text: String, source: Box<dyn std::error::Error + Send + Sync + 'static>) -> Self {
        Self { text, source: Some(Arc::from(source)) }
    }
}

impl fmt::Debug for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DriverError").field(&self.text).finish()
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Equal if the texts are equal.
impl PartialEq for DriverError {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl std::error::Error for DriverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The owner of a buffer, a pipeline, a profiler or a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The context with this [id](crate::GpuContext::id).
    Context(u64),
    /// A command batch, numbered from 1 in this process.
    Batch(u64),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Context(id) => write!(f, "context {id}"),
            Self::Batch(id) => write!(f, "batch {id}"),
        }
    }
}

/// An error of a GPU, its driver or the caller.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No adapter matches the choice.
    #[error("{}", no_adapter(.wanted, .found))]
    NoAdapter {
        /// The requested adapter.
        wanted: AdapterChoice,
        /// The available adapters.
        found: Vec<String>,
    },
    /// The adapter could not open a device.
    #[error("{adapter}: no device: {source}")]
    Open {
        /// The adapter.
        adapter: String,
        /// The error of the driver.
        source: DriverError,
    },
    /// The device lacks a feature that the operation needs.
    #[error("{adapter} does not support {feature}")]
    Unsupported {
        /// The adapter.
        adapter: String,
        /// The missing feature.
        feature: &'static str,
    },
    /// This process was forked from one that may have used drivers, which do not survive a fork.
    #[error("a GPU cannot be used in a forked process: start processes with the method \"spawn\"")]
    Forked,
    /// The device is lost; the next [`GpuContext::get`](crate::GpuContext::get) opens a new one.
    #[error("{adapter}: device lost: {reason}")]
    DeviceLost {
        /// The adapter.
        adapter: String,
        /// The reason given by the driver.
        reason: String,
    },
    /// Device memory is exhausted.
    #[error("out of device memory: {source}")]
    OutOfMemory {
        /// The error of the driver.
        source: DriverError,
    },
    /// Host memory is exhausted for a copy of this size.
    #[error("out of host memory: {bytes} bytes")]
    HostMemory {
        /// The requested size in bytes.
        bytes: usize,
    },
    /// A command or a shader is not valid.
    #[error("invalid: {source}")]
    Validation {
        /// The error of the driver.
        source: DriverError,
    },
    /// The driver failed.
    #[error("driver failure: {source}")]
    Driver {
        /// The error of the driver.
        source: DriverError,
    },
    /// The device has finished its work, but a mapping did not complete.
    #[error("{adapter}: the device finished without completing a mapping")]
    Unanswered {
        /// The adapter.
        adapter: String,
    },
    /// A buffer could not be mapped to the host.
    #[error("buffer could not be mapped: {reason}")]
    Map {
        /// The reason.
        reason: String,
    },
    /// A size exceeds a limit of the device.
    #[error("{what}: {actual}, the device's maximum is {limit}")]
    TooLarge {
        /// The limit.
        what: Limit,
        /// Its size.
        actual: u128,
        /// The largest size allowed.
        limit: u64,
    },
    /// A buffer, a pipeline, a profiler or a handle belongs to another device or another batch.
    #[error("{what} of {owner} cannot be used with {user}")]
    Foreign {
        /// The kind of the object.
        what: &'static str,
        /// The owner.
        owner: Owner,
        /// The user.
        user: Owner,
    },
    /// A read of a recording that was dropped, or is not yet submitted.
    #[error("the commands this read belongs to were not submitted")]
    NotSubmitted,
    /// A range or a copy exceeds a buffer.
    #[error("elements {start}..{end} are out of bounds for a buffer of {len} elements")]
    OutOfBounds {
        /// The first element.
        start: usize,
        /// One past the last element.
        end: usize,
        /// The number of elements.
        len: usize,
    },
    /// A view begins at an offset that the device cannot bind; see
    /// [`BufferView::aligned`](crate::BufferView::aligned).
    #[error(
        "a view at byte {offset} cannot be used here: offsets must be multiples of {alignment}"
    )]
    Unaligned {
        /// The byte offset of the view.
        offset: u64,
        /// The required alignment.
        alignment: u64,
    },
    /// A view without elements was bound to a kernel.
    #[error("kernel {kernel}: binding {binding} is empty")]
    EmptyBinding {
        /// The kernel.
        kernel: Cow<'static, str>,
        /// The binding.
        binding: usize,
    },
    /// One buffer is bound twice, once to be read and once to be written.
    #[error("kernel {kernel}: bindings {} and {} are one buffer, which is both read and written", bindings[0], bindings[1])]
    Aliased {
        /// The kernel.
        kernel: Cow<'static, str>,
        /// The two bindings.
        bindings: [usize; 2],
    },
    /// A view does not hold whole elements of the requested type.
    #[error("{bytes} bytes are not whole elements of {element} bytes")]
    ElementSize {
        /// The bytes of the view.
        bytes: u64,
        /// The bytes of an element.
        element: usize,
    },
    /// A state that should be impossible was reached: a defect of this crate, not of its use.
    #[error(
        "internal error in aleatron-device, {place}: please report it with the call at https://github.com/aleatron/aleatron/issues"
    )]
    Internal {
        /// The location in the code.
        place: &'static str,
    },
    /// A kernel was given other buffers or parameters than it declares.
    #[error("kernel {kernel} takes {expected} {what}, got {actual}")]
    Arguments {
        /// The kernel.
        kernel: Cow<'static, str>,
        /// The counted quantity.
        what: &'static str,
        /// The declared number.
        expected: usize,
        /// The given number.
        actual: usize,
    },
}

impl Error {
    /// Converts an error of wgpu. Not `From`: wgpu is not part of this crate's interface.
    pub(crate) fn of(error: wgpu::Error) -> Self {
        match error {
            wgpu::Error::OutOfMemory { source } => {
                Self::OutOfMemory { source: DriverError::described(source.to_string(), source) }
            }
            wgpu::Error::Validation { source, description } => {
                Self::Validation { source: DriverError::described(description, source) }
            }
            wgpu::Error::Internal { source, description } => {
                Self::Driver { source: DriverError::described(description, source) }
            }
        }
    }
}

fn no_adapter(wanted: &AdapterChoice, found: &[String]) -> String {
    let wish = match wanted {
        AdapterChoice::Named(name) => format!("no GPU adapter matches \"{name}\""),
        AdapterChoice::Index(index) => format!("there is no GPU adapter {index}"),
        AdapterChoice::Strongest => "no hardware GPU adapter".to_owned(),
    };
    match found {
        [] => format!("{wish}: there is none (is a Vulkan, Metal or DirectX 12 driver installed?)"),
        found => format!("{wish}; there are: {}", found.join(", ")),
    }
}
