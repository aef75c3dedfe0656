//! The search behind `find`.

use crate::argument::generator;
use crate::error::exception;
use crate::evaluation::{Labels, dataset, network_of, with_progress};
use crate::plan::EvaluationPlan;
use aleatron::eval::{self, Error, Found, Search};
use aleatron::generator::GeneratorName;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Searches. `progress` is called with (trials done, the most of them, generator, longest length,
/// 0) and ends the search by raising; `known` is the result of an earlier search, `file` the path
/// to save the trials in. Returns the result as JSON, and the exception.
#[pyfunction]
#[pyo3(name = "_find")]
pub(crate) fn find(
    py: Python<'_>,
    network: &Bound<'_, PyAny>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    labels: Labels,
    name: &str,
    plan: &Bound<'_, EvaluationPlan>,
    loss: f64,
    #[pyo3(from_py_with = generator)] generator: GeneratorName,
    longest: usize,
    shortest: usize,
    budget: usize,
    known: Option<&str>,
    file: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<Py<PyAny>>)> {
    let network = network_of(network)?;
    let plan = &plan.get().0;
    let data = dataset(&network, x, y, labels, name)?;
    let known = known.map(Found::from_json).transpose().map_err(|error| exception(error, &[]))?;
    let search = Search { generator, loss, longest, shortest, budget };
    let named = generator.to_string();
    let (found, raised) = with_progress(py, file, progress, |cancel, reporter| {
        let report = |found: &Found| {
            reporter.save(found.trials.len(), || found.to_json());
            reporter.report((found.trials.len(), budget, &named, longest, 0));
        };
        match eval::find(&network, &data, plan, &search, known, cancel, report) {
            Ok(mut found) => {
                eval::add_cost(&network, &data, plan, &mut found);
                Ok((found, None))
            }
            Err(Error::UnfinishedSearch { done, source }) => Ok((*done, Some((*source).into()))),
            Err(error) => Err(error.into()),
        }
    })?;
    Ok((found.to_json().map_err(|error| exception(error, &[]))?, raised))
}

/// Checks that text is the result of a search, and returns it.
#[pyfunction]
#[pyo3(name = "_read_found")]
pub(crate) fn read_found(text: &str) -> PyResult<String> {
    Found::from_json(text).and_then(|found| found.to_json()).map_err(|error| exception(error, &[]))
}
