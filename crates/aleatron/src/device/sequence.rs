//! The layer with shared sequences on a GPU.

use crate::layer::Counting;
use crate::{Error, Result};
use aleatron_core::DenseShape;
use aleatron_core::generator::Pairing;
use aleatron_gpu::{AdapterChoice, GpuContext, GpuDense, GpuTabled};
use std::sync::{Arc, PoisonError, RwLock};

/// The weights of a layer with shared sequences on a GPU, and what to upload them from when the device must be opened anew.
#[derive(Debug)]
pub(crate) struct SequenceTwin {
    shape: DenseShape,
    pairing: Pairing,
    thresholds: Vec<u64>,
    counting: Counting,
    weights: RwLock<Arc<Weights>>,
}

#[derive(Debug)]
enum Weights {
    Tables(GpuTabled),
    Bits(GpuDense),
}

impl Weights {
    fn upload(shape: DenseShape, pairing: &Pairing, thresholds: &[u64], counting: Counting) -> Result<Self> {
        let context = GpuContext::get(&AdapterChoice::from_env())?;
        Ok(match counting {
            Counting::Tables => {
                let max_batch = super::DEFAULT_MAX_BATCH;
                Self::Tables(GpuTabled::new(&context, shape, max_batch, pairing, thresholds)?)
            }
            Counting::Bits => {
                let streams = pairing.encode_weights(thresholds, shape.n_inputs(), shape.length())?;
                Self::Bits(GpuDense::from_words(&context, shape, super::DEFAULT_MAX_BATCH, streams.words())?)
            }
        })
    }

    fn is_lost(&self) -> bool {
        match self {
            Self::Tables(layer) => layer.context().is_lost(),
            Self::Bits(layer) => layer.context().is_lost(),
        }
    }
}

impl SequenceTwin {
    pub(crate) fn new(
        shape: DenseShape,
        pairing: Pairing,
        thresholds: Vec<u64>,
        counting: Counting,
    ) -> Result<Self> {
        let weights = Weights::upload(shape, &pairing, &thresholds, counting)?;
        Ok(Self { shape, pairing, thresholds, counting, weights: RwLock::new(Arc::new(weights)) })
    }

    /// The counts for inputs of the given thresholds.
    pub(crate) fn counts(&self, inputs: &[u64]) -> Result<Vec<u64>> {
        match &*self.weights()? {
            Weights::Tables(layer) => layer.counts(inputs).map_err(Error::from),
            Weights::Bits(layer) => {
                let streams =
                    self.pairing.encode_inputs(inputs, self.shape.n_inputs(), self.shape.length())?;
                layer.counts_of_streams(streams.words()).map_err(Error::from)
            }
        }
    }

    /// The weights on the device; uploaded again where it was lost.
    fn weights(&self) -> Result<Arc<Weights>> {
        let current = Arc::clone(&self.weights.read().unwrap_or_else(PoisonError::into_inner));
        if !current.is_lost() {
            return Ok(current);
        }
        let mut current = self.weights.write().unwrap_or_else(PoisonError::into_inner);
        if current.is_lost() {
            let weights = Weights::upload(self.shape, &self.pairing, &self.thresholds, self.counting)?;
            *current = Arc::new(weights);
        }
        Ok(Arc::clone(&current))
    }
}
