//! Arguments other than arrays, read with errors that say what was expected.

use crate::error::exception;
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::network::Arithmetic;
use aleatron::{Device, EngineError, Error, Polarity};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::fmt::Display;
use std::str::FromStr;

/// Returns a 64-bit seed.
pub(crate) fn seed(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    integer(value, "seed", "in [0, 2**64)")
}

/// Returns the number of inputs of a layer.
pub(crate) fn n_inputs(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n_inputs")
}

/// Returns the number of neurons of a layer.
pub(crate) fn n_neurons(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n_neurons")
}

/// Returns the number of channels of a convolution.
pub(crate) fn n_channels(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n_channels")
}

/// Returns the number of groups of a convolution.
pub(crate) fn groups(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "groups")
}

/// Returns the shape of a sample.
pub(crate) fn input_shape(value: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    value.try_iter()?.map(|part| size(&part?, "a size of input_shape")).collect()
}

/// Returns a size that is a name in a file.
pub(crate) fn axis_size(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "a size of sizes")
}

/// Returns a number of tokens to generate.
pub(crate) fn max_tokens(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "max_tokens")
}

/// Returns a number of tokens to choose among.
pub(crate) fn top_k(value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    if value.is_none() { Ok(None) } else { integer(value, "top_k", "in [0, 2**32)").map(Some) }
}

/// Returns a number of threads.
pub(crate) fn n_threads(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n")
}

/// Returns a number of bytes.
pub(crate) fn n_bytes(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n_bytes")
}

/// Returns a number of steps.
pub(crate) fn n_steps(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n_steps")
}

/// Returns a length in bits.
pub(crate) fn length(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "length")
}

/// Returns a number of seeds.
pub(crate) fn n_seeds(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "seeds")
}

/// Returns a 16-bit register or gain of a neuron.
pub(crate) fn register(value: &Bound<'_, PyAny>) -> PyResult<i16> {
    integer(value, "argument", "in [-32768, 32767]")
}

/// Returns a small unsigned number of a neuron: a width or a period.
pub(crate) fn period(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    integer(value, "argument", "in [0, 2**32)")
}

/// Returns a number of samples.
pub(crate) fn n_samples(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "n_samples")
}

/// Returns the index of a first sample.
pub(crate) fn first_sample(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    integer(value, "first_sample", "in [0, 2**32)")
}

/// Returns the device of a layer: a name, or a list of names for several devices as one.
pub(crate) fn device(value: &Bound<'_, PyAny>) -> PyResult<Device> {
    let names = match value.cast::<PyString>() {
        Ok(name) => name.to_str()?.to_owned(),
        Err(_) => match value.extract::<Vec<String>>() {
            Ok(names) => names.join(","),
            Err(_) => return Err(PyTypeError::new_err("device must be a name or a list of names")),
        },
    };
    parse(&names).map_err(|error: EngineError| exception(error, &[]))
}

/// Returns the polarity of streams.
pub(crate) fn polarity(value: &Bound<'_, PyAny>) -> PyResult<Polarity> {
    named(value, "polarity")
}

/// Returns a generator by its name.
pub(crate) fn generator(value: &Bound<'_, PyAny>) -> PyResult<GeneratorName> {
    named(value, "generator")
}

/// Returns the width of shared sequences: "auto" or a number of bits.
pub(crate) fn width(value: &Bound<'_, PyAny>) -> PyResult<WidthChoice> {
    named(value, "width")
}

/// Returns how many sequences streams share.
pub(crate) fn sharing(value: &Bound<'_, PyAny>) -> PyResult<Sharing> {
    named(value, "sharing")
}

/// Returns the arithmetic between layers.
pub(crate) fn arithmetic(value: &Bound<'_, PyAny>) -> PyResult<Arithmetic> {
    named(value, "arithmetic")
}

/// Parses a value from text, or from a number if the text may be one.
fn named<T>(value: &Bound<'_, PyAny>, name: &str) -> PyResult<T>
where
    T: FromStr,
    T::Err: Into<Error> + Display,
{
    let text = match value.cast::<PyString>() {
        Ok(text) => text.to_str()?.to_owned(),
        Err(_) => match value.extract::<i64>() {
            Ok(number) => number.to_string(),
            Err(_) => {
                return Err(PyTypeError::new_err(format!(
                    "{name} must be a str, not {}",
                    value.get_type().name()?
                )));
            }
        },
    };
    parse(&text).map_err(|error: T::Err| exception(error, &[]))
}

/// Parses a name, ignoring case; errors show the name as given.
pub(crate) fn parse<T: FromStr>(text: &str) -> Result<T, T::Err> {
    text.to_ascii_lowercase().parse().or_else(|_| text.parse())
}

/// Returns a number of neurons at a time.
pub(crate) fn lanes(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    size(value, "lanes")
}

fn size(value: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    integer(value, name, "in [0, 2**63)")
}

/// Reads an integer. One out of range raises ValueError with the name and the range, unlike
/// Python's `OverflowError`.
fn integer<'py, T>(value: &Bound<'py, PyAny>, name: &str, range: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    value.extract().map_err(|error: PyErr| {
        if !error.is_instance_of::<PyOverflowError>(value.py()) {
            return error;
        }
        // A number of hundreds of digits would bury the message.
        let text = value.str().and_then(|text| Ok(text.to_str()?.to_owned()));
        let shown = match text {
            Ok(text) if text.len() <= 40 => text,
            _ => "too large".to_owned(),
        };
        PyValueError::new_err(format!("{name} is {shown}, not {range}"))
    })
}
