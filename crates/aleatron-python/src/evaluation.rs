//! Judging networks: the run behind `evaluate`, and `Evaluation`, which holds what it found.

use crate::array::{Input, output, shape_text};
use crate::error::exception;
use crate::graph::GraphNetwork;
use crate::network::Network;
use crate::plan::EvaluationPlan;
use crate::warning::warn;
use aleatron::data::Dataset;
use aleatron::eval::{self, Progress, Subject};
use aleatron::{Cancel, Error};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::sync::{Arc, Mutex, PoisonError};

/// What an evaluation found: accuracy against length and generator. Print it for a table.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> found = al.evaluate(lengths=[16, 32], generators=["sobol"])
/// >>> found.float_accuracy, found.complete
/// (0.975, True)
/// >>> [(row["generator"], row["length"]) for row in found.rows]
/// [('sobol', 16), ('sobol', 32)]
/// >>> found.shortest_within("sobol", points=1.0)
/// 16
#[pyclass(module = "aleatron", name = "_Evaluation", frozen, subclass)]
pub(crate) struct Evaluation(pub(crate) eval::Evaluation);

#[pymethods]
impl Evaluation {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        eval::Evaluation::from_json(text).map(Self).map_err(|error| exception(error, &[]))
    }

    /// Returns everything as JSON.
    fn to_json(&self) -> PyResult<String> {
        self.0.to_json().map_err(|error| exception(error, &[]))
    }

    /// Returns one line of comma-separated values for each generator, length and seed, under a heading.
    fn to_csv(&self) -> String {
        self.0.to_csv()
    }

    /// One dictionary for each generator and length, summed up over seeds: generator, length, accuracy (with its interval),
    /// accuracies (of each seed), agreement, layers, early, certain, samples_per_second, bit_macs_per_second, confusion.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionaries(py, &self.0.rows())
    }

    /// One dictionary for each generator, length and seed, as in `to_json`.
    #[getter]
    fn cells<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionaries(py, &self.0.cells)
    }

    /// Returns a page with curves, tables and error maps that needs nothing else to be shown.
    fn to_html(&self) -> String {
        eval::report::evaluation(&self.0)
    }

    /// Returns the shortest length from which on a generator stays within `points` percentage points of floating point, or
    /// None where even the longest does not.
    #[pyo3(signature = (generator, points=1.0))]
    fn shortest_within(&self, generator: &str, points: f64) -> PyResult<Option<usize>> {
        self.0.shortest_within(generator, points).map_err(|error| exception(error, &[]))
    }

    /// The accuracy in floating point.
    #[getter]
    fn float_accuracy(&self) -> f64 {
        self.0.float_accuracy
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
        let timeless = |evaluation: &eval::Evaluation| evaluation.clone().without_times();
        other.cast::<Self>().is_ok_and(|other| timeless(&other.get().0) == timeless(&self.0))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        let e = &self.0;
        format!(
            "Evaluation(network={:?}, samples={}, cells={}, unfinished={})",
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

pub(crate) fn dictionaries<'py>(
    py: Python<'py>,
    value: &impl serde::Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// Runs a plan. `progress` is called with (done, total, generator, length, seed) and ends the run by raising; returns what
/// is done as JSON, and what was raised.
#[pyfunction]
#[pyo3(name = "_evaluate")]
pub(crate) fn evaluate(
    py: Python<'_>,
    network: &Bound<'_, PyAny>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    name: &str,
    plan: &Bound<'_, EvaluationPlan>,
    checkpoint: Option<&Bound<'_, Evaluation>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<Py<PyAny>>)> {
    let subject = subject(network)?;
    let plan = &plan.get().0;
    subject.check(plan).map_err(|error| exception(error, &[]))?;
    let data = dataset(x, y, name, sample_shape(&subject))?;
    let checkpoint = checkpoint.map(|checkpoint| checkpoint.get().0.clone());
    let (evaluation, raised) = watched(py, progress, |cancel, report| {
        match eval::evaluate(&subject, &data, plan, checkpoint, cancel, report) {
            Ok(evaluation) => Ok((evaluation, None)),
            Err(Error::Unfinished { done, source }) => Ok((*done, Some(*source))),
            Err(error) => Err(error),
        }
    })?;
    warn(py, &evaluation.warnings)?;
    let text = evaluation.to_json().map_err(|error| exception(error, &[]))?;
    Ok((text, raised))
}

/// Runs an evaluation without the interpreter, with its progress reported; it is over when that raises, or when the user has pressed
/// Ctrl-C. Returns what is done, and what was raised or failed.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    run: impl FnOnce(Cancel<'_>, &dyn Fn(Progress<'_>)) -> aleatron::Result<(T, Option<Error>)> + Send,
) -> PyResult<(T, Option<Py<PyAny>>)> {
    let raised: Mutex<Option<PyErr>> = Mutex::new(None);
    let note = |result: PyResult<()>| {
        if let Err(error) = result {
            raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    };
    let is_over = || {
        note(Python::attach(|py| py.check_signals()));
        raised.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    };
    let report = |p: Progress<'_>| {
        if let Some(progress) = &progress {
            let at = (p.done, p.total, p.generator, p.length, p.seed);
            note(Python::attach(|py| progress.call1(py, at).map(drop)));
        }
    };
    let made = crate::compute::compute(py, &[], || run(Cancel::when(&is_over), &report));
    let raised = raised.into_inner().unwrap_or_else(PoisonError::into_inner);
    let ((made, failure), raised) = match (made, raised) {
        // Over before there was anything to keep.
        (Err(_), Some(raised)) => return Err(raised),
        (made, raised) => (made?, raised),
    };
    let raised = raised.or_else(|| failure.map(|error| exception(error, &[])));
    Ok((made, raised.map(|error| error.into_value(py).into_any())))
}

/// What is judged.
pub(crate) fn subject(network: &Bound<'_, PyAny>) -> PyResult<Subject> {
    if let Ok(network) = network.cast::<Network>() {
        return Ok(Subject::Layers(Arc::clone(&network.get().network)));
    }
    match network.cast::<GraphNetwork>() {
        Ok(network) => Ok(Subject::Graph(Arc::clone(&network.get().network))),
        Err(_) => {
            let kind = network.get_type().name()?;
            Err(PyTypeError::new_err(format!("network is a {kind}, not a Network or a GraphNetwork")))
        }
    }
}

/// The axes of a sample beside that of its features: those of a graph's input.
pub(crate) fn sample_shape(subject: &Subject) -> &[usize] {
    match subject {
        Subject::Layers(_) => &[],
        Subject::Graph(network) => network.sample_shape(),
    }
}

/// Samples with classes; x may be flat, or have the axes of a `sample`.
pub(crate) fn dataset(
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    name: &str,
    sample: &[usize],
) -> PyResult<Dataset> {
    let x = Input::<f64>::read(x, "x")?;
    let [n, n_features] = size(x.shape(), sample)?;
    let y = Input::<i64>::read(y, "y")?;
    if y.shape() != [n] {
        return Err(PyValueError::new_err(format!("y has shape {}; expected ({n},)", shape_text(y.shape()))));
    }
    let label = |(sample, &class): (usize, &i64)| {
        usize::try_from(class).map_err(|_| {
            PyValueError::new_err(format!(
                "the label of sample {sample} is {class}, not a class counted from 0"
            ))
        })
    };
    let labels = y.slice()?.iter().enumerate().map(label).collect::<PyResult<_>>()?;
    let data = Dataset::new(name, n_features, x.slice()?.to_vec(), labels);
    data.map_err(|error| exception(error, x.shape()))
}

/// The samples of x and the features of each; x may be flat, or have the axes of a `sample`.
pub(crate) fn size(shape: &[usize], sample: &[usize]) -> PyResult<[usize; 2]> {
    match shape {
        &[n, n_features] => Ok([n, n_features]),
        [n, rest @ ..] if !rest.is_empty() && rest == sample => Ok([*n, sample.iter().product()]),
        shape => {
            let shape = shape_text(shape);
            Err(PyValueError::new_err(format!("x has shape {shape}, not (samples, features)")))
        }
    }
}

/// The features and classes of the embedded digits.
#[pyfunction]
#[pyo3(name = "_digits")]
pub(crate) fn digits<'py>(py: Python<'py>, part: &str) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let data = match part {
        "test" => Dataset::digits_test(),
        "train" => Dataset::digits_train(),
        _ => return Err(PyValueError::new_err(format!("part is {part:?}, not \"test\" or \"train\""))),
    };
    let x = output(py, data.features().to_vec(), &[data.len(), data.n_features()])?;
    // Classes as signed integers: what comes of subtracting them is what users expect.
    let y = data.labels().iter().map(|&class| class as i64).collect();
    Ok((x, output(py, y, &[data.len()])?))
}
