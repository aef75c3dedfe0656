//! The configuration of a model: its architecture and sizes, read from `config.json`.

mod family;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::options::{Options, parse_object, read_text};
use crate::rope::{Rope, RopeScaling};
use family::{Family, LLAMA, MISTRAL, QWEN2};

pub(crate) use family::end_tokens;

/// The family of a model, which decides the names of its tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Architecture {
    /// RMS norms, rotary positions, grouped-query attention, gated feed-forward.
    Llama,
    /// Like Llama, with biases on queries, keys and values.
    Qwen2,
    /// Layer norms with biases, learned positions, plain feed-forward.
    Gpt2,
}

/// The normalisation of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// Divided by their root mean square.
    Rms,
    /// Shifted to mean 0 and divided by their deviation.
    Layer,
}

/// The function between the two halves of a feed-forward part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `silu(gate) * up`.
    GatedSilu,
    /// GELU in its tanh form.
    GeluTanh,
}

/// The precision of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    #[default]
    F16,
    /// 8-bit integers with a scale per row.
    Int8,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Int8 => "int8",
        })
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            "int8" => Ok(Self::Int8),
            _ => Err(Error::UnknownPrecision { name: name.to_owned() }),
        }
    }
}

/// The linear maps that have a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Biases {
    /// Queries, keys and values.
    pub qkv: bool,
    /// The output of attention.
    pub output: bool,
    /// Both maps of the feed-forward part.
    pub feed_forward: bool,
}

/// A sliding window of attention, which bounds the positions that a token attends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    /// The positions that a token attends to: its own and those directly before it.
    pub positions: usize,
    /// The first layer with a window. Tokens of earlier layers attend to all earlier positions.
    pub first_layer: usize,
}

/// The architecture and the sizes of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The family.
    pub architecture: Architecture,
    /// The size of the vocabulary.
    pub vocabulary: usize,
    /// The width of the residual stream.
    pub hidden: usize,
    /// The number of layers.
    pub layers: usize,
    /// The number of heads of queries.
    pub heads: usize,
    /// The number of heads of keys and values, each shared by `heads / kv_heads` heads of queries.
    pub kv_heads: usize,
    /// The width of a head.
    pub head_dim: usize,
    /// The width between the halves of the feed-forward part.
    pub inner: usize,
    /// The largest number of positions of a sequence.
    pub max_positions: usize,
    /// The normalisation of activations.
    pub norm: NormKind,
    /// The sliding window of attention; without one, tokens attend to all earlier positions.
    pub sliding_window: Option<SlidingWindow>,
    /// The epsilon that keeps the divisor of a norm from being 0.
    pub norm_epsilon: f32,
    /// Rotary positions; without them positions are learned.
    pub rope: Option<Rope>,
    /// The function of the feed-forward part.
    pub activation: Activation,
    /// The maps that have a bias.
    pub biases: Biases,
    /// Whether the head uses the embedding's weights.
    pub tied_head: bool,
    /// The tokens that end a text.
    pub end_tokens: Vec<u32>,
}

/// Options that do not affect the forward pass.
const IRRELEVANT: &[&str] = &[
    "architectures",
    "model_type",
    "torch_dtype",
    "dtype",
    "transformers_version",
    "_name_or_path",
    "use_cache",
    "bos_token_id",
    "pad_token_id",
    "initializer_range",
    "attention_dropout",
    "pretraining_tp",
    "return_dict",
    "task_specific_params",
    "id2label",
    "label2id",
    "problem_type",
    "chunk_size_feed_forward",
    "_attn_implementation",
    "sliding_window_pattern",
    "summary_type",
    "summary_use_proj",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "n_ctx",
    "reorder_and_upcast_attn",
    "layer_norm_epsilon",
];

/// The largest size: more than any model has, and small enough that products of two sizes fit 63
/// bits.
const MOST: usize = 1 << 30;

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// An error with the fault of the file, or the missing or unknown option.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(&read_text(path)?, path)
    }

    /// Reads the text of a `config.json`; the path is for messages.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self> {
        let map = parse_object(text, path)?;
        let options = Options::new(&map, "");
        options.ignore(IRRELEVANT);
        let config =
            match options.text("model_type")?.ok_or_else(|| options.missing("model_type"))? {
                "llama" => Self::llama(&options, &LLAMA)?,
                "mistral" => {
                    // These layers have no biases, even if the file requests them.
                    options.only("attention_bias", |value| value.as_bool() == Some(false))?;
                    options.only("mlp_bias", |value| value.as_bool() == Some(false))?;
                    Self::llama(&options, &MISTRAL)?
                }
                "qwen2" => Self::llama(&options, &QWEN2)?,
                "gpt2" => Self::gpt2(&options)?,
                other => return Err(options.fault("model_type", &Value::from(other))),
            };
        options.finish()?;
        config.check()?;
        Ok(config)
    }

    fn llama(options: &Options<'_>, family: &Family) -> Result<Self> {
        let (hidden, heads) =
            (options.required_size("hidden_size")?, options.required_size("num_attention_heads")?);
        let layers = options.required_size("num_hidden_layers")?;
        let max_positions =
            options.size("max_position_embeddings")?.unwrap_or(family.max_positions);
        options.only("hidden_act", |value| matches!(value.as_str(), Some("silu" | "swish")))?;
        let biases = match family.architecture {
            Architecture::Qwen2 => Biases { qkv: true, ..Biases::default() },
            _ => {
                let attention = options.flag("attention_bias")?.unwrap_or(false);
                let feed_forward = options.flag("mlp_bias")?.unwrap_or(false);
                Biases { qkv: attention, output: attention, feed_forward }
            }
        };
        Ok(Self {
            architecture: family.architecture,
            vocabulary: options.required_size("vocab_size")?,
            hidden,
            layers,
            heads,
            kv_heads: family.kv_heads(options, heads)?,
            head_dim: options.size("head_dim")?.unwrap_or(hidden / heads.max(1)),
            inner: options.required_size("intermediate_size")?,
            max_positions,
            norm: NormKind::Rms,
            sliding_window: family.sliding_window(options, layers)?,
            norm_epsilon: options.number("rms_norm_eps")?.unwrap_or(1e-6) as f32,
            rope: Some(Rope::read(options, max_positions)?),
            activation: Activation::GatedSilu,
            biases,
            tied_head: options.flag("tie_word_embeddings")?.unwrap_or(false),
            end_tokens: end_tokens(options, family.end_token)?,
        })
    }

    fn gpt2(options: &Options<'_>) -> Result<Self> {
        let (hidden, heads) = (options.required_size("n_embd")?, options.required_size("n_head")?);
        let gelu = |value: &Value| matches!(value.as_str(), Some("gelu_new" | "gelu_pytorch_tanh"));
        options.only("activation_function", gelu)?;
        options.only("scale_attn_weights", |value| value.as_bool() == Some(true))?;
        Ok(Self {
            architecture: Architecture::Gpt2,
            vocabulary: options.required_size("vocab_size")?,
            hidden,
            layers: options.required_size("n_layer")?,
            heads,
            kv_heads: heads,
            head_dim: hidden / heads.max(1),
            inner: options.size("n_inner")?.unwrap_or(hidden.saturating_mul(4)),
            max_positions: options.required_size("n_positions")?,
            norm: NormKind::Layer,
            sliding_window: None,
            norm_epsilon: options.number("layer_norm_epsilon")?.unwrap_or(1e-5) as f32,
            rope: None,
            activation: Activation::GeluTanh,
            biases: Biases { qkv: true, output: true, feed_forward: true },
            tied_head: options.flag("tie_word_embeddings")?.unwrap_or(true),
            end_tokens: end_tokens(options, Some(50_256))?,
        })
    }

    /// Checks that the sizes are consistent.
    ///
    /// # Errors
    /// [`Error::BadOption`] with the inconsistent size.
    pub fn check(&self) -> Result<()> {
        let bad = |option: &str, value: usize, reason: &str| {
            Err(Error::BadOption {
                option: option.to_owned(),
                value: value.to_string(),
                reason: reason.to_owned(),
            })
        };
        let sizes = [
            ("vocabulary size", self.vocabulary),
            ("hidden size", self.hidden),
            ("number of layers", self.layers),
            ("number of heads", self.heads),
            ("number of key-value heads", self.kv_heads),
            ("width of a head", self.head_dim),
            ("inner size", self.inner),
            ("number of positions", self.max_positions),
        ];
        for (name, value) in sizes {
            if value == 0 || value > MOST {
                return bad(name, value, "is not from 1 to 2^30");
            }
        }
        if let Some(window) = self.sliding_window
            && (window.positions == 0 || window.positions > MOST)
        {
            return bad("sliding window", window.positions, "is not from 1 to 2^30");
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return bad("number of heads", self.heads, "is not a multiple of the key-value heads");
        }
        if self.rope.is_none() && self.heads.checked_mul(self.head_dim) != Some(self.hidden) {
            return bad("hidden size", self.hidden, "is not a multiple of the heads");
        }
        if !self.head_dim.is_multiple_of(2) || self.head_dim > 256 {
            return bad("width of a head", self.head_dim, "is not an even number up to 256");
        }
        if self.heads / self.kv_heads > 64 {
            return bad("number of heads", self.heads, "is more than 64 for each key-value head");
        }
        if !(self.norm_epsilon > 0.0 && self.norm_epsilon.is_finite()) {
            let value = self.norm_epsilon.to_string();
            return Err(Error::BadOption {
                option: "norm epsilon".to_owned(),
                value,
                reason: "is not above 0".to_owned(),
            });
        }
        Ok(())
    }

    /// Returns the positions that a token of this layer attends to, its own included; `None`
    /// without a sliding window.
    #[must_use]
    pub fn window(&self, layer: usize) -> Option<usize> {
        self.sliding_window
            .filter(|window| layer >= window.first_layer)
            .map(|window| window.positions)
    }

    /// Returns the width of all queries.
    #[must_use]
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Returns the width of all keys, or of all values.
    #[must_use]
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Returns the number of rows of the map to queries, keys and values.
    #[must_use]
    pub fn qkv_rows(&self) -> usize {
        self.query_width() + 2 * self.kv_width()
    }

    /// Returns the number of rows of the first map of the feed-forward part, including the gates if
    /// it is gated.
    #[must_use]
    pub fn up_rows(&self) -> usize {
        match self.activation {
            Activation::GatedSilu => 2 * self.inner,
            Activation::GeluTanh => self.inner,
        }
    }

    /// Returns the number of weights of all matrices except the embedding, which no token reads as
    /// a whole.
    #[must_use]
    pub fn matrix_weights(&self) -> u64 {
        let layer = self.hidden as u64
            * (self.qkv_rows() + self.query_width() + self.up_rows() + self.inner) as u64;
        layer * self.layers as u64 + self.vocabulary as u64 * self.hidden as u64
    }

    /// Returns whether positions past those of the training are errors although the model has them.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.rope.is_some_and(|rope| rope.scaling == RopeScaling::Dynamic)
    }
}
