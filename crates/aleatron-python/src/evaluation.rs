//! Evaluating networks: the run behind `evaluate`, and `Evaluation`, its result.

use crate::array::{Input, output, shape_text};
use crate::compute::{Interruption, compute};
use crate::error::exception;
use crate::network::Network;
use crate::plan::EvaluationPlan;
use crate::samples::batch_size;
use crate::warning::warn;
use aleatron::data::Dataset;
use aleatron::eval::{self, CheckpointFile, Error as EvalError, Progress};
use aleatron::{Cancel, Error};
use pyo3::exceptions::{PyAttributeError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The result of an evaluation: accuracy or errors against length and generator. Print it for a
/// table.
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

    /// Returns one line of comma-separated values for each generator, length and seed, under a
    /// heading.
    fn to_csv(&self) -> String {
        self.0.to_csv()
    }

    /// One dictionary for each generator and length, summed up over seeds: generator, length,
    /// layers, samples_per_second, bit_macs_per_second; for classes accuracy (with its
    /// interval), accuracies (of each seed), agreement, early, certain, confusion;
    /// cost (cycles, area and energy of the circuit, or the reason why there is none);
    /// for targets to_targets and to_float (each with mean_absolute, root_mean_square and
    /// r_squared, which have a mean and its interval).
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionaries(py, &self.0.rows())
    }

    /// One dictionary for each generator, length and seed, as in `to_json`.
    #[getter]
    fn cells<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionaries(py, &self.0.cells)
    }

    /// Returns a self-contained page with curves, tables and error maps.
    fn to_html(&self) -> String {
        eval::report::evaluation(&self.0)
    }

    /// Returns the shortest length from which on a generator stays within `points` percentage
    /// points of floating point, or None if even the longest does not.
    #[pyo3(signature = (generator, points=1.0))]
    fn shortest_within(&self, generator: &str, points: f64) -> PyResult<Option<usize>> {
        self.0
            .shortest_within(&generator.to_ascii_lowercase(), points)
            .map_err(|error| exception(error, &[]))
    }

    /// The accuracy in floating point; AttributeError for a regression.
    #[getter]
    fn float_accuracy(&self) -> PyResult<f64> {
        let missing = || {
            PyAttributeError::new_err(
                "a regression has no accuracy; its errors are in float_errors",
            )
        };
        self.0.float.classification().map(|float| float.accuracy).ok_or_else(missing)
    }

    /// The errors of floating point against the targets: mean_absolute, root_mean_square and
    /// r_squared; None for a classification.
    #[getter]
    fn float_errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionaries(py, &self.0.float.regression())
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
    let text =
        serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// The kind of the labels of samples.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labels {
    Classes,
    Targets,
}

impl<'py> FromPyObject<'_, 'py> for Labels {
    type Error = PyErr;

    fn extract(text: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match &*text.extract::<String>()? {
            "classes" => Ok(Self::Classes),
            "targets" => Ok(Self::Targets),
            other => {
                Err(PyValueError::new_err(format!("labels are {other:?}, not classes or targets")))
            }
        }
    }
}

/// Runs a plan. `checkpoint` is the state to resume from, `file` the path to save it in. `progress`
/// is called with (done, total, generator, length, seed) and ends the run by raising. Returns the
/// evaluation as JSON, and the exception.
#[pyfunction]
#[pyo3(name = "_evaluate")]
pub(crate) fn evaluate(
    py: Python<'_>,
    network: &Bound<'_, PyAny>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    labels: Labels,
    name: &str,
    plan: &Bound<'_, EvaluationPlan>,
    checkpoint: Option<&Bound<'_, Evaluation>>,
    file: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<Py<PyAny>>)> {
    let network = network_of(network)?;
    let plan = &plan.get().0;
    plan.check(&network).map_err(|error| exception(error, &[]))?;
    let data = dataset(&network, x, y, labels, name)?;
    let checkpoint = checkpoint.map(|checkpoint| checkpoint.get().0.clone());
    let (evaluation, raised) = with_progress(py, file, progress, |cancel, reporter| {
        let report = |p: Progress<'_>| {
            reporter.save(p.done, || p.evaluation.to_json());
            reporter.report((p.done, p.total, &p.generator.to_string(), p.length, p.seed));
        };
        match eval::evaluate(&network, &data, plan, checkpoint, cancel, report) {
            Ok(mut evaluation) => {
                eval::add_costs(&network, &data, &mut evaluation);
                Ok((evaluation, None))
            }
            Err(EvalError::Unfinished { done, source }) => Ok((*done, Some((*source).into()))),
            Err(error) => Err(error.into()),
        }
    })?;
    warn(py, &evaluation.warnings)?;
    let text = evaluation.to_json().map_err(|error| exception(error, &[]))?;
    Ok((text, raised))
}

/// A lock that excludes other processes, and other calls, from a checkpoint until it is released.
#[pyclass(module = "aleatron", name = "_FileLock", frozen, weakref)]
pub(crate) struct FileLock(Mutex<Option<eval::FileLock>>);

#[pymethods]
impl FileLock {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let lock = eval::FileLock::acquire(path).map_err(|error| exception(error, &[]))?;
        Ok(Self(Mutex::new(Some(lock))))
    }

    /// Leaves the lock to the parent, in a forked child.
    fn after_fork(&self) {
        // A thread that held the mutex does not exist in the child.
        if let Ok(mut lock) = self.0.try_lock()
            && let Some(lock) = lock.as_mut()
        {
            lock.after_fork();
        }
    }

    /// Releases the lock.
    fn release(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Reports the progress of an evaluation, and saves its state.
pub(crate) struct Reporter<'a> {
    interruption: &'a Interruption,
    progress: Option<Py<PyAny>>,
    file: Mutex<Option<CheckpointFile>>,
}

impl Reporter<'_> {
    /// Calls the function of the user with (done, total, generator, length, seed).
    pub(crate) fn report(&self, at: (usize, usize, &str, usize, u64)) {
        if let Some(progress) = &self.progress {
            self.interruption.call(|py| progress.call1(py, at).map(drop));
        }
    }

    /// Writes the state into the checkpoint, if there is one and it has fewer than `done` parts.
    pub(crate) fn save(&self, done: usize, state: impl FnOnce() -> Result<String, EvalError>) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = file.as_mut()
            && let Err(error) = file.update(done, state)
        {
            self.interruption.fail(exception(error, &[]));
        }
    }
}

/// Runs an evaluation without the interpreter, reports its progress and saves its state in `file`.
/// It ends early if the report raises or after Ctrl-C. Returns the result so far, and the
/// exception.
pub(crate) fn with_progress<T: Send>(
    py: Python<'_>,
    file: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
    run: impl FnOnce(Cancel<'_>, &Reporter<'_>) -> aleatron::Result<(T, Option<Error>)> + Send,
) -> PyResult<(T, Option<Py<PyAny>>)> {
    let interruption = Interruption::new(py)?;
    let is_set = || interruption.is_set();
    let file = Mutex::new(file.map(CheckpointFile::new));
    let reporter = Reporter { interruption: &interruption, progress, file };
    let made = compute(py, &[], || run(Cancel::when(&is_set), &reporter));
    let ((made, failure), raised) = match (made, interruption.into_raised()) {
        // Ended before there was a result.
        (Err(_), Some(raised)) => return Err(raised),
        (made, raised) => (made?, raised),
    };
    let raised = raised.or_else(|| failure.map(|error| exception(error, &[])));
    Ok((made, raised.map(|error| error.into_value(py).into_any())))
}

/// Reads a network.
pub(crate) fn network_of(network: &Bound<'_, PyAny>) -> PyResult<Arc<aleatron::network::Network>> {
    match network.cast::<Network>() {
        Ok(network) => Ok(Arc::clone(&network.get().network)),
        Err(_) => {
            let kind = network.get_type().name()?;
            Err(PyTypeError::new_err(format!("network is a {kind}, not an aleatron.Network")))
        }
    }
}

/// Reads samples with classes, or with one target or several; x is flat, or has the shape of the
/// network's input.
pub(crate) fn dataset(
    network: &aleatron::network::Network,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    labels: Labels,
    name: &str,
) -> PyResult<Dataset> {
    let x = Input::<f64>::read(x, "x")?;
    let [n, n_features] = batch_size(network, x.shape())?;
    if labels == Labels::Targets {
        let y = Input::<f64>::read(y, "y")?;
        let n_targets = match *y.shape() {
            [rows] if rows == n => 1,
            [rows, n_targets] if rows == n && n_targets > 0 => n_targets,
            _ => {
                let shape = shape_text(y.shape());
                let expected = format!("({n},) or ({n}, outputs)");
                return Err(PyValueError::new_err(format!(
                    "y has shape {shape}; expected {expected}"
                )));
            }
        };
        let (features, targets) = (x.slice()?.to_vec(), y.slice()?.to_vec());
        let data = Dataset::with_targets(name, n_features, features, n_targets, targets);
        return data.map_err(|error| exception(error, x.shape()));
    }
    let y = Input::<i64>::read(y, "y")?;
    if y.shape() != [n] {
        return Err(PyValueError::new_err(format!(
            "y has shape {}; expected ({n},)",
            shape_text(y.shape())
        )));
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

/// The features and classes of the embedded digits.
#[pyfunction]
#[pyo3(name = "_digits")]
pub(crate) fn digits<'py>(
    py: Python<'py>,
    part: &str,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let data = match part.to_ascii_lowercase().as_str() {
        "test" => Dataset::digits_test(),
        "train" => Dataset::digits_train(),
        _ => {
            return Err(PyValueError::new_err(format!(
                "part is {part:?}, not \"test\" or \"train\""
            )));
        }
    };
    let x = output(py, data.features().to_vec(), &[data.len(), data.n_features()])?;
    // Classes are signed integers, so that their differences are as users expect.
    let y = data.labels().iter().map(|&class| class as i64).collect();
    Ok((x, output(py, y, &[data.len()])?))
}
