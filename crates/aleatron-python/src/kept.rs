//! Networks prepared to run as streams, kept for the next call with the same settings.

use aleatron::network::StreamConfig;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Prepared networks that are kept, the last used ones.
const KEPT: usize = 4;

/// The prepared networks of the last calls, the latest last: preparing one encodes all its weights.
pub(crate) struct Kept<T>(Mutex<VecDeque<(StreamConfig, Arc<T>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Kept<T> {
    /// The network of a configuration, made on first use.
    pub(crate) fn get_or_make(
        &self,
        config: StreamConfig,
        make: impl FnOnce(&StreamConfig) -> PyResult<T>,
    ) -> PyResult<Arc<T>> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = {
            let mut kept = kept();
            let place = kept.iter().position(|(known, _)| *known == config);
            let known = place.and_then(|place| kept.remove(place));
            known.inspect(|known| kept.push_back(known.clone()))
        };
        if let Some((_, known)) = known {
            return Ok(known);
        }
        let made = Arc::new(make(&config)?);
        let mut kept = kept();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((config, Arc::clone(&made)));
        Ok(made)
    }
}
