//! Sparse layers on a GPU, with memory and work proportional to the connections.
//!
//! Weight streams are stored one after the other, connection by connection. They are divided into
//! segments of one neuron each, and a block counts one segment for some samples.

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::program::InputSign;
use aleatron_core::{
    Cancel, Connections, LayerSpec, Length, Polarity, Quantity, StreamAddress, Weights, memory,
};

use crate::buffers::{BufferSet, BufferSets, ChunkRun, CountOptions, SetSizes};
use crate::driver::{CudaContext, DeviceBuffer, Grid, Stream, kernels};
use crate::encode::{Encoder, call_seed, row_of};
use crate::error::{Error, Result};
use crate::inputs::{InputStage, Source};
use crate::kernels::{CallSeed, ResultKind, Segment, SparseParams, ValueKind};
use crate::plan::memory::bounded_chunk;
use crate::plan::rows::{MAX_PART_WORDS, Part, ROW_WORDS};
use crate::product::Product;
use crate::results::{CountWidth, Output, Recipe, Turn, check_values};
use crate::size::{host_size, size_u32};
use crate::weights::WeightEncoder;

/// Number of 64-bit words of weights that one block counts: 64 for each of its threads.
const SEGMENT_WORDS: u64 = 8192;

/// Number of samples that a block counts, `SPARSE_SAMPLES` of the kernel.
const BLOCK_SAMPLES: u64 = 4;

/// A sparse layer on a card.
#[derive(Debug)]
pub(crate) struct CudaSparse {
    context: Arc<CudaContext>,
    n_inputs: usize,
    n_neurons: usize,
    /// The largest number of connections of a neuron.
    most: usize,
    length: Length,
    polarity: Polarity,
    product: Product,
    chunk: usize,
    /// A row of inputs, whole.
    part: Part,
    weights: DeviceBuffer<u64>,
    units: DeviceBuffer<u32>,
    /// The signs of the weights, if weights have signs.
    weight_signs: Option<DeviceBuffer<u32>>,
    segments: DeviceBuffer<Segment>,
    stage: InputStage,
    recipe: Recipe,
    sets: BufferSets,
}

impl CudaSparse {
    /// Creates a layer, with `encoder` for its inputs.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        spec: &LayerSpec,
        connections: &Connections,
        weights: &Weights,
        encoder: Encoder,
        max_batch: usize,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        if max_batch == 0 {
            return Err(aleatron_core::Error::Zero(Quantity::Samples).into());
        }
        let (n_inputs, n_neurons, length) =
            (connections.n_inputs(), connections.n_neurons(), spec.length());
        let product = Product::of(spec.polarity(), InputSign::Any);
        let words = 2 * n_inputs as u64 * length.words() as u64;
        let (weight_words, free) =
            (connections.len() as u128 * length.words() as u128, context.free_bytes()?);
        let sample_bytes = 4 * u128::from(words.next_multiple_of(ROW_WORDS))
            + 8 * n_inputs as u128
            + (8 + 8) * n_neurons as u128;
        // Weights, and samples of two chunks; rows that are whole.
        let left = u128::from(free).saturating_sub(weight_words * 8) / (2 * sample_bytes);
        let Ok(weight_len) = usize::try_from(weight_words) else {
            return Err(Error::OutOfMemory { bytes: weight_words * 8, free });
        };
        if left == 0 {
            return Err(Error::OutOfMemory { bytes: weight_words * 8 + 2 * sample_bytes, free });
        }
        // Parts of dense rows are shorter because of their counts.
        let part = Part::new(0, words)?;
        let stream = Stream::new(context)?;
        let buffer = DeviceBuffer::<u64>::new(context, weight_len)?;
        if !connections.is_empty() {
            let mut maker =
                WeightEncoder::new(context, spec, weights, product, product.row_streams())?;
            // Pieces whose words a kernel can count.
            let at_once = (host_size(MAX_PART_WORDS) / (2 * length.words())).max(1);
            for start in (0..connections.len()).step_by(at_once) {
                let range = start..connections.len().min(start + at_once);
                let to = buffer.view().from(8 * start as u64 * length.words() as u64)?;
                maker.encode_connections(range, to, cancel)?;
            }
        }
        let bits = length.bits() as u64;
        let totals: Vec<u64> = connections
            .offsets()
            .windows(2)
            .map(|ends| (ends[1] - ends[0]) as u64 * bits)
            .collect();
        let upload = |values: &[u64]| DeviceBuffer::with(context, values, &stream);
        let (base, factor) = match product {
            Product::And => (None, 1),
            // All products except those that differ.
            Product::Xnor => (Some(upload(&totals)?), u64::MAX),
            Product::SignedAnd | Product::SplitAnd => (Some(upload(&totals)?), 1),
        };
        let weight_signs = match product {
            Product::And | Product::Xnor => None,
            Product::SignedAnd | Product::SplitAnd => {
                let is_negative = |&value: &f64| u32::from(spec.polarity().is_negative(value));
                let mut signs: Vec<u32> =
                    memory::with_capacity(connections.len() as u128, Quantity::Weights)?;
                signs.extend(weights.values().iter().map(is_negative));
                Some(DeviceBuffer::with(context, &signs, &stream)?)
            }
        };
        let recipe = Recipe {
            n_neurons,
            length,
            base,
            totals: Some(upload(&totals)?),
            total: 0,
            factor,
            takes_row_ones: false,
        };
        let layer = Self {
            context: Arc::clone(context),
            n_inputs,
            n_neurons,
            most: spec.max_fan_in(),
            length,
            polarity: spec.polarity(),
            product,
            chunk: bounded_chunk(max_batch, sample_bytes, left),
            part,
            weights: buffer,
            units: DeviceBuffer::with(context, connections.inputs(), &stream)?,
            weight_signs,
            segments: DeviceBuffer::with(
                context,
                &segments(connections.offsets(), length)?,
                &stream,
            )?,
            stage: InputStage {
                context: Arc::clone(context),
                n_units: n_inputs,
                length,
                product,
                encoder,
            },
            recipe,
            sets: BufferSets::default(),
        };
        Ok(layer)
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(crate) fn chunk(&self) -> usize {
        self.chunk
    }

    pub(crate) fn sizes(&self) -> SetSizes {
        SetSizes {
            values: self.chunk * self.n_inputs,
            work: self.chunk * self.part.stride as usize,
            counts: 2 * self.chunk * self.n_neurons,
            results: self.chunk * self.n_neurons,
            samples: self.chunk,
        }
    }

    pub(crate) fn sets(&self) -> &BufferSets {
        &self.sets
    }

    fn new_set(&self) -> Result<BufferSet> {
        BufferSet::new(&self.context, self.sizes())
    }

    /// Enqueues the counting of a chunk on the stream of a set, without waiting for it.
    pub(crate) fn enqueue(
        &self,
        set: &mut BufferSet,
        source: Source<'_>,
        n_samples: usize,
        first: StreamAddress,
        output: Output<'_>,
        options: &CountOptions<'_>,
    ) -> Result<()> {
        SparseRun { layer: self, source, seed: call_seed(first), output, options }
            .submit(set, 0..n_samples)
    }

    /// Counts a batch whose first stream is drawn at `first`.
    pub(crate) fn counts(
        &self,
        source: Source<'_>,
        n_samples: usize,
        first: StreamAddress,
        output: Output<'_>,
        options: &CountOptions<'_>,
    ) -> Result<Vec<u64>> {
        if let Output::Card(results) = &output
            && results.kind != ResultKind::Counts
        {
            check_values(self.most, self.length)?;
        }
        let mut run = SparseRun { layer: self, source, seed: call_seed(first), output, options };
        self.sets.run(n_samples, self.chunk, options, || self.new_set(), &mut run)?;
        Ok(run.output.into_counts())
    }

    fn enqueue_counts(
        &self,
        set: &BufferSet,
        options: &CountOptions<'_>,
        n_samples: usize,
    ) -> Result<()> {
        let n_segments = self.segments.len() as u64;
        if n_segments == 0 {
            return Ok(());
        }
        let row_words = u64::from(self.part.stride) / 2;
        let weight_signs = match &self.weight_signs {
            Some(signs) => signs.view().check(4 * self.units.len() as u128)?,
            None => 0,
        };
        // Sizes that the kernel indexes: segments end with the weights, units are those of the
        // connections.
        let params = SparseParams {
            weights: self.weights.view().check(8 * self.weights.len() as u128)?,
            inputs: set.work.view().check(8 * u128::from(row_words) * n_samples as u128)?,
            units: self.units.view().check(4 * self.units.len() as u128)?,
            segments: self.segments.view().check(24 * u128::from(n_segments))?,
            counts: set.counts.view().check(8 * n_samples as u128 * self.n_neurons as u128)?,
            row_words,
            weight_signs,
            thresholds: match self.product {
                Product::And | Product::Xnor => 0,
                Product::SignedAnd | Product::SplitAnd => {
                    set.values()?.check(8 * n_samples as u128 * self.n_inputs as u128)?
                }
            },
            stream_words: size_u32(self.length.words(), "stream words")?,
            n_segments: size_u32(n_segments, "number of segments")?,
            n_samples: size_u32(n_samples, "number of samples")?,
            n_neurons: size_u32(self.n_neurons, "number of neurons")?,
            n_inputs: size_u32(self.n_inputs, "number of inputs")?,
            product: match self.product {
                Product::And => 0,
                Product::Xnor => 1,
                Product::SignedAnd | Product::SplitAnd => 2,
            },
        };
        let groups = (n_samples as u64).div_ceil(BLOCK_SAMPLES);
        let bytes = 8 * self.weights.len() as u64 * (groups + n_samples as u64);
        set.queue(options).launch(
            &kernels::SPARSE,
            Grid::row(n_segments * groups)?,
            0,
            &params,
            bytes,
        )
    }
}

/// Returns the segments of all connections: of one neuron each, none longer than the limit of a
/// block.
fn segments(offsets: &[usize], length: Length) -> Result<Vec<Segment>> {
    let words = length.words() as u64;
    let mut segments = Vec::new();
    for (neuron, ends) in offsets.windows(2).enumerate() {
        let [begin, end] = [ends[0], ends[1]].map(|end| end as u64 * words);
        for element in (begin..end).step_by(host_size(SEGMENT_WORDS)) {
            let end = end.min(element + SEGMENT_WORDS);
            segments.push(Segment {
                begin: element,
                end,
                neuron: size_u32(neuron, "neuron")?,
                padding: 0,
            });
        }
    }
    Ok(segments)
}

/// State of one in-flight call.
struct SparseRun<'l, 'i> {
    layer: &'l CudaSparse,
    source: Source<'i>,
    seed: CallSeed,
    output: Output<'i>,
    options: &'l CountOptions<'l>,
}

impl ChunkRun for SparseRun<'_, '_> {
    fn submit(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()> {
        let SparseRun { layer, source, options, .. } = self;
        let first_row = row_of(self.seed, samples.start)?;
        let seed = CallSeed { first_row, ..self.seed };
        if source.kind(layer.product) == ValueKind::PackedStreams {
            layer.stage.send_streams(set, source, &samples, &layer.part)?;
            layer.stage.send_signs(set, source, &samples)?;
        } else {
            let part = Some(&layer.part);
            layer.stage.send(set, options, source, &samples, seed, part)?;
        }
        layer.enqueue_counts(set, options, samples.len())?;
        let card = match &self.output {
            Output::Counts(_) => None,
            Output::Card(results) => {
                Some(results.from(8 * (samples.start * layer.n_neurons) as u64)?)
            }
        };
        layer.recipe.give(set, options, samples.len(), card, CountWidth::Bits64, Turn::ONLY)
    }

    fn receive(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()> {
        let layer = self.layer;
        if let Some(index) = set.bad_value() {
            let first = samples.start * layer.n_inputs;
            return Err(self.source.bad_value(set, first, index, layer.polarity)?.into());
        }
        match &mut self.output {
            Output::Counts(counts) => set.take_results(samples.len() * layer.n_neurons, counts),
            Output::Card(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_cover_each_element_once() {
        let offsets = [0, 0, 3, 700, 700, 702];
        for bits in [1, 1000, 640_000] {
            let length = Length::new(bits).unwrap();
            let words = length.words() as u64;
            let mut next = 0;
            for segment in segments(&offsets, length).unwrap() {
                assert_eq!(segment.begin, next);
                assert!(
                    segment.end > segment.begin && segment.end - segment.begin <= SEGMENT_WORDS
                );
                let range = offsets[segment.neuron as usize]..offsets[segment.neuron as usize + 1];
                assert!(range.contains(&host_size(segment.begin / words)));
                assert!(range.contains(&host_size((segment.end - 1) / words)));
                next = segment.end;
            }
            assert_eq!(next, 702 * words);
        }
        assert_eq!(segments(&[0, 0, 0], Length::new(5).unwrap()).unwrap(), []);
    }
}
