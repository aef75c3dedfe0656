//! Devices on which layers run, and their names.

use crate::Error;
use std::fmt;
use std::str::FromStr;

/// The environment variable that selects the device for [`Device::Auto`]: any device as text.
pub const DEVICE_VARIABLE: &str = "ALEATRON_DEVICE";

/// The device on which a layer runs. It affects times only.
///
/// As text: `auto`, `cpu`, `gpu` for the default GPU, `gpu:1` for the adapter at that index of
/// `aleatron info`, `cuda` and `cuda:1` for NVIDIA GPUs through the CUDA driver, or several
/// separated by commas, which work as a pool.
///
/// ```
/// use aleatron_engine::Device;
/// assert_eq!("gpu:1".parse::<Device>()?, Device::Gpu(Some(1)));
/// assert_eq!("cuda".parse::<Device>()?, Device::Cuda(0));
/// let pool: Device = "gpu:0,gpu:1".parse()?;
/// assert_eq!(pool, Device::Pool(vec![Device::Gpu(Some(0)), Device::Gpu(Some(1))]));
/// assert_eq!(pool.to_string(), "gpu:0,gpu:1");
/// # Ok::<(), aleatron_engine::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Device {
    /// The fastest device, found by measuring each size once; the CPU if there is no other.
    /// Overridden by `ALEATRON_DEVICE`.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU at an index among the adapters, or else the one selected by `ALEATRON_GPU` or
    /// `SC_GPU_ADAPTER`, or else the most powerful one.
    Gpu(Option<usize>),
    /// The NVIDIA GPU at an index among those that its driver lists, with its one-bit tensor cores.
    Cuda(usize),
    /// Several devices, each of which gets a share of the work.
    Pool(Vec<Device>),
}

impl Device {
    /// Returns whether the weight streams of layers may be in host memory.
    #[must_use]
    pub const fn may_use_host_memory(&self) -> bool {
        matches!(self, Self::Auto | Self::Cpu)
    }

    /// Resolves `Auto` to the device of [`DEVICE_VARIABLE`], if set.
    ///
    /// # Errors
    /// Returns [`Error::UnknownDevice`] if the variable is not a device.
    pub fn resolved(&self) -> Result<Self, Error> {
        match (self, std::env::var(DEVICE_VARIABLE)) {
            (Self::Auto, Ok(name)) if !name.is_empty() => name.parse(),
            (device, _) => Ok(device.clone()),
        }
    }

    /// Returns whether a device other than the CPU may be used.
    #[must_use]
    pub fn may_use_accelerators(&self) -> bool {
        match self {
            Self::Cpu => false,
            Self::Auto | Self::Gpu(_) | Self::Cuda(_) => true,
            Self::Pool(devices) => devices.iter().any(Self::may_use_accelerators),
        }
    }

    fn read_one(text: &str) -> Option<Self> {
        let (kind, index) = match text.split_once(':') {
            Some((kind, index)) => (kind, Some(index.parse().ok()?)),
            None => (text, None),
        };
        match (kind, index) {
            ("auto", None) => Some(Self::Auto),
            ("cpu", None) => Some(Self::Cpu),
            ("gpu", index) => Some(Self::Gpu(index)),
            ("cuda", index) => Some(Self::Cuda(index.unwrap_or(0))),
            _ => None,
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(None) => f.write_str("gpu"),
            Self::Gpu(Some(index)) => write!(f, "gpu:{index}"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Pool(devices) => {
                let names: Vec<String> = devices.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fault = |name: &str| Error::UnknownDevice { name: name.to_owned() };
        let read = |part: &str| Self::read_one(part.trim()).ok_or_else(|| fault(part.trim()));
        let mut devices = text.split(',').map(read).collect::<Result<Vec<Self>, Error>>()?;
        match devices.len() {
            1 => Ok(devices.remove(0)),
            // "auto" selects among devices: it cannot be one of several.
            _ if devices.contains(&Self::Auto) => Err(fault(text)),
            _ => Ok(Self::Pool(devices)),
        }
    }
}
