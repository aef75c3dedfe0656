//! The layers of networks: specifications to build from, and layers of existing networks.

use crate::argument;
use crate::array::{Input, shape_text};
use crate::error::exception;
use crate::layer::read_only;
use aleatron::network::{Activation, Layer, Mode, Network, NetworkBuilder, ProductKind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Builds a network of instances of `aleatron.Layer`. Features become inputs as `(feature - offset)
/// / scale`, with one offset and scale for all features or one for each.
pub(crate) fn build(
    layers: &Bound<'_, PyAny>,
    name: &str,
    [offset, scale]: [Option<&Bound<'_, PyAny>>; 2],
) -> PyResult<Network> {
    let mut builder: Option<NetworkBuilder> = None;
    let mut n_outputs = None;
    for (k, layer) in layers.try_iter()?.enumerate() {
        let layer = layer?;
        let class = layer.py().import("aleatron._network")?.getattr("Layer")?;
        if !layer.is_instance(&class)? {
            let kind = layer.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "layer {k} is a {kind}, not an aleatron.Layer"
            )));
        }
        let name_of: Option<String> = layer.getattr("name")?.extract()?;
        let name_of = name_of.unwrap_or_else(|| k.to_string());
        // The class has checked the shapes.
        let weights = Input::<f64>::read(&layer.getattr("weights")?, "weights")?;
        let (n_neurons, n_inputs) = match *weights.shape() {
            [n_neurons, n_inputs] => (n_neurons, n_inputs),
            _ => (0, 0),
        };
        if let Some(n_outputs) = n_outputs
            && n_outputs != n_inputs
        {
            return Err(PyValueError::new_err(format!(
                "layer {k} ({name_of}) has {n_inputs} inputs, but the layer before it has {n_outputs} neurons"
            )));
        }
        let bias = layer.getattr("bias")?;
        let bias = if bias.is_none() { None } else { Some(Input::<f64>::read(&bias, "bias")?) };
        let bias = bias.as_ref().map_or(Ok(&[][..]), Input::slice)?;
        let started = match builder {
            Some(builder) => builder,
            None => {
                let [offset, scale] =
                    [numbers(offset, "offset", 0.0)?, numbers(scale, "scale", 1.0)?];
                NetworkBuilder::new(name, &[n_inputs]).features(&offset, &scale)
            }
        };
        let mut added = started
            .dense(&name_of, n_inputs, weights.slice()?, bias)
            .polarity(argument::polarity(&layer.getattr("polarity")?)?)
            .input_scale(layer.getattr("input_scale")?.extract()?)
            .activation(read_activation(&layer.getattr("activation")?)?);
        if let Some(weight_scale) = layer.getattr("weight_scale")?.extract::<Option<f64>>()? {
            added = added.weight_scale(weight_scale);
        }
        (builder, n_outputs) = (Some(added), Some(n_neurons));
    }
    // A builder without layers says that a network needs some.
    let builder = builder.unwrap_or_else(|| NetworkBuilder::new(name, &[1]));
    builder.build().map_err(|error| exception(error, &[]))
}

/// Reads a number, or one for each feature.
fn numbers(value: Option<&Bound<'_, PyAny>>, name: &str, default: f64) -> PyResult<Vec<f64>> {
    let Some(value) = value else { return Ok(vec![default]) };
    let values = Input::<f64>::read(value, name)?;
    if values.shape().len() > 1 {
        let shape = shape_text(values.shape());
        return Err(PyValueError::new_err(format!(
            "{name} has shape {shape}; expected a number, or one for each feature"
        )));
    }
    let values = values.slice()?;
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(PyValueError::new_err(format!(
            "{name} at index {index} is {}, not finite",
            values[index]
        ))),
        None => Ok(values.to_vec()),
    }
}

/// Reads "identity", "relu", or a pair of bounds.
pub(crate) fn read_activation(value: &Bound<'_, PyAny>) -> PyResult<Activation> {
    match value.extract::<String>() {
        Ok(name) => match name.to_ascii_lowercase().as_str() {
            "identity" => Ok(Activation::Identity),
            "relu" => Ok(Activation::Relu),
            _ => Err(PyValueError::new_err(format!(
                "activation is {name:?}, not \"identity\", \"relu\" or a pair of bounds"
            ))),
        },
        Err(_) => match value.extract::<(f64, f64)>() {
            Ok((low, high)) => Ok(Activation::Clamp { low, high }),
            Err(_) => Err(PyTypeError::new_err("activation must be a name or a pair of bounds")),
        },
    }
}

/// Returns a layer of a network as an `aleatron.NetworkLayer`.
pub(crate) fn describe<'py>(py: Python<'py>, layer: &Layer) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("aleatron._network")?.getattr("NetworkLayer")?;
    let (kind, shape) = match &layer.product.kind {
        ProductKind::Dense { n_inputs, n_neurons } => ("dense", vec![*n_neurons, *n_inputs]),
        ProductKind::Conv { kernel, n_channels, .. } => {
            ("convolution", [&[*n_channels], kernel.as_slice()].concat())
        }
    };
    let weights = layer.product.weights.iter().map(|&weight| f64::from(weight)).collect();
    let weights = read_only(py, weights, &shape)?;
    let bias = read_only(py, layer.biases(), &[layer.product.n_rows()])?;
    let runs_as = match layer.mode {
        Mode::Streams => "streams",
        Mode::Binary => "binary",
    };
    let scales = read_only(py, layer.weight_scales.clone(), &[layer.weight_scales.len()])?;
    let (polarity, scale) = (layer.polarity.name(), layer.input_scale);
    class.call1((&layer.name, kind, weights, bias, runs_as, polarity, scale, scales))
}
