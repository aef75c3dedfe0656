//! Evaluating networks of regression: the run behind `evaluate_regression`, and its result.

use crate::array::{Input, shape_text};
use crate::error::exception;
use crate::evaluation::{dictionaries, network_of, with_progress};
use crate::plan::EvaluationPlan;
use crate::samples::batch_size;
use crate::warning::warn;
use aleatron::Error;
use aleatron::data::Dataset;
use aleatron::eval::{self, Progress};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::path::PathBuf;

/// The result of an evaluation of a network of regression: errors against length and generator. Print it for a table.
#[pyclass(module = "aleatron", name = "_RegressionEvaluation", frozen, subclass)]
pub(crate) struct RegressionEvaluation(eval::RegressionEvaluation);

#[pymethods]
impl RegressionEvaluation {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        eval::RegressionEvaluation::from_json(text).map(Self).map_err(|error| exception(error, &[]))
    }

    /// Returns everything as JSON.
    fn to_json(&self) -> PyResult<String> {
        self.0.to_json().map_err(|error| exception(error, &[]))
    }

    /// Returns one line of comma-separated values for each generator, length and seed, under a heading.
    fn to_csv(&self) -> String {
        self.0.to_csv()
    }

    /// Returns a page with curves and tables that needs nothing else to be shown.
    fn to_html(&self) -> String {
        eval::report::regression(&self.0)
    }

    /// One dictionary for each generator and length, summed up over seeds: generator, length, to_targets and to_float (each with
    /// mean_absolute and root_mean_square, which have a mean and its interval), layers, samples_per_second, bit_macs_per_second.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionaries(py, &self.0.rows())
    }

    /// One dictionary for each generator, length and seed, as in `to_json`.
    #[getter]
    fn cells<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionaries(py, &self.0.cells)
    }

    /// The errors of floating point against the targets: mean_absolute and root_mean_square.
    #[getter]
    fn float_errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionaries(py, &self.0.float)
    }

    /// Whether all of the plan was run.
    #[getter]
    fn complete(&self) -> bool {
        self.0.is_complete()
    }

    /// The known problems of the generators, and of the inputs of layers.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    /// Whether both found the same; the time it took does not matter.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let timeless = |evaluation: &eval::RegressionEvaluation| evaluation.clone().without_times();
        other.cast::<Self>().is_ok_and(|other| timeless(&other.get().0) == timeless(&self.0))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        let e = &self.0;
        format!(
            "RegressionEvaluation(network={:?}, samples={}, cells={}, unfinished={})",
            e.network.name,
            e.data.samples,
            e.cells.len(),
            e.unfinished
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, (String,))> {
        Ok((slf.get_type(), (slf.get().to_json()?,)))
    }
}

/// Runs a plan; as `_evaluate`, without early termination.
#[pyfunction]
#[pyo3(name = "_evaluate_regression")]
pub(crate) fn evaluate_regression(
    py: Python<'_>,
    network: &Bound<'_, PyAny>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    name: &str,
    plan: &Bound<'_, EvaluationPlan>,
    checkpoint: Option<&Bound<'_, RegressionEvaluation>>,
    file: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<Py<PyAny>>)> {
    let network = network_of(network)?;
    let plan = &plan.get().0;
    plan.check(&network).map_err(|error| exception(error, &[]))?;
    let data = dataset(&network, x, y, name)?;
    let checkpoint = checkpoint.map(|checkpoint| checkpoint.get().0.clone());
    let (evaluation, raised) = with_progress(py, file, progress, |cancel, reporter| {
        let report = |p: Progress<'_, eval::RegressionEvaluation>| {
            reporter.save(p.done, || p.evaluation.to_json());
            reporter.report((p.done, p.total, p.generator, p.length, p.seed));
        };
        match eval::evaluate_regression(&network, &data, plan, checkpoint, cancel, report) {
            Ok(evaluation) => Ok((evaluation, None)),
            Err(Error::UnfinishedRegression { done, source }) => Ok((*done, Some(*source))),
            Err(error) => Err(error),
        }
    })?;
    warn(py, &evaluation.warnings)?;
    let text = evaluation.to_json().map_err(|error| exception(error, &[]))?;
    Ok((text, raised))
}

/// Reads samples with targets, one for each or several.
fn dataset(
    network: &aleatron::network::Network,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<Dataset> {
    let x = Input::<f64>::read(x, "x")?;
    let [n, n_features] = batch_size(network, x.shape())?;
    let y = Input::<f64>::read(y, "y")?;
    let n_targets = match *y.shape() {
        [rows] if rows == n => 1,
        [rows, n_targets] if rows == n && n_targets > 0 => n_targets,
        _ => {
            let shape = shape_text(y.shape());
            return Err(PyValueError::new_err(format!(
                "y has shape {shape}; expected ({n},) or ({n}, outputs)"
            )));
        }
    };
    let (features, targets) = (x.slice()?.to_vec(), y.slice()?.to_vec());
    let data = Dataset::with_targets(name, n_features, features, n_targets, targets);
    data.map_err(|error| exception(error, x.shape()))
}
