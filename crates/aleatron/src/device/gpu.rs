//! The dense layer on a GPU.

use crate::layer::DenseSpec;
use crate::{DenseLayer, Error, Result, SampleSeed};
use aleatron_core::threshold::extend_thresholds;
use aleatron_core::{Quantity, StreamAddress};
use aleatron_gpu::{AdapterChoice, AdapterInfo, GpuContext, GpuDense};
use std::sync::{Arc, PoisonError, RwLock};

/// The samples a layer keeps buffers for where none are named.
pub const DEFAULT_MAX_BATCH: usize = 256;

/// A dense layer whose weights live on a GPU, with the CPU layer it came from. Both give the same counts.
///
/// Buffers are made once, for batches of up to `max_batch`; larger ones run in pieces. Where a device is lost the call under way
/// fails with an error, and the next one opens the device anew and uploads the weights again.
///
/// ```no_run
/// use aleatron::GpuDenseLayer;
/// let layer = GpuDenseLayer::try_new(256, 128, 1024, 42, 256)?;
/// let x = vec![0.5; 256];
/// println!("{} says {:?}", layer.gpu_name(), &layer.forward_gpu(&x, 7)?[..5]);
/// assert_eq!(layer.forward_gpu(&x, 7)?, layer.cpu().forward(&x, 7)?);
/// # Ok::<(), aleatron::Error>(())
/// ```
#[derive(Debug)]
pub struct GpuDenseLayer {
    cpu: DenseLayer,
    twin: GpuTwin,
}

impl GpuDenseLayer {
    /// A unipolar layer with the random weights of `seed`, on the adapter `SC_GPU_ADAPTER` names, else the most powerful one.
    ///
    /// # Errors
    /// As [`DenseLayer::new`], and `Error::Gpu` with the reason where there is no GPU or it cannot hold the layer.
    pub fn try_new(
        n_inputs: usize,
        n_neurons: usize,
        length: usize,
        seed: u64,
        max_batch: usize,
    ) -> Result<Self> {
        // Without a GPU this should not first draw all the weights.
        let choice = AdapterChoice::from_env();
        GpuContext::get(&choice)?;
        Self::from_layer(DenseLayer::new(n_inputs, n_neurons, length, seed)?, choice, max_batch)
    }

    /// The GPU twin of a CPU layer, on the adapter of `choice`.
    ///
    /// # Errors
    /// `Error::Gpu` where there is no such GPU or it cannot hold the layer.
    pub fn from_layer(cpu: DenseLayer, choice: AdapterChoice, max_batch: usize) -> Result<Self> {
        let twin = GpuTwin::new(&cpu, choice, max_batch)?;
        Ok(Self { cpu, twin })
    }

    /// The values of one sample.
    ///
    /// # Errors
    /// As [`DenseLayer::forward`], and `Error::Gpu` where the device fails.
    pub fn forward_gpu(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<f64>> {
        Ok(self.cpu.decode(&self.counts(values, seed)?))
    }

    /// The values of `n_samples` samples, row-major of samples by neurons.
    ///
    /// # Errors
    /// As [`Self::counts_batch`], and [`aleatron_core::Error::Mismatch`] where there are not just `n_samples`.
    pub fn forward_batch_gpu(
        &self,
        values: &[f64],
        n_samples: usize,
        seed: impl Into<SampleSeed>,
    ) -> Result<Vec<f64>> {
        self.check_samples(values, n_samples)?;
        Ok(self.cpu.decode(&self.counts_batch(values, seed)?))
    }

    /// The counts of one sample.
    ///
    /// # Errors
    /// As [`DenseLayer::counts`], and `Error::Gpu` where the device fails.
    pub fn counts(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<u64>> {
        self.check_samples(values, 1)?;
        self.counts_batch(values, seed)
    }

    /// The counts of a batch, row-major of samples by neurons; `values` are samples by inputs.
    ///
    /// # Errors
    /// As [`DenseLayer::counts_batch`], and `Error::Gpu` where the device fails.
    pub fn counts_batch(&self, values: &[f64], seed: impl Into<SampleSeed>) -> Result<Vec<u64>> {
        self.twin.counts_batch(&self.cpu, values, seed.into())
    }

    fn check_samples(&self, values: &[f64], n_samples: usize) -> Result<()> {
        let (expected, actual) = (n_samples.saturating_mul(self.cpu.shape().n_inputs()), values.len());
        if expected == actual {
            return Ok(());
        }
        Err(aleatron_core::Error::Mismatch { what: Quantity::Inputs, expected, actual }.into())
    }

    /// Replaces all weights, row-major of neurons by inputs, on both sides.
    ///
    /// # Errors
    /// As [`DenseLayer::set_weights`], with the old weights still in place; `Error::Gpu` where the upload fails, after which
    /// the next call uploads again.
    pub fn set_weights(&mut self, weights: &[f64]) -> Result<()> {
        self.cpu.set_weights(weights)?;
        self.twin.weights_changed(&self.cpu)
    }

    /// The name of the adapter.
    #[must_use]
    pub fn gpu_name(&self) -> &str {
        &self.twin.adapter.name
    }

    /// The same layer on the CPU.
    #[must_use]
    pub fn cpu(&self) -> &DenseLayer {
        &self.cpu
    }

    /// The CPU layer, with the GPU's memory given back.
    #[must_use]
    pub fn into_cpu(self) -> DenseLayer {
        self.cpu
    }

    /// The samples buffers are kept for.
    #[must_use]
    pub fn max_batch(&self) -> usize {
        self.twin.max_batch
    }

    /// Whether there is a GPU to run on: a hardware adapter, or the one `SC_GPU_ADAPTER` names.
    #[must_use]
    pub fn is_gpu_available() -> bool {
        aleatron_gpu::is_gpu_available()
    }
}

/// The weights of a CPU layer on a GPU. Every method takes that layer: it is what to upload when the device must be opened
/// anew.
#[derive(Debug)]
pub(super) struct GpuTwin {
    choice: AdapterChoice,
    pub(super) adapter: AdapterInfo,
    max_batch: usize,
    /// `None` after an upload has failed: old weights must not answer for new ones.
    device: RwLock<Option<Arc<GpuDense>>>,
}

impl GpuTwin {
    pub(super) fn new(cpu: &DenseLayer, choice: AdapterChoice, max_batch: usize) -> Result<Self> {
        let device = upload(cpu, &choice, max_batch)?;
        let adapter = device.context().info().clone();
        Ok(Self { choice, adapter, max_batch, device: RwLock::new(Some(Arc::new(device))) })
    }

    pub(super) fn counts_batch(
        &self,
        cpu: &DenseLayer,
        values: &[f64],
        seed: SampleSeed,
    ) -> Result<Vec<u64>> {
        let DenseSpec { shape, layer, .. } = *cpu.spec();
        let n_samples = shape.samples_in(values.len())?;
        shape.polarity().check(values, Quantity::Value)?;
        let first = StreamAddress::input(seed.seed, 0, seed.first_sample).in_layer(layer);
        // Values become thresholds piece by piece, while the device counts the piece before.
        let device = self.device(cpu)?;
        Ok(device.counts_filled(n_samples, first, |samples, out| {
            let values = &values[samples.start * shape.n_inputs()..samples.end * shape.n_inputs()];
            Ok(extend_thresholds(values, shape.polarity(), Quantity::Value, out)?)
        })?)
    }

    pub(super) fn weights_changed(&mut self, cpu: &DenseLayer) -> Result<()> {
        let device = self.device.get_mut().unwrap_or_else(PoisonError::into_inner);
        *device = None;
        *device = Some(Arc::new(upload(cpu, &self.choice, self.max_batch)?));
        Ok(())
    }

    /// The weights on the device; uploaded again where the last upload failed or its device was lost.
    fn device(&self, cpu: &DenseLayer) -> Result<Arc<GpuDense>> {
        let usable =
            |device: &Option<Arc<GpuDense>>| device.clone().filter(|device| !device.context().is_lost());
        if let Some(device) = usable(&self.device.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(device);
        }
        let mut current = self.device.write().unwrap_or_else(PoisonError::into_inner);
        match usable(&current) {
            Some(device) => Ok(device),
            None => Ok(Arc::clone(current.insert(Arc::new(upload(cpu, &self.choice, self.max_batch)?)))),
        }
    }
}

fn upload(cpu: &DenseLayer, choice: &AdapterChoice, max_batch: usize) -> Result<GpuDense> {
    let context = GpuContext::get(choice)?;
    Ok(GpuDense::from_words(&context, *cpu.shape(), max_batch, cpu.weight_streams())?)
}

impl From<aleatron_gpu::Error> for Error {
    fn from(error: aleatron_gpu::Error) -> Self {
        match error {
            aleatron_gpu::Error::Core(error) => Self::Core(error),
            error => Self::Gpu(error),
        }
    }
}

impl From<aleatron_gpu::device::Error> for Error {
    fn from(error: aleatron_gpu::device::Error) -> Self {
        Self::Gpu(error.into())
    }
}
