//! `StreamNetwork`, and the settings that make one of a `Network`.

use crate::argument::{first_sample, generator, length, sharing, width};
use crate::array::{Input, output};
use crate::compute::{compute, compute_with_cancellation};
use crate::layer::read_only;
use crate::samples::{accuracy, classes, n_samples, score_shape};
use crate::stream_cache::Prepared;
use crate::warning::warn;
use aleatron::Cancel;
use aleatron::network::{LayerOverride, Network, StreamConfig};
use aleatron_engine::stream::{Detail, IntegerLayer, LayerOutput, Measured, StreamOutput};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::sync::Arc;

/// The samples of the first call on which the inputs of layers are checked.
const CHECKED: usize = 256;

/// A network prepared to run as streams; `Network.streams` creates it. Its weights are encoded
/// once.
///
/// The first call warns of layers whose inputs saturate or use a small part of the interval of
/// their streams.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> x, y = al.load_digits()
/// >>> streams = al.Network.digits().streams(64, "sobol")
/// >>> streams(x).shape, bool(streams.score(x, y) > 0.95)
/// ((360, 10), True)
#[pyclass(module = "aleatron", frozen)]
pub(crate) struct StreamNetwork(pub(crate) Arc<Prepared>);

impl StreamNetwork {
    fn network(&self) -> &Network {
        self.0.streams.network()
    }

    fn run(
        &self,
        x: &Bound<'_, PyAny>,
        first_sample: u32,
        detail: Detail,
    ) -> PyResult<(StreamOutput, Option<usize>)> {
        let (py, network) = (x.py(), self.network());
        let x = Input::<f64>::read(x, "x")?;
        let n_samples = n_samples(network, x.shape())?;
        let features = x.slice()?;
        let run =
            |cancel: Cancel<'_>| Ok(self.0.streams.run(features, first_sample, detail, cancel)?);
        let made = compute_with_cancellation(py, x.shape(), run)?;
        if self.0.is_first() {
            self.warn_of_inputs(py, features)?;
        }
        Ok((made, n_samples))
    }

    /// Warns of layers whose inputs do not fit the interval of their streams.
    fn warn_of_inputs(&self, py: Python<'_>, features: &[f64]) -> PyResult<()> {
        let network = self.network();
        // Whole runs of a graph that fixes the number of samples.
        let batch = network.batch().unwrap_or(1);
        let n = (CHECKED.max(batch) / batch * batch).saturating_mul(network.n_features());
        let checked = &features[..features.len().min(n)];
        warn(
            py,
            &compute_with_cancellation(py, &[], |cancel| {
                Ok(network.input_warnings(checked, cancel)?)
            })?,
        )
    }
}

#[pymethods]
impl StreamNetwork {
    /// Computes scores for a batch or one sample. The first sample has the index `first_sample`
    /// among all.
    #[pyo3(signature = (x, first_sample=0))]
    pub(crate) fn __call__<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = first_sample)] first_sample: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (made, n_samples) = self.run(x, first_sample, Detail::default())?;
        output(x.py(), made.scores, &score_shape(self.network(), n_samples))
    }

    /// Returns the class of each sample.
    #[pyo3(signature = (x, first_sample=0))]
    fn predict<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = first_sample)] first_sample: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        classes(self.network().n_outputs(), &self.__call__(x, first_sample)?)
    }

    /// Returns the fraction of samples whose class is `y`.
    #[pyo3(signature = (x, y, first_sample=0))]
    fn score(
        &self,
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = first_sample)] first_sample: u32,
    ) -> PyResult<f64> {
        accuracy(&self.predict(x, first_sample)?, y)
    }

    /// Returns, for each layer that runs as streams, a dict of its name, its counts (uint64) and
    /// its outputs (float64), of shape (n_neurons,) or (N, n_neurons). The outputs of a layer
    /// are those of the activation behind it.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> x, y = al.load_digits()
    /// >>> streams = al.Network.digits().streams(64)
    /// >>> [(layer["name"], layer["counts"].shape) for layer in streams.layer_outputs(x[:3])]
    /// [('hidden', (3, 64)), ('output', (3, 10))]
    #[pyo3(signature = (x, first_sample=0))]
    fn layer_outputs<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = first_sample)] first_sample: u32,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let py = x.py();
        let detail = Detail { layers: Measured::Enabled, ..Detail::default() };
        let (made, n_samples) = self.run(x, first_sample, detail)?;
        let layers = self.network().layers();
        let describe = |made: LayerOutput| {
            let layer = layers.get(made.layer);
            let layer =
                layer.ok_or_else(|| PyRuntimeError::new_err("output of an unknown layer"))?;
            let shape = |len: usize| match n_samples {
                Some(n) => vec![n, len.checked_div(n).unwrap_or(0)],
                None => vec![len],
            };
            let dict = PyDict::new(py);
            dict.set_item("name", &layer.name)?;
            let (counts, outputs) = (shape(made.counts.len()), shape(made.outputs.len()));
            dict.set_item("counts", output(py, made.counts, &counts)?)?;
            dict.set_item("outputs", output(py, made.outputs, &outputs)?)?;
            Ok(dict)
        };
        made.layers.into_iter().map(describe).collect()
    }

    /// The stream length of each layer that runs as streams.
    #[getter]
    fn lengths(&self) -> Vec<usize> {
        self.0.streams.lengths()
    }

    /// The known problems of the generators.
    #[getter]
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let warnings = compute(py, &[], || Ok(self.0.streams.warnings()?))?;
        Ok(warnings.iter().map(ToString::to_string).collect())
    }

    /// The integer arithmetic around each layer that runs as streams, for `arithmetic="integer"`:
    /// the widths of comparators and accumulators, the fraction bits of the latter, biases, the
    /// value that 1 stands for in each row ("units"), and the multipliers and right shifts
    /// before the comparators, one for each unit of the inputs. These are empty if the inputs are
    /// features. The list is empty for "float".
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> hidden, last = al.Network.digits().streams(64, arithmetic="integer").integers
    /// >>> sorted(hidden)[:5]
    /// ['accumulator_width', 'bias', 'comparator_width', 'fraction_bits', 'multiplier_widths']
    /// >>> sorted(hidden)[5:]
    /// ['multipliers', 'name', 'shifts', 'units']
    /// >>> hidden["multipliers"].size, last["multipliers"].size
    /// (0, 1)
    #[getter]
    fn integers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let layers = compute(py, &[], || Ok(self.0.streams.integer_layers()?))?;
        let describe = |integer: IntegerLayer| {
            let layer = self.network().layers().get(integer.layer);
            let layer =
                layer.ok_or_else(|| PyRuntimeError::new_err("integers of an unknown layer"))?;
            let dict = PyDict::new(py);
            let n = integer.units.len();
            dict.set_item("name", &layer.name)?;
            dict.set_item("comparator_width", integer.comparator.bits())?;
            dict.set_item("accumulator_width", integer.accumulator.width())?;
            dict.set_item("fraction_bits", integer.accumulator.fraction())?;
            let bias = integer.accumulator.bias().to_vec();
            let n_biases = bias.len();
            dict.set_item("bias", read_only(py, bias, &[n_biases])?)?;
            dict.set_item("units", read_only(py, integer.units, &[n])?)?;
            let requantizers = &integer.requantizers;
            let shape = [requantizers.len()];
            let multipliers = requantizers.iter().map(|r| r.multiplier() as i64).collect();
            let widths = requantizers.iter().map(|r| i64::from(r.multiplier_width())).collect();
            let shifts = requantizers.iter().map(|r| i64::from(r.shift())).collect();
            dict.set_item("multipliers", read_only(py, multipliers, &shape)?)?;
            dict.set_item("multiplier_widths", read_only(py, widths, &shape)?)?;
            dict.set_item("shifts", read_only(py, shifts, &shape)?)?;
            Ok(dict)
        };
        layers.into_iter().map(describe).collect()
    }

    /// Returns whether both are one prepared network, as two calls of `Network.streams` with the
    /// same settings return.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| Arc::ptr_eq(&other.get().0, &self.0))
    }

    fn __repr__(&self) -> String {
        format!("StreamNetwork({:?}, lengths={:?})", self.network().name(), self.lengths())
    }
}

/// Reads one generator for all layers, or a list of one for each layer that runs as streams.
pub(crate) fn read_generators(
    value: Option<&Bound<'_, PyAny>>,
    network: &Network,
    config: &mut StreamConfig,
) -> PyResult<()> {
    let Some(value) = value else { return Ok(()) };
    if value.is_instance_of::<PyString>() {
        config.settings.generator = generator(value)?;
        return Ok(());
    }
    let Ok(values) = value.try_iter() else {
        return Err(PyTypeError::new_err(
            "generator must be a name, or a list of one for each layer",
        ));
    };
    let names: Vec<&str> = network.stream_layers().map(|(_, layer)| layer.name.as_str()).collect();
    // One at a time: the length that a sequence claims may be wrong.
    let mut generators = Vec::new();
    for value in values {
        generators.push(generator(&value?)?);
        if generators.len() > names.len() {
            break;
        }
    }
    if generators.len() != names.len() {
        let n = names.len();
        return Err(PyValueError::new_err(format!(
            "generator must have one name for each of the {n} layers that run as streams"
        )));
    }
    for (name, generator) in names.iter().zip(generators) {
        config.layers.entry((*name).to_owned()).or_default().generator = Some(generator);
    }
    Ok(())
}

/// Reads the settings of one layer: a dict of any of them.
pub(crate) fn read_settings(settings: &Bound<'_, PyAny>, own: &mut LayerOverride) -> PyResult<()> {
    let Ok(settings) = settings.cast::<PyDict>() else {
        return Err(PyTypeError::new_err("the settings of a layer must be a dict"));
    };
    for (name, value) in settings {
        match name.extract::<&str>()? {
            "length" => own.length = Some(length(&value)?),
            "generator" => own.generator = Some(generator(&value)?),
            "width" => own.width = Some(width(&value)?),
            "sharing" => own.sharing = Some(sharing(&value)?),
            other => {
                return Err(PyValueError::new_err(format!(
                    "a layer has no setting {other:?}; use length, generator, width or sharing"
                )));
            }
        }
    }
    Ok(())
}
