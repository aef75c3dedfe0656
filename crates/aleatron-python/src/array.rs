//! Arrays in and out.
//!
//! An exact `ndarray` of the right type in C order is borrowed as it is, and a list of floats read
//! here. Everything else goes through `aleatron._arrays`, which knows NumPy's rules for strides,
//! other types, the buffer protocol and DLPack.

use numpy::{
    Element, IntoPyArray, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyList, PyTuple};

/// An element type that arguments are read as.
pub(crate) trait Readable: Element {
    /// The function of `aleatron._arrays` that converts an argument to a C-contiguous array.
    const READER: &str;

    /// Returns the elements of a plain list that hold it exactly; `None` leaves the list to the
    /// reader.
    fn from_list(_list: &Bound<'_, PyList>) -> Option<Vec<Self>> {
        None
    }
}

impl Readable for f64 {
    const READER: &str = "as_float64";

    fn from_list(list: &Bound<'_, PyList>) -> Option<Vec<Self>> {
        list.iter()
            .map(|item| item.cast_exact::<PyFloat>().ok().map(|float| float.value()))
            .collect()
    }
}

impl Readable for u64 {
    const READER: &str = "as_words";
}

impl Readable for i64 {
    const READER: &str = "as_classes";
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

/// An array argument, for the time of a call.
pub(crate) enum Input<'py, T: Element> {
    /// An array that is borrowed.
    Array(PyReadonlyArrayDyn<'py, T>),
    /// A list that was read, and its shape.
    List(Vec<T>, [usize; 1]),
}

impl<'py, T: Readable> Input<'py, T> {
    /// Reads the argument called `name`.
    pub(crate) fn read(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        if let Ok(array) = value.cast_exact::<PyArrayDyn<T>>()
            && array.is_c_contiguous()
            && array.is_aligned()
        {
            return Ok(Self::Array(array.try_readonly()?));
        }
        if let Ok(list) = value.cast_exact::<PyList>()
            && let Some(elements) = T::from_list(list)
        {
            let n = elements.len();
            return Ok(Self::List(elements, [n]));
        }
        let converted =
            value.py().import("aleatron._arrays")?.call_method1(T::READER, (value, name))?;
        Ok(Self::Array(converted.cast::<PyArrayDyn<T>>()?.try_readonly()?))
    }

    /// Returns the elements in C order.
    pub(crate) fn slice(&self) -> PyResult<&[T]> {
        match self {
            // `as_slice` takes Fortran order too, in which the elements would be in the wrong
            // order.
            Self::Array(array) if !array.is_c_contiguous() => {
                Err(PyRuntimeError::new_err("the array's memory order changed during the call"))
            }
            Self::Array(array) => Ok(array.as_slice()?),
            Self::List(elements, _) => Ok(elements),
        }
    }

    /// Returns the shape.
    pub(crate) fn shape(&self) -> &[usize] {
        match self {
            Self::Array(array) => array.shape(),
            Self::List(_, shape) => shape,
        }
    }
}

/// Elements in C order as an array.
pub(crate) fn output<'py, T: Element>(
    py: Python<'py>,
    elements: Vec<T>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let array = elements.into_pyarray(py).into_any();
    if let [_] = shape {
        return Ok(array);
    }
    // By NumPy itself, which may reject a shape: axes such as (2^62, 0), or too many of them.
    array.call_method1("reshape", (PyTuple::new(py, shape)?,))
}

/// An array of `numpy.empty`, whose memory holds anything.
///
/// It cannot be read: its only operation is [`Self::write`], which consumes it, and returns it to
/// Python only if the writer reports that all of it was written. Writers of this crate are the
/// engine's `…_into` functions, which write every element of their output and read none. Every bit
/// pattern is a valid element.
pub(crate) struct Unwritten<'py, T: Element>(Bound<'py, PyArrayDyn<T>>);

impl<'py, T: Element> Unwritten<'py, T> {
    /// Returns an array of this shape.
    pub(crate) fn new(py: Python<'py>, shape: &[usize]) -> PyResult<Self> {
        static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let array = EMPTY.import(py, "numpy", "empty")?.call1((shape, T::get_dtype(py)))?;
        Ok(Self(array.cast_into::<PyArrayDyn<T>>()?))
    }

    /// Returns the array, once `write` has written every element.
    pub(crate) fn write(
        self,
        write: impl FnOnce(&mut [T]) -> PyResult<()>,
    ) -> PyResult<Bound<'py, PyAny>> {
        write(self.0.try_readwrite()?.as_slice_mut()?)?;
        Ok(self.0.into_any())
    }
}

/// Returns a shape as Python writes it.
pub(crate) fn shape_text(shape: &[usize]) -> String {
    match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
}
