//! The differentiable forward pass: a frozen model of the Llama family out of tensor operations,
//! with trainable low-rank corrections.

use std::collections::BTreeMap;
use std::sync::Arc;

use aleatron_core::conformance::Digest;
use aleatron_core::{Quantity, memory};
use aleatron_tensor::{AttentionOptions, Causality, DType, Device, Tensor, autograd};
use aleatron_transformer::config::{Activation, Architecture, NormKind};
use aleatron_transformer::lora::Projection;
use aleatron_transformer::weights::files::TensorFiles;
use aleatron_transformer::weights::{Loader, Matrix, MatrixData, Slot, module_name, projections};
use aleatron_transformer::{Adapter, Config, LinearId, ModelSource, Precision};

use super::data::{IGNORED, Sequence};
use super::streams::{LoraStreams, StreamPass};
use crate::batches::seed_of;
use crate::{Error, Parameter, Result};

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

/// A model with frozen weights and a trainable adapter.
#[derive(Debug)]
pub struct LoraModel {
    config: Config,
    device: Device,
    embedding: Tensor,
    /// From the residual stream to logits: `[hidden, vocabulary]`.
    head: Tensor,
    norm: Tensor,
    layers: Vec<Arc<Layer>>,
    adapter: Adapter,
    corrections: Vec<Trainable>,
    streams: Option<Arc<LoraStreams>>,
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

/// The parameters of a correction.
#[derive(Debug)]
struct Trainable {
    layer: usize,
    projection: Projection,
    /// `a` and `b`.
    parameters: [Parameter; 2],
}

/// The frozen weights of a layer.
#[derive(Debug)]
struct Layer {
    norms: [Tensor; 2],
    maps: BTreeMap<Projection, Map>,
    has_window: bool,
    /// The index of the layer.
    index: usize,
}

/// A frozen linear map, and the index of its correction.
#[derive(Debug)]
struct Map {
    /// `[inputs, outputs]`.
    weight: Tensor,
    bias: Option<Tensor>,
    correction: Option<Correction>,
}

#[derive(Debug, Clone, Copy)]
struct Correction {
    /// The index of `a` among the tensors of the layer; `b` follows it.
    first: usize,
    scale: f64,
    /// Distinguishes the dropout of this correction from others.
    index: u64,
}

/// The shared values of the layers of one pass.
#[derive(Debug)]
struct Pass {
    batch: usize,
    length: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    epsilon: f32,
    /// `[length, head_dim / 2]`.
    cosines: Tensor,
    sines: Tensor,
    /// The keys inside of the sliding window of each query, unless the window covers all.
    window: Option<Tensor>,
    dropout: Dropout,
    streams: Option<StreamPass>,
}

impl LoraModel {
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

    /// Loads a model from a folder, or the embedded one, and adds an adapter.
    ///
    /// # Errors
    /// [`Error::Family`] for a family without a differentiable pass, [`Error::Transformer`] with
    /// the file, the option or the tensor that is wrong.
    pub fn from_pretrained(
        source: &ModelSource,
        config: &Config,
        adapter: Adapter,
        device: &Device,
    ) -> Result<Self> {
        Self::check(config)?;
        let files = TensorFiles::open_model(source, config)?;
        let loader = Loader { config, source: &files, precision: Precision::F32, merged: None };
        Self::new(&loader, adapter, device)
    }

    /// Loads a model and adds an adapter.
    ///
    /// # Errors
    /// As [`Self::from_pretrained`].
    pub fn new(loader: &Loader<'_>, adapter: Adapter, device: &Device) -> Result<Self> {
        let config = loader.config;
        config.check()?;
        Self::check(config)?;
        let embedding_weights = config.vocabulary as u128 * config.hidden as u128;
        let weights = u128::from(config.matrix_weights()) + embedding_weights;
        memory::check(4 * weights, Quantity::Weights)?;
        let loader = Loader { precision: Precision::F32, ..*loader };
        let vector = |values: &[f32]| Tensor::from_slice(values, &[values.len()], device);
        let ends = loader.ends()?;
        let embedding = matrix(&ends.embedding, device)?;
        let head = match &ends.head {
            Some(head) => matrix(head, device)?.t()?,
            None => embedding.t()?,
        };
        let norm = vector(&ends.norm.weight)?;
        drop(ends);
        let mut corrections = Vec::new();
        let mut layers = Vec::with_capacity(config.layers);
        for index in 0..config.layers {
            let [first, second] = loader.norms(index)?;
            let mut maps = BTreeMap::new();
            let mut n_tensors = 0;
            for &projection in Slot::ALL.iter().flat_map(|&slot| projections(config, slot)) {
                let [rows, columns] = projection.shape(config);
                let own = loader.projection(index, projection)?;
                let bias = own.bias.as_deref().map(vector).transpose()?;
                let weight = Tensor::from_vec(own.weight, &[rows, columns], device)?.t()?;
                let correction = match adapter.part(index, projection) {
                    None => None,
                    Some(part) => {
                        let a = Tensor::from_slice(&part.a, &[part.rank, columns], device)?;
                        let b = Tensor::from_slice(&part.b, &[rows, part.rank], device)?;
                        let parameters = [Parameter::new(&a)?, Parameter::new(&b)?];
                        let (first, number) = (n_tensors, corrections.len() as u64);
                        corrections.push(Trainable { layer: index, projection, parameters });
                        n_tensors += 2;
                        Some(Correction { first, scale: part.scale.into(), index: number })
                    }
                };
                maps.insert(projection, Map { weight, bias, correction });
            }
            let norms = [vector(&first.weight)?, vector(&second.weight)?];
            let has_window = config.window(index).is_some();
            layers.push(Arc::new(Layer { norms, maps, has_window, index }));
        }
        if corrections.is_empty() {
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
            layers,
            adapter,
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
    pub fn with_streams(mut self, streams: LoraStreams) -> Result<Self> {
        streams.check(&self.config)?;
        self.streams = Some(Arc::new(streams));
        Ok(self)
    }

    /// Returns the streams of the forward pass; `None` in floating point.
    #[must_use]
    pub fn streams(&self) -> Option<&LoraStreams> {
        self.streams.as_deref()
    }

    /// Returns the architecture and the sizes.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the parameters: `a` and `b` of each correction.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        self.corrections.iter().flat_map(|own| own.parameters.iter().cloned()).collect()
    }

    /// Returns the parameters with the names of PEFT, without the prefix of its files.
    #[must_use]
    pub fn named_parameters(&self) -> Vec<(String, Parameter)> {
        let named = |own: &Trainable| {
            let module = module_name(&self.config, own.layer, own.projection);
            let [a, b] = own.parameters.clone();
            [(format!("{module}.lora_A.weight"), a), (format!("{module}.lora_B.weight"), b)]
        };
        self.corrections.iter().flat_map(named).collect()
    }

    /// Returns the adapter as it is now.
    ///
    /// # Errors
    /// [`Error::Tensor`] if a device fails.
    pub fn adapter(&self) -> Result<Adapter> {
        let mut adapter = self.adapter.clone();
        for Trainable { layer, projection, parameters: [a, b] } in &self.corrections {
            let [a, b] = [a, b].map(|parameter| parameter.tensor().detach().to_vec::<f32>());
            adapter.set(&self.config, *layer, *projection, a?, b?)?;
        }
        Ok(adapter)
    }

    /// Adds all weights, the frozen ones and the trainable ones, to a digest.
    pub(super) fn digest(&self, digest: &mut Digest) -> Result<()> {
        let trainable: Vec<Tensor> =
            self.parameters().iter().map(|own| own.tensor().detach()).collect();
        let maps = self.layers.iter().flat_map(|layer| layer.maps.values());
        let frozen = maps.flat_map(|map| std::iter::once(&map.weight).chain(&map.bias));
        let norms = self.layers.iter().flat_map(|layer| &layer.norms);
        let ends = [&self.embedding, &self.head, &self.norm];
        for tensor in trainable.iter().chain(frozen).chain(norms).chain(ends) {
            digest.answer(tensor.to_vec::<f32>()?.into_iter().map(|x| u64::from(x.to_bits())));
        }
        // The factors are not among the weights.
        let scales = self.adapter.parts().map(|(_, _, part)| u64::from(part.scale.to_bits()));
        digest.answer(scales.collect::<Vec<_>>());
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
            None => x.index_select(0, &rows)?.matmul(&self.head)?,
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
        let mut x = self.embedding.index_select(0, &tokens)?;
        for (number, layer) in self.layers.iter().enumerate() {
            let own = self.corrections.iter().filter(|own| own.layer == number);
            let tensors: Vec<Tensor> =
                own.flat_map(|own| own.parameters.iter().map(Parameter::tensor)).collect();
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
        Ok(x.rms_norm(&[-1], Some(&self.norm), self.config.norm_epsilon)?)
    }

    /// Computes logits from the normed outputs of the last layer, one row for each position.
    fn head_of(&self, x: &Tensor, seed: u64) -> Result<Tensor> {
        let Some(streams) = self.stream_pass(seed) else { return Ok(x.matmul(&self.head)?) };
        let linear = LinearId::Head;
        let output = streams.clip(linear, x)?.matmul(&self.head)?;
        let weights = self.head.t()?.contiguous()?.to_vec::<f32>()?;
        let rows = (0..self.config.vocabulary).collect();
        let replaced = streams.replace(linear, x, &weights, vec![(output, rows)])?;
        replaced.into_iter().next().ok_or_else(|| Error::internal("lora/model.rs, head_of"))
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

impl Layer {
    /// Computes the output of the layer from rows `[batch * length, hidden]` and the tensors of its
    /// corrections.
    fn forward(&self, x: &Tensor, tensors: &[Tensor], pass: &Pass) -> TensorResult<Tensor> {
        use Projection::{Down, Gate, Key, Output, Query, Up, Value};
        let [attention_norm, feed_forward_norm] = &self.norms;
        let normed = x.rms_norm(&[-1], Some(attention_norm), pass.epsilon)?;
        let [q, k, v] = self.product(Slot::Qkv, [Query, Key, Value], &normed, tensors, pass)?;
        let q = pass.rotate(&pass.heads_of(&q, pass.heads / pass.kv_heads)?)?;
        let k = pass.rotate(&pass.heads_of(&k, 1)?)?;
        let v = pass.heads_of(&v, 1)?;
        let mask = pass.window.as_ref().filter(|_| self.has_window);
        let options = AttentionOptions { mask, causality: Causality::FromFirst, scale: None };
        let heads = q.attention(&k, &v, &options)?.permute(&[0, 3, 1, 2, 4])?;
        let heads = heads.reshape(&[pass.batch * pass.length, pass.heads * pass.head_dim])?;
        let [output] = self.product(Slot::Output, [Output], &heads, tensors, pass)?;
        let x = x.add(&output)?;
        let normed = x.rms_norm(&[-1], Some(feed_forward_norm), pass.epsilon)?;
        let [gate, up] = self.product(Slot::Up, [Gate, Up], &normed, tensors, pass)?;
        let inner = gate.silu()?.mul(&up)?;
        let [down] = self.product(Slot::Down, [Down], &inner, tensors, pass)?;
        x.add(&down)
    }

    /// Computes the projections of one matrix of the model.
    fn product<const N: usize>(
        &self,
        slot: Slot,
        projections: [Projection; N],
        x: &Tensor,
        tensors: &[Tensor],
        pass: &Pass,
    ) -> TensorResult<[Tensor; N]> {
        let map = |projection: &Projection| {
            self.maps.get(projection).ok_or_else(|| internal("layer without a projection"))
        };
        let Some(streams) = &pass.streams else {
            let outputs = projections.iter().map(|own| map(own)?.forward(x, tensors, pass.dropout));
            return whole(outputs.collect::<TensorResult<_>>()?);
        };
        let failed = stream_fault;
        let linear = LinearId::Layer { layer: self.index, slot };
        let [n_outputs, n_inputs] = linear.shape(&streams.config);
        let clipped = streams.clip(linear, x).map_err(failed)?;
        let mut weights = vec![0.0; n_outputs * n_inputs];
        let mut outputs = Vec::with_capacity(N);
        for (index, projection) in projections.iter().enumerate() {
            let own = map(projection)?;
            let rows = rows_of(&streams.config, slot, *projection, index);
            let values = own.effective(tensors)?.to_vec::<f32>()?;
            for (row, values) in rows.iter().zip(values.chunks_exact(n_inputs)) {
                weights[row * n_inputs..][..n_inputs].copy_from_slice(values);
            }
            outputs.push((own.product(&clipped, tensors, pass.dropout)?, rows));
        }
        let mut outputs = streams.replace(linear, x, &weights, outputs).map_err(failed)?;
        for (output, projection) in outputs.iter_mut().zip(&projections) {
            if let Some(bias) = &map(projection)?.bias {
                *output = output.add(bias)?;
            }
        }
        whole(outputs)
    }
}

impl Map {
    fn forward(&self, x: &Tensor, tensors: &[Tensor], dropout: Dropout) -> TensorResult<Tensor> {
        let y = self.product(x, tensors, dropout)?;
        match &self.bias {
            Some(bias) => y.add(bias),
            None => Ok(y),
        }
    }

    /// Returns the weights with the correction, a row for each output.
    fn effective(&self, tensors: &[Tensor]) -> TensorResult<Tensor> {
        let weight = self.weight.t()?;
        let Some(Correction { first, scale, .. }) = self.correction else {
            return weight.contiguous();
        };
        let Some([a, b]) = tensors.get(first..first + 2) else {
            return Err(internal("correction without tensors"));
        };
        weight.add(&b.detach().matmul(&a.detach())?.mul(scale)?)?.contiguous()
    }

    /// Computes the product without the bias.
    fn product(&self, x: &Tensor, tensors: &[Tensor], dropout: Dropout) -> TensorResult<Tensor> {
        let y = x.matmul(&self.weight)?;
        let Some(Correction { first, scale, index }) = self.correction else { return Ok(y) };
        let Some([a, b]) = tensors.get(first..first + 2) else {
            return Err(internal("correction without tensors"));
        };
        let x = match dropout {
            Dropout::Enabled { share, seed } if share > 0.0 => {
                // The mask is a function of the step and the correction: recomputed layers get the
                // same.
                let draws =
                    Tensor::rand_seeded(x.shape(), seed_of(seed, index), DType::F32, &x.device())?;
                x.mul(&draws.ge(share)?.cast(DType::F32)?.mul(1.0 / (1.0 - share))?)?
            }
            _ => x.clone(),
        };
        y.add(&x.matmul(&a.t()?)?.matmul(&b.t()?)?.mul(scale)?)
    }
}

impl Pass {
    /// Returns rows as `[batch, kv_heads, group, length, head_dim]`, where `group` heads share a
    /// head of keys and values.
    fn heads_of(&self, x: &Tensor, group: usize) -> TensorResult<Tensor> {
        x.reshape(&[self.batch, self.length, self.kv_heads, group, self.head_dim])?
            .permute(&[0, 2, 3, 1, 4])
    }

    /// Rotates the pairs (i, i + half) of each head by the angles of its position.
    fn rotate(&self, x: &Tensor) -> TensorResult<Tensor> {
        let half = self.head_dim / 2;
        let (low, high) = (x.slice(-1, 0..half)?, x.slice(-1, half..self.head_dim)?);
        let turned_low = low.mul(&self.cosines)?.sub(&high.mul(&self.sines)?)?;
        let turned_high = high.mul(&self.cosines)?.add(&low.mul(&self.sines)?)?;
        Tensor::concat(&[&turned_low, &turned_high], -1)
    }
}

/// Returns the rows of a projection in a matrix of the model; `index` is that of the projection
/// among those of the matrix.
fn rows_of(config: &Config, slot: Slot, projection: Projection, index: usize) -> Vec<usize> {
    let n = projection.shape(config)[0];
    match slot {
        // Gates and values alternate.
        Slot::Up => (0..n).map(|row| 2 * row + index).collect(),
        Slot::Qkv => {
            let start = match projection {
                Projection::Key => config.query_width(),
                Projection::Value => config.query_width() + config.kv_width(),
                _ => 0,
            };
            (start..start + n).collect()
        }
        Slot::Output | Slot::Down => (0..n).collect(),
    }
}

/// Returns outputs as an array.
fn whole<const N: usize>(outputs: Vec<Tensor>) -> TensorResult<[Tensor; N]> {
    outputs.try_into().map_err(|_| internal("product without outputs"))
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
        return Err(Error::internal("lora/model.rs, matrix"));
    };
    let (rows, columns, stride) = (matrix.rows(), matrix.columns(), matrix.stride());
    let padded = Tensor::from_slice(data, &[rows, stride], device)?;
    Ok(if stride == columns { padded } else { padded.slice(1, 0..columns)?.contiguous()? })
}

fn family_fault(config: &Config) -> Error {
    Error::Family { family: format!("{:?}", config.architecture) }
}

/// Returns an error of streams as one of tensors, which layers that are computed again need.
fn stream_fault(error: Error) -> aleatron_tensor::Error {
    aleatron_tensor::Error::custom("streams of a linear product", error)
}

fn internal(place: &'static str) -> aleatron_tensor::Error {
    aleatron_tensor::Error::Internal { place }
}

#[cfg(test)]
mod tests;
