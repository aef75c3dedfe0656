//! GPUs through wgpu, in builds with the feature `gpu`; a stub in others.

#[cfg(not(feature = "gpu"))]
pub(super) use absent::{after_fork, devices, may_have_hardware, open, subject};
#[cfg(feature = "gpu")]
pub(super) use built::{after_fork, devices, may_have_hardware, open, subject};

#[cfg(feature = "gpu")]
mod built {
    use crate::Result;
    use crate::backend::{Backend, Device, DeviceInfo};
    use aleatron_core::conformance::Subject;
    use aleatron_gpu::{AdapterChoice, AdapterKind, GpuBackend, adapter, adapters};
    use std::sync::Arc;

    fn choice(index: Option<usize>) -> AdapterChoice {
        index.map_or_else(AdapterChoice::from_env, AdapterChoice::Index)
    }

    pub(in crate::backend) fn open(index: Option<usize>) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(GpuBackend::open(&choice(index)).map_err(aleatron_core::Error::from)?))
    }

    pub(in crate::backend) fn subject(index: Option<usize>) -> Result<Box<dyn Subject>> {
        Ok(Box::new(GpuBackend::open(&choice(index)).map_err(aleatron_core::Error::from)?))
    }

    pub(in crate::backend) fn after_fork() {
        aleatron_gpu::device::after_fork();
    }

    pub(in crate::backend) fn may_have_hardware() -> bool {
        adapter::may_have_hardware()
    }

    pub(in crate::backend) fn devices() -> Vec<DeviceInfo> {
        let chosen = adapter::find(&AdapterChoice::from_env()).ok().map(|info| info.index);
        let describe = |info: aleatron_gpu::AdapterInfo| DeviceInfo {
            device: Device::Gpu(Some(info.index)),
            is_default: chosen == Some(info.index),
            is_software: info.kind == AdapterKind::Software,
            name: info.name,
            kind: info.kind.to_string(),
            interface: info.backend,
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
            max_buffer_bytes: info.max_buffer_bytes,
            max_binding_bytes: info.max_binding_bytes,
        };
        adapters().into_iter().map(describe).collect()
    }
}

/// The stub of builds without GPU support.
#[cfg(not(feature = "gpu"))]
mod absent {
    use crate::Result;
    use crate::backend::{Backend, DeviceInfo};
    use aleatron_core::conformance::Subject;
    use aleatron_core::{BackendFault, Error};
    use std::sync::Arc;

    fn not_built() -> crate::Error {
        let message =
            "this build of aleatron has no GPU support: build it with the cargo feature `gpu`"
                .to_owned();
        Error::Backend { backend: "gpu".to_owned(), fault: BackendFault::Unavailable, message }
            .into()
    }

    pub(in crate::backend) fn open(_: Option<usize>) -> Result<Arc<dyn Backend>> {
        Err(not_built())
    }

    pub(in crate::backend) fn subject(_: Option<usize>) -> Result<Box<dyn Subject>> {
        Err(not_built())
    }

    pub(in crate::backend) fn after_fork() {}

    pub(in crate::backend) fn may_have_hardware() -> bool {
        false
    }

    pub(in crate::backend) fn devices() -> Vec<DeviceInfo> {
        Vec::new()
    }
}
