//! The inputs of a call, from any source to streams on the GPU.

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::threshold::NEGATIVE;
use aleatron_core::{Error as CoreError, Length, Polarity, Quantity};

use crate::buffers::{BufferSet, CountOptions, HEAD};
use crate::driver::{CudaContext, PinnedBuffer, Pitched, View, copy_parallel, copy_rows};
use crate::encode::{Encoder, Operands, RowStreams, Rows, Values, convert};
use crate::error::{Error, Result};
use crate::kernels::{CallSeed, ValueKind};
use crate::plan::rows::{Part, StreamWords};
use crate::product::Product;
use crate::size::{host_size, size_u32};

/// Number of values uploaded at a time while the previous ones are encoded: a megabyte. Half of it
/// slows large batches by a tenth or more.
const CHUNK_VALUES: usize = 1 << 17;

/// Number of bytes of packed streams uploaded at a time.
const PACKED_BYTES: usize = 8 << 20;

/// Inputs of a batch, samples by inputs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Values in host memory.
    Values(&'a [f64]),
    /// Validated thresholds in host memory.
    Thresholds(&'a [u64]),
    /// Validated packed streams in host memory.
    Streams(&'a [u64]),
    /// Validated packed streams of magnitudes in host memory, with the signs of the inputs.
    SignedStreams(&'a [u64], &'a [bool]),
    /// Values in device memory.
    CardValues(View<'a>, ValueKind),
}

impl<'a> Source<'a> {
    /// Returns the kind of conversion by the kernels.
    pub(crate) const fn kind(&self, product: Product) -> ValueKind {
        match self {
            Self::Values(_) => product.value_kind(),
            Self::Thresholds(_) => product.threshold_kind(),
            Self::CardValues(_, kind) => *kind,
            Self::Streams(_) | Self::SignedStreams(..) => ValueKind::PackedStreams,
        }
    }

    /// Returns values or thresholds in host memory, as words.
    pub(crate) fn words(&self) -> Option<&'a [u64]> {
        match self {
            Self::Values(values) => Some(bytemuck::cast_slice(values)),
            Self::Thresholds(thresholds) => Some(thresholds),
            _ => None,
        }
    }

    /// Returns the error for the value at `index` of the chunk whose first value is number `first`.
    /// It has the value that the GPU read.
    pub(crate) fn bad_value(
        &self,
        set: &BufferSet,
        first: usize,
        index: usize,
        polarity: Polarity,
    ) -> Result<CoreError> {
        let [low, high] = polarity.interval();
        let value = match self {
            Self::CardValues(values, kind) => {
                // To a word of the results' head that nothing else uses.
                let (from, bytes) =
                    (values.from(kind.bytes() * (first + index) as u64)?, kind.bytes());
                let to = set.download.view().from(8)?;
                let [from, to] = [from, to].map(|view| Pitched { view, pitch: bytes });
                copy_rows(set.stream.context(), from, to, bytes, 1, &set.stream)?;
                set.stream.synchronize()?;
                let bits = set.download.as_slice()[1];
                if bytes == 4 {
                    f64::from(f32::from_bits(low_word(bits)))
                } else {
                    f64::from_bits(bits)
                }
            }
            _ => f64::from_bits(set.upload.as_slice()[HEAD + index]),
        };
        Ok(CoreError::OutOfRange { what: Quantity::Value, index: first + index, value, low, high })
    }
}

/// Returns the low half of a word.
fn low_word(bits: u64) -> u32 {
    let [a, b, c, d, ..] = bits.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Encodes the inputs of a layer.
#[derive(Debug)]
pub(crate) struct InputStage {
    pub(crate) context: Arc<CudaContext>,
    pub(crate) n_units: usize,
    pub(crate) length: Length,
    pub(crate) product: Product,
    pub(crate) encoder: Encoder,
}

impl InputStage {
    fn stream_words(&self) -> StreamWords {
        StreamWords::of(self.length)
    }

    /// Returns the size of a sample's packed streams in bytes.
    fn packed_bytes(&self) -> u64 {
        8 * self.n_units as u64 * self.length.words() as u64
    }

    /// Enqueues the conversion of values on the GPU: `rows` of the chunk.
    pub(crate) fn convert(
        &self,
        set: &BufferSet,
        options: &CountOptions<'_>,
        kind: ValueKind,
        values: View<'_>,
        rows: Range<usize>,
    ) -> Result<()> {
        let (first, n) = (rows.start * self.n_units, rows.len() * self.n_units);
        let from = Values {
            kind,
            values: values.from(kind.bytes() * first as u64)?,
            n: n as u64,
            first: first as u64,
        };
        let thresholds = set.values()?.from(8 * first as u64)?;
        convert(&set.queue(options), &from, self.encoder.one(), thresholds, set.state.view())
    }

    /// Enqueues the encoding of a part of `rows` of the chunk, whose thresholds are on the GPU.
    pub(crate) fn encode(
        &self,
        set: &BufferSet,
        options: &CountOptions<'_>,
        part: &Part,
        rows: Range<usize>,
    ) -> Result<()> {
        let thresholds = set.values()?.from(8 * (rows.start * self.n_units) as u64)?;
        self.encode_operands(set, options, part, rows, Operands::thresholds(thresholds))
    }

    fn encode_operands(
        &self,
        set: &BufferSet,
        options: &CountOptions<'_>,
        part: &Part,
        rows: Range<usize>,
        operands: Operands<'_>,
    ) -> Result<()> {
        let encoded_rows = Rows {
            part: part.of_rows(self.n_units, self.stream_words())?,
            streams_are: RowStreams::Magnitudes,
            n_rows: rows.len(),
            operands,
            streams: set.work.view().from(rows.start as u64 * part.bytes())?,
            seed: options.program.map_or(set.inputs.view(), |program| program.seed),
            first_row: size_u32(rows.start, "row of a counter")?,
            list: None,
        };
        self.encoder.encode(&set.queue(options), &encoded_rows)
    }

    /// Enqueues the processing of values on the GPU, `rows` of a chunk: to streams if they have
    /// only one part, otherwise to thresholds.
    pub(crate) fn take_values(
        &self,
        set: &BufferSet,
        options: &CountOptions<'_>,
        kind: ValueKind,
        values: View<'_>,
        rows: Range<usize>,
        part: Option<&Part>,
    ) -> Result<()> {
        let Some(part) = part else { return self.convert(set, options, kind, values, rows) };
        // Signs are read from the thresholds later, and sequences are compared with thresholds.
        if self.product == Product::SignedAnd || matches!(self.encoder, Encoder::Sequences(_)) {
            self.convert(set, options, kind, values, rows.clone())?;
            return self.encode(set, options, part, rows);
        }
        let first = (rows.start * self.n_units) as u64;
        let values = values.from(kind.bytes() * first)?;
        let operands = Operands::values(kind, values, set.state.view(), first);
        self.encode_operands(set, options, part, rows, operands)
    }

    /// Uploads the values of a chunk, chunk by chunk, and converts them to thresholds; with `part`,
    /// each chunk is encoded as soon as it arrives.
    pub(crate) fn send(
        &self,
        set: &mut BufferSet,
        options: &CountOptions<'_>,
        source: &Source<'_>,
        samples: &Range<usize>,
        seed: CallSeed,
        part: Option<&Part>,
    ) -> Result<()> {
        let (n, kind) = (self.n_units, source.kind(self.product));
        if options.program.is_none() {
            set.set_seed(seed);
        }
        match source {
            Source::CardValues(values, _) => {
                if options.program.is_none() {
                    set.upload.send(0, HEAD, &set.inputs, 0, &set.stream)?;
                }
                let values = values.from(kind.bytes() * (samples.start * n) as u64)?;
                self.take_values(set, options, kind, values, 0..samples.len(), part)
            }
            _ => {
                let location = "inputs::InputStage::send, inputs that are not values";
                let words = source.words().ok_or(Error::Internal { place: location })?;
                let step = (CHUNK_VALUES / n).max(1);
                for start in (0..samples.len()).step_by(step) {
                    let rows = start..samples.len().min(start + step);
                    self.fill(set, words, samples, &rows)?;
                    // The seed is uploaded with the first chunk.
                    let begin = if rows.start == 0 { 0 } else { HEAD + rows.start * n };
                    let len = HEAD + rows.end * n - begin;
                    set.upload.send(begin, len, &set.inputs, begin, &set.stream)?;
                    self.take_values(set, options, kind, set.values()?, rows, part)?;
                }
                Ok(())
            }
        }
    }

    /// Copies values of `rows` of a chunk to the upload buffer.
    pub(crate) fn fill(
        &self,
        set: &mut BufferSet,
        words: &[u64],
        samples: &Range<usize>,
        rows: &Range<usize>,
    ) -> Result<()> {
        let (n, first) = (self.n_units, samples.start * self.n_units);
        let from = &words[first + rows.start * n..first + rows.end * n];
        copy_parallel(
            from,
            &mut set.upload.as_mut_slice()[HEAD + rows.start * n..HEAD + rows.end * n],
        )
    }

    /// Uploads the signs of a chunk of packed streams to the memory of thresholds.
    pub(crate) fn send_signs(
        &self,
        set: &mut BufferSet,
        source: &Source<'_>,
        samples: &Range<usize>,
    ) -> Result<()> {
        let Source::SignedStreams(_, negative) = source else { return Ok(()) };
        let signs = &negative[samples.start * self.n_units..samples.end * self.n_units];
        for (to, &is_negative) in set.upload.as_mut_slice()[HEAD..].iter_mut().zip(signs) {
            *to = if is_negative { NEGATIVE } else { 0 };
        }
        set.upload.send(HEAD, signs.len(), &set.inputs, HEAD, &set.stream)
    }

    /// Uploads a part of packed streams to the memory of streams.
    pub(crate) fn send_streams(
        &self,
        set: &mut BufferSet,
        source: &Source<'_>,
        samples: &Range<usize>,
        part: &Part,
    ) -> Result<()> {
        let (row_bytes, begin, bytes) =
            (self.packed_bytes(), 4 * part.begin, 4 * u64::from(part.words));
        if part.words != part.stride {
            // The padding of rows must count nothing, whatever it held before.
            set.work.fill(0, &set.stream)?;
        }
        match source {
            Source::Streams(words) | Source::SignedStreams(words, _) => {
                let row_words = host_size(row_bytes / 8);
                // Parts begin and end at whole 128 bytes, or at the end of the row.
                let columns = host_size(begin / 8)..host_size((begin + bytes) / 8);
                let rows_at_once =
                    (PACKED_BYTES / (8 * columns.len())).clamp(1, samples.len().max(1));
                let needed = rows_at_once * columns.len();
                if set.packed.as_ref().is_none_or(|packed| packed.as_slice().len() < needed) {
                    set.packed = Some(PinnedBuffer::new(&self.context, needed)?);
                }
                for start in samples.clone().step_by(rows_at_once) {
                    let rows = start..samples.end.min(start + rows_at_once);
                    // Copies from here are done before the next ones are staged.
                    set.stream.synchronize()?;
                    let location =
                        "inputs::InputStage::send_streams, buffer that was just allocated";
                    let packed = set.packed.as_mut().ok_or(Error::Internal { place: location })?;
                    for (row, to) in
                        rows.clone().zip(packed.as_mut_slice().chunks_exact_mut(columns.len()))
                    {
                        let row = &words[row * row_words..(row + 1) * row_words];
                        to.copy_from_slice(&row[columns.clone()]);
                    }
                    let to = set.work.view().from((start - samples.start) as u64 * part.bytes())?;
                    let (from, to) = (
                        Pitched { view: packed.view(), pitch: bytes },
                        Pitched { view: to, pitch: part.bytes() },
                    );
                    copy_rows(&self.context, from, to, bytes, rows.len() as u64, &set.stream)?;
                }
                Ok(())
            }
            _ => Err(Error::Internal {
                place: "inputs::InputStage::send_streams, inputs that are not streams",
            }),
        }
    }
}
