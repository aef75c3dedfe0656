//! Encoding of thresholds with the integers of shared sequences; see [`aleatron_core::generator`].

use std::ops::Range;
use std::sync::Arc;

use aleatron_core::{Error as CoreError, Length, Quantity, StreamMatrix, memory};
use aleatron_device::{BufferView, GpuBuffer, GpuContext, Recorder, grid, size_u32};

use crate::buffers::check_words_of;
use crate::encode::pack_by;
use crate::error::{Error, Limit, Result, host_size};
use crate::kernels::{SequenceParams, StreamKernel};
use crate::partition::{Cut, StreamWords, cuts};

/// Number of threads of a workgroup of `encode_sequence.wgsl`.
const THREADS: u64 = 256;

/// The threshold of the stream of ones, for sequences of 32 bits.
const MOST: u64 = 1 << 32;

/// Encodes thresholds with shared sequences to packed streams, one after the other: bit k of stream
/// r is 1 if integer k of sequence `r % period` is below threshold r. `values` holds the first
/// `length` integers of each of the `period` sequences.
///
/// ```no_run
/// use aleatron_core::Length;
/// use aleatron_gpu::{AdapterChoice, GpuContext, sequence};
///
/// let context = GpuContext::get(&AdapterChoice::from_env())?;
/// // Two streams over one sequence of four integers.
/// let streams = sequence::encode_sequences(&context, &[0, 2, 1, 3], &[1, 3], 1, Length::new(4)?)?;
/// assert_eq!(streams, [0b0001, 0b0111]);
/// # Ok::<(), aleatron_gpu::Error>(())
/// ```
///
/// # Errors
/// Returns [`CoreError::Zero`] without a sequence, [`CoreError::Mismatch`] unless there are
/// `length` integers of each, [`CoreError::OutOfRange`] with the index of a threshold above 2^32,
/// [`CoreError::Memory`] if the streams do not fit, [`Error::TooLarge`] if the device's bindings
/// are too small, and errors of the device.
pub fn encode_sequences(
    context: &Arc<GpuContext>,
    values: &[u32],
    thresholds: &[u64],
    period: usize,
    length: Length,
) -> Result<Vec<u64>> {
    if period == 0 {
        return Err(CoreError::Zero(Quantity::Sequence).into());
    }
    if period.checked_mul(length.bits()) != Some(values.len()) {
        let expected = period.saturating_mul(length.bits());
        return Err(CoreError::Mismatch {
            what: Quantity::Sequence,
            expected,
            actual: values.len(),
        }
        .into());
    }
    if let Some(index) = thresholds.iter().position(|&threshold| threshold > MOST) {
        let (what, value) = (Quantity::Value, thresholds[index] as f64);
        return Err(
            CoreError::OutOfRange { what, index, value, low: 0.0, high: MOST as f64 }.into()
        );
    }
    let mut words = StreamMatrix::zeros(thresholds.len(), length)?.into_words();
    let limit = context.max_binding_bytes();
    // The integers of a word take 32 times its memory.
    let cuts = cuts(2 * length.words(), limit / 32).map_err(|_| Error::TooLarge {
        what: Limit::StreamBytes,
        actual: 512,
        limit,
    })?;
    let n_rounds = thresholds.len().div_ceil(period);
    for cut in cuts {
        // As many sequences as a binding holds, and as many rounds of them as give rows that also
        // fit.
        let sequence_bytes = 128 * cut.stride as u64;
        let n_sequences = host_size(limit / sequence_bytes).clamp(1, period);
        let round_bytes = (4 * cut.stride as u64).max(8) * n_sequences as u64;
        let rounds_at_once = host_size(limit / round_bytes).max(1);
        for first in (0..period).step_by(n_sequences) {
            let sequences = first..(first + n_sequences).min(period);
            for round in (0..n_rounds).step_by(rounds_at_once) {
                let rounds = round..(round + rounds_at_once).min(n_rounds);
                let part = Part {
                    values,
                    thresholds,
                    period,
                    length,
                    cut,
                    sequences: sequences.clone(),
                    rounds,
                };
                part.encode(context, bytemuck::cast_slice_mut(&mut words))?;
            }
        }
    }
    Ok(words)
}

/// A part of every stream of some sequences.
struct Part<'a> {
    values: &'a [u32],
    thresholds: &'a [u64],
    period: usize,
    length: Length,
    cut: Cut,
    sequences: Range<usize>,
    /// The streams of each sequence.
    rounds: Range<usize>,
}

impl Part<'_> {
    /// Returns the streams of this part, in the order of its rows; the last round may have fewer
    /// streams than sequences.
    fn streams(&self) -> impl Iterator<Item = Option<usize>> {
        let (n, period) = (self.thresholds.len(), self.period);
        let sequences = self.sequences.clone();
        self.rounds.clone().flat_map(move |round| {
            sequences
                .clone()
                .map(move |sequence| Some(round * period + sequence).filter(|&r| r < n))
        })
    }

    fn encode(&self, context: &Arc<GpuContext>, words: &mut [u32]) -> Result<()> {
        let (Cut { begin, words: n_words, stride }, stream) =
            (self.cut, StreamWords::of(self.length));
        let bits = self.length.bits();
        let mut values = Vec::new();
        for sequence in self.sequences.clone() {
            let all = &self.values[sequence * bits..(sequence + 1) * bits];
            let next = values.len() + 32 * stride;
            values.extend_from_slice(
                &all[(32 * begin).min(bits)..(32 * (begin + n_words)).min(bits)],
            );
            values.resize(next, 0);
        }
        let thresholds: Vec<u64> =
            self.streams().map(|row| row.map_or(0, |row| self.thresholds[row])).collect();
        let mut packed = Vec::new();
        pack_by(&thresholds, |&threshold| threshold, &mut packed);
        let n_made = stride * thresholds.len();
        let (values, packed) = (context.upload(&values)?, context.upload(&packed)?);
        let encoded = context.buffer::<u32>(n_made)?;
        let pipeline = context.pipeline(&StreamKernel::EncodeSequence, &[])?;
        let bound = context.bind(&pipeline, &[values.view(), packed.view(), encoded.view()])?;
        let params = SequenceParams {
            n_words: size_u32(n_made, "number of words")?,
            row_stride: size_u32(stride, "row stride")?,
            row_begin: size_u32(begin, "row begin")?,
            full_words: stream.full,
            tail_mask: stream.tail_mask,
            n_sequences: size_u32(self.sequences.len(), "number of sequences")?,
            n_thresholds: size_u32(thresholds.len(), "number of thresholds")?,
            n_units: 1,
            sample_stride: size_u32(stride, "row stride")?,
        };
        let workgroups = grid((n_made as u64).div_ceil(THREADS), context.info().max_workgroups)?;
        let mut recorder = context.recorder(None)?;
        recorder.dispatch(&bound, &params, workgroups, 132 * n_made as u64)?;
        let read = recorder.read::<u32>(encoded.view())?;
        recorder.submit()?;
        let row_words = stream.stored as usize;
        for (row, encoded) in self.streams().zip(read.wait()?.chunks_exact(stride)) {
            if let Some(row) = row {
                words[row * row_words + begin..][..n_words].copy_from_slice(&encoded[..n_words]);
            }
        }
        Ok(())
    }
}

/// The integers of the sequences that the inputs of a layer share, on a device.
#[derive(Debug)]
pub(crate) struct InputSequences {
    values: GpuBuffer<u32>,
    period: usize,
    length: Length,
}

impl InputSequences {
    /// Uploads the first `length` integers of each of `period` sequences, one after the other;
    /// `None` if no binding can hold them.
    pub(crate) fn new(
        context: &Arc<GpuContext>,
        values: &[u32],
        period: usize,
        length: Length,
    ) -> Result<Option<Self>> {
        let row = 64 * length.words();
        let n = period as u128 * row as u128;
        if 4 * n > context.max_binding_bytes().into() {
            return Ok(None);
        }
        // Every stream begins at a word boundary.
        let mut padded: Vec<u32> = memory::zeros(n, Quantity::Sequence)?;
        for (padded, values) in padded.chunks_exact_mut(row).zip(values.chunks_exact(length.bits()))
        {
            padded[..values.len()].copy_from_slice(values);
        }
        Ok(Some(Self { values: context.upload(&padded)?, period, length }))
    }

    /// Records the encoding of `n_samples` samples of `n_units` streams each, which begin `stride`
    /// words apart.
    pub(crate) fn record(
        &self,
        recorder: &mut Recorder<'_>,
        thresholds: BufferView<'_>,
        streams: BufferView<'_>,
        [n_samples, n_units, stride]: [usize; 3],
    ) -> Result<()> {
        let context = Arc::clone(recorder.context());
        let (stream, n_streams) = (StreamWords::of(self.length), n_samples as u64 * n_units as u64);
        let n_words = n_streams * u64::from(stream.stored);
        check_words_of(&thresholds, n_streams + n_streams.div_ceil(32))?;
        check_words_of(&streams, n_samples as u64 * stride as u64)?;
        if n_units as u64 * u64::from(stream.stored) < stride as u64 {
            // The padding of a sample counts nothing.
            recorder.clear(streams)?;
        }
        let pipeline = context.pipeline(&StreamKernel::EncodeSequence, &[])?;
        let bound = context.bind(&pipeline, &[self.values.view(), thresholds, streams])?;
        let params = SequenceParams {
            n_words: size_u32(n_words, "number of words")?,
            row_stride: stream.stored,
            row_begin: 0,
            full_words: stream.full,
            tail_mask: stream.tail_mask,
            n_sequences: size_u32(self.period, "number of sequences")?,
            n_thresholds: size_u32(n_streams, "number of thresholds")?,
            n_units: size_u32(n_units, "number of units")?,
            sample_stride: size_u32(stride, "words of a sample")?,
        };
        let workgroups = grid(n_words.div_ceil(THREADS), context.info().max_workgroups)?;
        Ok(recorder.dispatch(&bound, &params, workgroups, 132 * n_words)?)
    }
}
