//! Judging networks that are to find numbers: the run behind `evaluate_regression`, and what it found.

use crate::array::{Input, shape_text};
use crate::error::exception;
use crate::evaluation::{dictionaries, sample_shape, size, subject, watched};
use crate::plan::EvaluationPlan;
use crate::warning::warn;
use aleatron::Error;
use aleatron::data::Dataset;
use aleatron::eval;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// What an evaluation of a network of regression found: errors against length and generator. Print it for a table.
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

    /// The errors of floating point against the numbers to be found: mean_absolute and root_mean_square.
    #[getter]
    fn float_errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionaries(py, &self.0.float)
    }

    /// Whether all of the plan was run.
    #[getter]
    fn complete(&self) -> bool {
        self.0.is_complete()
    }

    /// What is known to be wrong with generators.
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
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<Py<PyAny>>)> {
    let subject = subject(network)?;
    let plan = &plan.get().0;
    subject.check(plan).map_err(|error| exception(error, &[]))?;
    let data = dataset(x, y, name, sample_shape(&subject))?;
    let checkpoint = checkpoint.map(|checkpoint| checkpoint.get().0.clone());
    let (evaluation, raised) = watched(py, progress, |cancel, report| {
        match eval::evaluate_regression(&subject, &data, plan, checkpoint, cancel, report) {
            Ok(evaluation) => Ok((evaluation, None)),
            Err(Error::UnfinishedRegression { done, source }) => Ok((*done, Some(*source))),
            Err(error) => Err(error),
        }
    })?;
    warn(py, &evaluation.warnings)?;
    let text = evaluation.to_json().map_err(|error| exception(error, &[]))?;
    Ok((text, raised))
}

/// Samples with numbers to be found, one for each or several.
fn dataset(x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>, name: &str, sample: &[usize]) -> PyResult<Dataset> {
    let x = Input::<f64>::read(x, "x")?;
    let [n, n_features] = size(x.shape(), sample)?;
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
