//! Warnings of the engine as those of Python.

use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::ffi::CString;
use std::fmt::Display;

/// Issues each warning at the line of the caller.
pub(crate) fn warn<'a>(
    py: Python<'_>,
    warnings: impl IntoIterator<Item = &'a (impl Display + 'a)>,
) -> PyResult<()> {
    for warning in warnings {
        let text = CString::new(warning.to_string()).unwrap_or_default();
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
    }
    Ok(())
}
