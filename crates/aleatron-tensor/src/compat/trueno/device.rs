//! Devices and batches with the constructors and asynchronous forms of that library.

use std::ops::{Deref, DerefMut};

use aleatron_device::AdapterChoice;

use crate::batch::BufferId;
use crate::error::Result;

/// A GPU. Everything that [`crate::GpuDevice`] has is here as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuDevice(crate::GpuDevice);

impl Deref for GpuDevice {
    type Target = crate::GpuDevice;

    fn deref(&self) -> &crate::GpuDevice {
        &self.0
    }
}

impl From<crate::GpuDevice> for GpuDevice {
    fn from(device: crate::GpuDevice) -> Self {
        Self(device)
    }
}

impl GpuDevice {
    /// Opens the GPU that the environment names, otherwise the strongest one.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if there is none.
    pub fn new() -> Result<Self> {
        crate::GpuDevice::get(&AdapterChoice::from_env()).map(Self)
    }

    /// Opens the GPU like [`Self::new`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub async fn new_async() -> Result<Self> {
        Self::new()
    }

    /// Opens the GPU with an index of [`Self::list_adapters`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn new_with_adapter_index(index: u32) -> Result<Self> {
        crate::GpuDevice::get(&AdapterChoice::Index(index as usize)).map(Self)
    }

    /// Opens the GPU like [`Self::new_with_adapter_index`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub async fn new_with_adapter_index_async(index: u32) -> Result<Self> {
        Self::new_with_adapter_index(index)
    }

    /// Returns the index, the name and the programming interface of every adapter.
    #[must_use]
    pub fn list_adapters() -> Vec<(u32, String, String)> {
        let adapters = aleatron_device::adapters().into_iter().enumerate();
        adapters
            .map(|(index, info)| (index as u32, info.name.clone(), info.backend.to_string()))
            .collect()
    }

    /// Returns the adapters like [`Self::list_adapters`].
    pub async fn list_adapters_async() -> Vec<(u32, String, String)> {
        Self::list_adapters()
    }

    /// Returns whether there is a GPU: a software adapter only if the environment names one.
    #[must_use]
    pub fn is_available() -> bool {
        Self::new().is_ok()
    }

    /// Returns whether there is a GPU, like [`Self::is_available`].
    pub async fn is_available_async() -> bool {
        Self::is_available()
    }
}

/// The pipelines that batches have compiled. They belong to the device and live as long as it does,
/// so a cache can be passed to any batch.
#[derive(Debug, Clone, Default)]
pub struct PipelineCache {
    device: Option<crate::GpuDevice>,
}

impl PipelineCache {
    /// Creates a cache that no batch has used.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of pipelines that the device of the last batch has compiled.
    #[must_use]
    pub fn len(&self) -> usize {
        let pipelines =
            self.device.as_ref().map_or(0, |device| device.context().created().pipelines);
        usize::try_from(pipelines).unwrap_or(usize::MAX)
    }

    /// Returns whether no pipeline was compiled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Operations that are recorded, submitted together and awaited. Everything that
/// [`crate::GpuCommandBatch`] has is here as well.
#[derive(Debug)]
pub struct GpuCommandBatch(crate::GpuCommandBatch);

impl Deref for GpuCommandBatch {
    type Target = crate::GpuCommandBatch;

    fn deref(&self) -> &crate::GpuCommandBatch {
        &self.0
    }
}

impl DerefMut for GpuCommandBatch {
    fn deref_mut(&mut self) -> &mut crate::GpuCommandBatch {
        &mut self.0
    }
}

impl GpuCommandBatch {
    /// Creates an empty batch for a device.
    #[must_use]
    pub fn new(device: GpuDevice) -> Self {
        Self(crate::GpuCommandBatch::new(&device))
    }

    /// Submits all operations and waits for them.
    ///
    /// # Errors
    /// As [`crate::GpuCommandBatch::execute`].
    pub async fn execute(&mut self) -> Result<()> {
        if let Some(done) = self.0.execute_async()? {
            done.await?;
        }
        Ok(())
    }

    /// Submits all operations like [`Self::execute`], and lets `cache` count the pipelines of the
    /// device.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub async fn execute_with_cache(&mut self, cache: &mut PipelineCache) -> Result<()> {
        cache.device = Some(self.0.device().clone());
        self.execute().await
    }

    /// Reads a value.
    ///
    /// # Errors
    /// As [`crate::GpuCommandBatch::read`].
    pub async fn read(&self, id: BufferId) -> Result<Vec<f32>> {
        self.0.start_read(id)?.await
    }
}
