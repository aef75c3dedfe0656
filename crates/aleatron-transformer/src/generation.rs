//! The defaults of generation of a model's folder, read from `generation_config.json`.

use std::path::Path;

use serde_json::Value;

use crate::config::{Config, end_tokens};
use crate::error::{Error, Result};
use crate::options::{Options, read_object};
use crate::penalty::RepetitionPenalty;
use crate::sampling::Sampling;
use crate::transformer::GenerateOptions;

/// The defaults of a model for generating text.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationConfig {
    /// The tokens that end a text.
    pub end_tokens: Vec<u32>,
    /// The way tokens are chosen, with seed 0. The temperature is 0 unless the file requests
    /// sampling; `top_k` and `top_p` apply to callers that choose another temperature as well.
    pub sampling: Sampling,
    /// The factor of [`GenerateOptions::repetition_penalty`].
    pub repetition_penalty: f32,
    /// Options of the file that change texts and are not supported, as `name: value`.
    pub unsupported: Vec<String>,
}

/// The options of a call that differ from a model's defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GenerationOverrides {
    /// Replaces [`Sampling::temperature`].
    pub temperature: Option<f32>,
    /// Replaces [`Sampling::top_k`].
    pub top_k: Option<u32>,
    /// Replaces [`Sampling::top_p`].
    pub top_p: Option<f32>,
    /// Replaces [`GenerationConfig::repetition_penalty`].
    pub repetition_penalty: Option<f32>,
}

/// Options that do not affect tokens: special tokens at other positions, lengths, caches, what is
/// returned, versions.
const IRRELEVANT: &[&str] = &[
    "_from_model_config",
    "bos_token_id",
    "cache_implementation",
    "decoder_start_token_id",
    "disable_compile",
    "max_length",
    "max_new_tokens",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "return_dict_in_generate",
    "transformers_version",
    "use_cache",
];

/// Options that are not supported, with the value that changes nothing.
const NEUTRAL: &[(&str, f64)] = &[
    ("diversity_penalty", 0.0),
    ("encoder_no_repeat_ngram_size", 0.0),
    ("encoder_repetition_penalty", 1.0),
    ("epsilon_cutoff", 0.0),
    ("eta_cutoff", 0.0),
    ("guidance_scale", 1.0),
    ("length_penalty", 1.0),
    ("min_length", 0.0),
    ("min_new_tokens", 0.0),
    ("min_p", 0.0),
    ("no_repeat_ngram_size", 0.0),
    ("num_beam_groups", 1.0),
    ("num_beams", 1.0),
    ("top_h", 1.0),
    ("typical_p", 1.0),
];

/// The defaults of Hugging Face transformers for models without defaults.
const DEFAULT: Sampling = Sampling { temperature: 0.0, top_k: 50, top_p: 1.0, seed: 0 };

impl GenerationConfig {
    /// Returns the defaults of a folder without `generation_config.json`: the end tokens of
    /// `config.json`, and the token with the largest logit; those of Hugging Face transformers
    /// for callers that choose a temperature.
    #[must_use]
    pub fn of_config(config: &Config) -> Self {
        let end_tokens = config.end_tokens.clone();
        Self { end_tokens, sampling: DEFAULT, repetition_penalty: 1.0, unsupported: Vec::new() }
    }

    /// Reads `generation_config.json`. It replaces the end tokens of `config.json`, even if it has
    /// none.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Format`] for a file that cannot be read,
    /// [`Error::UnknownOption`] for a value of another type, [`Error::Sampling`] for one out of
    /// range.
    pub fn read(path: &Path) -> Result<Self> {
        let map = read_object(path)?;
        let options = Options::new(&map, "");
        options.ignore(IRRELEVANT);
        for &(name, neutral) in NEUTRAL {
            if map.get(name).and_then(Value::as_f64) == Some(neutral) {
                options.ignore(&[name]);
            }
        }
        let end_tokens = end_tokens(&options, None)?;
        let sampling = read_sampling(&options)?;
        let repetition_penalty = options.number("repetition_penalty")?.unwrap_or(1.0) as f32;
        RepetitionPenalty::check(repetition_penalty)?;
        let unsupported =
            options.unread().map(|(name, value)| format!("{name}: {value}")).collect();
        Ok(Self { end_tokens, sampling, repetition_penalty, unsupported })
    }

    /// Returns the options of a call: the defaults of the model, replaced by those of the caller.
    #[must_use]
    pub fn options(&self, given: &GenerationOverrides, seed: u64) -> GenerateOptions {
        let sampling = Sampling { seed, ..self.sampling };
        let repetition_penalty = self.repetition_penalty;
        GenerateOptions { sampling, repetition_penalty, ..GenerateOptions::default() }.with(given)
    }
}

/// Reads how tokens are chosen. Without `do_sample`, the temperature is 0, even if the file sets
/// one.
fn read_sampling(options: &Options<'_>) -> Result<Sampling> {
    let given = options.number("temperature")?.unwrap_or(1.0) as f32;
    let top_p = options.number("top_p")?.unwrap_or(1.0) as f32;
    let top_k = match options.size("top_k")? {
        Some(top_k) => {
            u32::try_from(top_k).map_err(|_| options.fault("top_k", &Value::from(top_k)))?
        }
        // Null means all tokens.
        None if options.has("top_k") => 0,
        None => DEFAULT.top_k,
    };
    let temperature = match options.flag("do_sample")? {
        Some(true) if given <= 0.0 => {
            let (option, value) = ("temperature", given.to_string());
            return Err(Error::Sampling {
                option,
                value,
                range: "above 0, though do_sample is true",
            });
        }
        Some(true) => given,
        _ => DEFAULT.temperature,
    };
    let sampling = Sampling { temperature, top_k, top_p, ..DEFAULT };
    sampling.check()?;
    Ok(sampling)
}
