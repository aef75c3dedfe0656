//! A call of a layer: its inputs, the buffers every later call uses again, and the pieces it runs in.
//!
//! Two pieces are under way at a time, so that the host prepares one while the device counts the other.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use aleatron_core::{Length, Quantity, StreamAddress, Threshold};

use crate::buffer::{BufferView, GpuBuffer, HostBuffer, Memory};
use crate::context::{GpuContext, lock};
use crate::encode;
use crate::error::Result;
use crate::record::Recorder;

/// Pieces a full batch is cut into, so that preparing them and counting them overlap.
const PIECES: usize = 4;

/// Samples below which a piece is not worth a submission of its own.
const LEAST_PIECE: usize = 64;

/// The samples of a piece for batches of up to `max_batch`.
pub(crate) fn piece_of(max_batch: usize) -> usize {
    max_batch.div_ceil(PIECES).next_multiple_of(LEAST_PIECE).min(max_batch)
}

/// Appends the thresholds of a range of samples.
pub(crate) type Fill<'a> = &'a mut dyn FnMut(Range<usize>, &mut Vec<Threshold>) -> Result<()>;

/// What a call counts over.
pub(crate) enum Inputs<'a> {
    /// A threshold per sample and input, and where the first stream is drawn.
    Thresholds(&'a [Threshold], StreamAddress),
    /// The same, asked for piece by piece.
    Filled(Fill<'a>, StreamAddress),
    /// Packed streams.
    Streams(&'a [u64]),
}

impl Inputs<'_> {
    /// Hands the thresholds of `samples` to the device, where there are any.
    pub(crate) fn send(&mut self, call: &mut Call, samples: Range<usize>, n_inputs: usize) -> Result<()> {
        match self {
            Self::Thresholds(all, _) => {
                encode::pack(&all[samples.start * n_inputs..samples.end * n_inputs], &mut call.scratch);
            }
            Self::Filled(fill, _) => {
                call.filled.clear();
                fill(samples.clone(), &mut call.filled)?;
                let (expected, actual) = (samples.len() * n_inputs, call.filled.len());
                if actual != expected {
                    return Err(
                        aleatron_core::Error::Mismatch { what: Quantity::Inputs, expected, actual }.into()
                    );
                }
                encode::pack(&call.filled, &mut call.scratch);
            }
            Self::Streams(_) => return Ok(()),
        }
        call.send()
    }

    /// Where the stream of the first input of `sample` is drawn.
    pub(crate) fn first(&self, sample: usize) -> Option<StreamAddress> {
        match self {
            Self::Thresholds(_, first) | Self::Filled(_, first) => {
                Some(first.at_row(first.row + sample as u32))
            }
            Self::Streams(_) => None,
        }
    }
}

/// A call of a layer on its way.
pub(crate) trait Run {
    /// Submits a range of samples.
    fn submit(&mut self, call: &mut Call, samples: Range<usize>) -> Result<wgpu::SubmissionIndex>;

    /// Takes the counts of `n_samples` samples.
    fn receive(&mut self, call: &mut Call, n_samples: usize) -> Result<()>;
}

/// The buffers of calls not under way; as many as have ever been under way at a time.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    idle: Mutex<Vec<Call>>,
}

impl Calls {
    pub(crate) fn keep(&self, call: Call) {
        lock(&self.idle).push(call);
    }

    /// Runs `n_samples` in pieces, `ahead` of which are submitted before the counts of the first are taken.
    pub(crate) fn run(
        &self,
        n_samples: usize,
        piece: usize,
        ahead: usize,
        make: impl Fn() -> Result<Call>,
        run: &mut impl Run,
    ) -> Result<()> {
        // A call that failed is not kept: its buffers may still be on their way.
        let mut under_way = std::collections::VecDeque::new();
        for start in (0..n_samples).step_by(piece) {
            let samples = start..(start + piece).min(n_samples);
            let n = samples.len();
            let idle = lock(&self.idle).pop();
            let mut call = idle.map_or_else(&make, Ok)?;
            let submission = run.submit(&mut call, samples)?;
            call.begin_receive(submission);
            under_way.push_back((call, n));
            while under_way.len() > ahead
                && let Some((mut call, n)) = under_way.pop_front()
            {
                run.receive(&mut call, n)?;
                self.keep(call);
            }
        }
        for (mut call, n) in under_way {
            run.receive(&mut call, n)?;
            self.keep(call);
        }
        Ok(())
    }
}

/// Thresholds up to this size are read by the kernel where the host wrote them; more are copied first, since they may
/// lie across a bus.
const IN_PLACE_THRESHOLD_BYTES: usize = 1 << 20;

/// Counts up to this size are written by the kernel where the host reads them.
const IN_PLACE_COUNT_BYTES: usize = 1 << 16;

/// Sizes, in 32-bit words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallSizes {
    pub(crate) thresholds: usize,
    pub(crate) streams: usize,
    pub(crate) counts: usize,
}

/// Thresholds in, streams between, counts out.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) scratch: Vec<u32>,
    filled: Vec<Threshold>,
    upload: HostBuffer<u32>,
    thresholds: GpuBuffer<u32>,
    pub(crate) streams: GpuBuffer<u32>,
    counts: GpuBuffer<u32>,
    readback: HostBuffer<u32>,
}

impl Call {
    pub(crate) fn new(context: &Arc<GpuContext>, sizes: CallSizes) -> Result<Self> {
        let in_place =
            context.capabilities().mapped_buffers && sizes.thresholds * 4 <= IN_PLACE_THRESHOLD_BYTES;
        Ok(Self {
            scratch: Vec::with_capacity(sizes.thresholds),
            filled: Vec::new(),
            upload: HostBuffer::new(context, sizes.thresholds, Memory::Upload)?,
            thresholds: context.buffer(if in_place { 4 } else { sizes.thresholds }, Memory::Device)?,
            streams: context.buffer(sizes.streams, Memory::Device)?,
            counts: context.buffer(sizes.counts, Memory::Device)?,
            readback: HostBuffer::new(context, sizes.counts, Memory::Readback)?,
        })
    }

    /// Hands the thresholds in `scratch` to the device.
    fn send(&mut self) -> Result<()> {
        self.upload.wait()?;
        self.upload.write(0, &self.scratch)?;
        self.upload.unmap();
        Ok(())
    }

    /// Where a kernel reads the thresholds sent.
    pub(crate) fn thresholds(&self, recorder: &mut Recorder<'_>) -> Result<BufferView<'_>> {
        let n = self.scratch.len();
        if self.mapped() && n * 4 <= IN_PLACE_THRESHOLD_BYTES {
            return self.upload.buffer.view();
        }
        recorder.copy(self.upload.buffer.view_of(0, n)?, self.thresholds.view_of(0, n)?)?;
        self.thresholds.view()
    }

    /// Where a kernel writes `n` words of counts; zero where they are to be added to.
    pub(crate) fn counts(&self, recorder: &mut Recorder<'_>, n: usize, add: bool) -> Result<BufferView<'_>> {
        if self.counts_in_place(n, add) {
            return self.readback.buffer.view();
        }
        if add {
            recorder.clear(self.counts.view_of(0, n)?)?;
        }
        self.counts.view()
    }

    /// Whether the kernel writes counts where the host reads them: additions would cross the bus twice.
    fn counts_in_place(&self, n: usize, add: bool) -> bool {
        self.mapped() && !add && n * 4 <= IN_PLACE_COUNT_BYTES
    }

    fn mapped(&self) -> bool {
        self.counts.context().capabilities().mapped_buffers
    }

    /// Records the way of `n` words of counts to the host.
    pub(crate) fn fetch(&self, recorder: &mut Recorder<'_>, n: usize, add: bool) -> Result<()> {
        if self.counts_in_place(n, add) {
            return Ok(());
        }
        recorder.copy(self.counts.view_of(0, n)?, self.readback.buffer.view()?)
    }

    /// Asks for both host buffers, once the work is submitted: the next call finds its upload buffer ready.
    fn begin_receive(&mut self, submission: wgpu::SubmissionIndex) {
        self.readback.begin_map_after(submission.clone());
        self.upload.begin_map_after(submission);
    }

    /// Waits for the counts and shows their first `n` words.
    pub(crate) fn receive(&mut self, n: usize, see: impl FnOnce(&[u32])) -> Result<()> {
        self.readback.wait()?;
        self.readback.visit(n, |bytes| see(bytemuck::cast_slice(bytes)))
    }
}

/// Whether counts over `n` streams pass 32 bits.
pub(crate) fn is_wide(n: usize, length: Length) -> bool {
    n as u128 * length.bits() as u128 > u128::from(u32::MAX)
}

/// Counts as the device gives them: low words, then high ones where they are wide.
pub(crate) fn widen(words: &[u32], wide: bool) -> impl Iterator<Item = u64> {
    let (low, high) = words.split_at(if wide { words.len() / 2 } else { words.len() });
    let high = high.iter().copied().chain(std::iter::repeat(0));
    low.iter().zip(high).map(|(&low, high)| u64::from(low) | u64::from(high) << 32)
}
