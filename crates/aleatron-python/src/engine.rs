//! Which device a dense layer runs on. The bits are the same on each.

use aleatron::layer::DenseSpec;
use aleatron::{Result, SampleSeed, StreamMatrix};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// The device a user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    /// The best there is.
    Auto,
    /// The CPU.
    Cpu,
}

impl Device {
    /// Reads an argument, and checks before any work that the device is there.
    pub(crate) fn read(name: &str) -> PyResult<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "gpu" => Err(PyRuntimeError::new_err("this build of aleatron has no GPU support")),
            other => {
                Err(PyValueError::new_err(format!("device is {other:?}, not \"auto\", \"cpu\" or \"gpu\"")))
            }
        }
    }

    /// The name [`Self::read`] reads.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
        }
    }
}

/// A layer on the device it runs on.
pub(crate) enum Engine {
    /// On the CPU.
    Cpu(aleatron::DenseLayer),
}

impl Engine {
    /// A layer with the random weights of its seed.
    pub(crate) fn random(spec: DenseSpec, _device: Device) -> Result<Self> {
        aleatron::DenseLayer::random(spec).map(Self::Cpu)
    }

    /// A layer with the given weights.
    pub(crate) fn from_weights(spec: DenseSpec, weights: &[f64], _device: Device) -> Result<Self> {
        aleatron::DenseLayer::from_weights(spec, weights).map(Self::Cpu)
    }

    /// What decides its bits, the weights aside.
    pub(crate) fn spec(&self) -> &DenseSpec {
        let Self::Cpu(layer) = self;
        layer.spec()
    }

    /// The weights, row-major of neurons by inputs.
    pub(crate) fn weights(&self) -> &[f64] {
        let Self::Cpu(layer) = self;
        layer.weights()
    }

    /// The device, as users call it.
    pub(crate) fn device_name(&self) -> &'static str {
        let Self::Cpu(_) = self;
        "cpu"
    }

    /// The counts of a batch.
    pub(crate) fn counts(&self, values: &[f64], seed: SampleSeed) -> Result<Vec<u64>> {
        let Self::Cpu(layer) = self;
        layer.counts_batch(values, seed)
    }

    /// The counts of streams made before.
    pub(crate) fn counts_encoded(&self, streams: &StreamMatrix) -> Result<Vec<u64>> {
        let Self::Cpu(layer) = self;
        layer.counts_encoded(streams)
    }

    /// The values of counts.
    pub(crate) fn decode(&self, counts: &[u64]) -> Vec<f64> {
        let shape = &self.spec().shape;
        counts.iter().map(|&count| shape.decode(count)).collect()
    }
}
