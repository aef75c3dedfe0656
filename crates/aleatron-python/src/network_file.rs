//! Networks from files and as files.

use crate::argument;
use crate::compute::compute;
use crate::error::exception;
use crate::tensor::tensor_of;
use aleatron::network::{Bindings, InputValue, Mode, Network};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyString};
use std::path::PathBuf;

/// The choices for a network from a file, as Python has them.
pub(crate) struct FileOptions<'a, 'py> {
    pub(crate) name: Option<&'a str>,
    pub(crate) binary: Option<&'a Bound<'py, PyAny>>,
    pub(crate) polarity: Option<&'a Bound<'py, PyAny>>,
    pub(crate) inputs: Option<&'a Bound<'py, PyDict>>,
    pub(crate) sizes: Option<&'a Bound<'py, PyDict>>,
    pub(crate) output: Option<String>,
}

impl FileOptions<'_, '_> {
    /// Reads a network from a path or from bytes.
    pub(crate) fn read(self, model: &Bound<'_, PyAny>) -> PyResult<Network> {
        let py = model.py();
        let (binary, polarity) =
            (names(self.binary)?, self.polarity.map(argument::polarity).transpose()?);
        let bindings = bindings(self.inputs, self.sizes, self.output)?;
        let mut network = match read_bytes(model)? {
            Some(bytes) => compute(py, &[], || Ok(Network::from_onnx_with(&bytes, &bindings)?))?,
            None => {
                let path = read_path(model, "model")?;
                compute(py, &[], || Ok(Network::load_with(&path, &bindings)?))?
            }
        };
        if let Some(name) = self.name {
            network = network.with_name(name);
        }
        if let Some(polarity) = polarity {
            network = network.with_polarity(polarity).map_err(|error| exception(error, &[]))?;
        }
        for name in binary {
            network =
                network.with_mode(&name, Mode::Binary).map_err(|error| exception(error, &[]))?;
        }
        Ok(network)
    }
}

/// Reads constants of inputs, sizes and the name of an output.
fn bindings(
    inputs: Option<&Bound<'_, PyDict>>,
    sizes: Option<&Bound<'_, PyDict>>,
    output: Option<String>,
) -> PyResult<Bindings> {
    let mut bindings = Bindings { output, ..Bindings::default() };
    for (name, value) in inputs.into_iter().flatten() {
        let name: String = name.extract()?;
        let constant = match value.cast::<PyFloat>() {
            Ok(number) => InputValue::Fill(number.value()),
            Err(_) if value.is_instance_of::<PyInt>() => InputValue::Fill(value.extract()?),
            Err(_) => {
                let arrays = value.py().import("aleatron._arrays")?;
                let array =
                    arrays.call_method1("as_constant", (&value, format!("inputs[{name:?}]")))?;
                InputValue::Tensor(tensor_of(&array)?)
            }
        };
        bindings.constants.insert(name, constant);
    }
    for (name, size) in sizes.into_iter().flatten() {
        bindings.sizes.insert(name.extract()?, argument::axis_size(&size)?);
    }
    Ok(bindings)
}

/// Reads the name of a layer, or several.
pub(crate) fn names(value: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    if let Ok(name) = value.cast::<PyString>() {
        return Ok(vec![name.to_str()?.to_owned()]);
    }
    let wrong = || PyTypeError::new_err("binary must be the name of a layer, or several names");
    let names = value.try_iter().map_err(|_| wrong())?;
    names.map(|name| name?.extract::<String>().map_err(|_| wrong())).collect()
}

/// Returns the bytes of an argument, if it is bytes.
fn read_bytes(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    let py = value.py();
    let is_bytes = value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance(&py.import("builtins")?.getattr("memoryview")?)?;
    if !is_bytes {
        return Ok(None);
    }
    let bytes = py.get_type::<PyBytes>().call1((value,))?;
    Ok(Some(bytes.cast::<PyBytes>()?.as_bytes().to_vec()))
}

/// Reads a path.
pub(crate) fn read_path(value: &Bound<'_, PyAny>, name: &str) -> PyResult<PathBuf> {
    let path = value.py().import("os")?.call_method1("fspath", (value,));
    let path = path.map_err(|_| {
        let kind = value.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
        PyTypeError::new_err(format!("{name} must be a path or bytes, not {kind}"))
    })?;
    path.extract()
}
