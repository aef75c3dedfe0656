//! The stream networks of the last calls, for the next call with the same settings.

use aleatron::network::StreamConfig;
use aleatron_engine::stream::StreamNetwork;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of stream networks that are cached, the last used ones.
const CACHED: usize = 4;

/// A stream network, and whether the inputs of its layers have been checked.
pub(crate) struct Prepared {
    pub(crate) streams: StreamNetwork,
    is_checked: AtomicBool,
}

impl Prepared {
    /// Returns whether this is the first call, on whose samples the inputs of layers are checked.
    pub(crate) fn is_first(&self) -> bool {
        !self.is_checked.swap(true, Ordering::Relaxed)
    }
}

/// Caches stream networks, the last used one at the end: preparing one encodes all its weights.
#[derive(Default)]
pub(crate) struct StreamCache(Mutex<VecDeque<Arc<Prepared>>>);

impl StreamCache {
    /// Returns the stream network of a configuration, prepared by `prepare` if it is not cached.
    pub(crate) fn get_or_prepare(
        &self,
        config: &StreamConfig,
        prepare: impl FnOnce(&StreamConfig) -> PyResult<StreamNetwork>,
    ) -> PyResult<Arc<Prepared>> {
        let cached = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut cached = cached();
            let index = cached.iter().position(|known| known.streams.config() == config);
            if let Some(known) = index.and_then(|index| cached.remove(index)) {
                cached.push_back(Arc::clone(&known));
                return Ok(known);
            }
        }
        let prepared =
            Arc::new(Prepared { streams: prepare(config)?, is_checked: AtomicBool::new(false) });
        let mut cached = cached();
        if cached.len() >= CACHED {
            cached.pop_front();
        }
        cached.push_back(Arc::clone(&prepared));
        Ok(prepared)
    }
}
