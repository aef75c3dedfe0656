//! Networks: graphs of operations whose products with constant weights can run as streams.
//!
//! A [`Network`] is a graph, read from an ONNX file, built layer by layer with a [`NetworkBuilder`]
//! or created by an importer. It runs in floating point ([`Network::forward`]) or as streams
//! ([`Network::to_streams`]): each [`Layer`] then encodes its inputs as streams and counts, and all
//! other nodes operate on the decoded numbers, in floating point or in integers. The mode, encoding
//! and scales of layers are part of the network and of its file; [`Network::calibrated`] determines
//! the scales.
//!
//! ```
//! use aleatron_engine::network::{Network, StreamConfig};
//!
//! let network = Network::digits_noise_aware()?;
//! let digits = aleatron_data::Dataset::digits_test();
//! let sample = &digits.features()[..64];
//! let streams = network.to_streams(&StreamConfig::new(32))?;
//! assert_eq!(streams.forward(sample, 0)?.len(), network.forward(sample)?.len());
//! # Ok::<(), aleatron_engine::Error>(())
//! ```

mod builder;
mod calibrate;
mod config;
mod embedded;
mod file;
pub(crate) mod input;
mod layer;
mod parameters;
mod random;
mod range;
mod settings_file;

pub use aleatron_core::arithmetic::{Activation, Arithmetic};
pub use aleatron_core::program::ValueRange;
pub use aleatron_graph::batch::Batching;
pub use aleatron_graph::bind::{Bindings, InputValue, UnboundSize};
pub use aleatron_graph::inspect::{Inspection, NodeSummary, StreamSummary, ValueSummary};
pub use aleatron_graph::product::{Product, ProductKind};
pub use aleatron_graph::{Graph, Op, Simplified};
pub use builder::{NamedTensor, NetworkBuilder};
pub use calibrate::{
    Calibration, InputScale, WeightScale, percentile_rank, scaled_weights, weight_scales,
};
pub use config::{LayerOverride, LayerSettings, StreamConfig};
pub use input::NetworkInput;
pub(crate) use layer::LayerShapes;
pub use layer::{Layer, Mode};
pub use parameters::Parameter;
pub use random::NetworkShape;
pub use range::{InputRange, InputWarning, InputWarningKind};
pub use settings_file::{layers_from_json, layers_to_json, read_layers};

use crate::{Error, Result};
use aleatron_core::{Cancel, Polarity};
use aleatron_graph::batch::{self, BatchAnalysis};
use aleatron_graph::{Error as GraphError, Node, Observer, Runner};
use aleatron_tensor::{DType, Device, Tensor};
use std::sync::Arc;

/// Number of samples of a run in floating point.
const CHUNK: usize = 256;

/// A network: a graph over samples, and the settings of its layers as streams. The first output of
/// the graph holds the scores; a single score distinguishes two classes, 1 if it is positive.
#[derive(Debug, Clone)]
pub struct Network {
    graph: Arc<Graph>,
    layers: Vec<Layer>,
    inputs: Vec<NetworkInput>,
    /// The number of samples of a run, if the graph fixes it.
    batch: Option<usize>,
    batching: Batching,
    /// A run with zeros: of one sample, or of as many as the graph fixes.
    analysis: Arc<BatchAnalysis>,
    /// The shape of the scores of one sample.
    output: Vec<usize>,
}

impl PartialEq for Network {
    /// Returns whether both have the same file: the numbering of the graph's values makes no
    /// difference.
    fn eq(&self, other: &Self) -> bool {
        self.layers == other.layers
            && (self.graph == other.graph
                || matches!((self.to_onnx(), other.to_onnx()), (Ok(own), Ok(other)) if own == other))
    }
}

/// The layer whose outputs are the scores, or become them without a change of their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreLayer {
    /// Its index among the layers.
    pub layer: usize,
    /// Whether the scores are its outputs, without a softmax after it.
    pub is_direct: bool,
}

impl Network {
    /// Creates a network from a graph, of whose outputs it has the first. Its layers are signed
    /// streams, with inputs of scale 1 and weights scaled by the largest of each row. A graph
    /// that fixes the number of samples is changed to take any number, if its samples are
    /// independent.
    ///
    /// # Errors
    /// Returns [`Error::Graph`] if the sizes of an input other than the number of samples are not
    /// known, if the graph cannot run, or if the leading size of its first output is not the number
    /// of samples or depends on the values of features.
    pub fn new(mut graph: Graph) -> Result<Self> {
        if let [first, _, ..] = graph.outputs() {
            let output = Some(graph.value(*first)?.name.clone());
            graph.bind(&Bindings { output, ..Bindings::default() })?;
        }
        let (inputs, mut batch) = input::inputs_of(&graph)?;
        if let Some(n) = batch
            && let Some(freed) = batch::free(&graph, n)?
        {
            (graph, batch) = (freed, None);
        }
        let Some(&output) = graph.outputs().first() else {
            let place = format!("graph \"{}\"", graph.name());
            return Err(GraphError::Model { place, reason: "it has no output".to_owned() }.into());
        };
        let graph = Arc::new(graph);
        let runner = Runner::new(Arc::clone(&graph), &Device::Cpu)?;
        let n = batch.unwrap_or(1);
        let analysis = BatchAnalysis::new(&runner, input::zeros(&inputs, n)?, n)?;
        let batching = match (analysis.batching(&graph, output)?, batch) {
            (batching, None) => batching,
            // A run of the number that the graph fixes is the only information about it.
            (_, Some(_)) => Batching::Whole,
        };
        if batching == Batching::Whole && batch.is_none() {
            // The size that one sample has may be that of any number of samples.
            let result = runner.run(input::zeros(&inputs, 2)?)?;
            result
                .first()
                .map_or(Ok(()), |result| batch::check_output(&graph, output, result, 2))?;
        }
        let layers = layer::layers_of(&graph, &analysis)?;
        let analysis = Arc::new(analysis);
        let mut network =
            Self { graph, layers, inputs, batch, batching, analysis, output: Vec::new() };
        network.output = network.sample_output(network.analysis.outputs(), n)?;
        Ok(network)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.graph.name()
    }

    /// Returns the network with another name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.graph = Arc::new(Arc::unwrap_or_clone(self.graph).with_name(name));
        self
    }

    /// Returns the graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the products with constant weights, in the order in which they run.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Returns the layers that run as streams, with their indices among all layers.
    pub fn stream_layers(&self) -> impl Iterator<Item = (usize, &Layer)> {
        self.layers.iter().enumerate().filter(|(_, layer)| layer.mode == Mode::Streams)
    }

    /// Returns the inputs.
    #[must_use]
    pub fn inputs(&self) -> &[NetworkInput] {
        &self.inputs
    }

    /// Returns the shape of a sample: that of a single input, or the number of features if there
    /// are several inputs.
    #[must_use]
    pub fn input_shape(&self) -> Vec<usize> {
        match self.inputs.as_slice() {
            [input] => input.shape.clone(),
            _ => vec![self.n_features()],
        }
    }

    /// Returns the number of features of a sample, over all inputs.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.inputs.iter().map(NetworkInput::len).sum()
    }

    /// Returns the shape of the scores of a sample.
    #[must_use]
    pub fn output_shape(&self) -> &[usize] {
        &self.output
    }

    /// Returns the number of scores of a sample.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.output.iter().product()
    }

    /// Returns the number of classes: one per score, or two if there is one score.
    #[must_use]
    pub fn n_classes(&self) -> usize {
        self.n_outputs().max(2)
    }

    /// Returns the number of samples of a run, if the graph fixes it.
    #[must_use]
    pub fn batch(&self) -> Option<usize> {
        self.batch
    }

    /// Returns how samples run together.
    #[must_use]
    pub fn batching(&self) -> Batching {
        self.batching
    }

    /// Returns the layer of this name.
    ///
    /// # Errors
    /// Returns [`Error::UnknownLayer`] if there is none.
    pub fn layer(&self, name: &str) -> Result<&Layer> {
        self.layers.iter().find(|layer| layer.name == name).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> Error {
        let known = self.layers.iter().map(|layer| layer.name.clone()).collect();
        Error::UnknownLayer { name: name.to_owned(), known }
    }

    /// Returns the network with one layer as streams or in binary.
    ///
    /// # Errors
    /// Returns [`Error::UnknownLayer`] for an unknown name.
    pub fn with_mode(mut self, name: &str, mode: Mode) -> Result<Self> {
        match self.layers.iter_mut().find(|layer| layer.name == name) {
            Some(layer) => layer.mode = mode,
            None => return Err(self.unknown(name)),
        }
        Ok(self)
    }

    /// Returns the network with streams of this encoding in every layer.
    ///
    /// # Errors
    /// Returns [`Error::Layer`] for unipolar streams if a weight is negative.
    pub fn with_polarity(self, polarity: Polarity) -> Result<Self> {
        self.with_layers(|layer| layer.polarity = polarity)
    }

    /// Returns the network with every layer changed by `change`, except for its node and its
    /// weights.
    ///
    /// # Errors
    /// Returns [`Error::Layer`] for scales that are not positive, and for weights outside the
    /// interval of the polarity times their scale.
    pub fn with_layers(mut self, mut change: impl FnMut(&mut Layer)) -> Result<Self> {
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let before = (layer.node, layer.bias_node, layer.name.clone(), layer.product.clone());
            change(layer);
            (layer.node, layer.bias_node, layer.name, layer.product) = before;
            layer.check(index)?;
        }
        Ok(self)
    }

    /// Computes the scores in floating point, samples one after the other.
    ///
    /// # Errors
    /// Returns [`Error::RaggedSamples`] if `features` are not whole samples, [`Error::Feature`] for
    /// one that is not finite, [`Error::Graph`] if a node fails.
    pub fn forward(&self, features: &[f64]) -> Result<Vec<f64>> {
        self.forward_with(features, Cancel::NEVER)
    }

    /// Computes like [`Self::forward`], with cancellation.
    ///
    /// # Errors
    /// As for [`Self::forward`], and [`aleatron_core::Error::Cancelled`].
    pub fn forward_with(&self, features: &[f64], cancel: Cancel<'_>) -> Result<Vec<f64>> {
        let mut scores = Vec::new();
        self.run_float(features, &mut Cancellation(cancel), |outputs, n| {
            scores.extend(self.scores(outputs, n)?);
            Ok(())
        })?;
        Ok(scores)
    }

    /// Computes the class of each sample in floating point.
    ///
    /// # Errors
    /// As for [`Self::forward`].
    pub fn predict(&self, features: &[f64]) -> Result<Vec<usize>> {
        Ok(self.classes(&self.forward(features)?))
    }

    /// Returns the class of each sample from its scores.
    #[must_use]
    pub fn classes(&self, scores: &[f64]) -> Vec<usize> {
        scores.chunks_exact(self.n_outputs().max(1)).map(top_class).collect()
    }

    /// Describes the nodes of the graph, with streams of `length` bits.
    ///
    /// # Errors
    /// Returns [`Error::Graph`] if the graph cannot run.
    pub fn inspect(&self, length: usize) -> Result<Inspection> {
        let mut found = aleatron_graph::inspect::inspect(&self.graph, length)?;
        for layer in self.layers.iter().filter(|layer| layer.mode == Mode::Binary) {
            if let Some(node) = found.nodes.get_mut(layer.node) {
                node.stream = None;
            }
        }
        Ok(found)
    }

    /// Checks that features are whole samples of finite numbers, and as many samples as the graph
    /// can run.
    ///
    /// # Errors
    /// Returns [`Error::RaggedSamples`], [`Error::Feature`] and [`Error::PartialBatch`].
    pub fn check_samples(&self, features: &[f64]) -> Result<()> {
        let width = self.n_features();
        if !features.len().is_multiple_of(width) {
            return Err(Error::RaggedSamples { values: features.len(), features: width });
        }
        // Without a branch, so that the compiler uses vector registers; the index is searched only
        // after a failure.
        if !features.iter().fold(true, |all, feature| all & feature.is_finite())
            && let Some(index) = features.iter().position(|feature| !feature.is_finite())
        {
            let (low, high) = (f64::MIN, f64::MAX);
            let (sample, feature, value) = (index / width, index % width, features[index]);
            return Err(Error::Feature { sample, feature, value, low, high });
        }
        match self.batch {
            Some(batch) if !(features.len() / width).is_multiple_of(batch) => {
                Err(Error::PartialBatch { samples: features.len() / width, batch })
            }
            _ => Ok(()),
        }
    }

    /// Returns the layer that computes the scores, if it runs as streams.
    #[must_use]
    pub fn score_layer(&self) -> Option<ScoreLayer> {
        let mut value = *self.graph.outputs().first()?;
        let (mut is_direct, mut end) = (true, self.graph.nodes().len());
        // Nodes are sorted: each step is to an earlier node.
        loop {
            let nodes = &self.graph.nodes()[..end];
            let index =
                nodes.iter().rposition(|node| node.outputs.first() == Some(&Some(value)))?;
            end = index;
            if let Some(found) = self.layers.iter().position(|layer| layer.output_node() == index) {
                let layer = &self.layers[found];
                let is_scores = layer.mode == Mode::Streams
                    && matches!(layer.product.kind, ProductKind::Dense { n_neurons, .. } if n_neurons == self.n_outputs());
                return is_scores.then_some(ScoreLayer { layer: found, is_direct });
            }
            let node = &self.graph.nodes()[index];
            match node.op {
                Op::Identity | Op::Flatten { .. } | Op::Reshape { .. } | Op::Squeeze { .. } => {}
                Op::Softmax { .. } if self.n_outputs() > 1 => is_direct = false,
                _ => return None,
            }
            value = (*node.inputs.first()?)?;
        }
    }

    /// Returns the index of the layer of each node.
    pub(crate) fn layers_by_node(&self) -> Vec<Option<usize>> {
        let mut layers = vec![None; self.graph.nodes().len()];
        for (k, layer) in self.layers.iter().enumerate() {
            layers[layer.node] = Some(k);
        }
        layers
    }

    /// Returns the analysis of a run with zeros: of one sample, or of as many as the graph fixes.
    pub(crate) fn analysis(&self) -> &Arc<BatchAnalysis> {
        &self.analysis
    }

    pub(crate) fn runner(&self) -> Result<Runner> {
        Ok(Runner::new(Arc::clone(&self.graph), &Device::Cpu)?)
    }

    /// Returns `n_samples` samples of zeros as the inputs of the graph.
    pub(crate) fn zeros(&self, n_samples: usize) -> Result<Vec<Tensor>> {
        input::zeros(&self.inputs, n_samples)
    }

    /// Returns the number of samples that run together in floating point.
    fn chunk(&self, n_samples: usize) -> usize {
        match (self.batching, self.batch) {
            (_, Some(batch)) => batch,
            (Batching::Independent, None) => CHUNK,
            (Batching::Whole, None) => n_samples.max(1),
        }
    }

    /// Runs samples in floating point. `take` receives the outputs of some samples, and their
    /// number.
    pub(crate) fn run_float(
        &self,
        features: &[f64],
        observer: &mut dyn Observer,
        mut take: impl FnMut(&[Tensor], usize) -> Result<()>,
    ) -> Result<()> {
        self.check_samples(features)?;
        let (runner, width) = (self.runner()?, self.n_features());
        let size = self.chunk(features.len() / width);
        for (k, chunk) in features.chunks(size * width).enumerate() {
            let n = chunk.len() / width;
            let inputs =
                input::tensors(&self.inputs, chunk, n).map_err(|error| error.shifted(k * size))?;
            take(&runner.run_with(inputs, observer).map_err(from_graph)?, n)?;
        }
        Ok(())
    }

    /// Returns the shape of the scores of one sample.
    fn sample_output(&self, outputs: &[Tensor], n: usize) -> Result<Vec<usize>> {
        let Some((first, &id)) = outputs.first().zip(self.graph.outputs().first()) else {
            return Err(
                aleatron_core::Error::Internal { place: "engine::Network::sample_output" }.into()
            );
        };
        batch::check_output(&self.graph, id, first, n)?;
        if !first.dtype().is_float() {
            let place = format!("output \"{}\"", self.graph.value(id)?.name);
            let reason = format!("scores must be floating-point numbers, not {}", first.dtype());
            return Err(GraphError::Model { place, reason }.into());
        }
        Ok(first.shape()[1..].to_vec())
    }

    /// Returns the scores of `n` samples: the first output, as rows.
    pub(crate) fn scores(&self, outputs: &[Tensor], n: usize) -> Result<Vec<f64>> {
        let shape = self.sample_output(outputs, n)?;
        if let Some((first, &id)) = outputs.first().zip(self.graph.outputs().first()) {
            if shape != self.output {
                let place = format!("output \"{}\"", self.graph.value(id)?.name);
                let (expected, n) = (&self.output, shape.len());
                let reason = format!(
                    "a sample has shape {shape:?} now and had {expected:?} before: sizes of {n} axes depend on values"
                );
                return Err(GraphError::Model { place, reason }.into());
            }
            return floats(first);
        }
        Err(aleatron_core::Error::Internal { place: "engine::Network::scores" }.into())
    }
}

/// Returns the elements of a tensor as f64.
pub(crate) fn floats(tensor: &Tensor) -> Result<Vec<f64>> {
    let values = tensor.cast(DType::F32).and_then(|tensor| tensor.to_vec::<f32>());
    Ok(values.map_err(GraphError::from)?.into_iter().map(f64::from).collect())
}

/// Returns the class of scores: the index of the greatest, the first of equals; for a single score,
/// 1 if it is positive.
#[must_use]
pub fn top_class(scores: &[f64]) -> usize {
    if let [score] = scores {
        return usize::from(*score > 0.0);
    }
    let better =
        |best: usize, (k, score): (usize, &f64)| if *score > scores[best] { k } else { best };
    scores.iter().enumerate().fold(0, better)
}

/// Checks for cancellation before every node.
struct Cancellation<'a>(Cancel<'a>);

impl Observer for Cancellation<'_> {
    fn compute(
        &mut self,
        _: usize,
        _: &Node,
        _: &[Option<Tensor>],
    ) -> aleatron_graph::Result<Option<Vec<Tensor>>> {
        self.0.check()?;
        Ok(None)
    }
}

/// Returns the error of a run, unwrapping errors of this crate.
pub(crate) fn from_graph(error: GraphError) -> Error {
    match error {
        GraphError::Node { source, index, name, operator } => match *source {
            GraphError::Other(other) => match other.downcast::<Error>() {
                Ok(own) => *own,
                Err(other) => GraphError::Other(other).into(),
            },
            GraphError::Core(core) => core.into(),
            source => GraphError::Node { source: Box::new(source), index, name, operator }.into(),
        },
        GraphError::Other(other) => match other.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => GraphError::Other(other).into(),
        },
        error => error.into(),
    }
}
