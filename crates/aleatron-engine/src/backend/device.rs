//! Where a layer runs, as users say it.

use crate::Error;
use std::fmt;
use std::str::FromStr;

/// The environment variable that decides for [`Device::Auto`]: any device as text.
pub const DEVICE_VARIABLE: &str = "ALEATRON_DEVICE";

/// Where a layer should run. It changes times and nothing else.
///
/// As text: `auto`, `cpu`, `gpu` for the default GPU, `gpu:1` for the adapter at that place of
/// `aleatron info`, `cuda` and `cuda:1` for NVIDIA cards through their own driver, or several
/// separated by commas, which work as one.
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
    /// Wherever it is faster, found by measuring each size once; the CPU where there is nothing
    /// else. `ALEATRON_DEVICE` decides where it is set.
    #[default]
    Auto,
    /// On the CPU.
    Cpu,
    /// On the GPU at a place among the adapters, or else the one that `ALEATRON_GPU` or
    /// `SC_GPU_ADAPTER` names, or else the most powerful one.
    Gpu(Option<usize>),
    /// On the NVIDIA card at a place among those that its driver shows, with its one-bit tensor
    /// cores.
    Cuda(usize),
    /// On several devices, each of which gets a part of the work.
    Pool(Vec<Device>),
}

impl Device {
    /// Returns whether the weight streams of layers may lie in the memory of the host.
    #[must_use]
    pub const fn may_use_host_memory(&self) -> bool {
        matches!(self, Self::Auto | Self::Cpu)
    }

    /// This device; where it is `Auto`, the one that [`DEVICE_VARIABLE`] names, if any.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`] where the variable names none.
    pub fn resolved(&self) -> Result<Self, Error> {
        match (self, std::env::var(DEVICE_VARIABLE)) {
            (Self::Auto, Ok(name)) if !name.is_empty() => name.parse(),
            (device, _) => Ok(device.clone()),
        }
    }

    /// Whether a device other than the CPU may be used.
    #[must_use]
    pub fn may_use_accelerators(&self) -> bool {
        match self {
            Self::Cpu => false,
            Self::Auto | Self::Gpu(_) | Self::Cuda(_) => true,
            Self::Pool(devices) => devices.iter().any(Self::may_use_accelerators),
        }
    }

    fn read_one(text: &str) -> Option<Self> {
        let (kind, place) = match text.split_once(':') {
            Some((kind, place)) => (kind, Some(place.parse().ok()?)),
            None => (text, None),
        };
        match (kind, place) {
            ("auto", None) => Some(Self::Auto),
            ("cpu", None) => Some(Self::Cpu),
            ("gpu", place) => Some(Self::Gpu(place)),
            ("cuda", place) => Some(Self::Cuda(place.unwrap_or(0))),
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
            Self::Gpu(Some(place)) => write!(f, "gpu:{place}"),
            Self::Cuda(place) => write!(f, "cuda:{place}"),
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
            // "auto" chooses among devices: it cannot be one of several.
            _ if devices.contains(&Self::Auto) => Err(fault(text)),
            _ => Ok(Self::Pool(devices)),
        }
    }
}
