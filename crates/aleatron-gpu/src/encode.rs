//! Encoding of thresholds to Bernoulli streams on a device.

use std::sync::Arc;
use std::time::Duration;

use aleatron_core::{Cancel, Length, Quantity, StreamAddress, StreamMatrix, Threshold};
use aleatron_device::{BufferView, GpuBuffer, GpuContext, Profiler, Recorder, grid, size_u32};

use crate::buffers::check_words_of;
use crate::error::{Error, Limit, Result, host_size};
use crate::kernels::{EncodeParams, StreamKernel};
use crate::partition::{Block, Cut, StreamWords, blocks, scatter};

/// Number of threads of an encoding workgroup.
const THREADS: u64 = 256;

/// Number of words that a thread computes. More would share the look-up of a threshold, but fewer
/// threads hide less latency: on an H200, 256 x 1000 streams of 1024 bits take 158 us with one, 196
/// us with eight.
const WORDS: u32 = 1;

/// Number of thresholds uploaded at a time.
const UPLOAD_THRESHOLDS: usize = 8 << 20;

/// Number of words encoded between two checks for cancellation: a fraction of a second on software
/// devices.
const CANCEL_WORDS: usize = 1 << 22;

/// Returns the number of words that hold `n` thresholds: each modulo 2^32, then a bit each for
/// those that are 2^32.
pub(crate) const fn threshold_words(n: usize) -> usize {
    n + n.div_ceil(32)
}

/// Packs thresholds for the kernel.
pub(crate) fn pack(thresholds: &[Threshold], out: &mut Vec<u32>) {
    pack_by(thresholds, |threshold| threshold.get(), out);
}

/// Packs values with thresholds up to 2^32 like [`pack`].
pub(crate) fn pack_by<T>(thresholds: &[T], get: impl Fn(&T) -> u64, out: &mut Vec<u32>) {
    out.clear();
    out.reserve(threshold_words(thresholds.len()));
    // Modulo 2^32: a value that does not fit 32 bits is 2^32.
    out.extend(thresholds.iter().map(|threshold| u32::try_from(get(threshold)).unwrap_or(0)));
    out.extend(thresholds.chunks(32).map(|chunk| {
        let flag =
            |(bit, threshold): (usize, &T)| u32::from(get(threshold) > u32::MAX.into()) << bit;
        chunk.iter().enumerate().map(flag).fold(0, |flags, flag| flags | flag)
    }));
}

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

/// Returns the address `row` rows further on, which a counter must be able to address.
pub(crate) fn at_row(first: StreamAddress, row: usize) -> Result<StreamAddress> {
    let row = first.row.checked_add(size_u32(row, "row of a counter")?);
    let location = "encode::at_row, row past the counter";
    Ok(first.at_row(row.ok_or(Error::Internal { place: location })?))
}

/// The part of a matrix of streams that one dispatch encodes.
pub(crate) struct Part {
    pub(crate) first: StreamAddress,
    pub(crate) n_rows: usize,
    pub(crate) n_units: usize,
    pub(crate) cut: Cut,
    pub(crate) stream: StreamWords,
    /// The offset of the first row in `streams`, in words.
    pub(crate) out_base: usize,
}

/// Records the encoding of a part. `list` holds unit and row of each stream if they are not a grid.
pub(crate) fn record(
    recorder: &mut Recorder<'_>,
    part: &Part,
    thresholds: BufferView<'_>,
    streams: BufferView<'_>,
    list: Option<BufferView<'_>>,
) -> Result<()> {
    let context = Arc::clone(recorder.context());
    let n_words = part.cut.stride as u64 * part.n_rows as u64;
    let n_thresholds = host_size(part.n_rows as u128 * part.n_units as u128);
    // Sizes that the kernel indexes and divides by; it does not check itself.
    check_words_of(&thresholds, n_thresholds as u64 + n_thresholds.div_ceil(32) as u64)?;
    check_words_of(&streams, part.out_base as u64 + n_words)?;
    if let Some(list) = &list {
        check_words_of(list, 2 * part.n_units as u64)?;
    }
    if n_words == 0 || n_thresholds == 0 {
        return Ok(());
    }
    let kernel = if list.is_some() { StreamKernel::EncodeList } else { StreamKernel::Encode };
    let pipeline = context.pipeline(&kernel, &[("WORDS", WORDS.into())])?;
    let views: Vec<_> = [thresholds, streams].into_iter().chain(list).collect();
    let bound = context.bind(&pipeline, &views)?;
    let params = EncodeParams {
        key: part.first.key(),
        tag: part.first.tag(),
        first_row: part.first.row,
        first_unit: part.first.unit,
        n_units: size_u32(part.n_units, "number of units")?,
        stream_words: part.stream.stored,
        full_words: part.stream.full,
        tail_mask: part.stream.tail_mask,
        row_begin: size_u32(part.cut.begin, "row begin")?,
        row_words: size_u32(part.cut.words, "row words")?,
        row_stride: size_u32(part.cut.stride, "row stride")?,
        out_base: size_u32(part.out_base, "out base")?,
        n_words: size_u32(n_words, "number of words")?,
        n_thresholds: size_u32(n_thresholds, "number of thresholds")?,
        padding: 0,
    };
    let groups = grid(n_words.div_ceil(THREADS * u64::from(WORDS)), context.info().max_workgroups)?;
    Ok(recorder.dispatch(&bound, &params, groups, 4 * (n_words + n_thresholds as u64))?)
}

/// Encodes a block of a matrix, rows of `n_units` streams, into `streams`, some rows at a time.
#[expect(clippy::too_many_arguments, reason = "a block, its addresses and its destination")]
pub(crate) fn encode_block(
    context: &Arc<GpuContext>,
    thresholds: &[Threshold],
    n_units: usize,
    block: &Block,
    length: Length,
    first: StreamAddress,
    streams: &GpuBuffer<u32>,
    cancel: Cancel<'_>,
) -> Result<()> {
    let limit = context.max_binding_bytes();
    let row_bytes = 4 * threshold_words(n_units) as u64;
    if row_bytes > limit {
        return Err(Error::TooLarge {
            what: Limit::ThresholdBytes,
            actual: row_bytes.into(),
            limit,
        });
    }
    let mut rows_at_once = (UPLOAD_THRESHOLDS / n_units).min(host_size(limit / row_bytes)).max(1);
    if !cancel.is_never() {
        rows_at_once = rows_at_once.min(CANCEL_WORDS / block.cut.stride).max(1);
    }
    let mut packed = Vec::new();
    for offset in (0..block.n_rows).step_by(rows_at_once) {
        let (row, n_rows) = (block.first_row + offset, rows_at_once.min(block.n_rows - offset));
        pack(&thresholds[row * n_units..(row + n_rows) * n_units], &mut packed);
        let uploaded = context.upload(&packed)?;
        let part = Part {
            first: at_row(first, row)?,
            n_rows,
            n_units,
            cut: block.cut,
            stream: StreamWords::of(length),
            out_base: offset * block.cut.stride,
        };
        let mut recorder = context.recorder(None)?;
        record(&mut recorder, &part, uploaded.view(), streams.view(), None)?;
        let submission = recorder.submit()?;
        if !cancel.is_never() {
            // Submissions cannot be cancelled: with cancellation, at most one part is submitted at
            // a time.
            submission.wait()?;
            cancel.check()?;
        }
    }
    Ok(())
}

/// Encodes a matrix of thresholds, rows of `n_units`: stream (r, u) is drawn at row `first.row +
/// r`, unit `first.unit + u`.
///
/// ```no_run
/// use aleatron_core::{Length, StreamAddress, Threshold};
/// use aleatron_gpu::{AdapterChoice, GpuContext, encode};
///
/// let context = GpuContext::get(&AdapterChoice::from_env())?;
/// let half = Threshold::from_probability(0.5)?;
/// let streams = encode::encode(&context, &[half], 1, Length::new(128)?, StreamAddress::input(42, 0, 0))?;
/// assert_eq!(streams.words(), [0x73b5_ad63_6315_0fac, 0xc73d_b848_145b_a3e7]);
/// # Ok::<(), aleatron_gpu::Error>(())
/// ```
///
/// # Errors
/// Returns [`aleatron_core::Error::Ragged`] unless the thresholds are whole rows,
/// [`Error::TooLarge`] if a row exceeds the range of a counter or a kernel, and errors of the
/// device.
pub fn encode(
    context: &Arc<GpuContext>,
    thresholds: &[Threshold],
    n_units: usize,
    length: Length,
    first: StreamAddress,
) -> Result<StreamMatrix> {
    if n_units == 0 {
        return Err(aleatron_core::Error::Zero(Quantity::Streams).into());
    }
    if !thresholds.len().is_multiple_of(n_units) {
        let (what, actual) = (Quantity::Streams, thresholds.len());
        return Err(aleatron_core::Error::Ragged { what, actual, divisor: n_units }.into());
    }
    let n_rows = thresholds.len() / n_units;
    check_address(first, n_rows, n_units)?;
    let stream = StreamWords::of(length);
    let row_words = n_units.saturating_mul(stream.stored as usize);
    let mut words = StreamMatrix::zeros(thresholds.len(), length)?.into_words();
    let packed: &mut [u32] = bytemuck::cast_slice_mut(&mut words);
    for block in blocks(n_rows, row_words, context)? {
        let streams = context.buffer(block.words())?;
        encode_block(context, thresholds, n_units, &block, length, first, &streams, Cancel::NEVER)?;
        scatter(&streams.read()?, row_words, &block, packed);
    }
    Ok(StreamMatrix::from_words(words, thresholds.len(), length)?)
}

/// Encodes a matrix as [`encode`] does, `repeats` times, and returns the streams and the median
/// time of the kernel, for benchmarks.
///
/// # Errors
/// As for [`encode`], [`Error::TooLarge`] unless one dispatch encodes all streams, and
/// [`Error::Device`] if the device cannot time kernels.
pub fn encode_timed(
    context: &Arc<GpuContext>,
    thresholds: &[Threshold],
    n_units: usize,
    length: Length,
    first: StreamAddress,
    repeats: usize,
) -> Result<(StreamMatrix, Duration)> {
    let streams = encode(context, thresholds, n_units, length, first)?;
    let (n_rows, stream) = (thresholds.len() / n_units, StreamWords::of(length));
    let [block] = blocks(n_rows, n_units * stream.stored as usize, context)?[..] else {
        let (actual, limit) = (8 * streams.words().len() as u128, context.max_binding_bytes());
        return Err(Error::TooLarge { what: Limit::StreamBytes, actual, limit });
    };
    let mut packed = Vec::new();
    pack(thresholds, &mut packed);
    let (uploaded, written) = (context.upload(&packed)?, context.buffer::<u32>(block.words())?);
    let part = Part { first, n_rows, n_units, cut: block.cut, stream, out_base: 0 };
    let mut profiler = Profiler::new(context)?;
    let mut times = Vec::new();
    for _ in 0..repeats.max(1) {
        profiler.reset();
        let mut recorder = context.recorder(Some(&mut profiler))?;
        record(&mut recorder, &part, uploaded.view(), written.view(), None)?;
        recorder.submit()?;
        profiler.collect()?;
        times.push(profiler.time_of("encode"));
    }
    times.sort_unstable();
    Ok((streams, times[times.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_pack_with_their_flags() {
        let mut thresholds = vec![Threshold::ZERO; 70];
        thresholds[1] = Threshold::ONE;
        thresholds[33] = Threshold::ONE;
        thresholds[69] = Threshold::from_probability(0.25).unwrap();
        let mut packed = vec![7; 3];
        pack(&thresholds, &mut packed);
        assert_eq!(packed.len(), threshold_words(70));
        assert_eq!(packed[69], 1 << 30);
        assert!(packed[..69].iter().all(|&t| t == 0));
        assert_eq!(packed[70..], [2, 2, 0]);
    }
}
