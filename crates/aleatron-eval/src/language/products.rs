//! The linear products of a transformer as stream layers.

use super::calibrate::InputScales;
use crate::{Error, Result};
use aleatron_core::arithmetic::{Activation, Arithmetic, FloatStage, saturate};
use aleatron_core::{
    Cancel, Error as CoreError, LayerIndex, Polarity, Quantity, SampleSeed, Topology, memory,
};
use aleatron_engine::StreamLayer;
use aleatron_engine::backend::{Batch, CountMethod};
use aleatron_engine::network::{InputRange, StreamConfig, WeightScale, scaled_weights, weight_scales};
use aleatron_transformer::{
    Config, Error as TransformerError, ForwardPass, LinearId, LinearProduct, LinearProducts, ProductOutcome,
    TokenPosition,
};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The linear products that run as streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProductSelection {
    /// All of them.
    All,
    /// One of them; the others run in floating point.
    Only(LinearId),
}

impl ProductSelection {
    fn includes(self, linear: LinearId) -> bool {
        match self {
            Self::All => true,
            Self::Only(only) => only == linear,
        }
    }
}

/// How many inputs of a linear product were outside the interval of its streams.
#[derive(Debug, Clone, PartialEq)]
pub struct Saturation {
    /// The product.
    pub linear: LinearId,
    /// The input that becomes 1.
    pub input_scale: f64,
    /// The inputs that were encoded.
    pub inputs: u64,
    /// Those that saturated.
    pub saturated: u64,
}

impl Saturation {
    /// Returns the share of inputs that saturated.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.inputs == 0 { 0.0 } else { self.saturated as f64 / self.inputs as f64 }
    }

    /// Returns a warning if more inputs saturated than calibration explains, by the rule for networks.
    #[must_use]
    pub fn warning(&self, config: &Config) -> Option<String> {
        let range = InputRange {
            layer: self.linear.index(config),
            name: self.linear.to_string(),
            scale: self.input_scale,
            saturated: self.share(),
            largest: 1.0,
            small: 0.0,
        };
        range.warning().map(|_| {
            format!(
                "product \"{}\": {:.1} % of its inputs saturate at the input scale {}; calibrate with more text of the same kind",
                self.linear,
                100.0 * self.share(),
                self.input_scale
            )
        })
    }
}

/// Executes the linear products of a pass as streams.
///
/// Install it with [`ForwardPass::set_linear_products`], in an [`Arc`](std::sync::Arc).
#[derive(Debug)]
pub struct StreamProducts {
    config: Config,
    context: usize,
    seed: u64,
    /// By the index of the product; products without a layer run in floating point.
    layers: Vec<Option<StreamedProduct>>,
}

/// One product as streams.
#[derive(Debug)]
struct StreamedProduct {
    layer: StreamLayer,
    input_scale: f64,
    stage: FloatStage,
    inputs: AtomicU64,
    saturated: AtomicU64,
}

/// Checks a configuration of streams for a model: names of products, lengths, generators, arithmetic.
///
/// # Errors
/// [`Error::LanguageOption`] for an unknown product or integer arithmetic, [`Error::Core`] for a length, width or generator that a product
/// cannot have.
pub fn check_config(model: &Config, streams: &StreamConfig) -> Result<()> {
    if streams.arithmetic != Arithmetic::Float {
        let remedy = "attention and norms are in floating point: use float".to_owned();
        return Err(Error::LanguageOption {
            option: "arithmetic",
            value: streams.arithmetic.to_string(),
            remedy,
        });
    }
    let known: Vec<String> = LinearId::all(model).iter().map(ToString::to_string).collect();
    let names: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    if let Some(name) = streams.layers.keys().find(|name| !names.contains(name.as_str())) {
        let (first, last) = (known.first(), known.last());
        let shown = first.into_iter().chain(last).cloned().collect::<Vec<_>>().join(" to ");
        let remedy =
            format!("the products of this model are {shown}: layers.N.qkv, .output, .up, .down and head");
        return Err(Error::LanguageOption {
            option: "layer",
            value: format!("\"{name}\" is unknown"),
            remedy,
        });
    }
    for linear in LinearId::all(model) {
        spec_of(model, streams, linear)?;
    }
    Ok(())
}

fn spec_of(model: &Config, streams: &StreamConfig, linear: LinearId) -> Result<aleatron_core::LayerSpec> {
    let [n_neurons, n_inputs] = linear.shape(model);
    let index = LayerIndex::new(linear.index(model))?;
    let settings = streams.settings_of(&linear.to_string());
    let topology = Topology::Dense { n_inputs, n_neurons };
    Ok(settings.spec(streams.seed, topology, Polarity::Signed, index)?)
}

/// Checks that the weights of all products fit together, as numbers and, if they are counted bit by bit, as streams.
fn check_memory(model: &Config, streams: &StreamConfig, selection: ProductSelection) -> Result<()> {
    if !streams.device.may_use_host_memory() {
        return Ok(());
    }
    let mut words = 0_u128;
    for linear in LinearId::all(model).into_iter().filter(|&linear| selection.includes(linear)) {
        let spec = spec_of(model, streams, linear)?;
        words += spec.n_weights() as u128;
        if CountMethod::Best.resolve(&spec)? == CountMethod::Bits {
            words += spec.weight_words() as u128;
        }
    }
    Ok(memory::check(8 * words, Quantity::Weights)?)
}

impl StreamProducts {
    /// Prepares the linear products of a pass as streams: scales their weights by rows, encodes them and uploads them to the device.
    ///
    /// The index of a sample is `sequence * context + position`, so `context` is the most positions of a sequence.
    ///
    /// # Errors
    /// As [`check_config`], and [`aleatron_core::Error::Memory`] if the weights do not fit, [`aleatron_core::Error::Backend`] if the
    /// device fails, [`aleatron_core::Error::Cancelled`].
    pub fn new(
        pass: &dyn ForwardPass,
        scales: &InputScales,
        streams: &StreamConfig,
        context: usize,
        selection: ProductSelection,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        let config = pass.config();
        super::plan::check_context(context, config)?;
        check_config(config, streams)?;
        check_memory(config, streams, selection)?;
        let all = LinearId::all(config);
        if scales.scales.len() != all.len() {
            let (expected, actual) = (all.len(), scales.scales.len());
            return Err(CoreError::Mismatch { what: Quantity::InputScale, expected, actual }.into());
        }
        let prepare = |(&linear, &input_scale): (&LinearId, &f64)| {
            cancel.check()?;
            let wanted = selection.includes(linear);
            wanted.then(|| StreamedProduct::new(pass, linear, input_scale, streams, cancel)).transpose()
        };
        let layers = all.iter().zip(&scales.scales).map(prepare).collect::<Result<_>>()?;
        Ok(Self { config: config.clone(), context, seed: streams.seed, layers })
    }

    /// Returns the layer of a product; `None` if it runs in floating point.
    #[must_use]
    pub fn layer(&self, linear: LinearId) -> Option<&StreamLayer> {
        Some(&self.layers.get(linear.index(&self.config))?.as_ref()?.layer)
    }

    /// Returns the input of a product that becomes 1; `None` if it runs in floating point.
    #[must_use]
    pub fn input_scale(&self, linear: LinearId) -> Option<f64> {
        Some(self.layers.get(linear.index(&self.config))?.as_ref()?.input_scale)
    }

    /// Returns how many inputs saturated so far, for each product that runs as streams.
    #[must_use]
    pub fn saturation(&self) -> Vec<Saturation> {
        let pairs = LinearId::all(&self.config).into_iter().zip(&self.layers);
        let seen = pairs.filter_map(|(linear, layer)| {
            let layer = layer.as_ref()?;
            Some(Saturation {
                linear,
                input_scale: layer.input_scale,
                inputs: layer.inputs.load(Ordering::Relaxed),
                saturated: layer.saturated.load(Ordering::Relaxed),
            })
        });
        seen.collect()
    }

    /// Returns the names of the backends that batches of `n_samples` run on, each once. Backends that [`Device::Auto`](aleatron_engine::Device::Auto) has yet to choose
    /// are missing.
    #[must_use]
    pub fn backends(&self, n_samples: usize) -> Vec<String> {
        let layers = self.layers.iter().flatten();
        let all: BTreeSet<String> =
            layers.filter_map(|product| product.layer.backend_for(n_samples)).collect();
        all.into_iter().collect()
    }

    /// Returns warnings about the generators of the layers, each once.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let layers = self.layers.iter().flatten();
        let all: BTreeSet<String> =
            layers.flat_map(|product| product.layer.warnings()).map(ToString::to_string).collect();
        all.into_iter().collect()
    }

    /// Returns the index of the sample at a position.
    fn sample(&self, at: TokenPosition) -> Result<u32> {
        if at.position >= self.context {
            let (value, limit) = (at.position, self.context);
            let remedy = "the streams of this model were prepared for shorter sequences".to_owned();
            let value = format!("{value} is not below the context of {limit}");
            return Err(Error::LanguageOption { option: "position", value, remedy });
        }
        let actual = u128::from(at.sequence) * self.context as u128 + at.position as u128;
        let limit = u128::from(u32::MAX);
        u32::try_from(actual).map_err(|_| CoreError::TooLarge { what: Quantity::Row, actual, limit }.into())
    }

    /// Returns the rows as runs of consecutive samples, each with its first sample.
    fn runs(&self, positions: &[TokenPosition]) -> Result<Vec<(Range<usize>, u32)>> {
        let mut runs: Vec<(Range<usize>, u32)> = Vec::new();
        for (row, &position) in positions.iter().enumerate() {
            let sample = self.sample(position)?;
            match runs.last_mut() {
                Some((rows, first)) if u64::from(*first) + rows.len() as u64 == u64::from(sample) => {
                    rows.end = row + 1;
                }
                _ => runs.push((row..row + 1, sample)),
            }
        }
        Ok(runs)
    }

    fn outputs(&self, product: &LinearProduct<'_>, out: &mut [f32]) -> Result<ProductOutcome> {
        let slot = self.layers.get(product.linear.index(&self.config));
        let Some(streamed) = slot.and_then(Option::as_ref) else { return Ok(ProductOutcome::Declined) };
        let spec = streamed.layer.spec();
        let (n, m) = (spec.n_inputs(), spec.n_neurons());
        let sizes =
            [(product.inputs.len(), product.positions.len() * n), (out.len(), product.positions.len() * m)];
        if let Some(&(actual, expected)) = sizes.iter().find(|(actual, expected)| actual != expected) {
            return Err(CoreError::Mismatch { what: Quantity::Inputs, expected, actual }.into());
        }
        for (rows, first) in self.runs(product.positions)? {
            let inputs = &product.inputs[rows.start * n..rows.end * n];
            let seed = SampleSeed::new(self.seed).starting_at(first);
            let values = streamed.run(inputs, seed)?;
            let out = &mut out[rows.start * m..rows.end * m];
            out.iter_mut().zip(values).for_each(|(out, value)| *out = value as f32);
        }
        Ok(ProductOutcome::Computed)
    }
}

impl StreamedProduct {
    fn new(
        pass: &dyn ForwardPass,
        linear: LinearId,
        input_scale: f64,
        streams: &StreamConfig,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        let [n_neurons, n_inputs] = linear.shape(pass.config());
        let weights = pass.linear_weights(linear)?;
        let scales = weight_scales(&weights, n_inputs, WeightScale::PerRow);
        let settings = streams.settings_of(&linear.to_string());
        let layer = StreamLayer::dense(n_inputs, n_neurons)
            .signed()
            .length(settings.length)
            .generator(settings.generator)
            .width(settings.width)
            .sharing(settings.sharing)
            .seed(streams.seed)
            .at(LayerIndex::new(linear.index(pass.config()))?)
            .weights(&scaled_weights(&weights, n_inputs, &scales))
            .device(streams.device.clone())
            .build_unless(cancel)?;
        let stage = FloatStage {
            scales: scales.iter().map(|scale| input_scale * scale).collect(),
            bias: vec![0.0; n_neurons],
            activation: Activation::Identity,
        };
        let (inputs, saturated) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { layer, input_scale, stage, inputs, saturated })
    }

    /// Returns the outputs of consecutive samples.
    fn run(&self, inputs: &[f32], seed: SampleSeed) -> Result<Vec<f64>> {
        let mut values = memory::with_capacity(inputs.len() as u128, Quantity::Inputs)?;
        values.extend(inputs.iter().map(|&x| f64::from(x)));
        let saturated = saturate(&mut values, self.input_scale, Polarity::Signed);
        let counts = self.layer.count(&Batch::values(&values, seed), Cancel::NEVER)?;
        self.inputs.fetch_add(inputs.len() as u64, Ordering::Relaxed);
        self.saturated.fetch_add(saturated, Ordering::Relaxed);
        Ok(self.stage.outputs(self.layer.spec(), &counts))
    }
}

impl LinearProducts for StreamProducts {
    fn product(
        &self,
        product: &LinearProduct<'_>,
        outputs: &mut [f32],
    ) -> aleatron_transformer::Result<ProductOutcome> {
        self.outputs(product, outputs).map_err(|error| match error {
            Error::Transformer(error) => error,
            error => TransformerError::Product { linear: product.linear, source: Box::new(error) },
        })
    }
}
