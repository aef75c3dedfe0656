//! A graph whose products are streams.

use super::integer::{IntegerGraph, Plan, Step};
use super::watch::{Watch, first_floats};
use super::{GraphLayer, GraphNetwork, Mode, PIECE, Piece, ProductKind, values};
use crate::backend::{CountMethod, Device as DeviceChoice};
use crate::concurrent::in_order;
use crate::network::{Arithmetic, LayerInputs, LayerStats, StreamConfig, top_class};
use crate::{Error, Result, StreamLayer};
use aleatron_core::arithmetic::{Accumulator, Requantizer};
use aleatron_core::generator::{Warning, Width};
use aleatron_core::{Cancel, ConvShape, Convolution, LayerIndex, Polarity, SampleSeed, Topology};
use aleatron_graph::product::ConvSizes;
use aleatron_graph::{Error as GraphError, Node, Observer, Runner};
use aleatron_tensor::{DType, Device, Tensor};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Samples of a piece, where pieces run beside each other: few enough for caches, enough for a device.
const DEVICE_PIECE: usize = 64;

/// Pieces beside each other at most: each has buffers on the device.
const MAX_THREADS: usize = 8;

/// A graph prepared to run as streams. Layers are made when the first sample shows the size of their inputs, and kept.
#[derive(Debug)]
pub struct StreamGraph {
    network: Arc<GraphNetwork>,
    config: StreamConfig,
    runner: Runner,
    /// Where numbers between layers are integers.
    integer: Option<IntegerGraph>,
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

impl StreamGraphOutput {
    fn empty(n_layers: usize) -> Self {
        let statistics = vec![LayerStats::default(); n_layers];
        Self { scores: Vec::new(), statistics, elapsed: Duration::ZERO }
    }
}

/// The integer side of a product: what a circuit has around its counters.
#[derive(Debug, Clone, PartialEq)]
pub struct IntegerProduct {
    /// The width of the comparators of its inputs.
    pub comparator: Width,
    /// From integers to the comparators, one for each unit of the inputs; none where the inputs come from outside.
    pub requantizers: Vec<Requantizer>,
    /// What adds the bias.
    pub accumulator: Accumulator,
    /// What 1 in the accumulator of each row stands for.
    pub units: Vec<f64>,
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

impl GraphNetwork {
    /// Prepares the network to run as streams.
    ///
    /// # Errors
    /// [`Error::UnknownLayer`] for settings of a product that is not there, [`Error::NoIntegerForm`] with all nodes that have no form in integers
    /// where that is asked for.
    pub fn to_streams(&self, config: &StreamConfig) -> Result<StreamGraph> {
        Arc::new(self.clone()).into_streams(config)
    }

    /// As [`Self::to_streams`], sharing the network.
    ///
    /// # Errors
    /// As [`Self::to_streams`].
    pub fn into_streams(self: Arc<Self>, config: &StreamConfig) -> Result<StreamGraph> {
        for name in config.layers.keys() {
            self.layer(name)?;
        }
        let runner = self.runner()?;
        let integer = match config.arithmetic {
            Arithmetic::Float => None,
            Arithmetic::Integer => Some(IntegerGraph::new(&self, config, &runner)?),
        };
        let config = config.clone();
        Ok(StreamGraph { network: self, config, runner, integer, layers: Mutex::default() })
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
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_watched(
        &self,
        features: &[f64],
        first_sample: u32,
        statistics: Statistics,
        watch: &mut Watch,
        cancel: Cancel<'_>,
    ) -> Result<StreamGraphOutput> {
        let n_layers = self.network.layers().len();
        let mut output = StreamGraphOutput::empty(n_layers);
        let start = Instant::now();
        let n_threads = self.n_threads(statistics, watch)?;
        let most = if n_threads > 1 { DEVICE_PIECE } else { PIECE };
        let pieces = self.network.pieces(features, most)?;
        let firsts = pieces.iter().scan(u64::from(first_sample), |next, piece| {
            let first = *next;
            *next += piece.n_wanted as u64;
            Some(first)
        });
        let firsts: Vec<u64> = firsts.collect();
        if n_threads == 1 || pieces.len() < 2 {
            for (piece, first) in pieces.iter().zip(firsts) {
                self.run_piece(piece, first, statistics, watch, &mut output, cancel)?;
            }
            return Ok(output);
        }
        let place = watch.place;
        let made = in_order(pieces.len(), n_threads, cancel, |k, cancel| {
            let mut watch = Watch { place, ..Watch::default() };
            let mut output = StreamGraphOutput::empty(n_layers);
            self.run_piece(&pieces[k], firsts[k], statistics, &mut watch, &mut output, cancel)?;
            Ok((output.scores, watch))
        })?;
        for (scores, piece) in made {
            output.scores.extend(scores);
            if let Some(inputs) = piece.inputs {
                watch.add_inputs(&inputs, inputs.len());
            }
            watch.outputs.extend(piece.outputs);
        }
        // Streams and the rest overlap.
        output.elapsed = start.elapsed();
        Ok(output)
    }

    /// The threads that run pieces beside each other: a device counts for some while others prepare or finish theirs. On the CPU, each
    /// product and each node uses all threads.
    fn n_threads(&self, statistics: Statistics, watch: &Watch) -> Result<usize> {
        match (&self.config.device, statistics, &watch.nodes) {
            (
                DeviceChoice::Gpu(_) | DeviceChoice::Cuda(_) | DeviceChoice::Pool(_),
                Statistics::LeftOut,
                None,
            ) => Ok(aleatron_cpu::get_num_threads()?.min(MAX_THREADS)),
            _ => Ok(1),
        }
    }

    /// Runs one piece, whose first sample is number `first` of all, and adds to what is known.
    fn run_piece(
        &self,
        piece: &Piece<'_>,
        first: u64,
        statistics: Statistics,
        watch: &mut Watch,
        output: &mut StreamGraphOutput,
        cancel: Cancel<'_>,
    ) -> Result<()> {
        if let Some(nodes) = &mut watch.nodes {
            self.runner.run_with(vec![self.network.tensor(piece)?], nodes).map_err(from_graph)?;
        }
        let plan = self.plan(piece.n_samples)?;
        let mut products = Products {
            graph: self,
            plan: plan.as_deref(),
            first_sample: first,
            n_samples: piece.n_samples,
            n_wanted: piece.n_wanted,
            watch,
            statistics,
            cancel,
            found: std::mem::take(&mut output.statistics),
            elapsed: Duration::ZERO,
        };
        let made = self.runner.run_with(vec![self.network.tensor(piece)?], &mut products);
        output.statistics = std::mem::take(&mut products.found);
        output.elapsed += products.elapsed;
        let scores = self.scores(&made.map_err(from_graph)?, piece.n_samples, plan.as_deref())?;
        output.scores.extend_from_slice(&scores[..piece.n_wanted * self.network.n_outputs()]);
        Ok(())
    }

    /// The plan of the integer side for a number of samples.
    fn plan(&self, n_samples: usize) -> Result<Option<Arc<Plan>>> {
        let plan =
            |integer: &IntegerGraph| integer.plan(&self.network, &self.config, &self.runner, n_samples);
        self.integer.as_ref().map(plan).transpose()
    }

    fn scores(&self, outputs: &[Tensor], n: usize, plan: Option<&Plan>) -> Result<Vec<f64>> {
        let output = self.network.graph().outputs().first().copied();
        match (plan.and_then(|plan| Some((plan, plan.held(output?)?))), outputs.first()) {
            (Some((plan, held)), Some(first)) => plan.decode(held, first),
            _ => self.network.scores(outputs, n),
        }
    }

    /// The integer side of each product that runs as streams, with its name; none in floating point.
    ///
    /// # Errors
    /// As [`GraphNetwork::to_streams`].
    pub fn integer_layers(&self) -> Result<Vec<(String, IntegerProduct)>> {
        let Some(plan) = self.plan(self.network.batch().unwrap_or(1))? else { return Ok(Vec::new()) };
        let name = |place: usize| self.network.layers().get(place).map_or("", |layer| &layer.name);
        let layers = plan.streams().map(|step| {
            let mut requantizers: Vec<Requantizer> =
                step.requantizers.iter().flat_map(|all| all.values().copied()).collect();
            requantizers.sort_by_key(|r| (r.shift(), r.multiplier()));
            let product = IntegerProduct {
                comparator: step.comparator,
                requantizers,
                accumulator: step.accumulator.clone(),
                units: step.units.clone(),
            };
            (name(step.place).to_owned(), product)
        });
        Ok(layers.collect())
    }

    /// What adds the biases of a product's rows, and what 1 stands for in each; `None` in floating point.
    ///
    /// # Errors
    /// As [`GraphNetwork::to_streams`].
    pub fn integers(&self, place: usize) -> Result<Option<(Accumulator, Vec<f64>)>> {
        let plan = self.plan(self.network.batch().unwrap_or(1))?;
        let step = plan.as_ref().and_then(|plan| plan.stream(place));
        Ok(step.map(|step| (step.accumulator.clone(), step.units.clone())))
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

    /// How the layers made so far run, where not as asked.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        layers.values().flat_map(|layer| layer.notes()).collect()
    }

    /// The layer of a product that has run, with streams of the first `length` bits.
    ///
    /// # Errors
    /// [`Error::NotRun`] where the product has not run yet, and what [`crate::LayerBuilder::build`] says.
    pub fn part(&self, place: usize, length: usize) -> Result<StreamLayer> {
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
    ///
    /// # Errors
    /// [`Error::NotRun`] where the product has not run yet.
    pub fn made_layer(&self, place: usize) -> Result<Arc<StreamLayer>> {
        let layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        layers.get(&place).cloned().ok_or(Error::NotRun { place })
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
            .max_batch(DEVICE_PIECE)
            .build_unless(cancel)?;
        let built = Arc::new(built);
        layers.insert(place, Arc::clone(&built));
        Ok(built)
    }
}

/// Runs products as streams.
struct Products<'a> {
    graph: &'a StreamGraph,
    /// Where numbers between layers are integers.
    plan: Option<&'a Plan>,
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
        let own = |error| GraphError::Other(Box::new(error));
        let network = Arc::clone(&self.graph.network);
        match (network.layer_of(index), inputs.first()) {
            (Some((place, layer)), Some(Some(input))) if layer.mode == Mode::Streams => {
                Ok(Some(vec![self.product(index, place, layer, node, input).map_err(own)?]))
            }
            _ => match self.plan {
                Some(plan) => plan.compute(&self.graph.runner, index, node, inputs).map_err(own),
                None => Ok(None),
            },
        }
    }

    fn made(&mut self, index: usize, node: &Node, outputs: &[Tensor]) -> aleatron_graph::Result<()> {
        let Some(nodes) = &mut self.watch.nodes else { return Ok(()) };
        let integers = node.outputs.first().copied().flatten();
        let integers = self.plan.and_then(|plan| Some((plan, plan.held(integers?)?)));
        let values = match (integers, outputs.first()) {
            (Some((plan, held)), Some(first)) => {
                let decoded = plan.decode(held, first).map_err(|error| GraphError::Other(Box::new(error)))?;
                decoded.into_iter().map(|value| value as f32).collect()
            }
            _ => first_floats(outputs)?,
        };
        nodes.compare(index, &values);
        Ok(())
    }
}

impl Products<'_> {
    fn product(
        &mut self,
        index: usize,
        place: usize,
        layer: &GraphLayer,
        node: &Node,
        input: &Tensor,
    ) -> Result<Tensor> {
        let in_layer = |source: Error| match source {
            error @ Error::Core(aleatron_core::Error::Cancelled) => error,
            error => Error::Layer { layer: place, name: layer.name.clone(), source: Box::new(error) },
        };
        let (topology, shape, rows_of_sample) = topology(layer, input.shape()).map_err(in_layer)?;
        let positions = match &topology {
            Topology::Conv(conv) => conv.n_positions(),
            _ => 1,
        };
        let integer = self.plan.and_then(|plan| match plan.steps.get(index) {
            Some(Step::Stream(step)) => Some((plan, &**step)),
            _ => None,
        });
        let floats = match integer {
            Some(_) => None,
            None => {
                let values = input_floats(input).and_then(|values| values::encoded(&values, layer));
                Some(values.map_err(in_layer)?)
            }
        };
        let start = Instant::now();
        let stream = self.graph.layer(place, layer, topology, self.cancel).map_err(in_layer)?;
        let (encoded, saturated) = match (integer, floats) {
            (Some((plan, step)), _) => {
                let id = node.inputs.first().copied().flatten();
                plan.thresholds(step, layer, stream.spec(), id, input).map_err(in_layer)?
            }
            (None, floats) => {
                let (values, saturated) = floats.unwrap_or_default();
                (LayerInputs::Values(values), saturated)
            }
        };
        // A sample that meets the weights several times has a row for each.
        let rows = rows_of_sample / self.n_samples.max(1);
        let first = self.first_sample * rows.max(1) as u64;
        let first = u32::try_from(first).map_err(|_| {
            let what = aleatron_core::Quantity::Row;
            let fault = aleatron_core::Error::TooLarge { what, actual: first.into(), limit: u32::MAX.into() };
            in_layer(fault.into())
        })?;
        let seed = SampleSeed::new(self.graph.config.seed).starting_at(first);
        let counts = stream.count(&encoded.batch(seed), self.cancel).map_err(in_layer)?;
        let wants_floats = integer.is_none() || self.statistics == Statistics::Found;
        let outputs: Vec<f32> = match wants_floats {
            true => values::outputs(&counts, stream.spec(), layer, positions)?,
            false => Vec::new(),
        };
        let held = match integer {
            Some((_, step)) => {
                let held = step.accumulator.values(stream.spec(), &counts);
                Some((held.map_err(|error| in_layer(error.into()))?, step))
            }
            None => None,
        };
        self.elapsed += start.elapsed();
        if self.watch.place == Some(place) {
            let kept = |len: usize| len / self.n_samples.max(1) * self.n_wanted;
            self.watch.add_inputs(&encoded, kept(encoded.len()));
            let row = |k: usize| k / positions % layer.product.n_rows();
            let watched = &mut self.watch.outputs;
            match &held {
                Some((held, step)) => watched.extend(
                    held[..kept(held.len())].iter().enumerate().map(|(k, &v)| v as f64 * step.units[row(k)]),
                ),
                None => watched.extend(outputs[..kept(outputs.len())].iter().map(|&v| f64::from(v))),
            }
        }
        if self.statistics == Statistics::Found {
            let values = encoded.values(stream.spec());
            self.judge(place, layer, node, input.shape(), &values, &outputs, positions, saturated)?;
        }
        let made = match held {
            Some((held, _)) => Tensor::from_slice(&held, &shape, &Device::Cpu),
            None => Tensor::from_slice(&outputs, &shape, &Device::Cpu),
        };
        Ok(made.map_err(GraphError::from)?)
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

/// The inputs of a product as numbers.
pub(super) fn input_floats(input: &Tensor) -> Result<Vec<f32>> {
    Ok(input.cast(DType::F32).and_then(|x| x.to_vec::<f32>()).map_err(GraphError::from)?)
}

/// The topology of a product over an input, the shape of its output, and the rows of inputs that meet its weights.
pub(crate) fn topology(layer: &GraphLayer, input: &[usize]) -> Result<(Topology, Vec<usize>, usize)> {
    let fault =
        || GraphError::Input { input: 0, reason: format!("shape {input:?} does not go with the weights") };
    match &layer.product.kind {
        ProductKind::Dense { n_inputs, n_neurons } => {
            let (n_inputs, n_neurons) = (*n_inputs, *n_neurons);
            let Some((_, lead)) = input.split_last().filter(|(last, _)| **last == n_inputs) else {
                return Err(fault().into());
            };
            let n_samples =
                lead.iter().try_fold(1_usize, |n, &size| n.checked_mul(size)).ok_or_else(fault)?;
            let shape = [lead, &[n_neurons]].concat();
            Ok((Topology::Dense { n_inputs, n_neurons }, shape, n_samples))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::graph::NodeErrors;
    use aleatron_graph::op::{Op, Padding, Window};
    use aleatron_graph::{Dim, Graph, Value};

    /// A convolution of `groups` over samples of a shape.
    fn conv(sample: &[usize], kernel: &[usize], window: [&[i64]; 3], groups: i64) -> GraphLayer {
        let mut graph = Graph::new("conv");
        let sizes = sample.iter().copied().map(Dim::Fixed);
        let shape = Some([Dim::Named("n".to_owned())].into_iter().chain(sizes).collect());
        let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
        let weights = vec![0.5_f32; kernel.iter().product()];
        let weights = graph.add_constant("k", Tensor::from_slice(&weights, kernel, &Device::Cpu).unwrap());
        let [strides, dilations, pads] = window.map(<[i64]>::to_vec);
        let window = Window { kernel: Vec::new(), strides, dilations, padding: Padding::Explicit(pads) };
        let y = graph.add_node("conv", Op::Conv { window, groups }, &[x, weights]);
        graph.add_output(y);
        GraphNetwork::new(graph).unwrap().layers()[0].clone()
    }

    #[test]
    fn a_sequence_is_an_image_of_one_row() {
        let layer = conv(&[4, 9], &[6, 2, 3], [&[2], &[2], &[1, 3]], 2);
        let (topology, shape, rows) = topology(&layer, &[5, 4, 9]).unwrap();
        // 1 + 9 + 3 places for windows of 5, at every second of them.
        assert_eq!((shape.as_slice(), rows), (&[5, 6, 5][..], 5));
        let expected = Convolution::conv2d([4, 1, 9], 6, [1, 3])
            .with_stride([1, 2])
            .with_dilation([1, 2])
            .with_paddings([[0, 0], [1, 3]])
            .with_groups(2);
        assert_eq!(topology, Topology::Conv(ConvShape::new(expected).unwrap()));
    }

    #[test]
    fn inputs_of_other_shapes_are_refused() {
        let layer = conv(&[4, 9, 8], &[6, 2, 3, 2], [&[1, 2], &[1, 1], &[0, 1, 2, 3]], 2);
        let (topology_of, shape, _) = topology(&layer, &[5, 4, 9, 8]).unwrap();
        // 9 + 2 rows for windows of 3, and 1 + 8 + 3 columns for windows of 2, at every second.
        assert_eq!(shape, [5, 6, 9, 6]);
        let expected = Convolution::conv2d([4, 9, 8], 6, [3, 2])
            .with_stride([1, 2])
            .with_paddings([[0, 2], [1, 3]])
            .with_groups(2);
        assert_eq!(topology_of, Topology::Conv(ConvShape::new(expected).unwrap()));
        for other in [&[5, 4, 9][..], &[5, 4, 9, 8, 1], &[5, 2, 9, 8], &[5, 8, 9, 8], &[5]] {
            assert!(topology(&layer, other).is_err(), "{other:?}");
        }
    }

    /// A product of three inputs on a device.
    fn dense(device: DeviceChoice) -> StreamGraph {
        let mut graph = Graph::new("dense");
        let shape = Some(vec![Dim::Named("n".to_owned()), Dim::Fixed(3)]);
        let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
        let weights = Tensor::from_slice(&[0.5_f32; 6], &[3, 2], &Device::Cpu).unwrap();
        let weights = graph.add_constant("w", weights);
        let y = graph.add_node("product", Op::MatMul, &[x, weights]);
        graph.add_output(y);
        let network = GraphNetwork::new(graph).unwrap();
        network.to_streams(&StreamConfig { device, ..StreamConfig::new(64) }).unwrap()
    }

    #[test]
    fn layers_are_kept_for_inputs_of_their_shape() {
        let graph = dense(DeviceChoice::Cpu);
        graph.forward(&[0.5; 3], 0).unwrap();
        let first = graph.made_layer(0).unwrap();
        graph.forward(&[0.5; 6], 0).unwrap();
        assert!(Arc::ptr_eq(&first, &graph.made_layer(0).unwrap()));
        let other = Topology::Dense { n_inputs: 6, n_neurons: 1 };
        let layer = &graph.network.layers()[0];
        let made = graph.layer(0, layer, other.clone(), Cancel::NEVER).unwrap();
        assert_eq!(*made.spec().topology(), other);
    }

    /// Beside a device that counts, several threads have something to do, unless everything is looked at on the way.
    #[test]
    fn devices_have_several_pieces_at_a_time() {
        let most = aleatron_cpu::get_num_threads().unwrap().min(MAX_THREADS);
        let pool = DeviceChoice::Pool(vec![DeviceChoice::Cpu; 2]);
        let nodes = Watch { nodes: Some(NodeErrors::default()), ..Watch::default() };
        for (device, statistics, watch, expected) in [
            (pool.clone(), Statistics::LeftOut, &Watch::default(), most),
            (DeviceChoice::Gpu(None), Statistics::LeftOut, &Watch::default(), most),
            (pool.clone(), Statistics::Found, &Watch::default(), 1),
            (pool, Statistics::LeftOut, &nodes, 1),
            (DeviceChoice::Cpu, Statistics::LeftOut, &Watch::default(), 1),
        ] {
            assert_eq!(dense(device).n_threads(statistics, watch).unwrap(), expected);
        }
    }

    #[test]
    fn notes_are_those_of_the_layers() {
        use crate::backend::fake::{FakeBackend, FakeLayer};
        let graph = dense(DeviceChoice::Cpu);
        assert!(graph.notes().is_empty());
        let backend = FakeBackend::new([FakeLayer::new("moved", Ok(Vec::new()))]);
        graph.layers.lock().unwrap().insert(0, Arc::new(StreamLayer::of_backend(backend).unwrap()));
        assert_eq!(graph.notes(), ["moved"]);
    }

    /// What is kept of a product in integers are its numbers, each in the unit of its row, at every position.
    #[test]
    fn kept_outputs_are_in_the_units_of_their_rows() {
        let mut graph = Graph::new("conv");
        let sizes = [1, 3, 4].map(Dim::Fixed);
        let shape = Some([Dim::Named("n".to_owned())].into_iter().chain(sizes).collect());
        let x = graph.add_input(Value { name: "x".to_owned(), dtype: Some(DType::F32), shape });
        // The scale of each row is its largest weight.
        let weights = [0.5_f32, -0.25, 1.0, 0.75, 0.125, 0.1];
        let weights = Tensor::from_slice(&weights, &[3, 1, 1, 2], &Device::Cpu).unwrap();
        let weights = graph.add_constant("k", weights);
        let window = Window {
            kernel: Vec::new(),
            strides: Vec::new(),
            dilations: Vec::new(),
            padding: Padding::Explicit(Vec::new()),
        };
        let y = graph.add_node("conv", Op::Conv { window, groups: 1 }, &[x, weights]);
        graph.add_output(y);
        let network = GraphNetwork::new(graph).unwrap();
        let config = StreamConfig { arithmetic: Arithmetic::Integer, ..StreamConfig::new(64) };
        let streams = network.to_streams(&config).unwrap();
        let features: Vec<f64> = (0..24).map(|k| f64::from(k) / 24.0).collect();
        let mut watch = Watch { place: Some(0), ..Watch::default() };
        let made = streams.run_watched(&features, 0, Statistics::LeftOut, &mut watch, Cancel::NEVER).unwrap();
        assert_eq!(made.scores.len(), 2 * 3 * 9);
        assert_eq!(watch.outputs, made.scores);
    }
}
