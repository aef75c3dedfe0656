//! Samples as arguments, and the classes of their scores.

use crate::array::{Input, output, shape_text};
use aleatron::network::{Network, top_class};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Returns the number of samples of an argument; `None` for a single one. Samples are flat or have
/// the shape of the network's input.
pub(crate) fn n_samples(network: &Network, shape: &[usize]) -> PyResult<Option<usize>> {
    let (n, one) = (network.n_features(), network.input_shape());
    match shape {
        [samples, m] if *m == n => Ok(Some(*samples)),
        [m] if *m == n => Ok(None),
        shape if *shape == one => Ok(None),
        [samples, rest @ ..] if *rest == one => Ok(Some(*samples)),
        _ => {
            let sizes = one.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            let whole = if one.len() > 1 { format!(" or (N, {sizes})") } else { String::new() };
            let shape = shape_text(shape);
            Err(PyValueError::new_err(format!(
                "x has shape {shape}; expected (N, {n}){whole}, or one sample"
            )))
        }
    }
}

/// Returns the number of samples and of features of an argument that must have an axis of samples.
pub(crate) fn batch_size(network: &Network, shape: &[usize]) -> PyResult<[usize; 2]> {
    match shape {
        &[n, n_features] => Ok([n, n_features]),
        [n, rest @ ..] if !rest.is_empty() && *rest == network.input_shape() => {
            Ok([*n, network.n_features()])
        }
        shape => {
            let shape = shape_text(shape);
            Err(PyValueError::new_err(format!("x has shape {shape}, not (samples, features)")))
        }
    }
}

/// Returns the shape of the scores of samples.
pub(crate) fn score_shape(network: &Network, n_samples: Option<usize>) -> Vec<usize> {
    n_samples.into_iter().chain([network.n_outputs()]).collect()
}

/// Returns the classes of scores as signed integers, which users can subtract.
pub(crate) fn classes<'py>(
    n_outputs: usize,
    scores: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = scores.py();
    let scores = Input::<f64>::read(scores, "scores")?;
    let classes =
        scores.slice()?.chunks_exact(n_outputs.max(1)).map(|scores| top_class(scores) as i64);
    let outer = &scores.shape()[..scores.shape().len() - 1];
    output(py, classes.collect(), outer)
}

/// Returns the fraction of equal entries of two arrays of one shape.
pub(crate) fn accuracy(classes: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<f64> {
    let (classes, y) = (Input::<i64>::read(classes, "classes")?, Input::<i64>::read(y, "y")?);
    if classes.shape() != y.shape() {
        let (expected, actual) = (shape_text(classes.shape()), shape_text(y.shape()));
        return Err(PyValueError::new_err(format!("y has shape {actual}; expected {expected}")));
    }
    let equal = classes.slice()?.iter().zip(y.slice()?).filter(|(a, b)| a == b).count();
    Ok(equal as f64 / y.slice()?.len().max(1) as f64)
}
