//! Float tensors, the basis of `aleatron.tensor`. Functions, checks and documentation for users are
//! in that package.

use std::str::FromStr;

use aleatron_tensor::{
    AttentionOptions, BinaryOp, Causality, ConvOptions, DType, Device, Dims, Element, Error,
    Operand, Order, PadMode, Padding, PoolOptions, Reduction, Result, Rounding, Scalar,
    Tensor as Inner, UnaryOp, autograd,
};
use half::f16;
use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};

use crate::array::output;
use crate::interpreter::detached;

/// A tensor of the engine; use `aleatron.tensor`.
#[pyclass(frozen, module = "aleatron._core")]
pub(crate) struct Tensor(Inner);

/// Returns the exception for an error.
pub(crate) fn exception(error: &Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::DType { .. }
        | Error::Promotion { .. }
        | Error::Scalar { .. }
        | Error::ReadAs { .. } => PyTypeError::new_err(text),
        Error::NotScalar { shape } => PyValueError::new_err(format!(
            "backward: the output has shape {shape:?}; reduce it to one element, or pass the gradient of its elements to backward"
        )),
        Error::Index { .. } => PyIndexError::new_err(text),
        _ if error.is_out_of_memory() => PyMemoryError::new_err(text),
        #[cfg(feature = "gpu")]
        Error::Device(_) => PyRuntimeError::new_err(text),
        Error::NoGpuSupport
        | Error::Cpu(_)
        | Error::Handle { .. }
        | Error::NoGraph
        | Error::GraphFreed { .. } => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Runs `task` without the interpreter.
pub(crate) fn run<T: Send>(py: Python<'_>, task: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    detached(py, task)?.map_err(|error| exception(&error))
}

fn dtype(name: &str) -> PyResult<DType> {
    let found = DType::ALL.into_iter().find(|dtype| dtype.name() == name);
    found.ok_or_else(|| PyTypeError::new_err(format!("there is no type named {name}")))
}

fn named<T: FromStr<Err = Error>>(name: &str) -> PyResult<T> {
    name.parse().map_err(|error: Error| exception(&error))
}

/// The reduction with this name.
fn reduction(name: &str) -> PyResult<Reduction> {
    use Reduction::{All, Any, ArgMax, ArgMin, LogSumExp, Max, Mean, Min, Prod, Sum};
    let known = [Sum, Mean, Prod, Max, Min, ArgMax, ArgMin, LogSumExp, Any, All];
    let found = known.into_iter().find(|reduction| reduction.name() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("there is no reduction named {name}")))
}

fn order(descending: bool) -> Order {
    if descending { Order::Descending } else { Order::Ascending }
}

/// Returns one number per axis.
fn for_axes<T: Copy + Default, const D: usize>(values: &[T], what: &str) -> PyResult<[T; D]> {
    values
        .try_into()
        .map_err(|_| PyValueError::new_err(format!("{what}: {D} are needed, not {}", values.len())))
}

/// A number of Python's.
struct Number(Scalar);

impl<'py> FromPyObject<'_, 'py> for Number {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(value) = value.cast::<PyBool>() {
            return Ok(Self(Scalar::Bool(value.is_true())));
        }
        if value.is_instance_of::<PyInt>() {
            // An integer past 64 bits is combined with floats and becomes one: Python has rejected
            // it for integers.
            let scalar = value.extract().map(Scalar::Int);
            return Ok(Self(scalar.or_else(|_| value.extract().map(Scalar::Float))?));
        }
        if let Ok(value) = value.cast::<PyFloat>() {
            return Ok(Self(Scalar::Float(value.value())));
        }
        Err(PyTypeError::new_err("a number is needed"))
    }
}

/// A tensor or a number.
enum Argument {
    Tensor(Py<Tensor>),
    Number(Number),
}

impl<'py> FromPyObject<'_, 'py> for Argument {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match value.cast::<Tensor>() {
            Ok(tensor) => Ok(Self::Tensor(tensor.to_owned().unbind())),
            Err(_) => value.extract().map(Self::Number),
        }
    }
}

impl Argument {
    fn operand(&self) -> Operand<'_> {
        match self {
            Self::Tensor(tensor) => (&tensor.get().0).into(),
            Self::Number(Number(scalar)) => (*scalar).into(),
        }
    }
}

/// Returns the elements of an array in C order, of a type that tensors have, in host memory.
pub(crate) fn tensor_of(array: &Bound<'_, PyAny>) -> PyResult<Inner> {
    Tensor::from_numpy(array.py(), array, "cpu").map(|tensor| tensor.0)
}

#[pymethods]
impl Tensor {
    /// The elements of an array in C order, copied to a device.
    #[staticmethod]
    fn from_numpy(py: Python<'_>, array: &Bound<'_, PyAny>, device: &str) -> PyResult<Self> {
        fn read<T: Element + numpy::Element>(
            py: Python<'_>,
            array: &Bound<'_, PyAny>,
            device: &str,
        ) -> Option<PyResult<Tensor>> {
            let array = array.cast::<PyArrayDyn<T>>().ok()?;
            Some((|| {
                let array = array.try_readonly()?;
                let (elements, shape) = (array.as_slice()?, array.shape().to_vec());
                run(py, || Inner::from_slice(elements, &shape, &Device::named(device)?)).map(Tensor)
            })())
        }
        read::<f32>(py, array, device)
            .or_else(|| read::<f64>(py, array, device))
            .or_else(|| read::<f16>(py, array, device))
            .or_else(|| read::<i32>(py, array, device))
            .or_else(|| read::<i64>(py, array, device))
            .or_else(|| read::<u8>(py, array, device))
            .or_else(|| read::<bool>(py, array, device))
            .unwrap_or_else(|| {
                Err(PyTypeError::new_err("an array of a type that tensors have is needed"))
            })
    }

    /// A tensor of one value.
    #[staticmethod]
    fn full(
        py: Python<'_>,
        shape: Vec<usize>,
        value: Number,
        dtype: &str,
        device: &str,
    ) -> PyResult<Self> {
        let dtype = self::dtype(dtype)?;
        run(py, || Inner::full(&shape, value.0, dtype, &Device::named(device)?)).map(Self)
    }

    /// Numbers in steps.
    #[staticmethod]
    fn arange(
        py: Python<'_>,
        start: Number,
        stop: Number,
        step: Number,
        dtype: &str,
        device: &str,
    ) -> PyResult<Self> {
        let dtype = self::dtype(dtype)?;
        run(py, || Inner::arange(start.0, stop.0, step.0, dtype, &Device::named(device)?)).map(Self)
    }

    /// Whether a device has elements of a type.
    #[staticmethod]
    fn supports(py: Python<'_>, dtype: &str, device: &str) -> PyResult<bool> {
        let dtype = self::dtype(dtype)?;
        run(py, || Ok(Device::named(device)?.supports(dtype)))
    }

    /// The elements, copied to an array.
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        fn write<'py, T: Element + numpy::Element>(
            py: Python<'py>,
            tensor: &Inner,
        ) -> PyResult<Bound<'py, PyAny>> {
            let elements = run(py, || tensor.to_vec::<T>())?;
            output(py, elements, tensor.shape())
        }
        match self.0.dtype() {
            DType::F64 => write::<f64>(py, &self.0),
            DType::F32 => write::<f32>(py, &self.0),
            DType::F16 => write::<f16>(py, &self.0),
            DType::I32 => write::<i32>(py, &self.0),
            DType::I64 => write::<i64>(py, &self.0),
            DType::U8 => write::<u8>(py, &self.0),
            DType::Bool => write::<bool>(py, &self.0),
            other => Err(PyTypeError::new_err(format!("NumPy has no {other}"))),
        }
    }

    /// The sizes of the axes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape())
    }

    /// The name of the type.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.dtype().name()
    }

    /// The name of the device: what `to_device` takes, without the adapter's own name.
    #[getter]
    fn device(&self) -> String {
        let name = self.0.device().to_string();
        name.split(' ').next().unwrap_or_default().to_owned()
    }

    /// The tensor on a device.
    fn to_device(&self, py: Python<'_>, device: &str) -> PyResult<Self> {
        run(py, || self.0.to_device(&Device::named(device)?)).map(Self)
    }

    /// Returns a new leaf over the same elements.
    fn requires_grad(&self, py: Python<'_>) -> PyResult<Self> {
        run(py, || self.0.requires_grad()).map(Self)
    }

    /// Whether the tensor is a leaf or part of a recorded computation.
    #[getter]
    fn is_tracked(&self) -> bool {
        self.0.is_tracked()
    }

    /// Whether the tensor is a leaf.
    #[getter]
    fn is_leaf(&self) -> bool {
        self.0.is_leaf()
    }

    /// Returns the same elements without the recorded computation.
    fn detach(&self) -> Self {
        Self(self.0.detach())
    }

    /// Adds the gradients of this tensor to its leaves.
    #[pyo3(signature = (gradient=None))]
    fn backward(&self, py: Python<'_>, gradient: Option<Py<Self>>) -> PyResult<()> {
        run(py, || match &gradient {
            Some(gradient) => self.0.backward_with(&gradient.get().0),
            None => self.0.backward(),
        })
    }

    /// Returns the accumulated gradient of a leaf.
    fn grad(&self) -> Option<Self> {
        self.0.grad().map(Self)
    }

    /// Removes the accumulated gradient of a leaf.
    fn zero_grad(&self) {
        self.0.zero_grad();
    }

    /// Returns the gradients of this tensor with respect to others.
    fn gradients_of(&self, py: Python<'_>, inputs: Vec<Py<Self>>) -> PyResult<Vec<Option<Self>>> {
        let inputs: Vec<&Inner> = inputs.iter().map(|input| &input.get().0).collect();
        let gradients = run(py, || autograd::grad(&self.0, &inputs))?;
        Ok(gradients.into_iter().map(|gradient| gradient.map(Self)).collect())
    }

    /// Enables or disables recording in this thread, and returns whether it was enabled.
    #[staticmethod]
    fn set_recording(enabled: bool) -> bool {
        let recording =
            if enabled { autograd::Recording::Enabled } else { autograd::Recording::Disabled };
        autograd::set_recording(recording) == autograd::Recording::Enabled
    }

    /// Whether operations on tracked tensors are recorded in this thread.
    #[staticmethod]
    fn is_recording() -> bool {
        autograd::is_enabled()
    }

    /// Applies an operation of one argument.
    fn unary(&self, py: Python<'_>, name: &str) -> PyResult<Self> {
        let op: UnaryOp = named(name)?;
        run(py, || self.0.unary(op)).map(Self)
    }

    /// Applies an operation of two arguments, of which one may be a number.
    #[staticmethod]
    fn binary(py: Python<'_>, name: &str, left: Argument, right: Argument) -> PyResult<Self> {
        let op: BinaryOp = named(name)?;
        run(py, || Inner::binary(op, left.operand(), right.operand())).map(Self)
    }

    /// Selects elements by a condition.
    fn r#where(&self, py: Python<'_>, left: Argument, right: Argument) -> PyResult<Self> {
        run(py, || self.0.where_(left.operand(), right.operand())).map(Self)
    }

    /// The elements as another type.
    fn cast(&self, py: Python<'_>, dtype: &str) -> PyResult<Self> {
        let dtype = self::dtype(dtype)?;
        run(py, || self.0.cast(dtype)).map(Self)
    }

    /// A part of an axis.
    fn slice(
        &self,
        py: Python<'_>,
        axis: isize,
        start: usize,
        end: usize,
        step: usize,
    ) -> PyResult<Self> {
        let part = aleatron_tensor::Slice::from(start..end).step(step);
        run(py, || self.0.slice(axis, part)).map(Self)
    }

    /// Returns the elements at one index of an axis.
    fn select(&self, py: Python<'_>, axis: isize, index: usize) -> PyResult<Self> {
        run(py, || self.0.select(axis, index)).map(Self)
    }

    /// An axis in reverse order.
    fn flip(&self, py: Python<'_>, axis: isize) -> PyResult<Self> {
        run(py, || self.0.flip(axis)).map(Self)
    }

    /// The axes in another order.
    fn permute(&self, py: Python<'_>, order: Vec<isize>) -> PyResult<Self> {
        run(py, || self.0.permute(&order)).map(Self)
    }

    /// The elements in another shape.
    fn reshape(&self, py: Python<'_>, shape: Vec<usize>) -> PyResult<Self> {
        run(py, || self.0.reshape(&shape)).map(Self)
    }

    /// The elements in another shape, never a copy.
    fn view(&self, py: Python<'_>, shape: Vec<usize>) -> PyResult<Self> {
        run(py, || self.0.view(&shape)).map(Self)
    }

    /// Axes of size 1 repeated.
    fn broadcast_to(&self, py: Python<'_>, shape: Vec<usize>) -> PyResult<Self> {
        run(py, || self.0.broadcast_to(&shape)).map(Self)
    }

    /// Removes an axis of size 1.
    fn squeeze(&self, py: Python<'_>, axis: isize) -> PyResult<Self> {
        run(py, || self.0.squeeze(axis)).map(Self)
    }

    /// Inserts an axis of size 1.
    fn unsqueeze(&self, py: Python<'_>, axis: isize) -> PyResult<Self> {
        run(py, || self.0.unsqueeze(axis)).map(Self)
    }

    /// Restarts the generator that random tensors without a seed draw from.
    #[staticmethod]
    fn manual_seed(#[pyo3(from_py_with = crate::argument::seed)] seed: u64) {
        aleatron_tensor::manual_seed(seed);
    }

    /// Draws random numbers in [0, 1), different ones on each call without a seed.
    #[staticmethod]
    fn rand(
        py: Python<'_>,
        shape: Vec<usize>,
        seed: Option<Bound<'_, PyAny>>,
        device: &str,
    ) -> PyResult<Self> {
        let seed = seed.as_ref().map(crate::argument::seed).transpose()?;
        run(py, || {
            let device = Device::named(device)?;
            match seed {
                Some(seed) => Inner::rand_seeded(&shape, seed, DType::F32, &device),
                None => Inner::rand(&shape, DType::F32, &device),
            }
        })
        .map(Self)
    }

    /// Draws normally distributed random numbers, different ones on each call without a seed.
    #[staticmethod]
    fn randn(
        py: Python<'_>,
        shape: Vec<usize>,
        seed: Option<Bound<'_, PyAny>>,
        device: &str,
    ) -> PyResult<Self> {
        let seed = seed.as_ref().map(crate::argument::seed).transpose()?;
        run(py, || {
            let device = Device::named(device)?;
            match seed {
                Some(seed) => Inner::randn_seeded(&shape, seed, DType::F32, &device),
                None => Inner::randn(&shape, DType::F32, &device),
            }
        })
        .map(Self)
    }

    /// Reduces some axes; all if none is given.
    fn reduce(&self, py: Python<'_>, name: &str, axes: Vec<isize>, keep: bool) -> PyResult<Self> {
        let (reduction, dims) = (reduction(name)?, if keep { Dims::Keep } else { Dims::Drop });
        run(py, || self.0.reduce(reduction, &axes, dims)).map(Self)
    }

    /// Sums or products of all elements up to each.
    fn cumulative(&self, py: Python<'_>, name: &str, axis: isize) -> PyResult<Self> {
        match name {
            "sum" => run(py, || self.0.cumsum(axis)).map(Self),
            "prod" => run(py, || self.0.cumprod(axis)).map(Self),
            _ => Err(PyValueError::new_err(format!("there is no cumulative {name}"))),
        }
    }

    /// Concatenates tensors.
    #[staticmethod]
    fn concat(py: Python<'_>, tensors: Vec<Py<Self>>, axis: isize) -> PyResult<Self> {
        let tensors: Vec<&Inner> = tensors.iter().map(|tensor| &tensor.get().0).collect();
        run(py, || Inner::concat(&tensors, axis)).map(Self)
    }

    /// A number before and after each axis.
    fn pad(&self, py: Python<'_>, widths: Vec<(usize, usize)>, value: Number) -> PyResult<Self> {
        run(py, || self.0.pad(&widths, PadMode::Constant(value.0))).map(Self)
    }

    /// Selects elements at some indices of an axis.
    fn index_select(&self, py: Python<'_>, axis: isize, indices: &Self) -> PyResult<Self> {
        run(py, || self.0.index_select(axis, &indices.0)).map(Self)
    }

    /// Gathers elements by indices along an axis.
    fn gather(&self, py: Python<'_>, axis: isize, indices: &Self) -> PyResult<Self> {
        run(py, || self.0.gather(axis, &indices.0)).map(Self)
    }

    /// The elements along an axis in order.
    fn sort(&self, py: Python<'_>, axis: isize, descending: bool) -> PyResult<Self> {
        run(py, || self.0.sort(axis, order(descending))).map(Self)
    }

    /// Returns the indices that sort an axis.
    fn argsort(&self, py: Python<'_>, axis: isize, descending: bool) -> PyResult<Self> {
        run(py, || self.0.argsort(axis, order(descending))).map(Self)
    }

    /// Returns the largest elements along an axis, and their indices.
    fn topk(&self, py: Python<'_>, k: usize, axis: isize) -> PyResult<(Self, Self)> {
        run(py, || self.0.topk(k, axis, Order::Descending))
            .map(|(values, places)| (Self(values), Self(places)))
    }

    /// The product of matrices.
    fn matmul(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        run(py, || self.0.matmul(&other.0)).map(Self)
    }

    /// Exponentials over their sum.
    fn softmax(&self, py: Python<'_>, axis: isize) -> PyResult<Self> {
        run(py, || self.0.softmax(&[axis])).map(Self)
    }

    /// The logarithm of that.
    fn log_softmax(&self, py: Python<'_>, axis: isize) -> PyResult<Self> {
        run(py, || self.0.log_softmax(&[axis])).map(Self)
    }

    /// Less the mean, over the deviation.
    fn layer_norm(
        &self,
        py: Python<'_>,
        axes: Vec<isize>,
        weight: Option<Py<Self>>,
        bias: Option<Py<Self>>,
        epsilon: f32,
    ) -> PyResult<Self> {
        let [weight, bias] =
            [&weight, &bias].map(|tensor| tensor.as_ref().map(|tensor| &tensor.get().0));
        run(py, || self.0.layer_norm(&axes, weight, bias, epsilon)).map(Self)
    }

    /// Over the root of the mean square.
    fn rms_norm(
        &self,
        py: Python<'_>,
        axes: Vec<isize>,
        weight: Option<Py<Self>>,
        epsilon: f32,
    ) -> PyResult<Self> {
        let weight = weight.as_ref().map(|tensor| &tensor.get().0);
        run(py, || self.0.rms_norm(&axes, weight, epsilon)).map(Self)
    }

    /// The convolution of sequences or images, as there are strides.
    fn conv(
        &self,
        py: Python<'_>,
        weight: &Self,
        bias: Option<Py<Self>>,
        stride: Vec<usize>,
        padding: Vec<[usize; 2]>,
        dilation: Vec<usize>,
        groups: usize,
    ) -> PyResult<Self> {
        let bias = bias.as_ref().map(|tensor| &tensor.get().0);
        if stride.len() == 1 {
            let options: ConvOptions<1> = ConvOptions {
                stride: for_axes(&stride, "stride")?,
                padding: for_axes(&padding, "padding")?,
                dilation: for_axes(&dilation, "dilation")?,
                groups,
            };
            return run(py, || self.0.conv1d(&weight.0, bias, &options)).map(Self);
        }
        let options: ConvOptions<2> = ConvOptions {
            stride: for_axes(&stride, "stride")?,
            padding: for_axes(&padding, "padding")?,
            dilation: for_axes(&dilation, "dilation")?,
            groups,
        };
        run(py, || self.0.conv2d(&weight.0, bias, &options)).map(Self)
    }

    /// The largest element or the average of windows of images.
    fn pool(
        &self,
        py: Python<'_>,
        name: &str,
        kernel: [usize; 2],
        stride: [usize; 2],
        padding: [[usize; 2]; 2],
    ) -> PyResult<Self> {
        let options =
            PoolOptions { kernel, stride, padding, dilation: [1, 1], rounding: Rounding::Down };
        match name {
            "max" => run(py, || self.0.max_pool2d(&options)).map(Self),
            "average" => run(py, || self.0.avg_pool2d(&options, Padding::Ignored)).map(Self),
            _ => Err(PyValueError::new_err(format!("there is no pool named {name}"))),
        }
    }

    /// Computes scaled dot-product attention.
    fn attention(
        &self,
        py: Python<'_>,
        keys: &Self,
        values: &Self,
        mask: Option<Py<Self>>,
        causal: bool,
        scale: Option<f64>,
    ) -> PyResult<Self> {
        let causality = if causal { Causality::FromFirst } else { Causality::None };
        let options = AttentionOptions {
            mask: mask.as_ref().map(|tensor| &tensor.get().0),
            causality,
            scale,
        };
        run(py, || self.0.attention(&keys.0, &values.0, &options)).map(Self)
    }
}
