//! `Network` and `StreamNetwork`.

use crate::argument::{arithmetic, device, first_sample, generator, length, seed, sharing, width};
use crate::array::{Input, output, shape_text};
use crate::compute::{compute, compute_unless};
use crate::error::exception;
use crate::graph::GraphNetwork;
use crate::kept::Kept;
use crate::layer::read_only;
use crate::warning::warn;
use aleatron::generator::{Sharing, WidthChoice};
use aleatron::network::file::Tensor;
use aleatron::network::{
    Activation, Arithmetic, Detail, FeatureMap, FeatureRange, Layer, LayerOverride, StreamConfig,
    StreamOutput, top_class,
};
use aleatron::{Cancel, Device};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::sync::Arc;

/// Samples run between two looks for Ctrl-C, where the engine does not look itself.
const PIECE: usize = 256;

/// A network of dense layers, in floating point and as streams.
///
/// Features become inputs as `(feature - offset) / scale`. Calling the network gives its scores in floating point;
/// `forward_streams` runs it as a circuit would: every layer encodes its inputs as streams, counts, and turns the counts
/// back into binary, where bias, scale and activation apply and the next layer's inputs saturate. A network with one
/// output tells two classes apart: 1 where the score is positive.
///
/// Parameters
/// ----------
/// layers
///     The layers, each an `aleatron.Layer`.
/// name
///     A name for reports.
/// offset, scale
///     The feature that becomes 0, and the distance from it that becomes 1.
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
    streams: Kept<aleatron::network::StreamNetwork>,
}

impl From<aleatron::network::Network> for Network {
    fn from(network: aleatron::network::Network) -> Self {
        Self { network: Arc::new(network), streams: Kept::default() }
    }
}

#[pymethods]
impl Network {
    #[new]
    #[pyo3(signature = (layers, name="network", offset=0.0, scale=1.0))]
    fn new(layers: &Bound<'_, PyAny>, name: &str, offset: f64, scale: f64) -> PyResult<Self> {
        let layers = layers.try_iter()?.enumerate().map(|(k, layer)| read_layer(k, &layer?));
        let layers = layers.collect::<PyResult<_>>()?;
        let network = aleatron::network::Network::new(name, FeatureMap { offset, scale }, layers);
        network.map(Self::from).map_err(|error| exception(error, &[]))
    }

    /// One of the embedded networks for 8 x 8 digits: "noise-aware", trained with the noise of counting, "plain", or "cnn", a convolutional
    /// network as signed streams.
    #[staticmethod]
    #[pyo3(signature = (kind="noise-aware"))]
    fn digits(kind: &str) -> PyResult<Self> {
        let network = match kind {
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

    /// Makes a network of signed layers of a torch-style state dict, or of a module that has one.
    ///
    /// Each PREFIX.weight of shape (neurons, inputs), with its PREFIX.bias if there is one, is a layer, in the order given;
    /// `hidden` is applied between layers. Call `calibrated` with features of training to set the scales of inputs.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al, numpy as np
    /// >>> rng = np.random.default_rng(0)
    /// >>> state = {"0.weight": rng.normal(size=(8, 4)), "0.bias": np.zeros(8), "2.weight": rng.normal(size=(3, 8))}
    /// >>> al.Network.from_state_dict(state)
    /// Network("network", 4-8-3)
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
        // A module, as torch has them, gives its state dict itself.
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
            Ok(Tensor { name, shape: input.shape().to_vec(), values: input.slice()?.to_vec() })
        });
        let tensors: Vec<Tensor> = tensors.collect::<PyResult<_>>()?;
        let hidden = hidden.map_or(Ok(Activation::Relu), read_activation)?;
        let input = FeatureMap { offset, scale };
        let network = aleatron::network::Network::from_state_dict(name, input, &tensors, hidden);
        network.map(Self::from).map_err(|error| exception(error, &[]))
    }

    /// Reads a network saved as NAME.json and NAME.safetensors; `path` may be either or NAME.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al, tempfile
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     al.Network.digits().save(f"{folder}/digits")
    /// ...     al.Network.load(f"{folder}/digits") == al.Network.digits()
    /// True
    #[staticmethod]
    fn load(path: &Bound<'_, PyAny>) -> PyResult<Self> {
        // Python's own reading: errors are those users know, with the path.
        let [description, tensors] = files(path)?;
        let name = description.str()?;
        let read = || {
            let description = description.call_method1("read_text", ("utf-8",))?;
            let tensors = tensors.call_method0("read_bytes")?;
            Self::_from_parts(description.extract()?, tensors.extract()?)
        };
        read().map_err(|error| match error.is_instance_of::<PyValueError>(path.py()) {
            true => PyValueError::new_err(format!("{name}: {}", error.value(path.py()))),
            false => error,
        })
    }

    /// Writes the network as NAME.json and NAME.safetensors; `path` may be either or NAME. Any other ending is part of the name.
    fn save(&self, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = path.py();
        let path: std::path::PathBuf = py.import("os")?.call_method1("fspath", (path,))?.extract()?;
        compute(py, &[], || Ok(self.network.save(&path)?))
    }

    /// Reads an ONNX network: a path, or the bytes of a file.
    ///
    /// What comes of it is a `GraphNetwork`: an ONNX file is a graph of any operators, where a `Network` is a chain of layers. Every product
    /// with constant weights is a layer that can run as streams, signed ones unless `polarity` says otherwise; everything else is
    /// computed in binary. Call `calibrated` with features of training to set the scales of inputs.
    ///
    /// Parameters
    /// ----------
    /// model
    ///     The path of an .onnx file, beside which its external data are, or its bytes.
    /// name
    ///     A name for reports; that of the file or the graph if not given.
    /// binary
    ///     Names of layers that run in binary, as the first and the last often do. `GraphNetwork.layer_names` has all names.
    /// polarity
    ///     "signed", "bipolar" or "unipolar" streams. If not given, what `to_onnx` has written into the file, else "signed".
    ///
    /// Raises
    /// ------
    /// OSError
    ///     Where the file cannot be read.
    /// ValueError
    ///     Where it is no ONNX file, has operators that are not known (the message lists all), or more than one input.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> model = al.Network.digits("cnn").to_onnx()
    /// >>> network = al.Network.from_onnx(model, "digits")
    /// >>> network
    /// GraphNetwork("digits", input 1x8x8, 10 outputs, 3 of 3 layers as streams)
    /// >>> x, y = al.load_digits()
    /// >>> network.score(x, y) == al.Network.digits("cnn").score(x, y)
    /// True
    #[staticmethod]
    #[pyo3(signature = (model, name=None, *, binary=None, polarity=None), text_signature = "(model, name=None, *, binary=(), polarity=None)")]
    fn from_onnx(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        name: Option<&str>,
        binary: Option<&Bound<'_, PyAny>>,
        polarity: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<GraphNetwork> {
        GraphNetwork::read(py, model, name, binary, polarity)
    }

    /// Writes the network as an ONNX file, or returns its bytes where no path is given.
    ///
    /// The file holds the network in 32-bit floats: an input "features" of shape (samples, n_features), or (samples, channels, rows,
    /// columns) where the first layer is a convolution, the mapping of features, and every layer with its activation and pools. Polarities
    /// and scales are kept beside the graph; `from_onnx` reads them, and other programs ignore them.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> network = al.Network.digits()
    /// >>> model = network.to_onnx()
    /// >>> x, y = al.load_digits()
    /// >>> bool(abs(al.Network.from_onnx(model)(x) - network(x)).max() < 1e-3)
    /// True
    #[pyo3(signature = (path=None))]
    fn to_onnx<'py>(
        &self,
        py: Python<'py>,
        path: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let bytes = compute(py, &[], || Ok(self.network.to_graph()?.to_onnx()?))?;
        crate::graph::write_bytes(py, &bytes, path)
    }

    #[staticmethod]
    fn _from_parts(description: &str, tensors: &[u8]) -> PyResult<Self> {
        let network = aleatron::network::Network::from_parts(description, tensors);
        network.map(Self::from).map_err(|error| exception(error, &[]))
    }

    fn _to_parts<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyBytes>)> {
        let (description, tensors) = self.network.to_parts().map_err(|error| exception(error, &[]))?;
        Ok((description, PyBytes::new(py, &tensors)))
    }

    /// The layers, with which another network can be made. Their arrays are read-only. TypeError for a network with convolutions, which a
    /// `Layer` does not describe: `Network.from_onnx(network.to_onnx()).layers` has them.
    #[getter]
    fn layers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let class = py.import("aleatron._network")?.getattr("Layer")?;
        let make = |l: &Layer| {
            if l.conv_shape().is_some() {
                return Err(PyTypeError::new_err(format!(
                    "the layer \"{}\" is a convolution, and a Layer is dense; Network.from_onnx(network.to_onnx()).layers has it",
                    l.name()
                )));
            }
            let weights = read_only(py, l.weights().to_vec(), &l.weight_shape())?;
            let bias = read_only(py, l.bias().to_vec(), &[l.bias().len()])?;
            let activation = match l.activation() {
                Activation::Relu => "relu".into_pyobject(py)?.into_any(),
                Activation::Clamp { low, high } => (low, high).into_pyobject(py)?.into_any(),
                _ => "identity".into_pyobject(py)?.into_any(),
            };
            let polarity = l.polarity().name();
            class.call1((weights, bias, activation, polarity, l.input_scale(), l.weight_scale(), l.name()))
        };
        self.network.layers().iter().map(make).collect()
    }

    /// Computes scores in floating point for one sample of shape (n_features,) or a batch of shape (N, n_features).
    fn __call__<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, network) = (x.py(), &self.network);
        let x = Input::<f64>::read(x, "x")?;
        let n_samples = samples(network, x.shape())?;
        let mut scores = Vec::new();
        for piece in x.slice()?.chunks(PIECE * network.n_features()) {
            py.check_signals()?;
            scores.append(&mut compute(py, x.shape(), || Ok(network.forward(piece)?))?);
        }
        output(py, scores, &score_shape(network, n_samples))
    }

    /// Returns the class of each sample in floating point: that of the best score, or, of a single score, whether it is positive.
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

    /// Returns the share of samples whose class is `y` in floating point.
    fn score(&self, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<f64> {
        share(&self.predict(x)?, y)
    }

    /// Prepares the network to run as streams, bit for bit what a circuit with these generators would compute.
    ///
    /// Parameters
    /// ----------
    /// length
    ///     Bits per stream.
    /// generator
    ///     "bernoulli", "sobol", "lfsr", "halton", "vdc", "ramp", one for inputs and one for weights as in "sobol:1+lfsr:77" or
    ///     "bernoulli+sobol:2", or a list of one for each layer.
    /// seed
    ///     The seed of generators that have one.
    /// width, sharing
    ///     Bits of shared sequences, or "auto" to fit them to the length where a generator needs its whole period; and how many
    ///     there are: "all" for one pair, "input" for a pair per input, "stream" for one per stream.
    /// layers
    ///     Settings of single layers, by name: a dict of any of length, generator, width and sharing for each.
    /// arithmetic
    ///     How numbers are kept between layers: "float", or "integer" as a circuit does.
    /// clip
    ///     Whether features that the first layer cannot encode saturate; else they are errors.
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
        let mut config =
            StreamConfig::new(length).width(width).sharing(sharing).seed(seed).arithmetic(arithmetic);
        config.range = if clip { FeatureRange::Clip } else { FeatureRange::Check };
        config.device = device;
        let names: Vec<&str> = self.network.layers().iter().map(Layer::name).collect();
        read_generators(generator, &names, &mut config)?;
        for (name, settings) in layers.into_iter().flatten() {
            let own = config.layers.entry(name.extract()?).or_default();
            read_settings(&settings, own)?;
        }
        let streams = self.prepared(py, config)?;
        Ok(StreamNetwork(streams))
    }

    /// Computes scores as streams, bit for bit what a circuit with these generators would.
    ///
    /// The weights are encoded by the first call and kept for the next with the same settings. See `streams` for the other
    /// parameters.
    ///
    /// Parameters
    /// ----------
    /// x
    ///     Features, one sample of shape (n_features,) or a batch of shape (N, n_features).
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
        let streams =
            self.streams(x.py(), length, generator, seed, width, sharing, layers, arithmetic, clip, device)?;
        streams.__call__(x, first_sample)
    }

    /// Returns the network with the input scale of every layer set to the largest input it gets from `x`, so that
    /// streams use their whole interval. `x` must be features of training, not of the test.
    fn calibrated(&self, x: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = x.py();
        let x = Input::<f64>::read(x, "x")?;
        samples(&self.network, x.shape())?;
        let features = x.slice()?;
        let network =
            compute_unless(py, x.shape(), |cancel| Ok(self.network.calibrated_unless(features, cancel)?))?;
        Ok(network.into())
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.network.name()
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

    /// The feature that becomes 0.
    #[getter]
    fn offset(&self) -> f64 {
        self.network.input().offset
    }

    /// The distance from it that becomes 1.
    #[getter]
    fn scale(&self) -> f64 {
        self.network.input().scale
    }

    /// The least and the greatest feature that streams can hold.
    #[getter]
    fn feature_interval(&self) -> (f64, f64) {
        self.network.feature_interval().into()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().network == self.network)
    }

    fn __repr__(&self) -> String {
        let layers = self.network.layers().iter().map(Layer::n_outputs);
        let sizes: Vec<String> =
            std::iter::once(self.network.n_features()).chain(layers).map(|n| n.to_string()).collect();
        format!("Network({:?}, {})", self.network.name(), sizes.join("-"))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let parts = slf.get()._to_parts(slf.py())?;
        Ok((slf.getattr("_from_parts")?, parts.into_pyobject(slf.py())?.into_any()))
    }
}

impl Network {
    /// The stream network of a configuration, prepared on first use.
    fn prepared(
        &self,
        py: Python<'_>,
        config: StreamConfig,
    ) -> PyResult<Arc<aleatron::network::StreamNetwork>> {
        let streams = self.streams.get_or_make(config, |config| {
            let network = Arc::clone(&self.network);
            compute_unless(py, &[], |cancel| Ok(network.into_streams(config, cancel)?))
        })?;
        warn(py, &streams.warnings())?;
        Ok(streams)
    }
}

/// One generator for all layers, or a list of one for each of those with these names.
pub(crate) fn read_generators(
    value: Option<&Bound<'_, PyAny>>,
    names: &[&str],
    config: &mut StreamConfig,
) -> PyResult<()> {
    let Some(value) = value else { return Ok(()) };
    if value.is_instance_of::<PyString>() {
        config.settings.generator = generator(value)?;
        return Ok(());
    }
    let Ok(values) = value.try_iter() else {
        return Err(PyTypeError::new_err("generator must be a name, or a list of one for each layer"));
    };
    // One at a time: what a sequence says of its own length is no number to allocate by.
    let mut generators = Vec::new();
    for value in values {
        generators.push(generator(&value?)?);
        if generators.len() > names.len() {
            break;
        }
    }
    if generators.len() != names.len() {
        let n = names.len();
        return Err(PyValueError::new_err(format!("generator has not one name for each of the {n} layers")));
    }
    for (name, generator) in names.iter().zip(generators) {
        config.layers.entry((*name).to_owned()).or_default().generator = Some(generator);
    }
    Ok(())
}

/// The settings of one layer: a dict of any of them.
pub(crate) fn read_settings(settings: &Bound<'_, PyAny>, own: &mut LayerOverride) -> PyResult<()> {
    let Ok(settings) = settings.cast::<PyDict>() else {
        return Err(PyTypeError::new_err("the settings of a layer must be a dict"));
    };
    for (name, value) in settings {
        match name.extract::<&str>()? {
            "length" => own.length = Some(length(&value)?),
            "generator" => own.generator = Some(generator(&value)?),
            "width" => own.width = Some(width(&value)?),
            "sharing" => own.sharing = Some(sharing(&value)?),
            other => {
                return Err(PyValueError::new_err(format!(
                    "a layer has no setting {other:?}; use length, generator, width or sharing"
                )));
            }
        }
    }
    Ok(())
}

/// A network prepared to run as streams; `Network.streams` makes it. Its weights are encoded and kept.
///
/// Examples
/// --------
/// >>> import aleatron as al
/// >>> x, y = al.load_digits()
/// >>> streams = al.Network.digits().streams(64, "sobol")
/// >>> streams(x).shape, bool(streams.score(x, y) > 0.95)
/// ((360, 10), True)
#[pyclass(module = "aleatron", frozen)]
pub(crate) struct StreamNetwork(Arc<aleatron::network::StreamNetwork>);

impl StreamNetwork {
    fn run(
        &self,
        x: &Bound<'_, PyAny>,
        first_sample: u32,
        detail: Detail,
    ) -> PyResult<(StreamOutput, Option<usize>)> {
        let py = x.py();
        let x = Input::<f64>::read(x, "x")?;
        let n_samples = samples(self.0.network(), x.shape())?;
        let features = x.slice()?;
        let run = |cancel: Cancel<'_>| Ok(self.0.run(features, first_sample, detail, cancel)?);
        Ok((compute_unless(py, x.shape(), run)?, n_samples))
    }
}

#[pymethods]
impl StreamNetwork {
    /// Computes scores for one sample of shape (n_features,) or a batch of shape (N, n_features), the first of which is number
    /// `first_sample` of all.
    #[pyo3(signature = (x, first_sample=0))]
    fn __call__<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = first_sample)] first_sample: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (made, n_samples) = self.run(x, first_sample, Detail::default())?;
        output(x.py(), made.scores, &score_shape(self.0.network(), n_samples))
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

    /// Returns, for each layer, a dict of its counts (uint64) and its outputs (float64), of shape (n_neurons,) or (N, n_neurons).
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> x, y = al.load_digits()
    /// >>> streams = al.Network.digits().streams(64)
    /// >>> [(layer["name"], layer["counts"].shape) for layer in streams.layer_outputs(x[:3])]
    /// [('hidden', (3, 64)), ('output', (3, 10))]
    #[pyo3(signature = (x, first_sample=0))]
    fn layer_outputs<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = first_sample)] first_sample: u32,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let py = x.py();
        let detail = Detail { layers: true, ..Detail::default() };
        let (made, n_samples) = self.run(x, first_sample, detail)?;
        let layers = made.layers.into_iter().zip(self.0.network().layers());
        let describe = |(made, layer): (aleatron::network::LayerOutput, &Layer)| {
            let shape = |n: usize| n_samples.into_iter().chain([n]).collect::<Vec<usize>>();
            let dict = PyDict::new(py);
            dict.set_item("name", layer.name())?;
            dict.set_item("counts", output(py, made.counts, &shape(layer.n_neurons()))?)?;
            dict.set_item("outputs", output(py, made.outputs, &shape(layer.n_outputs()))?)?;
            Ok(dict)
        };
        layers.map(describe).collect()
    }

    /// Bits per stream of each layer.
    #[getter]
    fn lengths(&self) -> Vec<usize> {
        self.0.lengths()
    }

    /// What is known to be wrong with the generators.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings().iter().map(ToString::to_string).collect()
    }

    /// The integers of each layer that `arithmetic="integer"` works with: widths of comparators and accumulators,
    /// fraction bits of the latter and biases in these units, multipliers and right shifts.
    ///
    /// Examples
    /// --------
    /// >>> import aleatron as al
    /// >>> hidden, last = al.Network.digits().streams(64, arithmetic="integer").integers
    /// >>> sorted(hidden)
    /// ['accumulator_width', 'bias', 'comparator_width', 'fraction_bits', 'multiplier', 'multiplier_width', 'name', 'shift']
    /// >>> last["multiplier"] is None
    /// True
    #[getter]
    fn integers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let layers = self.0.integer_layers().zip(self.0.network().layers());
        let describe = |(integer, layer): (&aleatron::network::IntegerLayer, &Layer)| {
            let dict = PyDict::new(py);
            dict.set_item("name", layer.name())?;
            dict.set_item("comparator_width", integer.comparator.bits())?;
            dict.set_item("accumulator_width", integer.accumulator.width())?;
            dict.set_item("fraction_bits", integer.accumulator.fraction())?;
            dict.set_item(
                "bias",
                read_only(py, integer.accumulator.bias().to_vec(), &[layer.bias().len()])?,
            )?;
            dict.set_item("multiplier", integer.requantizer.map(|r| r.multiplier()))?;
            dict.set_item("multiplier_width", integer.requantizer.map(|r| r.multiplier_width()))?;
            dict.set_item("shift", integer.requantizer.map(|r| r.shift()))?;
            Ok(dict)
        };
        layers.map(describe).collect()
    }

    /// Whether both are one prepared network, as two calls of `Network.streams` with the same settings give.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| Arc::ptr_eq(&other.get().0, &self.0))
    }

    fn __repr__(&self) -> String {
        format!("StreamNetwork({:?}, lengths={:?})", self.0.network().name(), self.0.lengths())
    }
}

/// The samples of an argument; `None` where it is one.
fn samples(network: &aleatron::network::Network, shape: &[usize]) -> PyResult<Option<usize>> {
    let n = network.n_features();
    match *shape {
        [m] if m == n => Ok(None),
        [samples, m] if m == n => Ok(Some(samples)),
        _ => {
            let shape = shape_text(shape);
            Err(PyValueError::new_err(format!("x has shape {shape}; expected ({n},) or (N, {n})")))
        }
    }
}

fn score_shape(network: &aleatron::network::Network, n_samples: Option<usize>) -> Vec<usize> {
    n_samples.into_iter().chain([network.n_outputs()]).collect()
}

/// The classes of scores, as signed integers: what comes of subtracting them is what users expect.
pub(crate) fn classes<'py>(n_outputs: usize, scores: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = scores.py();
    let scores = Input::<f64>::read(scores, "scores")?;
    let classes = scores.slice()?.chunks_exact(n_outputs.max(1)).map(|scores| top_class(scores) as i64);
    let outer = &scores.shape()[..scores.shape().len() - 1];
    output(py, classes.collect(), outer)
}

/// The share of equal entries of two arrays of one shape.
pub(crate) fn share(classes: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<f64> {
    let (classes, y) = (Input::<i64>::read(classes, "classes")?, Input::<i64>::read(y, "y")?);
    if classes.shape() != y.shape() {
        let (expected, actual) = (shape_text(classes.shape()), shape_text(y.shape()));
        return Err(PyValueError::new_err(format!("y has shape {actual}; expected {expected}")));
    }
    let equal = classes.slice()?.iter().zip(y.slice()?).filter(|(a, b)| a == b).count();
    Ok(equal as f64 / y.slice()?.len().max(1) as f64)
}

/// The two files of a network called by either of them or by its name, as Python's `pathlib` has them.
fn files<'py>(path: &Bound<'py, PyAny>) -> PyResult<[Bound<'py, PyAny>; 2]> {
    let py = path.py();
    let text: String = py.import("os")?.call_method1("fspath", (path,))?.extract()?;
    let stem = text.strip_suffix(".json").or(text.strip_suffix(".safetensors")).unwrap_or(&text);
    let class = py.import("pathlib")?.getattr("Path")?;
    Ok([class.call1((format!("{stem}.json"),))?, class.call1((format!("{stem}.safetensors"),))?])
}

/// "identity", "relu", or a pair of bounds.
fn read_activation(value: &Bound<'_, PyAny>) -> PyResult<Activation> {
    match value.extract::<&str>() {
        Ok("identity") => Ok(Activation::Identity),
        Ok("relu") => Ok(Activation::Relu),
        Ok(name) => Err(PyValueError::new_err(format!(
            "activation is {name:?}, not \"identity\", \"relu\" or a pair of bounds"
        ))),
        Err(_) => match value.extract::<(f64, f64)>() {
            Ok((low, high)) => Ok(Activation::Clamp { low, high }),
            Err(_) => Err(PyTypeError::new_err("activation must be a name or a pair of bounds")),
        },
    }
}

/// Reads an `aleatron.Layer`.
fn read_layer(k: usize, layer: &Bound<'_, PyAny>) -> PyResult<Layer> {
    let class = layer.py().import("aleatron._network")?.getattr("Layer")?;
    if !layer.is_instance(&class)? {
        let kind = layer.get_type().name()?;
        return Err(PyTypeError::new_err(format!("layer {k} is a {kind}, not an aleatron.Layer")));
    }
    let name: Option<String> = layer.getattr("name")?.extract()?;
    let name = name.unwrap_or_else(|| k.to_string());
    let weights = Input::<f64>::read(&layer.getattr("weights")?, "weights")?;
    let &[n_neurons, n_inputs] = weights.shape() else {
        let shape = shape_text(weights.shape());
        return Err(PyValueError::new_err(format!(
            "layer {k} ({name}): weights have shape {shape}, not (n_neurons, n_inputs)"
        )));
    };
    let mut read = Layer::new(&name, n_inputs, weights.slice()?.to_vec())
        .with_polarity(crate::argument::polarity(&layer.getattr("polarity")?)?)
        .with_input_scale(layer.getattr("input_scale")?.extract()?)
        .with_activation(read_activation(&layer.getattr("activation")?)?);
    if let Some(weight_scale) = layer.getattr("weight_scale")?.extract::<Option<f64>>()? {
        read = read.with_weight_scale(weight_scale);
    }
    let bias = layer.getattr("bias")?;
    if !bias.is_none() {
        let bias = Input::<f64>::read(&bias, "bias")?;
        if *bias.shape() != [n_neurons] {
            let shape = shape_text(bias.shape());
            return Err(PyValueError::new_err(format!(
                "layer {k} ({name}): bias has shape {shape}; expected ({n_neurons},)"
            )));
        }
        read = read.with_bias(bias.slice()?.to_vec());
    }
    Ok(read)
}
