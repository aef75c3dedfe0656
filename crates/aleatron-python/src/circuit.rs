//! `Circuit`: the circuit of a network, its integers, its Verilog and its cost.

use crate::array::{Input, output};
use crate::compute::compute;
use crate::evaluation::dictionaries;
use crate::samples::n_samples;
use aleatron::hardware::cost::Technology;
use aleatron::hardware::{self, Bench, Design, InputInterval, Margin, Options, Output, Pipeline};
use aleatron::network::{Network, StreamConfig};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::path::PathBuf;
use std::sync::Arc;

/// The circuit of a network in integers; `Network.circuit` creates it. It computes what the engine
/// computes, count by count.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> x, y = al.load_digits()
/// >>> circuit = al.Network.digits().circuit(64, "lfsr")
/// >>> circuit.stages
/// ['n_hidden', 'n_output_thresholds', 'n_output']
/// >>> circuit.cycles
/// 193
/// >>> trace = circuit.trace(x[:3])
/// >>> [stage["values"].shape for stage in trace["stages"]]
/// [(3, 64), (3, 64), (3, 10)]
#[pyclass(module = "aleatron", frozen)]
pub(crate) struct Circuit {
    network: Arc<Network>,
    circuit: hardware::Circuit,
    options: Options,
}

impl Circuit {
    pub(crate) fn new(
        py: Python<'_>,
        network: &Arc<Network>,
        config: &StreamConfig,
        options: Options,
    ) -> PyResult<Self> {
        if options.lanes == Some(0) {
            return Err(crate::error::exception(hardware::Error::NoLanes, &[]));
        }
        let network = Arc::clone(network);
        let build = || Ok(hardware::Circuit::new(&network, config, &options)?);
        let circuit = compute(py, &[], build)?;
        Ok(Self { network, circuit, options })
    }

    /// Computes the integers of samples; the second value is their number, `None` for a single one.
    fn run(&self, x: &Bound<'_, PyAny>) -> PyResult<(hardware::Trace, Option<usize>)> {
        let x_array = Input::<f64>::read(x, "x")?;
        let n = n_samples(&self.network, x_array.shape())?;
        let features = x_array.slice()?;
        let trace = compute(x.py(), x_array.shape(), || Ok(self.circuit.trace(features)?))?;
        Ok((trace, n))
    }
}

#[pymethods]
impl Circuit {
    /// The names of the stages, each behind those it reads.
    #[getter]
    fn stages(&self) -> Vec<&str> {
        self.circuit.stages.iter().map(|stage| stage.name.as_str()).collect()
    }

    /// The cycles from one sample to the next: those of the slowest stage.
    #[getter]
    fn cycles(&self) -> PyResult<u64> {
        let cost = self.circuit.cost(&self.options, Technology::Generic, None);
        cost.map(|cost| cost.cycles).map_err(|error| crate::error::exception(error, &[]))
    }

    /// Returns the description as JSON: thresholds, signs, sequences, widths, biases, multipliers,
    /// shifts and bounds, all in integers.
    fn to_json(&self) -> PyResult<String> {
        self.circuit.to_json().map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// Returns the description as a dict, as in `to_json`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dictionaries(py, &self.circuit)
    }

    /// Computes the integers of samples with the engine, as the circuit has them.
    ///
    /// Parameters
    /// ----------
    /// x
    ///     Features, a batch or one sample.
    ///
    /// Returns
    /// -------
    /// dict
    ///     "inputs" has the thresholds that enter the circuit. "stages" has a dict for each stage:
    ///     its name, its operation, its outputs ("values": accumulators of a layer, thresholds
    ///     behind a requantizer, scores), and for layers the counts ("counts"). Words of signed
    ///     inputs have the sign above the threshold. With early termination, "early" has the stream
    ///     cycles of each sample in the last layer ("cycles") and its class ("classes"); the stages
    ///     are those of all cycles.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> x, y = al.load_digits()
    /// >>> network = al.Network.digits()
    /// >>> trace = network.circuit(64, "sobol").trace(x[:2])
    /// >>> outputs = network.streams(64, "sobol", arithmetic="integer").layer_outputs(x[:2])
    /// >>> bool((trace["stages"][0]["counts"] == outputs[0]["counts"]).all())
    /// True
    fn trace<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let py = x.py();
        let (trace, n) = self.run(x)?;
        let shape = |len: usize| match n {
            Some(n) => vec![n, len.checked_div(n).unwrap_or(0)],
            None => vec![len],
        };
        let stages = PyList::empty(py);
        for (stage, traced) in self.circuit.stages.iter().zip(trace.stages) {
            let dict = PyDict::new(py);
            dict.set_item("name", traced.name)?;
            dict.set_item("operation", stage.operation.name())?;
            if !traced.counts.is_empty() {
                let counts = shape(traced.counts.len());
                dict.set_item("counts", output(py, traced.counts, &counts)?)?;
            }
            let values = shape(traced.values.len());
            dict.set_item("values", output(py, traced.values, &values)?)?;
            stages.append(dict)?;
        }
        let dict = PyDict::new(py);
        let inputs = shape(trace.inputs.len());
        dict.set_item("inputs", output(py, trace.inputs, &inputs)?)?;
        dict.set_item("stages", stages)?;
        if let Some(early) = trace.early {
            let dict_early = PyDict::new(py);
            let one = shape(early.classes.len());
            let one = if n.is_some() { &one[..1] } else { &[] };
            let integers =
                |list: Vec<usize>| list.into_iter().map(|value| value as i64).collect::<Vec<_>>();
            dict_early.set_item("cycles", output(py, integers(early.cycles), one)?)?;
            dict_early.set_item("classes", output(py, integers(early.classes), one)?)?;
            dict.set_item("early", dict_early)?;
        }
        Ok(dict)
    }

    /// Writes the Verilog of the circuit, its README, Makefile and description below a folder, and
    /// the test benches if samples are given.
    ///
    /// Parameters
    /// ----------
    /// folder
    ///     The folder, which is created if it is missing.
    /// x
    ///     Features whose integers the test bench compares, a batch or one sample; None for no test
    ///     bench.
    ///
    /// Returns
    /// -------
    /// list of str
    ///     The paths of the files below the folder.
    #[pyo3(signature = (folder, x=None))]
    fn write(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        x: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<String>> {
        let trace = x.map(|x| self.run(x)).transpose()?;
        compute(py, &[], || {
            let design = Design::new(&self.circuit, &self.options)?;
            design.write(&folder)?;
            let mut paths: Vec<String> =
                design.files().iter().map(|file| file.path.clone()).collect();
            if let Some((trace, _)) = &trace {
                let bench = Bench::new(&self.circuit, &self.options, trace)?;
                bench.write(&folder)?;
                paths.extend(bench.files().iter().map(|file| file.path.clone()));
            }
            Ok(paths)
        })
    }

    /// Returns the cost by a model that was fitted to synthesized circuits, without synthesis.
    ///
    /// Parameters
    /// ----------
    /// x
    ///     Features, a batch or one sample, that the energy is for; None for inputs that take all
    ///     values alike.
    /// technology
    ///     "generic" or "sky130".
    ///
    /// Returns
    /// -------
    /// dict
    ///     "cycles" from one sample to the next, "latency" of a sample in cycles, "area" in gate
    ///     equivalents, "energy" of a sample in nanojoules, and both by part in "area_parts" and
    ///     "energy_parts".
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> cost = al.Network.digits().circuit(64, "lfsr", lanes=8).cost()
    /// >>> cost["cycles"], cost["area"] > 0, cost["energy"] > 0
    /// (648, True, True)
    #[pyo3(
        signature = (x=None, *, technology=Technology::Generic),
        text_signature = "($self, x=None, *, technology='generic')"
    )]
    fn cost<'py>(
        &self,
        py: Python<'py>,
        x: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = technology)] technology: Technology,
    ) -> PyResult<Bound<'py, PyAny>> {
        let trace = x.map(|x| self.run(x)).transpose()?;
        let trace = trace.as_ref().map(|(trace, _)| trace);
        let cost = compute(py, &[], || Ok(self.circuit.cost(&self.options, technology, trace)?))?;
        dictionaries(py, &cost)
    }

    fn __repr__(&self) -> String {
        format!("Circuit({:?}, stages={:?})", self.circuit.name, self.stages())
    }
}

/// Reads the name of a technology.
pub(crate) fn technology(value: &Bound<'_, PyAny>) -> PyResult<Technology> {
    let Ok(text) = value.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!(
            "technology must be a str, not {}",
            value.get_type().name()?
        )));
    };
    text.to_str()?.to_ascii_lowercase().parse().map_err(PyValueError::new_err)
}

/// Reads what leaves a circuit.
pub(crate) fn circuit_output(value: &Bound<'_, PyAny>) -> PyResult<Output> {
    match value.extract::<String>()?.to_ascii_lowercase().as_str() {
        "scores" => Ok(Output::Scores),
        "class" => Ok(Output::Class),
        other => {
            Err(PyValueError::new_err(format!("output is {other:?}, not \"scores\" or \"class\"")))
        }
    }
}

/// Returns the options of a circuit.
pub(crate) fn options(
    lanes: Option<&Bound<'_, PyAny>>,
    pipeline: bool,
    output: Output,
    non_negative: bool,
    early_margin: Option<f64>,
) -> PyResult<Options> {
    Ok(Options {
        lanes: lanes.map(crate::argument::lanes).transpose()?,
        pipeline: if pipeline { Pipeline::Registers } else { Pipeline::None },
        output,
        inputs: if non_negative { InputInterval::NonNegative } else { InputInterval::Signed },
        early_termination: early_margin
            .map(|margin| {
                Margin::new(margin).map_err(|error| PyValueError::new_err(error.to_string()))
            })
            .transpose()?,
        ..Options::default()
    })
}
