//! A configurable mock backend for tests.

use super::{Backend, Batch, Device, DeviceInfo, PrepareOptions, PreparedLayer};
use aleatron_core::{BackendFault, Cancel, Error, LayerSpec, Result, Weights};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Returns an error of a mock device.
pub(crate) fn fault(fault: BackendFault) -> Error {
    Error::Backend { backend: "fake".to_owned(), fault, message: "as told".to_owned() }
}

/// Returns a device that is neither the default nor software.
pub(crate) fn device_info(device: Device) -> DeviceInfo {
    let text = || "fake".to_owned();
    DeviceInfo {
        device,
        name: text(),
        kind: text(),
        interface: text(),
        driver: text(),
        max_buffer_bytes: 0,
        max_binding_bytes: 0,
        is_default: false,
        is_software: false,
    }
}

/// Prepares given layers, one after the other; then it is out of memory.
#[derive(Debug, Default)]
pub(crate) struct FakeBackend {
    layers: Mutex<VecDeque<FakeLayer>>,
    /// The batch sizes for which layers were prepared.
    pub(crate) batches: Mutex<Vec<usize>>,
}

impl FakeBackend {
    pub(crate) fn new(layers: impl IntoIterator<Item = FakeLayer>) -> Self {
        Self { layers: Mutex::new(layers.into_iter().collect()), batches: Mutex::default() }
    }
}

impl Backend for FakeBackend {
    fn name(&self) -> String {
        "fake".to_owned()
    }

    fn prepare(
        &self,
        _: &LayerSpec,
        _: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<Box<dyn PreparedLayer>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push(options.max_batch);
        let next = self.layers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        next.map(|layer| Box::new(layer) as Box<dyn PreparedLayer>)
            .ok_or_else(|| fault(BackendFault::OutOfMemory))
    }
}

/// A layer with a constant result. Its name is its only note.
#[derive(Debug)]
pub(crate) struct FakeLayer {
    name: &'static str,
    answer: Result<Vec<u64>>,
    takes: Duration,
    /// The successive results of `is_lost`; false at the end.
    losses: Mutex<VecDeque<bool>>,
    calls: Arc<AtomicUsize>,
}

impl FakeLayer {
    pub(crate) fn new(name: &'static str, answer: Result<Vec<u64>>) -> Self {
        let (losses, calls) = (Mutex::default(), Arc::default());
        Self { name, answer, takes: Duration::ZERO, losses, calls }
    }

    pub(crate) fn taking(self, takes: Duration) -> Self {
        Self { takes, ..self }
    }

    pub(crate) fn lost<const N: usize>(self, losses: [bool; N]) -> Self {
        Self { losses: Mutex::new(losses.into()), ..self }
    }

    /// Returns the counter of its calls.
    pub(crate) fn calls(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.calls)
    }
}

impl PreparedLayer for FakeLayer {
    fn counts(&self, _: &Batch<'_>, _: Cancel<'_>) -> Result<Vec<u64>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.takes);
        self.answer.clone()
    }

    fn is_lost(&self) -> bool {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(false)
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some(self.name.to_owned())
    }

    fn notes(&self) -> Vec<String> {
        vec![self.name.to_owned()]
    }
}
