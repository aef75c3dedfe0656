//! `GraphNetwork` and `StreamGraph`.

use crate::argument::{arithmetic, device, first_sample, length, polarity, seed, sharing, width};
use crate::array::{Input, output, shape_text};
use crate::compute::{compute, compute_unless};
use crate::error::exception;
use crate::kept::Kept;
use crate::layer::read_only;
use crate::network::{classes, read_generators, read_settings, share};
use crate::warning::warn;
use aleatron::Device;
use aleatron::generator::{Sharing, WidthChoice};
use aleatron::graph::{
    Calibration, Graph, GraphLayer, InputScale, Mode, ProductKind, Statistics, WeightScale,
};
use aleatron::network::{Arithmetic, StreamConfig};
use aleatron_tensor::{DType, Tensor};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::path::PathBuf;
use std::sync::Arc;

/// A network that is a graph, in floating point and as streams; `Network.from_onnx` and `Network.from_torch` make it.
///
/// A `Network` is a chain of layers, each a product with an activation. A graph has any operators, in any order, with branches: it has no
/// layer after layer, so it is a class of its own. Its layers are its products with constant weights, dense and convolutions. They run as
/// streams, unless they are asked to run in binary, where all other nodes run, in 32-bit floats. The inputs of every layer are divided by
/// its scale, which `calibrated` finds, and what then lies outside the interval saturates.
///
/// Samples may have the shape of the graph's input or be flat: x is of shape (N, n_features) or (N, \*input_shape), or one sample.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> x, y = al.load_digits()
/// >>> network = al.Network.from_onnx(al.Network.digits("cnn").to_onnx(), binary=["conv1"])
/// >>> network.input_shape, network.layer_names
/// ((1, 8, 8), ['conv1', 'conv2', 'dense1'])
/// >>> network = network.calibrated(al.load_digits("train")[0])
/// >>> scores = network.forward_streams(x, length=128, generator="sobol")
/// >>> bool((scores.argmax(axis=1) == y).mean() > 0.9)
/// True
#[pyclass(module = "aleatron", frozen)]
pub(crate) struct GraphNetwork {
    pub(crate) network: Arc<aleatron::graph::GraphNetwork>,
    streams: Kept<aleatron::graph::StreamGraph>,
}

impl From<aleatron::graph::GraphNetwork> for GraphNetwork {
    fn from(network: aleatron::graph::GraphNetwork) -> Self {
        Self { network: Arc::new(network), streams: Kept::default() }
    }
}

impl GraphNetwork {
    /// Reads a path or bytes.
    pub(crate) fn read(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        name: Option<&str>,
        binary: Option<&Bound<'_, PyAny>>,
        polarity: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (binary, polarity) = (names(binary)?, polarity.map(crate::argument::polarity).transpose()?);
        let mut network = match read_bytes(model)? {
            Some(bytes) => compute(py, &[], || Ok(aleatron::graph::GraphNetwork::from_onnx(&bytes)?))?,
            None => {
                let path = read_path(model, "model")?;
                compute(py, &[], || Ok(aleatron::graph::GraphNetwork::load(&path)?))?
            }
        };
        if let Some(name) = name {
            network = network.with_name(name);
        }
        if let Some(polarity) = polarity {
            network = network.with_polarity(polarity).map_err(|error| exception(error, &[]))?;
        }
        for name in binary {
            network = network.with_mode(&name, Mode::Binary).map_err(|error| exception(error, &[]))?;
        }
        Ok(network.into())
    }

    fn prepared(&self, py: Python<'_>, config: StreamConfig) -> PyResult<Arc<aleatron::graph::StreamGraph>> {
        self.streams.get_or_make(config, |config| {
            let network = Arc::clone(&self.network);
            compute(py, &[], || Ok(network.into_streams(config)?))
        })
    }
}

#[pymethods]
impl GraphNetwork {
    /// Computes scores in floating point, of shape (N, n_outputs), or (n_outputs,) for one sample.
    fn __call__<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, network) = (x.py(), &self.network);
        let x = Input::<f64>::read(x, "x")?;
        let n_samples = samples(network, x.shape())?;
        let features = x.slice()?;
        let scores = compute_unless(py, x.shape(), |cancel| Ok(network.forward_unless(features, cancel)?))?;
        output(py, scores, &score_shape(network, n_samples))
    }

    /// Returns the class of each sample in floating point: that of the best score, or, of a single score, whether it is positive.
    fn predict<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        classes(self.network.n_outputs(), &self.__call__(x)?)
    }

    /// Returns the share of samples whose class is `y` in floating point.
    fn score(&self, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<f64> {
        share(&self.predict(x)?, y)
    }

    /// Prepares the network to run as streams. Layers are encoded by the first call and kept.
    ///
    /// Parameters
    /// ----------
    /// length, generator, seed, width, sharing, layers, arithmetic, device
    ///     As for `Network.streams`; layers are those of `layer_names`. With "integer" arithmetic all nodes between two layers run in
    ///     integers; ValueError lists those that have no form in integers.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> x, y = al.load_digits()
    /// >>> network = al.Network.from_onnx(al.Network.digits("cnn").to_onnx())
    /// >>> streams = network.streams(64, "sobol", layers={"dense1": {"length": 256}})
    /// >>> streams(x[:3]).shape
    /// (3, 10)
    #[pyo3(
        signature = (
            length, generator=None, seed=44257, *, width=WidthChoice::Auto, sharing=Sharing::OneForAll, layers=None,
            arithmetic=Arithmetic::Float, device=Device::Auto
        ),
        text_signature = "($self, length, generator='bernoulli', seed=44257, *, width='auto', sharing='all', layers=None, arithmetic='float', device='auto')"
    )]
    fn streams(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = length)] length: usize,
        generator: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = seed)] seed: u64,
        #[pyo3(from_py_with = width)] width: WidthChoice,
        #[pyo3(from_py_with = sharing)] sharing: Sharing,
        layers: Option<&Bound<'_, PyDict>>,
        #[pyo3(from_py_with = arithmetic)] arithmetic: Arithmetic,
        #[pyo3(from_py_with = device)] device: Device,
    ) -> PyResult<StreamGraph> {
        let mut config =
            StreamConfig::new(length).width(width).sharing(sharing).seed(seed).arithmetic(arithmetic);
        config.device = device;
        let names: Vec<&str> = self.network.layers().iter().map(|layer| layer.name.as_str()).collect();
        read_generators(generator, &names, &mut config)?;
        for (name, settings) in layers.into_iter().flatten() {
            let own = config.layers.entry(name.extract()?).or_default();
            read_settings(&settings, own)?;
        }
        // Layers are made when the first sample shows the sizes of their inputs; what is wrong with lengths is said now.
        let own = names.iter().map(|name| config.settings_of(name).length);
        for length in own.chain([config.settings.length]) {
            aleatron::Length::new(length).map_err(|error| exception(error, &[]))?;
        }
        Ok(StreamGraph(self.prepared(py, config)?))
    }

    /// Computes scores as streams, bit for bit what a circuit with these generators would.
    ///
    /// The weights are encoded by the first call and kept for the next with the same settings. See `streams` for the other
    /// parameters.
    ///
    /// Parameters
    /// ----------
    /// x
    ///     Features, a batch or one sample.
    /// first_sample
    ///     The index of the first sample among all: a batch may be split.
    #[pyo3(
        signature = (
            x, length, generator=None, seed=44257, *, width=WidthChoice::Auto, sharing=Sharing::OneForAll, layers=None,
            arithmetic=Arithmetic::Float, first_sample=0, device=Device::Auto
        ),
        text_signature = "($self, x, length, generator='bernoulli', seed=44257, *, width='auto', sharing='all', layers=None, arithmetic='float', first_sample=0, device='auto')"
    )]
    fn forward_streams<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = length)] length: usize,
        generator: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = seed)] seed: u64,
        #[pyo3(from_py_with = width)] width: WidthChoice,
        #[pyo3(from_py_with = sharing)] sharing: Sharing,
        layers: Option<&Bound<'py, PyDict>>,
        #[pyo3(from_py_with = arithmetic)] arithmetic: Arithmetic,
        #[pyo3(from_py_with = first_sample)] first_sample: u32,
        #[pyo3(from_py_with = device)] device: Device,
    ) -> PyResult<Bound<'py, PyAny>> {
        let streams =
            self.streams(x.py(), length, generator, seed, width, sharing, layers, arithmetic, device)?;
        streams.__call__(x, first_sample)
    }

    /// Returns the network with scales found on `x`, which must be features of training, not of the test.
    ///
    /// Parameters
    /// ----------
    /// x
    ///     Features, a batch or one sample.
    /// percentile
    ///     The share of a layer's inputs, in (0, 1], that its scale covers, such as 0.999: the others saturate, and the rest have finer
    ///     steps. 1 for the largest input.
    /// weights
    ///     What weights are divided by: the largest of each "row" (neuron or output channel), or of the whole "tensor".
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> network = al.Network.from_onnx(al.Network.digits("cnn").to_onnx())
    /// >>> x, y = al.load_digits("train")
    /// >>> [layer.input_scale for layer in network.calibrated(x).layers][0]
    /// 1.0
    #[pyo3(signature = (x, *, percentile=1.0, weights="row"))]
    fn calibrated(&self, x: &Bound<'_, PyAny>, percentile: f64, weights: &str) -> PyResult<Self> {
        let py = x.py();
        let weights = match weights {
            "row" => WeightScale::PerRow,
            "tensor" => WeightScale::Tensor,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "weights is {weights:?}, not \"row\" or \"tensor\""
                )));
            }
        };
        if !(percentile > 0.0 && percentile <= 1.0) {
            return Err(PyValueError::new_err(format!("percentile is {percentile}, not in (0, 1]")));
        }
        let inputs = match percentile {
            1.0 => InputScale::Maximum,
            share => InputScale::Percentile(share),
        };
        let x = Input::<f64>::read(x, "x")?;
        if samples(&self.network, x.shape())? == Some(0) {
            return Err(PyValueError::new_err("x has no samples to calibrate with"));
        }
        let (features, calibration) = (x.slice()?, Calibration { inputs, weights });
        let network = compute_unless(py, x.shape(), |cancel| {
            Ok(self.network.calibrated_unless(features, &calibration, cancel)?)
        })?;
        Ok(network.into())
    }

    /// Returns the network with these layers, and no others, in binary: a name, or several.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> network = al.Network.from_onnx(al.Network.digits().to_onnx())
    /// >>> network.with_binary("hidden")
    /// GraphNetwork("noise_aware", input 64, 10 outputs, 1 of 2 layers as streams)
    fn with_binary(&self, names: &Bound<'_, PyAny>) -> PyResult<Self> {
        let binary = self::names(Some(names))?;
        let mut network = (*self.network).clone();
        let all: Vec<String> = network.layers().iter().map(|layer| layer.name.clone()).collect();
        let streams = all.iter().map(|name| (name, Mode::Streams));
        for (name, mode) in streams.chain(binary.iter().map(|name| (name, Mode::Binary))) {
            network = network.with_mode(name, mode).map_err(|error| exception(error, &[]))?;
        }
        Ok(network.into())
    }

    /// Returns the network with "signed", "bipolar" or "unipolar" streams in every layer.
    fn with_polarity(&self, #[pyo3(from_py_with = polarity)] polarity: aleatron::Polarity) -> PyResult<Self> {
        let network = (*self.network).clone().with_polarity(polarity);
        network.map(Self::from).map_err(|error| exception(error, &[]))
    }

    /// Returns a table of the graph's nodes, as `aleatron inspect` prints it: operators, shapes, parameters, which nodes run as streams, and
    /// their products of bits at a length.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> network = al.Network.from_onnx(al.Network.digits().to_onnx())
    /// >>> print(network.inspect(64).splitlines()[-1])
    /// 4736 products a sample, 303104 bit-MACs at 64 bits; 37888 bytes of weight streams; the largest value has 256 bytes
    #[pyo3(signature = (length=256))]
    fn inspect(&self, py: Python<'_>, #[pyo3(from_py_with = length)] length: usize) -> PyResult<String> {
        compute(py, &[], || Ok(self.network.inspect(aleatron::Length::new(length)?.bits())?.to_string()))
    }

    /// Writes the network as an ONNX file, or returns its bytes where no path is given.
    ///
    /// The graph is written as it is after simplification: batch normalisations are part of the products before them. How layers run,
    /// their polarities and scales are kept beside it; `Network.from_onnx` reads them, and other programs ignore them.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> network = al.Network.from_onnx(al.Network.digits().to_onnx(), binary="hidden")
    /// >>> al.Network.from_onnx(network.to_onnx()) == network
    /// True
    #[pyo3(signature = (path=None))]
    fn to_onnx<'py>(
        &self,
        py: Python<'py>,
        path: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let bytes = compute(py, &[], || Ok(self.network.to_onnx()?))?;
        write_bytes(py, &bytes, path)
    }

    /// The layers, the products that can run as streams, each a `GraphLayer`, in the order in which they run.
    #[getter]
    fn layers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let class = py.import("aleatron._graph")?.getattr("GraphLayer")?;
        let make = |layer: &GraphLayer| {
            let (kind, shape) = match &layer.product.kind {
                ProductKind::Dense { n_inputs, n_neurons } => ("dense", vec![*n_neurons, *n_inputs]),
                ProductKind::Conv { kernel, n_channels, .. } => {
                    ("convolution", [&[*n_channels], kernel.as_slice()].concat())
                }
            };
            let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<f64>>();
            let weights = read_only(py, wide(&layer.product.weights), &shape)?;
            let bias = match layer.product.bias.as_slice() {
                [] => vec![0.0; layer.product.n_rows()],
                bias => wide(bias),
            };
            let bias = read_only(py, bias, &[layer.product.n_rows()])?;
            let runs_as = match layer.mode {
                Mode::Streams => "streams",
                Mode::Binary => "binary",
            };
            let scales = read_only(py, layer.weight_scales.clone(), &[layer.weight_scales.len()])?;
            let (polarity, scale) = (layer.polarity.name(), layer.input_scale);
            class.call1((&layer.name, kind, weights, bias, runs_as, polarity, scale, scales))
        };
        self.network.layers().iter().map(make).collect()
    }

    /// The names of the layers, in the order in which they run.
    #[getter]
    fn layer_names(&self) -> Vec<&str> {
        self.network.layers().iter().map(|layer| layer.name.as_str()).collect()
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.network.name()
    }

    /// The shape of a sample.
    #[getter]
    fn input_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pyo3::types::PyTuple::new(py, self.network.sample_shape())?.into_any())
    }

    /// The features of a sample.
    #[getter]
    fn n_features(&self) -> usize {
        self.network.n_features()
    }

    /// The scores of a sample.
    #[getter]
    fn n_outputs(&self) -> usize {
        self.network.n_outputs()
    }

    /// The classes it tells apart: one per score, or two where there is one score.
    #[getter]
    fn n_classes(&self) -> usize {
        self.network.n_classes()
    }

    /// Whether both are written as the same file.
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else { return Ok(false) };
        let other = Arc::clone(&other.get().network);
        compute(py, &[], || {
            Ok(Arc::ptr_eq(&self.network, &other) || self.network.to_onnx()? == other.to_onnx()?)
        })
    }

    fn __repr__(&self) -> String {
        let sizes: Vec<String> = self.network.sample_shape().iter().map(usize::to_string).collect();
        let layers = self.network.layers();
        let streams = layers.iter().filter(|layer| layer.mode == Mode::Streams).count();
        format!(
            "GraphNetwork({:?}, input {}, {} outputs, {streams} of {} layers as streams)",
            self.network.name(),
            sizes.join("x"),
            self.network.n_outputs(),
            layers.len()
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = slf.py();
        let bytes = slf.get().to_onnx(py, None)?;
        let read = py.get_type::<crate::network::Network>().getattr("from_onnx")?;
        Ok((read, (bytes,).into_pyobject(py)?.into_any()))
    }
}

/// A graph prepared to run as streams; `GraphNetwork.streams` makes it. Its layers are encoded by the first call and kept.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> x, y = al.load_digits()
/// >>> network = al.Network.from_onnx(al.Network.digits().to_onnx())
/// >>> streams = network.streams(64, "sobol")
/// >>> streams(x).shape, bool(streams.score(x, y) > 0.95)
/// ((360, 10), True)
#[pyclass(module = "aleatron", frozen)]
pub(crate) struct StreamGraph(Arc<aleatron::graph::StreamGraph>);

#[pymethods]
impl StreamGraph {
    /// Computes scores for a batch or one sample, the first of which is number `first_sample` of all.
    #[pyo3(signature = (x, first_sample=0))]
    fn __call__<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = first_sample)] first_sample: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = x.py();
        let x = Input::<f64>::read(x, "x")?;
        let n_samples = samples(self.0.network(), x.shape())?;
        let features = x.slice()?;
        let made = compute_unless(py, x.shape(), |cancel| {
            Ok(self.0.run(features, first_sample, Statistics::LeftOut, cancel)?)
        })?;
        warn(py, &self.0.warnings())?;
        output(py, made.scores, &score_shape(self.0.network(), n_samples))
    }

    /// Returns the class of each sample.
    #[pyo3(signature = (x, first_sample=0))]
    fn predict<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = first_sample)] first_sample: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        classes(self.0.network().n_outputs(), &self.__call__(x, first_sample)?)
    }

    /// Returns the share of samples whose class is `y`.
    #[pyo3(signature = (x, y, first_sample=0))]
    fn score(
        &self,
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = first_sample)] first_sample: u32,
    ) -> PyResult<f64> {
        share(&self.predict(x, first_sample)?, y)
    }

    /// What is known to be wrong with the generators of the layers that have run.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings().iter().map(ToString::to_string).collect()
    }

    /// The integers around each layer that `arithmetic="integer"` works with, in the order in which they run: widths of comparators and
    /// accumulators, fraction bits of the latter, biases, what 1 stands for in each row ("units"), and the multipliers and right shifts before the comparators, one for each
    /// unit of the inputs; these are empty where the inputs come from outside. Nothing with "float".
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> network = al.Network.from_onnx(al.Network.digits("cnn").to_onnx())
    /// >>> first, *_ = network.streams(64, arithmetic="integer").integers
    /// >>> first["name"], first["comparator_width"], first["multipliers"].size
    /// ('conv1', 16, 0)
    #[getter]
    fn integers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let layers = compute(py, &[], || Ok(self.0.integer_layers()?))?;
        let describe = |(name, product): (String, aleatron::graph::IntegerProduct)| {
            let dict = PyDict::new(py);
            let n = product.units.len();
            dict.set_item("name", name)?;
            dict.set_item("comparator_width", product.comparator.bits())?;
            dict.set_item("accumulator_width", product.accumulator.width())?;
            dict.set_item("fraction_bits", product.accumulator.fraction())?;
            dict.set_item("bias", read_only(py, product.accumulator.bias().to_vec(), &[n])?)?;
            dict.set_item("units", read_only(py, product.units, &[n])?)?;
            let requantizers = &product.requantizers;
            let shape = [requantizers.len()];
            let multipliers = requantizers.iter().map(|r| r.multiplier() as i64).collect();
            let shifts = requantizers.iter().map(|r| i64::from(r.shift())).collect();
            dict.set_item("multipliers", read_only(py, multipliers, &shape)?)?;
            dict.set_item("shifts", read_only(py, shifts, &shape)?)?;
            Ok(dict)
        };
        layers.into_iter().map(describe).collect()
    }

    /// Whether both are one prepared network, as two calls of `GraphNetwork.streams` with the same settings give.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| Arc::ptr_eq(&other.get().0, &self.0))
    }

    fn __repr__(&self) -> String {
        format!("StreamGraph({:?})", self.0.network().name())
    }
}

/// How far two programs that compute an ONNX network in 32-bit floats may differ on `x`, for each score; None where no bound is known.
#[pyfunction]
#[pyo3(name = "_rounding_bound")]
pub(crate) fn rounding_bound<'py>(
    model: &Bound<'py, PyBytes>,
    x: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, bytes) = (model.py(), model.as_bytes());
    let x = Input::<f64>::read(x, "x")?;
    let (shape, features) = (x.shape(), x.slice()?);
    let bound = compute(py, shape, || {
        let graph = Graph::from_onnx(bytes)?;
        let narrow: Vec<f32> = features.iter().map(|&feature| feature as f32).collect();
        let input = Tensor::from_slice(&narrow, shape, &aleatron_tensor::Device::Cpu);
        let input = input.and_then(|input| input.cast(DType::F32)).map_err(aleatron_graph::Error::from)?;
        Ok(graph.rounding_bound(&[input])?)
    })?;
    bound
        .map(|bound| {
            let n = bound.len();
            output(py, bound, &[n])
        })
        .transpose()
}

/// The samples of an argument; `None` where it is one.
fn samples(network: &aleatron::graph::GraphNetwork, shape: &[usize]) -> PyResult<Option<usize>> {
    let (n, one) = (network.n_features(), network.sample_shape());
    match shape {
        [samples, m] if *m == n => Ok(Some(*samples)),
        [m] if *m == n => Ok(None),
        shape if shape == one => Ok(None),
        [samples, rest @ ..] if rest == one => Ok(Some(*samples)),
        _ => {
            let sizes = one.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            let all = if one.len() > 1 { format!(" or (N, {sizes})") } else { String::new() };
            let shape = shape_text(shape);
            Err(PyValueError::new_err(format!("x has shape {shape}; expected (N, {n}){all}, or one sample")))
        }
    }
}

fn score_shape(network: &aleatron::graph::GraphNetwork, n_samples: Option<usize>) -> Vec<usize> {
    n_samples.into_iter().chain([network.n_outputs()]).collect()
}

/// A name, or several.
fn names(value: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    if let Ok(name) = value.cast::<PyString>() {
        return Ok(vec![name.to_str()?.to_owned()]);
    }
    let wrong = || PyTypeError::new_err("binary must be the name of a layer, or several");
    let names = value.try_iter().map_err(|_| wrong())?;
    names.map(|name| name?.extract::<String>().map_err(|_| wrong())).collect()
}

/// The bytes that an argument is, if it is bytes.
fn read_bytes(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    let py = value.py();
    let is_bytes = value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<pyo3::types::PyByteArray>()
        || value.is_instance(&py.import("builtins")?.getattr("memoryview")?)?;
    if !is_bytes {
        return Ok(None);
    }
    let bytes = py.get_type::<PyBytes>().call1((value,))?;
    Ok(Some(bytes.cast::<PyBytes>()?.as_bytes().to_vec()))
}

fn read_path(value: &Bound<'_, PyAny>, name: &str) -> PyResult<PathBuf> {
    let path = value.py().import("os")?.call_method1("fspath", (value,));
    let path = path.map_err(|_| {
        let kind = value.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
        PyTypeError::new_err(format!("{name} must be a path or bytes, not {kind}"))
    })?;
    path.extract()
}

/// Writes bytes to a file, or gives them where there is none.
pub(crate) fn write_bytes<'py>(
    py: Python<'py>,
    bytes: &[u8],
    path: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let Some(path) = path else { return Ok(Some(PyBytes::new(py, bytes))) };
    // Python's own writing: errors are those users know, with the path.
    let class = py.import("pathlib")?.getattr("Path")?;
    let path: PathBuf = read_path(path, "path")?;
    class.call1((path,))?.call_method1("write_bytes", (PyBytes::new(py, bytes),))?;
    Ok(None)
}
