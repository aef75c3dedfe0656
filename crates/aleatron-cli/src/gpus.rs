//! The GPUs of this machine, for `info`.

use serde::Serialize;
use std::fmt;
use std::path::Path;

/// What `info` tells of an adapter.
#[derive(Debug, Serialize)]
pub(crate) struct Gpu {
    name: String,
    backend: String,
    kind: String,
    driver: String,
    max_buffer_bytes: u64,
    max_binding_bytes: u64,
    max_workgroups: u32,
    /// Whether it is the one layers run on.
    chosen: bool,
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, backend, kind, driver, max_binding_bytes, .. } = self;
        let mib = max_binding_bytes >> 20;
        let chosen = if self.chosen { " (in use)" } else { "" };
        write!(f, "{name}, {kind}, {backend}, {driver}, bindings of {mib} MiB{chosen}")
    }
}

/// Every adapter, software ones too.
#[cfg(feature = "gpu")]
pub(crate) fn list() -> Vec<Gpu> {
    use aleatron::gpu::{AdapterChoice, adapter, adapters};
    let chosen = adapter::find(&AdapterChoice::from_env()).ok();
    let describe = |info: aleatron::gpu::AdapterInfo| Gpu {
        chosen: chosen.as_ref() == Some(&info),
        name: info.name,
        backend: info.backend,
        kind: info.kind.to_string(),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        max_buffer_bytes: info.max_buffer_bytes,
        max_binding_bytes: info.max_binding_bytes,
        max_workgroups: info.max_workgroups,
    };
    adapters().into_iter().map(describe).collect()
}

/// Every adapter, which without GPU support is none.
#[cfg(not(feature = "gpu"))]
pub(crate) fn list() -> Vec<Gpu> {
    Vec::new()
}

/// What may help where no hardware GPU was found although there seems to be one.
pub(crate) fn hint(gpus: &[Gpu]) -> Option<String> {
    if !cfg!(feature = "gpu") {
        return Some("GPU:       none: this build has no GPU support (cargo feature `gpu`)".to_owned());
    }
    let nvidia = Path::new("/dev/nvidia0").exists();
    let hardware = gpus.iter().any(|gpu| gpu.kind != "software");
    match (hardware, nvidia) {
        (true, _) => None,
        (false, true) => Some(
            "GPU:       an NVIDIA GPU is present but Vulkan does not show it. Without an X server its driver must be loaded \
             through EGL: write {\"file_format_version\":\"1.0.0\",\"ICD\":{\"library_path\":\"libEGL_nvidia.so.0\",\"api_version\":\"1.3.0\"}} \
             to a file and name it in VK_DRIVER_FILES (the Vulkan loader libvulkan.so.1 must be installed)"
                .to_owned(),
        ),
        (false, false) if gpus.is_empty() => {
            Some("GPU:       none (no Vulkan, Metal or DirectX 12 driver answers)".to_owned())
        }
        (false, false) => Some("           a software adapter is used only where SC_GPU_ADAPTER names it".to_owned()),
    }
}
