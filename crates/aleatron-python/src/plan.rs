//! The settings that every kind of evaluation takes, read once.

use crate::argument::{arithmetic, device, n_seeds, parse, sharing, width};
use crate::error::exception;
use crate::stream_network::read_settings;
use aleatron::eval::Plan;
use aleatron::fault::{FaultRate, FaultSites};
use aleatron::generator::{Sharing, WidthChoice};
use aleatron::network::{Arithmetic, ValueRange};
use aleatron::{CoreError, Device};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The passes of an evaluation; lengths, generators and margins have defaults.
#[pyclass(module = "aleatron", name = "_Plan", frozen)]
pub(crate) struct EvaluationPlan(pub(crate) Plan);

#[pymethods]
impl EvaluationPlan {
    #[new]
    #[pyo3(signature = (*, lengths, generators, seeds, width, sharing, layers, arithmetic, clip, margins, device, faults=None, fault_site=None, fault_kind=None, fault_layers=None))]
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
        faults: Option<Vec<f64>>,
        fault_site: Option<Vec<String>>,
        fault_kind: Option<String>,
        fault_layers: Option<Vec<String>>,
    ) -> PyResult<Self> {
        if faults.is_none()
            && (fault_site.is_some() || fault_kind.is_some() || fault_layers.is_some())
        {
            let text =
                "fault_site, fault_kind and fault_layers have no effect without rates: give faults";
            return Err(PyValueError::new_err(text));
        }
        let range = if clip { ValueRange::Saturate } else { ValueRange::Check };
        let mut plan = Plan { seeds, width, sharing, arithmetic, range, device, ..Plan::default() };
        if let Some(lengths) = lengths {
            plan.lengths = lengths;
        }
        if let Some(generators) = generators {
            let read =
                |name: &String| parse(name).map_err(|error: CoreError| exception(error, &[]));
            plan.generators = generators.iter().map(read).collect::<PyResult<_>>()?;
        }
        if let Some(margins) = margins {
            plan.margins = margins;
        }
        let fault = |error: CoreError| exception(error, &[]);
        if let Some(faults) = faults {
            let rates = faults.into_iter().map(FaultRate::new);
            plan.faults = rates.collect::<Result<_, _>>().map_err(fault)?;
        }
        if let Some(sites) = fault_site {
            let sites = sites.iter().map(|sites| parse::<FaultSites>(sites));
            plan.fault_sites = sites.collect::<Result<_, _>>().map_err(fault)?;
        }
        plan.fault_kind = fault_kind.map(|kind| parse(&kind)).transpose().map_err(fault)?;
        plan.fault_layers = fault_layers.unwrap_or_default();
        for (name, settings) in layers {
            read_settings(&settings, plan.layers.entry(name.extract()?).or_default())?;
        }
        Ok(Self(plan))
    }
}
