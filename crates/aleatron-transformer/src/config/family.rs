//! Families similar to Llama: the defaults that Hugging Face gives options missing from their
//! files.

use serde_json::Value;

use super::{Architecture, SlidingWindow};
use crate::error::{Error, Result};
use crate::options::Options;

/// The options of a family that describe a sliding window.
#[derive(Debug, Clone, Copy)]
enum WindowOptions {
    /// No options: all layers have full attention.
    Absent,
    /// `sliding_window`, for all layers.
    AllLayers,
    /// `sliding_window` if `use_sliding_window` is true, for the layers from `max_window_layers`
    /// on, or for those that `layer_types` names.
    LateLayers,
}

/// A family, with its defaults.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) architecture: Architecture,
    pub(super) max_positions: usize,
    /// `None` for as many as heads of queries.
    kv_heads: Option<usize>,
    window: WindowOptions,
    pub(super) end_token: Option<u32>,
}

pub(super) const LLAMA: Family = Family {
    architecture: Architecture::Llama,
    max_positions: 2048,
    kv_heads: None,
    window: WindowOptions::Absent,
    end_token: Some(2),
};

pub(super) const MISTRAL: Family = Family {
    architecture: Architecture::Llama,
    max_positions: 131_072,
    kv_heads: Some(8),
    window: WindowOptions::AllLayers,
    end_token: Some(2),
};

pub(super) const QWEN2: Family = Family {
    architecture: Architecture::Qwen2,
    max_positions: 32_768,
    kv_heads: Some(32),
    window: WindowOptions::LateLayers,
    end_token: None,
};

/// The window of a file without `sliding_window`.
const DEFAULT_WINDOW: usize = 4096;

/// The first layer with a window of a file without `max_window_layers`.
const DEFAULT_MAX_WINDOW_LAYERS: usize = 28;

impl Family {
    /// Reads the number of key-value heads. Null means as many as heads of queries.
    pub(super) fn kv_heads(&self, options: &Options<'_>, heads: usize) -> Result<usize> {
        let default = if options.has("num_key_value_heads") { None } else { self.kv_heads };
        Ok(options.size("num_key_value_heads")?.or(default).unwrap_or(heads))
    }

    /// Reads the sliding window. Null means none; a missing option means the default of the family.
    pub(super) fn sliding_window(
        &self,
        options: &Options<'_>,
        layers: usize,
    ) -> Result<Option<SlidingWindow>> {
        let default = if options.has("sliding_window") { None } else { Some(DEFAULT_WINDOW) };
        let (positions, first) = match self.window {
            WindowOptions::Absent => {
                options.ignore(&["max_window_layers"]);
                (None, 0)
            }
            WindowOptions::AllLayers => {
                options.ignore(&["max_window_layers"]);
                (options.size("sliding_window")?.or(default), 0)
            }
            WindowOptions::LateLayers => {
                let is_used = options.flag("use_sliding_window")?.unwrap_or(false);
                let positions = options.size("sliding_window")?.or(default);
                let first = options.size("max_window_layers")?.unwrap_or(DEFAULT_MAX_WINDOW_LAYERS);
                (positions.filter(|_| is_used), first)
            }
        };
        let first_layer = match (layer_types(options, layers)?, self.window, positions) {
            (None, ..) => first,
            (Some((listed, _)), WindowOptions::LateLayers, Some(_)) => listed,
            // In other cases the list must agree with the options.
            (Some((listed, _)), _, Some(_)) if listed == first => first,
            (Some((listed, _)), _, None) if listed == layers => first,
            (Some((_, value)), ..) => {
                return Err(Error::BadOption {
                    option: "layer_types".to_owned(),
                    value: value.to_string(),
                    reason: "contradicts sliding_window; remove one of them".to_owned(),
                });
            }
        };
        Ok(positions.map(|positions| SlidingWindow { positions, first_layer }))
    }
}

/// Reads `layer_types`: the number of layers with full attention, which must come first, and the
/// value itself.
fn layer_types<'a>(options: &Options<'a>, layers: usize) -> Result<Option<(usize, &'a Value)>> {
    let Some(value) = options.get("layer_types") else { return Ok(None) };
    let fault = || options.fault("layer_types", value);
    let types = value.as_array().ok_or_else(fault)?;
    let is = |name: &'static str| move |kind: &Value| kind.as_str() == Some(name);
    let full = types.iter().take_while(|kind| is("full_attention")(kind)).count();
    match types.len() == layers && types[full..].iter().all(is("sliding_attention")) {
        true => Ok(Some((full, value))),
        false => Err(fault()),
    }
}

/// Reads the tokens that end a text: one, a list, or `default` if the option is missing. Null means
/// none.
pub(crate) fn end_tokens(options: &Options<'_>, default: Option<u32>) -> Result<Vec<u32>> {
    let one = |value: &Value| value.as_u64().and_then(|token| u32::try_from(token).ok());
    match options.get("eos_token_id") {
        None if options.has("eos_token_id") => Ok(Vec::new()),
        None => Ok(default.into_iter().collect()),
        Some(Value::Array(tokens)) => tokens
            .iter()
            .map(|token| one(token).ok_or_else(|| options.fault("eos_token_id", token)))
            .collect(),
        Some(token) => Ok(vec![one(token).ok_or_else(|| options.fault("eos_token_id", token))?]),
    }
}
