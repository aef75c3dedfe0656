//! The buffers of a call, which later calls reuse, and its division into chunks of samples.
//!
//! Two chunks are in flight at a time, so that the host prepares one while the device counts the
//! other.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aleatron_core::Length;
use aleatron_device::{
    BufferView, Error as DeviceError, GpuBuffer, GpuContext, HostBuffer, Profiler, Recorder,
    Submission,
};

use crate::error::{Result, host_size};
use crate::inputs::CountOptions;

/// Number of chunks of a full batch, so that preparing and counting overlap.
const CHUNKS: usize = 4;

/// Number of samples below which a chunk is not worth a submission.
const LEAST_CHUNK: usize = 64;

/// Returns the number of samples of a chunk for batches of up to `max_batch`.
pub(crate) fn chunk_of(max_batch: usize) -> usize {
    max_batch
        .div_ceil(CHUNKS)
        .checked_next_multiple_of(LEAST_CHUNK)
        .unwrap_or(max_batch)
        .min(max_batch)
}

/// The layer-specific part of a call that runs in chunks.
pub(crate) trait ChunkRun {
    /// Submits a chunk.
    fn submit(
        &mut self,
        buffers: &mut BufferSet,
        samples: Range<usize>,
        profiler: Option<&mut Profiler>,
    ) -> Result<Submission>;

    /// Receives the counts of a chunk of `n_samples`.
    fn receive(&mut self, buffers: &mut BufferSet, n_samples: usize) -> Result<()>;
}

/// The idle buffer sets of a layer; as many as have ever been in use at a time.
#[derive(Debug, Default)]
pub(crate) struct BufferSets {
    idle: Mutex<Vec<BufferSet>>,
}

impl BufferSets {
    pub(crate) fn keep(&self, buffers: BufferSet) {
        self.lock().push(buffers);
    }

    /// Frees the memory of all idle sets.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<BufferSet>> {
        // The list is consistent between any two statements.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `n_samples` in chunks; each is submitted before the counts of the previous one are
    /// received.
    pub(crate) fn run(
        &self,
        n_samples: usize,
        chunk: usize,
        mut options: CountOptions<'_>,
        make: impl Fn() -> Result<BufferSet>,
        run: &mut impl ChunkRun,
    ) -> Result<()> {
        // Times are collected chunk by chunk.
        let ahead = if options.profiler.is_some() { 0 } else { 1 };
        // A set whose chunk failed is dropped: its buffers may still be in flight.
        let mut in_flight = VecDeque::new();
        for start in (0..n_samples).step_by(chunk) {
            options.cancel.check()?;
            let samples = start..(start + chunk).min(n_samples);
            let n = samples.len();
            let idle = self.lock().pop();
            let mut buffers = idle.map_or_else(&make, Ok)?;
            let submission = run.submit(&mut buffers, samples, options.profiler.as_deref_mut())?;
            buffers.begin_receive(&submission);
            in_flight.push_back((buffers, n));
            while in_flight.len() > ahead
                && let Some(chunk) = in_flight.pop_front()
            {
                self.receive(chunk, options.profiler.as_deref_mut(), run)?;
            }
        }
        in_flight
            .into_iter()
            .try_for_each(|chunk| self.receive(chunk, options.profiler.as_deref_mut(), run))
    }

    fn receive(
        &self,
        (mut buffers, n_samples): (BufferSet, usize),
        profiler: Option<&mut Profiler>,
        run: &mut impl ChunkRun,
    ) -> Result<()> {
        run.receive(&mut buffers, n_samples)?;
        profiler.map_or(Ok(()), Profiler::collect)?;
        self.keep(buffers);
        Ok(())
    }
}

/// The largest size of thresholds that the kernel reads where the host wrote them; larger ones are
/// copied first, since they may lie across a bus.
const IN_PLACE_THRESHOLD_BYTES: usize = 1 << 20;

/// The largest size of counts that the kernel writes where the host reads them.
const IN_PLACE_COUNT_BYTES: usize = 1 << 16;

/// Sizes, in 32-bit words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetSizes {
    pub(crate) thresholds: usize,
    pub(crate) work: usize,
    pub(crate) counts: usize,
}

/// Whether a kernel adds to existing counts, or overwrites them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountMode {
    Write,
    Add,
}

/// The buffers of a chunk: thresholds, intermediate results, counts.
#[derive(Debug)]
pub(crate) struct BufferSet {
    /// The thresholds of the chunk, packed for kernels.
    pub(crate) packed: Vec<u32>,
    upload: HostBuffer<u32>,
    thresholds: GpuBuffer<u32>,
    /// Streams of the chunk, or rows of count tables.
    pub(crate) work: GpuBuffer<u32>,
    counts: GpuBuffer<u32>,
    readback: HostBuffer<u32>,
}

impl BufferSet {
    pub(crate) fn new(context: &Arc<GpuContext>, sizes: SetSizes) -> Result<Self> {
        let in_place = context.capabilities().mapped_buffers
            && sizes.thresholds * 4 <= IN_PLACE_THRESHOLD_BYTES;
        Ok(Self {
            packed: Vec::new(),
            upload: HostBuffer::upload(context, sizes.thresholds)?,
            thresholds: context.buffer(if in_place { 4 } else { sizes.thresholds })?,
            work: context.buffer(sizes.work)?,
            counts: context.buffer(sizes.counts)?,
            readback: HostBuffer::readback(context, sizes.counts)?,
        })
    }

    /// Hands the packed thresholds to the device.
    pub(crate) fn send(&mut self) -> Result<()> {
        self.upload.map()?;
        self.upload.write(0, &self.packed)?;
        self.upload.unmap();
        Ok(())
    }

    /// Records a copy of the sent words from `start` on to device memory.
    pub(crate) fn copy_sent(
        &self,
        recorder: &mut Recorder<'_>,
        start: usize,
        to: BufferView<'_>,
    ) -> Result<()> {
        Ok(recorder.copy(self.upload.view_of(start, self.packed.len() - start)?, to)?)
    }

    /// Returns the buffer from which a kernel reads the sent thresholds.
    pub(crate) fn thresholds(&self, recorder: &mut Recorder<'_>) -> Result<BufferView<'_>> {
        let n = self.packed.len();
        if self.is_mapped() && n * 4 <= IN_PLACE_THRESHOLD_BYTES {
            return Ok(self.upload.view());
        }
        recorder.copy(self.upload.view_of(0, n)?, self.thresholds.view_of(0, n)?)?;
        Ok(self.thresholds.view())
    }

    /// Returns the buffer to which a kernel writes `n` words of counts; zeroed if it adds to them.
    pub(crate) fn counts(
        &self,
        recorder: &mut Recorder<'_>,
        n: usize,
        mode: CountMode,
    ) -> Result<BufferView<'_>> {
        if self.counts_in_place(n, mode) {
            return Ok(self.readback.view());
        }
        if mode == CountMode::Add {
            recorder.clear(self.counts.view_of(0, n)?)?;
        }
        Ok(self.counts.view())
    }

    /// Returns whether the kernel writes counts where the host reads them: additions would cross
    /// the bus twice.
    fn counts_in_place(&self, n: usize, mode: CountMode) -> bool {
        self.is_mapped() && mode == CountMode::Write && n * 4 <= IN_PLACE_COUNT_BYTES
    }

    fn is_mapped(&self) -> bool {
        self.counts.context().capabilities().mapped_buffers
    }

    /// Records the transfer of `n` words of counts to the host.
    pub(crate) fn fetch(
        &self,
        recorder: &mut Recorder<'_>,
        n: usize,
        mode: CountMode,
    ) -> Result<()> {
        if !self.counts_in_place(n, mode) {
            recorder.copy(self.counts.view_of(0, n)?, self.readback.view())?;
        }
        Ok(())
    }

    /// Maps both host buffers after the submission, so that the next chunk finds its upload buffer
    /// ready.
    fn begin_receive(&mut self, submission: &Submission) {
        self.readback.map_after(submission);
        self.upload.map_after(submission);
    }

    /// Waits for the counts and passes their first `n` words to `see`.
    pub(crate) fn receive(&mut self, n: usize, see: impl FnOnce(&[u32])) -> Result<()> {
        self.readback.map()?;
        let seen = self.readback.with(n, see);
        self.readback.unmap();
        Ok(seen?)
    }
}

/// Checks that a buffer has the words that a kernel will index, which kernels without run-time
/// checks rely on.
pub(crate) fn check_words_of(view: &BufferView<'_>, words: u64) -> Result<()> {
    let len = view.bytes() / 4;
    if words > len {
        let (end, len) = (host_size(words), host_size(len));
        return Err(DeviceError::OutOfBounds { start: 0, end, len }.into());
    }
    Ok(())
}

/// Returns whether counts over `n` streams exceed 32 bits.
pub(crate) fn is_wide(n: usize, length: Length) -> bool {
    n as u128 * length.bits() as u128 > u128::from(u32::MAX)
}

/// Widens counts of the device: low words, then high ones if they are wide.
pub(crate) fn widen(words: &[u32], wide: bool) -> impl Iterator<Item = u64> {
    let (low, high) = words.split_at(if wide { words.len() / 2 } else { words.len() });
    let high = high.iter().copied().chain(std::iter::repeat(0));
    low.iter().zip(high).map(|(&low, high)| u64::from(low) | u64::from(high) << 32)
}
