//! Judging networks: the run behind `evaluate`, and `Evaluation`, which holds what it found.

use crate::argument::read_device;
use crate::array::{Input, output, shape_text};
use crate::compute::compute;
use crate::error::exception;
use crate::network::{Network, read_sharing};
use aleatron::core::generator::Width;
use aleatron::data::Dataset;
use aleatron::eval::{self, Plan, Progress};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ops::ControlFlow;

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
#[pyclass(module = "aleatron", frozen)]
pub(crate) struct Evaluation(eval::Evaluation);

#[pymethods]
impl Evaluation {
    /// Reads what `to_json` gave.
    #[classmethod]
    fn from_json(_cls: &Bound<'_, PyType>, text: &str) -> PyResult<Self> {
        let read = serde_json::from_str(text);
        read.map(Self).map_err(|error| PyValueError::new_err(format!("this is no evaluation: {error}")))
    }

    /// Returns everything as JSON.
    fn to_json(&self) -> PyResult<String> {
        json(&self.0)
    }

    /// One dictionary for each generator and length, summed up over seeds: generator, length, accuracy (with its interval),
    /// agreement, layers, early, samples_per_second, bit_macs_per_second, confusion.
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
    fn shortest_within(&self, generator: &str, points: f64) -> Option<usize> {
        self.0.shortest_within(generator, points)
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

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        let e = &self.0;
        format!(
            "Evaluation(network={:?}, samples={}, cells={} of {})",
            e.network.name,
            e.data.samples,
            e.cells.len(),
            e.plan.cells
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.getattr("from_json")?, (slf.get().to_json()?,)))
    }
}

fn dictionaries<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json(value)?,))
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string_pretty(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Runs a plan. `progress` is called with (done, total, generator, length, seed) and ends the run by raising; returns what
/// is done, and what it raised.
#[pyfunction]
#[pyo3(name = "_evaluate")]
pub(crate) fn evaluate(
    py: Python<'_>,
    network: &Bound<'_, Network>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    name: &str,
    lengths: Option<Vec<usize>>,
    generators: Option<Vec<String>>,
    seeds: usize,
    width: u32,
    sharing: &str,
    margins: Option<Vec<f64>>,
    device: &str,
    earlier: Option<&Bound<'_, Evaluation>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Evaluation, Option<Py<PyAny>>)> {
    let plan = plan(lengths, generators, seeds, width, sharing, margins, device)?;
    let data = dataset(x, y, name)?;
    let earlier = earlier.map(|earlier| earlier.get().0.clone());
    let network = &network.get().0;
    let mut raised: Option<PyErr> = None;
    let report = |p: Progress<'_>| {
        let result = Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = &progress {
                progress.call1(py, (p.done, p.total, p.generator, p.length, p.seed))?;
            }
            Ok(())
        });
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let evaluation = compute(py, &[], || eval::evaluate(network, &data, &plan, earlier, report))?;
    Ok((Evaluation(evaluation), raised.map(|error| error.into_value(py).into_any())))
}

fn plan(
    lengths: Option<Vec<usize>>,
    generators: Option<Vec<String>>,
    seeds: usize,
    width: u32,
    sharing: &str,
    margins: Option<Vec<f64>>,
    device: &str,
) -> PyResult<Plan> {
    let mut plan = Plan {
        seeds,
        width: Width::new(width).map_err(|error| exception(error.into(), &[]))?,
        sharing: read_sharing(sharing)?,
        device: read_device(device)?,
        ..Plan::default()
    };
    if let Some(lengths) = lengths {
        plan.lengths = lengths;
    }
    if let Some(generators) = generators {
        let parse = |name: &String| name.parse().map_err(|error| exception(error, &[]));
        plan.generators = generators.iter().map(parse).collect::<PyResult<_>>()?;
    }
    if let Some(margins) = margins {
        plan.margins = margins;
    }
    Ok(plan)
}

fn dataset(x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>, name: &str) -> PyResult<Dataset> {
    let x = Input::<f64>::read(x, "x")?;
    let &[_, n_features] = x.shape() else {
        let shape = shape_text(x.shape());
        return Err(PyValueError::new_err(format!("x has shape {shape}, not (samples, features)")));
    };
    let y = Input::<u64>::read(y, "y")?;
    if y.shape().len() != 1 {
        return Err(PyValueError::new_err(format!("y has shape {}, not (samples,)", shape_text(y.shape()))));
    }
    // A class past the address space is past the network's too, and is refused as such.
    let labels = y.slice()?.iter().map(|&class| usize::try_from(class).unwrap_or(usize::MAX)).collect();
    let data = Dataset::new(name, n_features, x.slice()?.to_vec(), labels);
    data.map_err(|error| exception(error, x.shape()))
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
