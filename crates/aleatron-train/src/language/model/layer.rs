//! The layers of a model: norms, linear maps with or without corrections, attention.

use std::collections::BTreeMap;

use aleatron_tensor::{AttentionOptions, Causality, DType, Device, Tensor};
use aleatron_transformer::lora::Projection;
use aleatron_transformer::weights::{Loader, Slot, module_name, norm_names, projections};
use aleatron_transformer::{Adapter, Config, LinearId};

use super::value::{Parameters, Value, Weights};
use super::{Corrected, Dropout, TensorResult, internal};
use crate::batches::seed_of;
use crate::language::streams::StreamPass;
use crate::{Error, Result};

/// A layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) norms: [Value; 2],
    pub(super) maps: BTreeMap<Projection, Map>,
    pub(super) has_window: bool,
    /// The index of the layer.
    pub(super) index: usize,
}

/// A linear map, and the index of its correction.
#[derive(Debug)]
pub(super) struct Map {
    /// `[outputs, inputs]`.
    pub(super) weight: Value,
    pub(super) bias: Option<Value>,
    pub(super) correction: Option<Correction>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Correction {
    /// The index of `a` among the parameters of the layer; `b` follows it.
    pub(super) first: usize,
    pub(super) scale: f64,
    /// Distinguishes the dropout of this correction from others.
    pub(super) index: u64,
}

/// The shared values of the layers of one pass.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) batch: usize,
    pub(super) length: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) epsilon: f32,
    /// `[length, head_dim / 2]`.
    pub(super) cosines: Tensor,
    pub(super) sines: Tensor,
    /// The keys inside of the sliding window of each query, unless the window covers all.
    pub(super) window: Option<Tensor>,
    pub(super) dropout: Dropout,
    pub(super) streams: Option<StreamPass>,
}

impl Layer {
    /// Reads a layer, whose weights are frozen or become parameters.
    pub(super) fn new(
        loader: &Loader<'_>,
        index: usize,
        weights: Weights,
        own: &mut Parameters,
        device: &Device,
    ) -> Result<Self> {
        let config = loader.config;
        let vector = |values: &[f32]| Tensor::from_slice(values, &[values.len()], device);
        let [first, second] = loader.norms(index)?;
        let [first_name, second_name] = norm_names(config, index);
        let norms = [
            own.weight(weights, format!("{first_name}.weight"), vector(&first.weight)?)?,
            own.weight(weights, format!("{second_name}.weight"), vector(&second.weight)?)?,
        ];
        let mut maps = BTreeMap::new();
        for &projection in Slot::ALL.iter().flat_map(|&slot| projections(config, slot)) {
            let read = loader.projection(index, projection)?;
            let module = module_name(config, index, projection);
            let weight = Tensor::from_vec(read.weight, &projection.shape(config), device)?;
            let weight = own.weight(weights, format!("{module}.weight"), weight)?;
            let bias = match read.bias {
                Some(bias) => {
                    Some(own.weight(weights, format!("{module}.bias"), vector(&bias)?)?)
                }
                None => None,
            };
            maps.insert(projection, Map { weight, bias, correction: None });
        }
        Ok(Self { norms, maps, has_window: config.window(index).is_some(), index })
    }

    /// Adds the corrections of an adapter, whose matrices become parameters.
    pub(super) fn corrected(
        mut self,
        config: &Config,
        adapter: &Adapter,
        own: &mut Parameters,
        corrections: &mut Vec<Corrected>,
        device: &Device,
    ) -> Result<Self> {
        for &projection in Slot::ALL.iter().flat_map(|&slot| projections(config, slot)) {
            let part = adapter.part(self.index, projection);
            let (Some(part), Some(map)) = (part, self.maps.get_mut(&projection)) else { continue };
            let [rows, columns] = projection.shape(config);
            let module = module_name(config, self.index, projection);
            let a = Tensor::from_slice(&part.a, &[part.rank, columns], device)?;
            let b = Tensor::from_slice(&part.b, &[rows, part.rank], device)?;
            let first = own.add(format!("{module}.lora_A.weight"), &a)?;
            own.add(format!("{module}.lora_B.weight"), &b)?;
            let (scale, number) = (part.scale.into(), corrections.len() as u64);
            map.correction = Some(Correction { first, scale, index: number });
            corrections.push(Corrected { layer: self.index, projection, first });
        }
        Ok(self)
    }

    /// Computes the output of the layer from rows `[batch * length, hidden]` and the tensors of its
    /// parameters.
    pub(super) fn forward(
        &self,
        x: &Tensor,
        tensors: &[Tensor],
        pass: &Pass,
    ) -> TensorResult<Tensor> {
        use Projection::{Down, Gate, Key, Output, Query, Up, Value};
        let [attention_norm, feed_forward_norm] = &self.norms;
        let normed = x.rms_norm(&[-1], Some(attention_norm.of(tensors)?), pass.epsilon)?;
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
        let normed = x.rms_norm(&[-1], Some(feed_forward_norm.of(tensors)?), pass.epsilon)?;
        let [gate, up] = self.product(Slot::Up, [Gate, Up], &normed, tensors, pass)?;
        let inner = gate.silu()?.mul(&up)?;
        let [down] = self.product(Slot::Down, [Down], &inner, tensors, pass)?;
        x.add(&down)
    }

    /// Computes the projections of one matrix of the model.
    pub(super) fn product<const N: usize>(
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
                *output = output.add(bias.of(tensors)?)?;
            }
        }
        whole(outputs)
    }
}

impl Map {
    pub(super) fn forward(
        &self,
        x: &Tensor,
        tensors: &[Tensor],
        dropout: Dropout,
    ) -> TensorResult<Tensor> {
        let y = self.product(x, tensors, dropout)?;
        match &self.bias {
            Some(bias) => y.add(bias.of(tensors)?),
            None => Ok(y),
        }
    }

    /// Returns the weights with the correction, a row for each output.
    pub(super) fn effective(&self, tensors: &[Tensor]) -> TensorResult<Tensor> {
        let weight = self.weight.of(tensors)?.detach();
        let Some(Correction { first, scale, .. }) = self.correction else {
            return weight.contiguous();
        };
        let Some([a, b]) = tensors.get(first..first + 2) else {
            return Err(internal("correction without tensors"));
        };
        weight.add(&b.detach().matmul(&a.detach())?.mul(scale)?)?.contiguous()
    }

    /// Computes the product without the bias.
    pub(super) fn product(
        &self,
        x: &Tensor,
        tensors: &[Tensor],
        dropout: Dropout,
    ) -> TensorResult<Tensor> {
        let y = x.matmul(&self.weight.of(tensors)?.t()?)?;
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

/// Returns an error of streams as one of tensors, which layers that are computed again need.
fn stream_fault(error: Error) -> aleatron_tensor::Error {
    aleatron_tensor::Error::custom("streams of a linear product", error)
}
