//! `ConvLayer`.

use crate::argument::{
    device, generator, groups, input_shape, length, n_channels, polarity, seed, sharing, width,
};
use crate::array::{Input, shape_text};
use crate::layer::{Settings, StreamLayer, read_only, rebuild};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::{Convolution, Device, Polarity};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

/// A convolution of stochastic neurons over images or sequences.
///
/// A pixel has one stream in a sample, used at every position and channel, and a weight one in the
/// layer, as hardware shares them. Taps in the padding are skipped. A sample is of shape (channels,
/// rows, columns) or (channels, places), and outputs have the same axes.
///
/// Parameters
/// ----------
/// input_shape
///     The shape of a sample, (channels, rows, columns) or (channels, places).
/// n_channels
///     Output channels.
/// kernel_size
///     The size of a kernel: one number for all axes, or one each.
/// length, seed, polarity, device, generator, width, sharing
///     As for `DenseLayer`.
/// stride, dilation
///     Steps from one position to the next, and from one tap to the next: one number for all axes,
///     or one each.
/// padding
///     What lies before the first and after the last place: a number, one for each axis, or a pair
///     (before, after) for each.
/// groups
///     Groups of channels that do not see each other.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> layer = al.ConvLayer((3, 16, 16), n_channels=8, kernel_size=3, padding=1, length=256)
/// >>> layer.weights.shape, layer.output_shape
/// ((8, 3, 3, 3), (8, 16, 16))
/// >>> import numpy as np
/// >>> layer(np.full((5, 3, 16, 16), 0.5)).shape
/// (5, 8, 16, 16)
#[pyclass(module = "aleatron", frozen, extends = StreamLayer)]
pub(crate) struct ConvLayer {
    convolution: Convolution,
    /// The axes of a sample except channels.
    axes: usize,
}

/// Reads one number for all axes, or one each.
fn sizes(value: &Bound<'_, PyAny>, name: &str, axes: usize) -> PyResult<[usize; 2]> {
    let wrong = || {
        PyValueError::new_err(format!(
            "{name} must be one size from 0 on, or one for each of {axes} axes"
        ))
    };
    let given = match value.extract::<usize>() {
        Ok(size) => vec![size; axes],
        Err(_) => value.extract::<Vec<usize>>().map_err(|_| wrong())?,
    };
    match (given.as_slice(), axes) {
        // A sequence is an image of one row.
        ([columns], 1) => Ok([1, *columns]),
        ([rows, columns], 2) => Ok([*rows, *columns]),
        _ => Err(wrong()),
    }
}

/// Reads a number, one for each axis, or a pair for each.
fn paddings(value: &Bound<'_, PyAny>, axes: usize) -> PyResult<[[usize; 2]; 2]> {
    let pairs = match value.extract::<usize>() {
        Ok(size) => vec![[size, size]; axes],
        Err(_) => {
            let wrong = || {
                PyValueError::new_err(format!(
                    "padding must be a size from 0 on, one for each of {axes} axes, or a pair for each"
                ))
            };
            let mut pairs = Vec::new();
            for item in value.try_iter().map_err(|_| wrong())? {
                let item = item?;
                pairs.push(match item.extract::<usize>() {
                    Ok(size) => [size, size],
                    Err(_) => {
                        let (before, after) =
                            item.extract::<(usize, usize)>().map_err(|_| wrong())?;
                        [before, after]
                    }
                });
                if pairs.len() > axes {
                    break;
                }
            }
            if pairs.len() != axes {
                return Err(wrong());
            }
            pairs
        }
    };
    Ok(match pairs.as_slice() {
        [rows, columns] => [*rows, *columns],
        [columns] => [[0, 0], *columns],
        _ => [[0, 0]; 2],
    })
}

/// A convolution over samples of a shape.
fn convolution(
    input: &[usize],
    n_channels: usize,
    kernel: [usize; 2],
    stride: &Bound<'_, PyAny>,
    padding: &Bound<'_, PyAny>,
    dilation: &Bound<'_, PyAny>,
    groups: usize,
) -> PyResult<(Convolution, usize)> {
    let (input, axes) = match *input {
        [channels, rows, columns] => ([channels, rows, columns], 2),
        [channels, places] => ([channels, 1, places], 1),
        _ => {
            let shape = shape_text(input);
            return Err(PyValueError::new_err(format!(
                "input_shape is {shape}, not (channels, rows, columns) or (channels, places)"
            )));
        }
    };
    let made = Convolution::conv2d(input, n_channels, kernel)
        .with_stride(sizes(stride, "stride", axes)?)
        .with_paddings(paddings(padding, axes)?)
        .with_dilation(sizes(dilation, "dilation", axes)?)
        .with_groups(groups);
    Ok((made, axes))
}

/// The shape without the row of a sequence.
fn shape_of(image: [usize; 3], axes: usize) -> Vec<usize> {
    let [channels, rows, columns] = image;
    if axes == 1 { vec![channels, columns] } else { vec![channels, rows, columns] }
}

impl ConvLayer {
    fn make(
        py: Python<'_>,
        (convolution, axes): (Convolution, usize),
        settings: Settings,
        weights: Option<&Input<'_, f64>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let topology = aleatron::StreamLayer::convolution(convolution);
        let (values, shape) = match weights {
            Some(weights) => (Some(weights.slice()?), weights.shape()),
            None => (None, &[][..]),
        };
        let mut base = settings.build(py, topology, values, shape)?;
        base.input = shape_of(convolution.input, axes);
        base.output = match base.layer().spec().topology() {
            aleatron::Topology::Conv(shape) => shape_of(shape.output(), axes),
            _ => base.output,
        };
        Ok(PyClassInitializer::from(base).add_subclass(Self { convolution, axes }))
    }

    fn weight_shape(&self) -> Vec<usize> {
        let Convolution { out_channels, input, kernel: [rows, columns], groups, .. } =
            self.convolution;
        let channels = input[0].checked_div(groups).unwrap_or(0);
        if self.axes == 1 {
            vec![out_channels, channels, columns]
        } else {
            vec![out_channels, channels, rows, columns]
        }
    }

    /// One number for each axis.
    fn each(&self, [rows, columns]: [usize; 2]) -> Vec<usize> {
        if self.axes == 1 { vec![columns] } else { vec![rows, columns] }
    }
}

#[pymethods]
impl ConvLayer {
    #[new]
    #[pyo3(
        signature = (
            input_shape, n_channels, kernel_size, length=1024, seed=24301, polarity=Polarity::Unipolar, device=Device::Auto, *,
            stride=None, padding=None, dilation=None, groups=1, generator=GeneratorName::Bernoulli, width=WidthChoice::Auto,
            sharing=Sharing::OneForAll
        ),
        text_signature = "(input_shape, n_channels, kernel_size, length=1024, seed=24301, polarity='unipolar', device='auto', *, stride=1, padding=0, dilation=1, groups=1, generator='bernoulli', width='auto', sharing='all')"
    )]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = input_shape)] input_shape: Vec<usize>,
        #[pyo3(from_py_with = n_channels)] n_channels: usize,
        kernel_size: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = length)] length: usize,
        #[pyo3(from_py_with = seed)] seed: u64,
        #[pyo3(from_py_with = polarity)] polarity: Polarity,
        #[pyo3(from_py_with = device)] device: Device,
        stride: Option<&Bound<'_, PyAny>>,
        padding: Option<&Bound<'_, PyAny>>,
        dilation: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = groups)] groups: usize,
        #[pyo3(from_py_with = generator)] generator: GeneratorName,
        #[pyo3(from_py_with = width)] width: WidthChoice,
        #[pyo3(from_py_with = sharing)] sharing: Sharing,
    ) -> PyResult<PyClassInitializer<Self>> {
        let axes = input_shape.len().saturating_sub(1);
        let kernel = match axes {
            1 | 2 => sizes(kernel_size, "kernel_size", axes)?,
            // The shape is at fault, which is said below.
            _ => [1, 1],
        };
        let (zero, one) =
            (0_usize.into_pyobject(py)?.into_any(), 1_usize.into_pyobject(py)?.into_any());
        let convolution = convolution(
            &input_shape,
            n_channels,
            kernel,
            stride.unwrap_or(&one),
            padding.unwrap_or(&zero),
            dilation.unwrap_or(&one),
            groups,
        )?;
        let settings = Settings { length, seed, polarity, device, generator, width, sharing };
        Self::make(py, convolution, settings, None)
    }

    /// A layer with given kernels of shape (n_channels, channels of a group, rows, columns) or
    /// (n_channels, channels of a group, places).
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     Where shapes do not fit, or a weight is NaN or outside the polarity's interval.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> edges = al.ConvLayer.from_weights([[[-1.0, 1.0]]], (1, 4), length=64, polarity="signed")
    /// >>> edges([[0.0, 1.0, 1.0, 0.0]])
    /// array([[ 1.,  0., -1.]])
    #[classmethod]
    #[pyo3(
        signature = (
            weights, input_shape, length=1024, seed=24301, polarity=Polarity::Unipolar, device=Device::Auto, *,
            stride=None, padding=None, dilation=None, groups=1, generator=GeneratorName::Bernoulli, width=WidthChoice::Auto,
            sharing=Sharing::OneForAll
        ),
        text_signature = "($cls, weights, input_shape, length=1024, seed=24301, polarity='unipolar', device='auto', *, stride=1, padding=0, dilation=1, groups=1, generator='bernoulli', width='auto', sharing='all')"
    )]
    fn from_weights(
        _cls: &Bound<'_, PyType>,
        py: Python<'_>,
        weights: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = input_shape)] input_shape: Vec<usize>,
        #[pyo3(from_py_with = length)] length: usize,
        #[pyo3(from_py_with = seed)] seed: u64,
        #[pyo3(from_py_with = polarity)] polarity: Polarity,
        #[pyo3(from_py_with = device)] device: Device,
        stride: Option<&Bound<'_, PyAny>>,
        padding: Option<&Bound<'_, PyAny>>,
        dilation: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = groups)] groups: usize,
        #[pyo3(from_py_with = generator)] generator: GeneratorName,
        #[pyo3(from_py_with = width)] width: WidthChoice,
        #[pyo3(from_py_with = sharing)] sharing: Sharing,
    ) -> PyResult<Py<Self>> {
        let weights = Input::<f64>::read(weights, "weights")?;
        let (n_channels, kernel) = match (weights.shape(), input_shape.len()) {
            (&[n, _, rows, columns], 3) => (n, [rows, columns]),
            (&[n, _, columns], 2) => (n, [1, columns]),
            _ => {
                let [weights, input] = [weights.shape(), &input_shape].map(shape_text);
                return Err(PyValueError::new_err(format!(
                    "weights have shape {weights} for samples of shape {input}; expected (n_channels, channels, rows, columns) for \
                     (channels, rows, columns), or (n_channels, channels, places) for (channels, places)"
                )));
            }
        };
        let (zero, one) =
            (0_usize.into_pyobject(py)?.into_any(), 1_usize.into_pyobject(py)?.into_any());
        let convolution = convolution(
            &input_shape,
            n_channels,
            kernel,
            stride.unwrap_or(&one),
            padding.unwrap_or(&zero),
            dilation.unwrap_or(&one),
            groups,
        )?;
        let channels = input_shape.first().copied().unwrap_or(0);
        if weights.shape()[1].checked_mul(groups) != Some(channels) {
            let shape = shape_text(weights.shape());
            return Err(PyValueError::new_err(format!(
                "weights have shape {shape}; kernels of {groups} groups must have {channels} channels together"
            )));
        }
        let settings = Settings { length, seed, polarity, device, generator, width, sharing };
        Py::new(py, Self::make(py, convolution, settings, Some(&weights))?)
    }

    /// The kernels, a read-only array of shape (n_channels, channels of a group, rows, columns),
    /// without rows for sequences.
    ///
    /// Assign a whole array to replace them; calls in flight in other threads finish with the old
    /// ones.
    #[getter]
    fn weights<'py>(slf: PyRef<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        read_only(slf.py(), slf.as_super().layer().weights().to_vec(), &slf.weight_shape())
    }

    #[setter]
    fn set_weights(slf: PyRef<'_, Self>, weights: &Bound<'_, PyAny>) -> PyResult<()> {
        let weights = Input::<f64>::read(weights, "weights")?;
        if weights.shape() != slf.weight_shape() {
            let [actual, expected] = [weights.shape(), &slf.weight_shape()].map(shape_text);
            return Err(PyValueError::new_err(format!(
                "weights have shape {actual}; expected {expected}"
            )));
        }
        slf.as_super().replace(slf.py(), weights.slice()?, weights.shape())
    }

    /// The shape of a sample.
    #[getter]
    fn input_shape(slf: PyRef<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        Ok(pyo3::types::PyTuple::new(slf.py(), &slf.as_super().input)?.into_any())
    }

    /// The shape of the output of a sample.
    #[getter]
    fn output_shape(slf: PyRef<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        Ok(pyo3::types::PyTuple::new(slf.py(), &slf.as_super().output)?.into_any())
    }

    fn __repr__(slf: PyRef<'_, Self>) -> String {
        let base = slf.as_super();
        let Convolution { out_channels, kernel, stride, padding, dilation, groups, .. } =
            slf.convolution;
        let mut text = format!(
            "ConvLayer(input_shape={}, n_channels={out_channels}, kernel_size={}",
            shape_text(&base.input),
            shape_text(&slf.each(kernel))
        );
        if stride != [1, 1] {
            text.push_str(&format!(", stride={}", shape_text(&slf.each(stride))));
        }
        if padding != [[0, 0]; 2] {
            let pairs = padding.iter().skip(2 - slf.axes).map(|pair| shape_text(pair));
            text.push_str(&format!(", padding=[{}]", pairs.collect::<Vec<_>>().join(", ")));
        }
        if dilation != [1, 1] {
            text.push_str(&format!(", dilation={}", shape_text(&slf.each(dilation))));
        }
        if groups != 1 {
            text.push_str(&format!(", groups={groups}"));
        }
        format!("{text}, {})", base.settings)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = slf.py();
        let own = slf.borrow();
        let arguments = (Self::weights(slf.borrow())?, Self::input_shape(slf.borrow())?);
        let arguments = arguments.into_pyobject(py)?.into_any();
        let Convolution { stride, padding, dilation, groups, .. } = own.convolution;
        let keywords = PyDict::new(py);
        keywords.set_item("stride", own.each(stride))?;
        keywords.set_item("dilation", own.each(dilation))?;
        keywords.set_item("groups", groups)?;
        let pairs: Vec<(usize, usize)> =
            padding.iter().skip(2 - own.axes).map(|&[before, after]| (before, after)).collect();
        keywords.set_item("padding", pairs)?;
        rebuild(slf.as_any(), own.as_super(), arguments, keywords)
    }

    /// Returns a copy: replacing the weights of one does not change the other.
    fn __copy__(slf: PyRef<'_, Self>) -> PyResult<Py<Self>> {
        let own = Self { convolution: slf.convolution, axes: slf.axes };
        Py::new(slf.py(), PyClassInitializer::from(slf.as_super().copied()).add_subclass(own))
    }

    /// As `__copy__`.
    fn __deepcopy__(slf: PyRef<'_, Self>, _memo: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        Self::__copy__(slf)
    }
}
