//! Exceptions: which of Python's own says best what went wrong.

use aleatron::core::Error as Core;
use aleatron::network::NetworkError;
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};

/// The exception for an error about an argument of the given shape.
///
/// Errors of the engine carry a flat index; Python's users think in the axes of their array.
pub(crate) fn exception(error: aleatron::Error, shape: &[usize]) -> PyErr {
    match error {
        aleatron::Error::Core(error) => core_exception(error, shape),
        aleatron::Error::UnknownDevice { .. } => PyValueError::new_err(error.to_string()),
        #[cfg(feature = "gpu")]
        aleatron::Error::Gpu(aleatron::gpu::Error::Device(
            aleatron::gpu::device::Error::OutOfMemory { .. }
            | aleatron::gpu::device::Error::HostMemory { .. },
        )) => PyMemoryError::new_err(error.to_string()),
        aleatron::Error::Network(NetworkError::Layer { ref source, .. }) => {
            // The kind of exception is that of the cause, the text that of the whole.
            let text = error.to_string();
            match **source {
                aleatron::Error::Core(Core::Memory { .. }) => PyMemoryError::new_err(text),
                aleatron::Error::Core(_) => PyValueError::new_err(text),
                _ => PyRuntimeError::new_err(text),
            }
        }
        aleatron::Error::Network(_) | aleatron::Error::Data(_) | aleatron::Error::Plan(_) => {
            PyValueError::new_err(error.to_string())
        }
        error => PyRuntimeError::new_err(error.to_string()),
    }
}

/// As [`exception`], for an error of the core.
pub(crate) fn core_exception(error: Core, shape: &[usize]) -> PyErr {
    match error {
        Core::Memory { .. } => PyMemoryError::new_err(error.to_string()),
        Core::OutOfRange { what, index, value, low, high } => {
            let place = place(index, shape);
            let value = if value.is_nan() { "nan".to_owned() } else { value.to_string() };
            PyValueError::new_err(format!("{what} {place}is {value}, not in [{low}, {high}]"))
        }
        error => PyValueError::new_err(error.to_string()),
    }
}

/// The exception for a panic that reached the boundary: a fault of ours, but not one to end the process with.
pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("unknown");
    PyRuntimeError::new_err(format!("internal error in aleatron, please report it: {text}"))
}

/// "at index 5 ", "at index (3, 7) ", or nothing for a scalar.
fn place(index: usize, shape: &[usize]) -> String {
    match shape {
        [] => String::new(),
        [_] => format!("at index {index} "),
        _ => {
            let mut rest = index;
            let mut axes: Vec<String> = shape
                .iter()
                .rev()
                .map(|&n| {
                    let n = n.max(1);
                    let i = rest % n;
                    rest /= n;
                    i.to_string()
                })
                .collect();
            axes.reverse();
            format!("at index ({}) ", axes.join(", "))
        }
    }
}
