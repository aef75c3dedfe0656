//! Arrays in and out.
//!
//! An exact `ndarray` of the right type in C order is borrowed as it is. Everything else goes through
//! `aleatron._arrays`, which knows NumPy's rules for lists, strides, other types, the buffer protocol and DLPack.

use numpy::ndarray::{ArrayD, IxDyn};
use numpy::{Element, IntoPyArray, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// An element type that arguments are read as.
pub(crate) trait Readable: Element {
    /// The function of `aleatron._arrays` that makes a C-contiguous array of it.
    const READER: &str;
}

impl Readable for f64 {
    const READER: &str = "as_float64";
}

impl Readable for u64 {
    const READER: &str = "as_words";
}

impl Readable for u8 {
    const READER: &str = "as_bits";
}

impl Readable for i16 {
    const READER: &str = "as_int16";
}

impl Readable for bool {
    const READER: &str = "as_mask";
}

/// An array argument, borrowed for the call.
pub(crate) struct Input<'py, T: Element>(PyReadonlyArrayDyn<'py, T>);

impl<'py, T: Readable> Input<'py, T> {
    /// Reads the argument called `name`.
    pub(crate) fn read(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        if let Ok(array) = value.cast_exact::<PyArrayDyn<T>>()
            && array.is_c_contiguous()
            && array.is_aligned()
        {
            return Ok(Self(array.try_readonly()?));
        }
        let converted = value.py().import("aleatron._arrays")?.call_method1(T::READER, (value, name))?;
        Ok(Self(converted.cast::<PyArrayDyn<T>>()?.try_readonly()?))
    }

    /// Its elements in C order.
    pub(crate) fn slice(&self) -> PyResult<&[T]> {
        // `as_slice` takes Fortran order too, in which the elements would be in the wrong order.
        if !self.0.is_c_contiguous() {
            return Err(PyRuntimeError::new_err("the array's memory order changed during the call"));
        }
        Ok(self.0.as_slice()?)
    }

    /// Its shape.
    pub(crate) fn shape(&self) -> &[usize] {
        self.0.shape()
    }
}

/// Elements in C order as an array.
pub(crate) fn output<'py, T: Element>(
    py: Python<'py>,
    elements: Vec<T>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    if let [_] = shape {
        return Ok(elements.into_pyarray(py).into_any());
    }
    let array = ArrayD::from_shape_vec(IxDyn(shape), elements);
    let array = array.map_err(|error| PyRuntimeError::new_err(format!("internal error: {error}")))?;
    Ok(array.into_pyarray(py).into_any())
}

/// A shape as Python writes it.
pub(crate) fn shape_text(shape: &[usize]) -> String {
    match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}
