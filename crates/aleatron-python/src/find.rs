//! The search behind `find`.

use crate::argument::generator;
use crate::error::exception;
use crate::evaluation::{dataset, sample_shape, subject, watched};
use crate::plan::EvaluationPlan;
use aleatron::Error;
use aleatron::eval::{self, Found, Progress, Search};
use aleatron::generator::GeneratorName;
use pyo3::prelude::*;

/// Searches. `progress` is called with (trials done, the most of them, generator, longest length, 0) and ends the search by raising;
/// `known` is what an earlier search left. Returns what was found as JSON, and what was raised.
#[pyfunction]
#[pyo3(name = "_find")]
pub(crate) fn find(
    py: Python<'_>,
    network: &Bound<'_, PyAny>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    name: &str,
    plan: &Bound<'_, EvaluationPlan>,
    loss: f64,
    #[pyo3(from_py_with = generator)] generator: GeneratorName,
    longest: usize,
    shortest: usize,
    budget: usize,
    known: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<Py<PyAny>>)> {
    let subject = subject(network)?;
    let plan = &plan.get().0;
    let data = dataset(x, y, name, sample_shape(&subject))?;
    let known = known.map(Found::from_json).transpose().map_err(|error| exception(error, &[]))?;
    let search = Search { generator, loss, longest, shortest, budget };
    let named = generator.to_string();
    let (found, raised) = watched(py, progress, |cancel, report| {
        let found = eval::find(&subject, &data, plan, &search, known, cancel, |done| {
            report(Progress { done, total: budget, generator: &named, length: longest, seed: 0 });
        })?;
        Ok((found, None::<Error>))
    })?;
    Ok((found.to_json().map_err(|error| exception(error, &[]))?, raised))
}

/// Checks that text is what a search found, and returns it.
#[pyfunction]
#[pyo3(name = "_read_found")]
pub(crate) fn read_found(text: &str) -> PyResult<String> {
    Found::from_json(text).and_then(|found| found.to_json()).map_err(|error| exception(error, &[]))
}
