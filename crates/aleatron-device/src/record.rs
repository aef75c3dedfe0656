//! Recordings of commands: copies, clears, dispatches and reads in one submission, optionally with
//! timed kernels.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::Pod;

use crate::buffer::{RawBuffer, ReadSlot};
use crate::context::GpuContext;
use crate::error::{Error, Limit, Owner, Result};
use crate::pipeline::Bound;
use crate::profile::Profiler;
use crate::wait::Submission;

/// Records commands for one submission. Every command sees the writes of those before it.
/// Consecutive dispatches share one compute pass, since passes cost time; in a profiled recording
/// each has a separate pass.
///
/// Nothing reaches the device before [`Self::submit`], which does not wait. A step of many kernels
/// with a [`read`](Self::read) at its end is one submission.
pub struct Recorder<'a> {
    context: Arc<GpuContext>,
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: wgpu::CommandEncoder,
    profiler: Option<&'a mut Profiler>,
    reads: Reads,
    /// Memory that must not be reused before the commands are submitted.
    used: Vec<Arc<RawBuffer>>,
    bound: Vec<Bound>,
}

impl std::fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("context", &self.context.id()).finish_non_exhaustive()
    }
}

impl GpuContext {
    /// Starts recording.
    ///
    /// # Errors
    /// Returns [`Error::DeviceLost`] if the device is lost, [`Error::Foreign`] for a profiler of
    /// another device.
    pub fn recorder<'a>(
        self: &Arc<Self>,
        mut profiler: Option<&'a mut Profiler>,
    ) -> Result<Recorder<'a>> {
        self.check()?;
        if let Some(owner) =
            profiler.as_ref().map(|p| p.context().id()).filter(|&id| id != self.id())
        {
            let [owner, user] = [owner, self.id()].map(Owner::Context);
            return Err(Error::Foreign { what: "profiler", owner, user });
        }
        if let Some(profiler) = profiler.as_deref_mut() {
            profiler.begin();
        }
        let encoder =
            self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        Ok(Recorder {
            context: Arc::clone(self),
            pass: None,
            encoder,
            profiler,
            reads: Reads::default(),
            used: Vec::new(),
            bound: Vec::new(),
        })
    }
}

impl Recorder<'_> {
    /// Returns the device the commands are for.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// Copies whole words between two buffers.
    pub(crate) fn copy_words(
        &mut self,
        from: &Arc<RawBuffer>,
        from_offset: u64,
        to: &Arc<RawBuffer>,
        to_offset: u64,
        bytes: u64,
    ) {
        self.pass = None;
        self.encoder.copy_buffer_to_buffer(
            from.buffer(),
            from_offset,
            to.buffer(),
            to_offset,
            bytes,
        );
        self.used.extend([Arc::clone(from), Arc::clone(to)]);
    }

    /// Clears whole words.
    pub(crate) fn clear_words(&mut self, raw: &Arc<RawBuffer>, offset: u64, bytes: u64) {
        self.pass = None;
        self.encoder.clear_buffer(raw.buffer(), offset, Some(bytes));
        self.used.push(Arc::clone(raw));
    }

    /// Completes a read once the commands are submitted.
    pub(crate) fn await_read(&mut self, slot: Arc<ReadSlot>) {
        self.reads.0.push(slot);
    }

    /// Runs a kernel over a grid of workgroups. `bytes` is the number of bytes that it reads and
    /// writes, for the profile.
    ///
    /// # Errors
    /// Returns [`Error::Arguments`] unless the parameters have the size that the kernel declares,
    /// [`Error::TooLarge`] for a grid above the device's limit, [`Error::Foreign`] for a kernel
    /// bound on another device.
    pub fn dispatch<P: Pod>(
        &mut self,
        bound: &Bound,
        params: &P,
        grid: [u32; 3],
        bytes: u64,
    ) -> Result<()> {
        self.dispatch_bytes(bound, bytemuck::bytes_of(params), grid, bytes)
    }

    /// Dispatches as [`Self::dispatch`], with parameters whose number is known only at run time.
    ///
    /// # Errors
    /// As for [`Self::dispatch`].
    pub fn dispatch_bytes(
        &mut self,
        bound: &Bound,
        params: &[u8],
        grid: [u32; 3],
        bytes: u64,
    ) -> Result<()> {
        bound.check_launch(&self.context, params, grid)?;
        let timestamp_writes = match self.profiler.as_deref_mut() {
            Some(profiler) => {
                self.pass = None;
                profiler.next(bound.name(), bytes)
            }
            None => None,
        };
        let pass = match &mut self.pass {
            Some(pass) => pass,
            None => {
                let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
                self.pass.insert(self.encoder.begin_compute_pass(&descriptor).forget_lifetime())
            }
        };
        bound.dispatch(pass, params, grid);
        self.bound.push(bound.clone());
        Ok(())
    }

    /// Sends everything recorded to the device, without waiting for it.
    ///
    /// # Errors
    /// Returns an error for invalid commands, and errors of the device.
    pub fn submit(self) -> Result<Submission> {
        let Self { context, pass, mut encoder, profiler, mut reads, used, bound } = self;
        drop(pass);
        if let Some(profiler) = profiler {
            profiler.resolve(&mut encoder);
        }
        context.writes_pending.store(false, Ordering::Release);
        let index = context.scoped(|_| context.queue.submit([encoder.finish()]))?;
        // Later users of the memory submit later.
        drop((used, bound));
        for read in reads.0.drain(..) {
            read.submitted(index.clone());
        }
        Ok(Submission { context, index })
    }
}

/// The reads of a recording. Those remaining when it is dropped fail.
#[derive(Default)]
struct Reads(Vec<Arc<ReadSlot>>);

impl Drop for Reads {
    fn drop(&mut self) {
        self.0.iter().for_each(|read| read.dropped());
    }
}

/// Checks that a grid is within the device's limits.
pub(crate) fn check_grid(grid: [u32; 3], limit: u32) -> Result<()> {
    match grid.into_iter().find(|&side| side > limit) {
        None => Ok(()),
        Some(side) => Err(Error::TooLarge {
            what: Limit::Workgroups,
            actual: side.into(),
            limit: limit.into(),
        }),
    }
}
