//! `Network`.

use crate::argument::{arithmetic, device, first_sample, length, polarity, seed, sharing, width};
use crate::array::{Input, output};
use crate::circuit::{Circuit, circuit_output, options as circuit_options};
use crate::compute::{compute, compute_with_cancellation};
use crate::error::exception;
use crate::network_file::{FileOptions, names, read_path};
use crate::network_layers::{build, describe, read_activation};
use crate::samples::{accuracy, classes, n_samples, score_shape};
use crate::stream_cache::StreamCache;
use crate::stream_network::{StreamNetwork, read_generators, read_settings};
use crate::warning::warn;
use aleatron::Device;
use aleatron::generator::{GeneratorName, Sharing, WidthChoice};
use aleatron::hardware::Output;
use aleatron::network::{
    Activation, Arithmetic, Calibration, Graph, InputScale, Mode, NamedTensor, StreamConfig,
    ValueRange, WeightScale,
};
use aleatron_tensor::{DType, Tensor};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::sync::Arc;

/// A neural network, in floating point and as streams.
///
/// A network is a graph of operations, read from an ONNX file, imported from torch or scikit-learn,
/// or built of instances of `aleatron.Layer`. Its layers are its products with constant weights,
/// dense layers and convolutions. Calling the network computes its scores in floating point with 32
/// bits. `forward_streams` computes them as a circuit would: every layer encodes its inputs as
/// streams, counts, and turns the counts back into numbers, on which all other operations work; the
/// next layer's inputs saturate. A network with one score tells two classes apart: 1 if the score
/// is positive.
///
/// Samples are flat or have the shape of the network's input: x has shape (N, n_features) or (N,
/// \*input_shape), or is one sample.
///
/// Parameters
/// ----------
/// layers
///     The layers, each an `aleatron.Layer`.
/// name
///     A name for reports.
/// offset, scale
///     Features become inputs as `(feature - offset) / scale`: one number for all features, or one
///     for each.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> network = al.Network.digits()
/// >>> x, y = al.load_digits()
/// >>> network.score(x, y)
/// 0.975
/// >>> scores = network.forward_streams(x, length=64, generator="sobol")
/// >>> bool((scores.argmax(axis=1) == y).mean() > 0.93)
/// True
#[pyclass(module = "aleatron", frozen)]
pub(crate) struct Network {
    pub(crate) network: Arc<aleatron::network::Network>,
    streams: StreamCache,
}

impl From<aleatron::network::Network> for Network {
    fn from(network: aleatron::network::Network) -> Self {
        Self { network: Arc::new(network), streams: StreamCache::default() }
    }
}

#[pymethods]
impl Network {
    #[new]
    #[pyo3(signature = (layers, name="network", offset=None, scale=None),
        text_signature = "(layers, name='network', offset=0.0, scale=1.0)")]
    fn new(
        layers: &Bound<'_, PyAny>,
        name: &str,
        offset: Option<&Bound<'_, PyAny>>,
        scale: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        build(layers, name, [offset, scale]).map(Self::from)
    }

    /// Returns one of the embedded networks for 8 x 8 digits: "noise-aware", trained with the noise
    /// of counting, "plain", or "cnn", a convolutional network.
    #[staticmethod]
    #[pyo3(signature = (kind="noise-aware"))]
    fn digits(kind: &str) -> PyResult<Self> {
        let network = match kind.to_ascii_lowercase().as_str() {
            "noise-aware" => aleatron::network::Network::digits_noise_aware(),
            "plain" => aleatron::network::Network::digits_plain(),
            "cnn" => aleatron::network::Network::digits_cnn(),
            _ => {
                return Err(PyValueError::new_err(format!(
                    "kind is {kind:?}, not \"noise-aware\", \"plain\" or \"cnn\""
                )));
            }
        };
        network.map(Self::from).map_err(|error| exception(error, &[]))
    }

    /// Creates a network of dense layers from a torch-style state dict, or from a module that has
    /// one.
    ///
    /// Each PREFIX.weight of shape (neurons, inputs), with its PREFIX.bias if there is one, is a
    /// layer, in the order given; `hidden` is applied between layers. Call `calibrated` with
    /// training samples to set the scales of inputs.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al, numpy as np
    /// >>> rng = np.random.default_rng(0)
    /// >>> state = {"0.weight": rng.normal(size=(8, 4)), "0.bias": np.zeros(8)}
    /// >>> state["2.weight"] = rng.normal(size=(3, 8))
    /// >>> al.Network.from_state_dict(state)
    /// Network("network", input 4, 3 outputs, 2 of 2 layers as streams)
    #[staticmethod]
    #[pyo3(signature = (state, hidden=None, name="network", offset=0.0, scale=1.0),
        text_signature = "(state, hidden='relu', name='network', offset=0.0, scale=1.0)")]
    fn from_state_dict(
        state: &Bound<'_, PyAny>,
        hidden: Option<&Bound<'_, PyAny>>,
        name: &str,
        offset: f64,
        scale: f64,
    ) -> PyResult<Self> {
        // A module of torch returns its state dict itself.
        let state = match state.getattr_opt("state_dict")? {
            Some(method) => method.call0()?,
            None => state.clone(),
        };
        let Some(items) = state.getattr_opt("items")? else {
            return Err(PyTypeError::new_err(
                "state must be a dict of arrays by name, or a module with state_dict()",
            ));
        };
        let tensors = items.call0()?.try_iter()?.map(|item| {
            let (name, value): (String, Bound<'_, PyAny>) = item?.extract()?;
            let input = Input::<f64>::read(&value, &name)?;
            Ok(NamedTensor { name, shape: input.shape().to_vec(), values: input.slice()?.to_vec() })
        });
        let tensors: Vec<NamedTensor> = tensors.collect::<PyResult<_>>()?;
        let hidden = hidden.map_or(Ok(Activation::Relu), read_activation)?;
        let network =
            aleatron::network::Network::from_state_dict(name, [offset, scale], &tensors, hidden);
        network.map(Self::from).map_err(|error| exception(error, &[]))
    }

    /// Reads an ONNX file, such as one that `save` has written. The network has the name of the
    /// file.
    ///
    /// Parameters
    /// ----------
    /// path
    ///     The path of the file.
    /// inputs
    ///     Constants for inputs that are the same for all samples, by name: an array, or a number
    ///     for all elements.
    /// sizes
    ///     Numbers for symbolic sizes, by name, or by "INPUT.AXIS" for sizes without a name.
    /// output
    ///     The name of the value that holds the scores; the first output of the graph if not given.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al, tempfile
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     al.Network.digits().save(f"{folder}/noise_aware.onnx")
    /// ...     al.Network.load(f"{folder}/noise_aware.onnx") == al.Network.digits()
    /// True
    #[staticmethod]
    #[pyo3(signature = (path, *, inputs=None, sizes=None, output=None))]
    fn load(
        path: &Bound<'_, PyAny>,
        inputs: Option<&Bound<'_, PyDict>>,
        sizes: Option<&Bound<'_, PyDict>>,
        output: Option<String>,
    ) -> PyResult<Self> {
        let path = read_path(path, "path")?.into_pyobject(path.py())?;
        let options =
            FileOptions { name: None, binary: None, polarity: None, inputs, sizes, output };
        options.read(&path.into_any()).map(Self::from)
    }

    /// Writes the network as an ONNX file that `load` reads. How layers run is in the metadata of
    /// the file, which other programs ignore.
    fn save(&self, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let file = read_path(path, "path")?;
        compute(path.py(), &[], || Ok(self.network.save(&file)?))
    }

    /// Reads an ONNX network from a path or from the bytes of a file.
    ///
    /// Every product with constant weights is a layer that can run as streams, signed ones unless
    /// `polarity` or the file says otherwise; everything else is computed in binary. Call
    /// `calibrated` with training samples to set the scales of inputs.
    ///
    /// Parameters
    /// ----------
    /// model
    ///     The path of an .onnx file, beside which its external data are, or its bytes.
    /// name
    ///     A name for reports; that of the file or the graph if not given.
    /// binary
    ///     Names of layers that run in binary, as the first and the last often do. `layer_names`
    ///     has all names.
    /// polarity
    ///     "signed", "bipolar" or "unipolar" streams. If not given, the polarity that `to_onnx` has
    ///     written, otherwise "signed".
    /// inputs, sizes, output
    ///     As for `load`.
    ///
    /// Raises
    /// ------
    /// OSError
    ///     If the file cannot be read.
    /// ValueError
    ///     If the bytes are not an ONNX file, or if operators are unknown; the message lists all of
    ///     them.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> model = al.Network.digits("cnn").to_onnx()
    /// >>> network = al.Network.from_onnx(model, "digits", binary="conv1")
    /// >>> network
    /// Network("digits", input 1x8x8, 10 outputs, 2 of 3 layers as streams)
    /// >>> x, y = al.load_digits()
    /// >>> network.score(x, y) == al.Network.digits("cnn").score(x, y)
    /// True
    #[staticmethod]
    #[pyo3(
        signature = (model, name=None, *, binary=None, polarity=None, inputs=None, sizes=None, output=None),
        text_signature = "(model, name=None, *, binary=(), polarity=None, inputs=None, sizes=None, output=None)"
    )]
    fn from_onnx(
        model: &Bound<'_, PyAny>,
        name: Option<&str>,
        binary: Option<&Bound<'_, PyAny>>,
        polarity: Option<&Bound<'_, PyAny>>,
        inputs: Option<&Bound<'_, PyDict>>,
        sizes: Option<&Bound<'_, PyDict>>,
        output: Option<String>,
    ) -> PyResult<Self> {
        FileOptions { name, binary, polarity, inputs, sizes, output }.read(model).map(Self::from)
    }

    /// Writes the network as an ONNX file, or returns its bytes if no path is given.
    ///
    /// The graph is written as it is after simplification: batch normalisations are part of the
    /// products before them. How layers run, their polarities and their scales are in the
    /// metadata; `from_onnx` reads them, and other programs ignore them.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> network = al.Network.digits().with_binary("hidden")
    /// >>> al.Network.from_onnx(network.to_onnx()) == network
    /// True
    #[pyo3(signature = (path=None))]
    fn to_onnx<'py>(
        &self,
        py: Python<'py>,
        path: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if let Some(path) = path {
            self.save(path)?;
            return Ok(None);
        }
        let bytes = compute(py, &[], || Ok(self.network.to_onnx()?))?;
        Ok(Some(PyBytes::new(py, &bytes)))
    }

    /// Computes scores in floating point, of shape (N, n_outputs), or (n_outputs,) for one sample.
    fn __call__<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, network) = (x.py(), &self.network);
        let x = Input::<f64>::read(x, "x")?;
        let n_samples = n_samples(network, x.shape())?;
        let features = x.slice()?;
        let scores = compute_with_cancellation(py, x.shape(), |cancel| {
            Ok(network.forward_with(features, cancel)?)
        })?;
        output(py, scores, &score_shape(network, n_samples))
    }

    /// Returns the class of each sample in floating point: that of the best score, or, of a single
    /// score, whether it is positive.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> x, y = al.load_digits()
    /// >>> al.Network.digits().predict(x)[:5].tolist(), y[:5].tolist()
    /// ([1, 4, 8, 6, 5], [1, 4, 8, 6, 5])
    fn predict<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        classes(self.network.n_outputs(), &self.__call__(x)?)
    }

    /// Returns the fraction of samples whose class is `y` in floating point.
    fn score(&self, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<f64> {
        accuracy(&self.predict(x)?, y)
    }

    /// Prepares the network to run as streams, bit for bit what a circuit with these generators
    /// would compute.
    ///
    /// Parameters
    /// ----------
    /// length
    ///     Bits per stream.
    /// generator
    ///     "bernoulli", "sobol", "lfsr", "halton", "vdc", "ramp", one for inputs and one for
    ///     weights as in "sobol:1+lfsr:77" or "bernoulli+sobol:2", or a list of one for each layer
    ///     that runs as streams.
    /// seed
    ///     The seed of generators that have one.
    /// width, sharing
    ///     Bits of shared sequences, or "auto" to fit them to the length if a generator needs its
    ///     whole period; and how many there are: "all" for one pair, "input" for a pair per input,
    ///     "stream" for one per stream.
    /// layers
    ///     Settings of single layers, by name: a dict of any of length, generator, width and
    ///     sharing for each.
    /// arithmetic
    ///     How numbers are represented between layers: "float", or "integer" as in a circuit.
    ///     ValueError lists the operations between two layers that integer arithmetic does not
    ///     support.
    /// clip
    ///     Whether features that a layer cannot encode saturate; otherwise they are errors.
    /// device
    ///     As for `DenseLayer`.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> x, y = al.load_digits()
    /// >>> streams = al.Network.digits().streams(64, "sobol", layers={"output": {"length": 128}})
    /// >>> streams.lengths
    /// [64, 128]
    /// >>> bool(streams.score(x, y) > 0.95)
    /// True
    #[pyo3(
        signature = (
            length, generator=None, seed=44257, *, width=WidthChoice::Auto, sharing=Sharing::OneForAll, layers=None,
            arithmetic=Arithmetic::Float, clip=false, device=Device::Auto
        ),
        text_signature = "($self, length, generator='bernoulli', seed=44257, *, width='auto', sharing='all', layers=None, arithmetic='float', clip=False, device='auto')"
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
        clip: bool,
        #[pyo3(from_py_with = device)] device: Device,
    ) -> PyResult<StreamNetwork> {
        let range = if clip { ValueRange::Saturate } else { ValueRange::Check };
        let config = StreamConfig::new(length).width(width).sharing(sharing).seed(seed);
        let mut config = config.arithmetic(arithmetic).range(range).device(device);
        read_generators(generator, &self.network, &mut config)?;
        for (name, settings) in layers.into_iter().flatten() {
            let own = config.layers.entry(name.extract()?).or_default();
            read_settings(&settings, own)?;
        }
        let prepared = self.streams.get_or_prepare(&config, |config| {
            let network = Arc::clone(&self.network);
            compute_with_cancellation(py, &[], |cancel| Ok(network.into_streams(config, cancel)?))
        })?;
        warn(py, &compute(py, &[], || Ok(prepared.streams.warnings()?))?)?;
        Ok(StreamNetwork(prepared))
    }

    /// Describes the circuit of the network as streams, with integers between layers.
    ///
    /// Parameters
    /// ----------
    /// length, generator, seed, width, sharing, layers, clip
    ///     As for `streams`. Bernoulli streams have no hardware: ValueError.
    /// lanes
    ///     The neurons that a layer computes at a time; None for all of them.
    /// pipeline
    ///     Whether registers are between comparators and counters.
    /// output
    ///     What leaves the circuit: "scores", or "class" for the index of the greatest score.
    /// non_negative
    ///     Whether features never become negative inputs, which saves area in layers of signed
    ///     streams.
    /// early_margin
    ///     The lead of the best score, in standard deviations of the counting noise, at which the
    ///     last layer stops before its streams end; None for all cycles. It needs output="class".
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> circuit = al.Network.digits().circuit(64, "sobol", lanes=8)
    /// >>> circuit.to_dict()["name"]
    /// 'noise_aware'
    #[pyo3(
        signature = (
            length, generator=None, seed=44257, *, width=WidthChoice::Auto, sharing=Sharing::OneForAll, layers=None,
            clip=false, lanes=None, pipeline=false, output=Output::Scores, non_negative=false,
            early_margin=None
        ),
        text_signature = "($self, length, generator='lfsr', seed=44257, *, width='auto', sharing='all', layers=None, clip=False, lanes=None, pipeline=False, output='scores', non_negative=False, early_margin=None)"
    )]
    fn circuit(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = length)] length: usize,
        generator: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = seed)] seed: u64,
        #[pyo3(from_py_with = width)] width: WidthChoice,
        #[pyo3(from_py_with = sharing)] sharing: Sharing,
        layers: Option<&Bound<'_, PyDict>>,
        clip: bool,
        lanes: Option<&Bound<'_, PyAny>>,
        pipeline: bool,
        #[pyo3(from_py_with = circuit_output)] output: Output,
        non_negative: bool,
        early_margin: Option<f64>,
    ) -> PyResult<Circuit> {
        let options = circuit_options(lanes, pipeline, output, non_negative, early_margin)?;
        let range = if clip { ValueRange::Saturate } else { ValueRange::Check };
        let config =
            StreamConfig::new(length).generator(GeneratorName::Lfsr).width(width).sharing(sharing);
        let mut config = config.seed(seed).arithmetic(Arithmetic::Integer).range(range);
        read_generators(generator, &self.network, &mut config)?;
        for (name, settings) in layers.into_iter().flatten() {
            let own = config.layers.entry(name.extract()?).or_default();
            read_settings(&settings, own)?;
        }
        Circuit::new(py, &self.network, &config, options)
    }

    /// Computes scores as streams, bit for bit what a circuit with these generators would.
    ///
    /// The first call encodes the weights, and the next ones with the same settings reuse them. See
    /// `streams` for the other parameters.
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
            arithmetic=Arithmetic::Float, clip=false, first_sample=0, device=Device::Auto
        ),
        text_signature = "($self, x, length, generator='bernoulli', seed=44257, *, width='auto', sharing='all', layers=None, arithmetic='float', clip=False, first_sample=0, device='auto')"
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
        clip: bool,
        #[pyo3(from_py_with = first_sample)] first_sample: u32,
        #[pyo3(from_py_with = device)] device: Device,
    ) -> PyResult<Bound<'py, PyAny>> {
        let streams = self.streams(
            x.py(),
            length,
            generator,
            seed,
            width,
            sharing,
            layers,
            arithmetic,
            clip,
            device,
        )?;
        streams.__call__(x, first_sample)
    }

    /// Returns the network with scales found on `x`, which must be training samples, not test
    /// samples.
    ///
    /// Warns of layers whose inputs still saturate or use a small part of the interval of their
    /// streams.
    ///
    /// Parameters
    /// ----------
    /// x
    ///     Features, a batch or one sample.
    /// percentile
    ///     The fraction of a layer's inputs, in (0, 1], that its scale covers, such as 0.999: the
    ///     others saturate, and the rest have finer steps. 1 for the largest input.
    /// weights
    ///     What weights are divided by: the largest of each "row" (neuron or output channel), or of
    ///     the whole "tensor".
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> x, y = al.load_digits("train")
    /// >>> [layer.input_scale for layer in al.Network.digits("cnn").calibrated(x).layers][0]
    /// 1.0
    #[pyo3(signature = (x, *, percentile=1.0, weights="row"))]
    fn calibrated(&self, x: &Bound<'_, PyAny>, percentile: f64, weights: &str) -> PyResult<Self> {
        let py = x.py();
        let weights = match weights.to_ascii_lowercase().as_str() {
            "row" => WeightScale::PerRow,
            "tensor" => WeightScale::Tensor,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "weights is {weights:?}, not \"row\" or \"tensor\""
                )));
            }
        };
        if !(percentile > 0.0 && percentile <= 1.0) {
            return Err(PyValueError::new_err(format!(
                "percentile is {percentile}, not in (0, 1]"
            )));
        }
        let inputs = match percentile {
            1.0 => InputScale::Maximum,
            share => InputScale::Percentile(share),
        };
        let x = Input::<f64>::read(x, "x")?;
        if n_samples(&self.network, x.shape())? == Some(0) {
            return Err(PyValueError::new_err("x has no samples to calibrate with"));
        }
        let (features, calibration) = (x.slice()?, Calibration { inputs, weights });
        let (network, warnings) = compute_with_cancellation(py, x.shape(), |cancel| {
            let network = self.network.calibrated_with(features, &calibration, cancel)?;
            let warnings = network.input_warnings(features, cancel)?;
            Ok((network, warnings))
        })?;
        warn(py, &warnings)?;
        Ok(network.into())
    }

    /// Returns the network with these layers, and no others, in binary: a name, or several.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> al.Network.digits().with_binary("hidden")
    /// Network("noise_aware", input 64, 10 outputs, 1 of 2 layers as streams)
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
    fn with_polarity(
        &self,
        #[pyo3(from_py_with = polarity)] polarity: aleatron::Polarity,
    ) -> PyResult<Self> {
        let network = (*self.network).clone().with_polarity(polarity);
        network.map(Self::from).map_err(|error| exception(error, &[]))
    }

    /// Returns a table of the graph's nodes, as `aleatron inspect` prints it: operators, shapes,
    /// parameters, which nodes run as streams, and their products of bits at a length.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> print(*al.Network.digits().inspect(64).splitlines()[-1].split("; "), sep="\n")
    /// 4736 products a sample, 303104 bit-MACs at 64 bits
    /// 37888 bytes of weight streams
    /// the largest value has 256 bytes
    #[pyo3(signature = (length=256))]
    fn inspect(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = length)] length: usize,
    ) -> PyResult<String> {
        compute(py, &[], || {
            Ok(self.network.inspect(aleatron::Length::new(length)?.bits())?.to_string())
        })
    }

    /// The layers, each an `aleatron.NetworkLayer`, in the order in which they run. Their arrays
    /// are read-only.
    #[getter]
    fn layers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.network.layers().iter().map(|layer| describe(py, layer)).collect()
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
    fn input_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.network.input_shape())
    }

    /// The number of features of a sample.
    #[getter]
    fn n_features(&self) -> usize {
        self.network.n_features()
    }

    /// The number of scores of a sample.
    #[getter]
    fn n_outputs(&self) -> usize {
        self.network.n_outputs()
    }

    /// The number of classes: one per score, or two if there is one score.
    #[getter]
    fn n_classes(&self) -> usize {
        self.network.n_classes()
    }

    /// The least and the greatest feature that the layers can encode; None if features do not reach
    /// a layer one by one.
    #[getter]
    fn feature_interval(&self, py: Python<'_>) -> PyResult<Option<(f64, f64)>> {
        Ok(compute(py, &[], || Ok(self.network.feature_interval()?))?.map(Into::into))
    }

    /// Returns whether both are written as the same file.
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else { return Ok(false) };
        let other = Arc::clone(&other.get().network);
        compute(py, &[], || Ok(Arc::ptr_eq(&self.network, &other) || self.network == other))
    }

    fn __repr__(&self) -> String {
        let sizes: Vec<String> = self.network.input_shape().iter().map(usize::to_string).collect();
        let n_streams = self.network.stream_layers().count();
        format!(
            "Network({:?}, input {}, {} outputs, {n_streams} of {} layers as streams)",
            self.network.name(),
            sizes.join("x"),
            self.network.n_outputs(),
            self.network.layers().len()
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = slf.py();
        let bytes = slf.get().to_onnx(py, None)?;
        let read = py.get_type::<Self>().getattr("from_onnx")?;
        Ok((read, (bytes,).into_pyobject(py)?.into_any()))
    }
}

/// Returns how far two programs that compute an ONNX network in 32-bit floats may differ on `x`,
/// for each score; None if no bound is known.
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
        let graph = Graph::from_onnx(bytes).map_err(aleatron::EngineError::from)?;
        let narrow: Vec<f32> = features.iter().map(|&feature| feature as f32).collect();
        let input = Tensor::from_slice(&narrow, shape, &aleatron_tensor::Device::Cpu);
        let input =
            input.and_then(|input| input.cast(DType::F32)).map_err(aleatron_graph::Error::from);
        let bound = input.and_then(|input| graph.rounding_bound(&[input]));
        Ok(bound.map_err(aleatron::EngineError::from)?)
    })?;
    bound
        .map(|bound| {
            let n = bound.len();
            output(py, bound, &[n])
        })
        .transpose()
}
