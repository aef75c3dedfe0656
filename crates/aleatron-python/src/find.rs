//! The search behind `find`.

use crate::argument::{arithmetic, device, generator, n_seeds, sharing, width};
use crate::error::exception;
use crate::evaluation::{dataset, read_plan, sample_shape, subject, watched};
use aleatron::eval::{self, Found, Progress, Search};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::network::Arithmetic;
use aleatron::{Device, Error};
use pyo3::prelude::*;
use pyo3::types::PyDict;

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
    loss: f64,
    #[pyo3(from_py_with = generator)] generator: GeneratorName,
    longest: usize,
    shortest: usize,
    budget: usize,
    #[pyo3(from_py_with = n_seeds)] seeds: usize,
    #[pyo3(from_py_with = width)] width: WidthChoice,
    #[pyo3(from_py_with = sharing)] sharing: Sharing,
    layers: &Bound<'_, PyDict>,
    #[pyo3(from_py_with = arithmetic)] arithmetic: Arithmetic,
    clip: bool,
    #[pyo3(from_py_with = device)] device: Device,
    known: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<Py<PyAny>>)> {
    let subject = subject(network)?;
    let plan = read_plan(None, None, seeds, width, sharing, layers, arithmetic, clip, None, device)?;
    let data = dataset(x, y, name, sample_shape(&subject))?;
    let known = known.map(Found::from_json).transpose().map_err(|error| exception(error, &[]))?;
    let search = Search { generator, loss, longest, shortest, budget };
    let named = generator.to_string();
    let (found, raised) = watched(py, progress, |cancel, report| {
        let found = eval::find(&subject, &data, &plan, &search, known, cancel, |done| {
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
