//! The buffers of one call, made once and used by every call after it.

use std::sync::Arc;

use aleatron_core::Length;

use crate::buffer::{BufferView, GpuBuffer, HostBuffer, Memory};
use crate::context::GpuContext;
use crate::error::Result;
use crate::record::Recorder;

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
            upload: HostBuffer::new(context, sizes.thresholds, Memory::Upload)?,
            thresholds: context.buffer(if in_place { 4 } else { sizes.thresholds }, Memory::Device)?,
            streams: context.buffer(sizes.streams, Memory::Device)?,
            counts: context.buffer(sizes.counts, Memory::Device)?,
            readback: HostBuffer::new(context, sizes.counts, Memory::Readback)?,
        })
    }

    /// Hands the thresholds in `scratch` to the device.
    pub(crate) fn send(&mut self) -> Result<()> {
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
    pub(crate) fn begin_receive(&mut self) {
        self.readback.begin_map();
        self.upload.begin_map();
    }

    /// Waits for the counts and shows their first `n` words.
    pub(crate) fn receive(&mut self, n: usize, see: impl FnOnce(&[u32])) -> Result<()> {
        let (readback, upload) = (&self.readback, &self.upload);
        self.counts.context().wait_until(|| readback.is_settled() && upload.is_settled())?;
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
