//! The adapters of this machine and how one is chosen.
//!
//! `SC_GPU_ADAPTER` names one by a case-insensitive part of its name; else the most powerful hardware adapter is
//! taken. A software adapter shows that results are right, never how fast a GPU is: it is taken only when named.

use std::fmt;
use std::sync::OnceLock;

use crate::error::{Error, Result};

/// The environment variable that names the adapter.
pub const ADAPTER_VARIABLE: &str = "SC_GPU_ADAPTER";

/// What kind of processor an adapter is, the least powerful first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A driver that computes on the CPU.
    Software,
    /// Of unknown kind.
    Other,
    /// A GPU passed to a virtual machine.
    Virtual,
    /// A GPU that shares the CPU's memory.
    Integrated,
    /// A GPU with its own memory.
    Discrete,
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Software => "software",
            Self::Other => "other",
            Self::Virtual => "virtual",
            Self::Integrated => "integrated",
            Self::Discrete => "discrete",
        })
    }
}

/// The optional abilities of a device. Kernels use those present; without them they give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// The host reads and writes buffers of kernels in place.
    pub mapped_buffers: bool,
    /// Kernels can be timed.
    pub timestamps: bool,
    /// 64-bit integers in shaders.
    pub int64: bool,
    /// Operations across the lanes of a subgroup.
    pub subgroups: bool,
    /// 16-bit floats in shaders.
    pub float16: bool,
}

impl Capabilities {
    /// Everything.
    pub const ALL: Self =
        Self { mapped_buffers: true, timestamps: true, int64: true, subgroups: true, float16: true };

    /// Nothing optional: the path every device has.
    pub const NONE: Self =
        Self { mapped_buffers: false, timestamps: false, int64: false, subgroups: false, float16: false };

    /// What both have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            mapped_buffers: self.mapped_buffers && other.mapped_buffers,
            timestamps: self.timestamps && other.timestamps,
            int64: self.int64 && other.int64,
            subgroups: self.subgroups && other.subgroups,
            float16: self.float16 && other.float16,
        }
    }

    const FEATURES: [wgpu::Features; 5] = [
        wgpu::Features::MAPPABLE_PRIMARY_BUFFERS,
        wgpu::Features::TIMESTAMP_QUERY,
        wgpu::Features::SHADER_INT64,
        wgpu::Features::SUBGROUP,
        wgpu::Features::SHADER_F16,
    ];

    pub(crate) fn of(features: wgpu::Features) -> Self {
        let [mapped_buffers, timestamps, int64, subgroups, float16] =
            Self::FEATURES.map(|f| features.contains(f));
        Self { mapped_buffers, timestamps, int64, subgroups, float16 }
    }

    pub(crate) fn features(self) -> wgpu::Features {
        let flags = [self.mapped_buffers, self.timestamps, self.int64, self.subgroups, self.float16];
        let on = Self::FEATURES.into_iter().zip(flags).filter(|(_, on)| *on);
        on.fold(wgpu::Features::empty(), |all, (feature, _)| all | feature)
    }
}

/// What an adapter is and can do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdapterInfo {
    /// Its name.
    pub name: String,
    /// The graphics interface it is reached through.
    pub backend: String,
    /// Its kind.
    pub kind: AdapterKind,
    /// Its driver.
    pub driver: String,
    /// The driver's version.
    pub driver_info: String,
    /// The bytes of its largest buffer.
    pub max_buffer_bytes: u64,
    /// The bytes a kernel sees through one binding.
    pub max_binding_bytes: u64,
    /// The workgroups of a dispatch in one dimension.
    pub max_workgroups: u32,
    /// The bytes of memory a workgroup shares.
    pub workgroup_bytes: u32,
    /// The fewest and the most lanes of a subgroup.
    pub subgroup_lanes: [u32; 2],
    /// The optional abilities.
    pub capabilities: Capabilities,
}

impl AdapterInfo {
    fn of(adapter: &wgpu::Adapter) -> Self {
        let (info, limits) = (adapter.get_info(), adapter.limits());
        Self {
            name: info.name,
            backend: info.backend.to_string(),
            kind: match info.device_type {
                wgpu::DeviceType::Cpu => AdapterKind::Software,
                wgpu::DeviceType::Other => AdapterKind::Other,
                wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
                wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
                wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
            },
            driver: info.driver,
            driver_info: info.driver_info,
            max_buffer_bytes: limits.max_buffer_size,
            max_binding_bytes: limits.max_storage_buffer_binding_size,
            max_workgroups: limits.max_compute_workgroups_per_dimension,
            workgroup_bytes: limits.max_compute_workgroup_storage_size,
            subgroup_lanes: [info.subgroup_min_size, info.subgroup_max_size],
            capabilities: Capabilities::of(adapter.features()),
        }
    }
}

impl fmt::Display for AdapterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {}, {})", self.name, self.kind, self.backend, self.driver_info)
    }
}

/// Which adapter to use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AdapterChoice {
    /// The most powerful hardware adapter.
    Strongest,
    /// The first adapter with this text in its name, in any case.
    Named(String),
}

impl AdapterChoice {
    /// What the environment asks for.
    #[must_use]
    pub fn from_env() -> Self {
        match std::env::var(ADAPTER_VARIABLE) {
            Ok(name) if !name.is_empty() => Self::Named(name),
            _ => Self::Strongest,
        }
    }

    /// The adapter with this text in its name.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self::Named(name.into())
    }
}

pub(crate) struct Adapter {
    pub(crate) raw: wgpu::Adapter,
    pub(crate) info: AdapterInfo,
}

/// Enumerated once: loading drivers takes tens of milliseconds and adapters do not come and go.
fn all() -> &'static [Adapter] {
    static ADAPTERS: OnceLock<Vec<Adapter>> = OnceLock::new();
    ADAPTERS.get_or_init(|| {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            // Not OpenGL: it shows the same GPUs again, and looks for a display where there may be none.
            backends: wgpu::Backends::PRIMARY,
            flags: wgpu::InstanceFlags::empty().with_env(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        let raw = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
        raw.into_iter().map(|raw| Adapter { info: AdapterInfo::of(&raw), raw }).collect()
    })
}

/// The adapters of this machine.
#[must_use]
pub fn adapters() -> Vec<AdapterInfo> {
    all().iter().map(|adapter| adapter.info.clone()).collect()
}

/// The index of the adapter chosen.
fn index_of(choice: &AdapterChoice, infos: &[&AdapterInfo]) -> Result<usize> {
    let (wanted, found) = match choice {
        AdapterChoice::Named(name) => {
            let part = name.to_lowercase();
            (Some(name), infos.iter().position(|info| info.name.to_lowercase().contains(&part)))
        }
        AdapterChoice::Strongest => {
            let hardware = infos.iter().enumerate().filter(|(_, info)| info.kind > AdapterKind::Software);
            // `max_by_key` takes the last of equals; the first is what drivers list as their main device.
            (None, hardware.rev().max_by_key(|(_, info)| info.kind).map(|(index, _)| index))
        }
    };
    found.ok_or_else(|| Error::NoAdapter {
        wanted: wanted.cloned(),
        found: infos.iter().map(ToString::to_string).collect(),
    })
}

/// The adapter chosen and its index.
pub(crate) fn choose(choice: &AdapterChoice) -> Result<(usize, &'static Adapter)> {
    let infos: Vec<&AdapterInfo> = all().iter().map(|adapter| &adapter.info).collect();
    let index = index_of(choice, &infos)?;
    Ok((index, &all()[index]))
}

/// What the adapter chosen is, without opening a device on it.
///
/// # Errors
/// [`Error::NoAdapter`], with the adapters there are.
pub fn find(choice: &AdapterChoice) -> Result<AdapterInfo> {
    choose(choice).map(|(_, adapter)| adapter.info.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, kind: AdapterKind) -> AdapterInfo {
        AdapterInfo {
            name: name.into(),
            backend: "vulkan".into(),
            kind,
            driver: String::new(),
            driver_info: "1.0".into(),
            max_buffer_bytes: 1,
            max_binding_bytes: 1,
            max_workgroups: 1,
            workgroup_bytes: 1,
            subgroup_lanes: [1, 1],
            capabilities: Capabilities::NONE,
        }
    }

    #[test]
    fn the_strongest_hardware_is_chosen_and_software_only_by_name() {
        use AdapterKind::{Discrete, Integrated, Software, Virtual};
        let infos = [
            info("llvmpipe", Software),
            info("Small", Integrated),
            info("Big One", Discrete),
            info("Big Two", Discrete),
            info("Cloud", Virtual),
        ];
        let pick =
            |n: usize, choice: &AdapterChoice| index_of(choice, &infos.iter().take(n).collect::<Vec<_>>());
        assert_eq!(pick(5, &AdapterChoice::Strongest), Ok(2));
        assert_eq!(pick(2, &AdapterChoice::Strongest), Ok(1));
        assert_eq!(pick(5, &AdapterChoice::named("BIG t")), Ok(3));
        assert_eq!(pick(5, &AdapterChoice::named("LLVM")), Ok(0));
        let none = pick(1, &AdapterChoice::Strongest).unwrap_err().to_string();
        assert_eq!(none, "no hardware GPU adapter; there are: llvmpipe (software, vulkan, 1.0)");
        let other = pick(1, &AdapterChoice::named("Radeon")).unwrap_err().to_string();
        assert_eq!(other, "no GPU adapter matches \"Radeon\"; there are: llvmpipe (software, vulkan, 1.0)");
        let empty = pick(0, &AdapterChoice::Strongest).unwrap_err().to_string();
        assert!(empty.starts_with("no hardware GPU adapter: there is none"), "{empty}");
    }

    #[test]
    fn capabilities_and_features_are_one_list() {
        assert_eq!(Capabilities::of(Capabilities::ALL.features()), Capabilities::ALL);
        assert_eq!(Capabilities::NONE.features(), wgpu::Features::empty());
        let only = Capabilities { int64: true, ..Capabilities::NONE };
        assert_eq!(only.features(), wgpu::Features::SHADER_INT64);
    }
}
