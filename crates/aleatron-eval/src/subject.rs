//! The network under evaluation: its layers that run as streams, its checks and its runs in
//! floating point.

use super::figures::{Errors, share_of};
use super::job::from_sample;
use super::plan::Plan;
use super::result::{DataSummary, NetworkSummary};
use super::schedule::fingerprint;
use crate::{Error, Result};
use aleatron_core::conformance::Digest;
use aleatron_core::{Cancel, Encoding, Error as CoreError, Length, Quantity, memory};
use aleatron_data::{Dataset, LabelKind};
use aleatron_engine::Error as EngineError;
use aleatron_engine::network::{Batching, LayerSettings, Network, StreamConfig, ValueRange};
use aleatron_engine::stream::{Detail, StreamNetwork};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Samples of a chunk, unless samples of the network cannot run apart. Errors of layers are summed
/// up by chunk, so that results do not depend on which worker ran which chunk.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

    /// Returns the number of samples that run together, of `n_samples`.
    pub(super) fn chunk(&self, n_samples: usize) -> usize {
        match (self.network.batching(), self.network.batch()) {
            (_, Some(batch)) => batch * (CHUNK / batch).max(1),
            (Batching::Independent, None) => CHUNK,
            (Batching::Whole, None) => n_samples.max(1),
        }
    }

    /// Checks everything about a plan that can be known before samples are read: that there is
    /// something to do, that every length is one, and that every generator has the sequences
    /// that every layer needs.
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
        for generator in &plan.generators {
            for length in plan.lengths_of(generator) {
                let mut config = plan.config(generator, length, 0);
                config.fault_layers.clone_from(&plan.fault_layers);
                for point in plan.fault_points_of(generator).into_iter().flatten() {
                    let faulty = config.clone().faults(plan.faults_of(Some(point))?);
                    self.network.check_config(&faulty)?;
                }
                for (index, layer) in self.network.program_layers(&config)? {
                    // Tables may replace streams if both operands have sequences.
                    if plan.device.may_use_host_memory()
                        && !matches!(layer.spec.encoding(), Encoding::Sequences(_))
                    {
                        let checked =
                            memory::check(8 * layer.spec.weight_words() as u128, Quantity::Streams);
                        checked.map_err(|error| self.in_layer(index, error))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns an error of a layer with its name.
    fn in_layer(&self, index: usize, error: CoreError) -> Error {
        let name =
            self.network.layers().get(index).map_or_else(String::new, |layer| layer.name.clone());
        EngineError::Layer { layer: index, name, source: Box::new(error.into()) }.into()
    }

    /// Checks that samples and their labels fit the network, and that features can be encoded.
    pub(super) fn check_data(&self, data: &Dataset, plan: &Plan) -> Result<()> {
        let (expected, actual) = (self.network.n_features(), data.n_features());
        if expected != actual {
            return Err(Error::FeatureCount { expected, actual });
        }
        check_count(data.len())?;
        self.check_labels(data)?;
        if let Some(batch) = self.network.batch()
            && !data.len().is_multiple_of(batch)
        {
            return Err(EngineError::PartialBatch { samples: data.len(), batch }.into());
        }
        let encoding = match plan.range {
            ValueRange::Check => Some(self.network.feature_check()?),
            ValueRange::Saturate => None,
        };
        for (first, features) in data.chunks(self.chunk(data.len())) {
            let features = features?;
            let checked = self.network.check_samples(&features);
            let checked =
                checked.and_then(|()| encoding.iter().try_for_each(|check| check.check(&features)));
            checked.map_err(|error| from_sample(error.into(), first))?;
        }
        Ok(())
    }

    /// Checks that labels are classes of the network, or one target for each output.
    fn check_labels(&self, data: &Dataset) -> Result<()> {
        if data.label_kind() == LabelKind::Numbers {
            let (expected, actual) = (self.network.n_outputs(), data.n_targets());
            return if expected == actual {
                Ok(())
            } else {
                Err(Error::TargetCount { expected, actual })
            };
        }
        let n_classes = self.network.n_classes();
        match data.labels().iter().position(|&label| label >= n_classes) {
            Some(sample) => {
                Err(Error::UnknownClass { sample, label: data.labels()[sample], n_classes })
            }
            None => Ok(()),
        }
    }

    /// Returns the margins of early termination: none for targets, and if the scores are not those
    /// of a layer that runs as streams.
    pub(super) fn margins(&self, plan: &Plan, data: &Dataset) -> Vec<f64> {
        match (data.label_kind(), self.network.score_layer()) {
            (LabelKind::Classes, Some(_)) => plan.margins.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns the known problems of the generators of a configuration.
    pub(super) fn warnings(&self, config: &StreamConfig) -> Result<Vec<String>> {
        let warnings = self.network.warnings(config)?;
        Ok(warnings
            .iter()
            .map(|warning| format!("{}: {warning}", config.settings.generator))
            .collect())
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
            sizes: [network.n_features()]
                .into_iter()
                .chain(hidden)
                .chain([network.n_outputs()])
                .collect(),
            layers: layers.iter().map(|layer| layer.name.clone()).collect(),
            products: usize::try_from(self.products()).unwrap_or(usize::MAX),
            fingerprint: format!("{:016x}", digest.finish()),
        })
    }

    /// Computes the outputs of samples in floating point. NaN has no order and is an error.
    pub(super) fn forward(&self, features: &[f64], cancel: Cancel<'_>) -> Result<Vec<f64>> {
        let outputs = self.network.forward_with(features, cancel)?;
        match outputs.iter().position(|output| output.is_nan()) {
            Some(index) => Err(bad_output(&outputs, index, self.network.n_outputs())),
            None => Ok(outputs),
        }
    }

    /// Computes the outputs of all samples in floating point.
    pub(super) fn forward_all(&self, data: &Dataset, cancel: Cancel<'_>) -> Result<Vec<f64>> {
        let mut outputs = self.outputs(data)?;
        for (first, features) in data.chunks(self.chunk(data.len())) {
            let computed = self.forward(&features?, cancel);
            outputs.extend(computed.map_err(|error| from_sample(error, first))?);
        }
        Ok(outputs)
    }

    /// Returns warnings about layers whose inputs do not fit the interval of their streams, for the
    /// first samples.
    pub(super) fn input_warnings(
        &self,
        features: &[f64],
        cancel: Cancel<'_>,
    ) -> Result<Vec<String>> {
        let warnings = self.network.input_warnings(features, cancel)?;
        Ok(warnings.iter().map(ToString::to_string).collect())
    }

    /// Prepares the network to run as streams.
    pub(super) fn to_streams(
        &self,
        config: &StreamConfig,
        cancel: Cancel<'_>,
    ) -> Result<StreamNetwork> {
        Ok(Arc::clone(&self.network).into_streams(config, cancel)?)
    }

    /// Computes the score of the network as streams: the accuracy, or the coefficient of
    /// determination of targets.
    pub(super) fn score(
        &self,
        data: &Dataset,
        config: &StreamConfig,
        cancel: Cancel<'_>,
    ) -> Result<f64> {
        let streams = self.to_streams(config, cancel)?;
        let mut outputs = self.outputs(data)?;
        for (first, features) in data.chunks(self.chunk(data.len())) {
            // Fits: evaluations have at most 2^32 samples.
            let output = streams.run(&features?, first as u32, Detail::default(), cancel);
            outputs.extend(output.map_err(|error| from_sample(error.into(), first))?.scores);
        }
        self.score_of(&outputs, data)
    }

    /// Computes the score of outputs.
    pub(super) fn score_of(&self, outputs: &[f64], data: &Dataset) -> Result<f64> {
        Ok(match data.label_kind() {
            LabelKind::Classes => share_of(&self.network.classes(outputs), data.labels()),
            LabelKind::Numbers => {
                check_outputs(outputs, data.n_targets())?;
                Errors::new(outputs, data.targets(), data.n_targets()).r_squared
            }
        })
    }

    /// Allocates the outputs of all samples.
    fn outputs(&self, data: &Dataset) -> Result<Vec<f64>> {
        let sizes = [data.len(), self.network.n_outputs()].map(|size| size as u128);
        Ok(memory::with_capacity(sizes.iter().product(), Quantity::Samples)?)
    }

    /// Returns a hash of the network, the data and the settings, without lengths, generators and
    /// devices.
    pub(super) fn identity(&self, data: &Dataset, plan: &Plan) -> Result<String> {
        let (network, data) = (self.summary()?.fingerprint, DataSummary::new(data)?.fingerprint);
        let settings = Plan { margins: Vec::new(), seeds: plan.seeds, ..plan.settings() };
        let text = super::task::to_line(&(network, data, settings))?;
        Ok(fingerprint(&text.bytes().map(u64::from).collect::<Vec<_>>()))
    }
}

/// Checks that samples can be numbered: the index of a sample is part of the addresses of its
/// streams.
fn check_count(n_samples: usize) -> Result<()> {
    let (actual, limit) = (n_samples as u128, 1 << 32);
    match actual <= limit {
        true => Ok(()),
        false => Err(CoreError::TooLarge { what: Quantity::Samples, actual, limit }.into()),
    }
}

/// Checks that outputs are finite, so that they have errors.
pub(super) fn check_outputs(outputs: &[f64], n_outputs: usize) -> Result<()> {
    match outputs.iter().position(|output| !output.is_finite()) {
        Some(index) => Err(bad_output(outputs, index, n_outputs)),
        None => Ok(()),
    }
}

/// Returns the error of the output at an index.
fn bad_output(outputs: &[f64], index: usize, n_outputs: usize) -> Error {
    let n = n_outputs.max(1);
    Error::Output { sample: index / n, output: index % n, value: outputs[index] }
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

/// Returns the products of bits in a sample; a product of integers counts as one.
pub(super) fn bits_of_sample(layers: &[StreamedLayer], config: &StreamConfig) -> f64 {
    let bits = |layer: &StreamedLayer| {
        let LayerSettings { generator, length, .. } = config.settings_of(&layer.name);
        let bits = if generator.integer_bits().is_some() { 1 } else { length };
        layer.products as f64 * bits as f64
    };
    layers.iter().map(bits).sum()
}

/// Returns the stream length of each layer.
pub(super) fn lengths(layers: &[StreamedLayer], config: &StreamConfig) -> Vec<usize> {
    let length = |layer: &StreamedLayer| {
        let settings = config.settings_of(&layer.name);
        settings.resolved_length().map_or(settings.length, Length::bits)
    };
    layers.iter().map(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_indices_of_32_bits() {
        assert!(check_count(1 << 32).is_ok());
        assert!(check_count((1 << 32) + 1).is_err());
    }
}
