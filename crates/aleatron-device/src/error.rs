//! The error of this crate: what the device, the driver or the caller did.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::adapter::AdapterChoice;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A size a device limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// The bytes of one buffer.
    BufferBytes,
    /// The bytes of a buffer a kernel can see through one binding.
    BindingBytes,
    /// The workgroups of one dispatch.
    Workgroups,
    /// The bytes of parameters a kernel takes.
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

/// What a driver, or wgpu for it, reported. Its [source](std::error::Error::source) is the original
/// error.
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

/// Equal where the text is.
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

/// What owns a buffer, a pipeline, a profiler or a handle.
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

/// What went wrong on the way to, on, or back from a GPU.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No adapter fits the choice.
    #[error("{}", no_adapter(.wanted, .found))]
    NoAdapter {
        /// The adapter asked for.
        wanted: AdapterChoice,
        /// The adapters there are.
        found: Vec<String>,
    },
    /// The adapter would not open a device.
    #[error("{adapter}: no device: {source}")]
    Open {
        /// The adapter.
        adapter: String,
        /// What the driver said.
        source: DriverError,
    },
    /// The device lacks something this operation needs.
    #[error("{adapter} does not support {feature}")]
    Unsupported {
        /// The adapter.
        adapter: String,
        /// What is missing.
        feature: &'static str,
    },
    /// This process was forked from one that may have used drivers, which do not survive that.
    #[error("a GPU cannot be used in a forked process: start processes with the method \"spawn\"")]
    Forked,
    /// The device is gone; the next [`GpuContext::get`](crate::GpuContext::get) opens a new one.
    #[error("{adapter}: device lost: {reason}")]
    DeviceLost {
        /// The adapter.
        adapter: String,
        /// What the driver said.
        reason: String,
    },
    /// The device has no memory left for this.
    #[error("out of device memory: {source}")]
    OutOfMemory {
        /// What the driver said.
        source: DriverError,
    },
    /// The host has no memory left for a copy of this size.
    #[error("out of host memory: {bytes} bytes")]
    HostMemory {
        /// The bytes asked for.
        bytes: usize,
    },
    /// A command or a shader is not valid.
    #[error("invalid: {source}")]
    Validation {
        /// What is wrong with it.
        source: DriverError,
    },
    /// The driver failed.
    #[error("driver failure: {source}")]
    Driver {
        /// What it said.
        source: DriverError,
    },
    /// The device has finished its work, but a buffer that was to be mapped did not arrive.
    #[error("{adapter}: the device finished without answering")]
    Unanswered {
        /// The adapter.
        adapter: String,
    },
    /// A buffer could not be mapped to the host.
    #[error("buffer could not be mapped: {reason}")]
    Map {
        /// Why.
        reason: String,
    },
    /// Something is past what the device can take at once.
    #[error("{what}: {actual}, the device's most is {limit}")]
    TooLarge {
        /// What is too large.
        what: Limit,
        /// Its size.
        actual: u128,
        /// The largest size allowed.
        limit: u64,
    },
    /// A buffer, a pipeline, a profiler or a handle belongs to another device or another batch.
    #[error("{what} of {owner} used with {user}")]
    Foreign {
        /// What it is.
        what: &'static str,
        /// Whose it is.
        owner: Owner,
        /// Who was given it.
        user: Owner,
    },
    /// A read of a recording that was dropped, or is not yet submitted.
    #[error("the commands this read belongs to were not submitted")]
    NotSubmitted,
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
    /// A view begins where the device can bind none; see
    /// [`BufferView::aligned`](crate::BufferView::aligned).
    #[error(
        "a view at byte {offset} cannot be used here: offsets must be multiples of {alignment}"
    )]
    Unaligned {
        /// The byte the view begins at.
        offset: u64,
        /// The alignment needed.
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
    /// A view does not hold whole elements of the type it is read as.
    #[error("{bytes} bytes are not whole elements of {element} bytes")]
    ElementSize {
        /// The bytes of the view.
        bytes: u64,
        /// The bytes of an element.
        element: usize,
    },
    /// A state that this crate rules out was reached: a defect of the crate, not of its use.
    #[error(
        "internal error in aleatron-device, {place}: please report it with the call at https://github.com/aleatron/aleatron/issues"
    )]
    Internal {
        /// The place in the code.
        place: &'static str,
    },
    /// A kernel got other buffers or parameters than it declares.
    #[error("kernel {kernel} takes {expected} {what}, got {actual}")]
    Arguments {
        /// The kernel.
        kernel: Cow<'static, str>,
        /// What was counted.
        what: &'static str,
        /// As many as it declares.
        expected: usize,
        /// As many as were given.
        actual: usize,
    },
}

impl Error {
    /// The error wgpu reported. Not `From`: wgpu is no part of this crate's interface.
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
