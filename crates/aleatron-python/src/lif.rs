//! Fixed-point leaky integrate-and-fire neurons.

use crate::argument::{n_steps, period, register};
use crate::array::{Input, output, shape_text};
use crate::compute::compute_with_cancellation;
use crate::error::core_exception;
use aleatron::{Cancel, Cpu, LifDrive, LifParams, LifTrace};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn params(
    data_width: u32,
    fraction: u32,
    v_rest: i16,
    v_reset: i16,
    v_threshold: i16,
    refractory_period: u32,
) -> PyResult<LifParams> {
    let params =
        LifParams::new(data_width, fraction).map_err(|error| core_exception(error, &[]))?;
    let params = params.with_rest(v_rest).with_reset(v_reset).with_threshold(v_threshold);
    Ok(params.with_refractory_period(refractory_period))
}

type Trace<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

fn trace_out<'py>(py: Python<'py>, trace: LifTrace, shape: &[usize]) -> PyResult<Trace<'py>> {
    Ok((output(py, trace.spikes, shape)?, output(py, trace.voltages, shape)?))
}

/// A vector argument.
fn vector<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Input<'py, i16>> {
    let input = Input::read(value, name)?;
    if input.shape().len() == 1 {
        return Ok(input);
    }
    Err(PyValueError::new_err(format!("{name} has shape {}, not (n,)", shape_text(input.shape()))))
}

/// Runs one fixed-point neuron from rest under a constant current.
///
/// Potentials are integers of `data_width` bits, `fraction` of them after the point; see
/// `FixedPointLif` for the step.
///
/// Returns
/// -------
/// spikes, voltages
///     uint8 and int16 of shape (n_steps,): 1 where the neuron spiked, and the potential after each
///     step.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> spikes, voltages = al.lif_run(4, leak_k=20, gain_k=256, current=100)
/// >>> spikes.tolist(), voltages.tolist()
/// ([0, 0, 1, 0], [100, 192, 0, 0])
#[pyfunction]
#[pyo3(signature = (
    n_steps, leak_k, gain_k, current, noise=0, *, data_width=16, fraction=8, v_rest=0, v_reset=0, v_threshold=256,
    refractory_period=2
))]
pub(crate) fn lif_run<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = n_steps)] n_steps: usize,
    #[pyo3(from_py_with = register)] leak_k: i16,
    #[pyo3(from_py_with = register)] gain_k: i16,
    #[pyo3(from_py_with = register)] current: i16,
    #[pyo3(from_py_with = register)] noise: i16,
    #[pyo3(from_py_with = period)] data_width: u32,
    #[pyo3(from_py_with = period)] fraction: u32,
    #[pyo3(from_py_with = register)] v_rest: i16,
    #[pyo3(from_py_with = register)] v_reset: i16,
    #[pyo3(from_py_with = register)] v_threshold: i16,
    #[pyo3(from_py_with = period)] refractory_period: u32,
) -> PyResult<Trace<'py>> {
    let params = params(data_width, fraction, v_rest, v_reset, v_threshold, refractory_period)?;
    let drive = LifDrive { leak_k, gain_k, current, noise };
    let run =
        |cancel: Cancel<'_>| Ok(Cpu::current()?.lif_run_with(params, drive, n_steps, cancel)?);
    let trace = compute_with_cancellation(py, &[], run)?;
    trace_out(py, trace, &[n_steps])
}

/// Runs one fixed-point neuron from rest for each current, all for `n_steps`.
///
/// Returns
/// -------
/// spikes, voltages
///     uint8 and int16 of shape (len(currents), n_steps).
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> spikes, voltages = al.lif_run_multi(1000, leak_k=20, gain_k=256, currents=[0, 50, 100])
/// >>> spikes.sum(axis=1).tolist()
/// [0, 111, 200]
#[pyfunction]
#[pyo3(signature = (
    n_steps, leak_k, gain_k, currents, noise=0, *, data_width=16, fraction=8, v_rest=0, v_reset=0, v_threshold=256,
    refractory_period=2
))]
pub(crate) fn lif_run_multi<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = n_steps)] n_steps: usize,
    #[pyo3(from_py_with = register)] leak_k: i16,
    #[pyo3(from_py_with = register)] gain_k: i16,
    currents: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = register)] noise: i16,
    #[pyo3(from_py_with = period)] data_width: u32,
    #[pyo3(from_py_with = period)] fraction: u32,
    #[pyo3(from_py_with = register)] v_rest: i16,
    #[pyo3(from_py_with = register)] v_reset: i16,
    #[pyo3(from_py_with = register)] v_threshold: i16,
    #[pyo3(from_py_with = period)] refractory_period: u32,
) -> PyResult<Trace<'py>> {
    let params = params(data_width, fraction, v_rest, v_reset, v_threshold, refractory_period)?;
    let drive = LifDrive { leak_k, gain_k, current: 0, noise };
    let currents = vector(currents, "currents")?;
    let slice = currents.slice()?;
    let run = |cancel: Cancel<'_>| {
        Ok(Cpu::current()?.lif_run_multi_with(params, drive, slice, n_steps, cancel)?)
    };
    let trace = compute_with_cancellation(py, &[], run)?;
    trace_out(py, trace, &[slice.len(), n_steps])
}

/// Runs one fixed-point neuron from rest, with a current and perhaps a noise for each step.
///
/// Returns
/// -------
/// spikes, voltages
///     uint8 and int16 of shape (len(currents),).
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> spikes, voltages = al.lif_run_varying(20, 256, currents=[100, 0, 300, 0, 0])
/// >>> spikes.tolist(), voltages.tolist()
/// ([0, 0, 1, 0, 0], [100, 92, 0, 0, 0])
#[pyfunction]
#[pyo3(signature = (
    leak_k, gain_k, currents, noises=None, *, data_width=16, fraction=8, v_rest=0, v_reset=0, v_threshold=256,
    refractory_period=2
))]
pub(crate) fn lif_run_varying<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = register)] leak_k: i16,
    #[pyo3(from_py_with = register)] gain_k: i16,
    currents: &Bound<'py, PyAny>,
    noises: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = period)] data_width: u32,
    #[pyo3(from_py_with = period)] fraction: u32,
    #[pyo3(from_py_with = register)] v_rest: i16,
    #[pyo3(from_py_with = register)] v_reset: i16,
    #[pyo3(from_py_with = register)] v_threshold: i16,
    #[pyo3(from_py_with = period)] refractory_period: u32,
) -> PyResult<Trace<'py>> {
    let params = params(data_width, fraction, v_rest, v_reset, v_threshold, refractory_period)?;
    let drive = LifDrive { leak_k, gain_k, current: 0, noise: 0 };
    let currents = vector(currents, "currents")?;
    let noises = noises.map(|noises| vector(noises, "noises")).transpose()?;
    let noises = noises.as_ref().map(Input::slice).transpose()?;
    let slice = currents.slice()?;
    let run = |cancel: Cancel<'_>| {
        Ok(Cpu::current()?.lif_run_varying_with(params, drive, slice, noises, cancel)?)
    };
    let trace = compute_with_cancellation(py, &[], run)?;
    trace_out(py, trace, &[slice.len()])
}

/// One fixed-point neuron with its state.
///
/// While its refractory counter runs, a step counts down, holds the potential at rest and stays
/// silent. Else
///
///     leak = wrap((v_rest - v) * leak_k >> fraction)
///     gain = wrap(current * gain_k >> fraction)
///     v' = wrap(v + leak + gain + noise)
///
/// in two's complement of `data_width` bits; at or above `v_threshold` the neuron spikes, its
/// potential becomes `v_reset` and its counter `refractory_period`.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> neuron = al.FixedPointLif()
/// >>> [neuron.step(leak_k=20, gain_k=256, current=100) for _ in range(4)]
/// [(0, 100), (0, 192), (1, 0), (0, 0)]
/// >>> neuron.v, neuron.refractory_counter
/// (0, 1)
#[pyclass(module = "aleatron", frozen)]
pub(crate) struct FixedPointLif(Mutex<aleatron::FixedPointLif>);

impl FixedPointLif {
    fn state(&self) -> MutexGuard<'_, aleatron::FixedPointLif> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl FixedPointLif {
    #[new]
    #[pyo3(signature = (
        data_width=16, fraction=8, v_rest=0, v_reset=0, v_threshold=256, refractory_period=2
    ))]
    fn new(
        #[pyo3(from_py_with = period)] data_width: u32,
        #[pyo3(from_py_with = period)] fraction: u32,
        #[pyo3(from_py_with = register)] v_rest: i16,
        #[pyo3(from_py_with = register)] v_reset: i16,
        #[pyo3(from_py_with = register)] v_threshold: i16,
        #[pyo3(from_py_with = period)] refractory_period: u32,
    ) -> PyResult<Self> {
        let params = params(data_width, fraction, v_rest, v_reset, v_threshold, refractory_period)?;
        Ok(Self(Mutex::new(aleatron::FixedPointLif::new(params))))
    }

    /// Steps once; returns whether it spiked (0 or 1) and the potential after the step.
    #[pyo3(signature = (leak_k, gain_k, current, noise=0))]
    fn step(
        &self,
        #[pyo3(from_py_with = register)] leak_k: i16,
        #[pyo3(from_py_with = register)] gain_k: i16,
        #[pyo3(from_py_with = register)] current: i16,
        #[pyo3(from_py_with = register)] noise: i16,
    ) -> (u8, i16) {
        let (spike, v) = self.state().step(LifDrive { leak_k, gain_k, current, noise });
        (spike.into(), v)
    }

    /// Puts the neuron back to rest.
    fn reset(&self) {
        self.state().reset();
    }

    /// The potential.
    #[getter]
    fn v(&self) -> i16 {
        self.state().v()
    }

    /// The steps it stays silent.
    #[getter]
    fn refractory_counter(&self) -> u32 {
        self.state().refractory_counter()
    }

    fn __copy__(&self) -> Self {
        Self(Mutex::new(*self.state()))
    }

    /// As `__copy__`.
    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.__copy__()
    }

    #[staticmethod]
    fn _in_state(
        constants: (u32, u32, i16, i16, i16, u32),
        v: i16,
        refractory_counter: u32,
    ) -> PyResult<Self> {
        let (data_width, fraction, v_rest, v_reset, v_threshold, refractory_period) = constants;
        let params = params(data_width, fraction, v_rest, v_reset, v_threshold, refractory_period)?;
        Ok(Self(Mutex::new(aleatron::FixedPointLif::in_state(params, v, refractory_counter))))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let neuron = slf.get().state();
        let p = neuron.params();
        let constants = (
            p.data_width(),
            p.fraction(),
            p.v_rest(),
            p.v_reset(),
            p.v_threshold(),
            p.refractory_period(),
        );
        let arguments = (constants, neuron.v(), neuron.refractory_counter());
        Ok((slf.getattr("_in_state")?, arguments.into_pyobject(slf.py())?.into_any()))
    }

    fn __repr__(&self) -> String {
        let neuron = self.state();
        let p = neuron.params();
        format!(
            "FixedPointLif(data_width={}, fraction={}, v_rest={}, v_reset={}, v_threshold={}, refractory_period={})",
            p.data_width(),
            p.fraction(),
            p.v_rest(),
            p.v_reset(),
            p.v_threshold(),
            p.refractory_period(),
        )
    }
}
