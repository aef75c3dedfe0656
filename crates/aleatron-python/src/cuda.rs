//! Layers over arrays in the memory of CUDA devices; `aleatron._cuda` reads and creates them.

use crate::compute::compute_with_cancellation;
use crate::layer::{StreamLayer, samples};
use aleatron::backend::{
    DeviceArray, DeviceArrayMut, DeviceBatch, DeviceElement, DeviceStream, InputOrder,
};
use aleatron::{Device, SampleSeed};
use numpy::PyUntypedArray;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyList};

/// Memory of a CUDA device with 64-bit elements; `CudaArray` wraps it as an array.
#[pyclass(module = "aleatron._core", frozen, name = "_CudaMemory")]
pub(crate) struct CudaMemory {
    #[cfg(feature = "cuda")]
    array: aleatron::cuda::array::CudaArray,
}

#[cfg(feature = "cuda")]
mod memory {
    use super::{CudaMemory, DeviceElement};
    use crate::compute::compute;
    use aleatron::CoreError;
    use aleatron::cuda::CudaContext;
    use aleatron::cuda::array::CudaArray;
    use numpy::IntoPyArray;
    use pyo3::prelude::*;

    pub(super) fn zeros(
        py: Python<'_>,
        place: usize,
        len: usize,
        element: DeviceElement,
    ) -> PyResult<CudaMemory> {
        let made = || {
            let context = CudaContext::get(place)?;
            CudaArray::zeros(&context, len, element)
        };
        Ok(CudaMemory { array: compute(py, &[], || Ok(made().map_err(CoreError::from)?))? })
    }

    pub(super) fn address(memory: &CudaMemory) -> u64 {
        memory.array.array().address()
    }

    pub(super) fn read<'py>(py: Python<'py>, memory: &CudaMemory) -> PyResult<Bound<'py, PyAny>> {
        let words = compute(py, &[], || Ok(memory.array.read().map_err(CoreError::from)?))?;
        Ok(words.into_pyarray(py).into_any())
    }
}

#[cfg(not(feature = "cuda"))]
mod memory {
    use super::{CudaMemory, DeviceElement};
    use pyo3::exceptions::PyRuntimeError;
    use pyo3::prelude::*;

    fn not_built() -> PyErr {
        PyRuntimeError::new_err("this build of aleatron has no CUDA support")
    }

    pub(super) fn zeros(
        _: Python<'_>,
        _: usize,
        _: usize,
        _: DeviceElement,
    ) -> PyResult<CudaMemory> {
        Err(not_built())
    }

    pub(super) fn address(_: &CudaMemory) -> u64 {
        0
    }

    pub(super) fn read<'py>(_: Python<'py>, _: &CudaMemory) -> PyResult<Bound<'py, PyAny>> {
        Err(not_built())
    }
}

#[pymethods]
impl CudaMemory {
    #[new]
    fn new(py: Python<'_>, place: usize, len: usize, dtype: &str) -> PyResult<Self> {
        let element = match dtype {
            "uint64" => DeviceElement::U64,
            "float64" => DeviceElement::F64,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "results are uint64 or float64, not {dtype}"
                )));
            }
        };
        memory::zeros(py, place, len, element)
    }

    /// The address of the memory.
    #[getter]
    fn address(&self) -> u64 {
        memory::address(self)
    }

    /// A copy on the host, as uint64.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        memory::read(py, self)
    }
}

/// An array on a card, described by `aleatron._cuda`.
#[derive(FromPyObject)]
struct Described {
    address: u64,
    shape: Vec<usize>,
    dtype: String,
    device: Option<usize>,
    is_read_only: bool,
    stream: Option<u64>,
    /// The owner of the memory, held until the call has returned.
    #[allow(dead_code, reason = "held, not read")]
    owner: Py<PyAny>,
}

impl Described {
    fn of(value: &Bound<'_, PyAny>, name: &str, place: usize) -> PyResult<Self> {
        let module = value.py().import("aleatron._cuda")?;
        let described: Self = module.call_method1("describe", (value, name))?.extract()?;
        match described.device {
            Some(device) if device != place => Err(PyValueError::new_err(format!(
                "{name} is on cuda:{device}, but the layer is on cuda:{place}"
            ))),
            _ => Ok(described),
        }
    }

    /// The number and the type of the elements, which must be one of these types.
    fn elements(
        &self,
        name: &str,
        elements: &[(&str, DeviceElement)],
    ) -> PyResult<(usize, DeviceElement)> {
        let len = self.shape.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
        let Some(len) = len else {
            return Err(PyValueError::new_err(format!("{name} is too large")));
        };
        match elements.iter().find(|(code, _)| *code == self.dtype) {
            Some(&(_, element)) => Ok((len, element)),
            None => {
                let names: Vec<String> =
                    elements.iter().map(|(_, element)| element.to_string()).collect();
                let (names, dtype) = (names.join(" or "), &self.dtype);
                Err(PyTypeError::new_err(format!(
                    "{name} must be {names} on a CUDA device, not {dtype}"
                )))
            }
        }
    }
}

impl Described {
    /// The array as inputs.
    fn array(&self, name: &str, elements: &[(&str, DeviceElement)]) -> PyResult<DeviceArray<'_>> {
        let (len, element) = self.elements(name, elements)?;
        #[allow(
            unsafe_code,
            reason = "the one place where addresses of Python objects are trusted"
        )]
        // SAFETY: the owner of the memory is held as long as this is borrowed. The driver confirms
        // the device and the size of the memory before anything reads it.
        Ok(unsafe { DeviceArray::from_raw(self.address, len, element) })
    }

    /// The array as results.
    fn array_mut(
        &mut self,
        name: &str,
        elements: &[(&str, DeviceElement)],
    ) -> PyResult<DeviceArrayMut<'_>> {
        let (len, element) = self.elements(name, elements)?;
        #[allow(
            unsafe_code,
            reason = "the one place where addresses of Python objects are trusted"
        )]
        // SAFETY: as for `array`. The caller of Python hands the array over to be written.
        Ok(unsafe { DeviceArrayMut::from_raw(self.address, len, element) })
    }

    /// Returns the work after which the array is complete. A handle of a stream is a number from a
    /// Python object, which the driver would dereference: unless it is that of a default stream,
    /// all pending work of the device is waited for instead.
    fn order(&self) -> InputOrder<'static> {
        match self.stream {
            None => InputOrder::Ready,
            Some(0 | 1) => InputOrder::AfterStream(DeviceStream::DEFAULT),
            Some(2) => InputOrder::AfterStream(DeviceStream::OF_THREAD),
            Some(_) => InputOrder::AfterAll,
        }
    }
}

/// The later one of two orders.
fn after_both(a: InputOrder<'static>, b: InputOrder<'static>) -> InputOrder<'static> {
    match (a, b) {
        (InputOrder::Ready, order) | (order, InputOrder::Ready) => order,
        (a, b) if a == b => a,
        _ => InputOrder::AfterAll,
    }
}

/// Returns the index of the device of a layer if both the layer and `x` are on a CUDA device.
pub(crate) fn place_of(device: &Device, x: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let Device::Cuda(place) = device.resolved().unwrap_or_else(|_| device.clone()) else {
        return Ok(None);
    };
    // Most arguments are NumPy arrays, which are never on a device.
    if x.is_exact_instance_of::<PyUntypedArray>()
        || x.is_exact_instance_of::<PyList>()
        || x.is_exact_instance_of::<PyFloat>()
    {
        return Ok(None);
    }
    let is_on_card: bool =
        x.py().import("aleatron._cuda")?.call_method1("is_on_card", (x,))?.extract()?;
    Ok(is_on_card.then_some(place))
}

/// Results of `x`, which is on the card of the layer: in `out`, or in a new array there.
pub(crate) fn run<'py>(
    layer: &StreamLayer,
    place: usize,
    x: &Bound<'py, PyAny>,
    seed: u64,
    out: Option<Bound<'py, PyAny>>,
    element: DeviceElement,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, owner) = (x.py(), layer);
    let layer = owner.layer();
    let described = Described::of(x, "x", place)?;
    let inputs = described.array("x", &[("f8", DeviceElement::F64), ("f4", DeviceElement::F32)])?;
    let n_samples = samples("x", &described.shape, &owner.input)?;
    let shape = owner.result_shape(n_samples);
    let out = match out {
        Some(out) => out,
        None => {
            let class = py.import("aleatron._cuda")?.getattr("CudaArray")?;
            let shape = pyo3::types::PyTuple::new(py, &shape)?;
            class.call1((place, shape, element.to_string()))?
        }
    };
    let mut to = Described::of(&out, "out", place)?;
    if to.is_read_only {
        return Err(PyValueError::new_err("out is read-only"));
    }
    if to.shape != shape {
        let (expected, actual) =
            (crate::array::shape_text(&shape), crate::array::shape_text(&to.shape));
        return Err(PyValueError::new_err(format!("out has shape {actual}, not {expected}")));
    }
    let code = if element == DeviceElement::U64 { "u8" } else { "f8" };
    let order = after_both(described.order(), to.order());
    let outputs = to.array_mut("out", &[(code, element)])?;
    let mut batch = DeviceBatch { inputs, outputs, seed: SampleSeed::new(seed), order };
    compute_with_cancellation(py, &described.shape, |cancel| {
        Ok(layer.count_on_device(&mut batch, cancel)?)
    })?;
    Ok(out)
}

/// Checks that `out` is not given if results are on the host.
pub(crate) fn check_no_out(out: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    match out {
        None => Ok(()),
        Some(_) => Err(PyTypeError::new_err(
            "out is for layers on a CUDA device whose inputs are in its memory",
        )),
    }
}
