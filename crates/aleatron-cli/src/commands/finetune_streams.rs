//! `aleatron finetune --stream-length BITS`: the linear products of fine-tuning as streams.

use super::names::read_name;
use super::source::read_share;
use super::{Failure, language, read_length};
use crate::interrupt;
use aleatron::eval::language::{DEFAULT_SHARE, InputScales, check_config, with_width};
use aleatron::generator::{GeneratorName, WidthChoice};
use aleatron::network::StreamConfig;
use aleatron::train::language::{Corpus, LanguageModel, LanguageStreams, ProductKind};
use aleatron::transformer::{Config, ModelSource};
use aleatron::{Cancel, Device};

/// The largest number of tokens for measuring input scales.
const CALIBRATION_LIMIT: usize = 4096;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Streams")]
pub(crate) struct StreamOptions {
    /// Train through streams of this many bits: the forward pass is that of aleatron eval --lora,
    /// gradients are those of floating point.
    #[arg(long, value_name = "BITS", value_parser = read_length, allow_hyphen_values = true)]
    stream_length: Option<usize>,
    /// The generator of streams.
    #[arg(long, value_name = "NAME", requires = "stream_length", default_value_t = GeneratorName::Bernoulli,
        value_parser = read_name::<GeneratorName>)]
    generator: GeneratorName,
    /// Bits of the sequences that streams share, 1 to 32, or auto.
    #[arg(long, value_name = "BITS", requires = "stream_length", default_value = "auto", value_parser = read_name::<WidthChoice>)]
    width: WidthChoice,
    /// The share of inputs that the scale of a product must cover; the others saturate.
    #[arg(long, value_name = "SHARE", requires = "stream_length", value_parser = read_share, allow_hyphen_values = true, default_value_t = DEFAULT_SHARE)]
    percentile: f64,
    /// Where linear products run: auto, cpu, gpu, gpu:1 or cuda. It changes times and nothing
    /// else.
    #[arg(long, value_name = "DEVICE", requires = "stream_length", default_value_t, value_parser = read_name::<Device>)]
    stream_device: Device,
}

impl StreamOptions {
    /// Checks everything that can be known before the weights are read.
    pub(crate) fn check(&self, config: &Config) -> Result<(), Failure> {
        match self.config()? {
            Some(streams) => check_config(config, &streams).map_err(Failure::usage),
            None => Ok(()),
        }
    }

    /// Returns the arithmetic of linear products.
    pub(crate) fn products(&self) -> ProductKind {
        if self.stream_length.is_some() { ProductKind::Streams } else { ProductKind::Float }
    }

    fn config(&self) -> Result<Option<StreamConfig>, Failure> {
        let Some(length) = self.stream_length else { return Ok(None) };
        let mut config = StreamConfig::new(length).generator(self.generator).width(self.width);
        config.settings = with_width(config.settings)?;
        Ok(Some(config.device(self.stream_device.clone())))
    }

    /// Runs the linear products of a model as streams, if requested, with input scales of the first
    /// sequences.
    pub(crate) fn install(
        &self,
        model: LanguageModel,
        source: &ModelSource,
        corpus: &Corpus,
    ) -> Result<LanguageModel, Failure> {
        let Some(streams) = self.config()? else { return Ok(model) };
        let tokens = corpus.sequences.iter().flat_map(|sequence| sequence.tokens().iter().copied());
        let tokens: Vec<u32> = tokens.take(CALIBRATION_LIMIT).collect();
        let mut base = language::load(source, None, None)?;
        let context = base.config().max_positions;
        let cancel = Cancel::when(&interrupt::is_pressed);
        let scales = InputScales::measure(base.pass(), &tokens, context, self.percentile, cancel)?;
        Ok(model.with_streams(LanguageStreams { streams, input_scales: scales.scales })?)
    }

    /// Returns a few words for the output.
    pub(crate) fn summary(&self) -> String {
        match self.stream_length {
            Some(length) => format!(", through {} streams of {length} bits", self.generator),
            None => String::new(),
        }
    }
}
