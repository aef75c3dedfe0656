//! Networks that are graphs, such as those of ONNX files, in floating point and as streams.
//!
//! A [`GraphNetwork`] runs nodes on tensors. Its products with constant weights, dense and convolutions of one or two axes, can be
//! streams: each encodes its inputs, counts, and turns the counts back into binary, where everything else happens. Which of them are
//! streams, how they hold numbers, and what they are scaled by is said for each; [`GraphNetwork::calibrated`] finds the scales.
//!
//! ```no_run
//! use aleatron_engine::graph::{Calibration, GraphNetwork};
//! use aleatron_engine::network::StreamConfig;
//!
//! let network = GraphNetwork::load("lenet.onnx")?;
//! let data = aleatron_data::Dataset::read("test.npz")?;
//! let network = network.calibrated(data.features(), &Calibration::default())?;
//! let streams = network.to_streams(&StreamConfig::new(64).generator("sobol".parse()?))?;
//! let scores = streams.forward(data.features(), 0)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod calibrate;
mod chain;
mod file;
mod integer;
mod random;
mod stream;
mod values;
mod watch;

pub use aleatron_graph::inspect::{Inspection, NodeSummary, StreamSummary, ValueSummary, inspect};
pub use aleatron_graph::product::{Product, ProductKind};
pub use aleatron_graph::{Error as GraphError, Graph, Op, Simplified};
pub use calibrate::{Calibration, InputScale, WeightScale};
pub use random::NetworkShape;
pub use stream::{IntegerProduct, Statistics, StreamGraph, StreamGraphOutput};
pub use watch::{NodeErrors, Watch};

use crate::network::top_class;
use crate::{Error, Result};
use aleatron_core::{Cancel, Polarity, Quantity, Topology, memory};
use aleatron_graph::{Dim, Node, Observer, Runner};
use aleatron_tensor::{DType, Device, Tensor};
use std::borrow::Cow;
use std::sync::Arc;

/// Samples run at a time, where the graph does not fix their number.
const PIECE: usize = 256;

/// How a product runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// As streams.
    #[default]
    Streams,
    /// On tensors.
    Binary,
}

/// A product of a graph, with all that is said about it.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphLayer {
    /// Its node in the graph.
    pub node: usize,
    /// The name of the node.
    pub name: String,
    /// Weights, biases and shape.
    pub product: Product,
    /// How it runs.
    pub mode: Mode,
    /// How its streams hold numbers.
    pub polarity: Polarity,
    /// What inputs are divided by before they are encoded; what then lies outside the interval saturates.
    pub input_scale: f64,
    /// What the weights of a neuron or channel are divided by: one number for all, or one each.
    pub weight_scales: Vec<f64>,
}

impl GraphLayer {
    /// The output of a row whose products, of numbers as they are encoded, have this sum.
    #[must_use]
    pub fn output(&self, row: usize, sum: f64) -> f32 {
        self.rescale(row)(sum)
    }

    /// As [`Self::output`], for many sums of one row.
    fn rescale(&self, row: usize) -> impl Fn(f64) -> f32 {
        let bias = f64::from(self.product.bias.get(row).copied().unwrap_or(0.0));
        let (input_scale, weight_scale) = (self.input_scale, self.weight_scale(row));
        move |sum| (sum * input_scale * weight_scale + bias) as f32
    }

    /// What its streams compute where its input has this shape.
    ///
    /// # Errors
    /// [`Error::Graph`] for a shape that the product cannot take.
    pub fn topology(&self, input: &[usize]) -> Result<Topology> {
        stream::topology(self, input).map(|(topology, ..)| topology)
    }

    /// What the weights of a row are divided by.
    #[must_use]
    pub fn weight_scale(&self, row: usize) -> f64 {
        match self.weight_scales.as_slice() {
            [all] => *all,
            each => each.get(row).copied().unwrap_or(1.0),
        }
    }
}

/// A product whose outputs are the scores, or become them without a change of their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreLayer {
    /// Its place among the products.
    pub place: usize,
    /// Whether the scores are its outputs themselves, not those of a softmax behind it.
    pub is_direct: bool,
}

/// A network that is a graph: one input of samples, whose first output holds the scores.
#[derive(Debug, Clone)]
pub struct GraphNetwork {
    graph: Arc<Graph>,
    layers: Vec<GraphLayer>,
    /// The shape of a sample.
    sample: Vec<usize>,
    /// The samples of a run, where the graph fixes them.
    batch: Option<usize>,
    n_outputs: usize,
}

impl GraphNetwork {
    /// A network of a graph. Its products are signed streams, with inputs of scale 1 and weights scaled by the largest of each row.
    ///
    /// # Errors
    /// [`Error::Graph`] where it has not one input whose shape is known but for the samples, or where it cannot run.
    pub fn new(graph: Graph) -> Result<Self> {
        let fault =
            |reason: String| GraphError::Model { place: format!("graph \"{}\"", graph.name()), reason };
        let &[input] = graph.inputs() else {
            return Err(
                fault(format!("{} inputs; networks of one input are run", graph.inputs().len())).into()
            );
        };
        let value = graph.value(input)?;
        let Some([batch, sample @ ..]) = value.shape.as_deref() else {
            return Err(fault(format!("the shape of the input \"{}\" is not known", value.name)).into());
        };
        let sizes: Option<Vec<usize>> =
            sample.iter().map(|dim| if let Dim::Fixed(n) = dim { Some(*n) } else { None }).collect();
        let Some(sample) = sizes else {
            let text: Vec<String> = sample.iter().map(ToString::to_string).collect();
            return Err(
                fault(format!("a sample has the shape [{}]; numbers are needed", text.join(", "))).into()
            );
        };
        if value.dtype.is_some_and(|dtype| dtype != DType::F32) || sample.contains(&0) {
            return Err(fault(format!("samples of f32 are run, not {:?} {sample:?}", value.dtype)).into());
        }
        let batch = if let Dim::Fixed(n) = batch { Some(*n) } else { None };
        if batch == Some(0) {
            return Err(fault("a run has no samples".to_owned()).into());
        }
        // A run takes its features as they come and as the graph has them. With that, all products of these sizes fit.
        let features = sample.iter().chain(&batch).fold(1_u128, |n, &size| n.saturating_mul(size as u128));
        let bytes = features.saturating_mul((size_of::<f64>() + size_of::<f32>()) as u128);
        memory::check(bytes, Quantity::Samples)?;
        let mut layers = Vec::new();
        for (k, node) in graph.nodes().iter().enumerate() {
            if let Some(product) = Product::of(&graph, node)? {
                if product.weights.is_empty() {
                    return Err(fault(format!("\"{}\" has no weights", node.name)).into());
                }
                for (what, values) in [("weights", &product.weights), ("bias", &product.bias)] {
                    if let Some((k, value)) = values.iter().enumerate().find(|(_, value)| !value.is_finite())
                    {
                        let reason = format!("the {what} of \"{}\" at flat index {k}: {value}", node.name);
                        return Err(fault(reason + " is not finite").into());
                    }
                }
                let weight_scales = calibrate::weight_scales(&product, WeightScale::PerRow);
                layers.push(GraphLayer {
                    node: k,
                    name: node.name.clone(),
                    product,
                    mode: Mode::Streams,
                    polarity: Polarity::Signed,
                    input_scale: 1.0,
                    weight_scales,
                });
            }
        }
        let mut network = Self { graph: Arc::new(graph), layers, sample, batch, n_outputs: 0 };
        let n = network.batch.unwrap_or(1);
        network.n_outputs = network.scores(&network.runner()?.run(vec![network.zeros(n)?])?, n)?.len() / n;
        Ok(network)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.graph.name()
    }

    /// The same network with another name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.graph = Arc::new(Arc::unwrap_or_clone(self.graph).with_name(name));
        self
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The products that can be streams, in the order in which they run.
    #[must_use]
    pub fn layers(&self) -> &[GraphLayer] {
        &self.layers
    }

    /// The sizes of the axes of a sample.
    #[must_use]
    pub fn sample_shape(&self) -> &[usize] {
        &self.sample
    }

    /// The features of a sample.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.sample.iter().product()
    }

    /// The scores of a sample.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.n_outputs
    }

    /// The samples of a run, where the graph fixes them.
    #[must_use]
    pub fn batch(&self) -> Option<usize> {
        self.batch
    }

    /// Checks that all that is between products that run as streams has a form in integers.
    ///
    /// # Errors
    /// [`Error::NoIntegerForm`] with all nodes that have none.
    pub fn check_integers(&self) -> Result<()> {
        integer::check(self)
    }

    /// The classes it tells apart: one per score, or two where there is but one score.
    #[must_use]
    pub fn n_classes(&self) -> usize {
        self.n_outputs.max(2)
    }

    /// With streams that hold numbers in this way, in every product.
    ///
    /// # Errors
    /// [`Error::Layer`] for unipolar streams where a weight is negative.
    pub fn with_polarity(mut self, polarity: Polarity) -> Result<Self> {
        for layer in &mut self.layers {
            if polarity == Polarity::Unipolar
                && let Some((index, &value)) =
                    layer.product.weights.iter().enumerate().find(|(_, w)| **w < 0.0)
            {
                let what = Quantity::Weight;
                let high = layer.weight_scale(index / layer.product.fan_in().max(1));
                let fault =
                    aleatron_core::Error::OutOfRange { what, index, value: value.into(), low: 0.0, high };
                return Err(Error::Layer {
                    layer: layer.node,
                    name: layer.name.clone(),
                    source: Box::new(fault.into()),
                });
            }
            layer.polarity = polarity;
        }
        Ok(self)
    }

    /// With one product as streams or in binary.
    ///
    /// # Errors
    /// [`Error::UnknownLayer`] for a name that no product has.
    pub fn with_mode(mut self, name: &str, mode: Mode) -> Result<Self> {
        match self.layers.iter_mut().find(|layer| layer.name == name) {
            Some(layer) => layer.mode = mode,
            None => return Err(self.unknown(name)),
        }
        Ok(self)
    }

    /// The product of this name.
    ///
    /// # Errors
    /// [`Error::UnknownLayer`] where there is none.
    pub fn layer(&self, name: &str) -> Result<&GraphLayer> {
        self.layers.iter().find(|layer| layer.name == name).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> Error {
        let known = self.layers.iter().map(|layer| layer.name.clone()).collect();
        Error::UnknownLayer { name: name.to_owned(), known }
    }

    /// The scores in floating point, samples one after the other.
    ///
    /// # Errors
    /// [`Error::RaggedSamples`] where `features` are not whole samples, [`Error::Graph`] where a node fails.
    pub fn forward(&self, features: &[f64]) -> Result<Vec<f64>> {
        self.forward_unless(features, Cancel::NEVER)
    }

    /// As [`Self::forward`], unless cancelled on the way.
    ///
    /// # Errors
    /// As [`Self::forward`], and [`aleatron_core::Error::Cancelled`].
    pub fn forward_unless(&self, features: &[f64], cancel: Cancel<'_>) -> Result<Vec<f64>> {
        self.forward_with(&self.runner()?, features, cancel)
    }

    /// As [`Self::forward_unless`], with a runner of this network.
    pub(crate) fn forward_with(
        &self,
        runner: &Runner,
        features: &[f64],
        cancel: Cancel<'_>,
    ) -> Result<Vec<f64>> {
        let mut scores = Vec::new();
        for piece in self.pieces(features, PIECE)? {
            let made = runner.run_with(vec![self.tensor(&piece)?], &mut UnlessCancelled(cancel));
            let made = self.scores(&made.map_err(stream::from_graph)?, piece.n_samples)?;
            scores.extend_from_slice(&made[..piece.n_wanted * self.n_outputs]);
        }
        Ok(scores)
    }

    /// The class of each sample in floating point.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn predict(&self, features: &[f64]) -> Result<Vec<usize>> {
        Ok(self.forward(features)?.chunks_exact(self.n_outputs.max(1)).map(top_class).collect())
    }

    /// Looks at the graph; `length` is that of streams.
    ///
    /// # Errors
    /// [`Error::Graph`] where it cannot run.
    pub fn inspect(&self, length: usize) -> Result<Inspection> {
        let mut found = aleatron_graph::inspect::inspect(&self.graph, length)?;
        for layer in self.layers.iter().filter(|layer| layer.mode == Mode::Binary) {
            found.nodes[layer.node].stream = None;
        }
        Ok(found)
    }

    pub(crate) fn runner(&self) -> Result<Runner> {
        Ok(Runner::new(Arc::clone(&self.graph), &Device::Cpu)?)
    }

    /// Samples as the input of the graph.
    pub(crate) fn tensor(&self, piece: &Piece<'_>) -> Result<Tensor> {
        let values: Vec<f32> = piece.features.iter().map(|&feature| feature as f32).collect();
        let shape = [&[piece.n_samples], self.sample.as_slice()].concat();
        Ok(Tensor::from_slice(&values, &shape, &Device::Cpu).map_err(GraphError::from)?)
    }

    /// So many samples of zeros as the input of the graph.
    pub(crate) fn zeros(&self, n_samples: usize) -> Result<Tensor> {
        let features = vec![0.0; n_samples * self.n_features()].into();
        self.tensor(&Piece { features, n_samples, n_wanted: n_samples })
    }

    /// The scores of `n` samples: the first output, as rows.
    pub(crate) fn scores(&self, outputs: &[Tensor], n: usize) -> Result<Vec<f64>> {
        let fault = |reason: String| {
            Error::from(GraphError::Model { place: format!("graph \"{}\"", self.graph.name()), reason })
        };
        let Some(first) = outputs.first() else { return Err(fault("it has no output".to_owned())) };
        if !first.dtype().is_float() || first.is_empty() || first.len() % n != 0 {
            return Err(fault(format!(
                "scores of samples are needed, not {} {:?}",
                first.dtype(),
                first.shape()
            )));
        }
        let values =
            first.cast(DType::F32).and_then(|scores| scores.to_vec::<f32>()).map_err(GraphError::from)?;
        Ok(values.into_iter().map(f64::from).collect())
    }

    /// Checks that features are whole samples of finite numbers.
    ///
    /// # Errors
    /// [`Error::RaggedSamples`] and [`Error::Feature`].
    pub fn check_samples(&self, features: &[f64]) -> Result<()> {
        let width = self.n_features();
        if !features.len().is_multiple_of(width) {
            return Err(Error::RaggedSamples { values: features.len(), features: width });
        }
        if let Some(index) = features.iter().position(|feature| !feature.is_finite()) {
            let (low, high) = (f64::MIN, f64::MAX);
            return Err(Error::Feature {
                sample: index / width,
                feature: index % width,
                value: features[index],
                low,
                high,
            });
        }
        Ok(())
    }

    /// The samples in pieces of `most`, or of as many as the graph fixes.
    pub(crate) fn pieces<'f>(&self, features: &'f [f64], most: usize) -> Result<Vec<Piece<'f>>> {
        self.check_samples(features)?;
        let width = self.n_features();
        let pieces = features.chunks(self.batch.unwrap_or(most).max(1) * width).map(|piece| {
            let n_wanted = piece.len() / width;
            match self.batch {
                Some(n_samples) if n_wanted < n_samples => {
                    let mut filled = piece.to_vec();
                    filled.resize(n_samples * width, 0.0);
                    Piece { features: filled.into(), n_samples, n_wanted }
                }
                _ => Piece { features: piece.into(), n_samples: n_wanted, n_wanted },
            }
        });
        Ok(pieces.collect())
    }

    /// The product that makes the scores, where there is one that runs as streams.
    #[must_use]
    pub fn score_layer(&self) -> Option<ScoreLayer> {
        let mut value = *self.graph.outputs().first()?;
        let mut is_direct = true;
        // A graph has no cycles: each step is to an earlier node.
        loop {
            let index =
                self.graph.nodes().iter().position(|node| node.outputs.first() == Some(&Some(value)))?;
            if let Some((place, layer)) = self.layer_of(index) {
                let is_scores = layer.mode == Mode::Streams
                    && matches!(layer.product.kind, ProductKind::Dense { n_neurons, .. } if n_neurons == self.n_outputs);
                return is_scores.then_some(ScoreLayer { place, is_direct });
            }
            let node = &self.graph.nodes()[index];
            match node.op {
                Op::Identity | Op::Flatten { .. } | Op::Reshape { .. } | Op::Squeeze { .. } => {}
                Op::Softmax { .. } if self.n_outputs > 1 => is_direct = false,
                _ => return None,
            }
            value = (*node.inputs.first()?)?;
        }
    }

    pub(crate) fn layer_of(&self, node: usize) -> Option<(usize, &GraphLayer)> {
        self.layers.iter().enumerate().find(|(_, layer)| layer.node == node)
    }
}

/// Samples that run together.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) features: Cow<'a, [f64]>,
    pub(crate) n_samples: usize,
    /// How many of them are wanted: where the graph fixes the samples of a run, the last piece is filled up with zeros.
    pub(crate) n_wanted: usize,
}

/// Looks before every node whether the run is cancelled.
struct UnlessCancelled<'a>(Cancel<'a>);

impl Observer for UnlessCancelled<'_> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use aleatron_graph::Value;

    /// Samples of two numbers, of which a run takes some.
    fn network(batch: Dim) -> GraphNetwork {
        let mut graph = Graph::new("same");
        let shape = Some(vec![batch, Dim::Fixed(2)]);
        let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
        let y = graph.add_node("y", Op::Identity, &[x]);
        graph.add_output(y);
        GraphNetwork::new(graph).unwrap()
    }

    /// The last piece is filled up with zeros where a run takes a number of samples; all others are where they were.
    #[test]
    fn pieces_are_copied_where_they_are_filled_up() {
        let features = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        for (batch, last) in
            [(Dim::Fixed(2), &[5.0, 6.0, 0.0, 0.0][..]), (Dim::Named("n".to_owned()), &[5.0, 6.0])]
        {
            let network = network(batch);
            let pieces = network.pieces(&features, 2).unwrap();
            let wanted: Vec<usize> = pieces.iter().map(|piece| piece.n_wanted).collect();
            assert_eq!(
                (wanted, &*pieces[0].features, &*pieces[1].features),
                (vec![2, 1], &features[..4], last)
            );
            assert!(matches!(pieces[0].features, Cow::Borrowed(_)));
            assert_eq!(2 * pieces[1].n_samples, last.len());
        }
    }
}
