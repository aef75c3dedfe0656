//! The search behind `explore`.

use crate::error::exception;
use crate::evaluation::{Labels, dataset, network_of, with_progress};
use crate::plan::EvaluationPlan;
use aleatron::data::Dataset;
use aleatron::eval::{
    self, DesignSpace, EarlyTermination, Error, Exploration, Lanes, PendingTrial, Plan, report,
};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::network::Network;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::str::FromStr;

/// Reads names as values.
fn parsed<T: FromStr<Err: std::fmt::Display>>(names: &[String]) -> PyResult<Vec<T>> {
    let read =
        |name: &String| name.parse().map_err(|error| PyValueError::new_err(format!("{error}")));
    names.iter().map(read).collect()
}

/// An exploration: networks, samples and the space of designs.
#[pyclass(module = "aleatron._core", name = "_Explorer", frozen)]
pub(crate) struct Explorer {
    networks: Vec<Network>,
    data: Dataset,
    plan: Plan,
    space: DesignSpace,
}

#[pymethods]
impl Explorer {
    #[new]
    fn new(
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
        early: Vec<String>,
        lanes: Vec<String>,
        loss: f64,
        budget: usize,
    ) -> PyResult<Self> {
        let shared = networks.iter().map(network_of).collect::<PyResult<Vec<_>>>()?;
        let first =
            shared.first().ok_or_else(|| PyValueError::new_err("give at least one network"))?;
        let data = dataset(first, x, y, labels, name)?;
        let space = DesignSpace {
            generators: parsed::<GeneratorName>(&generators)?,
            lengths,
            sharings: parsed::<Sharing>(&sharings)?,
            widths: parsed::<WidthChoice>(&widths)?,
            early: parsed::<EarlyTermination>(&early)?,
            lanes: parsed::<Lanes>(&lanes)?,
            loss,
            budget,
        };
        let networks = shared.iter().map(|network| (**network).clone()).collect();
        Ok(Self { networks, data, plan: plan.get().0.clone(), space })
    }

    /// Explores designs. `progress` is called with (trials done, the most of them, "designs",
    /// longest length, 0) and ends the search by raising; `known` is the result of an earlier
    /// exploration, `file` the path to save the trials in. Returns the result as JSON, and the
    /// exception.
    fn explore(
        &self,
        py: Python<'_>,
        known: Option<&str>,
        file: Option<PathBuf>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(String, Option<Py<PyAny>>)> {
        let Self { networks, data, plan, space } = self;
        let known = read(known)?;
        let longest = space.lengths.iter().copied().max().unwrap_or(0);
        let (found, raised) = with_progress(py, file, progress, |cancel, reporter| {
            let report = |found: &Exploration| {
                reporter.save(found.trials.len(), || found.to_json());
                reporter.report((found.trials.len(), space.budget, "designs", longest, 0));
            };
            match eval::explore(networks, data, plan, space, known, cancel, report) {
                Ok(found) => Ok((found, None)),
                Err(Error::UnfinishedExploration { done, source }) => {
                    Ok((*done, Some((*source).into())))
                }
                Err(error) => Err(error.into()),
            }
        })?;
        Ok((found.to_json().map_err(|error| exception(error, &[]))?, raised))
    }

    /// Adds trials to an exploration, and returns it and the next trials that workers can run, all
    /// as JSON.
    fn advance(
        &self,
        py: Python<'_>,
        known: Option<&str>,
        trials: Vec<String>,
    ) -> PyResult<(String, Vec<String>)> {
        let Self { networks, data, plan, space } = self;
        let mut known = read(known)?;
        for trial in &trials {
            let fault = |error: serde_json::Error| PyValueError::new_err(error.to_string());
            let first =
                known.as_mut().ok_or_else(|| PyValueError::new_err("trials of no exploration"))?;
            first.trials.push(serde_json::from_str(trial).map_err(fault)?);
        }
        let ((found, pending), _) = with_progress(py, None, None, |cancel, _| {
            Ok((eval::pending_trials(networks, data, plan, space, known, cancel)?, None))
        })?;
        let pending = pending.iter().map(to_json).collect::<PyResult<Vec<_>>>()?;
        Ok((found.to_json().map_err(|error| exception(error, &[]))?, pending))
    }

    /// Runs one trial, and returns it with its scores, as JSON.
    fn run(&self, py: Python<'_>, trial: &str) -> PyResult<String> {
        let Self { networks, data, plan, space } = self;
        let trial: PendingTrial = serde_json::from_str(trial)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let (made, _) = with_progress(py, None, None, |cancel, _| {
            Ok((eval::run_trial(networks, data, plan, space, &trial, cancel)?, None))
        })?;
        to_json(&made)
    }
}

fn read(text: Option<&str>) -> PyResult<Option<Exploration>> {
    text.map(Exploration::from_json).transpose().map_err(|error| exception(error, &[]))
}

fn to_json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Checks that text is an exploration, and returns it, its table of comma-separated values, and its
/// page.
#[pyfunction]
#[pyo3(name = "_read_exploration")]
pub(crate) fn read_exploration(text: &str) -> PyResult<(String, String, String)> {
    let found = Exploration::from_json(text).map_err(|error| exception(error, &[]))?;
    let page = report::exploration(&found, |design| {
        format!("aleatron rtl NETWORK {}", design.rtl_options(&found.layers).join(" "))
    });
    Ok((found.to_json().map_err(|error| exception(error, &[]))?, found.to_csv(), page))
}
