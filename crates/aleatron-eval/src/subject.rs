//! The network under evaluation: its layers that run as streams, its checks and its runs in floating point.

use super::assembly::share_of;
use super::job::{check_samples, from_sample};
use super::outline::{fingerprint, summarize_data, summarize_plan};
use super::plan::Plan;
use super::result::NetworkSummary;
use crate::{Error, Result};
use aleatron_core::conformance::Digest;
use aleatron_core::{Cancel, Encoding, Error as CoreError, Quantity, memory};
use aleatron_data::Dataset;
use aleatron_engine::Error as EngineError;
use aleatron_engine::network::{Batching, LayerSettings, Network, StreamConfig};
use aleatron_engine::stream::{Detail, StreamNetwork};
use std::sync::Arc;

/// Samples of a chunk, unless samples of the network cannot run apart. Errors of layers are summed up by chunk, so that results do not
/// depend on which worker ran which chunk.
const CHUNK: usize = 256;

/// The time of looking a product up in a table, at most, in bits counted in the same time.
const TABLE_COST: usize = 256;

/// A network under evaluation.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    network: Arc<Network>,
    layers: Vec<StreamedLayer>,
}

/// A layer that runs as streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StreamedLayer {
    pub(super) name: String,
    /// The products of a sample.
    pub(super) products: u64,
}

impl Subject {
    pub(super) fn new(network: Arc<Network>) -> Result<Self> {
        let nodes = network.inspect(1)?.nodes;
        // A run of a graph with a fixed number of samples has the products of all of them.
        let n_samples = network.batch().unwrap_or(1) as u64;
        let layers = network.stream_layers().map(|(_, layer)| {
            let stream = nodes.get(layer.node).and_then(|node| node.stream.as_ref());
            let products = stream.map_or(0, |stream| stream.products / n_samples);
            StreamedLayer { name: layer.name.clone(), products }
        });
        let layers = layers.collect();
        Ok(Self { network, layers })
    }

    pub(super) fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Returns the layers that run as streams.
    pub(super) fn layers(&self) -> &[StreamedLayer] {
        &self.layers
    }

    /// Returns the products of a sample in all layers that run as streams.
    pub(super) fn products(&self) -> u64 {
        self.layers.iter().map(|layer| layer.products).fold(0, u64::saturating_add)
    }

    /// Returns the samples that run together, of so many.
    pub(super) fn chunk(&self, n_samples: usize) -> usize {
        match (self.network.batching(), self.network.batch()) {
            (_, Some(batch)) => batch * (CHUNK / batch).max(1),
            (Batching::Independent, None) => CHUNK,
            (Batching::Whole, None) => n_samples.max(1),
        }
    }

    /// Checks everything about a plan that can be known before samples are read: that there is something to do, that every length is
    /// one, and that every generator has the sequences that every layer needs.
    pub(super) fn check(&self, plan: &Plan) -> Result<()> {
        for (what, is_empty) in [
            ("lengths", plan.lengths.is_empty()),
            ("generators", plan.generators.is_empty()),
            ("seeds", plan.seeds == 0),
            ("layers that run as streams", self.layers.is_empty()),
        ] {
            if is_empty {
                return Err(Error::Nothing(what));
            }
        }
        plan.check_numbers()?;
        for &length in &plan.lengths {
            for generator in &plan.generators {
                let config = plan.config(generator, length, 0);
                for (index, layer) in self.network.program_layers(&config)? {
                    // Tables may replace streams if both operands have sequences.
                    if plan.device.may_use_host_memory()
                        && !matches!(layer.spec.encoding(), Encoding::Sequences(_))
                    {
                        let checked = memory::check(8 * layer.spec.weight_words() as u128, Quantity::Streams);
                        checked.map_err(|error| self.in_layer(index, error))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns an error of a layer with its name.
    fn in_layer(&self, index: usize, error: CoreError) -> Error {
        let name = self.network.layers().get(index).map_or_else(String::new, |layer| layer.name.clone());
        EngineError::Layer { layer: index, name, source: Box::new(error.into()) }.into()
    }

    /// Checks that samples fit the network.
    pub(super) fn check_features(&self, data: &Dataset) -> Result<()> {
        check_samples(data, self.network.n_features())?;
        if let Some(batch) = self.network.batch()
            && !data.len().is_multiple_of(batch)
        {
            return Err(EngineError::PartialBatch { samples: data.len(), batch }.into());
        }
        for (first, features) in data.pieces(self.chunk(data.len())) {
            let checked = self.network.check_samples(&features?);
            checked.map_err(|error| from_sample(error.into(), first))?;
        }
        Ok(())
    }

    /// Checks that samples have classes of the network.
    pub(super) fn check_labels(&self, data: &Dataset) -> Result<()> {
        if data.n_targets() > 0 {
            let (actual, needed) = ("targets", "class labels");
            return Err(Error::LabelKind { name: data.name().to_owned(), actual, needed });
        }
        let n_classes = self.network.n_classes();
        match data.labels().iter().position(|&label| label >= n_classes) {
            Some(sample) => Err(Error::UnknownClass { sample, label: data.labels()[sample], n_classes }),
            None => Ok(()),
        }
    }

    /// Returns the margins of early termination: none if the scores are not those of a layer that runs as streams.
    pub(super) fn margins(&self, plan: &Plan) -> Vec<f64> {
        match self.network.score_layer() {
            Some(_) => plan.margins.clone(),
            None => Vec::new(),
        }
    }

    /// Returns the known problems of the generators of a configuration.
    pub(super) fn warnings(&self, config: &StreamConfig) -> Result<Vec<String>> {
        let warnings = self.network.warnings(config)?;
        Ok(warnings.iter().map(|warning| format!("{}: {warning}", config.settings.generator)).collect())
    }

    pub(super) fn summary(&self) -> Result<NetworkSummary> {
        let (network, layers) = (&self.network, self.network.layers());
        let mut digest = Digest::default();
        for bytes in network.to_onnx()?.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            digest.word(u64::from_le_bytes(word));
        }
        let hidden = layers.iter().rev().skip(1).rev().map(|layer| layer.product.n_rows());
        Ok(NetworkSummary {
            name: network.name().to_owned(),
            sizes: [network.n_features()].into_iter().chain(hidden).chain([network.n_outputs()]).collect(),
            layers: layers.iter().map(|layer| layer.name.clone()).collect(),
            products: usize::try_from(self.products()).unwrap_or(usize::MAX),
            fingerprint: format!("{:016x}", digest.finish()),
        })
    }

    /// Computes the outputs of samples in floating point. NaN has no order and is an error.
    pub(super) fn forward(&self, features: &[f64], cancel: Cancel<'_>) -> Result<Vec<f64>> {
        let outputs = self.network.forward_with(features, cancel)?;
        match outputs.iter().position(|output| output.is_nan()) {
            Some(index) => Err(self.bad_output(index, outputs[index])),
            None => Ok(outputs),
        }
    }

    /// Returns the error of the output at an index.
    pub(super) fn bad_output(&self, index: usize, value: f64) -> Error {
        let n = self.network.n_outputs().max(1);
        Error::Output { sample: index / n, output: index % n, value }
    }

    /// Computes the outputs of all samples in floating point.
    pub(super) fn forward_all(&self, data: &Dataset, cancel: Cancel<'_>) -> Result<Vec<f64>> {
        let sizes = [data.len(), self.network.n_outputs()].map(|size| size as u128);
        let mut outputs = memory::with_capacity(sizes.iter().product(), Quantity::Samples)?;
        for (first, features) in data.pieces(self.chunk(data.len())) {
            let computed = self.forward(&features?, cancel);
            outputs.extend(computed.map_err(|error| from_sample(error, first))?);
        }
        Ok(outputs)
    }

    /// Returns warnings about layers whose inputs do not fit the interval of their streams, for the first samples.
    pub(super) fn input_warnings(&self, features: &[f64], cancel: Cancel<'_>) -> Result<Vec<String>> {
        let warnings = self.network.input_warnings(features, cancel)?;
        Ok(warnings.iter().map(ToString::to_string).collect())
    }

    /// Prepares the network to run as streams.
    pub(super) fn to_streams(&self, config: &StreamConfig, cancel: Cancel<'_>) -> Result<StreamNetwork> {
        Ok(Arc::clone(&self.network).into_streams(config, cancel)?)
    }

    /// Computes the accuracy of the network as streams.
    pub(super) fn accuracy(&self, data: &Dataset, config: &StreamConfig, cancel: Cancel<'_>) -> Result<f64> {
        let streams = self.to_streams(config, cancel)?;
        let mut classes = Vec::with_capacity(data.len());
        for (first, features) in data.pieces(self.chunk(data.len())) {
            // Fits: evaluations have at most 2^32 samples.
            let output = streams.run(&features?, first as u32, Detail::default(), cancel);
            let output = output.map_err(|error| from_sample(error.into(), first))?;
            classes.extend(self.network.classes(&output.scores));
        }
        Ok(share_of(&classes, data.labels()))
    }

    /// Returns a hash of the network, the data and the settings, without lengths, generators and devices.
    pub(super) fn identity(&self, data: &Dataset, plan: &Plan) -> Result<String> {
        let (network, data, plan) = (self.summary()?, summarize_data(data)?, summarize_plan(plan));
        let settings = (plan.seeds, plan.width, plan.sharing, plan.layers, plan.arithmetic, plan.clip);
        let text = format!("{} {} {settings:?}", network.fingerprint, data.fingerprint);
        Ok(fingerprint(&[text.bytes().map(u64::from).collect()]))
    }
}

/// Returns the cost of a sample as streams, in bits counted in the same time.
pub(super) fn stream_cost(layers: &[StreamedLayer], config: &StreamConfig) -> u64 {
    let cost = layers.iter().map(|layer| {
        let LayerSettings { generator, length, .. } = config.settings_of(&layer.name);
        let bits = if generator.has_random_bits() { length } else { length.min(TABLE_COST) };
        layer.products.saturating_mul(bits as u64)
    });
    cost.fold(1, u64::saturating_add)
}

/// Returns the products of bits in a sample.
pub(super) fn bits_of_sample(layers: &[StreamedLayer], config: &StreamConfig) -> f64 {
    let bits =
        layers.iter().map(|layer| layer.products as f64 * config.settings_of(&layer.name).length as f64);
    bits.sum()
}

/// Returns the stream length of each layer.
pub(super) fn lengths(layers: &[StreamedLayer], config: &StreamConfig) -> Vec<usize> {
    layers.iter().map(|layer| config.settings_of(&layer.name).length).collect()
}
