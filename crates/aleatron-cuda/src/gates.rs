//! Encoding, gates and counts of packed streams, for the conformance suite.

use std::sync::Arc;

use aleatron_core::gates::Gate;
use aleatron_core::generator::Sequence;
use aleatron_core::{
    BitStream, Length, Polarity, Quantity, StreamAddress, StreamMatrix, Threshold,
};

use crate::driver::{CudaContext, DeviceBuffer, Grid, Stream, kernels};
use crate::encode::{
    Encoder, Numbering, Operands, RowStreams, Rows, Sequences, call_seed, check_address,
};
use crate::error::Result;
use crate::kernels::{GateParams, OnesParams};
use crate::plan::rows::{MAX_PART_WORDS, StreamWords, parts};
use crate::queue::Queue;
use crate::size::{host_size, size_u32};

/// Number of threads of a block of all kernels here.
const THREADS: u64 = 256;

/// Encodes a row of thresholds: stream u is drawn at unit `first.unit + u`.
///
/// ```no_run
/// use aleatron_core::{Length, StreamAddress, Threshold};
/// use aleatron_cuda::{CudaContext, encode};
///
/// let context = CudaContext::get(0)?;
/// let half = Threshold::from_probability(0.5)?;
/// let streams = encode(&context, &[half], Length::new(128)?, StreamAddress::input(42, 0, 0))?;
/// assert_eq!(streams.words(), [0x73b5_ad63_6315_0fac, 0xc73d_b848_145b_a3e7]);
/// # Ok::<(), aleatron_cuda::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::TooLarge`](crate::Error::TooLarge) if a counter cannot address a stream,
/// [`aleatron_core::Error::Memory`] and [`Error::OutOfMemory`](crate::Error::OutOfMemory) if they
/// do not fit, and errors of the driver.
pub fn encode(
    context: &Arc<CudaContext>,
    thresholds: &[Threshold],
    length: Length,
    first: StreamAddress,
) -> Result<StreamMatrix> {
    check_address(first, 1, thresholds.len())?;
    let words: Vec<u64> = thresholds.iter().map(|threshold| threshold.get()).collect();
    let stream = Stream::new(context)?;
    let seed = DeviceBuffer::with(context, &call_seed(first).words(), &stream)?;
    make(context, &stream, &Encoder::Bernoulli { tag: first.tag() }, &words, length, &seed)
}

/// Encodes thresholds with one shared sequence.
pub(crate) fn encode_sequence(
    context: &Arc<CudaContext>,
    sequence: &Sequence,
    thresholds: &[u64],
    length: Length,
) -> Result<StreamMatrix> {
    sequence.width().check_thresholds(thresholds, Polarity::Unipolar, Quantity::Value)?;
    let stream = Stream::new(context)?;
    let one = std::iter::once(Ok(*sequence));
    let sequences = Sequences::new(context, &stream, one, length, Numbering::One)?;
    let seed = DeviceBuffer::with(context, &[0u64; 2], &stream)?;
    make(context, &stream, &Encoder::Sequences(sequences), thresholds, length, &seed)
}

fn make(
    context: &Arc<CudaContext>,
    stream: &Stream,
    encoder: &Encoder,
    thresholds: &[u64],
    length: Length,
    seed: &DeviceBuffer<u64>,
) -> Result<StreamMatrix> {
    let (n, stored) = (thresholds.len(), StreamWords::of(length));
    let mut words = StreamMatrix::zeros(n, length)?.into_words();
    if n == 0 {
        return Ok(StreamMatrix::from_words(words, n, length)?);
    }
    let on_card = DeviceBuffer::with(context, thresholds, stream)?;
    for part in parts(n, stored, MAX_PART_WORDS)? {
        let streams = DeviceBuffer::<u32>::new(context, part.stride as usize)?;
        let rows = Rows {
            part: part.of_rows(n, stored)?,
            streams_are: RowStreams::Magnitudes,
            n_rows: 1,
            operands: Operands::thresholds(on_card.view()),
            streams: streams.view(),
            seed: seed.view(),
            first_row: 0,
            list: None,
        };
        encoder.encode(&Queue::new(stream), &rows)?;
        let encoded = streams.read(stream)?;
        let to: &mut [u32] = bytemuck::cast_slice_mut(&mut words);
        to[host_size(part.begin)..][..part.words as usize]
            .copy_from_slice(&encoded[..part.words as usize]);
    }
    Ok(StreamMatrix::from_words(words, n, length)?)
}

/// A gate or multiplexer, by the kernel's number.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
pub(crate) enum GateKind {
    And = 0,
    Or = 1,
    Xor = 2,
    Xnor = 3,
    Not = 4,
    Mux = 5,
}

impl From<Gate> for GateKind {
    fn from(gate: Gate) -> Self {
        match gate {
            Gate::And => Self::And,
            Gate::Or => Self::Or,
            Gate::Xor => Self::Xor,
            Gate::Xnor => Self::Xnor,
        }
    }
}

/// Returns the words of a gate over streams of one length.
pub(crate) fn gate(
    context: &Arc<CudaContext>,
    kind: GateKind,
    a: &BitStream,
    b: Option<&BitStream>,
    select: Option<&BitStream>,
) -> Result<Vec<u64>> {
    let stream = Stream::new(context)?;
    let (n, bytes) = (a.words().len(), 8 * a.words().len() as u128);
    let upload = |from: &BitStream| DeviceBuffer::with(context, from.words(), &stream);
    let a_words = upload(a)?;
    let others = [b, select].map(|other| other.map(upload).transpose());
    let [b_words, select_words] = others;
    let (b_words, select_words) = (b_words?, select_words?);
    let address = |buffer: &Option<DeviceBuffer<u64>>| match buffer {
        Some(buffer) => buffer.view().check(bytes),
        None => Ok(0),
    };
    let out = DeviceBuffer::<u64>::new(context, n)?;
    let params = GateParams {
        a: a_words.view().check(bytes)?,
        b: address(&b_words)?,
        select: address(&select_words)?,
        out: out.view().check(bytes)?,
        n_words: n as u64,
        stream_words: n as u64,
        tail_mask: a.length().tail_mask(),
        kind: kind as u32,
        padding: 0,
    };
    let grid = Grid::row((n as u64).div_ceil(THREADS))?;
    Queue::new(&stream).launch(&kernels::GATE, grid, 0, &params, 32 * n as u64)?;
    out.read(&stream)
}

/// The counted ones, by the kernel's number.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
pub(crate) enum PairKind {
    First = 0,
    Both = 1,
    Differing = 2,
}

/// Counts the ones of a stream, the ones that two streams share, or the bits in which they differ.
pub(crate) fn ones(
    context: &Arc<CudaContext>,
    kind: PairKind,
    a: &BitStream,
    b: &BitStream,
) -> Result<Vec<u64>> {
    let stream = Stream::new(context)?;
    let (n, bytes) = (a.words().len(), 8 * a.words().len() as u128);
    let a_words = DeviceBuffer::with(context, a.words(), &stream)?;
    let b_words = DeviceBuffer::with(context, b.words(), &stream)?;
    let sums = DeviceBuffer::<u64>::new(context, 1)?;
    sums.fill(0, &stream)?;
    let n_parts = (n as u64).div_ceil(8 * THREADS).clamp(1, 4096);
    let params = OnesParams {
        a: a_words.view().check(bytes)?,
        b: b_words.view().check(bytes)?,
        ones: sums.view().check(8)?,
        stream_words: n as u64,
        n_streams: 1,
        n_parts: size_u32(n_parts, "number of parts")?,
        kind: kind as u32,
        padding: 0,
    };
    Queue::new(&stream).launch(&kernels::ONES, Grid::row(n_parts)?, 0, &params, 16 * n as u64)?;
    sums.read(&stream)
}
