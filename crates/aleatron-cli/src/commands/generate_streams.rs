//! `aleatron generate --length BITS`: the linear products of a transformer as streams.

use super::names::read_name;
use super::source::read_share;
use super::{Failure, read_length};
use crate::{interrupt, output};
use aleatron::eval::language::{
    DEFAULT_SHARE, InputScales, LanguageText, ProductSelection, StreamProducts, check_config,
};
use aleatron::generator::{GeneratorName, WidthChoice};
use aleatron::network::StreamConfig;
use aleatron::transformer::{Config, DeviceChoice, ModelSource, Transformer};
use aleatron::{Cancel, Device};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// The largest number of tokens of a text for measuring input scales.
const CALIBRATION_LIMIT: usize = 4096;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Streams")]
pub(crate) struct StreamOptions {
    /// Run every linear product as streams of this many bits; adapters are added to the weights.
    #[arg(long, value_name = "BITS", value_parser = read_length)]
    length: Option<usize>,
    /// The generator of streams.
    #[arg(long, value_name = "NAME", requires = "length", default_value_t = GeneratorName::Bernoulli,
        value_parser = read_name::<GeneratorName>)]
    generator: GeneratorName,
    /// Bits of the sequences that streams share, 1 to 32, or auto.
    #[arg(long, value_name = "BITS", requires = "length", default_value = "auto", value_parser = read_name::<WidthChoice>)]
    width: WidthChoice,
    /// A text to measure input scales on, at most its first 4096 tokens; if not given, the prompt,
    /// or for bytes the text in the program.
    #[arg(long, value_name = "FILE", requires = "length")]
    text: Option<PathBuf>,
    /// The share of inputs that the scale of a product must cover; the others saturate.
    #[arg(long, value_name = "SHARE", requires = "length", value_parser = read_share, default_value_t = DEFAULT_SHARE)]
    percentile: f64,
    /// The seed of streams.
    #[arg(long, value_name = "S", requires = "length", default_value_t = 0)]
    stream_seed: u64,
    /// Where linear products run: auto, cpu, gpu, gpu:1 or cuda. It changes times and nothing
    /// else.
    #[arg(long, value_name = "DEVICE", requires = "length", default_value_t, value_parser = read_name::<Device>)]
    stream_device: Device,
}

/// A report of the linear products of a generation, for `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct StreamReport {
    length: usize,
    generator: String,
    seed: u64,
    device: String,
    backends: Vec<String>,
    calibration_tokens: usize,
    saturated: f64,
}

/// The linear products of a model, installed as streams.
pub(crate) struct InstalledStreams {
    length: usize,
    generator: String,
    seed: u64,
    device: String,
    calibration_tokens: usize,
    products: Arc<StreamProducts>,
    config: Config,
}

impl StreamOptions {
    /// Returns whether streams are requested.
    pub(crate) fn is_given(&self) -> bool {
        self.length.is_some()
    }

    /// Checks everything that can be known before the weights are read.
    pub(crate) fn check(&self, source: &ModelSource, device: DeviceChoice) -> Result<(), Failure> {
        let Some(length) = self.length else { return Ok(()) };
        if let DeviceChoice::Gpu(_) = device {
            return Err(Failure::Usage(format!(
                "--device {device}: with --length, attention and norms run on the CPU; choose the device of products with --stream-device"
            )));
        }
        check_config(&source.config()?, &self.config(length)).map_err(Failure::usage)
    }

    fn config(&self, length: usize) -> StreamConfig {
        let config = StreamConfig::new(length).generator(self.generator).width(self.width);
        config.seed(self.stream_seed).device(self.stream_device.clone())
    }

    /// Measures input scales and runs the linear products of a model as streams, if requested.
    pub(crate) fn install(
        &self,
        model: &mut Transformer,
        source: &ModelSource,
        prompt: &[u32],
    ) -> Result<Option<InstalledStreams>, Failure> {
        let Some(length) = self.length else { return Ok(None) };
        let text = match (&self.text, source) {
            (Some(path), _) => Some(LanguageText::read(path, model.tokenizer()?)?),
            (None, ModelSource::Embedded) => Some(LanguageText::embedded(model.tokenizer()?)?),
            (None, ModelSource::Folder(_)) => None,
        };
        let calibration = match &text {
            Some(text) => {
                text.check_vocabulary(model.config())?;
                text.tokens()[..text.tokens().len().min(CALIBRATION_LIMIT)].to_vec()
            }
            None => prompt.to_vec(),
        };
        if text.is_none() {
            output::message(format!(
                "warning: input scales are measured on the prompt of {} tokens; give a longer text with --text FILE",
                prompt.len()
            ));
        }
        let config = model.config().clone();
        let (context, pass) = (config.max_positions, model.pass());
        interrupt::watch();
        let cancel = Cancel::when(&interrupt::is_pressed);
        let scales = InputScales::measure(pass, &calibration, context, self.percentile, cancel)?;
        let streams = self.config(length);
        let products =
            StreamProducts::new(pass, &scales, &streams, context, ProductSelection::All, cancel)?;
        let products = Arc::new(products);
        for warning in products.warnings() {
            output::message(format!("warning: {warning}"));
        }
        pass.set_linear_products(Some(Arc::clone(&products) as _))?;
        Ok(Some(InstalledStreams {
            length,
            generator: self.generator.to_string(),
            seed: self.stream_seed,
            device: self.stream_device.to_string(),
            calibration_tokens: scales.tokens,
            products,
            config,
        }))
    }
}

impl InstalledStreams {
    /// Prints warnings about inputs that saturated, and returns how the products ran.
    pub(crate) fn finish(&self) -> StreamReport {
        let seen = self.products.saturation();
        for warning in seen.iter().filter_map(|seen| seen.warning(&self.config)) {
            output::message(format!("warning: {warning}"));
        }
        let inputs: u64 = seen.iter().map(|seen| seen.inputs).sum();
        let saturated: u64 = seen.iter().map(|seen| seen.saturated).sum();
        StreamReport {
            length: self.length,
            generator: self.generator.clone(),
            seed: self.seed,
            device: self.device.clone(),
            backends: self.products.backends(1),
            calibration_tokens: self.calibration_tokens,
            saturated: saturated as f64 / inputs.max(1) as f64,
        }
    }
}

impl StreamReport {
    /// Returns a few words for the summary.
    pub(crate) fn summary(&self) -> String {
        let Self { generator, length, device, backends, .. } = self;
        format!(
            ", linear products as {generator} streams of {length} bits on {device} ({})",
            backends.join(", ")
        )
    }
}
