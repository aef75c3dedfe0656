//! The differentiable forward pass: a model of the Llama family out of tensor operations, with
//! trainable low-rank corrections or trainable weights.

mod layer;
mod value;

use std::path::Path;
use std::sync::Arc;

use aleatron_core::conformance::Digest;
use aleatron_core::{Quantity, memory};
use aleatron_tensor::{DType, Device, Tensor, autograd};
use aleatron_transformer::config::{Activation, Architecture, NormKind};
use aleatron_transformer::lora::Projection;
use aleatron_transformer::weights::files::TensorFiles;
use aleatron_transformer::weights::save::{self, NamedTensor};
use aleatron_transformer::weights::{Loader, Matrix, MatrixData, end_names};
use aleatron_transformer::{Adapter, Config, LinearId, ModelSource, Precision};

use super::FinetuneOptions;
use super::data::{IGNORED, Sequence};
use super::streams::{LanguageStreams, StreamPass};
use crate::{Error, Parameter, Result};

use layer::{Layer, Pass};
use value::{Parameters, Value, Weights};

type TensorResult<T> = aleatron_tensor::Result<T>;

/// The treatment of intermediate values for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activations {
    /// Intermediate values are retained, which is fastest.
    #[default]
    Retained,
    /// Layers are computed again, one at a time: less memory, and a second forward pass.
    Recomputed,
}

/// The inputs that corrections drop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Dropout {
    Disabled,
    Enabled { share: f64, seed: u64 },
}

/// The part of a model that is trained.
#[derive(Debug, Clone)]
pub enum Trained {
    /// The corrections of an adapter; the weights are frozen.
    Adapter(Adapter),
    /// All weights: embedding, matrices, biases, norms and head.
    Weights,
}

/// The arithmetic of linear products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProductKind {
    /// Floating point.
    Float,
    /// Streams.
    Streams,
}

impl Trained {
    /// Checks the dropout of an adapter, before the weights are read.
    ///
    /// # Errors
    /// [`Error::Option`] for a share outside its range, or above 0 with streams.
    pub fn check(&self, products: ProductKind) -> Result<()> {
        let dropout = self.dropout();
        let expected = match products {
            _ if !(0.0..1.0).contains(&dropout) => "it must be at least 0 and less than 1",
            ProductKind::Streams if dropout > 0.0 => {
                "it must be 0 with streams, which run corrections and weights as one matrix"
            }
            _ => return Ok(()),
        };
        Err(Error::option("lora_dropout", dropout, expected))
    }

    /// Returns the share of the inputs of corrections that training drops.
    pub(super) fn dropout(&self) -> f64 {
        match self {
            Self::Adapter(adapter) => adapter.dropout(),
            Self::Weights => 0.0,
        }
    }
}

/// A model with frozen weights and a trainable adapter, or with trainable weights.
#[derive(Debug)]
pub struct LanguageModel {
    config: Config,
    device: Device,
    embedding: Value,
    /// A row for each token; the embedding if there is none.
    head: Option<Value>,
    norm: Value,
    /// The parameters outside of the layers.
    ends: Parameters,
    layers: Vec<Arc<Layer>>,
    /// The parameters of each layer.
    parameters: Vec<Parameters>,
    trained: Trained,
    corrections: Vec<Corrected>,
    streams: Option<Arc<LanguageStreams>>,
}

/// Options of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PassOptions {
    pub(super) dropout: Dropout,
    pub(super) activations: Activations,
    /// The seed of streams.
    pub(super) seed: u64,
}

impl PassOptions {
    /// Returns the options of a pass that is not a step of training.
    const PLAIN: Self =
        Self { dropout: Dropout::Disabled, activations: Activations::Retained, seed: 0 };
}

/// A projection with a correction.
#[derive(Debug)]
struct Corrected {
    layer: usize,
    projection: Projection,
    /// The index of `a` among the parameters of the layer; `b` follows it.
    first: usize,
}

impl LanguageModel {
    /// Checks that a model is of a family with a differentiable pass, before its weights are read.
    ///
    /// # Errors
    /// [`Error::Family`] with the families that are.
    pub fn check(config: &Config) -> Result<()> {
        let is_llama = config.architecture != Architecture::Gpt2
            && config.rope.is_some()
            && config.norm == NormKind::Rms
            && config.activation == Activation::GatedSilu;
        if is_llama { Ok(()) } else { Err(family_fault(config)) }
    }

    /// Checks that training fits into memory, before the weights are read.
    ///
    /// # Errors
    /// [`Error::Core`] with the bytes.
    pub fn check_memory(
        config: &Config,
        trained: &Trained,
        device: &Device,
        options: &FinetuneOptions,
    ) -> Result<()> {
        let bytes = memory_bytes(config, trained, device, options.checkpoint.as_deref());
        Ok(memory::check(bytes, Quantity::Weights)?)
    }

    /// Loads a model from a folder, or the embedded one.
    ///
    /// # Errors
    /// [`Error::Family`] for a family without a differentiable pass, [`Error::Transformer`] with
    /// the file, the option or the tensor that is wrong.
    pub fn from_pretrained(
        source: &ModelSource,
        config: &Config,
        trained: Trained,
        device: &Device,
    ) -> Result<Self> {
        Self::check(config)?;
        let files = TensorFiles::open_model(source, config)?;
        let loader = Loader { config, source: &files, precision: Precision::F32, merged: None };
        Self::new(&loader, trained, device)
    }

    /// Loads a model.
    ///
    /// # Errors
    /// As [`Self::from_pretrained`].
    pub fn new(loader: &Loader<'_>, trained: Trained, device: &Device) -> Result<Self> {
        let config = loader.config;
        config.check()?;
        Self::check(config)?;
        memory::check(memory_bytes(config, &trained, device, None), Quantity::Weights)?;
        let loader = Loader { precision: Precision::F32, ..*loader };
        let vector = |values: &[f32]| Tensor::from_slice(values, &[values.len()], device);
        let (weights, adapter) = match &trained {
            Trained::Adapter(adapter) => (Weights::Frozen, Some(adapter)),
            Trained::Weights => (Weights::Trained, None),
        };
        let [embedding_name, norm_name, head_name] = end_names(config);
        let (read, mut ends) = (loader.ends()?, Parameters::default());
        let embedding = matrix(&read.embedding, device)?;
        let embedding = ends.weight(weights, embedding_name.to_owned(), embedding)?;
        let head = match &read.head {
            Some(head) => {
                let head = matrix(head, device)?;
                Some(ends.weight(weights, head_name.to_owned(), head)?)
            }
            None => None,
        };
        let norm =
            ends.weight(weights, format!("{norm_name}.weight"), vector(&read.norm.weight)?)?;
        drop(read);
        let (mut layers, mut parameters) = (Vec::new(), Vec::new());
        let mut corrections = Vec::new();
        for index in 0..config.layers {
            let mut own = Parameters::default();
            let layer = Layer::new(&loader, index, weights, &mut own, device)?;
            let layer = match adapter {
                Some(adapter) => {
                    layer.corrected(config, adapter, &mut own, &mut corrections, device)?
                }
                None => layer,
            };
            layers.push(Arc::new(layer));
            parameters.push(own);
        }
        if adapter.is_some() && corrections.is_empty() {
            return Err(Error::option(
                "number of corrections",
                0,
                "the adapter must have at least one",
            ));
        }
        let (config, device) = (config.clone(), device.clone());
        Ok(Self {
            config,
            device,
            embedding,
            head,
            norm,
            ends,
            layers,
            parameters,
            trained,
            corrections,
            streams: None,
        })
    }

    /// Runs every linear product as streams in the forward pass. The counts are those of an
    /// evaluation of the weights with the adapter added to them. Gradients are those of the
    /// floating-point products with saturated inputs.
    ///
    /// # Errors
    /// [`Error::Option`] for integer arithmetic, and for input scales that are not positive or not
    /// one for each linear product.
    pub fn with_streams(mut self, streams: LanguageStreams) -> Result<Self> {
        streams.check(&self.config)?;
        self.streams = Some(Arc::new(streams));
        Ok(self)
    }

    /// Returns the streams of the forward pass; `None` in floating point.
    #[must_use]
    pub fn streams(&self) -> Option<&LanguageStreams> {
        self.streams.as_deref()
    }

    /// Returns the architecture and the sizes.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the parameters: `a` and `b` of each correction, or all weights.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        self.named_parameters().into_iter().map(|(_, parameter)| parameter).collect()
    }

    /// Returns the parameters with the names of Hugging Face's files; those of corrections have the
    /// names of PEFT, without the prefix of its files.
    #[must_use]
    pub fn named_parameters(&self) -> Vec<(String, Parameter)> {
        let owners = std::iter::once(&self.ends).chain(&self.parameters);
        owners.flat_map(Parameters::named).cloned().collect()
    }

    /// Returns the adapter as it is now; `None` if all weights are trained.
    ///
    /// # Errors
    /// [`Error::Tensor`] if a device fails.
    pub fn adapter(&self) -> Result<Option<Adapter>> {
        let Trained::Adapter(adapter) = &self.trained else { return Ok(None) };
        let mut adapter = adapter.clone();
        for &Corrected { layer, projection, first } in &self.corrections {
            let values = |index: usize| {
                let own = self.parameters.get(layer).and_then(|own| own.get(index));
                let own = own.ok_or_else(|| Error::internal("language/model.rs, adapter"))?;
                Ok::<_, Error>(own.tensor().detach().to_vec::<f32>()?)
            };
            let (a, b) = (values(first)?, values(first + 1)?);
            adapter.set(&self.config, layer, projection, a, b)?;
        }
        Ok(Some(adapter))
    }

    /// Writes the adapter in PEFT's files, or the model with its weights as they are now and the
    /// configuration and the tokenizer of `source`.
    ///
    /// # Errors
    /// [`Error::Transformer`] if a file cannot be written, or if the folder is that of the source.
    pub fn save(&self, folder: &Path, source: &ModelSource) -> Result<()> {
        if let Some(adapter) = self.adapter()? {
            return Ok(adapter.save(folder, &self.config)?);
        }
        let named = self.named_parameters().into_iter().map(|(name, parameter)| {
            let tensor = parameter.tensor().detach();
            let (shape, values) = (tensor.shape().to_vec(), tensor.to_vec::<f32>()?);
            Ok(NamedTensor { name, shape, values })
        });
        Ok(save::save(folder, source, &named.collect::<Result<Vec<_>>>()?)?)
    }

    /// Returns the part that is trained.
    pub(super) fn trained(&self) -> &Trained {
        &self.trained
    }

    /// Adds all weights, the frozen ones and the trainable ones, to a digest.
    pub(super) fn digest(&self, digest: &mut Digest) -> Result<()> {
        let trainable: Vec<Tensor> =
            self.parameters().iter().map(|own| own.tensor().detach()).collect();
        let maps = self.layers.iter().flat_map(|layer| layer.maps.values());
        let maps = maps.flat_map(|map| std::iter::once(&map.weight).chain(&map.bias));
        let norms = self.layers.iter().flat_map(|layer| &layer.norms);
        let ends = [&self.embedding, &self.norm].into_iter().chain(&self.head);
        let frozen = maps.chain(norms).chain(ends).filter_map(Value::frozen);
        for tensor in trainable.iter().chain(frozen) {
            digest.answer(tensor.to_vec::<f32>()?.into_iter().map(|x| u64::from(x.to_bits())));
        }
        // The factors are not among the weights.
        if let Trained::Adapter(adapter) = &self.trained {
            let scales = adapter.parts().map(|(_, _, part)| u64::from(part.scale.to_bits()));
            digest.answer(scales.collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Computes the logits after each token, `[tokens, vocabulary]`, without dropout. Streams have
    /// the seed 0.
    ///
    /// # Errors
    /// [`Error::Option`] for tokens that the model does not have, and for too many of them.
    pub fn logits(&self, tokens: &[u32]) -> Result<Tensor> {
        let sequence = Sequence::of_tokens(tokens.to_vec())?;
        let x = self.hidden(&[&sequence], PassOptions::PLAIN)?;
        self.head_of(&x, 0)
    }

    /// Computes the mean cross entropy of all predicted labels of some sequences, without dropout.
    ///
    /// # Errors
    /// As [`Self::logits`].
    pub fn loss(&self, sequences: &[&Sequence]) -> Result<Tensor> {
        let total = sequences.iter().map(|sequence| sequence.targets()).sum();
        self.partial_loss(sequences, total, PassOptions::PLAIN)
    }

    /// Computes the sum of the cross entropies of some sequences, divided by `total`.
    pub(super) fn partial_loss(
        &self,
        sequences: &[&Sequence],
        total: usize,
        options: PassOptions,
    ) -> Result<Tensor> {
        let length = longest(sequences);
        let (mut rows, mut labels) = (Vec::new(), Vec::new());
        for (i, sequence) in sequences.iter().enumerate() {
            for (position, &label) in sequence.labels().iter().enumerate().skip(1) {
                if label != IGNORED {
                    rows.push(index(i * length + position - 1)?);
                    labels.push(index(usize::try_from(label).unwrap_or(usize::MAX))?);
                }
            }
        }
        if rows.is_empty() {
            return Err(Error::option(
                "number of labels to predict",
                0,
                "there must be at least one",
            ));
        }
        let x = self.hidden(sequences, options)?;
        let n = rows.len();
        let rows = Tensor::from_vec(rows, &[n], &self.device)?;
        let logits = match self.streams {
            // The streams of a row depend on its index.
            Some(_) => self.head_of(&x, options.seed)?.index_select(0, &rows)?,
            // Logits of other rows have no part in the loss.
            None => x.index_select(0, &rows)?.matmul(&self.head_matrix()?)?,
        };
        let log = logits.log_softmax(&[-1])?;
        let chosen = log.gather(-1, &Tensor::from_vec(labels, &[n, 1], &self.device)?)?;
        Ok(chosen.sum_all()?.mul(-1.0 / total as f64)?)
    }

    /// Computes the normed outputs of the last layer, `[sequences * longest, hidden]`. Shorter
    /// sequences are padded at their end, which no earlier position attends to.
    fn hidden(&self, sequences: &[&Sequence], options: PassOptions) -> Result<Tensor> {
        sequences.iter().try_for_each(|sequence| sequence.check(&self.config))?;
        let (batch, length) = (sequences.len(), longest(sequences));
        let pass = Arc::new(self.pass(batch, length, options)?);
        let mut tokens = vec![0_i32; batch * length];
        for (row, sequence) in tokens.chunks_exact_mut(length.max(1)).zip(sequences) {
            for (target, &token) in row.iter_mut().zip(sequence.tokens()) {
                *target = index(token as usize)?;
            }
        }
        let tokens = Tensor::from_vec(tokens, &[batch * length], &self.device)?;
        let ends = self.ends.tensors();
        let mut x = self.embedding.of(&ends)?.index_select(0, &tokens)?;
        for (layer, own) in self.layers.iter().zip(&self.parameters) {
            let tensors = own.tensors();
            x = match options.activations {
                Activations::Retained => layer.forward(&x, &tensors, &pass)?,
                Activations::Recomputed => {
                    let inputs: Vec<&Tensor> = std::iter::once(&x).chain(&tensors).collect();
                    let (layer, pass) = (Arc::clone(layer), Arc::clone(&pass));
                    autograd::checkpoint(&inputs, move |inputs| match inputs {
                        [x, tensors @ ..] => layer.forward(x, tensors, &pass),
                        [] => Err(internal("layer without inputs")),
                    })?
                }
            };
        }
        Ok(x.rms_norm(&[-1], Some(self.norm.of(&ends)?), self.config.norm_epsilon)?)
    }

    /// Returns the matrix from the residual stream to logits, `[hidden, vocabulary]`.
    fn head_matrix(&self) -> Result<Tensor> {
        let ends = self.ends.tensors();
        Ok(self.head.as_ref().unwrap_or(&self.embedding).of(&ends)?.t()?)
    }

    /// Computes logits from the normed outputs of the last layer, one row for each position.
    fn head_of(&self, x: &Tensor, seed: u64) -> Result<Tensor> {
        let head = self.head_matrix()?;
        let Some(streams) = self.stream_pass(seed) else { return Ok(x.matmul(&head)?) };
        let linear = LinearId::Head;
        let output = streams.clip(linear, x)?.matmul(&head)?;
        let weights = head.detach().t()?.contiguous()?.to_vec::<f32>()?;
        let rows = (0..self.config.vocabulary).collect();
        let replaced = streams.replace(linear, x, &weights, vec![(output, rows)])?;
        replaced.into_iter().next().ok_or_else(|| Error::internal("language/model.rs, head_of"))
    }

    fn stream_pass(&self, seed: u64) -> Option<StreamPass> {
        let settings = Arc::clone(self.streams.as_ref()?);
        Some(StreamPass { settings, config: Arc::new(self.config.clone()), seed })
    }

    fn pass(&self, batch: usize, length: usize, options: PassOptions) -> Result<Pass> {
        let Config { heads, kv_heads, head_dim, norm_epsilon: epsilon, .. } = self.config;
        let Some(rope) = self.config.rope else { return Err(family_fault(&self.config)) };
        let table = rope.table(head_dim, 0, length);
        let half = |offset: usize| {
            let values: Vec<f32> = table.iter().skip(offset).step_by(2).copied().collect();
            Tensor::from_vec(values, &[length, head_dim / 2], &self.device)
        };
        let window = match self.config.sliding_window {
            Some(window) if window.positions < length => {
                let numbers = Tensor::arange(0, length as i64, 1, DType::I32, &self.device)?;
                // Key j is seen by query i if j > i - window.
                let first = numbers.sub(window.positions as i64)?.unsqueeze(1)?;
                Some(numbers.gt(&first)?)
            }
            _ => None,
        };
        let (cosines, sines) = (half(0)?, half(1)?);
        let (dropout, streams) = (options.dropout, self.stream_pass(options.seed));
        Ok(Pass {
            batch,
            length,
            heads,
            kv_heads,
            head_dim,
            epsilon,
            cosines,
            sines,
            window,
            dropout,
            streams,
        })
    }
}

/// Returns the bytes of host memory that the weights take in training: four for each number.
fn memory_bytes(
    config: &Config,
    trained: &Trained,
    device: &Device,
    checkpoint: Option<&Path>,
) -> u128 {
    let embedding = config.vocabulary as u128 * config.hidden as u128;
    let weights = u128::from(config.matrix_weights()) + embedding;
    let numbers = match (trained, device) {
        // Weights are read on the host.
        (Trained::Adapter(_), _) => return 4 * weights,
        // The gradient and the two moments of each weight.
        (Trained::Weights, Device::Cpu) => 4,
        (Trained::Weights, _) => 1,
    };
    // The file of a checkpoint holds the weights and their moments.
    let in_file = if checkpoint.is_some() { 3 } else { 0 };
    4 * (numbers + in_file) * weights
}

fn longest(sequences: &[&Sequence]) -> usize {
    sequences.iter().map(|sequence| sequence.tokens().len()).max().unwrap_or(0)
}

/// Returns an index as the integer that tensors are indexed with.
fn index(value: usize) -> Result<i32> {
    i32::try_from(value)
        .map_err(|_| Error::option("index", value, "use fewer or shorter sequences in a batch"))
}

/// Returns a matrix as a tensor without its padding.
fn matrix(matrix: &Matrix, device: &Device) -> Result<Tensor> {
    let MatrixData::F32(data) = matrix.data() else {
        return Err(Error::internal("language/model.rs, matrix"));
    };
    let (rows, columns, stride) = (matrix.rows(), matrix.columns(), matrix.stride());
    let padded = Tensor::from_slice(data, &[rows, stride], device)?;
    Ok(if stride == columns { padded } else { padded.slice(1, 0..columns)?.contiguous()? })
}

fn family_fault(config: &Config) -> Error {
    Error::Family { family: format!("{:?}", config.architecture) }
}

fn internal(place: &'static str) -> aleatron_tensor::Error {
    aleatron_tensor::Error::Internal { place }
}

#[cfg(test)]
mod tests;
