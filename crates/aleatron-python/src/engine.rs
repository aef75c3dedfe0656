//! A dense layer on its device. The bits are the same on each.

use crate::array::Input;
use crate::compute::compute;
use crate::system::is_forked;
use aleatron::layer::{DenseSpec, UnfinishedLayer};
use aleatron::{Device, DeviceLayer, Result, SampleSeed, StreamMatrix};
use pyo3::exceptions::PyRuntimeError;
use pyo3::{PyResult, Python};

/// A layer on its device.
pub(crate) struct Engine(DeviceLayer);

impl Engine {
    /// A layer with the given weights, or with the random ones of its seed; Ctrl-C is heeded while it is made.
    pub(crate) fn new(
        py: Python<'_>,
        spec: DenseSpec,
        weights: Option<&Input<'_, f64>>,
        device: Device,
    ) -> PyResult<Self> {
        let (shape, values) = match weights {
            Some(weights) => (weights.shape(), Some(weights.slice()?)),
            None => (&[][..], None),
        };
        let mut layer = compute(py, shape, || {
            look_for(device)?;
            match values {
                Some(values) => UnfinishedLayer::from_weights(spec, values),
                None => UnfinishedLayer::random(spec),
            }
        })?;
        while layer.neurons_left() > 0 {
            py.check_signals()?;
            compute(py, shape, || layer.draw())?;
        }
        Ok(Self(compute(py, shape, || DeviceLayer::new(layer.finish()?, device))?))
    }

    /// The weights, row-major of neurons by inputs.
    pub(crate) fn weights(&self) -> &[f64] {
        self.0.cpu().weights()
    }

    /// Where a batch runs, or `Auto` where that has yet to be measured.
    pub(crate) fn device_for(&self, n_samples: usize) -> Device {
        if self.must_stay() { Device::Cpu } else { self.0.device_for(n_samples) }
    }

    /// The counts of a batch.
    pub(crate) fn counts(&self, values: &[f64], seed: SampleSeed) -> Result<Vec<u64>> {
        if self.must_stay() {
            return self.0.cpu().counts_batch(values, seed);
        }
        self.0.counts_batch(values, seed)
    }

    /// The counts of streams made before, which are on the CPU and stay there.
    pub(crate) fn counts_encoded(&self, streams: &StreamMatrix) -> Result<Vec<u64>> {
        self.0.cpu().counts_encoded(streams)
    }

    /// The values of counts.
    pub(crate) fn decode(&self, counts: &[u64]) -> Vec<f64> {
        self.0.cpu().decode(counts)
    }

    /// Checks that the device the layer was made for can be used in this process.
    pub(crate) fn check(&self) -> PyResult<()> {
        check_fork(self.0.device())
    }

    /// Drivers do not survive a fork: there, "auto" is the CPU.
    fn must_stay(&self) -> bool {
        is_forked() && self.0.device() == Device::Auto
    }
}

/// Drivers do not survive a fork; a call would wait for one for ever.
pub(crate) fn check_fork(device: Device) -> PyResult<()> {
    if device == Device::Gpu && is_forked() {
        return Err(PyRuntimeError::new_err(
            "a GPU cannot be used in a forked process: start processes with the method \"spawn\"",
        ));
    }
    Ok(())
}

/// Looks for a GPU that is asked for before all the weights are drawn.
fn look_for(device: Device) -> Result<()> {
    #[cfg(feature = "gpu")]
    if device == Device::Gpu {
        aleatron::gpu::GpuContext::get(&aleatron::gpu::AdapterChoice::from_env())?;
    }
    let _ = device;
    Ok(())
}
