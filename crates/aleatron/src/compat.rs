//! Names that users of other systems know, over Aleatron's own types.

use crate::{Device, EngineError, SampleSeed, StreamLayer};
use aleatron_core::{Error as CoreError, Quantity};

/// The dense layer on a GPU under the names that SC-NeuroCore documents.
///
/// ```no_run
/// use aleatron::compat::GpuDenseLayer;
/// if let Some(layer) = GpuDenseLayer::try_new(256, 128, 1024, 42, 256) {
///     let x = vec![0.5; 256];
///     println!("{} says {:?}", layer.gpu_name(), &layer.forward_gpu(&x, 7)?[..5]);
/// }
/// # Ok::<(), aleatron::Error>(())
/// ```
#[derive(Debug)]
pub struct GpuDenseLayer {
    layer: StreamLayer,
    name: String,
}

impl GpuDenseLayer {
    /// Builds a layer like [`Self::new`]; `None` if there is no GPU or it fails.
    #[must_use]
    pub fn try_new(
        n_inputs: usize,
        n_neurons: usize,
        length: usize,
        seed: u64,
        max_batch: usize,
    ) -> Option<Self> {
        Self::new(n_inputs, n_neurons, length, seed, max_batch).ok()
    }

    /// Builds a unipolar layer with the random weights of `seed` on the default GPU.
    ///
    /// # Errors
    /// As [`crate::LayerBuilder::build`].
    pub fn new(
        n_inputs: usize,
        n_neurons: usize,
        length: usize,
        seed: u64,
        max_batch: usize,
    ) -> Result<Self, EngineError> {
        let builder = StreamLayer::dense(n_inputs, n_neurons).length(length).seed(seed);
        let layer = builder.device(Device::Gpu(None)).max_batch(max_batch).build()?;
        let name = crate::backend::devices()
            .into_iter()
            .find(|info| info.is_default)
            .map(|info| info.name);
        Ok(Self { layer, name: name.unwrap_or_default() })
    }

    /// Returns the values of one sample.
    ///
    /// # Errors
    /// As [`StreamLayer::forward`].
    pub fn forward_gpu(
        &self,
        values: &[f64],
        seed: impl Into<SampleSeed>,
    ) -> Result<Vec<f64>, EngineError> {
        self.layer.forward(values, seed)
    }

    /// Returns the values of `n_samples` samples, row-major of samples by neurons.
    ///
    /// # Errors
    /// As [`StreamLayer::forward_batch`], and [`CoreError::Mismatch`] if the number of samples is
    /// not `n_samples`.
    pub fn forward_batch_gpu(
        &self,
        values: &[f64],
        n_samples: usize,
        seed: impl Into<SampleSeed>,
    ) -> Result<Vec<f64>, EngineError> {
        let (expected, actual) =
            (n_samples.saturating_mul(self.layer.spec().n_inputs()), values.len());
        if expected != actual {
            return Err(CoreError::Mismatch { what: Quantity::Inputs, expected, actual }.into());
        }
        self.layer.forward_batch(values, seed)
    }

    /// Returns the name of the GPU.
    #[must_use]
    pub fn gpu_name(&self) -> &str {
        &self.name
    }

    /// Returns the layer.
    #[must_use]
    pub fn layer(&self) -> &StreamLayer {
        &self.layer
    }

    /// Returns whether there is a GPU to run on: a hardware one, or the one that `ALEATRON_GPU` or
    /// `SC_GPU_ADAPTER` names.
    #[must_use]
    pub fn is_gpu_available() -> bool {
        crate::backend::devices().iter().any(|info| info.is_default)
    }
}
