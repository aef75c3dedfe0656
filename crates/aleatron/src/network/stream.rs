//! A network as streams: what a circuit with these generators and this length computes.

use super::Network;
use super::error::NetworkError;
use crate::layer::{DenseLayer, DenseSpec, SequenceLayer};
use crate::{Device, DeviceLayer, Result, SampleSeed};
use aleatron_core::generator::{Pairing, Warning};
use aleatron_core::{DenseShape, LayerIndex, Length, Polarity};
use std::time::{Duration, Instant};

/// Where the streams of a layer come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Generator {
    /// Every stream has random bits of its own, drawn for its layer, sample or neuron, and input.
    Bernoulli {
        /// The seed of all layers' weights and inputs; layers and domains never share a draw.
        seed: u64,
    },
    /// Streams share these sequences.
    Sequences(Pairing),
}

/// A network prepared to run as streams of one length.
#[derive(Debug)]
pub struct StreamNetwork<'a> {
    network: &'a Network,
    length: Length,
    layers: Vec<StreamLayer>,
}

#[derive(Debug)]
struct StreamLayer {
    encoded_weights: Vec<f64>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Bernoulli { layer: Box<DeviceLayer>, seed: u64 },
    Sequences(Box<SequenceLayer>),
}

/// How far the counts of a layer are from those of exact products of the same encoded inputs and weights.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct LayerError {
    /// Counts compared: samples by neurons.
    pub counts: u64,
    /// The mean of |count - exact count|.
    pub mean_count: f64,
    /// The largest |count - exact count|.
    pub worst_count: f64,
    /// The mean error of the sums that the counts stand for.
    pub mean_value: f64,
    /// The largest error of these sums.
    pub worst_value: f64,
    /// Inputs of the layer that lay outside what a stream can hold, and saturated.
    pub saturated: u64,
}

/// What a stream network made of some samples.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOutput {
    /// The scores, samples one after the other.
    pub scores: Vec<f64>,
    /// The errors of each layer's counts.
    pub layers: Vec<LayerError>,
    /// The time the streams took, without that of finding the errors.
    pub elapsed: Duration,
}

impl Network {
    /// Prepares the network to run as streams of `length` bits, all of them from `generator`, on the CPU.
    ///
    /// # Errors
    /// [`NetworkError::Layer`] with the layer that cannot be prepared and why: too few sequences, too little memory.
    pub fn to_streams(&self, length: Length, generator: &Generator) -> Result<StreamNetwork<'_>> {
        self.to_streams_by_layer(length, &vec![*generator; self.layers.len()], Device::Cpu)
    }

    /// Like [`Self::to_streams`], with a generator for each layer, on a device.
    ///
    /// # Errors
    /// As [`Self::to_streams`], [`NetworkError::Generators`] where there is not one generator per layer, and
    /// [`NetworkError::Layer`] where the device is not there or cannot hold a layer.
    pub fn to_streams_by_layer(
        &self,
        length: Length,
        generators: &[Generator],
        device: Device,
    ) -> Result<StreamNetwork<'_>> {
        let (expected, actual) = (self.layers.len(), generators.len());
        if expected != actual {
            return Err(NetworkError::Generators { expected, actual }.into());
        }
        let prepare = |k: usize, generator: &Generator| -> Result<StreamLayer> {
            let layer = &self.layers[k];
            let shape = DenseShape::new(layer.n_inputs(), layer.n_neurons(), length, layer.polarity())?;
            let encoded_weights = layer.encoded_weights();
            let kind = match *generator {
                Generator::Bernoulli { seed } => {
                    let spec = DenseSpec { shape, seed, layer: LayerIndex::new(k)? };
                    let layer = DeviceLayer::new(DenseLayer::from_weights(spec, &encoded_weights)?, device)?;
                    Kind::Bernoulli { layer: Box::new(layer), seed }
                }
                Generator::Sequences(pairing) => {
                    let layer = SequenceLayer::on_device(shape, pairing, &encoded_weights, device)?;
                    Kind::Sequences(Box::new(layer))
                }
            };
            Ok(StreamLayer { encoded_weights, kind })
        };
        let layers = generators
            .iter()
            .enumerate()
            .map(|(k, generator)| prepare(k, generator).map_err(|error| self.in_layer(k, error)));
        Ok(StreamNetwork { network: self, length, layers: layers.collect::<Result<_>>()? })
    }

    fn in_layer(&self, layer: usize, source: crate::Error) -> crate::Error {
        let name = self.layers[layer].name().to_owned();
        NetworkError::Layer { layer, name, source: Box::new(source) }.into()
    }

    /// The least and greatest feature that the first layer can encode.
    #[must_use]
    pub fn feature_interval(&self) -> [f64; 2] {
        let Some(first) = self.layers.first() else { return [0.0; 2] };
        let bounds = first.polarity().interval();
        bounds.map(|bound| bound * first.input_scale() * self.input.scale + self.input.offset)
    }
}

impl StreamNetwork<'_> {
    /// The length of its streams.
    #[must_use]
    pub fn length(&self) -> Length {
        self.length
    }

    /// What is wrong with the generators, if anything is known to be.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        self.layers.iter().find_map(StreamLayer::warnings).unwrap_or(&[])
    }

    /// Runs samples, the first of which is number `first_sample` of all.
    ///
    /// # Errors
    /// [`NetworkError::Ragged`] where `features` are not whole samples, [`NetworkError::Feature`] with the first one outside
    /// [`Network::feature_interval`], [`NetworkError::Layer`] where a layer fails.
    pub fn forward(&self, features: &[f64], first_sample: u32) -> Result<StreamOutput> {
        let network = self.network;
        network.check_samples(features, network.feature_interval())?;
        let mut values: Vec<f64> = features.iter().map(|&feature| network.input.apply(feature)).collect();
        let mut errors = Vec::with_capacity(self.layers.len());
        let mut elapsed = Duration::ZERO;
        for (k, (layer, stream)) in network.layers.iter().zip(&self.layers).enumerate() {
            let start = Instant::now();
            // What a circuit does between layers: rescale, saturate, encode again.
            let [low, high] = layer.polarity().interval();
            let mut saturated = 0;
            for value in &mut values {
                let scaled = *value / layer.input_scale();
                *value = scaled.clamp(low, high);
                // The first layer's features were checked: what is outside by now is the rounding of the division.
                saturated += u64::from(k > 0 && *value != scaled);
            }
            let counts = stream.counts(&values, first_sample).map_err(|error| network.in_layer(k, error))?;
            let (n, m) = (layer.n_inputs(), layer.n_neurons());
            let decode = |count| layer.polarity().decode(count, n, self.length);
            let outputs = counts.iter().enumerate().map(|(k, &count)| layer.output(k % m, decode(count)));
            let outputs = outputs.collect();
            elapsed += start.elapsed();
            let mut tally = Tally::new(layer.polarity(), self.length);
            for (inputs, counts) in values.chunks_exact(n).zip(counts.chunks_exact(m)) {
                for (weights, &count) in stream.encoded_weights.chunks_exact(n).zip(counts) {
                    let exact: f64 = weights.iter().zip(inputs).map(|(w, x)| w * x).sum();
                    tally.add(decode(count) - exact);
                }
            }
            errors.push(LayerError { saturated, ..tally.finish() });
            values = outputs;
        }
        Ok(StreamOutput { scores: values, layers: errors, elapsed })
    }
}

impl StreamLayer {
    fn counts(&self, values: &[f64], first_sample: u32) -> Result<Vec<u64>> {
        match &self.kind {
            Kind::Bernoulli { layer, seed } => {
                layer.counts_batch(values, SampleSeed::new(*seed).starting_at(first_sample))
            }
            Kind::Sequences(layer) => layer.counts(values),
        }
    }

    fn warnings(&self) -> Option<&[Warning]> {
        match &self.kind {
            Kind::Bernoulli { .. } => None,
            Kind::Sequences(layer) => (!layer.warnings().is_empty()).then_some(layer.warnings()),
        }
    }
}

/// Adds up errors of values.
struct Tally {
    counts: u64,
    sum: f64,
    worst: f64,
    /// Counts per unit of value.
    scale: f64,
}

impl Tally {
    fn new(polarity: Polarity, length: Length) -> Self {
        let bits = length.bits() as f64;
        let scale = match polarity {
            Polarity::Unipolar => bits,
            Polarity::Bipolar => bits / 2.0,
        };
        Self { counts: 0, sum: 0.0, worst: 0.0, scale }
    }

    fn add(&mut self, error: f64) {
        self.counts += 1;
        self.sum += error.abs();
        self.worst = self.worst.max(error.abs());
    }

    fn finish(self) -> LayerError {
        let mean = if self.counts == 0 { 0.0 } else { self.sum / self.counts as f64 };
        LayerError {
            counts: self.counts,
            mean_count: mean * self.scale,
            worst_count: self.worst * self.scale,
            mean_value: mean,
            worst_value: self.worst,
            saturated: 0,
        }
    }
}
