//! Typed buffers from a pool.
//!
//! Buffers come in size classes and go back to the pool when dropped, so that a program which does the same thing
//! twice allocates once. Nothing is zero-filled from the host: fresh memory is the driver's affair, and every
//! kernel writes what it or the next one reads.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use bytemuck::Pod;

use crate::context::{GpuContext, lock};
use crate::error::{Error, Limit, Result};

/// Who can reach a buffer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Kernels and copies: the fastest for them.
    Device,
    /// Written by the host, read by copies, and by kernels where the device has
    /// [`mapped_buffers`](crate::Capabilities::mapped_buffers).
    Upload,
    /// Written by copies (and kernels, likewise), read by the host.
    Readback,
}

impl Memory {
    fn usage(self, context: &GpuContext) -> wgpu::BufferUsages {
        use wgpu::BufferUsages as U;
        let host = match self {
            Self::Device => return U::STORAGE | U::COPY_SRC | U::COPY_DST,
            Self::Upload => U::MAP_WRITE | U::COPY_SRC,
            Self::Readback => U::MAP_READ | U::COPY_DST,
        };
        if context.capabilities().mapped_buffers { host | U::STORAGE } else { host }
    }
}

/// Bytes the pool keeps for reuse; what comes back past it is freed.
const KEPT_BYTES: u64 = 1 << 30;

/// Sizes are rounded up to an eighth of their power of two: few classes, at most an eighth wasted.
fn class_of(bytes: u64) -> u64 {
    let bytes = bytes.max(256);
    let step = (1u64 << (63 - bytes.leading_zeros())) / 8;
    bytes.checked_next_multiple_of(step.max(16)).unwrap_or(bytes)
}

#[derive(Debug)]
pub(crate) struct RawBuffer {
    pub(crate) id: u64,
    pub(crate) buffer: wgpu::Buffer,
    memory: Memory,
}

/// Buffers waiting to be used again.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    free: HashMap<(Memory, u64), BTreeMap<u64, RawBuffer>>,
    bytes: u64,
}

impl GpuContext {
    /// A buffer of `len` elements, whose contents are whatever was there before.
    ///
    /// # Errors
    /// [`Error::TooLarge`] past the device's largest buffer, [`Error::OutOfMemory`] where there is no room.
    pub fn buffer<T: Pod>(self: &Arc<Self>, len: usize, memory: Memory) -> Result<GpuBuffer<T>> {
        const {
            assert!(size_of::<T>().is_multiple_of(4) && size_of::<T>() > 0, "elements are whole 32-bit words")
        };
        let bytes = len as u128 * size_of::<T>() as u128;
        let limit = self.info().max_buffer_bytes;
        if bytes > u128::from(limit) {
            return Err(Error::TooLarge { what: Limit::BufferBytes, actual: bytes, limit });
        }
        let class = class_of(bytes as u64).min(limit / 4 * 4);
        let raw = self.raw_buffer(class, memory)?;
        Ok(GpuBuffer { context: Arc::clone(self), raw: Some(raw), len, element: PhantomData })
    }

    fn raw_buffer(&self, size: u64, memory: Memory) -> Result<RawBuffer> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        self.check()?;
        {
            let mut pool = lock(&self.pool);
            // The oldest first, whatever the order of return: a program that repeats itself gets the same buffers in the
            // same roles, and so the same bind groups.
            if let Some(raw) = pool.free.get_mut(&(memory, size)).and_then(BTreeMap::pop_first) {
                pool.bytes -= size;
                return Ok(raw.1);
            }
        }
        let usage = memory.usage(self);
        let make = || {
            self.scoped(|device| {
                let label = Some("aleatron");
                device.create_buffer(&wgpu::BufferDescriptor {
                    label,
                    size,
                    usage,
                    mapped_at_creation: false,
                })
            })
        };
        let buffer = match make() {
            Err(Error::OutOfMemory { .. }) => {
                // What the pool keeps may be what is missing.
                self.trim();
                make()?
            }
            made => made?,
        };
        self.counters.buffers.fetch_add(1, Ordering::Relaxed);
        Ok(RawBuffer { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), buffer, memory })
    }

    fn give_back(&self, raw: RawBuffer) {
        let size = raw.buffer.size();
        let mut pool = lock(&self.pool);
        if pool.bytes + size <= KEPT_BYTES && !self.is_lost() {
            pool.bytes += size;
            pool.free.entry((raw.memory, size)).or_default().insert(raw.id, raw);
        } else {
            drop(pool);
            self.free(raw);
        }
    }

    fn free(&self, raw: RawBuffer) {
        // Bind groups keep their buffers alive.
        lock(&self.bind_groups).forget(raw.id);
        raw.buffer.destroy();
    }

    /// Frees every pooled buffer that is not in use.
    pub fn trim(&self) {
        let free = std::mem::take(&mut *lock(&self.pool)).free;
        free.into_values().flatten().for_each(|(_, raw)| self.free(raw));
        // Memory is handed back to the driver when the device is next asked how far it is.
        let _ = self.finish();
    }

    /// A device buffer holding `data`.
    ///
    /// # Errors
    /// As [`Self::buffer`] and [`GpuBuffer::write`].
    pub fn upload<T: Pod>(self: &Arc<Self>, data: &[T]) -> Result<GpuBuffer<T>> {
        let buffer = self.buffer(data.len(), Memory::Device)?;
        buffer.write(0, data)?;
        Ok(buffer)
    }
}

/// A buffer of `T`s on a device; back in the device's pool when dropped.
pub struct GpuBuffer<T: Pod> {
    context: Arc<GpuContext>,
    raw: Option<RawBuffer>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> fmt::Debug for GpuBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuBuffer").field("len", &self.len).field("context", &self.context.id()).finish()
    }
}

impl<T: Pod> Drop for GpuBuffer<T> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            self.context.give_back(raw);
        }
    }
}

/// A part of a buffer, for kernels and copies.
#[derive(Debug, Clone, Copy)]
pub struct BufferView<'a> {
    pub(crate) raw: &'a RawBuffer,
    pub(crate) context: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Bytes written to the device at a time: each is staged in host memory until the device has it.
const WRITE_BYTES: usize = 64 << 20;

impl<T: Pod> GpuBuffer<T> {
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

    /// The device it lives on.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    fn raw(&self) -> Result<&RawBuffer> {
        // Taken in `drop` alone.
        self.raw.as_ref().ok_or(Error::OutOfBounds { start: 0, end: 0, len: 0 })
    }

    /// All of it.
    ///
    /// # Errors
    /// None for a buffer that can be held.
    pub fn view(&self) -> Result<BufferView<'_>> {
        self.view_of(0, self.len)
    }

    /// `len` elements from `start`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] past the end.
    pub fn view_of(&self, start: usize, len: usize) -> Result<BufferView<'_>> {
        let size = size_of::<T>() as u64;
        match start.checked_add(len) {
            Some(end) if end <= self.len => Ok(BufferView {
                raw: self.raw()?,
                context: self.context.id(),
                offset: start as u64 * size,
                bytes: len as u64 * size,
            }),
            end => Err(Error::OutOfBounds { start, end: end.unwrap_or(usize::MAX), len: self.len }),
        }
    }

    /// Copies `data` to the elements from `start` on. For [`Memory::Device`].
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] past the end, or what the device reports.
    pub fn write(&self, start: usize, data: &[T]) -> Result<()> {
        let view = self.view_of(start, data.len())?;
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let mut offset = view.offset;
        for piece in bytes.chunks(WRITE_BYTES) {
            self.context.scoped(|_| self.context.queue().write_buffer(&view.raw.buffer, offset, piece))?;
            offset += piece.len() as u64;
            if bytes.len() > WRITE_BYTES {
                self.context.queue().submit([]);
                self.context.finish()?;
            }
        }
        Ok(())
    }

    /// The elements, copied to the host. For [`Memory::Device`].
    ///
    /// # Errors
    /// What the device reports.
    pub fn read(&self) -> Result<Vec<T>> {
        self.read_of(0, self.len)
    }

    /// `len` elements from `start`, copied to the host. For [`Memory::Device`].
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] past the end, or what the device reports.
    pub fn read_of(&self, start: usize, len: usize) -> Result<Vec<T>> {
        let view = self.view_of(start, len)?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let mut host = HostBuffer::<T>::new(&self.context, len, Memory::Readback)?;
        let mut recorder = self.context.recorder(None)?;
        recorder.copy(view, host.buffer.view()?)?;
        host.begin_map_after(recorder.submit()?);
        host.wait()?;
        host.read(len)
    }
}

const UNMAPPED: u8 = 0;
const PENDING: u8 = 1;
const MAPPED: u8 = 2;
const FAILED: u8 = 3;

/// A buffer the host maps: it is the host's while mapped, the device's while not.
#[derive(Debug)]
pub(crate) struct HostBuffer<T: Pod> {
    pub(crate) buffer: GpuBuffer<T>,
    state: Arc<AtomicU8>,
    mode: wgpu::MapMode,
    /// The submission after which the device is done with it, where known.
    submission: Option<wgpu::SubmissionIndex>,
}

impl<T: Pod> HostBuffer<T> {
    pub(crate) fn new(context: &Arc<GpuContext>, len: usize, memory: Memory) -> Result<Self> {
        let mode = match memory {
            Memory::Readback => wgpu::MapMode::Read,
            Memory::Upload | Memory::Device => wgpu::MapMode::Write,
        };
        let buffer = context.buffer(len, memory)?;
        Ok(Self { buffer, state: Arc::new(AtomicU8::new(UNMAPPED)), mode, submission: None })
    }

    /// Asks for the buffer, which the device is done with after `submission`.
    pub(crate) fn begin_map_after(&mut self, submission: wgpu::SubmissionIndex) {
        self.submission = Some(submission);
        self.begin_map();
    }

    /// Asks for the buffer; the device hands it over when it has finished with it.
    pub(crate) fn begin_map(&mut self) {
        let Ok(view) = self.buffer.view() else { return };
        if self.state.load(Ordering::Acquire) != UNMAPPED {
            return;
        }
        self.state.store(PENDING, Ordering::Release);
        let state = Arc::clone(&self.state);
        view.raw.buffer.map_async(self.mode, .., move |mapped| {
            state.store(if mapped.is_ok() { MAPPED } else { FAILED }, Ordering::Release);
        });
    }

    /// Whether the wait for the buffer is over.
    fn is_settled(&self) -> bool {
        self.state.load(Ordering::Acquire) != PENDING
    }

    /// Waits for the buffer.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.begin_map();
        self.buffer.context.wait_until(self.submission.as_ref(), || self.is_settled())?;
        if self.state.load(Ordering::Acquire) == MAPPED {
            return Ok(());
        }
        self.state.store(UNMAPPED, Ordering::Release);
        self.buffer.context.check()?;
        Err(Error::Map { message: "the device refused".to_owned() })
    }

    /// Gives the buffer to the device.
    pub(crate) fn unmap(&mut self) {
        if self.state.swap(UNMAPPED, Ordering::AcqRel) != UNMAPPED
            && let Ok(view) = self.buffer.view()
        {
            view.raw.buffer.unmap();
        }
    }

    /// Writes the elements from `start` on; the buffer must be mapped.
    pub(crate) fn write(&mut self, start: usize, data: &[T]) -> Result<()> {
        let view = self.buffer.view_of(start, data.len())?;
        let range = view.offset..view.offset + view.bytes;
        let mut mapped = view.raw.buffer.get_mapped_range_mut(range).map_err(map_error)?;
        mapped.copy_from_slice(bytemuck::cast_slice(data));
        Ok(())
    }

    /// The first `len` elements; the buffer must be mapped, and is the device's again afterwards.
    pub(crate) fn read(&mut self, len: usize) -> Result<Vec<T>> {
        let mut data = vec![T::zeroed(); len];
        self.visit(len, |bytes| bytemuck::cast_slice_mut(&mut data).copy_from_slice(bytes))?;
        Ok(data)
    }

    /// Shows the bytes of the first `len` elements; the buffer must be mapped, and is the device's again afterwards.
    pub(crate) fn visit(&mut self, len: usize, see: impl FnOnce(&[u8])) -> Result<()> {
        let view = self.buffer.view_of(0, len)?;
        let mapped = view.raw.buffer.get_mapped_range(0..view.bytes).map_err(map_error)?;
        see(&mapped);
        drop(mapped);
        self.unmap();
        Ok(())
    }
}

impl<T: Pod> Drop for HostBuffer<T> {
    fn drop(&mut self) {
        // A mapped buffer must not reach the pool.
        self.unmap();
    }
}

fn map_error(error: wgpu::MapRangeError) -> Error {
    Error::Map { message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_an_eighth() {
        for bytes in
            [1u64, 255, 256, 257, 1000, 4096, 4097, 1 << 20, (1 << 20) + 1, 64_000_000, (1 << 31) - 5]
        {
            let class = class_of(bytes);
            assert!(class >= bytes && class.is_multiple_of(16), "{bytes} -> {class}");
            assert!(bytes < 256 || class - bytes <= bytes / 8, "{bytes} -> {class}");
        }
        assert_eq!(class_of(257), 288);
        assert_eq!(class_of(258), class_of(257));
    }
}
