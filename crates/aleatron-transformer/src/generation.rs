//! The defaults of generation that a model's folder gives, read from `generation_config.json`.

use std::path::Path;

use serde_json::Value;

use crate::config::{Config, end_tokens};
use crate::error::{Error, Result};
use crate::options::{Options, read_object};
use crate::sampling::Sampling;

/// The defaults of a model for generating text.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationConfig {
    /// The tokens that end a text.
    pub end_tokens: Vec<u32>,
    /// The way tokens are chosen, with seed 0.
    pub sampling: Sampling,
    /// Options of the file that change texts and are not supported, as `name: value`.
    pub unsupported: Vec<String>,
}

/// Options that change no token: special tokens at other positions, lengths, caches, what is returned, versions.
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
    ("repetition_penalty", 1.0),
    ("top_h", 1.0),
    ("typical_p", 1.0),
];

/// The `top_k` of files that sample and do not give one.
const DEFAULT_TOP_K: u32 = 50;

impl GenerationConfig {
    /// Returns the defaults of a folder without `generation_config.json`: the end tokens of `config.json`, and the token
    /// with the largest logit.
    #[must_use]
    pub fn of_config(config: &Config) -> Self {
        let end_tokens = config.end_tokens.clone();
        Self { end_tokens, sampling: Sampling::GREEDY, unsupported: Vec::new() }
    }

    /// Reads `generation_config.json`. It replaces the end tokens of `config.json`, even if it gives none.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Format`] for a file that cannot be read, [`Error::UnknownOption`] for a value of another
    /// type, [`Error::Sampling`] for one out of range.
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
        let unsupported = options.unread().map(|(name, value)| format!("{name}: {value}")).collect();
        Ok(Self { end_tokens, sampling, unsupported })
    }
}

/// Reads how tokens are chosen. Without `do_sample`, the other options have no effect.
fn read_sampling(options: &Options<'_>) -> Result<Sampling> {
    let temperature = options.number("temperature")?.unwrap_or(1.0) as f32;
    let top_p = options.number("top_p")?.unwrap_or(1.0) as f32;
    let top_k = match options.size("top_k")? {
        Some(top_k) => u32::try_from(top_k).map_err(|_| options.fault("top_k", &Value::from(top_k)))?,
        // Null stands for all tokens.
        None if options.has("top_k") => 0,
        None => DEFAULT_TOP_K,
    };
    if !options.flag("do_sample")?.unwrap_or(false) {
        return Ok(Sampling::GREEDY);
    }
    if temperature <= 0.0 {
        let (option, value) = ("temperature", temperature.to_string());
        return Err(Error::Sampling { option, value, range: "above 0, though do_sample is true" });
    }
    let sampling = Sampling { temperature, top_k, top_p, seed: 0 };
    sampling.check()?;
    Ok(sampling)
}
