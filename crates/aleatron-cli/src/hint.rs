//! Hints for a machine that seems to have a hardware GPU that was not found.

use aleatron::backend::DeviceInfo;
use std::path::Path;

/// Returns a hint for `info`; `None` if there is no problem.
pub(crate) fn hint(devices: &[DeviceInfo]) -> Option<String> {
    if !cfg!(feature = "gpu") {
        return Some(
            "Devices:   none: this build has no GPU support (cargo feature `gpu`)".to_owned(),
        );
    }
    let nvidia = Path::new("/dev/nvidia0").exists();
    let hardware = devices.iter().any(|device| !device.is_software);
    match (hardware, nvidia) {
        (true, _) => None,
        (false, true) => Some(
            "           an NVIDIA GPU is present but Vulkan does not show it. Without an X server its driver must be loaded \
             through EGL: write {\"file_format_version\":\"1.0.0\",\"ICD\":{\"library_path\":\"libEGL_nvidia.so.0\",\"api_version\":\"1.3.0\"}} \
             to a file and name it in VK_DRIVER_FILES (the Vulkan loader libvulkan.so.1 must be installed)"
                .to_owned(),
        ),
        (false, false) if devices.is_empty() => {
            Some("Devices:   none (no Vulkan, Metal or DirectX 12 driver answers)".to_owned())
        }
        (false, false) => Some(
            "           a software adapter is used only where ALEATRON_GPU or SC_GPU_ADAPTER names it".to_owned(),
        ),
    }
}
