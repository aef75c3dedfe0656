//! `Network`.

use crate::argument::{length, n_samples, polarity_name, read_device, read_polarity, seed};
use crate::array::{Input, output, shape_text};
use crate::compute::compute;
use crate::error::exception;
use aleatron::Length;
use aleatron::core::generator::{Sharing, Width};
use aleatron::eval::GeneratorSpec;
use aleatron::network::file::Tensor;
use aleatron::network::{Activation, FeatureMap, Generator, Layer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Samples run between two looks for Ctrl-C.
const PIECE: usize = 256;

/// A network of dense layers, in floating point and as streams.
///
/// Features become inputs as `(feature - offset) / scale`. Calling the network gives its scores in floating point;
/// `forward_streams` runs it as a circuit would: every layer encodes its inputs as streams, counts, and turns the counts
/// back into binary, where bias, scale and activation apply and the next layer's inputs saturate.
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
/// >>> float((network(x).argmax(axis=1) == y).mean())
/// 0.975
/// >>> scores = network.forward_streams(x, length=64, generator="sobol")
/// >>> bool((scores.argmax(axis=1) == y).mean() > 0.93)
/// True
#[pyclass(module = "aleatron", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct Network(pub(crate) aleatron::network::Network);

#[pymethods]
impl Network {
    #[new]
    #[pyo3(signature = (layers, name="network", offset=0.0, scale=1.0))]
    fn new(layers: &Bound<'_, PyAny>, name: &str, offset: f64, scale: f64) -> PyResult<Self> {
        let layers = layers.try_iter()?.enumerate().map(|(k, layer)| read_layer(k, &layer?));
        let layers = layers.collect::<PyResult<_>>()?;
        let network = aleatron::network::Network::new(name, FeatureMap { offset, scale }, layers);
        network.map(Self).map_err(|error| exception(error, &[]))
    }

    /// One of the two embedded networks for 8 x 8 digits: "noise-aware", trained with the noise of counting, or "plain".
    #[staticmethod]
    #[pyo3(signature = (kind="noise-aware"))]
    fn digits(kind: &str) -> PyResult<Self> {
        let network = match kind {
            "noise-aware" => aleatron::network::Network::digits_noise_aware(),
            "plain" => aleatron::network::Network::digits_plain(),
            _ => {
                return Err(PyValueError::new_err(format!(
                    "kind is {kind:?}, not \"noise-aware\" or \"plain\""
                )));
            }
        };
        network.map(Self).map_err(|error| exception(error, &[]))
    }

    /// Makes a bipolar network of a torch-style state dict.
    ///
    /// Each PREFIX.weight of shape (neurons, inputs), with its PREFIX.bias if there is one, is a layer, in the order given;
    /// `hidden` is applied between layers. Call `calibrated` with features of training to set the scales of hidden inputs.
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
        let tensors = state.call_method0("items")?.try_iter()?.map(|item| {
            let (name, value): (String, Bound<'_, PyAny>) = item?.extract()?;
            let input = Input::<f64>::read(&value, &name)?;
            Ok(Tensor { name, shape: input.shape().to_vec(), values: input.slice()?.to_vec() })
        });
        let tensors: Vec<Tensor> = tensors.collect::<PyResult<_>>()?;
        let hidden = hidden.map_or(Ok(Activation::Relu), read_activation)?;
        let input = FeatureMap { offset, scale };
        let network = aleatron::network::Network::from_state_dict(name, input, &tensors, hidden);
        network.map(Self).map_err(|error| exception(error, &[]))
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
        let description = beside(path, ".json")?.call_method1("read_text", ("utf-8",))?;
        let tensors = beside(path, ".safetensors")?.call_method0("read_bytes")?;
        Self::_from_parts(description.extract()?, tensors.extract()?)
    }

    /// Writes the network as NAME.json and NAME.safetensors; `path` may be either or NAME.
    fn save(&self, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let (description, tensors) = self._to_parts(path.py())?;
        beside(path, ".json")?.call_method1("write_text", (description, "utf-8"))?;
        beside(path, ".safetensors")?.call_method1("write_bytes", (tensors,))?;
        Ok(())
    }

    #[staticmethod]
    fn _from_parts(description: &str, tensors: &[u8]) -> PyResult<Self> {
        let network = aleatron::network::Network::from_parts(description, tensors);
        network.map(Self).map_err(|error| exception(error, &[]))
    }

    fn _to_parts<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyBytes>)> {
        let (description, tensors) = self.0.to_parts().map_err(|error| exception(error, &[]))?;
        Ok((description, PyBytes::new(py, &tensors)))
    }

    /// The layers, with which another network can be made.
    #[getter]
    fn layers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let class = py.import("aleatron._network")?.getattr("Layer")?;
        let make = |l: &Layer| {
            let weights = output(py, l.weights().to_vec(), &[l.n_neurons(), l.n_inputs()])?;
            let bias = output(py, l.bias().to_vec(), &[l.n_neurons()])?;
            let activation = match l.activation() {
                Activation::Identity => "identity".into_pyobject(py)?.into_any(),
                Activation::Relu => "relu".into_pyobject(py)?.into_any(),
                Activation::Clamp { low, high } => (low, high).into_pyobject(py)?.into_any(),
            };
            let polarity = polarity_name(l.polarity());
            class.call1((weights, bias, activation, polarity, l.input_scale(), l.weight_scale(), l.name()))
        };
        self.0.layers().iter().map(make).collect()
    }

    /// Computes scores in floating point for one sample of shape (n_features,) or a batch of shape (N, n_features).
    fn __call__<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.run(x, |features, _| self.0.forward(features))
    }

    /// Computes scores as streams, bit for bit what a circuit with these generators would.
    ///
    /// Parameters
    /// ----------
    /// x
    ///     Features, one sample of shape (n_features,) or a batch of shape (N, n_features).
    /// length
    ///     Bits per stream.
    /// generator
    ///     "bernoulli", "sobol", "lfsr", "halton", "vdc", "ramp", two sequences as in "sobol:1+lfsr:77", or a list of one for
    ///     each layer.
    /// seed
    ///     The seed of generators that have one.
    /// width, sharing
    ///     Bits of shared sequences, and how many of them there are: "all" for one pair, "input" for a pair per input,
    ///     "stream" for one per stream.
    /// first_sample
    ///     The index of the first sample among all: a batch may be split.
    /// device
    ///     "auto", "cpu" or "gpu".
    #[pyo3(signature = (
        x, length, generator=None, seed=0, *, width=8, sharing="all", first_sample=0, device="auto"
    ), text_signature = "($self, x, length, generator='bernoulli', seed=0, *, width=8, sharing='all', first_sample=0, device='auto')")]
    fn forward_streams<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = length)] length: usize,
        generator: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = seed)] seed: u64,
        width: u32,
        sharing: &str,
        #[pyo3(from_py_with = n_samples)] first_sample: usize,
        device: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (device, sharing) = (read_device(device)?, read_sharing(sharing)?);
        let specs = self.read_generators(generator)?;
        let length = Length::new(length).map_err(|error| exception(error.into(), &[]))?;
        let prepare = || {
            let width = Width::new(width)?;
            let generators = specs.iter().map(|spec| spec.generator(seed, width, sharing));
            let generators: Vec<Generator> = generators.collect::<aleatron::Result<_>>()?;
            self.0.to_streams_by_layer(length, &generators, device)
        };
        let streams = compute(x.py(), &[], prepare)?;
        self.run(x, |features, sample| {
            // Past 2^32 samples the engine itself refuses.
            let first = u32::try_from(first_sample.saturating_add(sample)).unwrap_or(u32::MAX);
            Ok(streams.forward(features, first)?.scores)
        })
    }

    /// Returns the network with the input scale of every hidden layer set to the largest input it gets from `x`, so that
    /// streams use their whole interval. `x` must be features of training, not of the test.
    fn calibrated(&self, x: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = x.py();
        let x = Input::<f64>::read(x, "x")?;
        self.samples(x.shape())?;
        let features = x.slice()?;
        compute(py, x.shape(), || self.0.calibrated(features)).map(Self)
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The features of a sample.
    #[getter]
    fn n_features(&self) -> usize {
        self.0.n_features()
    }

    /// The scores of a sample.
    #[getter]
    fn n_classes(&self) -> usize {
        self.0.n_classes()
    }

    /// The feature that becomes 0.
    #[getter]
    fn offset(&self) -> f64 {
        self.0.input().offset
    }

    /// The distance from it that becomes 1.
    #[getter]
    fn scale(&self) -> f64 {
        self.0.input().scale
    }

    /// The least and the greatest feature that streams can hold.
    #[getter]
    fn feature_interval(&self) -> (f64, f64) {
        self.0.feature_interval().into()
    }

    fn __repr__(&self) -> String {
        let layers = self.0.layers().iter().map(Layer::n_neurons);
        let sizes: Vec<String> =
            std::iter::once(self.0.n_features()).chain(layers).map(|n| n.to_string()).collect();
        format!("Network({:?}, {})", self.0.name(), sizes.join("-"))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let parts = slf.get()._to_parts(slf.py())?;
        Ok((slf.getattr("_from_parts")?, parts.into_pyobject(slf.py())?.into_any()))
    }
}

impl Network {
    /// The samples of an argument; `None` where it is one.
    fn samples(&self, shape: &[usize]) -> PyResult<Option<usize>> {
        let n = self.0.n_features();
        match *shape {
            [m] if m == n => Ok(None),
            [samples, m] if m == n => Ok(Some(samples)),
            _ => {
                let shape = shape_text(shape);
                Err(PyValueError::new_err(format!("x has shape {shape}; expected ({n},) or (N, {n})")))
            }
        }
    }

    /// `run(features, first sample)` on pieces of a batch.
    fn run<'py>(
        &self,
        x: &Bound<'py, PyAny>,
        run: impl Fn(&[f64], usize) -> aleatron::Result<Vec<f64>> + Sync,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = x.py();
        let x = Input::<f64>::read(x, "x")?;
        let n_samples = self.samples(x.shape())?;
        let mut scores = Vec::new();
        for (i, piece) in x.slice()?.chunks(PIECE * self.0.n_features()).enumerate() {
            py.check_signals()?;
            scores.append(&mut compute(py, x.shape(), || run(piece, i * PIECE))?);
        }
        let shape: Vec<usize> = n_samples.into_iter().chain([self.0.n_classes()]).collect();
        output(py, scores, &shape)
    }

    /// One generator for all layers, or a list of one for each.
    fn read_generators(&self, generator: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<GeneratorSpec>> {
        let parse = |name: &str| name.parse().map_err(|error| exception(error, &[]));
        let n = self.0.layers().len();
        match generator {
            None => Ok(vec![GeneratorSpec::Bernoulli; n]),
            Some(generator) => match generator.extract::<&str>() {
                Ok(name) => Ok(vec![parse(name)?; n]),
                Err(_) => generator.extract::<Vec<String>>()?.iter().map(|name| parse(name)).collect(),
            },
        }
    }
}

/// A path with another suffix, as Python's `pathlib` has it.
fn beside<'py>(path: &Bound<'py, PyAny>, suffix: &str) -> PyResult<Bound<'py, PyAny>> {
    let path = path.py().import("pathlib")?.call_method1("Path", (path,))?;
    path.call_method1("with_suffix", (suffix,))
}

/// How many sequences streams share.
pub(crate) fn read_sharing(name: &str) -> PyResult<Sharing> {
    match name {
        "all" => Ok(Sharing::OneForAll),
        "input" => Ok(Sharing::OnePerInput),
        "stream" => Ok(Sharing::OnePerStream),
        _ => Err(PyValueError::new_err(format!("sharing is {name:?}, not \"all\", \"input\" or \"stream\""))),
    }
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
        .with_polarity(read_polarity(layer.getattr("polarity")?.extract()?)?)
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
