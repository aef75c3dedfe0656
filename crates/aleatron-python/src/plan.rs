//! The settings that every kind of evaluation takes, read once.

use crate::argument::{arithmetic, device, n_seeds, parse, sharing, width};
use crate::error::exception;
use crate::stream_network::read_settings;
use aleatron::eval::Plan;
use aleatron::generator::{Sharing, WidthChoice};
use aleatron::network::{Arithmetic, ValueRange};
use aleatron::{CoreError, Device};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What is to be run; lengths, generators and margins have defaults.
#[pyclass(module = "aleatron", name = "_Plan", frozen)]
pub(crate) struct EvaluationPlan(pub(crate) Plan);

#[pymethods]
impl EvaluationPlan {
    #[new]
    #[pyo3(signature = (*, lengths, generators, seeds, width, sharing, layers, arithmetic, clip, margins, device))]
    fn new(
        lengths: Option<Vec<usize>>,
        generators: Option<Vec<String>>,
        #[pyo3(from_py_with = n_seeds)] seeds: usize,
        #[pyo3(from_py_with = width)] width: WidthChoice,
        #[pyo3(from_py_with = sharing)] sharing: Sharing,
        layers: &Bound<'_, PyDict>,
        #[pyo3(from_py_with = arithmetic)] arithmetic: Arithmetic,
        clip: bool,
        margins: Option<Vec<f64>>,
        #[pyo3(from_py_with = device)] device: Device,
    ) -> PyResult<Self> {
        let range = if clip { ValueRange::Saturate } else { ValueRange::Check };
        let mut plan = Plan { seeds, width, sharing, arithmetic, range, device, ..Plan::default() };
        if let Some(lengths) = lengths {
            plan.lengths = lengths;
        }
        if let Some(generators) = generators {
            let read = |name: &String| parse(name).map_err(|error: CoreError| exception(error, &[]));
            plan.generators = generators.iter().map(read).collect::<PyResult<_>>()?;
        }
        if let Some(margins) = margins {
            plan.margins = margins;
        }
        for (name, settings) in layers {
            read_settings(&settings, plan.layers.entry(name.extract()?).or_default())?;
        }
        Ok(Self(plan))
    }
}
