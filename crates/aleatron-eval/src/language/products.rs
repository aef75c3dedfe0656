//! The linear products of a transformer as stream layers.

use super::calibrate::InputScales;
use super::head::{HeadCounts, HeadTermination};
use crate::{Error, Result};
use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::generator::{GeneratorName, Width, WidthChoice};
use aleatron_core::{
    Cancel, Error as CoreError, LayerIndex, Length, Polarity, Quantity, SampleSeed, Topology,
    memory,
};
use aleatron_engine::backend::CountMethod;
use aleatron_engine::network::{InputRange, LayerSettings, StreamConfig};
use aleatron_engine::{StreamLayer, StreamProduct};
use aleatron_transformer::{
    Config, Error as TransformerError, ForwardPass, LinearId, LinearProduct, LinearProducts,
    ProductOutcome, TokenPosition,
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

/// The number of inputs of a linear product outside the interval of its streams.
#[derive(Debug, Clone, PartialEq)]
pub struct Saturation {
    /// The product.
    pub linear: LinearId,
    /// The input that becomes 1.
    pub input_scale: f64,
    /// The inputs that were encoded.
    pub inputs: u64,
    /// The number of saturated inputs.
    pub saturated: u64,
}

impl Saturation {
    /// Returns the share of inputs that saturated.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.inputs == 0 { 0.0 } else { self.saturated as f64 / self.inputs as f64 }
    }

    /// Returns a warning if more inputs saturated than calibration explains, by the rule for
    /// networks.
    #[must_use]
    pub fn warning(&self, config: &Config) -> Option<String> {
        let counts = [self.inputs, self.saturated];
        saturation_warning(
            &self.linear.to_string(),
            self.linear.index(config),
            self.input_scale,
            counts,
        )
    }
}

/// Returns a warning if more inputs of a product saturated than calibration explains; `counts` are
/// all inputs and those that saturated.
pub(super) fn saturation_warning(
    name: &str,
    layer: usize,
    scale: f64,
    [inputs, saturated]: [u64; 2],
) -> Option<String> {
    let saturated = saturated as f64 / inputs.max(1) as f64;
    let range =
        InputRange { layer, name: name.to_owned(), scale, saturated, largest: 1.0, small: 0.0 };
    range.warning().map(|_| {
        format!(
            "product \"{name}\": {:.1} % of its inputs saturate at the input scale {scale}; calibrate with more text of the same kind",
            100.0 * saturated,
        )
    })
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
    /// Early termination of the head, if it is measured.
    head: Option<HeadTermination>,
}

/// One product as streams.
#[derive(Debug)]
struct StreamedProduct {
    product: StreamProduct,
    inputs: AtomicU64,
    saturated: AtomicU64,
}

/// Checks a configuration of streams for a model: names of products, lengths, generators,
/// arithmetic.
///
/// # Errors
/// [`Error::LanguageOption`] for an unknown product or integer arithmetic, [`Error::Core`] for a
/// length, width or generator that a product cannot have.
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
        let remedy = format!(
            "the products of this model are {shown}: layers.N.qkv, .output, .up, .down and head"
        );
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

/// Returns the settings of a product, with the automatic width resolved.
fn settings_of(streams: &StreamConfig, product: &str) -> Result<LayerSettings> {
    with_width(streams.settings_of(product))
}

/// Returns settings with the automatic width of language models: that of the specification, but at
/// most n - 1 bits for streams of 2^n bits.
///
/// The first 2^n integers of a Sobol sequence of W > n bits are the multiples of 2^(W - n), so that
/// thresholds between two of them count as the greater one, and products are too large. With fewer
/// bits the counts of products are closer to the products of the thresholds, and the thresholds are
/// rounded more. For weights of language models, n - 1 bits add the least loss.
///
/// # Errors
/// [`Error::Core`] for a length of 0.
pub fn with_width(settings: LayerSettings) -> Result<LayerSettings> {
    let (generator, length) = (settings.generator, Length::new(settings.length)?);
    let width = settings.width.resolve(&generator, length);
    let width = match settings.width {
        // Registers and ramps need a whole period.
        WidthChoice::Auto if !generator.needs_whole_period() => {
            width.min(Width::new(Width::covered_by(length).bits() - 1)?)
        }
        WidthChoice::Auto | WidthChoice::Fixed(_) => width,
    };
    Ok(LayerSettings { width: width.into(), ..settings })
}

/// Returns the width of the shared sequences of products without settings of their own; `None` for
/// Bernoulli streams, which share none.
pub(super) fn width_of(streams: &StreamConfig) -> Result<Option<u32>> {
    let settings = with_width(streams.settings)?;
    let width = settings.width.resolve(&settings.generator, Length::new(settings.length)?);
    Ok((settings.generator != GeneratorName::Bernoulli).then(|| width.bits()))
}

fn spec_of(
    model: &Config,
    streams: &StreamConfig,
    linear: LinearId,
) -> Result<aleatron_core::LayerSpec> {
    let [n_neurons, n_inputs] = linear.shape(model);
    let index = LayerIndex::new(linear.index(model))?;
    let settings = settings_of(streams, &linear.to_string())?;
    let topology = Topology::Dense { n_inputs, n_neurons };
    Ok(settings.spec(streams.seed, topology, Polarity::Signed, index)?)
}

/// Checks that the weights of all products fit together, as numbers and, if they are counted bit by
/// bit, as streams.
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
    /// Prepares the linear products of a pass as streams: scales their weights by rows, encodes
    /// them and uploads them to the device.
    ///
    /// The index of a sample is `sequence * context + position`, so `context` is the most positions
    /// of a sequence.
    ///
    /// # Errors
    /// As [`check_config`], and [`aleatron_core::Error::Memory`] if the weights do not fit,
    /// [`aleatron_core::Error::Backend`] if the device fails,
    /// [`aleatron_core::Error::Cancelled`].
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
            wanted
                .then(|| StreamedProduct::new(pass, linear, input_scale, streams, cancel))
                .transpose()
        };
        let layers = all.iter().zip(&scales.scales).map(prepare).collect::<Result<_>>()?;
        Ok(Self { config: config.clone(), context, seed: streams.seed, layers, head: None })
    }

    /// Also measures early termination of the head at some decision margins, which changes no
    /// output.
    pub(super) fn with_head_termination(
        mut self,
        pass: &dyn ForwardPass,
        streams: &StreamConfig,
        margins: &[f64],
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        let head = self.layers.get(LinearId::Head.index(&self.config)).and_then(Option::as_ref);
        let Some(head) = head.filter(|_| !margins.is_empty()) else { return Ok(self) };
        let settings = settings_of(streams, &LinearId::Head.to_string())?;
        self.head = Some(HeadTermination::new(&head.product, margins, |length| {
            let settings = LayerSettings { length, ..settings };
            build(pass, LinearId::Head, head.product.input_scale(), &settings, streams, cancel)
        })?);
        Ok(self)
    }

    /// Returns the counts of early termination of the head so far, for each margin in ascending
    /// order; none if it is not measured.
    pub(super) fn head_counts(&self) -> Vec<HeadCounts> {
        self.head.as_ref().map(HeadTermination::counts).unwrap_or_default()
    }

    /// Returns the layer of a product; `None` if it runs in floating point.
    #[must_use]
    pub fn layer(&self, linear: LinearId) -> Option<&StreamLayer> {
        Some(self.layers.get(linear.index(&self.config))?.as_ref()?.product.layer())
    }

    /// Returns the input of a product that becomes 1; `None` if it runs in floating point.
    #[must_use]
    pub fn input_scale(&self, linear: LinearId) -> Option<f64> {
        Some(self.layers.get(linear.index(&self.config))?.as_ref()?.product.input_scale())
    }

    /// Returns how many inputs saturated so far, for each product that runs as streams.
    #[must_use]
    pub fn saturation(&self) -> Vec<Saturation> {
        let layers = self.layers.iter().zip(self.saturation_counts());
        let pairs = LinearId::all(&self.config).into_iter().zip(layers);
        let seen = pairs.filter_map(|(linear, (layer, [inputs, saturated]))| {
            Some(Saturation {
                linear,
                input_scale: layer.as_ref()?.product.input_scale(),
                inputs,
                saturated,
            })
        });
        seen.collect()
    }

    /// Returns the inputs of each product so far and those that saturated; none of products in
    /// floating point.
    pub(super) fn saturation_counts(&self) -> Vec<[u64; 2]> {
        let count = |layer: &Option<StreamedProduct>| {
            let layer = layer.as_ref();
            layer.map_or([0; 2], |own| {
                [&own.inputs, &own.saturated].map(|n| n.load(Ordering::Relaxed))
            })
        };
        self.layers.iter().map(count).collect()
    }

    /// Returns the names of the backends that batches of `n_samples` run on, each once. Backends
    /// that [`Device::Auto`](aleatron_engine::Device::Auto) has yet to choose are missing.
    #[must_use]
    pub fn backends(&self, n_samples: usize) -> Vec<String> {
        let layers = self.layers.iter().flatten();
        let all: BTreeSet<String> =
            layers.filter_map(|own| own.product.layer().backend_for(n_samples)).collect();
        all.into_iter().collect()
    }

    /// Returns warnings about the generators of the layers, each once.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let layers = self.layers.iter().flatten();
        let all: BTreeSet<String> = layers
            .flat_map(|own| own.product.layer().warnings())
            .map(ToString::to_string)
            .collect();
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
        u32::try_from(actual)
            .map_err(|_| CoreError::TooLarge { what: Quantity::Row, actual, limit }.into())
    }

    /// Returns the rows as runs of consecutive samples, each with its first sample.
    fn runs(&self, positions: &[TokenPosition]) -> Result<Vec<(Range<usize>, u32)>> {
        let mut runs: Vec<(Range<usize>, u32)> = Vec::new();
        for (row, &position) in positions.iter().enumerate() {
            let sample = self.sample(position)?;
            match runs.last_mut() {
                Some((rows, first))
                    if u64::from(*first) + rows.len() as u64 == u64::from(sample) =>
                {
                    rows.end = row + 1;
                }
                _ => runs.push((row..row + 1, sample)),
            }
        }
        Ok(runs)
    }

    fn outputs(&self, product: &LinearProduct<'_>, out: &mut [f32]) -> Result<ProductOutcome> {
        let slot = self.layers.get(product.linear.index(&self.config));
        let Some(streamed) = slot.and_then(Option::as_ref) else {
            return Ok(ProductOutcome::Declined);
        };
        let spec = streamed.product.layer().spec();
        let (n, m) = (spec.n_inputs(), spec.n_neurons());
        let sizes = [
            (product.inputs.len(), product.positions.len() * n),
            (out.len(), product.positions.len() * m),
        ];
        if let Some(&(actual, expected)) =
            sizes.iter().find(|(actual, expected)| actual != expected)
        {
            return Err(CoreError::Mismatch { what: Quantity::Inputs, expected, actual }.into());
        }
        for (rows, first) in self.runs(product.positions)? {
            let inputs = &product.inputs[rows.start * n..rows.end * n];
            let seed = SampleSeed::new(self.seed).starting_at(first);
            let values = streamed.run(inputs, seed)?;
            if let Some(head) = self.head.as_ref().filter(|_| product.linear == LinearId::Head) {
                head.observe(&streamed.product, inputs, &values, seed)?;
            }
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
        let settings = settings_of(streams, &linear.to_string())?;
        let product = build(pass, linear, input_scale, &settings, streams, cancel)?;
        Ok(Self { product, inputs: AtomicU64::new(0), saturated: AtomicU64::new(0) })
    }

    /// Returns the outputs of consecutive samples.
    fn run(&self, inputs: &[f32], seed: SampleSeed) -> Result<Vec<f64>> {
        let (outputs, saturated) = self.product.run(inputs, seed)?;
        self.inputs.fetch_add(inputs.len() as u64, Ordering::Relaxed);
        self.saturated.fetch_add(saturated, Ordering::Relaxed);
        Ok(outputs)
    }
}

/// Prepares a product of a pass as streams.
fn build(
    pass: &dyn ForwardPass,
    linear: LinearId,
    input_scale: f64,
    settings: &LayerSettings,
    streams: &StreamConfig,
    cancel: Cancel<'_>,
) -> Result<StreamProduct> {
    let index = LayerIndex::new(linear.index(pass.config()))?;
    let (weights, n_inputs) = (pass.linear_weights(linear)?, linear.shape(pass.config())[1]);
    let (seed, device) = (streams.seed, &streams.device);
    Ok(StreamProduct::new(&weights, n_inputs, input_scale, settings, seed, index, device, cancel)?)
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
