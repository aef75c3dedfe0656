//! Conversion of errors to Python exceptions.

use crate::{tensor, transformer};
use aleatron::data::Error as DataError;
use aleatron::eval::Error as EvalError;
use aleatron::hardware::Error as HardwareError;
use aleatron::train::Error as TrainError;
use aleatron::{CoreError, EngineError, Error};
use aleatron_core::BackendFault;
use aleatron_graph::Error as GraphError;
use pyo3::PyErr;
use pyo3::exceptions::{
    PyBlockingIOError, PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyValueError,
};
use std::path::Path;

/// Returns the exception for an error about an argument of the given shape.
///
/// Errors of the engine carry a flat index; Python's users think in the axes of their array.
pub(crate) fn exception(error: impl Into<Error>, shape: &[usize]) -> PyErr {
    let error = error.into();
    match error {
        Error::Core(error) => core_exception(error, shape),
        Error::Eval(EvalError::File { path, source })
        | Error::Data(DataError::File { path, source })
        | Error::Engine(EngineError::File { path, source })
        | Error::Hardware(HardwareError::File { path, source }) => file_exception(&path, &source),
        Error::Train(train) => match *train {
            TrainError::Tensor(error) => tensor::exception(&error),
            TrainError::Transformer(error) => transformer::exception(error),
            TrainError::File { .. } => PyOSError::new_err(train.to_string()),
            error => PyValueError::new_err(error.to_string()),
        },
        Error::Transformer(error) => transformer::exception(error),
        Error::Eval(EvalError::Locked { .. }) => PyBlockingIOError::new_err(error.to_string()),
        Error::Engine(EngineError::Graph(error)) => graph_exception(error),
        // The kind of exception is that of the cause, the text that of the whole.
        Error::Engine(EngineError::Layer { .. }) => match error.core() {
            Some(core) => of_kind(core, error.to_string()),
            None => PyValueError::new_err(error.to_string()),
        },
        error => PyValueError::new_err(error.to_string()),
    }
}

/// Returns the exception for an error of a graph or its file.
fn graph_exception(error: GraphError) -> PyErr {
    match error {
        GraphError::File { path, source } => file_exception(&path, &source),
        error => match core_of(&error) {
            Some(core) => of_kind(core, error.to_string()),
            None => PyValueError::new_err(error.to_string()),
        },
    }
}

/// Returns the exception for a file that cannot be read or written: FileNotFoundError and its like
/// by the number of the system.
pub(crate) fn file_exception(path: &Path, source: &std::io::Error) -> PyErr {
    match source.raw_os_error() {
        Some(number) => PyOSError::new_err((number, io_text(source), path.to_path_buf())),
        None => PyOSError::new_err(format!("{}: {source}", path.display())),
    }
}

/// Returns the message of the system without the number, which Python adds.
fn io_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Returns the core error that caused an error of a graph.
fn core_of(error: &GraphError) -> Option<&CoreError> {
    match error {
        GraphError::Core(core) => Some(core),
        GraphError::Node { source, .. } => core_of(source),
        _ => None,
    }
}

/// As [`exception`], for an error of the core.
pub(crate) fn core_exception(error: CoreError, shape: &[usize]) -> PyErr {
    match error {
        CoreError::OutOfRange { what, index, value, low, high } => {
            let place = place(index, shape);
            let value = if value.is_nan() { "nan".to_owned() } else { short(value) };
            PyValueError::new_err(format!("{what} {place}is {value}, not in [{low}, {high}]"))
        }
        error => of_kind(&error, error.to_string()),
    }
}

/// Returns the exception of the kind that an error of the core is.
fn of_kind(error: &CoreError, text: String) -> PyErr {
    match error {
        CoreError::Memory { .. } => PyMemoryError::new_err(text),
        CoreError::Cancelled => PyKeyboardInterrupt::new_err(text),
        CoreError::Backend { fault: BackendFault::OutOfMemory, .. } => PyMemoryError::new_err(text),
        CoreError::Backend { .. } => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Returns a number without hundreds of digits.
fn short(value: f64) -> String {
    let text = value.to_string();
    if text.len() <= 24 { text } else { format!("{value:e}") }
}

/// Returns the exception for a panic: a defect of the package that must not end the process.
pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("unknown");
    PyRuntimeError::new_err(format!("internal error in aleatron, please report it: {text}"))
}

/// Returns "at index 5 ", "at index (3, 7) ", or an empty text for a scalar.
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
