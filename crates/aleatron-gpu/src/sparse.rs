//! Sparse layers on a device, with memory and work proportional to the connections.
//!
//! Weight streams are stored one after the other, connection by connection, in blocks that a
//! binding can hold. A block's connections are divided into segments of one neuron each, and a
//! workgroup counts one segment for one sample.

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::stream::check_words;
use aleatron_core::{Connections, Length, Polarity, Quantity, StreamAddress, Threshold, memory};
use aleatron_device::{
    BufferView, GpuBuffer, GpuContext, Profiler, Recorder, Submission, grid, max_grid, size_u32,
};

use crate::buffers::{
    self, BufferSet, BufferSets, ChunkRun, CountMode, SetSizes, check_words_of, chunk_of,
};
use crate::encode::{self, Part, at_row, check_address, threshold_words};
use crate::error::{Error, Limit, Result, host_size};
use crate::inputs::{CountOptions, Inputs, ThresholdSource};
use crate::kernels::{SparseParams, StreamKernel};
use crate::partition::{Block, Cut, StreamWords, VECTOR, gather};

/// Number of 64-bit words of weights that one workgroup counts: 64 for each of its threads.
const SEGMENT_WORDS: usize = 8192;

/// The connections of one binding: their weights, inputs, and segments.
#[derive(Debug)]
struct WeightBlock {
    first: usize,
    n: usize,
    weights: GpuBuffer<u32>,
    units: GpuBuffer<u32>,
    /// Neuron, first element, and end.
    segments: GpuBuffer<[u32; 3]>,
}

/// A sparse layer on a device.
#[derive(Debug)]
pub struct GpuSparse {
    context: Arc<GpuContext>,
    connections: Connections,
    length: Length,
    polarity: Polarity,
    /// The largest number of connections of a neuron.
    most: usize,
    /// Number of samples per submission.
    chunk: usize,
    cut: Cut,
    blocks: Vec<WeightBlock>,
    sets: BufferSets,
}

impl GpuSparse {
    /// Creates a layer of packed weight streams, `[connection][word]`.
    ///
    /// # Errors
    /// Returns [`aleatron_core::Error`] for words that do not match the connections,
    /// [`Error::TooLarge`] if one sample's streams exceed a binding, and errors of the device.
    pub fn from_words(
        context: &Arc<GpuContext>,
        connections: Connections,
        length: Length,
        polarity: Polarity,
        max_batch: usize,
        words: &[u64],
    ) -> Result<Self> {
        let mut layer = Self::empty(context, connections, length, polarity, max_batch)?;
        layer.set_words(words)?;
        Ok(layer)
    }

    /// Creates a layer whose weight streams the device draws: the stream of neuron j and input i at
    /// row `first.row + j`, unit `first.unit + i`, as in the dense layer.
    ///
    /// # Errors
    /// As for [`Self::from_words`].
    pub fn from_thresholds(
        context: &Arc<GpuContext>,
        connections: Connections,
        length: Length,
        polarity: Polarity,
        max_batch: usize,
        weights: &[Threshold],
        first: StreamAddress,
    ) -> Result<Self> {
        let mut layer = Self::empty(context, connections, length, polarity, max_batch)?;
        layer.set_thresholds(weights, first)?;
        Ok(layer)
    }

    fn empty(
        context: &Arc<GpuContext>,
        connections: Connections,
        length: Length,
        polarity: Polarity,
        max_batch: usize,
    ) -> Result<Self> {
        if max_batch == 0 {
            return Err(aleatron_core::Error::Zero(Quantity::Samples).into());
        }
        let limit = context.max_binding_bytes();
        let row_words = connections.n_inputs() as u128 * length.words() as u128 * 2;
        let stream_bytes = row_words.next_multiple_of(VECTOR as u128) * 4;
        let threshold_bytes = 4 * threshold_words(connections.n_inputs()) as u128;
        let count_bytes = 8 * connections.n_neurons() as u128;
        let sizes = [
            (Limit::StreamBytes, stream_bytes),
            (Limit::ThresholdBytes, threshold_bytes),
            (Limit::CountBytes, count_bytes),
        ];
        for (what, actual) in sizes {
            if actual > limit.into() {
                return Err(Error::TooLarge { what, actual, limit });
            }
        }
        let largest = stream_bytes.max(threshold_bytes).max(count_bytes);
        let words = host_size(row_words);
        let cut = Cut { begin: 0, words, stride: words.next_multiple_of(VECTOR) };
        let chunk = host_size(u128::from(limit) / largest).min(chunk_of(max_batch));
        let blocks = weight_blocks(context, &connections, length)?;
        let degrees = connections.offsets().windows(2).map(|pair| pair[1] - pair[0]);
        let (most, sets) = (degrees.max().unwrap_or(0), BufferSets::default());
        let context = Arc::clone(context);
        let layer = Self { context, connections, length, polarity, most, chunk, cut, blocks, sets };
        layer.sets.keep(layer.new_set()?);
        Ok(layer)
    }

    fn new_set(&self) -> Result<BufferSet> {
        BufferSet::new(
            &self.context,
            SetSizes {
                thresholds: threshold_words(self.chunk * self.connections.n_inputs()),
                work: self.chunk * self.cut.stride,
                counts: self.count_words(self.chunk),
            },
        )
    }

    /// Returns the connections.
    #[must_use]
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Returns the device.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// Returns whether the device is lost: the layer must then be created again on a new one.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.context.is_lost()
    }

    /// Returns the number of samples of one submission; larger batches run in chunks of this size,
    /// with the same counts.
    #[must_use]
    pub fn chunk(&self) -> usize {
        self.chunk
    }

    /// Returns the number of buffers of the weights.
    #[must_use]
    pub fn n_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the size of the weight streams on the device in bytes.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.blocks.iter().map(|block| 4 * block.weights.len()).sum()
    }

    /// Replaces the weights by packed streams, `[connection][word]`.
    ///
    /// # Errors
    /// As for [`Self::from_words`].
    pub fn set_words(&mut self, words: &[u64]) -> Result<()> {
        check_words(words, self.connections.len(), self.length)?;
        let words: &[u32] = bytemuck::cast_slice(words);
        let stored = 2 * self.length.words();
        for block in &self.blocks {
            block
                .weights
                .write(0, &words[block.first * stored..(block.first + block.n) * stored])?;
        }
        Ok(())
    }

    /// Replaces the weights by streams that the device draws.
    ///
    /// # Errors
    /// As for [`Self::from_thresholds`].
    pub fn set_thresholds(&mut self, weights: &[Threshold], first: StreamAddress) -> Result<()> {
        let (expected, actual) = (self.connections.len(), weights.len());
        if expected != actual {
            return Err(aleatron_core::Error::Mismatch {
                what: Quantity::Weights,
                expected,
                actual,
            }
            .into());
        }
        check_address(first, self.connections.n_neurons(), self.connections.n_inputs())?;
        let n_addresses = self.connections.len() as u128;
        let mut addresses = memory::with_capacity(n_addresses, Quantity::Connections)?;
        for neuron in 0..self.connections.n_neurons() {
            let row = at_row(first, neuron)?.row;
            // Units were checked to be addressable by a counter.
            let units = self
                .connections
                .inputs_of(neuron)
                .iter()
                .map(|&unit| first.unit.wrapping_add(unit));
            addresses.extend(units.map(|unit| [unit, row]));
        }
        let stream = StreamWords::of(self.length);
        let mut packed = Vec::new();
        for block in &self.blocks {
            let range = block.first..block.first + block.n;
            encode::pack(&weights[range.clone()], &mut packed);
            let thresholds = self.context.upload(&packed)?;
            let list = self.context.upload(&addresses[range])?;
            let words = block.n * stream.stored as usize;
            let cut = Cut { begin: 0, words, stride: words };
            let part = Part { first, n_rows: 1, n_units: block.n, cut, stream, out_base: 0 };
            let mut recorder = self.context.recorder(None)?;
            encode::record(
                &mut recorder,
                &part,
                thresholds.view(),
                block.weights.view(),
                Some(list.view()),
            )?;
            recorder.submit()?;
        }
        Ok(())
    }

    /// Returns the packed weight streams, `[connection][word]`, read back.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn words(&self) -> Result<Vec<u64>> {
        let n_words = self.connections.len() as u128 * self.length.words() as u128;
        let mut words = memory::with_capacity(n_words, Quantity::Weights)?;
        for block in &self.blocks {
            words.extend(
                block
                    .weights
                    .read()?
                    .chunks_exact(2)
                    .map(|w| u64::from(w[0]) | u64::from(w[1]) << 32),
            );
        }
        Ok(words)
    }

    /// Counts a batch, `[sample][neuron]`, as [`GpuDense::counts`](crate::GpuDense::counts).
    ///
    /// # Errors
    /// Returns [`aleatron_core::Error::Ragged`] unless the inputs are whole samples,
    /// [`Error::TooLarge`] if a counter cannot address a row, and errors of the device.
    pub fn counts(&self, inputs: &[Threshold], first: StreamAddress) -> Result<Vec<u64>> {
        let source = ThresholdSource::Slice(inputs);
        self.counts_with(Inputs::Thresholds { source, first }, CountOptions::default())
    }

    /// Counts `n_samples` samples whose thresholds `fill` appends on demand, as
    /// [`GpuDense::counts_filled`](crate::GpuDense::counts_filled).
    ///
    /// # Errors
    /// As for [`Self::counts`], and errors of `fill`.
    pub fn counts_filled(
        &self,
        n_samples: usize,
        first: StreamAddress,
        mut fill: impl FnMut(Range<usize>, &mut Vec<Threshold>) -> Result<()>,
    ) -> Result<Vec<u64>> {
        let source = ThresholdSource::Filled { n_samples, fill: &mut fill };
        self.counts_with(Inputs::Thresholds { source, first }, CountOptions::default())
    }

    /// Counts a batch of packed input streams, `[sample][input][word]`.
    ///
    /// # Errors
    /// Returns [`aleatron_core::Error`] if the words are not whole samples or have ones beyond the
    /// length, and errors of the device.
    pub fn counts_of_streams(&self, words: &[u64]) -> Result<Vec<u64>> {
        self.counts_with(Inputs::Streams(words), CountOptions::default())
    }

    /// Counts a batch, `[sample][neuron]`, optionally with timed kernels or cancellation between
    /// chunks.
    ///
    /// # Errors
    /// As for [`Self::counts`], [`Self::counts_filled`] and [`Self::counts_of_streams`], and
    /// [`aleatron_core::Error::Cancelled`].
    pub fn counts_with(&self, inputs: Inputs<'_>, options: CountOptions<'_>) -> Result<Vec<u64>> {
        let n_inputs = self.connections.n_inputs();
        let n_samples = inputs.n_samples(n_inputs, self.length)?;
        let n_counts = n_samples as u128 * self.connections.n_neurons() as u128;
        let counts = memory::with_capacity(n_counts, Quantity::Counts)?;
        let mut run = SparseRun { layer: self, inputs, filled: Vec::new(), counts };
        self.sets.run(n_samples, self.chunk, options, || self.new_set(), &mut run)?;
        Ok(run.counts)
    }

    /// Returns the memory of idle calls to the pool of the device.
    pub(crate) fn release(&self) {
        self.sets.clear();
    }

    /// Returns the number of words of the streams of a sample.
    pub(crate) fn stream_cut(&self) -> Cut {
        self.cut
    }

    /// Returns whether counts exceed 32 bits.
    pub(crate) fn is_wide(&self) -> bool {
        buffers::is_wide(self.most, self.length)
    }

    pub(crate) fn count_words(&self, n_samples: usize) -> usize {
        n_samples * self.connections.n_neurons() * if self.is_wide() { 2 } else { 1 }
    }

    pub(crate) fn record_counts(
        &self,
        recorder: &mut Recorder<'_>,
        streams: BufferView<'_>,
        counts: BufferView<'_>,
        n_samples: usize,
    ) -> Result<()> {
        let constants = [
            ("XOR", (self.polarity == Polarity::Bipolar).into()),
            ("ADD", true.into()),
            ("WIDE", self.is_wide().into()),
        ];
        let pipeline = self.context.pipeline(&StreamKernel::Sparse, &constants)?;
        // Sizes that the kernel indexes, other than the buffers of a block; it does not check
        // itself.
        check_words_of(&streams, self.cut.stride as u64 * n_samples as u64)?;
        check_words_of(&counts, self.count_words(n_samples) as u64)?;
        let limit = self.context.info().max_workgroups;
        for block in &self.blocks {
            let views =
                [block.weights.view(), streams, block.units.view(), block.segments.view(), counts];
            let bound = self.context.bind(&pipeline, &views)?;
            let n_segments = block.segments.len();
            // One workgroup per segment and sample may exceed a grid.
            let at_once = host_size((max_grid(limit) / n_segments as u64).max(1));
            for first_sample in (0..n_samples).step_by(at_once) {
                let n = (n_samples - first_sample).min(at_once);
                let params = SparseParams {
                    n_segments: size_u32(n_segments, "number of segments")?,
                    first_sample: size_u32(first_sample, "first sample")?,
                    n_samples: size_u32(n, "number of samples")?,
                    stream_words: size_u32(self.length.words(), "stream words")?,
                    sample_words: size_u32(self.cut.stride / 2, "sample words")?,
                    stride: size_u32(self.connections.n_neurons(), "stride")?,
                    high: size_u32(
                        self.connections.n_neurons() as u128 * n_samples as u128,
                        "number of counts",
                    )?,
                };
                let workgroups = grid(n_segments as u64 * n as u64, limit)?;
                let bytes = 2 * 4 * block.weights.len() as u64 * n as u64;
                recorder.dispatch(&bound, &params, workgroups, bytes)?;
            }
        }
        Ok(())
    }

    fn decode(&self, words: &[u32], counts: &mut Vec<u64>) {
        let whole = buffers::widen(words, self.is_wide());
        match self.polarity {
            Polarity::Unipolar | Polarity::Signed => counts.extend(whole),
            Polarity::Bipolar => {
                let bits = self.length.bits() as u64;
                let all = self
                    .connections
                    .offsets()
                    .windows(2)
                    .map(|pair| (pair[1] - pair[0]) as u64 * bits);
                counts.extend(whole.zip(all.cycle()).map(|(differing, all)| all - differing));
            }
        }
    }
}

/// State of one in-flight call.
struct SparseRun<'l, 'i> {
    layer: &'l GpuSparse,
    inputs: Inputs<'i>,
    filled: Vec<Threshold>,
    counts: Vec<u64>,
}

impl ChunkRun for SparseRun<'_, '_> {
    fn submit(
        &mut self,
        buffers: &mut BufferSet,
        samples: Range<usize>,
        profiler: Option<&mut Profiler>,
    ) -> Result<Submission> {
        let GpuSparse { context, connections, length, cut, .. } = self.layer;
        let (n_rows, n_units) = (samples.len(), connections.n_inputs());
        match &mut self.inputs {
            Inputs::Thresholds { source, .. } => {
                let thresholds = source.of(samples.clone(), n_units, &mut self.filled)?;
                encode::pack(thresholds, &mut buffers.packed);
                buffers.send()?;
            }
            Inputs::Streams(words) => {
                let block = Block { cut: *cut, first_row: samples.start, n_rows };
                let mut packed = Vec::new();
                gather(bytemuck::cast_slice(words), cut.words, &block, &mut packed);
                buffers.work.write(0, &packed)?;
            }
        }
        let n_words = self.layer.count_words(n_rows);
        let mut recorder = context.recorder(profiler)?;
        let counts = buffers.counts(&mut recorder, n_words, CountMode::Add)?;
        if let Some(first) = self.inputs.first(samples.start)? {
            let part = Part {
                first,
                n_rows,
                n_units,
                cut: *cut,
                stream: StreamWords::of(*length),
                out_base: 0,
            };
            let thresholds = buffers.thresholds(&mut recorder)?;
            encode::record(&mut recorder, &part, thresholds, buffers.work.view(), None)?;
        }
        self.layer.record_counts(&mut recorder, buffers.work.view(), counts, n_rows)?;
        buffers.fetch(&mut recorder, n_words, CountMode::Add)?;
        Ok(recorder.submit()?)
    }

    fn receive(&mut self, buffers: &mut BufferSet, n_samples: usize) -> Result<()> {
        let (layer, counts) = (self.layer, &mut self.counts);
        buffers.receive(layer.count_words(n_samples), |words| layer.decode(words, counts))
    }
}

/// Divides the connections into blocks that a binding can hold, with room for their weights.
fn weight_blocks(
    context: &Arc<GpuContext>,
    connections: &Connections,
    length: Length,
) -> Result<Vec<WeightBlock>> {
    let limit = context.max_binding_bytes();
    let stream_bytes = 8 * length.words() as u64;
    // Segments and addresses take at most 12 bytes per stream, and a stream at least 8.
    let per_block = host_size(limit / stream_bytes.max(12));
    if per_block == 0 {
        return Err(Error::TooLarge {
            what: Limit::StreamBytes,
            actual: stream_bytes.into(),
            limit,
        });
    }
    let mut blocks = Vec::new();
    for first in (0..connections.len()).step_by(per_block) {
        let n = per_block.min(connections.len() - first);
        blocks.push(WeightBlock {
            first,
            n,
            weights: context.buffer(n * 2 * length.words())?,
            units: context.upload(&connections.inputs()[first..first + n])?,
            segments: context.upload(&segments(
                connections.offsets(),
                first,
                n,
                length.words(),
            )?)?,
        });
    }
    Ok(blocks)
}

/// Returns the segments of connections `first..first + n`: of one neuron each, none longer than the
/// limit of a workgroup.
fn segments(
    offsets: &[usize],
    first: usize,
    n: usize,
    stream_words: usize,
) -> Result<Vec<[u32; 3]>> {
    let mut segments = Vec::new();
    for (neuron, range) in offsets.windows(2).enumerate() {
        let begin = range[0].clamp(first, first + n) - first;
        let end = range[1].clamp(first, first + n) - first;
        let (begin, end) = (begin * stream_words, end * stream_words);
        for element in (begin..end).step_by(SEGMENT_WORDS) {
            segments.push([
                size_u32(neuron, "number of neurons")?,
                size_u32(element, "words of a block")?,
                size_u32((element + SEGMENT_WORDS).min(end), "words of a block")?,
            ]);
        }
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_cover_each_element_once() {
        let offsets = [0, 0, 3, 700, 700, 702];
        for (first, n) in [(0, 702), (0, 1), (1, 3), (2, 700), (701, 1)] {
            for stream_words in [1, 16, 10_000] {
                let mut next = 0;
                for [neuron, begin, end] in segments(&offsets, first, n, stream_words).unwrap() {
                    assert_eq!(begin, next);
                    assert!(end > begin && (end - begin) as usize <= SEGMENT_WORDS);
                    let range = offsets[neuron as usize]..offsets[neuron as usize + 1];
                    assert!(range.contains(&(first + begin as usize / stream_words)));
                    assert!(range.contains(&(first + (end - 1) as usize / stream_words)));
                    next = end;
                }
                assert_eq!(next as usize, n * stream_words);
            }
        }
    }
}
