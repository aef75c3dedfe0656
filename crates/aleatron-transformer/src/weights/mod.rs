//! The weights of a model: their sources ([`files`], [`random`]), and the matrices of a pass that
//! are built from tensors of files ([`Layer`], [`Ends`]); [`save`] writes models.
//!
//! A pass has four matrices per layer. Queries, keys and values are the rows of one matrix. If the
//! feed-forward part is gated, its gates and values alternate as rows of one matrix, so that a gate
//! and its value are computed together.

pub mod files;
mod matrix;
pub mod random;
pub mod save;

use aleatron_core::{Quantity, memory};

use crate::config::{Activation, Architecture, Config, Precision};
use crate::error::{Error, Result};
use crate::lora::{Adapter, Projection};
pub use matrix::{Matrix, MatrixData};

/// A source of tensors.
pub trait TensorSource: std::fmt::Debug + Send + Sync {
    /// Returns a tensor as 32-bit floats, in row-major order.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorShape`] or [`Error::TensorType`].
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>>;
}

/// A linear map: a matrix of one row per output, and a bias.
#[derive(Debug, Clone)]
pub struct Linear {
    /// The matrix.
    pub matrix: Matrix,
    /// The bias, one per row.
    pub bias: Option<Vec<f32>>,
}

/// The weights of one projection, by its name in files.
#[derive(Debug, Clone)]
pub struct ProjectionWeights {
    /// The name of the weights' tensor.
    pub name: String,
    /// The weights, a row per output.
    pub weight: Vec<f32>,
    /// The bias, one per output.
    pub bias: Option<Vec<f32>>,
}

/// The parameters of a norm.
#[derive(Debug, Clone)]
pub struct NormWeights {
    /// The factor of each normalised value.
    pub weight: Vec<f32>,
    /// The bias added after the factor.
    pub bias: Option<Vec<f32>>,
}

/// The weights of one layer.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The norm before attention.
    pub attention_norm: NormWeights,
    /// The map to queries, keys and values.
    pub qkv: Linear,
    /// The map from the heads to the residual stream.
    pub output: Linear,
    /// The norm before the feed-forward part.
    pub feed_forward_norm: NormWeights,
    /// The map to the inner width.
    pub up: Linear,
    /// The map to the residual stream.
    pub down: Linear,
}

/// The weights before the first layer and after the last.
#[derive(Debug, Clone)]
pub struct Ends {
    /// A row per token.
    pub embedding: Matrix,
    /// A row per position, if positions are learned.
    pub positions: Option<Vec<f32>>,
    /// The norm after the last layer.
    pub norm: NormWeights,
    /// The map from the residual stream to logits; the embedding if `None`.
    pub head: Option<Matrix>,
}

/// The order of a tensor in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// A row per output.
    Rows,
    /// A column per output.
    Columns,
}

/// The four matrices of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Slot {
    /// Queries, keys and values.
    Qkv,
    /// The output of attention.
    Output,
    /// The first map of the feed-forward part.
    Up,
    /// The second map of the feed-forward part.
    Down,
}

impl Slot {
    /// All slots.
    pub const ALL: [Self; 4] = [Self::Qkv, Self::Output, Self::Up, Self::Down];

    /// Returns the outputs and inputs of this matrix.
    #[must_use]
    pub fn shape(self, config: &Config) -> [usize; 2] {
        match self {
            Self::Qkv => [config.qkv_rows(), config.hidden],
            Self::Output => [config.hidden, config.query_width()],
            Self::Up => [config.up_rows(), config.hidden],
            Self::Down => [config.hidden, config.inner],
        }
    }
}

/// The rows of a matrix that a projection of the files provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) slot: Slot,
    pub(crate) start: usize,
    pub(crate) step: usize,
    pub(crate) count: usize,
}

impl Rows {
    pub(crate) fn of(config: &Config, projection: Projection) -> Self {
        let (q, kv) = (config.query_width(), config.kv_width());
        let whole = |slot: Slot| Self { slot, start: 0, step: 1, count: slot.shape(config)[0] };
        let gated = config.activation == Activation::GatedSilu;
        match projection {
            Projection::Query => Self { slot: Slot::Qkv, start: 0, step: 1, count: q },
            Projection::Key => Self { slot: Slot::Qkv, start: q, step: 1, count: kv },
            Projection::Value => Self { slot: Slot::Qkv, start: q + kv, step: 1, count: kv },
            Projection::QueryKeyValue => whole(Slot::Qkv),
            Projection::Output => whole(Slot::Output),
            Projection::Gate => Self { slot: Slot::Up, start: 0, step: 2, count: config.inner },
            Projection::Up if gated => {
                Self { slot: Slot::Up, start: 1, step: 2, count: config.inner }
            }
            Projection::Up => whole(Slot::Up),
            Projection::Down => whole(Slot::Down),
        }
    }

    /// Returns the row of the matrix that is row `i` of the projection.
    pub(crate) fn at(self, i: usize) -> usize {
        self.start + i * self.step
    }
}

/// Returns the projections that make up a slot, for the architecture of a model.
#[must_use]
pub fn projections(config: &Config, slot: Slot) -> &'static [Projection] {
    use Projection::{Down, Gate, Key, Output, Query, QueryKeyValue, Up, Value};
    match (slot, config.architecture) {
        (Slot::Qkv, Architecture::Gpt2) => &[QueryKeyValue],
        (Slot::Qkv, _) => &[Query, Key, Value],
        (Slot::Output, _) => &[Output],
        (Slot::Up, Architecture::Gpt2) => &[Up],
        (Slot::Up, _) => &[Gate, Up],
        (Slot::Down, _) => &[Down],
    }
}

/// Returns the name of a projection's module in Hugging Face's files.
#[must_use]
pub fn module_name(config: &Config, layer: usize, projection: Projection) -> String {
    let part = match (config.architecture, projection) {
        (Architecture::Gpt2, Projection::Output) => "attn.c_proj",
        (Architecture::Gpt2, Projection::Up | Projection::Gate) => "mlp.c_fc",
        (Architecture::Gpt2, Projection::Down) => "mlp.c_proj",
        (Architecture::Gpt2, _) => "attn.c_attn",
        (_, Projection::Query | Projection::QueryKeyValue) => "self_attn.q_proj",
        (_, Projection::Key) => "self_attn.k_proj",
        (_, Projection::Value) => "self_attn.v_proj",
        (_, Projection::Output) => "self_attn.o_proj",
        (_, Projection::Gate) => "mlp.gate_proj",
        (_, Projection::Up) => "mlp.up_proj",
        (_, Projection::Down) => "mlp.down_proj",
    };
    match config.architecture {
        Architecture::Gpt2 => format!("transformer.h.{layer}.{part}"),
        _ => format!("model.layers.{layer}.{part}"),
    }
}

struct Names {
    embedding: &'static str,
    positions: &'static str,
    final_norm: &'static str,
    attention_norm: &'static str,
    feed_forward_norm: &'static str,
    layers: &'static str,
}

fn names(config: &Config) -> Names {
    match config.architecture {
        Architecture::Gpt2 => Names {
            embedding: "transformer.wte.weight",
            positions: "transformer.wpe.weight",
            final_norm: "transformer.ln_f",
            attention_norm: "ln_1",
            feed_forward_norm: "ln_2",
            layers: "transformer.h",
        },
        _ => Names {
            embedding: "model.embed_tokens.weight",
            positions: "",
            final_norm: "model.norm",
            attention_norm: "input_layernorm",
            feed_forward_norm: "post_attention_layernorm",
            layers: "model.layers",
        },
    }
}

/// Returns the names of the norms of a layer in Hugging Face's files: that before attention, and
/// that before the feed-forward part.
#[must_use]
pub fn norm_names(config: &Config, layer: usize) -> [String; 2] {
    let names = names(config);
    [names.attention_norm, names.feed_forward_norm]
        .map(|part| format!("{}.{layer}.{part}", names.layers))
}

/// Returns the names of the embedding, the last norm and the head in Hugging Face's files.
#[must_use]
pub fn end_names(config: &Config) -> [&'static str; 3] {
    let names = names(config);
    [names.embedding, names.final_norm, HEAD]
}

/// The name of the head's matrix.
pub(crate) const HEAD: &str = "lm_head.weight";

/// Returns every tensor of a model, with its shape.
#[must_use]
pub fn tensors(config: &Config) -> Vec<(String, Vec<usize>)> {
    let (names, has_norm_bias) = (names(config), config.norm == crate::config::NormKind::Layer);
    let mut all = vec![(names.embedding.to_owned(), vec![config.vocabulary, config.hidden])];
    if config.rope.is_none() {
        all.push((names.positions.to_owned(), vec![config.max_positions, config.hidden]));
    }
    let norm = |all: &mut Vec<(String, Vec<usize>)>, name: String| {
        all.push((format!("{name}.weight"), vec![config.hidden]));
        if has_norm_bias {
            all.push((format!("{name}.bias"), vec![config.hidden]));
        }
    };
    for layer in 0..config.layers {
        norm_names(config, layer).into_iter().for_each(|name| norm(&mut all, name));
        for slot in Slot::ALL {
            for &projection in projections(config, slot) {
                let (module, rows) =
                    (module_name(config, layer, projection), Rows::of(config, projection));
                let columns = slot.shape(config)[1];
                let shape = match order(config) {
                    Order::Rows => vec![rows.count, columns],
                    Order::Columns => vec![columns, rows.count],
                };
                all.push((format!("{module}.weight"), shape));
                if has_bias(config, slot) {
                    all.push((format!("{module}.bias"), vec![rows.count]));
                }
            }
        }
    }
    norm(&mut all, names.final_norm.to_owned());
    if !config.tied_head {
        all.push((HEAD.to_owned(), vec![config.vocabulary, config.hidden]));
    }
    all
}

fn order(config: &Config) -> Order {
    match config.architecture {
        Architecture::Gpt2 => Order::Columns,
        _ => Order::Rows,
    }
}

fn has_bias(config: &Config, slot: Slot) -> bool {
    match slot {
        Slot::Qkv => config.biases.qkv,
        Slot::Output => config.biases.output,
        Slot::Up | Slot::Down => config.biases.feed_forward,
    }
}

/// Reads the weights of a pass.
#[derive(Debug, Clone, Copy)]
pub struct Loader<'a> {
    /// The model.
    pub config: &'a Config,
    /// The tensors.
    pub source: &'a dyn TensorSource,
    /// The precision of matrices.
    pub precision: Precision,
    /// An adapter to add to the weights.
    pub merged: Option<&'a Adapter>,
}

impl Loader<'_> {
    /// Reads the weights outside the layers.
    ///
    /// # Errors
    /// An error with the fault of a tensor.
    pub fn ends(&self) -> Result<Ends> {
        let (config, names) = (self.config, names(self.config));
        let shape = [config.vocabulary, config.hidden];
        let table = |name: &str| -> Result<Matrix> {
            let data = self.source.tensor(name, &shape)?;
            let mut matrix = Matrix::new(shape[0], shape[1], self.precision)?;
            for (row, values) in data.chunks_exact(shape[1]).enumerate() {
                matrix.set_row(row, values).map_err(|value| self.value_fault(name, value))?;
            }
            Ok(matrix)
        };
        let positions = match config.rope {
            Some(_) => None,
            None => {
                Some(self.source.tensor(names.positions, &[config.max_positions, config.hidden])?)
            }
        };
        Ok(Ends {
            embedding: table(names.embedding)?,
            positions,
            norm: self.norm(names.final_norm)?,
            head: if config.tied_head { None } else { Some(table(HEAD)?) },
        })
    }

    /// Reads the weights of a layer.
    ///
    /// # Errors
    /// An error with the fault of a tensor.
    pub fn layer(&self, layer: usize) -> Result<Layer> {
        let [attention_norm, feed_forward_norm] = self.norms(layer)?;
        Ok(Layer {
            attention_norm,
            qkv: self.linear(layer, Slot::Qkv)?,
            output: self.linear(layer, Slot::Output)?,
            feed_forward_norm,
            up: self.linear(layer, Slot::Up)?,
            down: self.linear(layer, Slot::Down)?,
        })
    }

    fn norm(&self, name: &str) -> Result<NormWeights> {
        let shape = [self.config.hidden];
        let weight = self.source.tensor(&format!("{name}.weight"), &shape)?;
        let bias = match self.config.norm {
            crate::config::NormKind::Rms => None,
            crate::config::NormKind::Layer => {
                Some(self.source.tensor(&format!("{name}.bias"), &shape)?)
            }
        };
        Ok(NormWeights { weight, bias })
    }

    /// Reads the norms of a layer: that before attention, and that before the feed-forward part.
    ///
    /// # Errors
    /// An error with the fault of a tensor.
    pub fn norms(&self, layer: usize) -> Result<[NormWeights; 2]> {
        let [first, second] = norm_names(self.config, layer);
        Ok([self.norm(&first)?, self.norm(&second)?])
    }

    /// Reads a projection of a layer in 32-bit floats, for any precision of matrices.
    ///
    /// # Errors
    /// An error with the fault of a tensor.
    pub fn projection(&self, layer: usize, projection: Projection) -> Result<ProjectionWeights> {
        let [n_rows, n_columns] = projection.shape(self.config);
        let module = module_name(self.config, layer, projection);
        let name = format!("{module}.weight");
        let mut weight = match order(self.config) {
            Order::Rows => self.source.tensor(&name, &[n_rows, n_columns])?,
            Order::Columns => {
                let data = self.source.tensor(&name, &[n_columns, n_rows])?;
                let mut rows: Vec<f32> =
                    memory::zeros(n_rows as u128 * n_columns as u128, Quantity::Weights)?;
                for (i, row) in rows.chunks_exact_mut(n_columns).enumerate() {
                    row.iter_mut().enumerate().for_each(|(k, x)| *x = data[k * n_rows + i]);
                }
                rows
            }
        };
        if let Some(part) = self.merged.and_then(|adapter| adapter.part(layer, projection)) {
            for (i, row) in weight.chunks_exact_mut(n_columns).enumerate() {
                part.add_row(i, row);
            }
        }
        let bias = match has_bias(self.config, Rows::of(self.config, projection).slot) {
            true => Some(self.source.tensor(&format!("{module}.bias"), &[n_rows])?),
            false => None,
        };
        Ok(ProjectionWeights { name, weight, bias })
    }

    fn linear(&self, layer: usize, slot: Slot) -> Result<Linear> {
        let [n_rows, n_columns] = slot.shape(self.config);
        let mut matrix = Matrix::new(n_rows, n_columns, self.precision)?;
        let mut bias = has_bias(self.config, slot).then(|| vec![0.0; n_rows]);
        for &projection in projections(self.config, slot) {
            let rows = Rows::of(self.config, projection);
            let part = self.projection(layer, projection)?;
            for (i, row) in part.weight.chunks_exact(n_columns).enumerate() {
                matrix
                    .set_row(rows.at(i), row)
                    .map_err(|value| self.value_fault(&part.name, value))?;
            }
            if let (Some(bias), Some(own)) = (&mut bias, &part.bias) {
                own.iter().enumerate().for_each(|(i, value)| bias[rows.at(i)] = *value);
            }
        }
        Ok(Linear { matrix, bias })
    }

    fn value_fault(&self, name: &str, value: f32) -> Error {
        Error::TensorValue { name: name.to_owned(), value, precision: self.precision }
    }
}
