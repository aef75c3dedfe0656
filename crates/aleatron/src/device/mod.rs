//! Where a layer runs: on the CPU, on a GPU, or wherever it was measured to be faster. Never what it computes.
//!
//! [`DeviceLayer`] is a dense layer with a [`Device`]; `GpuDenseLayer` is one that stays on a GPU; `placement` measures and
//! remembers which side wins.

#[cfg(feature = "gpu")]
mod gpu;
mod layer;
#[cfg(feature = "gpu")]
pub mod placement;
#[cfg(feature = "gpu")]
mod sequence;

#[cfg(feature = "gpu")]
pub use gpu::{DEFAULT_MAX_BATCH, GpuDenseLayer};
pub use layer::DeviceLayer;
#[cfg(feature = "gpu")]
pub(crate) use sequence::SequenceTwin;

use std::fmt;
use std::str::FromStr;

/// The environment variable that decides for [`Device::Auto`]: `cpu`, `gpu` or `auto`.
pub const DEVICE_VARIABLE: &str = "ALEATRON_DEVICE";

/// Where a layer should run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Device {
    /// Wherever it is faster, found by measuring each size once; the CPU where there is no GPU.
    #[default]
    Auto,
    /// On the CPU.
    Cpu,
    /// On the GPU, or not at all.
    Gpu,
}

impl Device {
    /// Its name, as [`Device::from_str`] takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        }
    }

    /// This device, where it is `Auto` as [`DEVICE_VARIABLE`] decides.
    pub(crate) fn resolved(self) -> crate::Result<Self> {
        match (self, std::env::var(DEVICE_VARIABLE)) {
            (Self::Auto, Ok(name)) if !name.is_empty() => name.parse(),
            (device, _) => Ok(device),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Device {
    type Err = crate::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let all = [Self::Auto, Self::Cpu, Self::Gpu];
        let found = all.into_iter().find(|device| device.name() == name);
        found.ok_or_else(|| crate::Error::UnknownDevice { name: name.to_owned() })
    }
}
