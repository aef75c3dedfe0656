//! Encoding of weights on a GPU, some at a time.

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::generator::{OperandSequences, Sharing};
use aleatron_core::{Cancel, LayerSpec, Length, Topology, WeightSource, Weights};

use crate::driver::{CudaContext, DeviceBuffer, PinnedBuffer, Stream, View};
use crate::encode::{
    Encoder, Numbering, Operands, RowStreams, Rows, Sequences, Values, call_seed, check_address,
    convert,
};
use crate::error::{Error, Result};
use crate::kernels::{RowPart, ValueKind};
use crate::plan::rows::{Part, StreamWords};
use crate::product::Product;
use crate::queue::Queue;
use crate::signed::complement;
use crate::size::{host_size, size_u32};

/// Number of values converted at a time.
const CHUNK_VALUES: usize = 1 << 20;

/// Number of integers of sequences uploaded at a time if every stream has a separate one.
const CHUNK_INTEGERS: usize = 1 << 22;

/// The weights that the streams of rows encode; the others are streams of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignFilter {
    /// All weights, with their signs.
    All,
    /// The positive weights.
    Positive,
    /// The magnitudes of the negative weights.
    Negative,
}

impl SignFilter {
    fn apply(self, weight: f64) -> f64 {
        match self {
            Self::All => weight,
            Self::Positive => weight.max(0.0),
            Self::Negative => (-weight).max(0.0),
        }
    }
}

/// Encodes the weight streams of a layer, any part of them at any time.
#[derive(Debug)]
pub(crate) struct WeightEncoder {
    context: Arc<CudaContext>,
    spec: LayerSpec,
    weights: Weights,
    kind: ValueKind,
    /// The number of weights of a row.
    per_row: usize,
    /// The streams of the rows.
    row_streams: RowStreams,
    /// The number of ones of each weight stream, negated if it was complemented; `None` unless the
    /// streams of negative weights are complemented.
    signed_ones: Option<DeviceBuffer<u32>>,
    stream: Stream,
    staged: PinnedBuffer<u64>,
    values: DeviceBuffer<u64>,
    /// The seed, then zeros.
    seed: DeviceBuffer<u64>,
    state: DeviceBuffer<u32>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// One encoder for all.
    Common(Encoder),
    /// Every stream has a separate sequence.
    PerStream(OperandSequences),
}

impl WeightEncoder {
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        spec: &LayerSpec,
        weights: &Weights,
        product: Product,
        row_streams: RowStreams,
    ) -> Result<Self> {
        let stream = Stream::new(context)?;
        let length = spec.length();
        let n = match spec.topology() {
            Topology::Conv(shape) => shape.kernel_weights(),
            _ => spec.n_inputs(),
        };
        let mut seed = Default::default();
        let has_rows = !matches!(spec.topology(), Topology::Sparse(_));
        let source = match spec.encoding().weight_source() {
            WeightSource::Bernoulli { seed: number } => {
                let first = spec.weight_address(number);
                check_address(first, spec.n_rows(), n)?;
                seed = call_seed(first);
                Source::Common(Encoder::Bernoulli { tag: first.tag() })
            }
            WeightSource::Sequences(shared) => match shared.sharing {
                Sharing::OneForAll => {
                    let one = std::iter::once(Ok(shared.first));
                    let sequences = Sequences::new(context, &stream, one, length, Numbering::One)?;
                    Source::Common(Encoder::Sequences(sequences))
                }
                Sharing::OnePerInput if has_rows => {
                    let all = (0..n).map(|input| shared.weight(0, input, n));
                    let sequences =
                        Sequences::new(context, &stream, all, length, Numbering::PerUnit)?;
                    Source::Common(Encoder::Sequences(sequences))
                }
                _ => Source::PerStream(shared),
            },
        };
        let chunk =
            if has_rows { CHUNK_VALUES.max(n) } else { CHUNK_VALUES }.min(spec.n_weights().max(1));
        Ok(Self {
            context: Arc::clone(context),
            spec: spec.clone(),
            weights: weights.clone(),
            kind: product.value_kind(),
            per_row: n,
            row_streams,
            signed_ones: None,
            staged: PinnedBuffer::new(context, chunk)?,
            values: DeviceBuffer::new(context, chunk)?,
            seed: DeviceBuffer::with(context, &seed.words(), &stream)?,
            state: DeviceBuffer::with(context, &[u32::MAX, u32::MAX, 0, 0], &stream)?,
            stream,
            source,
        })
    }

    /// Complements the streams of negative weights in all rows that are encoded later, and records
    /// the numbers of ones. Rows must be whole.
    pub(crate) fn complement_negative(&mut self) -> Result<()> {
        let ones = DeviceBuffer::new(&self.context, self.spec.n_weights())?;
        self.signed_ones = Some(ones);
        Ok(())
    }

    /// Returns the number of ones of each weight stream, negated if it was complemented.
    pub(crate) fn take_signed_ones(&mut self) -> Option<DeviceBuffer<u32>> {
        self.signed_ones.take()
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Computes the thresholds of some weights, which stay on the GPU until the next call.
    fn thresholds(&mut self, range: Range<usize>, one: u64, filter: SignFilter) -> Result<()> {
        let n = range.len();
        let Some(values) = self.weights.values().get(range.clone()) else {
            return Err(Error::OutOfBounds {
                needed: range.end as u128,
                bytes: self.weights.values().len() as u64,
            });
        };
        // Copies from here are done: every chunk is waited for.
        for (staged, &value) in self.staged.as_mut_slice().iter_mut().zip(values) {
            *staged = filter.apply(value).to_bits();
        }
        self.staged.send(0, n, &self.values, 0, &self.stream)?;
        let from = Values { kind: self.kind, values: self.values.view(), n: n as u64, first: 0 };
        convert(&Queue::new(&self.stream), &from, one, self.values.view(), self.state.view())
    }

    /// Encodes a part of some rows of a layer with rows: those of neurons, or of the output
    /// channels of a convolution.
    pub(crate) fn encode_rows(
        &mut self,
        neurons: Range<usize>,
        filter: SignFilter,
        part: &Part,
        to: View<'_>,
        cancel: Cancel<'_>,
    ) -> Result<()> {
        let (n, streams_are) = (self.per_row, self.row_streams);
        let stream = StreamWords::of(self.spec.length());
        let at_once = match self.source {
            Source::Common(_) => (self.staged.as_slice().len() / n).max(1),
            Source::PerStream(_) => 1,
        };
        for start in neurons.clone().step_by(at_once) {
            cancel.check()?;
            let end = neurons.end.min(start + at_once);
            let to = to.from((start - neurons.start) as u64 * part.bytes())?;
            let row_part = part.of_rows(streams_are.of(n), stream)?;
            let one = self.one();
            self.thresholds(start * n..end * n, one, filter)?;
            match &self.source {
                Source::Common(encoder) => {
                    let rows = Rows {
                        part: row_part,
                        streams_are,
                        n_rows: end - start,
                        operands: Operands::thresholds(self.values.view()),
                        streams: to,
                        seed: self.seed.view(),
                        first_row: size_u32(start, "row of a counter")?,
                        list: None,
                    };
                    encoder.encode(&Queue::new(&self.stream), &rows)?;
                }
                Source::PerStream(shared) => {
                    let neuron = self.spec.first_neuron() as usize + start;
                    let sequence = |unit: usize| shared.weight(neuron, unit, n);
                    self.encode_per_stream(&row_part, streams_are, &sequence, to)?;
                }
            }
            if let Some(ones) = &self.signed_ones {
                let (queue, ones) = (Queue::new(&self.stream), ones.view());
                let ones = ones.from(4 * (start * n) as u64)?;
                complement(&queue, row_part, end - start, self.values.view(), to, ones)?;
            }
            self.stream.synchronize()?;
        }
        Ok(())
    }

    /// Encodes the streams of some connections of a sparse layer, one after the other.
    pub(crate) fn encode_connections(
        &mut self,
        connections: Range<usize>,
        to: View<'_>,
        cancel: Cancel<'_>,
    ) -> Result<()> {
        let Topology::Sparse(all) = self.spec.topology() else {
            return Err(Error::Internal {
                place: "weights::WeightEncoder::encode_connections, layer without them",
            });
        };
        let (all, n_inputs) = (Arc::clone(all), self.spec.n_inputs());
        let stream = StreamWords::of(self.spec.length());
        let chunk = self.staged.as_slice().len();
        // Unit and row of each connection from the first of a chunk on.
        let mut neuron =
            all.offsets().partition_point(|&offset| offset <= connections.start).saturating_sub(1);
        for start in connections.clone().step_by(chunk.max(1)) {
            cancel.check()?;
            let end = connections.end.min(start + chunk);
            let mut addresses = Vec::with_capacity(end - start);
            for connection in start..end {
                while all.offsets()[neuron + 1] <= connection {
                    neuron += 1;
                }
                addresses.push([all.inputs()[connection], size_u32(neuron, "number of neurons")?]);
            }
            let words = (end - start) as u64 * u64::from(stream.stored);
            let to = to.from((start - connections.start) as u64 * u64::from(stream.stored) * 4)?;
            let one = self.one();
            self.thresholds(start..end, one, SignFilter::All)?;
            // No padding: streams are stored one after the other.
            let words = size_u32(words, "words of a chunk of weights")?;
            let part = Part { begin: 0, words, stride: words }.of_rows(end - start, stream)?;
            match &self.source {
                Source::Common(encoder) => {
                    let list = DeviceBuffer::with(&self.context, &addresses, &self.stream)?;
                    let rows = Rows {
                        part,
                        streams_are: RowStreams::Magnitudes,
                        n_rows: 1,
                        operands: Operands::thresholds(self.values.view()),
                        streams: to,
                        seed: self.seed.view(),
                        first_row: 0,
                        list: Some(list.view()),
                    };
                    encoder.encode(&Queue::new(&self.stream), &rows)?;
                    self.stream.synchronize()?;
                }
                Source::PerStream(shared) => {
                    let first = self.spec.first_neuron() as usize;
                    let sequence = |k: usize| {
                        let [unit, neuron] = addresses[k].map(|number| number as usize);
                        shared.weight(first + neuron, unit, n_inputs)
                    };
                    self.encode_per_stream(&part, RowStreams::Magnitudes, &sequence, to)?;
                }
            }
            self.stream.synchronize()?;
        }
        Ok(())
    }

    /// Encodes one row of streams of operands that have a sequence each, some streams at a time.
    fn encode_per_stream(
        &self,
        part: &RowPart,
        streams_are: RowStreams,
        sequence: &dyn Fn(usize) -> aleatron_core::Result<aleatron_core::Sequence>,
        to: View<'_>,
    ) -> Result<()> {
        let length: Length = self.spec.length();
        let stored = u64::from(part.stream_words);
        let at_once = (CHUNK_INTEGERS as u64 / (32 * stored)).max(1);
        // The number of finished words of the part, and the unit and the word of the next one.
        let (mut done, mut unit, mut word) =
            (0u64, u64::from(part.first_unit), u64::from(part.first_word));
        while done < u64::from(part.words) {
            let wanted = at_once * stored - word;
            let words = wanted.min(u64::from(part.words) - done);
            // The first operand of the chunk, and the index among its streams.
            let operand = unit >> streams_are as u32;
            let first_unit = unit - streams_are.of(host_size(operand)) as u64;
            let n_operands =
                (first_unit + (word + words).div_ceil(stored)).div_ceil(streams_are.of(1) as u64);
            let last = done + words == u64::from(part.words);
            // The last chunk has the padding of the row.
            let stride = if last { u64::from(part.stride) - done } else { words };
            let all = (host_size(operand)..host_size(operand + n_operands)).map(sequence);
            let sequences =
                Sequences::new(&self.context, &self.stream, all, length, Numbering::PerUnit)?;
            let chunk = RowPart {
                n_units: size_u32(streams_are.of(host_size(n_operands)), "streams of a chunk")?,
                first_unit: size_u32(first_unit, "first stream of a chunk")?,
                first_word: size_u32(word, "first word of a chunk")?,
                words: size_u32(words, "words of a chunk")?,
                stride: size_u32(stride, "words of a chunk")?,
                ..*part
            };
            let rows = Rows {
                part: chunk,
                streams_are,
                n_rows: 1,
                operands: Operands::thresholds(self.values.view().from(8 * operand)?),
                streams: to.from(4 * done)?,
                seed: self.seed.view(),
                first_row: 0,
                list: None,
            };
            Encoder::Sequences(sequences).encode(&Queue::new(&self.stream), &rows)?;
            self.stream.synchronize()?;
            done += words;
            unit += (word + words) / stored;
            word = (word + words) % stored;
        }
        Ok(())
    }

    fn one(&self) -> u64 {
        match &self.source {
            Source::Common(encoder) => encoder.one(),
            Source::PerStream(shared) => shared.width().one(),
        }
    }
}
