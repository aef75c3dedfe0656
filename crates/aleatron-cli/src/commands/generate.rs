//! `aleatron generate`: continues a text with a transformer and prints it as it is generated.

use super::generate_streams::{StreamOptions, StreamReport};
use super::language;
use super::names::read_name;
use super::{Failure, Outcome};
use crate::{Verdict, interrupt, output};
use aleatron::transformer::{
    AdapterId, DeviceChoice, GenerateOptions, GenerationOverrides, LoadOptions, ModelSource,
    Precision, TextStream, Transformer,
};
use serde::Serialize;
use std::hash::{BuildHasher, RandomState};
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    aleatron generate MODEL_DIR \"Once upon a time\"\n  \
    aleatron generate MODEL_DIR \"Once upon a time\" --length 256 --generator sobol")]
pub(crate) struct Arguments {
    /// A folder with config.json, .safetensors files and tokenizer.json, or bytes, a small model
    /// in the program.
    model: PathBuf,
    /// The text to continue; standard input if not given.
    prompt: Option<String>,
    /// Token ids instead of a text, for models without a tokenizer.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "ID,...",
        conflicts_with = "prompt",
        help_heading = "Text"
    )]
    tokens: Option<Vec<u32>>,
    /// A folder with an adapter: adapter_config.json and adapter_model.safetensors.
    #[arg(long, value_name = "DIR", help_heading = "Model")]
    lora: Option<PathBuf>,
    /// The most tokens to make.
    #[arg(long, value_name = "N", default_value_t = GenerateOptions::default().max_tokens, help_heading = "Text")]
    max_tokens: usize,
    /// Divides logits; 0 always takes the most probable token. Options not given are those of the
    /// model's generation_config.json.
    #[arg(long, value_name = "T", allow_hyphen_values = true, help_heading = "Text")]
    temperature: Option<f32>,
    /// Keeps the K most probable tokens; 0 for all.
    #[arg(long, value_name = "K", help_heading = "Text")]
    top_k: Option<u32>,
    /// Keeps the most probable tokens whose probabilities add up to P.
    #[arg(long, value_name = "P", allow_hyphen_values = true, help_heading = "Text")]
    top_p: Option<f32>,
    /// Divides positive logits of tokens that the text contains already and multiplies negative
    /// ones; 1 for none.
    #[arg(long, value_name = "F", allow_hyphen_values = true, help_heading = "Text")]
    repetition_penalty: Option<f32>,
    /// The seed of random choices; a new one for each call if not given.
    #[arg(long, value_name = "S", help_heading = "Text")]
    seed: Option<u64>,
    /// Where to run: auto, cpu, gpu or gpu:1.
    #[arg(long, default_value_t = DeviceChoice::Auto, value_parser = read_name::<DeviceChoice>, help_heading = "Execution")]
    device: DeviceChoice,
    /// How weights are stored: f32, f16 or int8; f16 if not given, and f32 with --length.
    #[arg(long, value_parser = read_name::<Precision>, help_heading = "Model")]
    precision: Option<Precision>,
    #[command(flatten)]
    streams: StreamOptions,
    /// Print JSON instead of text.
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    device: String,
    prompt_tokens: usize,
    temperature: f32,
    top_k: u32,
    top_p: f32,
    repetition_penalty: f32,
    seed: u64,
    tokens: Vec<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    prefill_seconds: f64,
    tokens_per_second: f64,
    interrupted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<StreamReport>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let given = GenerationOverrides {
        temperature: arguments.temperature,
        top_k: arguments.top_k,
        top_p: arguments.top_p,
        repetition_penalty: arguments.repetition_penalty,
    };
    GenerateOptions::default().with(&given).check().map_err(Failure::usage)?;
    let source = ModelSource::named(&arguments.model);
    arguments.streams.check(&source, arguments.device)?;
    let (mut model, adapter) = arguments.load(&source)?;
    let device = model.device();
    let prompt = arguments.prompt(&model)?;
    let streams = arguments.streams.install(&mut model, &source, &prompt)?;
    let tokenizer = model.tokenizer().ok().cloned();
    for option in &model.generation().unsupported {
        output::message(format!(
            "warning: generation_config.json: {option} is not supported and has no effect"
        ));
    }
    let seed = arguments.seed.unwrap_or_else(random_seed);
    let GenerateOptions { sampling, repetition_penalty, .. } =
        model.generation().options(&given, seed);
    let generating =
        GenerateOptions { max_tokens: arguments.max_tokens, sampling, repetition_penalty, adapter };
    interrupt::watch();
    let (start, mut stream, mut tokens) = (Instant::now(), TextStream::default(), Vec::new());
    let mut generation = model.generate(&prompt, &generating)?;
    let prefill_seconds = start.elapsed().as_secs_f64();
    let (start, mut text) = (Instant::now(), String::new());
    let mut interrupted = false;
    for token in &mut generation {
        let token = token?;
        tokens.push(token);
        let new = match &tokenizer {
            Some(tokenizer) => stream.push(tokenizer, token)?,
            None => format!("{token} "),
        };
        if !arguments.json && !output::text(&new)? {
            return Ok(Verdict::Good);
        }
        text += &new;
        if interrupt::is_pressed() {
            interrupted = true;
            break;
        }
    }
    if let Some(tokenizer) = &tokenizer {
        let rest = stream.finish(tokenizer)?;
        if !arguments.json && !output::text(&rest)? {
            return Ok(Verdict::Good);
        }
        text += &rest;
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(generation);
    let streams = streams.map(|streams| streams.finish());
    // The first token comes with the prompt.
    let tokens_per_second = tokens.len().saturating_sub(1) as f64 / seconds.max(1e-9);
    if arguments.json {
        let text = tokenizer.is_some().then_some(text);
        let prompt_tokens = prompt.len();
        output::json(&Report {
            device,
            prompt_tokens,
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            repetition_penalty,
            seed,
            tokens,
            text,
            prefill_seconds,
            tokens_per_second,
            interrupted,
            streams,
        })?;
        return Ok(Verdict::Good);
    }
    output::line("")?;
    let ended = if interrupted { ", interrupted" } else { "" };
    let chosen = match sampling.temperature {
        0.0 => String::new(),
        temperature => format!(", temperature {temperature} with --seed {seed}"),
    };
    let summary = format!(
        "{} tokens after a prompt of {}, {tokens_per_second:.1} tokens/s, prompt {:.1} ms, {} on {device}{chosen}{}{ended}",
        tokens.len(),
        prompt.len(),
        prefill_seconds * 1e3,
        model.precision(),
        streams.map(|streams| streams.summary()).unwrap_or_default(),
    );
    // Text that is read by a program stays text.
    if std::io::stdout().is_terminal() {
        output::line(summary)?
    } else {
        output::message(summary)
    }
    Ok(Verdict::Good)
}

impl Arguments {
    /// Loads the model and its adapter. With streams, the adapter is part of the weights.
    fn load(&self, source: &ModelSource) -> Result<(Transformer, Option<AdapterId>), Failure> {
        if self.streams.is_given() {
            return Ok((language::load(source, self.precision, self.lora.as_deref())?, None));
        }
        let precision = self.precision.unwrap_or(Precision::F16);
        let options = LoadOptions { device: self.device, precision, ..LoadOptions::default() };
        let mut model = Transformer::load(source, &options)?;
        let adapter = self.lora.as_deref().map(|folder| model.load_adapter(folder)).transpose()?;
        Ok((model, adapter))
    }

    /// Returns the tokens to continue.
    fn prompt(&self, model: &Transformer) -> Result<Vec<u32>, Failure> {
        Ok(match (&self.tokens, &self.prompt) {
            (Some(tokens), _) => tokens.clone(),
            (None, Some(text)) => model.tokenizer()?.encode(text)?,
            (None, None) => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text)?;
                model.tokenizer()?.encode(text.trim_end_matches('\n'))?
            }
        })
    }
}

/// Returns a seed that differs from call to call.
fn random_seed() -> u64 {
    // The standard library keys its hash maps with random numbers of the system.
    RandomState::new().hash_one(std::process::id())
}
