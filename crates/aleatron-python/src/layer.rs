//! `StreamLayer` and its kinds, `DenseLayer` and `SparseLayer`; `ConvLayer` is in `convolution.rs`.

use crate::argument::{
    device, generator, length, n_inputs, n_neurons, n_samples, polarity, seed, sharing, width,
};
use crate::array::{Input, output, shape_text};
use crate::compute::compute_with_cancellation;
use crate::cuda;
use crate::error::core_exception;
use crate::warning::warn;
use aleatron::backend::{Batch, DeviceElement};
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::stream::check_words;
use aleatron::{Connections, Device, LayerBuilder, Polarity, SampleSeed};
use numpy::Element;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use std::sync::{Arc, PoisonError, RwLock};

/// The base class of all layers of stochastic neurons; create a `DenseLayer`, a `SparseLayer` or a
/// `ConvLayer`.
///
/// A weight or an input is a stream of `length` bits whose share of ones is its value. AND
/// multiplies two streams, counting ones adds the products: each output is a noisy dot product. The
/// same seeds give the same bits on every machine and device, with any number of threads.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> layers = [al.DenseLayer(3, 2), al.SparseLayer([[True]])]
/// >>> [isinstance(layer, al.StreamLayer) for layer in layers]
/// [True, True]
#[pyclass(module = "aleatron", frozen, subclass)]
pub(crate) struct StreamLayer {
    pub(crate) settings: Settings,
    /// The shapes of a sample and of its output.
    pub(crate) input: Vec<usize>,
    pub(crate) output: Vec<usize>,
    /// The layer to be, without weights.
    builder: LayerBuilder,
    // Replaced as a whole: a call in flight finishes with the weights it began with.
    layer: RwLock<Arc<aleatron::StreamLayer>>,
}

/// The settings of a layer, except its topology and weights.
#[derive(Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) length: usize,
    pub(crate) seed: u64,
    pub(crate) polarity: Polarity,
    pub(crate) device: Device,
    pub(crate) generator: GeneratorName,
    pub(crate) width: WidthChoice,
    pub(crate) sharing: Sharing,
}

impl std::fmt::Display for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { length, seed, polarity, device, generator, width, sharing } = self;
        write!(f, "length={length}, seed={seed}, polarity='{polarity}', device='{device}'")?;
        if *generator != GeneratorName::Bernoulli {
            write!(f, ", generator='{generator}', width='{width}', sharing='{sharing}'")?;
        }
        Ok(())
    }
}

impl Settings {
    fn apply(&self, builder: LayerBuilder) -> LayerBuilder {
        builder
            .length(self.length)
            .seed(self.seed)
            .polarity(self.polarity)
            .device(self.device.clone())
            .generator(self.generator)
            .width(self.width)
            .sharing(self.sharing)
    }

    /// Builds a layer with the given weights, or random ones; `shape` is that of the argument with
    /// the weights.
    pub(crate) fn build(
        self,
        py: Python<'_>,
        topology: LayerBuilder,
        weights: Option<&[f64]>,
        shape: &[usize],
    ) -> PyResult<StreamLayer> {
        let builder = self.apply(topology);
        let layer = make(py, builder.clone(), weights, shape)?;
        let (input, output) = (vec![layer.spec().n_inputs()], vec![layer.spec().n_neurons()]);
        Ok(StreamLayer {
            settings: self,
            input,
            output,
            builder,
            layer: RwLock::new(Arc::new(layer)),
        })
    }
}

fn make(
    py: Python<'_>,
    builder: LayerBuilder,
    weights: Option<&[f64]>,
    shape: &[usize],
) -> PyResult<aleatron::StreamLayer> {
    let builder = match weights {
        Some(weights) => builder.weights(weights),
        None => builder,
    };
    let layer = compute_with_cancellation(py, shape, |cancel| Ok(builder.build_with(cancel)?))?;
    warn(py, layer.warnings())?;
    Ok(layer)
}

impl StreamLayer {
    pub(crate) fn layer(&self) -> Arc<aleatron::StreamLayer> {
        Arc::clone(&self.layer.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a copy of the layer.
    pub(crate) fn copied(&self) -> Self {
        let (settings, builder) = (self.settings.clone(), self.builder.clone());
        let (input, output) = (self.input.clone(), self.output.clone());
        Self { settings, input, output, builder, layer: RwLock::new(self.layer()) }
    }

    pub(crate) fn replace(&self, py: Python<'_>, weights: &[f64], shape: &[usize]) -> PyResult<()> {
        let made = make(py, self.builder.clone(), Some(weights), shape)?;
        *self.layer.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
        Ok(())
    }

    /// Applies `make` to the counts of one sample (n_inputs,) or a batch (N, n_inputs), as an array
    /// (n_neurons,) or (N, n_neurons); for a convolution, samples and results have the axes of
    /// images.
    ///
    /// If `x` and the layer are on a CUDA device, the results stay there, in `out` if it is given;
    /// `element` is their type.
    fn run<'py, T: Element + Send>(
        &self,
        x: &Bound<'py, PyAny>,
        seed: u64,
        out: Option<Bound<'py, PyAny>>,
        element: DeviceElement,
        make: impl FnOnce(&aleatron::StreamLayer, Vec<u64>) -> Vec<T> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(place) = cuda::place_of(&self.settings.device, x)? {
            return cuda::run(self, place, x, seed, out, element);
        }
        cuda::check_no_out(out.as_ref())?;
        let (py, layer) = (x.py(), self.layer());
        let x = Input::<f64>::read(x, "x")?;
        let (shape, values) = (x.shape(), x.slice()?);
        let n_samples = samples("x", shape, &self.input)?;
        let batch = Batch::values(values, SampleSeed::new(seed));
        let made = compute_with_cancellation(py, shape, |cancel| {
            Ok(make(&layer, layer.count(&batch, cancel)?))
        })?;
        output(py, made, &self.result_shape(n_samples))
    }

    pub(crate) fn result_shape(&self, n_samples: Option<usize>) -> Vec<usize> {
        n_samples.into_iter().chain(self.output.iter().copied()).collect()
    }

    /// As [`Self::run`], on the packed streams of a sample (n_inputs, words) or a batch (N,
    /// n_inputs, words).
    fn run_encoded<'py, T: Element + Send>(
        &self,
        streams: &Bound<'py, PyAny>,
        make: impl FnOnce(&aleatron::StreamLayer, Vec<u64>) -> Vec<T> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, layer) = (streams.py(), self.layer());
        let spec = layer.spec();
        let streams = Input::<u64>::read(streams, "streams")?;
        let (shape, words) = (streams.shape(), streams.slice()?);
        let n_samples = samples("streams", shape, &[spec.n_inputs(), spec.length().words()])?;
        check_words(words, n_samples.unwrap_or(1) * spec.n_inputs(), spec.length())
            .map_err(|error| core_exception(error, shape))?;
        let batch = Batch::streams(words);
        let made = compute_with_cancellation(py, shape, |cancel| {
            Ok(make(&layer, layer.count(&batch, cancel)?))
        })?;
        output(py, made, &self.result_shape(n_samples))
    }
}

/// Returns the number of samples of an argument whose samples have the shape `one`; `None` for a
/// single sample.
pub(crate) fn samples(name: &str, shape: &[usize], one: &[usize]) -> PyResult<Option<usize>> {
    match shape {
        shape if shape == one => Ok(None),
        [n, rest @ ..] if rest == one => Ok(Some(*n)),
        _ => {
            let sizes = one.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            Err(PyValueError::new_err(format!(
                "{name} has shape {}; expected {} for a sample or (N, {sizes}) for a batch",
                shape_text(shape),
                shape_text(one),
            )))
        }
    }
}

#[pymethods]
impl StreamLayer {
    /// Computes outputs for one sample of shape (n_inputs,) or a batch of shape (N, n_inputs); of a
    /// `ConvLayer`, samples have its `input_shape`.
    ///
    /// Sample s of a batch draws its own streams, those of `seed` and s; call with other seeds for
    /// independent repetitions. Streams of shared sequences do not depend on the seed.
    ///
    /// A layer on a CUDA device takes arrays in the memory of that device (of torch, CuPy, JAX, or
    /// anything with `__dlpack__` or `__cuda_array_interface__`) without a copy through the
    /// host, and returns a `CudaArray` there, or `out`.
    #[pyo3(signature = (x, seed=44257, *, out=None))]
    fn __call__<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = seed)] seed: u64,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run(x, seed, out, DeviceElement::F64, |layer, counts| layer.decode(&counts))
    }

    /// Counts ones: the integers behind the outputs, as uint64 of the shape a call would return.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> layer = al.DenseLayer(3, 2, length=100)
    /// >>> bool((layer.counts([0.2, 0.4, 0.6]) / 100 == layer([0.2, 0.4, 0.6])).all())
    /// True
    #[pyo3(signature = (x, seed=44257, *, out=None))]
    fn counts<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = seed)] seed: u64,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run(x, seed, out, DeviceElement::U64, |_, counts| counts)
    }

    /// Computes outputs from packed streams, (n_inputs, words) or (N, n_inputs, words), as `encode`
    /// makes them.
    ///
    /// Encode once to use the same inputs with several layers.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> layer = al.DenseLayer(3, 2, length=100)
    /// >>> streams = al.encode([0.2, 0.4, 0.6], length=100, seed=7)
    /// >>> bool((layer.forward_encoded(streams) == layer([0.2, 0.4, 0.6], seed=7)).all())
    /// True
    fn forward_encoded<'py>(&self, streams: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.run_encoded(streams, |layer, counts| layer.decode(&counts))
    }

    /// Counts ones from packed streams; see `forward_encoded` and `counts`.
    fn counts_encoded<'py>(&self, streams: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.run_encoded(streams, |_, counts| counts)
    }

    /// The number of inputs.
    #[getter]
    fn n_inputs(&self) -> usize {
        self.layer().spec().n_inputs()
    }

    /// The number of neurons.
    #[getter]
    fn n_neurons(&self) -> usize {
        self.layer().spec().n_neurons()
    }

    /// Bits per stream.
    #[getter]
    fn length(&self) -> usize {
        self.settings.length
    }

    /// The seed of the weights.
    #[getter]
    fn seed(&self) -> u64 {
        self.settings.seed
    }

    /// "unipolar", "bipolar" or "signed".
    #[getter]
    fn polarity(&self) -> &'static str {
        self.settings.polarity.name()
    }

    /// The generator of the bits.
    #[getter]
    fn generator(&self) -> String {
        self.settings.generator.to_string()
    }

    /// Bits of shared sequences, or "auto".
    #[getter]
    fn width(&self) -> String {
        self.settings.width.to_string()
    }

    /// How many sequences streams share: "all", "input" or "stream".
    #[getter]
    fn sharing(&self) -> &'static str {
        self.settings.sharing.name()
    }

    /// The requested device.
    #[getter]
    fn device(&self) -> String {
        self.settings.device.to_string()
    }

    /// Returns the device of a batch of `n_samples`, such as "cpu" or "gpu:0", or "auto" if the
    /// first such call has yet to measure it.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> al.DenseLayer(3, 2, device="cpu").device_for(1)
    /// 'cpu'
    #[pyo3(signature = (n_samples=1))]
    fn device_for(&self, #[pyo3(from_py_with = n_samples)] n_samples: usize) -> String {
        self.layer().backend_for(n_samples).unwrap_or_else(|| "auto".to_owned())
    }

    /// Notes on the execution of the layer, such as a device that "auto" could not use.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.layer().notes()
    }

    /// Returns whether both layers have the same weights and bits; devices are ignored.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(other) = other.cast::<Self>() else { return false };
        let (a, b) = (self.layer(), other.get().layer());
        a.spec() == b.spec() && a.weights() == b.weights()
    }
}

/// A dense layer of stochastic neurons: every neuron sees every input.
///
/// A weight or an input is a stream of `length` bits whose share of ones is its value. AND
/// multiplies two streams, counting ones adds the products: each output is a noisy dot product
/// whose error falls with the square root of `length`. The same seeds give the same bits on every
/// machine and device, with any number of threads.
///
/// Parameters
/// ----------
/// n_inputs, n_neurons
///     The size of the layer, each at least 1.
/// length
///     Bits per stream, at least 1; need not be a multiple of 64.
/// seed
///     Decides the random weights (uniform over the polarity's interval) and the bits of the weight
///     streams.
/// polarity
///     "unipolar" for values in [0, 1], "bipolar" for values in [-1, 1].
/// device
///     "cpu"; "gpu" or "gpu:1", "cuda" or "cuda:1" (NVIDIA cards through CUDA), which raise
///     RuntimeError where there is none; a list of such names, which work as one; or "auto" for
///     wherever a batch of the size is faster, which its first call measures. The environment
///     variable ALEATRON_DEVICE decides for "auto" where it is set, and ALEATRON_GPU or
///     SC_GPU_ADAPTER names the GPU.
/// generator, width, sharing
///     Where the bits come from, as for `Network.forward_streams`.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> layer = al.DenseLayer(64, 32)
/// >>> y = layer([0.5] * 64)
/// >>> y.shape, y.dtype
/// ((32,), dtype('float64'))
/// >>> exact = layer.weights @ ([0.5] * 64)
/// >>> bool(abs(y - exact).max() < 0.5)
/// True
///
/// One call for a whole batch; a sample's bits depend on its index, not on the batch's size:
///
/// >>> layer([[0.1] * 64, [0.9] * 64]).shape
/// (2, 32)
#[pyclass(module = "aleatron", frozen, extends = StreamLayer)]
pub(crate) struct DenseLayer;

#[pymethods]
impl DenseLayer {
    #[new]
    #[pyo3(
        signature = (
            n_inputs, n_neurons, length=1024, seed=24301, polarity=Polarity::Unipolar, device=Device::Auto, *,
            generator=GeneratorName::Bernoulli, width=WidthChoice::Auto, sharing=Sharing::OneForAll
        ),
        text_signature = "(n_inputs, n_neurons, length=1024, seed=24301, polarity='unipolar', device='auto', *, generator='bernoulli', width='auto', sharing='all')"
    )]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = n_inputs)] n_inputs: usize,
        #[pyo3(from_py_with = n_neurons)] n_neurons: usize,
        #[pyo3(from_py_with = length)] length: usize,
        #[pyo3(from_py_with = seed)] seed: u64,
        #[pyo3(from_py_with = polarity)] polarity: Polarity,
        #[pyo3(from_py_with = device)] device: Device,
        #[pyo3(from_py_with = generator)] generator: GeneratorName,
        #[pyo3(from_py_with = width)] width: WidthChoice,
        #[pyo3(from_py_with = sharing)] sharing: Sharing,
    ) -> PyResult<PyClassInitializer<Self>> {
        let settings = Settings { length, seed, polarity, device, generator, width, sharing };
        let base =
            settings.build(py, aleatron::StreamLayer::dense(n_inputs, n_neurons), None, &[])?;
        Ok(PyClassInitializer::from(base).add_subclass(Self))
    }

    /// A layer with given weights of shape (n_neurons, n_inputs).
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     If the weights are not a matrix, or one is NaN or outside the polarity's interval.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> layer = al.DenseLayer.from_weights([[0.5, -1.0]], length=4096, polarity="bipolar")
    /// >>> bool(abs(layer([-0.5, 0.25])[0] - (0.5 * -0.5 + -1.0 * 0.25)) < 0.1)
    /// True
    /// >>> sobol = {"length": 256, "polarity": "bipolar", "generator": "sobol"}
    /// >>> exact = al.DenseLayer.from_weights([[0.5, -1.0]], **sobol)
    /// >>> exact([-0.5, 0.25])
    /// array([-0.5])
    /// >>> al.DenseLayer.from_weights([[0.5, 1.5]])
    /// Traceback (most recent call last):
    ///     ...
    /// ValueError: weight at index (0, 1) is 1.5, not in [0, 1]
    #[classmethod]
    #[pyo3(
        signature = (
            weights, length=1024, seed=24301, polarity=Polarity::Unipolar, device=Device::Auto, *,
            generator=GeneratorName::Bernoulli, width=WidthChoice::Auto, sharing=Sharing::OneForAll
        ),
        text_signature = "($cls, weights, length=1024, seed=24301, polarity='unipolar', device='auto', *, generator='bernoulli', width='auto', sharing='all')"
    )]
    fn from_weights(
        _cls: &Bound<'_, PyType>,
        py: Python<'_>,
        weights: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = length)] length: usize,
        #[pyo3(from_py_with = seed)] seed: u64,
        #[pyo3(from_py_with = polarity)] polarity: Polarity,
        #[pyo3(from_py_with = device)] device: Device,
        #[pyo3(from_py_with = generator)] generator: GeneratorName,
        #[pyo3(from_py_with = width)] width: WidthChoice,
        #[pyo3(from_py_with = sharing)] sharing: Sharing,
    ) -> PyResult<Py<Self>> {
        let weights = Input::<f64>::read(weights, "weights")?;
        let &[n_neurons, n_inputs] = weights.shape() else {
            let shape = shape_text(weights.shape());
            return Err(PyValueError::new_err(format!(
                "weights have shape {shape}, not (n_neurons, n_inputs)"
            )));
        };
        let settings = Settings { length, seed, polarity, device, generator, width, sharing };
        let topology = aleatron::StreamLayer::dense(n_inputs, n_neurons);
        let base = settings.build(py, topology, Some(weights.slice()?), weights.shape())?;
        Py::new(py, PyClassInitializer::from(base).add_subclass(Self))
    }

    /// Creates some neurons of a layer of `n_neurons`, from `first` on: `weights` are their
    /// weights, or (n, n_inputs) for random ones. Pickling is not supported: a copy would be a
    /// separate layer with other bits.
    #[staticmethod]
    fn _part(
        py: Python<'_>,
        n_neurons: usize,
        first: usize,
        weights: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = length)] length: usize,
        #[pyo3(from_py_with = seed)] seed: u64,
        #[pyo3(from_py_with = polarity)] polarity: Polarity,
        #[pyo3(from_py_with = device)] device: Device,
        #[pyo3(from_py_with = generator)] generator: GeneratorName,
        #[pyo3(from_py_with = width)] width: WidthChoice,
        #[pyo3(from_py_with = sharing)] sharing: Sharing,
    ) -> PyResult<Py<Self>> {
        let settings = Settings { length, seed, polarity, device, generator, width, sharing };
        let part = |n_inputs: usize, n: usize| {
            aleatron::StreamLayer::dense(n_inputs, n_neurons)
                .neurons(first..first.saturating_add(n))
        };
        let base = if let Ok((n, n_inputs)) = weights.extract::<(usize, usize)>() {
            settings.build(py, part(n_inputs, n), None, &[])?
        } else {
            let weights = Input::<f64>::read(weights, "weights")?;
            let &[n, n_inputs] = weights.shape() else {
                let shape = shape_text(weights.shape());
                return Err(PyValueError::new_err(format!(
                    "weights have shape {shape}, not (n_neurons, n_inputs)"
                )));
            };
            settings.build(py, part(n_inputs, n), Some(weights.slice()?), weights.shape())?
        };
        Py::new(py, PyClassInitializer::from(base).add_subclass(Self))
    }

    /// The weights, a read-only array of shape (n_neurons, n_inputs).
    ///
    /// Assign a whole matrix to replace them; calls in flight in other threads finish with the old
    /// ones.
    #[getter]
    fn weights<'py>(slf: PyRef<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, layer) = (slf.py(), slf.as_super().layer());
        read_only(
            py,
            layer.weights().to_vec(),
            &[layer.spec().n_neurons(), layer.spec().n_inputs()],
        )
    }

    #[setter]
    fn set_weights(slf: PyRef<'_, Self>, weights: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, base) = (slf.py(), slf.as_super());
        let weights = Input::<f64>::read(weights, "weights")?;
        check_shape(&weights, [base.n_neurons(), base.n_inputs()])?;
        base.replace(py, weights.slice()?, weights.shape())
    }

    fn __repr__(slf: PyRef<'_, Self>) -> String {
        let base = slf.as_super();
        format!(
            "DenseLayer(n_inputs={}, n_neurons={}, {})",
            base.n_inputs(),
            base.n_neurons(),
            base.settings
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        if slf.borrow().as_super().layer().spec().first_neuron() != 0 {
            return Err(PyTypeError::new_err(
                "a part of a layer cannot be pickled: it would be a layer of its own",
            ));
        }
        let arguments = (Self::weights(slf.borrow())?,).into_pyobject(slf.py())?.into_any();
        rebuild(slf.as_any(), slf.borrow().as_super(), arguments, PyDict::new(slf.py()))
    }

    /// Returns a copy: replacing the weights of one does not change the other.
    fn __copy__(slf: PyRef<'_, Self>) -> PyResult<Py<Self>> {
        Py::new(slf.py(), PyClassInitializer::from(slf.as_super().copied()).add_subclass(Self))
    }

    /// As `__copy__`.
    fn __deepcopy__(slf: PyRef<'_, Self>, _memo: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        Self::__copy__(slf)
    }
}

/// A sparse layer of stochastic neurons: a neuron sees the inputs it is connected to, and costs no
/// more than that.
///
/// A connection has the weight and the bits that the `DenseLayer` of the same seed has there.
///
/// Parameters
/// ----------
/// mask
///     Booleans of shape (n_neurons, n_inputs): who sees whom.
/// length, seed, polarity, device, generator, width, sharing
///     As for `DenseLayer`.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> layer = al.SparseLayer([[True, False, True], [False, True, False]], length=256)
/// >>> layer.n_connections
/// 3
/// >>> layer([0.5, 0.5, 0.5]).shape
/// (2,)
#[pyclass(module = "aleatron", frozen, extends = StreamLayer)]
pub(crate) struct SparseLayer {
    connections: Arc<Connections>,
}

/// The connections of a mask.
fn connections_of(mask: &Bound<'_, PyAny>) -> PyResult<Arc<Connections>> {
    let mask = Input::<bool>::read(mask, "mask")?;
    let &[_, n_inputs] = mask.shape() else {
        let shape = shape_text(mask.shape());
        return Err(PyValueError::new_err(format!(
            "mask has shape {shape}, not (n_neurons, n_inputs)"
        )));
    };
    Connections::from_mask(mask.slice()?, n_inputs)
        .map(Arc::new)
        .map_err(|error| core_exception(error, &[]))
}

/// The weights at the connections of a whole matrix, all of which are checked, connected or not: a
/// NaN anywhere is more likely a mistake than meant.
fn connected(
    weights: &Bound<'_, PyAny>,
    connections: &Connections,
    polarity: Polarity,
) -> PyResult<Vec<f64>> {
    let weights = Input::<f64>::read(weights, "weights")?;
    check_shape(&weights, [connections.n_neurons(), connections.n_inputs()])?;
    let check = polarity.check(weights.slice()?, aleatron::Quantity::Weight);
    check.map_err(|error| core_exception(error, weights.shape()))?;
    let rows = weights.slice()?.chunks_exact(connections.n_inputs()).enumerate();
    Ok(rows
        .flat_map(|(j, row)| connections.inputs_of(j).iter().map(|&i| row[i as usize]))
        .collect())
}

#[pymethods]
impl SparseLayer {
    #[new]
    #[pyo3(
        signature = (
            mask, length=1024, seed=24301, polarity=Polarity::Unipolar, device=Device::Auto, *,
            generator=GeneratorName::Bernoulli, width=WidthChoice::Auto, sharing=Sharing::OneForAll
        ),
        text_signature = "(mask, length=1024, seed=24301, polarity='unipolar', device='auto', *, generator='bernoulli', width='auto', sharing='all')"
    )]
    fn new(
        py: Python<'_>,
        mask: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = length)] length: usize,
        #[pyo3(from_py_with = seed)] seed: u64,
        #[pyo3(from_py_with = polarity)] polarity: Polarity,
        #[pyo3(from_py_with = device)] device: Device,
        #[pyo3(from_py_with = generator)] generator: GeneratorName,
        #[pyo3(from_py_with = width)] width: WidthChoice,
        #[pyo3(from_py_with = sharing)] sharing: Sharing,
    ) -> PyResult<PyClassInitializer<Self>> {
        let settings = Settings { length, seed, polarity, device, generator, width, sharing };
        let connections = connections_of(mask)?;
        let topology = aleatron::StreamLayer::sparse(Arc::clone(&connections));
        let base = settings.build(py, topology, None, &[])?;
        Ok(PyClassInitializer::from(base).add_subclass(Self { connections }))
    }

    /// A layer with given weights and mask, both of shape (n_neurons, n_inputs); weights outside
    /// the mask have no effect.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> layer = al.SparseLayer.from_weights([[1.0, 0.5]], mask=[[True, False]], length=64)
    /// >>> layer([1.0, 1.0])
    /// array([1.])
    #[classmethod]
    #[pyo3(
        signature = (
            weights, mask, length=1024, seed=24301, polarity=Polarity::Unipolar, device=Device::Auto, *,
            generator=GeneratorName::Bernoulli, width=WidthChoice::Auto, sharing=Sharing::OneForAll
        ),
        text_signature = "($cls, weights, mask, length=1024, seed=24301, polarity='unipolar', device='auto', *, generator='bernoulli', width='auto', sharing='all')"
    )]
    fn from_weights(
        _cls: &Bound<'_, PyType>,
        py: Python<'_>,
        weights: &Bound<'_, PyAny>,
        mask: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = length)] length: usize,
        #[pyo3(from_py_with = seed)] seed: u64,
        #[pyo3(from_py_with = polarity)] polarity: Polarity,
        #[pyo3(from_py_with = device)] device: Device,
        #[pyo3(from_py_with = generator)] generator: GeneratorName,
        #[pyo3(from_py_with = width)] width: WidthChoice,
        #[pyo3(from_py_with = sharing)] sharing: Sharing,
    ) -> PyResult<Py<Self>> {
        let connections = connections_of(mask)?;
        let weights = connected(weights, &connections, polarity)?;
        let settings = Settings { length, seed, polarity, device, generator, width, sharing };
        let topology = aleatron::StreamLayer::sparse(Arc::clone(&connections));
        let base = settings.build(py, topology, Some(&weights), &[])?;
        Py::new(py, PyClassInitializer::from(base).add_subclass(Self { connections }))
    }

    /// The weights, a read-only array of shape (n_neurons, n_inputs), 0 where there is no
    /// connection.
    ///
    /// Assign a whole matrix to replace them; calls in flight in other threads finish with the old
    /// ones.
    #[getter]
    fn weights<'py>(slf: PyRef<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (connections, layer) = (&slf.connections, slf.as_super().layer());
        let mut dense = vec![0.0; connections.n_neurons() * connections.n_inputs()];
        let mut weights = layer.weights().iter();
        for (neuron, row) in dense.chunks_exact_mut(connections.n_inputs()).enumerate() {
            for (&input, &weight) in connections.inputs_of(neuron).iter().zip(&mut weights) {
                row[input as usize] = weight;
            }
        }
        read_only(slf.py(), dense, &[connections.n_neurons(), connections.n_inputs()])
    }

    #[setter]
    fn set_weights(slf: PyRef<'_, Self>, weights: &Bound<'_, PyAny>) -> PyResult<()> {
        let base = slf.as_super();
        let weights = connected(weights, &slf.connections, base.settings.polarity)?;
        base.replace(slf.py(), &weights, &[])
    }

    /// The connections, read-only booleans of shape (n_neurons, n_inputs).
    #[getter]
    fn mask<'py>(slf: PyRef<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let connections = &slf.connections;
        let mut mask = vec![false; connections.n_neurons() * connections.n_inputs()];
        for (neuron, row) in mask.chunks_exact_mut(connections.n_inputs()).enumerate() {
            connections.inputs_of(neuron).iter().for_each(|&input| row[input as usize] = true);
        }
        read_only(slf.py(), mask, &[connections.n_neurons(), connections.n_inputs()])
    }

    /// The number of connections.
    #[getter]
    fn n_connections(slf: PyRef<'_, Self>) -> usize {
        slf.connections.len()
    }

    fn __repr__(slf: PyRef<'_, Self>) -> String {
        let base = slf.as_super();
        let (n, m, connections) = (base.n_inputs(), base.n_neurons(), slf.connections.len());
        format!(
            "SparseLayer(n_inputs={n}, n_neurons={m}, n_connections={connections}, {})",
            base.settings
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let arguments = (Self::weights(slf.borrow())?, Self::mask(slf.borrow())?);
        let arguments = arguments.into_pyobject(slf.py())?.into_any();
        rebuild(slf.as_any(), slf.borrow().as_super(), arguments, PyDict::new(slf.py()))
    }

    /// Returns a copy: replacing the weights of one does not change the other.
    fn __copy__(slf: PyRef<'_, Self>) -> PyResult<Py<Self>> {
        let own = Self { connections: Arc::clone(&slf.connections) };
        Py::new(slf.py(), PyClassInitializer::from(slf.as_super().copied()).add_subclass(own))
    }

    /// As `__copy__`.
    fn __deepcopy__(slf: PyRef<'_, Self>, _memo: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        Self::__copy__(slf)
    }
}

fn check_shape(weights: &Input<'_, f64>, expected: [usize; 2]) -> PyResult<()> {
    if weights.shape() == expected {
        return Ok(());
    }
    let [actual, expected] = [weights.shape(), &expected].map(shape_text);
    Err(PyValueError::new_err(format!("weights have shape {actual}; expected {expected}")))
}

/// An array that cannot be written to: a copy that could would swallow `layer.weights[0, 0] = 1`
/// without effect.
pub(crate) fn read_only<'py, T: Element>(
    py: Python<'py>,
    elements: Vec<T>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let array = output(py, elements, shape)?;
    array.call_method1("setflags", (false,))?;
    Ok(array)
}

/// Returns the arguments by which pickle restores a layer: `from_weights` with its arrays and
/// settings.
pub(crate) fn rebuild<'py>(
    layer: &Bound<'py, PyAny>,
    base: &StreamLayer,
    arrays: Bound<'py, PyAny>,
    keywords: Bound<'py, PyDict>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let py = layer.py();
    let Settings { length, seed, polarity, device, generator, width, sharing } = &base.settings;
    keywords.set_item("length", length)?;
    keywords.set_item("seed", seed)?;
    keywords.set_item("polarity", polarity.name())?;
    keywords.set_item("device", device.to_string())?;
    keywords.set_item("generator", generator.to_string())?;
    keywords.set_item("width", width.to_string())?;
    keywords.set_item("sharing", sharing.name())?;
    let from_weights = layer.get_type().getattr("from_weights")?;
    let call =
        py.import("functools")?.getattr("partial")?.call((from_weights,), Some(&keywords))?;
    Ok((call, arrays))
}
