//! A graph whose products are streams.

use super::{GraphLayer, GraphNetwork, Mode, ProductKind};
use crate::backend::{Batch, CountMethod};
use crate::network::{LayerStats, StreamConfig, top_class};
use crate::{Error, Result, SampleSeed, StreamLayer};
use aleatron_core::arithmetic::saturate;
use aleatron_core::generator::Warning;
use aleatron_core::{Cancel, ConvShape, Convolution, LayerIndex, Polarity, Topology};
use aleatron_graph::product::ConvSizes;
use aleatron_graph::{Error as GraphError, Node, Observer, Runner};
use aleatron_tensor::{DType, Device, Tensor};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A graph prepared to run as streams. Layers are made when the first sample shows the size of their inputs, and kept.
#[derive(Debug)]
pub struct StreamGraph {
    network: Arc<GraphNetwork>,
    config: StreamConfig,
    runner: Runner,
    layers: Mutex<HashMap<usize, Arc<StreamLayer>>>,
}

/// What a graph made of some samples.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamGraphOutput {
    /// The scores, samples one after the other.
    pub scores: Vec<f64>,
    /// The errors of each product's counts, where asked for; without counts for those in binary.
    pub statistics: Vec<LayerStats>,
    /// The time the streams took.
    pub elapsed: Duration,
}

/// Whether errors of counts are found, which takes as long as the network in floating point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Statistics {
    /// They are.
    Found,
    /// They are not.
    #[default]
    LeftOut,
}

/// What is kept of a run for those who judge it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The product, by its place, whose inputs and outputs are kept.
    pub(crate) place: Option<usize>,
    /// Its inputs as they were encoded, samples one after the other.
    pub(crate) inputs: Vec<f64>,
    /// Its outputs.
    pub(crate) outputs: Vec<f64>,
    /// How far nodes are from floating point, where that is asked for.
    pub(crate) nodes: Option<NodeErrors>,
}

/// How far what nodes make is from what they make in floating point.
#[derive(Debug, Default)]
pub(crate) struct NodeErrors {
    /// What each node makes of the same samples in floating point.
    float: Vec<Vec<f32>>,
    /// The squares of differences, and of the values of floating point, of each node.
    pub(crate) squares: Vec<[f64; 2]>,
}

impl Observer for NodeErrors {
    fn made(&mut self, index: usize, _: &Node, outputs: &[Tensor]) -> aleatron_graph::Result<()> {
        let values = first_floats(outputs)?;
        self.float.resize_with(self.float.len().max(index + 1), Vec::new);
        self.float[index] = values;
        Ok(())
    }
}

impl NodeErrors {
    fn compare(&mut self, index: usize, outputs: &[Tensor]) -> aleatron_graph::Result<()> {
        self.squares.resize(self.squares.len().max(index + 1), [0.0; 2]);
        let (Some(float), sums) = (self.float.get(index), &mut self.squares[index]) else { return Ok(()) };
        for (&value, &exact) in first_floats(outputs)?.iter().zip(float) {
            sums[0] += (f64::from(value) - f64::from(exact)).powi(2);
            sums[1] += f64::from(exact).powi(2);
        }
        Ok(())
    }
}

/// The numbers of the first output of a node, where they are floats.
fn first_floats(outputs: &[Tensor]) -> aleatron_graph::Result<Vec<f32>> {
    match outputs.first().filter(|first| first.dtype().is_float()) {
        Some(first) => Ok(first.cast(DType::F32)?.to_vec::<f32>()?),
        None => Ok(Vec::new()),
    }
}

impl GraphNetwork {
    /// Prepares the network to run as streams.
    ///
    /// # Errors
    /// [`Error::UnknownLayer`] for settings of a product that is not there.
    pub fn to_streams(&self, config: &StreamConfig) -> Result<StreamGraph> {
        Arc::new(self.clone()).into_streams(config)
    }

    /// As [`Self::to_streams`], sharing the network.
    ///
    /// # Errors
    /// As [`Self::to_streams`].
    pub fn into_streams(self: Arc<Self>, config: &StreamConfig) -> Result<StreamGraph> {
        for name in config.layers.keys() {
            if !self.layers().iter().any(|layer| layer.name == *name) {
                return Err(self.unknown(name));
            }
        }
        let runner = self.runner()?;
        Ok(StreamGraph { network: self, config: config.clone(), runner, layers: Mutex::default() })
    }
}

impl StreamGraph {
    /// The network.
    #[must_use]
    pub fn network(&self) -> &GraphNetwork {
        &self.network
    }

    /// The scores of samples, the first of which is number `first_sample` of all.
    ///
    /// # Errors
    /// As [`GraphNetwork::forward`], and [`Error::Layer`] where a product fails.
    pub fn forward(&self, features: &[f64], first_sample: u32) -> Result<Vec<f64>> {
        Ok(self.run(features, first_sample, Statistics::LeftOut, Cancel::NEVER)?.scores)
    }

    /// The class of each sample.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn predict(&self, features: &[f64], first_sample: u32) -> Result<Vec<usize>> {
        let scores = self.forward(features, first_sample)?;
        Ok(scores.chunks_exact(self.network.n_outputs().max(1)).map(top_class).collect())
    }

    /// The scores of samples and what else is asked for, unless cancelled on the way.
    ///
    /// # Errors
    /// As [`Self::forward`], and [`aleatron_core::Error::Cancelled`].
    pub fn run(
        &self,
        features: &[f64],
        first_sample: u32,
        statistics: Statistics,
        cancel: Cancel<'_>,
    ) -> Result<StreamGraphOutput> {
        self.run_watched(features, first_sample, statistics, &mut Watch::default(), cancel)
    }

    /// As [`Self::run`], with more for those who judge it.
    pub(crate) fn run_watched(
        &self,
        features: &[f64],
        first_sample: u32,
        statistics: Statistics,
        watch: &mut Watch,
        cancel: Cancel<'_>,
    ) -> Result<StreamGraphOutput> {
        let mut output = StreamGraphOutput {
            scores: Vec::new(),
            statistics: vec![LayerStats::default(); self.network.layers().len()],
            elapsed: Duration::ZERO,
        };
        let mut first = u64::from(first_sample);
        self.network.each_piece(features, |piece, n, wanted| {
            if let Some(nodes) = &mut watch.nodes {
                self.runner.run_with(vec![self.network.tensor(piece, n)?], nodes).map_err(from_graph)?;
            }
            let mut products = Products {
                graph: self,
                first_sample: first,
                n_samples: n,
                n_wanted: wanted,
                watch: &mut *watch,
                statistics,
                cancel,
                found: std::mem::take(&mut output.statistics),
                elapsed: Duration::ZERO,
            };
            let made = self.runner.run_with(vec![self.network.tensor(piece, n)?], &mut products);
            output.statistics = std::mem::take(&mut products.found);
            output.elapsed += products.elapsed;
            let scores = self.network.scores(&made.map_err(from_graph)?, n)?;
            output.scores.extend_from_slice(&scores[..wanted * self.network.n_outputs()]);
            first += wanted as u64;
            Ok(())
        })?;
        Ok(output)
    }

    /// What is wrong with the generators of the layers made so far, if anything is known to be, each once.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut warnings = Vec::new();
        for warning in layers.values().flat_map(|layer| layer.warnings()) {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
        warnings
    }

    /// The layer of a product that has run, and the same with streams of the first `length` bits.
    pub(crate) fn part(&self, place: usize, length: usize) -> Result<StreamLayer> {
        let full = self.made_layer(place)?;
        let spec = full.spec();
        // A table takes longer to make than the few bits of a last layer.
        StreamLayer::of(spec.topology().clone())
            .polarity(spec.polarity())
            .length(length)
            .encoding(*spec.encoding())
            .at(spec.index())
            .weights(full.weights())
            .method(CountMethod::Bits)
            .build()
    }

    /// The layer of a product that has run.
    pub(crate) fn made_layer(&self, place: usize) -> Result<Arc<StreamLayer>> {
        let layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        layers.get(&place).cloned().ok_or(Error::NoLayers)
    }

    /// The layer of a product for inputs of a shape.
    fn layer(
        &self,
        place: usize,
        layer: &GraphLayer,
        topology: Topology,
        cancel: Cancel<'_>,
    ) -> Result<Arc<StreamLayer>> {
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = layers.get(&place).filter(|kept| *kept.spec().topology() == topology) {
            return Ok(Arc::clone(kept));
        }
        let settings = self.config.settings_of(&layer.name);
        let fan_in = layer.product.fan_in().max(1);
        let weights = layer.product.weights.iter().enumerate();
        let weights: Vec<f64> =
            weights.map(|(k, &w)| (f64::from(w) / layer.weight_scale(k / fan_in)).clamp(-1.0, 1.0)).collect();
        let built = StreamLayer::of(topology)
            .length(settings.length)
            .polarity(layer.polarity)
            .seed(self.config.seed)
            .generator(settings.generator)
            .width(settings.width)
            .sharing(settings.sharing)
            .at(LayerIndex::new(place)?)
            .weights(&weights)
            .device(self.config.device.clone())
            .build_unless(cancel)?;
        let built = Arc::new(built);
        layers.insert(place, Arc::clone(&built));
        Ok(built)
    }
}

/// Runs products as streams.
struct Products<'a> {
    graph: &'a StreamGraph,
    first_sample: u64,
    n_samples: usize,
    /// The samples that were asked for: the others fill up a run of a fixed size.
    n_wanted: usize,
    watch: &'a mut Watch,
    statistics: Statistics,
    cancel: Cancel<'a>,
    found: Vec<LayerStats>,
    elapsed: Duration,
}

impl Observer for Products<'_> {
    fn compute(
        &mut self,
        index: usize,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> aleatron_graph::Result<Option<Vec<Tensor>>> {
        self.cancel.check()?;
        let network = Arc::clone(&self.graph.network);
        let Some((place, layer)) = network.layer_of(index) else { return Ok(None) };
        let (Mode::Streams, Some(Some(input))) = (layer.mode, inputs.first()) else { return Ok(None) };
        let made =
            self.product(place, layer, node, input).map_err(|error| GraphError::Other(Box::new(error)))?;
        Ok(Some(vec![made]))
    }

    fn made(&mut self, index: usize, _: &Node, outputs: &[Tensor]) -> aleatron_graph::Result<()> {
        match &mut self.watch.nodes {
            Some(nodes) => nodes.compare(index, outputs),
            None => Ok(()),
        }
    }
}

impl Products<'_> {
    fn product(&mut self, place: usize, layer: &GraphLayer, node: &Node, input: &Tensor) -> Result<Tensor> {
        let in_layer = |source: Error| match source {
            error @ Error::Core(aleatron_core::Error::Cancelled) => error,
            error => Error::Layer { layer: place, name: layer.name.clone(), source: Box::new(error) },
        };
        let (topology, shape, rows_of_sample) = topology(layer, input.shape()).map_err(in_layer)?;
        let positions = match &topology {
            Topology::Conv(conv) => conv.n_positions(),
            _ => 1,
        };
        let values = input.cast(DType::F32).and_then(|x| x.to_vec::<f32>()).map_err(GraphError::from)?;
        let mut values: Vec<f64> = values.into_iter().map(f64::from).collect();
        if let Some(index) = values.iter().position(|value| value.is_nan()) {
            let [low, high] = layer.polarity.interval();
            let what = aleatron_core::Quantity::Value;
            let fault = aleatron_core::Error::OutOfRange { what, index, value: values[index], low, high };
            return Err(in_layer(fault.into()));
        }
        let saturated = saturate(&mut values, layer.input_scale, layer.polarity);
        let start = Instant::now();
        let stream = self.graph.layer(place, layer, topology, self.cancel).map_err(in_layer)?;
        // A sample that meets the weights several times has a row for each.
        let rows = rows_of_sample / self.n_samples.max(1);
        let first = self.first_sample * rows.max(1) as u64;
        let first = u32::try_from(first).map_err(|_| {
            let what = aleatron_core::Quantity::Row;
            let fault = aleatron_core::Error::TooLarge { what, actual: first.into(), limit: u32::MAX.into() };
            in_layer(fault.into())
        })?;
        let seed = SampleSeed::new(self.graph.config.seed).starting_at(first);
        let counts = stream.count(&Batch::values(&values, seed), self.cancel).map_err(in_layer)?;
        let sums = stream.decode(&counts);
        let n_rows = layer.product.n_rows();
        let outputs: Vec<f32> =
            sums.iter().enumerate().map(|(k, &sum)| layer.output(k / positions % n_rows, sum)).collect();
        self.elapsed += start.elapsed();
        if self.watch.place == Some(place) {
            let kept = |len: usize| len / self.n_samples.max(1) * self.n_wanted;
            self.watch.inputs.extend_from_slice(&values[..kept(values.len())]);
            self.watch.outputs.extend(outputs[..kept(outputs.len())].iter().map(|&output| f64::from(output)));
        }
        let made = Tensor::from_slice(&outputs, &shape, &Device::Cpu).map_err(GraphError::from)?;
        if self.statistics == Statistics::Found {
            self.judge(place, layer, node, input.shape(), &values, &outputs, positions, saturated)?;
        }
        Ok(made)
    }

    /// Compares the outputs of a product with those of exact products of the same encoded inputs.
    #[expect(clippy::too_many_arguments, reason = "all of them belong to one product")]
    fn judge(
        &mut self,
        place: usize,
        layer: &GraphLayer,
        node: &Node,
        shape: &[usize],
        encoded: &[f64],
        outputs: &[f32],
        positions: usize,
        saturated: u64,
    ) -> Result<()> {
        let inputs: Vec<f32> = encoded.iter().map(|value| (value * layer.input_scale) as f32).collect();
        let input = Tensor::from_slice(&inputs, shape, &Device::Cpu).map_err(GraphError::from)?;
        let exact = self.graph.runner.compute_node(node, input)?;
        let exact = exact.cast(DType::F32).and_then(|x| x.to_vec::<f32>()).map_err(GraphError::from)?;
        let n_rows = layer.product.n_rows();
        let length = self.graph.config.settings_of(&layer.name).length as f64;
        let per_value = if layer.polarity == Polarity::Bipolar { length / 2.0 } else { length };
        let stats = &mut self.found[place];
        let mut sum = stats.mean_value * stats.counts as f64;
        for (k, (output, exact)) in outputs.iter().zip(&exact).enumerate() {
            let scale = layer.input_scale * layer.weight_scale(k / positions % n_rows);
            let error = (f64::from(*output) - f64::from(*exact)).abs() / scale;
            sum += error;
            stats.worst_value = stats.worst_value.max(error);
        }
        stats.counts += outputs.len() as u64;
        stats.mean_value = if stats.counts == 0 { 0.0 } else { sum / stats.counts as f64 };
        stats.mean_count = stats.mean_value * per_value;
        stats.worst_count = stats.worst_value * per_value;
        stats.saturated += saturated;
        Ok(())
    }
}

/// The topology of a product over an input, the shape of its output, and the rows of inputs that meet its weights.
fn topology(layer: &GraphLayer, input: &[usize]) -> Result<(Topology, Vec<usize>, usize)> {
    let fault =
        || GraphError::Input { input: 0, reason: format!("shape {input:?} does not go with the weights") };
    match &layer.product.kind {
        ProductKind::Dense { n_inputs, n_neurons } => {
            let (n_inputs, n_neurons) = (*n_inputs, *n_neurons);
            let Some((last, lead)) = input.split_last().filter(|(last, _)| **last == n_inputs) else {
                return Err(fault().into());
            };
            let _ = last;
            let shape = [lead, &[n_neurons]].concat();
            Ok((Topology::Dense { n_inputs, n_neurons }, shape, lead.iter().product()))
        }
        ProductKind::Conv { kernel, n_channels, groups, window } => {
            let [batch, channels, axes @ ..] = input else { return Err(fault().into()) };
            let [group_channels, sizes @ ..] = kernel.as_slice() else { return Err(fault().into()) };
            if axes.len() != sizes.len() || group_channels * groups != *channels {
                return Err(fault().into());
            }
            let found = ConvSizes::new(window, axes, sizes)?;
            // A sequence is an image of one row.
            let two = |values: &[usize], fill: usize| match values {
                [rows, columns] => [*rows, *columns],
                [columns] => [fill, *columns],
                _ => [fill; 2],
            };
            let padding = match found.padding.as_slice() {
                [rows, columns] => [*rows, *columns],
                [columns] => [[0, 0], *columns],
                _ => [[0, 0]; 2],
            };
            let [rows, columns] = two(axes, 1);
            let convolution = Convolution::conv2d([*channels, rows, columns], *n_channels, two(sizes, 1))
                .with_stride(two(&found.strides, 1))
                .with_paddings(padding)
                .with_dilation(two(&found.dilations, 1))
                .with_groups(*groups);
            let shape = [&[*batch, *n_channels], found.output.as_slice()].concat();
            Ok((Topology::Conv(ConvShape::new(convolution)?), shape, *batch))
        }
    }
}

/// The error of a run, without the graph around an error of our own.
pub(super) fn from_graph(error: GraphError) -> Error {
    match error {
        GraphError::Node { source, index, name, operator } => match *source {
            GraphError::Other(other) => match other.downcast::<Error>() {
                Ok(own) => *own,
                Err(other) => GraphError::Other(other).into(),
            },
            GraphError::Core(core) => core.into(),
            source => GraphError::Node { source: Box::new(source), index, name, operator }.into(),
        },
        error => error.into(),
    }
}
