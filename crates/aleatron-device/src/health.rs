//! Driver reports outside of error scopes: errors, and the loss of the device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::context::lock;
use crate::error::Error;

/// The reports of one device.
#[derive(Debug, Default)]
pub(crate) struct Health {
    lost: OnceLock<String>,
    any: AtomicBool,
    errors: Mutex<Vec<Error>>,
}

impl Health {
    /// Collects the reports of a device from now on, replacing the previous handler.
    pub(crate) fn of(device: &wgpu::Device) -> Arc<Self> {
        let health = Arc::new(Self::default());
        let handler = Arc::clone(&health);
        device.on_uncaptured_error(Arc::new(move |error| {
            lock(&handler.errors).push(Error::of(error));
            handler.any.store(true, Ordering::Release);
        }));
        let lost = Arc::clone(&health);
        device.set_device_lost_callback(move |reason, message| {
            lost.lose(format!("{reason:?} {message}").trim().to_owned());
        });
        health
    }

    /// Marks the device as lost. The first reason is retained: later ones follow from it.
    pub(crate) fn lose(&self, reason: String) {
        let _ = self.lost.set(reason);
    }

    /// Returns why the device is lost, if it is.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// Returns the first error reported since the last call; later ones follow from it.
    pub(crate) fn take_error(&self) -> Option<Error> {
        if !self.any.swap(false, Ordering::Acquire) {
            return None;
        }
        std::mem::take(&mut *lock(&self.errors)).into_iter().next()
    }
}
