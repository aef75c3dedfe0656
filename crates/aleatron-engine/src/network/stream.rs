//! A network as streams: what a circuit with these generators and lengths computes.

use super::config::{FeatureRange, StreamConfig};
use super::products::sums;
use super::{Layer, Network};
use crate::backend::{Batch, CountMethod};
use crate::{Error, Result, StreamLayer};
use aleatron_core::arithmetic::{Accumulator, Arithmetic, FloatStage, Requantized, Requantizer, saturate};
use aleatron_core::generator::{Warning, Width};
use aleatron_core::threshold::{NEGATIVE, is_negative, magnitude};
use aleatron_core::{
    Cancel, Encoding, InputSource, LayerIndex, LayerSpec, Length, Polarity, Quantity, SampleSeed, memory,
};
use aleatron_cpu::{Cpu, FeatureStage, IntegerStage, LayerSums, threads};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The comparators of Bernoulli streams in integer arithmetic. Sequences have comparators of their own width.
const COMPARATOR_BITS: u32 = 16;

/// The multipliers of integer arithmetic, where the ratio of scales does not need more.
pub(crate) const MULTIPLIER_BITS: u32 = 16;

/// Fraction bits of accumulators: biases are rounded to a 256th of a product bit, whose own noise is far larger.
pub(crate) const FRACTION_BITS: u32 = 8;

/// Values between layers that a thread takes at a time in floating point.
const PIECE: usize = 1 << 13;

/// About the time of one of them.
const VALUE_NANOSECONDS: u64 = 2;

/// A network prepared to run as streams: its layers hold their encoded weights, so that a call makes nothing but inputs.
#[derive(Debug)]
pub struct StreamNetwork {
    network: Arc<Network>,
    arithmetic: Arithmetic,
    range: FeatureRange,
    seed: u64,
    /// From features to thresholds, in integer arithmetic.
    features: Option<FeatureStage>,
    layers: Vec<Prepared>,
}

#[derive(Debug)]
struct Prepared {
    layer: StreamLayer,
    stage: FloatStage,
    integer: IntegerLayer,
    between: Between,
}

/// What is behind a layer's counts in integer arithmetic.
#[derive(Debug)]
enum Between {
    /// Nothing is kept in float arithmetic.
    Nothing,
    /// Thresholds of the next layer.
    Thresholds(IntegerStage),
    /// Scores, with what 1 stands for.
    Scores(LayerSums, f64),
}

/// The integer side of a layer: what a circuit has behind its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntegerLayer {
    /// The width of the comparators of its inputs.
    pub comparator: Width,
    /// What adds the bias and applies the activation.
    pub accumulator: Accumulator,
    /// From there to the comparators of the next layer; `None` for the last one.
    pub requantizer: Option<Requantizer>,
}

/// How far the counts of a layer are from those of exact products of the same encoded inputs and weights.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct LayerStats {
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

/// What a run is asked for beside the scores; nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Detail {
    /// The errors of each layer's counts. Finding them takes as long as the network in floating point.
    pub statistics: bool,
    /// The counts and outputs of each layer.
    pub layers: bool,
    /// The inputs of the last layer, as they are encoded.
    pub last_inputs: bool,
}

/// What one layer made of some samples.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerOutput {
    /// Its counts, row-major of samples by neurons.
    pub counts: Vec<u64>,
    /// Its outputs in the network's units, after activation and pools.
    pub outputs: Vec<f64>,
}

/// What a stream network made of some samples.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamOutput {
    /// The scores, samples one after the other.
    pub scores: Vec<f64>,
    /// The errors of each layer's counts, where asked for.
    pub statistics: Vec<LayerStats>,
    /// Counts and outputs of each layer, where asked for.
    pub layers: Vec<LayerOutput>,
    /// The inputs of the last layer, where asked for.
    pub last_inputs: Option<LayerInputs>,
    /// Features that lay outside what the first layer can encode, and were clipped.
    pub clipped: u64,
    /// The time the streams took, without that of finding the errors.
    pub elapsed: Duration,
}

impl Network {
    /// Prepares the network to run as streams.
    ///
    /// # Errors
    /// [`Error::UnknownLayer`] for settings of a layer that is not there, [`Error::Layer`] with the layer that cannot be prepared and
    /// why: too few sequences, too little memory, no such device.
    pub fn to_streams(&self, config: &StreamConfig) -> Result<StreamNetwork> {
        Arc::new(self.clone()).into_streams(config, Cancel::NEVER)
    }

    /// As [`Self::to_streams`], sharing the network, unless cancelled on the way.
    ///
    /// # Errors
    /// As [`Self::to_streams`], and [`aleatron_core::Error::Cancelled`].
    pub fn into_streams(self: Arc<Self>, config: &StreamConfig, cancel: Cancel<'_>) -> Result<StreamNetwork> {
        let names = || self.layers.iter().map(|layer| layer.name().to_owned());
        if let Some(name) = config.layers.keys().find(|name| !names().any(|known| known == **name)) {
            return Err(Error::UnknownLayer { name: name.clone(), known: names().collect() });
        }
        let mut layers = Vec::new();
        for (k, layer) in self.layers.iter().enumerate() {
            let next = self.layers.get(k + 1);
            let prepared = prepare(k, layer, next, config, cancel);
            layers.push(prepared.map_err(|error| in_layer(k, layer, error))?);
        }
        let StreamConfig { arithmetic, range, seed, .. } = *config;
        let mut features = None;
        if arithmetic == Arithmetic::Integer {
            features = layers.first().map(|first| self.feature_stage(first, range)).transpose()?;
            // From the last one on, since each looks at the next.
            let mut width = None;
            for (k, prepared) in layers.iter_mut().enumerate().rev() {
                let between = prepared.between(&self.layers[k], width);
                prepared.between = between.map_err(|error| in_layer(k, &self.layers[k], error))?;
                width = Some(prepared.layer.spec().encoding().input_width());
            }
        }
        Ok(StreamNetwork { network: self, arithmetic, range, seed, features, layers })
    }

    /// From features to the thresholds of the first layer.
    fn feature_stage(&self, first: &Prepared, range: FeatureRange) -> Result<FeatureStage> {
        let (spec, input) = (first.layer.spec(), self.input);
        let scales = [input.scale, self.layers.first().map_or(1.0, Layer::input_scale)];
        let (comparator, width) = (first.integer.comparator, spec.encoding().input_width());
        let allowed = self.allowed_features(range);
        Ok(FeatureStage::new(allowed, input.offset, scales, spec.polarity(), comparator, width)?)
    }
}

fn prepare(
    k: usize,
    layer: &Layer,
    next: Option<&Layer>,
    config: &StreamConfig,
    cancel: Cancel<'_>,
) -> Result<Prepared> {
    let settings = config.settings_of(layer.name());
    let builder = StreamLayer::of(layer.topology())
        .length(settings.length)
        .polarity(layer.polarity())
        .seed(config.seed)
        .generator(settings.generator)
        .width(settings.width)
        .sharing(settings.sharing)
        .at(LayerIndex::new(k)?)
        .weights(&layer.encoded_weights())
        .device(config.device.clone());
    let stream = builder.build_unless(cancel)?;
    let stage = layer.stage();
    let accumulator = Accumulator::calibrated(stream.spec(), &stage, FRACTION_BITS)?;
    let requantizer = match next {
        None => None,
        Some(next) => {
            let width = next_comparator(next, config)?;
            let unit = accumulator.unit(stream.spec().length(), stage.scale);
            let (next_scale, polarity) = (next.input_scale(), next.polarity());
            Some(Requantizer::of_unit(unit, next_scale, MULTIPLIER_BITS, width, polarity)?)
        }
    };
    let integer = IntegerLayer { comparator: comparator(stream.spec())?, accumulator, requantizer };
    Ok(Prepared { layer: stream, stage, integer, between: Between::Nothing })
}

impl StreamConfig {
    /// What is known to be wrong with the generators of a network's layers, each once.
    ///
    /// # Errors
    /// Where a length, a width or a generator cannot be had.
    pub fn warnings(&self, network: &Network) -> Result<Vec<Warning>> {
        let mut all = Vec::new();
        for layer in network.layers() {
            let settings = self.settings_of(layer.name());
            let length = Length::new(settings.length)?;
            let width = settings.width.resolve(&settings.generator, length);
            let encoding = settings.generator.encoding(self.seed, width, settings.sharing)?;
            let spec = LayerSpec::new(layer.topology(), length, layer.polarity(), encoding)?;
            all.extend(crate::layer::warnings(&spec)?);
        }
        all.dedup();
        Ok(all)
    }
}

/// The width of the comparators of a layer's inputs.
pub(crate) fn comparator(spec: &LayerSpec) -> Result<Width> {
    comparator_of(spec.encoding())
}

fn comparator_of(encoding: &Encoding) -> Result<Width> {
    Ok(match encoding.input_source() {
        InputSource::Bernoulli => Width::new(COMPARATOR_BITS)?,
        InputSource::Sequences(inputs) => inputs.width(),
    })
}

fn next_comparator(next: &Layer, config: &StreamConfig) -> Result<Width> {
    let settings = config.settings_of(next.name());
    let width = settings.width.resolve(&settings.generator, Length::new(settings.length)?);
    let encoding = settings.generator.encoding(config.seed, width, settings.sharing)?;
    comparator_of(&encoding)
}

fn in_layer(k: usize, layer: &Layer, source: Error) -> Error {
    // Being cancelled is nobody's fault.
    if matches!(source, Error::Core(aleatron_core::Error::Cancelled)) {
        return source;
    }
    Error::Layer { layer: k, name: layer.name().to_owned(), source: Box::new(source) }
}

/// The inputs of a layer: what the one before hands to it.
#[derive(Debug, Clone, PartialEq)]
pub enum LayerInputs {
    /// Values in the interval of the polarity.
    Values(Vec<f64>),
    /// Thresholds of comparators.
    Thresholds(Vec<u64>),
}

impl LayerInputs {
    /// The inputs of a layer as the values that its streams stand for.
    #[must_use]
    pub fn values(&self, spec: &LayerSpec) -> Cow<'_, [f64]> {
        let (one, polarity) = (spec.encoding().input_width().one() as f64, spec.polarity());
        let value = |&t: &u64| match polarity {
            Polarity::Unipolar | Polarity::Bipolar => polarity.value_of(t as f64 / one),
            Polarity::Signed if is_negative(t) => -(magnitude(t) as f64 / one),
            Polarity::Signed => t as f64 / one,
        };
        match self {
            Self::Values(values) => Cow::Borrowed(values),
            Self::Thresholds(thresholds) => Cow::Owned(thresholds.iter().map(value).collect()),
        }
    }

    /// How many there are.
    #[cfg(feature = "graph")]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Values(values) => values.len(),
            Self::Thresholds(thresholds) => thresholds.len(),
        }
    }

    /// Appends the first `n` of others of the same kind.
    #[cfg(feature = "graph")]
    pub(crate) fn extend(&mut self, more: &Self, n: usize) {
        match (self, more) {
            (Self::Values(all), Self::Values(more)) => all.extend_from_slice(&more[..n.min(more.len())]),
            (Self::Thresholds(all), Self::Thresholds(more)) => {
                all.extend_from_slice(&more[..n.min(more.len())]);
            }
            (all, more) => *all = more.clone(),
        }
    }

    /// The inputs as a batch of samples from `seed` on.
    #[must_use]
    pub fn batch(&self, seed: SampleSeed) -> Batch<'_> {
        match self {
            Self::Values(values) => Batch::values(values, seed),
            Self::Thresholds(thresholds) => Batch::thresholds(thresholds, seed),
        }
    }
}

impl StreamNetwork {
    /// The network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The lengths of the layers' streams.
    #[must_use]
    pub fn lengths(&self) -> Vec<usize> {
        self.layers.iter().map(|prepared| prepared.layer.spec().length().bits()).collect()
    }

    /// The layers as streams.
    pub fn layers(&self) -> impl Iterator<Item = &StreamLayer> {
        self.layers.iter().map(|prepared| &prepared.layer)
    }

    /// The integer side of each layer.
    pub fn integer_layers(&self) -> impl Iterator<Item = &IntegerLayer> {
        self.layers.iter().map(|prepared| &prepared.integer)
    }

    /// What is wrong with the generators, if anything is known to be, each once.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for warning in self.layers().flat_map(StreamLayer::warnings) {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
        warnings
    }

    /// The last layer with streams of another length, for its outputs on the way to the full one: streams of one length begin with
    /// those of a shorter one.
    ///
    /// # Errors
    /// As [`Network::to_streams`].
    pub fn last_layer_at(&self, length: usize) -> Result<StreamLayer> {
        let Some(Prepared { layer, .. }) = self.layers.last() else { return Err(Error::NoLayers) };
        let spec = layer.spec();
        let builder = StreamLayer::of(spec.topology().clone()).polarity(spec.polarity());
        let builder = builder.encoding(*spec.encoding()).at(spec.index());
        // A table takes longer to make than the few bits of a last layer.
        builder.length(length).weights(layer.weights()).method(CountMethod::Bits).build()
    }

    /// The seed of samples from number `first_sample` on.
    #[must_use]
    pub fn seed_at(&self, first_sample: u32) -> SampleSeed {
        SampleSeed::new(self.seed).starting_at(first_sample)
    }

    /// The scores of samples, the first of which is number `first_sample` of all.
    ///
    /// # Errors
    /// [`Error::RaggedSamples`] where `features` are not whole samples, [`Error::Feature`] with the first one outside
    /// [`Network::feature_interval`], [`Error::Layer`] where a layer fails.
    pub fn forward(&self, features: &[f64], first_sample: u32) -> Result<Vec<f64>> {
        Ok(self.pass(features, first_sample, Detail::default(), Cancel::NEVER)?.0.scores)
    }

    /// The scores of samples and what else is asked for, unless cancelled on the way.
    ///
    /// # Errors
    /// As [`Self::forward`], and [`aleatron_core::Error::Cancelled`].
    pub fn run(
        &self,
        features: &[f64],
        first_sample: u32,
        detail: Detail,
        cancel: Cancel<'_>,
    ) -> Result<StreamOutput> {
        let start = Instant::now();
        let (output, apart) = self.pass(features, first_sample, detail, cancel)?;
        Ok(StreamOutput { elapsed: start.elapsed().saturating_sub(apart), ..output })
    }

    /// What a run makes, but for the time it takes, and the time that finding the errors took.
    fn pass(
        &self,
        features: &[f64],
        first_sample: u32,
        detail: Detail,
        cancel: Cancel<'_>,
    ) -> Result<(StreamOutput, Duration)> {
        let (mut carried, clipped) = self.inputs(features)?;
        let seed = self.seed_at(first_sample);
        let mut output = StreamOutput {
            scores: Vec::new(),
            statistics: Vec::new(),
            layers: Vec::new(),
            last_inputs: None,
            clipped,
            elapsed: Duration::ZERO,
        };
        let (mut saturated, mut apart) = (clipped, Duration::ZERO);
        for (k, prepared) in self.layers.iter().enumerate() {
            let layer = &self.network.layers[k];
            let counts = prepared.layer.count(&carried.batch(seed), cancel);
            let counts = counts.map_err(|error| in_layer(k, layer, error))?;
            let next = self.network.layers.get(k + 1).zip(self.layers.get(k + 1));
            if detail.statistics {
                let start = Instant::now();
                let stats = prepared.statistics(&carried, &counts)?;
                output.statistics.push(LayerStats { saturated, ..stats });
                apart += start.elapsed();
            }
            let kept = if detail.layers { counts.clone() } else { Vec::new() };
            let made = match self.arithmetic {
                Arithmetic::Float => prepared.float_outputs(layer, &counts, next, detail)?,
                Arithmetic::Integer => prepared.integer_outputs(layer, counts, next, detail)?,
            };
            saturated = made.saturated;
            let inputs = std::mem::replace(&mut carried, made.carried);
            if detail.layers {
                output.layers.push(LayerOutput { counts: kept, outputs: made.outputs.clone() });
            }
            if next.is_none() {
                output.scores = made.outputs;
                output.last_inputs = detail.last_inputs.then_some(inputs);
            }
        }
        Ok((output, apart))
    }

    /// The inputs of the first layer, and how many were clipped.
    fn inputs(&self, features: &[f64]) -> Result<(LayerInputs, u64)> {
        let network = &*self.network;
        if let Some(stage) = self.features.as_ref().filter(|_| network.are_whole_samples(features))
            && let Some(made) = Cpu::current()?.feature_thresholds(stage, features)?
        {
            let clipped = match self.range {
                FeatureRange::Check => 0,
                FeatureRange::Clip => made.saturated,
            };
            return Ok((LayerInputs::Thresholds(made.thresholds), clipped));
        }
        // Whatever is wrong is found below, in the order of what is done to a feature.
        network.check_samples(features, self.range)?;
        let Some((first, prepared)) = network.layers.first().zip(self.layers.first()) else {
            return Err(Error::NoLayers);
        };
        let mut values = network.input.apply_all(features);
        let outside = saturate(&mut values, first.input_scale(), first.polarity());
        let clipped = match self.range {
            // What was checked and is outside now is the rounding of the division.
            FeatureRange::Check => 0,
            FeatureRange::Clip => outside,
        };
        let carried = match self.arithmetic {
            Arithmetic::Float => LayerInputs::Values(values),
            Arithmetic::Integer => {
                let (spec, comparator) = (prepared.layer.spec(), prepared.integer.comparator);
                let unused = spec.encoding().input_width().bits() - comparator.bits();
                let mut thresholds = comparator.thresholds(&values, spec.polarity(), Quantity::Value)?;
                for threshold in &mut thresholds {
                    *threshold = magnitude(*threshold) << unused | *threshold & NEGATIVE;
                }
                LayerInputs::Thresholds(thresholds)
            }
        };
        Ok((carried, clipped))
    }
}

/// What a layer made of its counts.
struct Made {
    /// What it hands to the next layer, encoded as that one wants it; empty for the last one.
    carried: LayerInputs,
    /// Its outputs in the network's units; empty where nobody wants them.
    outputs: Vec<f64>,
    /// Outputs that lay outside what the next layer's streams can hold.
    saturated: u64,
}

impl Prepared {
    /// What is behind the counts of `layer`, whose next layer has comparators of `next` bits.
    fn between(&self, layer: &Layer, next: Option<Width>) -> Result<Between> {
        let (spec, accumulator) = (self.layer.spec(), &self.integer.accumulator);
        Ok(match (&self.integer.requantizer, next) {
            (Some(requantizer), Some(width)) => {
                let stage = IntegerStage::new(spec, accumulator, requantizer, width)?;
                Between::Thresholds(stage.with_pools(layer.pools())?)
            }
            _ => {
                let sums = LayerSums::new(spec, accumulator)?.with_pools(layer.pools())?;
                Between::Scores(sums, self.unit())
            }
        })
    }

    /// What 1 stands for in the accumulators.
    fn unit(&self) -> f64 {
        self.integer.accumulator.unit(self.layer.spec().length(), self.stage.scale)
    }

    fn float_outputs(
        &self,
        layer: &Layer,
        counts: &[u64],
        next: Option<(&Layer, &Self)>,
        detail: Detail,
    ) -> Result<Made> {
        let Some((next, _)) = next else {
            let (outputs, _) = self.pieces(layer, counts, |_| 0)?;
            return Ok(Made { carried: LayerInputs::Values(Vec::new()), outputs, saturated: 0 });
        };
        let saturate = |values: &mut [f64]| saturate(values, next.input_scale(), next.polarity());
        let (values, outputs, saturated) = if detail.layers {
            let (outputs, _) = self.pieces(layer, counts, |_| 0)?;
            let mut values = outputs.clone();
            let saturated = saturate(&mut values);
            (values, outputs, saturated)
        } else {
            let (values, saturated) = self.pieces(layer, counts, saturate)?;
            (values, Vec::new(), saturated)
        };
        Ok(Made { carried: LayerInputs::Values(values), outputs, saturated })
    }

    /// The outputs of a layer after activation and pools, as `finish` leaves them, and the sum of what it returns: some samples at a time
    /// on each thread, whose values stay in its caches on the way.
    fn pieces(
        &self,
        layer: &Layer,
        counts: &[u64],
        finish: impl Fn(&mut [f64]) -> u64 + Sync,
    ) -> Result<(Vec<f64>, u64)> {
        let (spec, n, m) = (self.layer.spec(), layer.n_neurons(), layer.n_outputs());
        let samples = (PIECE / n).max(1);
        let made = |counts: &[u64]| -> Result<(Vec<f64>, u64)> {
            let mut values = layer.pooled(self.stage.outputs(spec, counts))?;
            let found = finish(&mut values);
            Ok((values, found))
        };
        if counts.len() <= samples * n {
            return made(counts);
        }
        let mut values = memory::zeros((counts.len() / n) as u128 * m as u128, Quantity::Value)?;
        let (total, fault) = (AtomicU64::new(0), OnceLock::new());
        let pieces = values.chunks_mut(samples * m).zip(counts.chunks(samples * n));
        let cost = Duration::from_nanos(counts.len() as u64 * VALUE_NANOSECONDS);
        threads::current()?.for_each(pieces, cost, |(values, counts)| match made(counts) {
            Ok((made, found)) => {
                values.copy_from_slice(&made);
                total.fetch_add(found, Ordering::Relaxed);
            }
            // Any of several will do.
            Err(error) => drop(fault.set(error)),
        });
        match fault.into_inner() {
            Some(error) => Err(error),
            None => Ok((values, total.into_inner())),
        }
    }

    fn integer_outputs(
        &self,
        layer: &Layer,
        counts: Vec<u64>,
        next: Option<(&Layer, &Self)>,
        detail: Detail,
    ) -> Result<Made> {
        let spec = self.layer.spec();
        match &self.between {
            Between::Thresholds(stage) if !detail.layers => {
                let Requantized { thresholds, saturated } = Cpu::current()?.requantize(stage, counts)?;
                let carried = LayerInputs::Thresholds(thresholds);
                return Ok(Made { carried, outputs: Vec::new(), saturated });
            }
            Between::Scores(sums, unit) => {
                let outputs = Cpu::current()?.accumulator_outputs(sums, &counts, *unit)?;
                return Ok(Made { carried: LayerInputs::Thresholds(Vec::new()), outputs, saturated: 0 });
            }
            Between::Thresholds(_) | Between::Nothing => {}
        }
        let held = layer.pooled_integers(self.integer.accumulator.values(spec, &counts)?)?;
        let unit = self.unit();
        let outputs = || held.iter().map(|&value| value as f64 * unit).collect();
        let (Some(requantizer), Some((_, next))) = (&self.integer.requantizer, next) else {
            let carried = LayerInputs::Thresholds(Vec::new());
            return Ok(Made { carried, outputs: outputs(), saturated: 0 });
        };
        let width = next.layer.spec().encoding().input_width();
        let Requantized { thresholds, saturated } = requantizer.thresholds(&held, width)?;
        let outputs = if detail.layers { outputs() } else { Vec::new() };
        Ok(Made { carried: LayerInputs::Thresholds(thresholds), outputs, saturated })
    }

    /// The errors of counts against exact products of the same inputs and weights.
    fn statistics(&self, carried: &LayerInputs, counts: &[u64]) -> Result<LayerStats> {
        let spec = self.layer.spec();
        let (n, m, polarity) = (spec.n_inputs(), spec.n_neurons(), spec.polarity());
        let values = carried.values(spec);
        let mut tally = Tally::default();
        for (inputs, counts) in values.chunks_exact(n).zip(counts.chunks_exact(m)) {
            let exact = sums(spec.topology(), self.layer.weights(), inputs)?;
            for (value, exact) in spec.decode_all(counts).iter().zip(exact) {
                tally.add(value - exact);
            }
        }
        Ok(tally.finish(polarity, spec.length()))
    }
}

/// Adds up errors of values.
#[derive(Default)]
struct Tally {
    counts: u64,
    sum: f64,
    worst: f64,
}

impl Tally {
    fn add(&mut self, error: f64) {
        self.counts += 1;
        self.sum += error.abs();
        self.worst = self.worst.max(error.abs());
    }

    fn finish(self, polarity: Polarity, length: Length) -> LayerStats {
        // Counts per unit of value.
        let scale = match polarity {
            Polarity::Unipolar | Polarity::Signed => length.bits() as f64,
            Polarity::Bipolar => length.bits() as f64 / 2.0,
        };
        let mean = if self.counts == 0 { 0.0 } else { self.sum / self.counts as f64 };
        LayerStats {
            counts: self.counts,
            mean_count: mean * scale,
            worst_count: self.worst * scale,
            mean_value: mean,
            worst_value: self.worst,
            saturated: 0,
        }
    }
}
