//! Batches of commands over typed handles.
//!
//! A [`GpuCommandBatch`] records uploads, kernels, copies and reads over typed handles and sends
//! them to the device at once. Handles of another or finished batch and buffers of another device
//! are rejected.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;

use crate::buffer::{BufferView, GpuBuffer, PendingRead, RawBuffer};
use crate::context::GpuContext;
use crate::error::{Error, Owner, Result};
use crate::kernel::{Constants, Kernel};
use crate::profile::Profiler;
use crate::record::Recorder;
use crate::wait::Submission;

/// A buffer of `T`s in a batch.
#[derive(Debug, PartialEq, Eq)]
pub struct BatchBuffer<T> {
    id: BufferId,
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for BatchBuffer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for BatchBuffer<T> {}

impl<T> BatchBuffer<T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the buffer is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the untyped handle for kernels.
    #[must_use]
    pub fn id(&self) -> BufferId {
        self.id
    }
}

/// A buffer in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferId {
    batch: u64,
    index: usize,
}

/// The memory of a handle, which the batch keeps alive.
#[derive(Debug)]
struct Slot {
    raw: Arc<RawBuffer>,
    len: usize,
    element: usize,
}

impl Slot {
    fn view(&self) -> BufferView<'_> {
        BufferView::whole(&self.raw, self.len, self.element)
    }
}

/// Operations recorded for one submission.
///
/// ```no_run
/// use aleatron_device::{AdapterChoice, GpuCommandBatch, GpuContext};
///
/// let context = GpuContext::get(&AdapterChoice::from_env())?;
/// let mut batch = GpuCommandBatch::new(&context)?;
/// let a = batch.upload(&[1.0f32, 2.0, 3.0])?;
/// let b = batch.allocate::<f32>(3)?;
/// batch.copy(a, b)?;
/// let read = batch.read(b)?;
/// batch.submit()?;
/// assert_eq!(read.wait()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), aleatron_device::Error>(())
/// ```
#[derive(Debug)]
pub struct GpuCommandBatch<'a> {
    id: u64,
    slots: Vec<Slot>,
    recorder: Recorder<'a>,
}

impl<'a> GpuCommandBatch<'a> {
    /// Creates an empty batch for a device.
    ///
    /// # Errors
    /// Returns [`Error::DeviceLost`] if the device is lost.
    pub fn new(context: &Arc<GpuContext>) -> Result<Self> {
        Self::recorded_by(context.recorder(None)?)
    }

    /// Creates an empty batch whose kernels are timed.
    ///
    /// # Errors
    /// Returns [`Error::DeviceLost`] if the device is lost, [`Error::Foreign`] for a profiler of
    /// another device.
    pub fn profiled(context: &Arc<GpuContext>, profiler: &'a mut Profiler) -> Result<Self> {
        Self::recorded_by(context.recorder(Some(profiler))?)
    }

    fn recorded_by(recorder: Recorder<'a>) -> Result<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Ok(Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), slots: Vec::new(), recorder })
    }

    fn add<T: Pod>(&mut self, buffer: &GpuBuffer<T>) -> BatchBuffer<T> {
        let (len, element) = (buffer.len(), size_of::<T>());
        self.slots.push(Slot { raw: Arc::clone(buffer.raw()), len, element });
        let id = BufferId { batch: self.id, index: self.slots.len() - 1 };
        BatchBuffer { id, len, element: PhantomData }
    }

    /// Checks that a handle belongs to this batch.
    fn check(&self, id: BufferId) -> Result<()> {
        if id.batch == self.id {
            return Ok(());
        }
        let [owner, user] = [id.batch, self.id].map(Owner::Batch);
        Err(Error::Foreign { what: "handle", owner, user })
    }

    /// Allocates a buffer with these contents.
    ///
    /// # Errors
    /// As for [`GpuContext::upload`].
    pub fn upload<T: Pod>(&mut self, data: &[T]) -> Result<BatchBuffer<T>> {
        let buffer = self.recorder.context().upload(data)?;
        Ok(self.add(&buffer))
    }

    /// Allocates a buffer of `len` elements with unspecified contents.
    ///
    /// # Errors
    /// As for [`GpuContext::buffer`].
    pub fn allocate<T: Pod>(&mut self, len: usize) -> Result<BatchBuffer<T>> {
        let buffer = self.recorder.context().buffer(len)?;
        Ok(self.add(&buffer))
    }

    /// Adds a buffer that outlives the batch.
    ///
    /// # Errors
    /// Returns [`Error::Foreign`] if it belongs to another device.
    pub fn import<T: Pod>(&mut self, buffer: &GpuBuffer<T>) -> Result<BatchBuffer<T>> {
        buffer.view().check_owner(self.recorder.context().id())?;
        Ok(self.add(buffer))
    }

    /// Copies one buffer to the beginning of another.
    ///
    /// # Errors
    /// Returns [`Error::Foreign`] for a handle of another batch, [`Error::OutOfBounds`] if it does
    /// not fit.
    pub fn copy<T: Pod>(&mut self, from: BatchBuffer<T>, to: BatchBuffer<T>) -> Result<()> {
        self.check(from.id)?;
        self.check(to.id)?;
        if from.len > to.len {
            return Err(Error::OutOfBounds { start: 0, end: from.len, len: to.len });
        }
        self.recorder.copy(self.slots[from.id.index].view(), self.slots[to.id.index].view())
    }

    /// Sets a buffer to zero, on the device.
    ///
    /// # Errors
    /// Returns [`Error::Foreign`] for a handle of another batch.
    pub fn clear<T: Pod>(&mut self, buffer: BatchBuffer<T>) -> Result<()> {
        self.check(buffer.id)?;
        self.recorder.clear(self.slots[buffer.id.index].view())
    }

    /// Runs a kernel over `grid` workgroups.
    ///
    /// # Errors
    /// Returns [`Error::Foreign`] for a handle of another batch, [`Error::Arguments`] for buffers
    /// or parameters that the kernel does not declare, [`Error::Validation`] if its shader is
    /// invalid.
    pub fn dispatch<K: Kernel, P: Pod>(
        &mut self,
        kernel: &K,
        constants: Constants<'_>,
        buffers: &[BufferId],
        params: &P,
        grid: [u32; 3],
    ) -> Result<()> {
        buffers.iter().try_for_each(|&id| self.check(id))?;
        let views: Vec<_> = buffers.iter().map(|id| self.slots[id.index].view()).collect();
        let context = Arc::clone(self.recorder.context());
        let bound = context.bind(&context.pipeline(kernel, constants)?, &views)?;
        let bytes = views.iter().map(BufferView::bytes).sum();
        self.recorder.dispatch(&bound, params, grid, bytes)
    }

    /// Records a read of a buffer, after the operations recorded so far. The result is in flight
    /// once the batch is submitted.
    ///
    /// # Errors
    /// Returns [`Error::Foreign`] for a handle of another batch, and errors of the device.
    pub fn read<T: Pod>(&mut self, buffer: BatchBuffer<T>) -> Result<PendingRead<T>> {
        self.check(buffer.id)?;
        self.recorder.read(self.slots[buffer.id.index].view())
    }

    /// Sends all commands to the device, without waiting for them. The batch's handles are rejected
    /// afterwards.
    ///
    /// # Errors
    /// Returns an error for invalid commands, and errors of the device.
    pub fn submit(self) -> Result<Submission> {
        self.recorder.submit()
    }
}
