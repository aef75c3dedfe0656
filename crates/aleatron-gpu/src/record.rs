//! Recording commands: copies, clears and dispatches into one submission, timed kernel by kernel where asked.

use std::sync::Arc;

use bytemuck::Pod;

use crate::buffer::BufferView;
use crate::context::GpuContext;
use crate::error::{Error, Result};
use crate::pipeline::Bound;
use crate::profile::Profiler;

/// Commands on their way to a device. Consecutive dispatches share one compute pass, which is what a small layer
/// can afford; a profiled recording gives each its own.
pub struct Recorder<'a> {
    context: &'a Arc<GpuContext>,
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: wgpu::CommandEncoder,
    profiler: Option<&'a mut Profiler>,
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
    /// [`Error::DeviceLost`] where the device is gone.
    pub fn recorder<'a>(self: &'a Arc<Self>, profiler: Option<&'a mut Profiler>) -> Result<Recorder<'a>> {
        self.check()?;
        let encoder = self.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        Ok(Recorder { context: self, pass: None, encoder, profiler })
    }
}

impl Recorder<'_> {
    fn own(&self, view: &BufferView<'_>) -> Result<()> {
        if view.context == self.context.id() {
            return Ok(());
        }
        let name = |id| format!("device {id}");
        Err(Error::ForeignBuffer { owner: name(view.context), user: name(self.context.id()) })
    }

    /// Copies `from` to the beginning of `to`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] where it does not fit, [`Error::ForeignBuffer`] for a buffer of another device.
    pub fn copy(&mut self, from: BufferView<'_>, to: BufferView<'_>) -> Result<()> {
        self.own(&from)?;
        self.own(&to)?;
        if from.bytes > to.bytes {
            return Err(Error::OutOfBounds { start: 0, end: from.bytes as usize, len: to.bytes as usize });
        }
        self.pass = None;
        let (source, target) = (&from.raw.buffer, &to.raw.buffer);
        self.encoder.copy_buffer_to_buffer(source, from.offset, target, to.offset, from.bytes);
        Ok(())
    }

    /// Sets every byte to zero, on the device.
    ///
    /// # Errors
    /// [`Error::ForeignBuffer`] for a buffer of another device.
    pub fn clear(&mut self, view: BufferView<'_>) -> Result<()> {
        self.own(&view)?;
        self.pass = None;
        self.encoder.clear_buffer(&view.raw.buffer, view.offset, Some(view.bytes));
        Ok(())
    }

    /// Runs a kernel over a grid of workgroups. `bytes` is what it reads and writes, for the profile.
    ///
    /// # Errors
    /// [`Error::Arguments`] where the parameters are not of the size the kernel declares.
    pub fn dispatch<P: Pod>(&mut self, bound: &Bound, params: &P, grid: [u32; 3], bytes: u64) -> Result<()> {
        self.dispatch_bytes(bound, bytemuck::bytes_of(params), grid, bytes)
    }

    pub(crate) fn dispatch_bytes(
        &mut self,
        bound: &Bound,
        params: &[u8],
        grid: [u32; 3],
        bytes: u64,
    ) -> Result<()> {
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
        bound.dispatch(pass, params, grid)
    }

    /// Sends everything recorded to the device. The answer names what was sent, for those who wait for it alone.
    ///
    /// # Errors
    /// What the device has reported.
    pub fn submit(mut self) -> Result<wgpu::SubmissionIndex> {
        self.pass = None;
        if let Some(profiler) = self.profiler {
            profiler.resolve(&mut self.encoder);
        }
        let submission = self.context.queue().submit([self.encoder.finish()]);
        self.context.check().map(|()| submission)
    }
}
