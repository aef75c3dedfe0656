//! Arguments other than arrays, read with errors that say what was expected.

use crate::engine::check_fork;
use crate::error::exception;
use aleatron::{Device, Polarity};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;

/// A 64-bit seed.
pub(crate) fn seed(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    value.extract().map_err(|error| ranged(error, value, "seed", "in [0, 2**64)"))
}

/// The number of inputs of a layer.
pub(crate) fn n_inputs(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n_inputs")
}

/// The number of neurons of a layer.
pub(crate) fn n_neurons(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n_neurons")
}

/// A number of threads.
pub(crate) fn n_threads(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n")
}

/// A number of bytes.
pub(crate) fn n_bytes(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n_bytes")
}

/// A number of steps.
pub(crate) fn n_steps(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n_steps")
}

/// A length in bits.
pub(crate) fn length(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "length")
}

/// A 16-bit register or gain of a neuron.
pub(crate) fn register(value: &Bound<'_, PyAny>) -> PyResult<i16> {
    value.extract().map_err(|error| ranged(error, value, "argument", "in [-32768, 32767]"))
}

/// A small unsigned number of a neuron: a width or a period.
pub(crate) fn period(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    value.extract().map_err(|error| ranged(error, value, "argument", "in [0, 2**32)"))
}

/// A number of samples.
pub(crate) fn n_samples(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n_samples")
}

/// Where a layer runs.
pub(crate) fn read_device(name: &str) -> PyResult<Device> {
    let device = name.parse().map_err(|error| exception(error, &[]))?;
    check_fork(device)?;
    Ok(device)
}

/// How streams are read.
pub(crate) fn read_polarity(name: &str) -> PyResult<Polarity> {
    match name {
        "unipolar" => Ok(Polarity::Unipolar),
        "bipolar" => Ok(Polarity::Bipolar),
        other => {
            Err(PyValueError::new_err(format!("polarity is {other:?}, not \"unipolar\" or \"bipolar\"")))
        }
    }
}

/// The name [`read_polarity`] reads.
pub(crate) fn polarity_name(polarity: Polarity) -> &'static str {
    match polarity {
        Polarity::Unipolar => "unipolar",
        Polarity::Bipolar => "bipolar",
    }
}

fn size(value: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    value.extract().map_err(|error| ranged(error, value, name, "in [0, 2**63)"))
}

/// An integer out of range is a wrong value; Python's own `OverflowError` says neither which nor how far.
fn ranged(error: PyErr, value: &Bound<'_, PyAny>, name: &str, range: &str) -> PyErr {
    if error.is_instance_of::<PyOverflowError>(value.py()) {
        PyValueError::new_err(format!("{name} is {value}, not {range}"))
    } else {
        error
    }
}
