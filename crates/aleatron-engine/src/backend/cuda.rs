//! NVIDIA GPUs through the CUDA driver, in builds with the feature `cuda`; a stub in others.

#[cfg(not(feature = "cuda"))]
pub(super) use absent::{devices, may_have_hardware, open, subject};
#[cfg(feature = "cuda")]
pub(super) use built::{devices, may_have_hardware, open, subject};

#[cfg(feature = "cuda")]
mod built {
    use crate::Result;
    use crate::backend::{Backend, Device, DeviceInfo};
    use aleatron_core::Error;
    use aleatron_core::conformance::Subject;
    use aleatron_cuda::CudaBackend;
    use std::sync::Arc;

    fn backend(index: usize) -> Result<CudaBackend> {
        Ok(CudaBackend::open(index).map_err(Error::from)?)
    }

    pub(in crate::backend) fn open(index: usize) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(backend(index)?))
    }

    pub(in crate::backend) fn subject(index: usize) -> Result<Box<dyn Subject>> {
        Ok(Box::new(backend(index)?))
    }

    /// Returns whether there may be a GPU, without asking the driver, which takes far longer.
    pub(in crate::backend) fn may_have_hardware() -> bool {
        !cfg!(target_os = "linux")
            || ["/dev/nvidiactl", "/dev/dxg"].iter().any(|file| std::path::Path::new(file).exists())
    }

    /// Returns the usable GPUs, or the reason why there are none.
    pub(in crate::backend) fn devices() -> std::result::Result<Vec<DeviceInfo>, String> {
        let cards = aleatron_cuda::devices().map_err(|error| error.to_string())?;
        let mut why = "the CUDA driver finds no card".to_owned();
        let mut usable = Vec::new();
        for card in cards {
            match card.check() {
                Ok(()) => usable.push(DeviceInfo {
                    device: Device::Cuda(card.index),
                    driver: card.driver(),
                    name: card.name,
                    kind: "discrete".to_owned(),
                    interface: "cuda".to_owned(),
                    max_buffer_bytes: card.memory_bytes,
                    max_binding_bytes: card.memory_bytes,
                    is_default: false,
                    is_software: false,
                }),
                Err(error) => why = error.to_string(),
            }
        }
        if usable.is_empty() { Err(why) } else { Ok(usable) }
    }
}

/// The stub of builds without CUDA.
#[cfg(not(feature = "cuda"))]
mod absent {
    use crate::Result;
    use crate::backend::{Backend, DeviceInfo};
    use aleatron_core::conformance::Subject;
    use aleatron_core::{BackendFault, Error};
    use std::sync::Arc;

    const NOT_BUILT: &str =
        "this build of aleatron has no CUDA support: build it with the cargo feature `cuda`";

    fn not_built() -> crate::Error {
        let (backend, message) = ("cuda".to_owned(), NOT_BUILT.to_owned());
        Error::Backend { backend, fault: BackendFault::Unavailable, message }.into()
    }

    pub(in crate::backend) fn open(_: usize) -> Result<Arc<dyn Backend>> {
        Err(not_built())
    }

    pub(in crate::backend) fn subject(_: usize) -> Result<Box<dyn Subject>> {
        Err(not_built())
    }

    pub(in crate::backend) fn may_have_hardware() -> bool {
        false
    }

    pub(in crate::backend) fn devices() -> std::result::Result<Vec<DeviceInfo>, String> {
        Err(NOT_BUILT.to_owned())
    }
}
