//! Many operations, one submission.
//!
//! A [`GpuCommandBatch`] records uploads, kernels, copies and reads over typed handles, sends them to the device at
//! once and hands back what was read. A handle of another batch, or a buffer of another device, is refused
//! when it is used, not when the device trips over it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;

use crate::buffer::{BufferView, GpuBuffer, HostBuffer, Memory};
use crate::context::GpuContext;
use crate::error::{Error, Result};
use crate::pipeline::{Bound, Constants, Kernel};
use crate::profile::Profiler;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A buffer of `T`s in a batch.
#[derive(Debug, PartialEq, Eq)]
pub struct BatchBuffer<T> {
    id: BufferId,
    len: usize,
    element: PhantomData<T>,
}

impl<T> Clone for BatchBuffer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for BatchBuffer<T> {}

impl<T> BatchBuffer<T> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The buffer without its type, as kernels take it.
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

/// Elements of a batch's buffer that will be on the host when the batch has run.
#[derive(Debug)]
pub struct BatchRead<T> {
    id: BufferId,
    element: PhantomData<T>,
}

enum Slot<'a> {
    Owned(GpuBuffer<u32>),
    Borrowed(BufferView<'a>),
}

impl Slot<'_> {
    fn view(&self) -> Result<BufferView<'_>> {
        match self {
            Self::Owned(buffer) => buffer.view(),
            Self::Borrowed(view) => Ok(*view),
        }
    }
}

enum Command {
    Copy { from: usize, to: usize },
    Clear { buffer: usize },
    Dispatch { bound: Bound, params: Vec<u8>, grid: [u32; 3] },
}

/// Operations recorded for one submission.
///
/// ```no_run
/// use aleatron_gpu::{AdapterChoice, GpuCommandBatch, GpuContext};
///
/// let context = GpuContext::get(&AdapterChoice::from_env())?;
/// let mut batch = GpuCommandBatch::new(&context);
/// let a = batch.upload(&[1.0f32, 2.0, 3.0])?;
/// let b = batch.allocate::<f32>(3)?;
/// batch.copy(a, b)?;
/// let read = batch.read(b)?;
/// let mut results = batch.submit()?;
/// assert_eq!(results.take(read)?, [1.0, 2.0, 3.0]);
/// # Ok::<(), aleatron_gpu::Error>(())
/// ```
pub struct GpuCommandBatch<'a> {
    id: u64,
    context: Arc<GpuContext>,
    slots: Vec<Slot<'a>>,
    commands: Vec<Command>,
    reads: Vec<usize>,
}

impl std::fmt::Debug for GpuCommandBatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (id, commands) = (self.id, self.commands.len());
        f.debug_struct("GpuCommandBatch")
            .field("id", &id)
            .field("commands", &commands)
            .finish_non_exhaustive()
    }
}

/// What a batch read.
#[derive(Debug)]
pub struct BatchResults {
    batch: u64,
    reads: Vec<Option<Vec<u32>>>,
}

fn words_of<T: Pod>(len: usize) -> usize {
    len.saturating_mul(size_of::<T>() / 4)
}

impl<'a> GpuCommandBatch<'a> {
    /// An empty batch for a device.
    #[must_use]
    pub fn new(context: &Arc<GpuContext>) -> Self {
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            context: Arc::clone(context),
            slots: Vec::new(),
            commands: Vec::new(),
            reads: Vec::new(),
        }
    }

    fn add<T>(&mut self, slot: Slot<'a>, len: usize) -> BatchBuffer<T> {
        self.slots.push(slot);
        let id = BufferId { batch: self.id, index: self.slots.len() - 1 };
        BatchBuffer { id, len, element: PhantomData }
    }

    fn slot(&self, id: BufferId) -> Result<&Slot<'a>> {
        let own = self.slots.get(id.index).filter(|_| id.batch == self.id);
        own.ok_or_else(|| Error::ForeignBuffer {
            owner: format!("batch {}", id.batch),
            user: format!("batch {}", self.id),
        })
    }

    /// A buffer with these contents.
    ///
    /// # Errors
    /// As [`GpuContext::upload`].
    pub fn upload<T: Pod>(&mut self, data: &[T]) -> Result<BatchBuffer<T>> {
        let buffer = self.context.upload::<u32>(bytemuck::cast_slice(data))?;
        Ok(self.add(Slot::Owned(buffer), data.len()))
    }

    /// A buffer of `len` elements, whose contents are whatever was there before.
    ///
    /// # Errors
    /// As [`GpuContext::buffer`].
    pub fn allocate<T: Pod>(&mut self, len: usize) -> Result<BatchBuffer<T>> {
        let buffer = self.context.buffer(words_of::<T>(len), Memory::Device)?;
        Ok(self.add(Slot::Owned(buffer), len))
    }

    /// A buffer that outlives the batch.
    ///
    /// # Errors
    /// [`Error::ForeignBuffer`] where it belongs to another device.
    pub fn import<T: Pod>(&mut self, buffer: &'a GpuBuffer<T>) -> Result<BatchBuffer<T>> {
        let view = buffer.view()?;
        if view.context != self.context.id() {
            let name = |id| format!("device {id}");
            return Err(Error::ForeignBuffer { owner: name(view.context), user: name(self.context.id()) });
        }
        Ok(self.add(Slot::Borrowed(view), buffer.len()))
    }

    /// Copies one buffer to the beginning of another.
    ///
    /// # Errors
    /// [`Error::ForeignBuffer`] for a handle of another batch, [`Error::OutOfBounds`] where it does not fit.
    pub fn copy<T: Pod>(&mut self, from: BatchBuffer<T>, to: BatchBuffer<T>) -> Result<()> {
        self.slot(from.id)?;
        self.slot(to.id)?;
        if from.len > to.len {
            return Err(Error::OutOfBounds { start: 0, end: from.len, len: to.len });
        }
        self.commands.push(Command::Copy { from: from.id.index, to: to.id.index });
        Ok(())
    }

    /// Sets a buffer to zero, on the device.
    ///
    /// # Errors
    /// [`Error::ForeignBuffer`] for a handle of another batch.
    pub fn clear<T: Pod>(&mut self, buffer: BatchBuffer<T>) -> Result<()> {
        self.slot(buffer.id)?;
        self.commands.push(Command::Clear { buffer: buffer.id.index });
        Ok(())
    }

    /// Runs a kernel over `grid` workgroups.
    ///
    /// # Errors
    /// [`Error::ForeignBuffer`] for a handle of another batch, [`Error::Arguments`] for buffers or parameters the
    /// kernel does not declare, [`Error::Validation`] where its shader is wrong.
    pub fn dispatch<K: Kernel, P: Pod>(
        &mut self,
        kernel: K,
        constants: Constants<'_>,
        buffers: &[BufferId],
        params: &P,
        grid: [u32; 3],
    ) -> Result<()> {
        let views = buffers.iter().map(|&id| self.slot(id)?.view()).collect::<Result<Vec<_>>>()?;
        let bound = self.context.bind(&self.context.pipeline(kernel, constants)?, &views)?;
        let params = bytemuck::bytes_of(params).to_vec();
        if params.len() != kernel.immediate_bytes() as usize {
            return Err(Error::Arguments {
                kernel: kernel.name(),
                what: "bytes of parameters",
                expected: kernel.immediate_bytes() as usize,
                actual: params.len(),
            });
        }
        self.commands.push(Command::Dispatch { bound, params, grid });
        Ok(())
    }

    /// Asks for a buffer's contents after all operations of the batch.
    ///
    /// # Errors
    /// [`Error::ForeignBuffer`] for a handle of another batch.
    pub fn read<T: Pod>(&mut self, buffer: BatchBuffer<T>) -> Result<BatchRead<T>> {
        self.slot(buffer.id)?;
        self.reads.push(buffer.id.index);
        let id = BufferId { batch: self.id, index: self.reads.len() - 1 };
        Ok(BatchRead { id, element: PhantomData })
    }

    /// Sends everything to the device and waits for what is to be read.
    ///
    /// # Errors
    /// What the device reports.
    pub fn submit(self) -> Result<BatchResults> {
        self.submit_profiled(None)
    }

    /// As [`Self::submit`], with its kernels timed.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_profiled(self, profiler: Option<&mut Profiler>) -> Result<BatchResults> {
        let view = |index: usize| self.slots[index].view();
        let mut recorder = self.context.recorder(profiler)?;
        for command in &self.commands {
            match command {
                Command::Copy { from, to } => recorder.copy(view(*from)?, view(*to)?)?,
                Command::Clear { buffer } => recorder.clear(view(*buffer)?)?,
                Command::Dispatch { bound, params, grid } => {
                    recorder.dispatch_bytes(bound, params, *grid, 0)?;
                }
            }
        }
        let mut hosts = Vec::new();
        for &index in &self.reads {
            let view = view(index)?;
            let host = HostBuffer::<u32>::new(&self.context, (view.bytes / 4) as usize, Memory::Readback)?;
            if view.bytes > 0 {
                recorder.copy(view, host.buffer.view()?)?;
            }
            hosts.push(host);
        }
        let submission = recorder.submit()?;
        hosts.iter_mut().for_each(|host| host.begin_map_after(submission.clone()));
        let mut reads = Vec::new();
        for mut host in hosts {
            host.wait()?;
            let len = host.buffer.len();
            reads.push(Some(if len == 0 { Vec::new() } else { host.read(len)? }));
        }
        Ok(BatchResults { batch: self.id, reads })
    }
}

impl BatchResults {
    /// What was read.
    ///
    /// # Errors
    /// [`Error::ForeignBuffer`] for a read of another batch.
    pub fn take<T: Pod>(&mut self, read: BatchRead<T>) -> Result<Vec<T>> {
        let own = self.reads.get_mut(read.id.index).filter(|_| read.id.batch == self.batch);
        let words = own.and_then(Option::take).ok_or_else(|| Error::ForeignBuffer {
            owner: format!("batch {}", read.id.batch),
            user: format!("batch {}", self.batch),
        })?;
        Ok(bytemuck::pod_collect_to_vec(&words))
    }
}
