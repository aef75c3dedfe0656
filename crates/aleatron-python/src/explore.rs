//! The search behind `explore`.

use crate::error::exception;
use crate::evaluation::{Labels, dataset, network_of, with_progress};
use crate::plan::EvaluationPlan;
use aleatron::eval::{self, DesignSpace, Error, Exploration, Lanes, report};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::str::FromStr;

/// Reads names as values.
fn parsed<T: FromStr<Err: std::fmt::Display>>(names: &[String]) -> PyResult<Vec<T>> {
    let read = |name: &String| name.parse().map_err(|error| PyValueError::new_err(format!("{error}")));
    names.iter().map(read).collect()
}

/// Explores designs. `progress` is called with (trials done, the most of them, "designs", longest length, 0) and ends the search by raising;
/// `known` is the result of an earlier exploration, `file` the path to save the trials in. Returns the result as JSON, and the exception.
#[pyfunction]
#[pyo3(name = "_explore")]
pub(crate) fn explore(
    py: Python<'_>,
    networks: Vec<Bound<'_, PyAny>>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    labels: Labels,
    name: &str,
    plan: &Bound<'_, EvaluationPlan>,
    generators: Vec<String>,
    lengths: Vec<usize>,
    sharings: Vec<String>,
    widths: Vec<String>,
    lanes: Vec<String>,
    loss: f64,
    budget: usize,
    known: Option<&str>,
    file: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<Py<PyAny>>)> {
    let shared = networks.iter().map(network_of).collect::<PyResult<Vec<_>>>()?;
    let first = shared.first().ok_or_else(|| PyValueError::new_err("give at least one network"))?;
    let plan = &plan.get().0;
    let data = dataset(first, x, y, labels, name)?;
    let space = DesignSpace {
        generators: parsed::<GeneratorName>(&generators)?,
        lengths,
        sharings: parsed::<Sharing>(&sharings)?,
        widths: parsed::<WidthChoice>(&widths)?,
        lanes: parsed::<Lanes>(&lanes)?,
        loss,
        budget,
    };
    let known = known.map(Exploration::from_json).transpose().map_err(|error| exception(error, &[]))?;
    let networks: Vec<_> = shared.iter().map(|network| (**network).clone()).collect();
    let longest = space.lengths.iter().copied().max().unwrap_or(0);
    let (found, raised) = with_progress(py, file, progress, |cancel, reporter| {
        let report = |found: &Exploration| {
            reporter.save(found.trials.len(), || found.to_json());
            reporter.report((found.trials.len(), budget, "designs", longest, 0));
        };
        match eval::explore(&networks, &data, plan, &space, known, cancel, report) {
            Ok(found) => Ok((found, None)),
            Err(Error::UnfinishedExploration { done, source }) => Ok((*done, Some((*source).into()))),
            Err(error) => Err(error.into()),
        }
    })?;
    Ok((found.to_json().map_err(|error| exception(error, &[]))?, raised))
}

/// Checks that text is an exploration, and returns it, its table of comma-separated values, and its page.
#[pyfunction]
#[pyo3(name = "_read_exploration")]
pub(crate) fn read_exploration(text: &str) -> PyResult<(String, String, String)> {
    let found = Exploration::from_json(text).map_err(|error| exception(error, &[]))?;
    let page = report::exploration(&found, |design| {
        format!("aleatron rtl NETWORK {}", design.rtl_options(&found.layers).join(" "))
    });
    Ok((found.to_json().map_err(|error| exception(error, &[]))?, found.to_csv(), page))
}
