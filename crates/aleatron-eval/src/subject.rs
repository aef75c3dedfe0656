//! What is judged: a chain of layers, or a graph.

use super::assembly::share_of;
use super::job::{check_samples, from_sample};
use super::outline::{PIECE, fingerprint, summarize_network};
use super::plan::Plan;
use super::result::NetworkSummary;
use crate::{Error, Result};
use aleatron_core::generator::GeneratorName;
use aleatron_core::{Cancel, Quantity, memory};
use aleatron_data::Dataset;
#[cfg(feature = "graph")]
use aleatron_engine::graph::{GraphNetwork, Mode, Statistics, StreamGraph};
use aleatron_engine::network::{
    Detail, LayerSettings, LayerStats, Network, StreamConfig, StreamNetwork, top_class,
};
use std::sync::Arc;

/// What looking a product up in a table takes at most, in bits counted in the same time.
const TABLE_COST: usize = 256;

/// What is judged. References to networks become one.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A chain of layers.
    Layers(Arc<Network>),
    /// A graph.
    #[cfg(feature = "graph")]
    Graph(Arc<GraphNetwork>),
}

impl From<&Network> for Subject {
    fn from(network: &Network) -> Self {
        Self::Layers(Arc::new(network.clone()))
    }
}

impl From<Arc<Network>> for Subject {
    fn from(network: Arc<Network>) -> Self {
        Self::Layers(network)
    }
}

#[cfg(feature = "graph")]
impl From<&GraphNetwork> for Subject {
    fn from(network: &GraphNetwork) -> Self {
        Self::Graph(Arc::new(network.clone()))
    }
}

#[cfg(feature = "graph")]
impl From<Arc<GraphNetwork>> for Subject {
    fn from(network: Arc<GraphNetwork>) -> Self {
        Self::Graph(network)
    }
}

impl From<&Self> for Subject {
    fn from(subject: &Self) -> Self {
        subject.clone()
    }
}

/// A layer that runs as streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StreamedLayer {
    pub(super) name: String,
    /// The products of a sample.
    pub(super) products: u64,
}

impl Subject {
    /// The name of the network.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Layers(network) => network.name(),
            #[cfg(feature = "graph")]
            Self::Graph(network) => network.name(),
        }
    }

    /// The features of a sample.
    #[must_use]
    pub fn n_features(&self) -> usize {
        match self {
            Self::Layers(network) => network.n_features(),
            #[cfg(feature = "graph")]
            Self::Graph(network) => network.n_features(),
        }
    }

    /// The outputs for a sample.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        match self {
            Self::Layers(network) => network.n_outputs(),
            #[cfg(feature = "graph")]
            Self::Graph(network) => network.n_outputs(),
        }
    }

    pub(super) fn n_classes(&self) -> usize {
        self.n_outputs().max(2)
    }

    /// Checks all that can be known of a plan before samples are read.
    ///
    /// # Errors
    /// What is wrong with the plan.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        match self {
            Self::Layers(network) => plan.check(network),
            #[cfg(feature = "graph")]
            Self::Graph(network) => super::graph::check_plan(network, plan),
        }
    }

    /// Checks that every feature can be encoded.
    pub(super) fn check_features(&self, data: &Dataset, plan: &Plan) -> Result<()> {
        check_samples(data, self.n_features())?;
        for (first, features) in data.pieces(PIECE) {
            let features = features?;
            match self {
                Self::Layers(network) => network.check_samples(&features, plan.range),
                #[cfg(feature = "graph")]
                Self::Graph(network) => network.check_samples(&features),
            }
            .map_err(|error| from_sample(error.into(), first))?;
        }
        Ok(())
    }

    /// The layers that run as streams.
    pub(super) fn streamed(&self) -> Result<Vec<StreamedLayer>> {
        match self {
            Self::Layers(network) => Ok(network
                .layers()
                .iter()
                .map(|layer| StreamedLayer {
                    name: layer.name().to_owned(),
                    products: layer.topology().n_products() as u64,
                })
                .collect()),
            #[cfg(feature = "graph")]
            Self::Graph(network) => {
                let nodes = network.inspect(1)?.nodes;
                let streams = network.layers().iter().filter(|layer| layer.mode == Mode::Streams);
                Ok(streams
                    .map(|layer| {
                        let stream = nodes.get(layer.node).and_then(|node| node.stream.as_ref());
                        let products = stream.map_or(0, |stream| stream.products);
                        StreamedLayer { name: layer.name.clone(), products }
                    })
                    .collect())
            }
        }
    }

    /// The leads at which samples stop early: none where the scores are not those of a layer that runs as streams.
    pub(super) fn margins(&self, plan: &Plan) -> Vec<f64> {
        match self {
            Self::Layers(_) => plan.margins.clone(),
            #[cfg(feature = "graph")]
            Self::Graph(network) => match network.score_layer() {
                Some(_) => plan.margins.clone(),
                None => Vec::new(),
            },
        }
    }

    /// What is known to be wrong with generators before anything runs; the layers of a graph are made when it runs.
    pub(super) fn warnings(&self, config: &StreamConfig) -> Result<Vec<String>> {
        match self {
            Self::Layers(network) => Ok(config.warnings(network)?.iter().map(ToString::to_string).collect()),
            #[cfg(feature = "graph")]
            Self::Graph(_) => Ok(Vec::new()),
        }
    }

    pub(super) fn summary(&self) -> Result<NetworkSummary> {
        match self {
            Self::Layers(network) => Ok(summarize_network(network)),
            #[cfg(feature = "graph")]
            Self::Graph(network) => {
                let products = self.streamed()?.iter().map(|layer| layer.products).sum();
                Ok(super::graph::summarize(network, products))
            }
        }
    }

    /// The outputs of samples in floating point; what has no order cannot be judged.
    pub(super) fn forward(&self, features: &[f64], cancel: Cancel<'_>) -> Result<Vec<f64>> {
        let outputs = match self {
            Self::Layers(network) => {
                cancel.check()?;
                network.forward(features)?
            }
            #[cfg(feature = "graph")]
            Self::Graph(network) => network.forward_unless(features, cancel)?,
        };
        match outputs.iter().position(|output| output.is_nan()) {
            Some(index) => Err(self.bad_output(index, outputs[index])),
            None => Ok(outputs),
        }
    }

    /// What is wrong with the output at an index.
    pub(super) fn bad_output(&self, index: usize, value: f64) -> Error {
        let n = self.n_outputs().max(1);
        Error::Output { sample: index / n, output: index % n, value }
    }

    /// The outputs of all samples in floating point.
    pub(super) fn forward_all(&self, data: &Dataset, cancel: Cancel<'_>) -> Result<Vec<f64>> {
        let sizes = [data.len(), self.n_outputs()].map(|size| size as u128);
        let mut outputs = memory::with_capacity(sizes.iter().product(), Quantity::Samples)?;
        for (first, features) in data.pieces(PIECE) {
            let made = self.forward(&features?, cancel);
            outputs.extend(made.map_err(|error| from_sample(error, first))?);
        }
        Ok(outputs)
    }

    /// The network as streams.
    pub(super) fn to_streams(&self, config: &StreamConfig, cancel: Cancel<'_>) -> Result<Streams> {
        let made = match self {
            Self::Layers(network) => {
                StreamsKind::Layers(Box::new(Arc::clone(network).into_streams(config, cancel)?))
            }
            #[cfg(feature = "graph")]
            Self::Graph(network) => StreamsKind::Graph(Box::new(Arc::clone(network).into_streams(config)?)),
        };
        Ok(Streams { kind: made, generator: config.settings.generator })
    }

    /// The class of each sample whose scores these are.
    pub(super) fn classes(&self, scores: &[f64]) -> Vec<usize> {
        scores.chunks_exact(self.n_outputs().max(1)).map(top_class).collect()
    }

    /// Checks that samples have classes that the network tells apart.
    pub(super) fn check_labels(&self, data: &Dataset) -> Result<()> {
        if data.n_targets() > 0 {
            let (actual, needed) = ("numbers to be found", "classes");
            return Err(Error::LabelKind { name: data.name().to_owned(), actual, needed });
        }
        let n_classes = self.n_classes();
        match data.labels().iter().position(|&label| label >= n_classes) {
            Some(sample) => Err(Error::UnknownClass { sample, label: data.labels()[sample], n_classes }),
            None => Ok(()),
        }
    }

    /// A hash of what is judged with what, but for lengths, generators and devices.
    pub(super) fn identity(&self, data: &Dataset, plan: &Plan) -> Result<String> {
        let network = self.summary()?;
        let data = super::outline::summarize_data(data)?;
        let plan = super::outline::summarize_plan(plan);
        let settings = (plan.seeds, plan.width, plan.sharing, plan.layers, plan.arithmetic, plan.clip);
        let text = format!("{} {} {settings:?}", network.fingerprint, data.fingerprint);
        Ok(fingerprint(&[text.bytes().map(u64::from).collect()]))
    }
}

/// A network as streams.
pub(super) struct Streams {
    kind: StreamsKind,
    generator: GeneratorName,
}

enum StreamsKind {
    Layers(Box<StreamNetwork>),
    #[cfg(feature = "graph")]
    Graph(Box<StreamGraph>),
}

/// What streams made of some samples.
pub(super) struct Made {
    pub(super) scores: Vec<f64>,
    /// The errors of each layer's counts, where asked for.
    pub(super) layers: Vec<LayerStats>,
    pub(super) clipped: u64,
    pub(super) seconds: f64,
}

impl Streams {
    /// Runs samples, the first of which is number `first` of all.
    pub(super) fn run(
        &self,
        features: &[f64],
        first: u32,
        detail: Detail,
        cancel: Cancel<'_>,
    ) -> Result<Made> {
        match &self.kind {
            StreamsKind::Layers(streams) => {
                let output = streams.run(features, first, detail, cancel)?;
                let seconds = output.elapsed.as_secs_f64();
                let (scores, layers, clipped) = (output.scores, output.statistics, output.clipped);
                Ok(Made { scores, layers, clipped, seconds })
            }
            #[cfg(feature = "graph")]
            StreamsKind::Graph(streams) => {
                let statistics = if detail.statistics { Statistics::Found } else { Statistics::LeftOut };
                let output = streams.run(features, first, statistics, cancel)?;
                let clipped = output.statistics.first().map_or(0, |first| first.saturated);
                let seconds = output.elapsed.as_secs_f64();
                Ok(Made { scores: output.scores, layers: output.statistics, clipped, seconds })
            }
        }
    }

    /// What is known to be wrong with the generators; of a graph, with those of layers that have run.
    pub(super) fn warnings(&self) -> Vec<String> {
        let warnings = match &self.kind {
            StreamsKind::Layers(streams) => streams.warnings(),
            #[cfg(feature = "graph")]
            StreamsKind::Graph(streams) => streams.warnings(),
        };
        warnings.iter().map(|warning| format!("{}: {warning}", self.generator)).collect()
    }
}

/// The accuracy of a network as streams.
pub(super) fn accuracy(
    subject: &Subject,
    data: &Dataset,
    config: &StreamConfig,
    cancel: Cancel<'_>,
) -> Result<f64> {
    let streams = subject.to_streams(config, cancel)?;
    let mut found = Vec::with_capacity(data.len());
    for (first, piece) in data.pieces(PIECE) {
        // There are at most 2^32 samples.
        let made = streams.run(&piece?, first as u32, Detail::default(), cancel)?;
        found.extend(subject.classes(&made.scores));
    }
    Ok(share_of(&found, data.labels()))
}

/// What a sample takes as streams, in bits counted in the same time.
pub(super) fn stream_cost(layers: &[StreamedLayer], config: &StreamConfig) -> u64 {
    let cost = layers.iter().map(|layer| {
        let LayerSettings { generator, length, .. } = config.settings_of(&layer.name);
        let bits = if generator.has_random_bits() { length } else { length.min(TABLE_COST) };
        layer.products.saturating_mul(bits as u64)
    });
    cost.fold(1, u64::saturating_add)
}

/// The products of bits in a sample.
pub(super) fn bits_of_sample(layers: &[StreamedLayer], config: &StreamConfig) -> f64 {
    let bits =
        layers.iter().map(|layer| layer.products as f64 * config.settings_of(&layer.name).length as f64);
    bits.sum()
}
