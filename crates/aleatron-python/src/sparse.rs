//! `SparseLayer`.

use crate::argument::{length, polarity_name, read_polarity, seed};
use crate::array::{Input, output, shape_text};
use crate::batch::Inputs;
use crate::compute::{PATIENCE, compute};
use crate::error::core_exception;
use aleatron::layer::SparseSpec;
use aleatron::{Connections, LayerIndex, Length};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::sync::{Arc, PoisonError, RwLock};

/// A sparse layer of stochastic neurons: a neuron sees the inputs it is connected to, and costs no more than that.
///
/// A connection has the weight and the bits that the `DenseLayer` of the same seed has there.
///
/// Parameters
/// ----------
/// mask
///     Booleans of shape (n_neurons, n_inputs): who sees whom.
/// length, seed, polarity
///     As for `DenseLayer`.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> layer = al.SparseLayer([[True, False, True], [False, True, False]], length=256)
/// >>> layer.n_connections
/// 3
/// >>> layer([0.5, 0.5, 0.5]).shape
/// (2,)
#[pyclass(module = "aleatron", frozen)]
pub(crate) struct SparseLayer {
    layer: RwLock<Arc<aleatron::SparseLayer>>,
}

impl SparseLayer {
    fn wrap(layer: aleatron::SparseLayer) -> Self {
        Self { layer: RwLock::new(Arc::new(layer)) }
    }

    fn layer(&self) -> Arc<aleatron::SparseLayer> {
        Arc::clone(&self.layer.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn inputs(&self) -> Inputs {
        let layer = self.layer();
        let SparseSpec { connections, length, polarity, .. } = layer.spec();
        let (n_inputs, n_neurons) = (connections.n_inputs(), connections.n_neurons());
        Inputs { n_inputs, n_neurons, length: *length, polarity: *polarity, patience: PATIENCE }
    }
}

fn spec(mask: &Input<'_, bool>, length: usize, polarity: &str, seed: u64) -> PyResult<SparseSpec> {
    let &[_, n_inputs] = mask.shape() else {
        let shape = shape_text(mask.shape());
        return Err(PyValueError::new_err(format!("mask has shape {shape}, not (n_neurons, n_inputs)")));
    };
    let polarity = read_polarity(polarity)?;
    let (length, connections) = (Length::new(length), Connections::from_mask(mask.slice()?, n_inputs));
    let length = length.map_err(|error| core_exception(error, &[]))?;
    let connections = connections.map_err(|error| core_exception(error, &[]))?;
    Ok(SparseSpec { connections, length, polarity, seed, layer: LayerIndex::ALONE })
}

/// The weights at the connections of a whole matrix.
fn connected(weights: &[f64], connections: &Connections) -> Vec<f64> {
    let n_inputs = connections.n_inputs();
    let rows = weights.chunks_exact(n_inputs).enumerate();
    rows.flat_map(|(j, row)| connections.inputs_of(j).iter().map(|&i| row[i as usize])).collect()
}

/// Checks all weights, connected or not: a NaN anywhere is more likely a mistake than meant.
fn read_weights<'py>(
    weights: &Bound<'py, PyAny>,
    expected: [usize; 2],
    spec: &SparseSpec,
) -> PyResult<Vec<f64>> {
    let weights = Input::<f64>::read(weights, "weights")?;
    if weights.shape() != expected {
        let [actual, expected] = [weights.shape(), &expected].map(shape_text);
        return Err(PyValueError::new_err(format!("weights have shape {actual}; expected {expected}")));
    }
    let check = spec.polarity.check(weights.slice()?, aleatron::core::Quantity::Weight);
    check.map_err(|error| core_exception(error, weights.shape()))?;
    Ok(connected(weights.slice()?, &spec.connections))
}

#[pymethods]
impl SparseLayer {
    #[new]
    #[pyo3(signature = (mask, length=1024, seed=24301, polarity="unipolar"))]
    fn new(
        py: Python<'_>,
        mask: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = length)] length: usize,
        #[pyo3(from_py_with = seed)] seed: u64,
        polarity: &str,
    ) -> PyResult<Self> {
        let spec = spec(&Input::read(mask, "mask")?, length, polarity, seed)?;
        Ok(Self::wrap(compute(py, &[], || aleatron::SparseLayer::random(spec))?))
    }

    /// A layer with given weights and mask, both of shape (n_neurons, n_inputs); weights outside the mask have no effect.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> layer = al.SparseLayer.from_weights([[1.0, 0.5]], mask=[[True, False]], length=64)
    /// >>> layer([1.0, 1.0])
    /// array([1.])
    #[classmethod]
    #[pyo3(signature = (weights, mask, length=1024, seed=24301, polarity="unipolar"))]
    fn from_weights(
        _cls: &Bound<'_, PyType>,
        py: Python<'_>,
        weights: &Bound<'_, PyAny>,
        mask: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = length)] length: usize,
        #[pyo3(from_py_with = seed)] seed: u64,
        polarity: &str,
    ) -> PyResult<Self> {
        let spec = spec(&Input::read(mask, "mask")?, length, polarity, seed)?;
        let expected = [spec.connections.n_neurons(), spec.connections.n_inputs()];
        let weights = read_weights(weights, expected, &spec)?;
        Ok(Self::wrap(compute(py, &[], || aleatron::SparseLayer::from_weights(spec, &weights))?))
    }

    /// Computes outputs for one sample of shape (n_inputs,) or a batch of shape (N, n_inputs).
    #[pyo3(signature = (x, seed=44257))]
    fn __call__<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = seed)] seed: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let layer = self.layer();
        self.inputs().run(x, seed, |values, seed| layer.forward_batch(values, seed))
    }

    /// Counts ones: the integers behind the outputs, as uint64 of the shape a call would return.
    #[pyo3(signature = (x, seed=44257))]
    fn counts<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = seed)] seed: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let layer = self.layer();
        self.inputs().run(x, seed, |values, seed| layer.counts_batch(values, seed))
    }

    /// The weights, a read-only array of shape (n_neurons, n_inputs), 0 where there is no connection.
    ///
    /// Assign a whole matrix to replace them.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let layer = self.layer();
        let connections = &layer.spec().connections;
        let mut dense = vec![0.0; connections.n_neurons() * connections.n_inputs()];
        let mut weights = layer.weights().iter();
        for (neuron, row) in dense.chunks_exact_mut(connections.n_inputs()).enumerate() {
            for (&input, &weight) in connections.inputs_of(neuron).iter().zip(&mut weights) {
                row[input as usize] = weight;
            }
        }
        let weights = output(py, dense, &[connections.n_neurons(), connections.n_inputs()])?;
        weights.call_method1("setflags", (false,))?;
        Ok(weights)
    }

    #[setter]
    fn set_weights(&self, py: Python<'_>, weights: &Bound<'_, PyAny>) -> PyResult<()> {
        let spec = self.layer().spec().clone();
        let weights = read_weights(weights, [self.n_neurons(), self.n_inputs()], &spec)?;
        let layer = compute(py, &[], || aleatron::SparseLayer::from_weights(spec, &weights))?;
        *self.layer.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(layer);
        Ok(())
    }

    /// Who sees whom, booleans of shape (n_neurons, n_inputs).
    #[getter]
    fn mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let layer = self.layer();
        let connections = &layer.spec().connections;
        let mut mask = vec![false; connections.n_neurons() * connections.n_inputs()];
        for (neuron, row) in mask.chunks_exact_mut(connections.n_inputs()).enumerate() {
            connections.inputs_of(neuron).iter().for_each(|&input| row[input as usize] = true);
        }
        output(py, mask, &[connections.n_neurons(), connections.n_inputs()])
    }

    /// The number of connections.
    #[getter]
    fn n_connections(&self) -> usize {
        self.layer().spec().connections.len()
    }

    /// The number of inputs.
    #[getter]
    fn n_inputs(&self) -> usize {
        self.layer().spec().connections.n_inputs()
    }

    /// The number of neurons.
    #[getter]
    fn n_neurons(&self) -> usize {
        self.layer().spec().connections.n_neurons()
    }

    /// Bits per stream.
    #[getter]
    fn length(&self) -> usize {
        self.layer().spec().length.bits()
    }

    /// The seed of the weights.
    #[getter]
    fn seed(&self) -> u64 {
        self.layer().spec().seed
    }

    /// "unipolar" or "bipolar".
    #[getter]
    fn polarity(&self) -> &'static str {
        polarity_name(self.layer().spec().polarity)
    }

    fn __repr__(&self) -> String {
        format!(
            "SparseLayer(n_inputs={}, n_neurons={}, n_connections={}, length={}, seed={}, polarity='{}')",
            self.n_inputs(),
            self.n_neurons(),
            self.n_connections(),
            self.length(),
            self.seed(),
            self.polarity(),
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, this) = (slf.py(), slf.get());
        let arguments = (this.weights(py)?, this.mask(py)?, this.length(), this.seed(), this.polarity());
        Ok((slf.getattr("from_weights")?, arguments.into_pyobject(py)?.into_any()))
    }

    /// A layer of its own: replacing the weights of one does not change the other.
    fn __copy__(&self) -> Self {
        Self { layer: RwLock::new(self.layer()) }
    }

    /// As `__copy__`.
    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.__copy__()
    }
}
