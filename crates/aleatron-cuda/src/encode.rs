//! Conversion of values to thresholds, and of thresholds to streams, as steps of a queue.

use aleatron_core::generator::{OperandSequences, Sequence, Sharing};
use aleatron_core::{Length, Quantity, StreamAddress, memory};
use std::sync::Arc;

use crate::driver::{CudaContext, DeviceBuffer, Grid, Stream, View, kernels};
use crate::error::{Error, Limit, Result};
use crate::kernels::{CallSeed, EncodeParams, RowPart, SequenceParams, ThresholdParams, ValueKind};
use crate::plan::rows::StreamWords;
use crate::queue::Queue;
use crate::size::size_u32;

/// Number of threads of a block of the kernels here, except for the encoder.
const THREADS: u64 = 256;

/// Number of threads of a block of the encoder.
pub(crate) const ENCODE_THREADS: u32 = 192;

/// Number of words that a thread of the encoder computes.
pub(crate) const ENCODE_WORDS: u64 = 8;

/// The threshold of the stream of ones of Bernoulli streams.
pub(crate) const ONE: u64 = 1 << 32;

/// Checks that a counter can address rows and units from `first` on.
pub(crate) fn check_address(first: StreamAddress, n_rows: usize, n_units: usize) -> Result<()> {
    for (begin, n) in [(first.row, n_rows), (first.unit, n_units)] {
        let end = u128::from(begin) + n as u128;
        if end > 1 << 32 {
            return Err(Error::TooLarge { what: Limit::Rows, actual: end, limit: 1 << 32 });
        }
    }
    Ok(())
}

/// Returns the seed of streams from an address on.
pub(crate) fn call_seed(first: StreamAddress) -> CallSeed {
    CallSeed { key: first.key(), first_row: first.row, first_unit: first.unit }
}

/// Returns the counter row of a sample, numbered from that of the seed. Rows were checked to fit.
pub(crate) fn row_of(seed: CallSeed, sample: usize) -> Result<u32> {
    let location = "encode::row_of, row past the counter";
    seed.first_row
        .checked_add(size_u32(sample, "row of a counter")?)
        .ok_or(Error::Internal { place: location })
}

/// Values to check and convert, `n` of them, the first with index `first` in the call.
pub(crate) struct Values<'a> {
    pub(crate) kind: ValueKind,
    pub(crate) values: View<'a>,
    pub(crate) n: u64,
    pub(crate) first: u64,
}

/// Enqueues the conversion of values; `thresholds` may be the memory of the values.
pub(crate) fn convert(
    queue: &Queue<'_>,
    from: &Values<'_>,
    one: u64,
    thresholds: View<'_>,
    state: View<'_>,
) -> Result<()> {
    let n = u128::from(from.n);
    let params = ThresholdParams {
        values: from.values.check(n * u128::from(from.kind.bytes()))?,
        thresholds: thresholds.check(n * 8)?,
        state: state.check(16)?,
        n: from.n,
        first: from.first,
        one,
        kind: from.kind as u32,
        padding: 0,
    };
    let grid = Grid::row(from.n.div_ceil(THREADS))?;
    queue.launch(&kernels::THRESHOLDS, grid, 0, &params, from.n * (8 + from.kind.bytes()))
}

/// The streams of a row, by the kernels' numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum RowStreams {
    /// One stream for each operand, whatever its sign.
    Magnitudes = 0,
    /// Two streams for each operand: the first if it is positive, the second if it is negative; the
    /// other is zeros.
    BothSigns = 1,
}

impl RowStreams {
    /// Returns the number of streams of `n_operands` operands.
    pub(crate) const fn of(self, n_operands: usize) -> usize {
        n_operands << self as u32
    }
}

/// The operands of streams: values of a call, or validated thresholds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operands<'a> {
    kind: ValueKind,
    /// One value per row and operand.
    values: View<'a>,
    /// The destination of the index of the first value outside its interval, and the index of the
    /// first value of all.
    found: Option<(View<'a>, u64)>,
}

impl<'a> Operands<'a> {
    /// Creates operands from validated thresholds.
    pub(crate) fn thresholds(thresholds: View<'a>) -> Self {
        Self { kind: ValueKind::SignedThresholds, values: thresholds, found: None }
    }

    /// Creates operands from values of a call, the first with index `first`, whose state is at
    /// `state`.
    pub(crate) fn values(kind: ValueKind, values: View<'a>, state: View<'a>, first: u64) -> Self {
        Self { kind, values, found: Some((state, first)) }
    }
}

/// Rows of streams to encode.
pub(crate) struct Rows<'a> {
    pub(crate) part: RowPart,
    pub(crate) streams_are: RowStreams,
    pub(crate) n_rows: usize,
    /// Sequences require thresholds.
    pub(crate) operands: Operands<'a>,
    pub(crate) streams: View<'a>,
    /// The address of the [`CallSeed`].
    pub(crate) seed: View<'a>,
    /// The first row, counted from that of the seed.
    pub(crate) first_row: u32,
    /// Unit and row of each stream if they are not a grid.
    pub(crate) list: Option<View<'a>>,
}

impl Rows<'_> {
    /// Returns the number of operands of a row.
    fn n_operands(&self) -> u32 {
        self.part.n_units >> self.streams_are as u32
    }

    fn n_words(&self) -> u64 {
        u64::from(self.part.stride) * self.n_rows as u64
    }

    fn operands(&self) -> Result<u64> {
        let n = self.n_rows as u128 * u128::from(self.n_operands());
        self.operands.values.check(u128::from(self.operands.kind.bytes()) * n)
    }

    fn streams(&self) -> Result<u64> {
        self.streams.check(4 * u128::from(self.n_words()))
    }
}

/// The random source of streams.
#[derive(Debug)]
pub(crate) enum Encoder {
    /// Independent random bits.
    Bernoulli {
        /// Domain and layer.
        tag: u32,
    },
    /// Shared sequences.
    Sequences(Sequences),
}

impl Encoder {
    /// Returns the threshold of the stream of ones.
    pub(crate) fn one(&self) -> u64 {
        match self {
            Self::Bernoulli { .. } => ONE,
            Self::Sequences(sequences) => sequences.one,
        }
    }

    /// Enqueues the encoding of rows.
    pub(crate) fn encode(&self, queue: &Queue<'_>, rows: &Rows<'_>) -> Result<()> {
        match self {
            Self::Bernoulli { tag } => encode_bernoulli(queue, rows, *tag, ENCODE_WORDS),
            Self::Sequences(sequences) => sequences.encode(queue, rows),
        }
    }
}

/// Enqueues the encoding of Bernoulli streams, with the given number of words for each thread.
pub(crate) fn encode_bernoulli(
    queue: &Queue<'_>,
    rows: &Rows<'_>,
    tag: u32,
    words: u64,
) -> Result<()> {
    let n_words = rows.n_words();
    // There is one kernel for both signs.
    let words = if rows.streams_are == RowStreams::BothSigns { ENCODE_WORDS } else { words };
    let list = match &rows.list {
        Some(list) => list.check(8 * u128::from(rows.part.n_units))?,
        None => 0,
    };
    let (state, first_value) = match rows.operands.found {
        Some((state, first)) => (state.check(16)?, first),
        None => (0, 0),
    };
    let params = EncodeParams {
        part: rows.part,
        values: rows.operands()?,
        state,
        first_value,
        one: ONE,
        streams: rows.streams()?,
        seed: rows.seed.check(16)?,
        list,
        n_words,
        tag,
        first_row: rows.first_row,
        kind: rows.operands.kind as u32,
        padding: 0,
    };
    // A queue of sixteen bytes for every word, its length, and as much for the start of each
    // thread.
    let threads = u64::from(ENCODE_THREADS);
    let shared = size_u32(16 + 16 * threads + 16 * threads * words, "bytes of shared memory")?;
    let grid = Grid::row(n_words.div_ceil(threads * words))?;
    let values = rows.operands.kind.bytes() * rows.n_rows as u64 * u64::from(rows.n_operands());
    let bytes = 4 * n_words + values;
    let kernel = match rows.streams_are {
        RowStreams::Magnitudes => kernels::encode(words),
        RowStreams::BothSigns => kernels::ENCODE_BOTH_SIGNS,
    };
    queue.launch(&kernel, grid, shared, &params, bytes)
}

/// The integers of shared sequences on a GPU.
#[derive(Debug)]
pub(crate) struct Sequences {
    /// The integers of each sequence, 32 for each stored word of a stream.
    integers: DeviceBuffer<u32>,
    n: u64,
    /// The stream of row r and operand u has sequence `r * row_step + u * unit_step`.
    row_step: u64,
    unit_step: u64,
    one: u64,
}

/// The assignment of sequences to streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// All streams have the first sequence.
    One,
    /// Each unit has a separate sequence.
    PerUnit,
}

impl Sequences {
    /// Uploads sequences.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        stream: &Stream,
        sequences: impl ExactSizeIterator<Item = aleatron_core::Result<Sequence>>,
        length: Length,
        numbering: Numbering,
    ) -> Result<Self> {
        let n = sequences.len();
        let per_sequence = 32 * StreamWords::of(length).stored as usize;
        let mut integers =
            memory::with_capacity(n as u128 * per_sequence as u128, Quantity::Sequence)?;
        let mut one = ONE;
        for (k, sequence) in sequences.enumerate() {
            let sequence = sequence?;
            one = sequence.width().one();
            integers.extend(sequence.values().take(length.bits()));
            integers.resize((k + 1) * per_sequence, 0);
        }
        let (row_step, unit_step) = match numbering {
            Numbering::One => (0, 0),
            Numbering::PerUnit => (0, 1),
        };
        let integers = DeviceBuffer::with(context, &integers, stream)?;
        Ok(Self { integers, n: n as u64, row_step, unit_step, one })
    }

    /// Uploads the sequences of the inputs of a layer.
    pub(crate) fn of_inputs(
        context: &Arc<CudaContext>,
        stream: &Stream,
        shared: &OperandSequences,
        n_inputs: usize,
        length: Length,
    ) -> Result<Self> {
        let (n, numbering) = match shared.sharing {
            Sharing::OneForAll => (1, Numbering::One),
            Sharing::OnePerInput | Sharing::OnePerStream => (n_inputs, Numbering::PerUnit),
        };
        let sequences = (0..n).map(|input| shared.input(input));
        Self::new(context, stream, sequences, length, numbering)
    }

    /// Returns the address of the integers of the sequences of `n_units` inputs, and the step
    /// between inputs.
    pub(crate) fn of_units(&self, n_units: usize, stream_words: u32) -> Result<(u64, u64)> {
        let last = n_units.saturating_sub(1) as u64 * self.unit_step;
        if last >= self.n {
            return Err(Error::Internal {
                place: "encode::Sequences::of_units, fewer sequences than inputs",
            });
        }
        let bytes = (u128::from(last) + 1) * 128 * u128::from(stream_words);
        Ok((self.integers.view().check(bytes)?, self.unit_step))
    }

    fn encode(&self, queue: &Queue<'_>, rows: &Rows<'_>) -> Result<()> {
        let n_words = rows.n_words();
        if n_words == 0 {
            return Ok(());
        }
        let last = (rows.n_rows as u64 - 1) * self.row_step
            + u64::from(rows.n_operands().saturating_sub(1)) * self.unit_step;
        let per_sequence = 128 * u128::from(rows.part.stream_words);
        let params = SequenceParams {
            part: rows.part,
            thresholds: rows.operands()?,
            integers: self.integers.view().check((u128::from(last) + 1) * per_sequence)?,
            streams: rows.streams()?,
            n_words,
            row_step: self.row_step,
            unit_step: self.unit_step,
            streams_are: rows.streams_are as u32,
            padding: 0,
        };
        if rows.operands.kind != ValueKind::SignedThresholds || last >= self.n {
            return Err(Error::Internal { place: "encode::Sequences::encode, operands of a row" });
        }
        let grid = Grid::row(n_words.div_ceil(THREADS))?;
        queue.launch(&kernels::ENCODE_SEQUENCE, grid, 0, &params, 132 * n_words)
    }
}

/// Enqueues the counting of the ones of rows of `part.stride` words; they are added to `ones`, 32
/// bits each.
pub(crate) fn count_row_ones(
    queue: &Queue<'_>,
    rows: View<'_>,
    stride: u32,
    n_rows: usize,
    ones: View<'_>,
    width: OnesWidth,
) -> Result<()> {
    let bytes = 4 * n_rows as u64 * u64::from(stride);
    let element = if width == OnesWidth::Bits32 { 4 } else { 8 };
    let row_vectors = u64::from(stride / 4);
    // A few thousand blocks at most, and enough vectors for each.
    let n_parts =
        row_vectors.div_ceil(8 * THREADS).clamp(1, 4096u64.div_ceil(n_rows.max(1) as u64));
    let params = crate::kernels::RowOnesParams {
        rows: rows.check(bytes.into())?,
        ones: ones.check(element * n_rows as u128)?,
        row_vectors,
        n_rows: size_u32(n_rows, "number of rows")?,
        n_parts: size_u32(n_parts, "number of parts")?,
    };
    let grid = Grid::row(n_parts * n_rows as u64)?;
    let kernel =
        if width == OnesWidth::Bits32 { &kernels::ROW_ONES_32 } else { &kernels::ROW_ONES_64 };
    queue.launch(kernel, grid, 0, &params, bytes)
}

/// The width of the integers for counts of ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnesWidth {
    Bits32,
    Bits64,
}
