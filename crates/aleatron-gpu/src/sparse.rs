//! Sparse layers on a device: memory and work in proportion to the connections.
//!
//! Weight streams lie one after the other, connection by connection, cut into blocks a binding can hold. A block's
//! connections are cut into segments of one neuron each, and a workgroup counts one segment for one sample.

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::stream::check_words;
use aleatron_core::{Connections, Length, Polarity, Quantity, StreamAddress, Threshold};

use crate::buffer::{BufferView, GpuBuffer, Memory};
use crate::call::{self, Call, CallSizes, Calls, Inputs, Run, piece_of};
use crate::context::GpuContext;
use crate::encode::{self, Part, check_address, threshold_words};
use crate::error::{Error, Limit, Result};
use crate::kernels::{SparseParams, StreamKernel};
use crate::partition::{Block, Cut, StreamWords, VECTOR, gather};
use crate::pipeline::grid;
use crate::profile::Profiler;
use crate::record::Recorder;

/// 64-bit words of weights one workgroup counts: 64 for each of its threads.
const SEGMENT_WORDS: usize = 8192;

/// Connections of one binding: their weights, inputs, and segments.
#[derive(Debug)]
struct WeightBlock {
    first: usize,
    n: usize,
    weights: GpuBuffer<u32>,
    units: GpuBuffer<u32>,
    /// Neuron, first and last element but one.
    segments: GpuBuffer<[u32; 3]>,
}

/// A sparse layer on a device.
#[derive(Debug)]
pub struct GpuSparse {
    context: Arc<GpuContext>,
    connections: Connections,
    length: Length,
    polarity: Polarity,
    piece: usize,
    cut: Cut,
    blocks: Vec<WeightBlock>,
    calls: Calls,
}

impl GpuSparse {
    /// A layer of packed weight streams, `[connection][word]`.
    ///
    /// # Errors
    /// [`aleatron_core::Error`] for words that are not those of the connections, [`Error::TooLarge`] where one
    /// sample's streams pass a binding, or what the device reports.
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

    /// A layer whose weight streams the device draws: that of neuron j and input i at row `first.row + j`, unit
    /// `first.unit + i`, as in the dense layer.
    ///
    /// # Errors
    /// As [`Self::from_words`].
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
        let count_bytes = 8 * connections.n_neurons() as u128;
        let largest = (row_words.next_multiple_of(VECTOR as u128) * 4).max(count_bytes);
        if largest > limit.into() {
            return Err(Error::TooLarge { what: Limit::BindingBytes, actual: largest, limit });
        }
        let words = row_words as usize;
        let cut = Cut { begin: 0, words, stride: words.next_multiple_of(VECTOR) };
        let piece = ((u128::from(limit) / largest) as usize).min(piece_of(max_batch));
        let blocks = weight_blocks(context, &connections, length)?;
        let context = Arc::clone(context);
        let layer =
            Self { context, connections, length, polarity, piece, cut, blocks, calls: Calls::default() };
        layer.calls.keep(layer.new_call()?);
        Ok(layer)
    }

    fn new_call(&self) -> Result<Call> {
        Call::new(
            &self.context,
            CallSizes {
                thresholds: threshold_words(self.piece * self.connections.n_inputs()),
                streams: self.piece * self.cut.stride,
                counts: self.count_words(self.piece),
            },
        )
    }

    /// The connections.
    #[must_use]
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// The device.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// The samples of one submission; larger batches run in pieces of this size, with the same counts.
    #[must_use]
    pub fn piece(&self) -> usize {
        self.piece
    }

    /// The buffers the weights lie in.
    #[must_use]
    pub fn n_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The bytes of the weight streams on the device.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.blocks.iter().map(|block| 4 * block.weights.len()).sum()
    }

    /// Replaces the weights by packed streams, `[connection][word]`.
    ///
    /// # Errors
    /// As [`Self::from_words`].
    pub fn set_words(&mut self, words: &[u64]) -> Result<()> {
        check_words(words, self.connections.len(), self.length)?;
        let words: &[u32] = bytemuck::cast_slice(words);
        let stored = 2 * self.length.words();
        for block in &self.blocks {
            block.weights.write(0, &words[block.first * stored..(block.first + block.n) * stored])?;
        }
        Ok(())
    }

    /// Replaces the weights by streams the device draws.
    ///
    /// # Errors
    /// As [`Self::from_thresholds`].
    pub fn set_thresholds(&mut self, weights: &[Threshold], first: StreamAddress) -> Result<()> {
        let (expected, actual) = (self.connections.len(), weights.len());
        if expected != actual {
            return Err(aleatron_core::Error::Mismatch { what: Quantity::Weights, expected, actual }.into());
        }
        check_address(first, self.connections.n_neurons(), self.connections.n_inputs())?;
        let rows = (0..self.connections.n_neurons()).flat_map(|neuron| {
            self.connections.inputs_of(neuron).iter().map(move |&unit| (unit, neuron as u32))
        });
        let addresses: Vec<[u32; 2]> =
            rows.map(|(unit, row)| [first.unit.wrapping_add(unit), first.row.wrapping_add(row)]).collect();
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
            let views = (thresholds.view()?, block.weights.view()?, list.view()?);
            encode::record(&mut recorder, &self.context, &part, views.0, views.1, Some(views.2))?;
            recorder.submit()?;
        }
        Ok(())
    }

    /// The packed weight streams, `[connection][word]`, read back.
    ///
    /// # Errors
    /// What the device reports.
    pub fn words(&self) -> Result<Vec<u64>> {
        let mut words = Vec::new();
        for block in &self.blocks {
            words.extend(
                block.weights.read()?.chunks_exact(2).map(|w| u64::from(w[0]) | u64::from(w[1]) << 32),
            );
        }
        Ok(words)
    }

    /// The counts of a batch, `[sample][neuron]`; as [`GpuDense::counts`](crate::GpuDense::counts).
    ///
    /// # Errors
    /// [`aleatron_core::Error::Ragged`] where the inputs are not whole samples, [`Error::TooLarge`] where a counter
    /// cannot name a row, or what the device reports.
    pub fn counts(&self, inputs: &[Threshold], first: StreamAddress) -> Result<Vec<u64>> {
        self.counts_profiled(inputs, first, None)
    }

    /// As [`Self::counts`], with its kernels timed.
    ///
    /// # Errors
    /// As [`Self::counts`].
    pub fn counts_profiled(
        &self,
        inputs: &[Threshold],
        first: StreamAddress,
        profiler: Option<&mut Profiler>,
    ) -> Result<Vec<u64>> {
        let n_inputs = self.connections.n_inputs();
        let n_samples = rows_in(inputs.len(), n_inputs, Quantity::Inputs)?;
        check_address(first, n_samples, n_inputs)?;
        self.run(Inputs::Thresholds(inputs, first), n_samples, profiler)
    }

    /// The counts of a batch of packed input streams, `[sample][input][word]`.
    ///
    /// # Errors
    /// [`aleatron_core::Error`] where the words are not whole samples or have ones past the length, or what the
    /// device reports.
    pub fn counts_of_streams(&self, words: &[u64]) -> Result<Vec<u64>> {
        let n_samples = rows_in(words.len(), self.cut.words / 2, Quantity::Words)?;
        check_words(words, n_samples * self.connections.n_inputs(), self.length)?;
        self.run(Inputs::Streams(words), n_samples, None)
    }

    fn is_wide(&self) -> bool {
        let offsets = self.connections.offsets();
        let most = offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        call::is_wide(most, self.length)
    }

    fn count_words(&self, n_samples: usize) -> usize {
        n_samples * self.connections.n_neurons() * if self.is_wide() { 2 } else { 1 }
    }

    fn run<'a>(
        &'a self,
        inputs: Inputs<'a>,
        n_samples: usize,
        profiler: Option<&'a mut Profiler>,
    ) -> Result<Vec<u64>> {
        let ahead = if profiler.is_some() { 0 } else { 1 };
        let counts = Vec::with_capacity(n_samples.saturating_mul(self.connections.n_neurons()));
        let mut run = SparseRun { layer: self, inputs, profiler, counts };
        self.calls.run(n_samples, self.piece, ahead, || self.new_call(), &mut run)?;
        Ok(run.counts)
    }

    fn record_counts(
        &self,
        recorder: &mut Recorder<'_>,
        call: &Call,
        counts: BufferView<'_>,
        n_samples: usize,
    ) -> Result<()> {
        let constants = [
            ("XOR", u32::from(self.polarity == Polarity::Bipolar)),
            ("ADD", 1),
            ("WIDE", u32::from(self.is_wide())),
        ];
        let pipeline = self.context.pipeline(StreamKernel::Sparse, &constants)?;
        for block in &self.blocks {
            let views = [
                block.weights.view()?,
                call.streams.view()?,
                block.units.view()?,
                block.segments.view()?,
                counts,
            ];
            let bound = self.context.bind(&pipeline, &views)?;
            let params = SparseParams {
                n_segments: block.segments.len() as u32,
                n_samples: n_samples as u32,
                stream_words: self.length.words() as u32,
                sample_words: (self.cut.stride / 2) as u32,
                stride: self.connections.n_neurons() as u32,
                high: (self.connections.n_neurons() * n_samples) as u32,
            };
            let workgroups = block.segments.len() as u64 * n_samples as u64;
            let bytes = 2 * 4 * block.weights.len() as u64 * n_samples as u64;
            recorder.dispatch(
                &bound,
                &params,
                grid(workgroups, self.context.info().max_workgroups)?,
                bytes,
            )?;
        }
        Ok(())
    }

    fn decode(&self, words: &[u32], counts: &mut Vec<u64>) {
        let whole = call::widen(words, self.is_wide());
        match self.polarity {
            Polarity::Unipolar => counts.extend(whole),
            Polarity::Bipolar => {
                let bits = self.length.bits() as u64;
                let all = self.connections.offsets().windows(2).map(|pair| (pair[1] - pair[0]) as u64 * bits);
                counts.extend(whole.zip(all.cycle()).map(|(differing, all)| all - differing));
            }
        }
    }
}

/// A call under way.
struct SparseRun<'a> {
    layer: &'a GpuSparse,
    inputs: Inputs<'a>,
    profiler: Option<&'a mut Profiler>,
    counts: Vec<u64>,
}

impl Run for SparseRun<'_> {
    fn submit(&mut self, call: &mut Call, samples: Range<usize>) -> Result<wgpu::SubmissionIndex> {
        let GpuSparse { context, connections, length, cut, .. } = self.layer;
        let (n_rows, n_units) = (samples.len(), connections.n_inputs());
        self.inputs.send(call, samples.clone(), n_units)?;
        if let Inputs::Streams(words) = self.inputs {
            let block = Block { cut: *cut, first_row: samples.start, n_rows };
            let mut packed = Vec::new();
            gather(bytemuck::cast_slice(words), cut.words, &block, &mut packed);
            call.streams.write(0, &packed)?;
        }
        let mut recorder = context.recorder(self.profiler.as_deref_mut())?;
        let counts = call.counts(&mut recorder, self.layer.count_words(n_rows), true)?;
        if let Some(first) = self.inputs.first(samples.start) {
            let part =
                Part { first, n_rows, n_units, cut: *cut, stream: StreamWords::of(*length), out_base: 0 };
            let thresholds = call.thresholds(&mut recorder)?;
            encode::record(&mut recorder, context, &part, thresholds, call.streams.view()?, None)?;
        }
        self.layer.record_counts(&mut recorder, call, counts, n_rows)?;
        call.fetch(&mut recorder, self.layer.count_words(n_rows), true)?;
        recorder.submit()
    }

    fn receive(&mut self, call: &mut Call, n_samples: usize) -> Result<()> {
        let (layer, counts) = (self.layer, &mut self.counts);
        call.receive(layer.count_words(n_samples), |words| layer.decode(words, counts))?;
        self.profiler.as_deref_mut().map_or(Ok(()), Profiler::collect)
    }
}

fn rows_in(n: usize, per_row: usize, what: Quantity) -> Result<usize> {
    if n.is_multiple_of(per_row) {
        Ok(n / per_row)
    } else {
        Err(aleatron_core::Error::Ragged { what, actual: n, divisor: per_row }.into())
    }
}

/// The connections in blocks a binding can hold, with room for their weights.
fn weight_blocks(
    context: &Arc<GpuContext>,
    connections: &Connections,
    length: Length,
) -> Result<Vec<WeightBlock>> {
    let limit = context.max_binding_bytes();
    let stream_bytes = 8 * length.words() as u64;
    // Segments and addresses take at most 12 bytes per stream, and a stream at least 8.
    let per_block = (limit / stream_bytes.max(12)) as usize;
    if per_block == 0 {
        return Err(Error::TooLarge { what: Limit::BindingBytes, actual: stream_bytes.into(), limit });
    }
    let mut blocks = Vec::new();
    for first in (0..connections.len()).step_by(per_block) {
        let n = per_block.min(connections.len() - first);
        blocks.push(WeightBlock {
            first,
            n,
            weights: context.buffer(n * 2 * length.words(), Memory::Device)?,
            units: context.upload(&connections.inputs()[first..first + n])?,
            segments: context.upload(&segments(connections.offsets(), first, n, length.words()))?,
        });
    }
    Ok(blocks)
}

/// The segments of connections `first..first + n`: of one neuron each, none longer than a workgroup should take.
fn segments(offsets: &[usize], first: usize, n: usize, stream_words: usize) -> Vec<[u32; 3]> {
    let mut segments = Vec::new();
    for (neuron, range) in offsets.windows(2).enumerate() {
        let begin = range[0].clamp(first, first + n) - first;
        let end = range[1].clamp(first, first + n) - first;
        let (begin, end) = (begin * stream_words, end * stream_words);
        segments.extend(
            (begin..end)
                .step_by(SEGMENT_WORDS)
                .map(|element| [neuron as u32, element as u32, (element + SEGMENT_WORDS).min(end) as u32]),
        );
    }
    segments
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
                for [neuron, begin, end] in segments(&offsets, first, n, stream_words) {
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
