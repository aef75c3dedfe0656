//! Device memory: weights, and the cache of keys and values.

use std::sync::Arc;

use aleatron_device::{GpuBuffer, GpuContext};

use super::host_size;
use super::kernels::Heads;
use crate::config::{Config, Precision};
use crate::error::{Error, Result};
use crate::lora::QkvLoRA;
use crate::pass::grown;
use crate::weights::{Linear, Matrix, MatrixData, NormWeights};

/// The rows of a matrix in one binding.
#[derive(Debug)]
pub(super) struct MatrixPart {
    pub(super) first: usize,
    pub(super) rows: usize,
    pub(super) data: GpuBuffer<u8>,
    pub(super) scales: Option<GpuBuffer<f32>>,
}

/// A matrix on the device, in as many parts as bindings need.
#[derive(Debug)]
pub(super) struct DeviceMatrix {
    pub(super) precision: Precision,
    pub(super) rows: usize,
    pub(super) stride: usize,
    pub(super) parts: Vec<MatrixPart>,
    pub(super) bias: Option<GpuBuffer<f32>>,
}

/// Parts have a multiple of this many rows, so that pairs of rows and tiles stay together.
const PART_ROWS: usize = 128;

impl DeviceMatrix {
    pub(super) fn new(
        context: &Arc<GpuContext>,
        matrix: &Matrix,
        bias: Option<&[f32]>,
    ) -> Result<Self> {
        let (rows, stride) = (matrix.rows(), matrix.stride());
        let (precision, bytes): (_, &[u8]) = match matrix.data() {
            MatrixData::F32(data) => (Precision::F32, bytemuck::cast_slice(data)),
            MatrixData::F16(data) => (Precision::F16, bytemuck::cast_slice(data)),
            MatrixData::Int8(data, _) => (Precision::Int8, bytemuck::cast_slice(data)),
        };
        let row_bytes = bytes.len() / rows;
        let most = (host_size(context.max_binding_bytes()) / row_bytes / PART_ROWS * PART_ROWS)
            .max(PART_ROWS);
        let mut parts = Vec::new();
        for first in (0..rows).step_by(most) {
            let count = most.min(rows - first);
            let data = context.upload(&bytes[first * row_bytes..][..count * row_bytes])?;
            let scales = match matrix.data() {
                MatrixData::Int8(_, scales) => Some(context.upload(&scales[first..first + count])?),
                _ => None,
            };
            parts.push(MatrixPart { first, rows: count, data, scales });
        }
        let bias = bias.map(|bias| context.upload(bias)).transpose()?;
        // The host holds written data until the device has it.
        context.finish()?;
        Ok(Self { precision, rows, stride, parts, bias })
    }

    pub(super) fn linear(context: &Arc<GpuContext>, map: &Linear) -> Result<Self> {
        Self::new(context, &map.matrix, map.bias.as_deref())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.data.len() as u64).sum()
    }
}

/// The parameters of a norm, padded.
#[derive(Debug)]
pub(super) struct DeviceNorm {
    pub(super) weight: GpuBuffer<f32>,
    pub(super) bias: Option<GpuBuffer<f32>>,
}

impl DeviceNorm {
    pub(super) fn new(context: &Arc<GpuContext>, weights: &NormWeights) -> Result<Self> {
        let padded = |values: &[f32]| -> Result<GpuBuffer<f32>> {
            let mut padded = values.to_vec();
            padded.resize(values.len().next_multiple_of(Matrix::PADDING), 0.0);
            Ok(context.upload(&padded)?)
        };
        let bias = weights.bias.as_deref().map(padded).transpose()?;
        Ok(Self { weight: padded(&weights.weight)?, bias })
    }
}

/// An adapter's correction of one matrix.
#[derive(Debug)]
pub(super) struct DeviceLora {
    pub(super) rank: usize,
    pub(super) a: GpuBuffer<f32>,
    pub(super) b: GpuBuffer<f32>,
}

impl DeviceLora {
    pub(super) fn new(context: &Arc<GpuContext>, lora: &QkvLoRA) -> Result<Self> {
        Ok(Self { rank: lora.rank, a: context.upload(&lora.a)?, b: context.upload(&lora.b)? })
    }
}

/// The keys and values of all sequences, layer by layer, and the rotations of their positions.
#[derive(Debug)]
pub(super) struct Cache {
    context: Arc<GpuContext>,
    heads: Heads,
    slots: usize,
    /// A counter that changes when the buffers are replaced.
    pub(super) version: u64,
    /// The capacity of a sequence in positions.
    pub(super) capacity: usize,
    pub(super) layers: Vec<[GpuBuffer<u32>; 2]>,
    pub(super) rotations: Option<GpuBuffer<f32>>,
}

impl Cache {
    pub(super) fn new(context: &Arc<GpuContext>, heads: Heads) -> Self {
        let context = Arc::clone(context);
        Self {
            context,
            heads,
            slots: 0,
            version: 0,
            capacity: 0,
            layers: Vec::new(),
            rotations: None,
        }
    }

    /// Returns the number of words of one position.
    fn words(&self, config: &Config) -> usize {
        config.kv_heads * self.heads.head4() as usize * self.heads.vector_bytes() / 4
    }

    /// Reserves capacity for sequences and positions, in steps; the contents are preserved.
    pub(super) fn reserve(
        &mut self,
        config: &Config,
        slots: usize,
        positions: usize,
    ) -> Result<()> {
        if slots <= self.slots && positions <= self.capacity {
            return Ok(());
        }
        let slots = if slots > self.slots { slots.next_power_of_two() } else { self.slots };
        let capacity =
            if positions > self.capacity { grown(positions, config) } else { self.capacity };
        let words = self.words(config);
        let one = slots as u128 * capacity as u128 * words as u128 * 4;
        let bytes = one * 2 * config.layers as u128;
        let refused =
            |reason: String| Error::Cache { bytes, sequences: slots, positions: capacity, reason };
        let most = self.context.max_binding_bytes();
        if one > most.into() {
            return Err(refused(format!(
                "{one} bytes for the keys of a layer, a binding has {most} at most"
            )));
        }
        // Below the bytes of a binding.
        let len = slots * capacity * words;
        let allocate = || self.context.buffer::<u32>(len).map_err(|e| refused(e.to_string()));
        let mut layers = Vec::new();
        for _ in 0..config.layers {
            layers.push([allocate()?, allocate()?]);
        }
        let mut recorder = self.context.recorder(None)?;
        for (old, new) in self.layers.iter().zip(&layers) {
            for (old, new) in old.iter().zip(new) {
                for slot in 0..self.slots {
                    let from = old.view_of(slot * self.capacity * words, self.capacity * words)?;
                    recorder
                        .copy(from, new.view_of(slot * capacity * words, self.capacity * words)?)?;
                }
            }
        }
        recorder.submit()?;
        if let Some(rope) = config.rope.filter(|_| capacity > self.capacity) {
            self.rotations =
                Some(self.context.upload(&rope.table(config.head_dim, 0, capacity))?);
        }
        (self.layers, self.slots, self.capacity) = (layers, slots, capacity);
        self.version += 1;
        Ok(())
    }

    /// Copies the first positions of a sequence to another.
    pub(super) fn copy(
        &self,
        config: &Config,
        from: usize,
        to: usize,
        positions: usize,
    ) -> Result<()> {
        let words = self.words(config);
        let mut recorder = self.context.recorder(None)?;
        for buffer in self.layers.iter().flatten() {
            let view =
                |slot: usize| buffer.view_of(slot * self.capacity * words, positions * words);
            recorder.copy(view(from)?, view(to)?)?;
        }
        recorder.submit()?;
        Ok(())
    }
}
