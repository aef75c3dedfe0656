//! The adapters of this machine, and the selection of one.
//!
//! An adapter has an index, its position in [`adapters`]: two equal cards have one name and two
//! indices. The environment variable [`GPU_VARIABLE`] selects an adapter by its index or by a part
//! of its name; [`ADAPTER_VARIABLE`], by a part of its name. Otherwise the most powerful hardware
//! adapter is selected. A software adapter shows that results are right, never how fast a GPU is:
//! it is used only on request.

use std::fmt;
use std::sync::OnceLock;

use crate::capability::{Capabilities, CooperativeMatrix};
use crate::error::{Error, Result};
use crate::fork;

/// The environment variable that selects the adapter: its index, or a part of its name in any case.
/// It takes precedence if both variables are set.
pub const GPU_VARIABLE: &str = "ALEATRON_GPU";

/// The environment variable that selects the adapter by a part of its name in any case.
pub const ADAPTER_VARIABLE: &str = "SC_GPU_ADAPTER";

/// The kind of an adapter, least powerful first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A driver that computes on the CPU.
    Software,
    /// An unknown kind.
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

/// The properties and limits of an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdapterInfo {
    /// The index in [`adapters`]. For an imported device of an application: the index of the first
    /// adapter that looks the same, or the number of adapters if none does.
    pub index: usize,
    /// The name, which equal cards share.
    pub name: String,
    /// The graphics interface of the adapter.
    pub backend: String,
    /// Its kind.
    pub kind: AdapterKind,
    /// The vendor ID: with most interfaces that of its PCI device.
    pub vendor_id: u32,
    /// The device ID: with most interfaces that of its PCI device.
    pub device_id: u32,
    /// The PCI bus ID, such as `0000:01:00.0`, if the driver reports it.
    pub pci_bus_id: Option<String>,
    /// Its driver.
    pub driver: String,
    /// The driver's version.
    pub driver_info: String,
    /// The size of the largest buffer in bytes.
    pub max_buffer_bytes: u64,
    /// The size of the largest binding in bytes.
    pub max_binding_bytes: u64,
    /// The number of storage buffers of one kernel.
    pub max_bindings: u32,
    /// The alignment of offsets of bindings.
    pub binding_alignment: u32,
    /// The size of the parameters of one kernel in bytes.
    pub max_immediate_bytes: u32,
    /// The number of workgroups of a dispatch in one dimension.
    pub max_workgroups: u32,
    /// The number of threads of a workgroup.
    pub max_workgroup_threads: u32,
    /// The shared memory of a workgroup in bytes.
    pub workgroup_bytes: u32,
    /// The least and the largest number of lanes of a subgroup.
    pub subgroup_lanes: [u32; 2],
    /// The optional capabilities.
    pub capabilities: Capabilities,
    /// The supported products of subgroups; none without
    /// [`cooperative_matrices`](Capabilities::cooperative_matrices).
    pub cooperative_matrices: Vec<CooperativeMatrix>,
}

impl AdapterInfo {
    pub(crate) fn of(
        index: usize,
        adapter: &wgpu::Adapter,
        limits: &wgpu::Limits,
        features: wgpu::Features,
    ) -> Self {
        let info = adapter.get_info();
        Self {
            index,
            name: info.name,
            backend: info.backend.to_string(),
            kind: match info.device_type {
                wgpu::DeviceType::Cpu => AdapterKind::Software,
                wgpu::DeviceType::Other => AdapterKind::Other,
                wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
                wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
                wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
            },
            vendor_id: info.vendor,
            device_id: info.device,
            pci_bus_id: Some(info.device_pci_bus_id).filter(|id| !id.is_empty()),
            driver: info.driver,
            driver_info: info.driver_info,
            max_buffer_bytes: limits.max_buffer_size,
            max_binding_bytes: limits.max_storage_buffer_binding_size,
            max_bindings: limits.max_storage_buffers_per_shader_stage,
            binding_alignment: limits.min_storage_buffer_offset_alignment,
            max_immediate_bytes: limits.max_immediate_size,
            max_workgroups: limits.max_compute_workgroups_per_dimension,
            max_workgroup_threads: limits.max_compute_invocations_per_workgroup,
            workgroup_bytes: limits.max_compute_workgroup_storage_size,
            subgroup_lanes: [info.subgroup_min_size, info.subgroup_max_size],
            capabilities: Capabilities::of(features),
            cooperative_matrices: adapter
                .cooperative_matrix_properties()
                .iter()
                .map(CooperativeMatrix::of)
                .collect(),
        }
    }

    /// Returns whether both are the same adapter as far as drivers report.
    #[cfg(feature = "raw")]
    pub(crate) fn looks_like(&self, other: &Self) -> bool {
        let identity = |info: &Self| {
            (
                info.name.clone(),
                info.backend.clone(),
                info.vendor_id,
                info.device_id,
                info.pci_bus_id.clone(),
            )
        };
        identity(self) == identity(other)
    }
}

impl fmt::Display for AdapterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, name, kind, backend, driver_info, .. } = self;
        write!(f, "{index}: {name} ({kind}, {backend}, {driver_info})")
    }
}

/// The adapter to use.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AdapterChoice {
    /// The most powerful hardware adapter.
    Strongest,
    /// The first adapter with this text in its name, in any case.
    Named(String),
    /// The adapter at this index in [`adapters`].
    Index(usize),
}

impl AdapterChoice {
    /// Returns the choice of the environment variables.
    #[must_use]
    pub fn from_env() -> Self {
        let variable = |name| std::env::var(name).ok();
        Self::from_variables(
            variable(GPU_VARIABLE).as_deref(),
            variable(ADAPTER_VARIABLE).as_deref(),
        )
    }

    fn from_variables(gpu: Option<&str>, adapter: Option<&str>) -> Self {
        let set = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        match (set(gpu), set(adapter)) {
            (Some(text), _) => Self::parse(&text),
            (None, Some(name)) => Self::Named(name),
            (None, None) => Self::Strongest,
        }
    }

    /// Parses a user's choice: an index if the text is a number, otherwise a part of the name.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.trim().parse().map_or_else(|_| Self::named(text), Self::Index)
    }

    /// Selects the adapter with this text in its name.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self::Named(name.into())
    }
}

pub(crate) struct Adapter {
    pub(crate) raw: wgpu::Adapter,
    pub(crate) info: AdapterInfo,
}

/// Returns all adapters, enumerated once: loading drivers takes tens of milliseconds and adapters
/// do not change.
fn all() -> &'static [Adapter] {
    static ADAPTERS: OnceLock<Vec<Adapter>> = OnceLock::new();
    ADAPTERS.get_or_init(|| {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            // Not OpenGL: it lists the same GPUs again, and looks for a display that may not exist.
            backends: wgpu::Backends::PRIMARY,
            flags: wgpu::InstanceFlags::empty().with_env(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        let found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
        let adapter = |(index, raw): (usize, wgpu::Adapter)| {
            let info = AdapterInfo::of(index, &raw, &raw.limits(), raw.features());
            Adapter { raw, info }
        };
        found.into_iter().enumerate().map(adapter).collect()
    })
}

/// Returns false if the system has no sign of a GPU: then there is no hardware adapter, and no
/// driver needs to be loaded.
#[must_use]
pub fn may_have_hardware() -> bool {
    #[cfg(target_os = "linux")]
    {
        std::fs::read_dir("/dev").map_or(true, |entries| {
            entries.flatten().any(|entry| entry.file_name().to_str().is_some_and(is_gpu_node))
        })
    }
    #[cfg(not(target_os = "linux"))]
    true
}

/// Returns whether a name below `/dev` is that of a GPU: NVIDIA's, Mesa's, that of Windows' Linux
/// subsystem, Qualcomm's.
#[cfg(target_os = "linux")]
fn is_gpu_node(name: &str) -> bool {
    name.starts_with("nvidia") || name == "dri" || name == "dxg" || name.starts_with("kgsl")
}

/// Returns the adapters of this machine, in order of their indices; none in a forked process.
#[must_use]
pub fn adapters() -> Vec<AdapterInfo> {
    if fork::is_forked() {
        return Vec::new();
    }
    all().iter().map(|adapter| adapter.info.clone()).collect()
}

/// Returns the hardware adapters of this machine, each card once: if several graphics interfaces
/// list it, with the interface of the strongest adapter.
#[must_use]
pub fn hardware_adapters() -> Vec<AdapterInfo> {
    each_card_once(&adapters())
}

fn each_card_once(infos: &[AdapterInfo]) -> Vec<AdapterInfo> {
    let Ok(strongest) = index_of(&AdapterChoice::Strongest, &infos.iter().collect::<Vec<_>>())
    else {
        return Vec::new();
    };
    let backend = &infos[strongest].backend;
    let hardware =
        |info: &&AdapterInfo| info.kind > AdapterKind::Software && info.backend == *backend;
    infos.iter().filter(hardware).cloned().collect()
}

/// Returns the index of the selected adapter.
fn index_of(choice: &AdapterChoice, infos: &[&AdapterInfo]) -> Result<usize> {
    let found = match choice {
        AdapterChoice::Named(name) => {
            let part = name.to_lowercase();
            infos.iter().position(|info| info.name.to_lowercase().contains(&part))
        }
        AdapterChoice::Index(index) => Some(*index).filter(|&index| index < infos.len()),
        AdapterChoice::Strongest => {
            let hardware =
                infos.iter().enumerate().filter(|(_, info)| info.kind > AdapterKind::Software);
            // `max_by_key` returns the last of equals; the first is what drivers list as their main
            // device.
            hardware.rev().max_by_key(|(_, info)| info.kind).map(|(index, _)| index)
        }
    };
    found.ok_or_else(|| Error::NoAdapter {
        wanted: choice.clone(),
        found: infos.iter().map(ToString::to_string).collect(),
    })
}

/// Returns the selected adapter.
pub(crate) fn choose(choice: &AdapterChoice) -> Result<&'static Adapter> {
    fork::check()?;
    let infos: Vec<&AdapterInfo> = all().iter().map(|adapter| &adapter.info).collect();
    Ok(&all()[index_of(choice, &infos)?])
}

/// Returns the properties of the selected adapter, without opening a device on it.
///
/// # Errors
/// Returns [`Error::NoAdapter`] with the available adapters.
pub fn find(choice: &AdapterChoice) -> Result<AdapterInfo> {
    choose(choice).map(|adapter| adapter.info.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use AdapterKind::{Discrete, Integrated, Software, Virtual};

    fn info(index: usize, name: &str, kind: AdapterKind) -> AdapterInfo {
        AdapterInfo {
            index,
            name: name.into(),
            backend: "vulkan".into(),
            kind,
            vendor_id: 1,
            device_id: 2,
            pci_bus_id: None,
            driver: String::new(),
            driver_info: "1.0".into(),
            max_buffer_bytes: 1,
            max_binding_bytes: 1,
            max_bindings: 1,
            binding_alignment: 1,
            max_immediate_bytes: 1,
            max_workgroups: 1,
            max_workgroup_threads: 1,
            workgroup_bytes: 1,
            subgroup_lanes: [1, 1],
            capabilities: Capabilities::NONE,
            cooperative_matrices: Vec::new(),
        }
    }

    #[test]
    fn choice_prefers_strongest_hardware_and_software_only_on_request() {
        let infos = [
            info(0, "llvmpipe", Software),
            info(1, "Small", Integrated),
            info(2, "Big One", Discrete),
            info(3, "Big Two", Discrete),
            info(4, "Cloud", Virtual),
        ];
        let pick = |n: usize, choice: &AdapterChoice| {
            index_of(choice, &infos.iter().take(n).collect::<Vec<_>>())
        };
        assert_eq!(pick(5, &AdapterChoice::Strongest), Ok(2));
        assert_eq!(pick(2, &AdapterChoice::Strongest), Ok(1));
        assert_eq!(pick(5, &AdapterChoice::named("BIG t")), Ok(3));
        assert_eq!(pick(5, &AdapterChoice::named("LLVM")), Ok(0));
        assert_eq!(pick(5, &AdapterChoice::Index(4)), Ok(4));
        assert_eq!(pick(5, &AdapterChoice::Index(0)), Ok(0));
        let none = pick(1, &AdapterChoice::Strongest).unwrap_err().to_string();
        assert_eq!(none, "no hardware GPU adapter; there are: 0: llvmpipe (software, vulkan, 1.0)");
        let other = pick(1, &AdapterChoice::named("Radeon")).unwrap_err().to_string();
        assert_eq!(
            other,
            "no GPU adapter matches \"Radeon\"; there are: 0: llvmpipe (software, vulkan, 1.0)"
        );
        let past = pick(1, &AdapterChoice::Index(1)).unwrap_err().to_string();
        assert_eq!(
            past,
            "there is no GPU adapter 1; there are: 0: llvmpipe (software, vulkan, 1.0)"
        );
        let empty = pick(0, &AdapterChoice::Strongest).unwrap_err().to_string();
        assert!(empty.starts_with("no hardware GPU adapter: there is none"), "{empty}");
    }

    #[test]
    fn equal_cards_are_separate_adapters() {
        let infos =
            [info(0, "Twin", Discrete), info(1, "llvmpipe", Software), info(2, "Twin", Discrete)];
        let all: Vec<_> = infos.iter().collect();
        assert_ne!(infos[0], infos[2]);
        assert_eq!(index_of(&AdapterChoice::Index(2), &all), Ok(2));
        assert_eq!(index_of(&AdapterChoice::named("twin"), &all), Ok(0));
        let indices = |infos: &[AdapterInfo]| -> Vec<usize> {
            each_card_once(infos).iter().map(|info| info.index).collect()
        };
        assert_eq!(indices(&infos), [0, 2]);
        // The same two cards through a second interface.
        let again =
            |index, kind| AdapterInfo { backend: "dx12".into(), ..info(index, "Twin", kind) };
        let both = [infos.to_vec(), vec![again(3, Discrete), again(4, Discrete)]].concat();
        assert_eq!(indices(&both), [0, 2]);
        assert_eq!(indices(&infos[1..2]), [0usize; 0]);
    }

    #[test]
    fn environment_selects_adapter_by_index_or_name() {
        let of = AdapterChoice::from_variables;
        assert_eq!(of(None, None), AdapterChoice::Strongest);
        assert_eq!(of(Some(""), Some("")), AdapterChoice::Strongest);
        assert_eq!(of(Some("1"), None), AdapterChoice::Index(1));
        assert_eq!(of(Some(" 12 "), Some("llvm")), AdapterChoice::Index(12));
        assert_eq!(of(Some("H200"), Some("llvm")), AdapterChoice::named("H200"));
        assert_eq!(of(Some("-1"), None), AdapterChoice::named("-1"));
        assert_eq!(of(None, Some("llvm")), AdapterChoice::named("llvm"));
        assert_eq!(of(Some(""), Some("llvm")), AdapterChoice::named("llvm"));
        // The older variable accepts names only, whatever they look like.
        assert_eq!(of(None, Some("0")), AdapterChoice::named("0"));
    }
}
