//! `DenseLayer`.

use crate::argument::{
    length, n_inputs, n_neurons, n_samples, polarity_name, read_device, read_polarity, seed,
};
use crate::array::{Input, output, shape_text};
use crate::batch::Inputs;
use crate::compute::PATIENCE;
use crate::engine::Engine;
use crate::error::core_exception;
use aleatron::layer::DenseSpec;
use aleatron::{DenseShape, Device, LayerIndex, Length};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::sync::{Arc, PoisonError, RwLock};

/// A dense layer of stochastic neurons: every neuron sees every input.
///
/// A weight or an input is a stream of `length` random bits whose share of ones is its value. AND multiplies two
/// streams, counting ones adds the products: each output is a noisy dot product whose error falls with the square root
/// of `length`. The same seeds give the same bits on every machine and device, with any number of threads.
///
/// Parameters
/// ----------
/// n_inputs, n_neurons
///     The size of the layer, each at least 1.
/// length
///     Bits per stream, at least 1; need not be a multiple of 64.
/// seed
///     Decides the random weights (uniform over the polarity's interval) and the bits of the weight streams.
/// polarity
///     "unipolar" for values in [0, 1], "bipolar" for values in [-1, 1].
/// device
///     "cpu"; "gpu", which raises RuntimeError where there is none; or "auto" for wherever a batch of the size is faster,
///     which its first call measures. The environment variable ALEATRON_DEVICE decides for "auto" where it is set, and
///     SC_GPU_ADAPTER names the GPU.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> layer = al.DenseLayer(64, 32)
/// >>> y = layer([0.5] * 64)
/// >>> y.shape, y.dtype
/// ((32,), dtype('float64'))
/// >>> exact = layer.weights @ ([0.5] * 64)
/// >>> bool(abs(y - exact).max() < 0.5)
/// True
///
/// One call for a whole batch; a sample's bits depend on its index, not on the batch's size:
///
/// >>> layer([[0.1] * 64, [0.9] * 64]).shape
/// (2, 32)
#[pyclass(module = "aleatron", frozen)]
pub(crate) struct DenseLayer {
    spec: DenseSpec,
    device: Device,
    // Replaced as a whole: a call under way keeps the weights it began with.
    engine: RwLock<Arc<Engine>>,
}

impl DenseLayer {
    fn new_with(spec: DenseSpec, device: Device, engine: Engine) -> Self {
        Self { spec, device, engine: RwLock::new(Arc::new(engine)) }
    }

    fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn inputs(&self, engine: &Engine) -> PyResult<Inputs> {
        engine.check()?;
        let shape = &self.spec.shape;
        Ok(Inputs {
            patience: match engine.device_for(1) {
                Device::Gpu => 16 * PATIENCE,
                _ => PATIENCE,
            },
            n_inputs: shape.n_inputs(),
            n_neurons: shape.n_neurons(),
            length: shape.length(),
            polarity: shape.polarity(),
        })
    }
}

fn spec(n_inputs: usize, n_neurons: usize, length: usize, polarity: &str, seed: u64) -> PyResult<DenseSpec> {
    let polarity = read_polarity(polarity)?;
    let shape = Length::new(length).and_then(|length| DenseShape::new(n_inputs, n_neurons, length, polarity));
    let shape = shape.map_err(|error| core_exception(error, &[]))?;
    Ok(DenseSpec { shape, seed, layer: LayerIndex::ALONE })
}

#[pymethods]
impl DenseLayer {
    #[new]
    #[pyo3(signature = (n_inputs, n_neurons, length=1024, seed=24301, polarity="unipolar", device="auto"))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = n_inputs)] n_inputs: usize,
        #[pyo3(from_py_with = n_neurons)] n_neurons: usize,
        #[pyo3(from_py_with = length)] length: usize,
        #[pyo3(from_py_with = seed)] seed: u64,
        polarity: &str,
        device: &str,
    ) -> PyResult<Self> {
        let device = read_device(device)?;
        let spec = spec(n_inputs, n_neurons, length, polarity, seed)?;
        Ok(Self::new_with(spec, device, Engine::new(py, spec, None, device)?))
    }

    /// A layer with given weights of shape (n_neurons, n_inputs).
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     Where the weights are not a matrix, or one is NaN or outside the polarity's interval.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> layer = al.DenseLayer.from_weights([[0.5, -1.0]], length=4096, polarity="bipolar")
    /// >>> bool(abs(layer([-0.5, 0.25])[0] - (0.5 * -0.5 + -1.0 * 0.25)) < 0.1)
    /// True
    /// >>> al.DenseLayer.from_weights([[0.5, 1.5]])
    /// Traceback (most recent call last):
    ///     ...
    /// ValueError: weight at index (0, 1) is 1.5, not in [0, 1]
    #[classmethod]
    #[pyo3(signature = (weights, length=1024, seed=24301, polarity="unipolar", device="auto"))]
    fn from_weights(
        _cls: &Bound<'_, PyType>,
        py: Python<'_>,
        weights: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = length)] length: usize,
        #[pyo3(from_py_with = seed)] seed: u64,
        polarity: &str,
        device: &str,
    ) -> PyResult<Self> {
        let device = read_device(device)?;
        let weights = Input::<f64>::read(weights, "weights")?;
        let &[n_neurons, n_inputs] = weights.shape() else {
            let shape = shape_text(weights.shape());
            return Err(PyValueError::new_err(format!(
                "weights have shape {shape}, not (n_neurons, n_inputs)"
            )));
        };
        let spec = spec(n_inputs, n_neurons, length, polarity, seed)?;
        Ok(Self::new_with(spec, device, Engine::new(py, spec, Some(&weights), device)?))
    }

    /// Computes outputs for one sample of shape (n_inputs,) or a batch of shape (N, n_inputs).
    ///
    /// Sample s of a batch draws its own streams, those of `seed` and s; call with other seeds for independent
    /// repetitions.
    #[pyo3(signature = (x, seed=44257))]
    fn __call__<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = seed)] seed: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let engine = self.engine();
        self.inputs(&engine)?.run(x, seed, |values, seed| Ok(engine.decode(&engine.counts(values, seed)?)))
    }

    /// Counts ones: the integers behind the outputs, as uint64 of the shape a call would return.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> layer = al.DenseLayer(3, 2, length=100)
    /// >>> bool((layer.counts([0.2, 0.4, 0.6]) / 100 == layer([0.2, 0.4, 0.6])).all())
    /// True
    #[pyo3(signature = (x, seed=44257))]
    fn counts<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = seed)] seed: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let engine = self.engine();
        self.inputs(&engine)?.run(x, seed, |values, seed| engine.counts(values, seed))
    }

    /// Computes outputs from packed streams, (n_inputs, words) or (N, n_inputs, words), as `encode` makes them.
    ///
    /// Encode once to use the same inputs with several layers.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> layer = al.DenseLayer(3, 2, length=100)
    /// >>> streams = al.encode([0.2, 0.4, 0.6], length=100, seed=7)
    /// >>> bool((layer.forward_encoded(streams) == layer([0.2, 0.4, 0.6], seed=7)).all())
    /// True
    fn forward_encoded<'py>(&self, streams: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let engine = self.engine();
        self.inputs(&engine)?
            .run_encoded(streams, |streams| Ok(engine.decode(&engine.counts_encoded(streams)?)))
    }

    /// Counts ones from packed streams; see `forward_encoded` and `counts`.
    fn counts_encoded<'py>(&self, streams: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let engine = self.engine();
        self.inputs(&engine)?.run_encoded(streams, |streams| engine.counts_encoded(streams))
    }

    /// The weights, a read-only array of shape (n_neurons, n_inputs).
    ///
    /// Assign a whole matrix to replace them; calls under way in other threads finish with the old ones.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let engine = self.engine();
        let shape = [self.spec.shape.n_neurons(), self.spec.shape.n_inputs()];
        let weights = output(py, engine.weights().to_vec(), &shape)?;
        // A copy that could be written to would swallow `layer.weights[0, 0] = 1` without effect.
        weights.call_method1("setflags", (false,))?;
        Ok(weights)
    }

    #[setter]
    fn set_weights(&self, py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<()> {
        let weights = Input::<f64>::read(weights, "weights")?;
        let expected = [self.spec.shape.n_neurons(), self.spec.shape.n_inputs()];
        if weights.shape() != expected {
            let [actual, expected] = [weights.shape(), &expected].map(shape_text);
            return Err(PyValueError::new_err(format!("weights have shape {actual}; expected {expected}")));
        }
        let engine = Engine::new(py, self.spec, Some(&weights), self.device)?;
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(engine);
        Ok(())
    }

    /// The number of inputs.
    #[getter]
    fn n_inputs(&self) -> usize {
        self.spec.shape.n_inputs()
    }

    /// The number of neurons.
    #[getter]
    fn n_neurons(&self) -> usize {
        self.spec.shape.n_neurons()
    }

    /// Bits per stream.
    #[getter]
    fn length(&self) -> usize {
        self.spec.shape.length().bits()
    }

    /// The seed of the weights.
    #[getter]
    fn seed(&self) -> u64 {
        self.spec.seed
    }

    /// "unipolar" or "bipolar".
    #[getter]
    fn polarity(&self) -> &'static str {
        polarity_name(self.spec.shape.polarity())
    }

    /// The device asked for: "auto", "cpu" or "gpu".
    #[getter]
    fn device(&self) -> &'static str {
        self.device.name()
    }

    /// Where a batch of `n_samples` runs: "cpu" or "gpu", or "auto" where the first such call has yet to measure it.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> al.DenseLayer(3, 2, device="cpu").device_for(1)
    /// 'cpu'
    #[pyo3(signature = (n_samples=1))]
    fn device_for(&self, #[pyo3(from_py_with = n_samples)] n_samples: usize) -> &'static str {
        self.engine().device_for(n_samples).name()
    }

    fn __repr__(&self) -> String {
        format!(
            "DenseLayer(n_inputs={}, n_neurons={}, length={}, seed={}, polarity='{}', device='{}')",
            self.n_inputs(),
            self.n_neurons(),
            self.length(),
            self.seed(),
            self.polarity(),
            self.device(),
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, this) = (slf.py(), slf.get());
        let arguments = (this.weights(py)?, this.length(), this.seed(), this.polarity(), this.device.name());
        Ok((slf.getattr("from_weights")?, arguments.into_pyobject(py)?.into_any()))
    }

    /// A layer of its own: replacing the weights of one does not change the other.
    fn __copy__(&self) -> Self {
        Self { spec: self.spec, device: self.device, engine: RwLock::new(self.engine()) }
    }

    /// As `__copy__`.
    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.__copy__()
    }
}
