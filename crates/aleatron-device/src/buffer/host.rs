//! Buffers mapped by the host.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;

use super::host_vec;
use super::pool::{Memory, RawBuffer};
use super::view::BufferView;
use crate::context::GpuContext;
use crate::error::{Error, Result};
use crate::size::host_size;
use crate::wait::{Signal, Submission};

/// The mapping was requested. The initial status is 0.
pub(super) const REQUESTED: u8 = 1;
/// The buffer is mapped.
pub(super) const MAPPED: u8 = 2;
/// The mapping failed.
pub(super) const FAILED: u8 = 3;

/// Requests a mapping, which completes when the device has finished with the buffer.
pub(super) fn begin_map(raw: &RawBuffer, signal: &Arc<Signal>) {
    let mode = match raw.memory() {
        Memory::Readback => wgpu::MapMode::Read,
        Memory::Upload | Memory::Device => wgpu::MapMode::Write,
    };
    signal.set(REQUESTED);
    let told = Arc::clone(signal);
    raw.buffer()
        .map_async(mode, .., move |mapped| told.set(if mapped.is_ok() { MAPPED } else { FAILED }));
}

/// Unmaps a buffer, or cancels its request.
pub(super) fn end_map(raw: &RawBuffer, signal: &Signal) {
    if matches!(signal.get(), REQUESTED | MAPPED) {
        // wgpu reports an error if the mapping has failed meanwhile, which needs no handling.
        let scope = raw.context.device.push_error_scope(wgpu::ErrorFilter::Validation);
        raw.buffer().unmap();
        drop(scope);
    }
}

/// Returns whether the request was answered.
pub(super) fn is_settled(signal: &Signal) -> bool {
    matches!(signal.get(), MAPPED | FAILED)
}

/// Waits for a mapping that was requested.
pub(super) fn wait_mapped(
    context: &GpuContext,
    submission: Option<&wgpu::SubmissionIndex>,
    signal: &Signal,
) -> Result<()> {
    context.wait_until(submission, || is_settled(signal))?;
    if signal.get() == MAPPED {
        return Ok(());
    }
    context.check()?;
    Err(Error::Map { reason: "the device refused".to_owned() })
}

/// Calls a function with the bytes of a mapped buffer.
pub(super) fn with_mapped<R>(
    raw: &RawBuffer,
    start: u64,
    bytes: u64,
    see: impl FnOnce(&[u8]) -> R,
) -> Result<R> {
    let (first, skip) = (start / 8 * 8, host_size(start % 8));
    let end = (start + bytes).next_multiple_of(4);
    let mapped = raw.buffer().get_mapped_range(first..end).map_err(map_error)?;
    Ok(see(&mapped[skip..skip + host_size(bytes)]))
}

fn map_error(error: wgpu::MapRangeError) -> Error {
    Error::Map { reason: error.to_string() }
}

/// A buffer that the host can map. The host has access while it is mapped, the device while it is
/// not; a new buffer is not mapped.
///
/// A buffer from [`Self::upload`] is written by the host and read by copies, a buffer from
/// [`Self::readback`] is written by copies and read by the host. Kernels can bind both if the
/// device has [`mapped_buffers`](crate::Capabilities::mapped_buffers).
pub struct HostBuffer<T: Pod> {
    raw: Arc<RawBuffer>,
    len: usize,
    /// The status of the mapping; `None` if none was requested. Each request has a separate status:
    /// the callback of a cancelled one may still run.
    mapping: Option<Arc<Signal>>,
    /// The submission after which the device is done with the buffer, if known.
    submission: Option<wgpu::SubmissionIndex>,
    element: PhantomData<T>,
}

impl<T: Pod> fmt::Debug for HostBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T: Pod> HostBuffer<T> {
    /// Creates a buffer of `len` elements for the host to write.
    ///
    /// # Errors
    /// As for [`GpuContext::buffer`].
    pub fn upload(context: &Arc<GpuContext>, len: usize) -> Result<Self> {
        Self::new(context, len, Memory::Upload)
    }

    /// Creates a buffer of `len` elements for the host to read.
    ///
    /// # Errors
    /// As for [`GpuContext::buffer`].
    pub fn readback(context: &Arc<GpuContext>, len: usize) -> Result<Self> {
        Self::new(context, len, Memory::Readback)
    }

    fn new(context: &Arc<GpuContext>, len: usize, memory: Memory) -> Result<Self> {
        const { assert!(size_of::<T>() > 0, "elements take memory") };
        let raw = context.allocate(len as u128 * size_of::<T>() as u128, memory)?;
        Ok(Self { raw, len, mapping: None, submission: None, element: PhantomData })
    }

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

    /// Returns a view of the whole buffer for the device. Commands that use it must be submitted
    /// while it is not mapped.
    #[must_use]
    pub fn view(&self) -> BufferView<'_> {
        BufferView::whole(&self.raw, self.len, size_of::<T>())
    }

    /// Returns a view of `len` elements from `start` for the device.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`] past the end.
    pub fn view_of(&self, start: usize, len: usize) -> Result<BufferView<'_>> {
        self.view().part(start, len)
    }

    /// Requests the mapping, which completes after `submission`. Does nothing if one was requested
    /// before.
    pub fn map_after(&mut self, submission: &Submission) {
        self.submission = Some(submission.index.clone());
        self.begin_map();
    }

    fn begin_map(&mut self) {
        if self.mapping.is_none() {
            let signal = Arc::new(Signal::default());
            begin_map(&self.raw, &signal);
            self.mapping = Some(signal);
        }
    }

    /// Returns whether the buffer is mapped. Does not poll the device.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.mapping.as_ref().is_some_and(|signal| signal.get() == MAPPED)
    }

    /// Requests the mapping unless it was requested before, and waits for it.
    ///
    /// # Errors
    /// Returns [`Error::Map`] if the device refuses, and errors of the device.
    pub fn map(&mut self) -> Result<()> {
        self.begin_map();
        let location = "buffer::HostBuffer::map, mapping that was just begun";
        let signal = self.mapping.as_ref().ok_or(Error::Internal { place: location })?;
        let mapped = wait_mapped(&self.raw.context, self.submission.as_ref(), signal);
        if mapped.is_err() {
            self.unmap();
        }
        mapped
    }

    /// Unmaps the buffer, or cancels the request.
    pub fn unmap(&mut self) {
        if let Some(signal) = self.mapping.take() {
            end_map(&self.raw, &signal);
        }
    }

    /// Writes the elements from `start` on; the buffer must be mapped.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`] past the end, [`Error::Map`] if the buffer is not mapped.
    pub fn write(&mut self, start: usize, data: &[T]) -> Result<()> {
        let view = self.view_of(start, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        let (first, skip) = (view.offset / 8 * 8, host_size(view.offset % 8));
        let end = (view.offset + view.bytes).next_multiple_of(4);
        let mut mapped = self.raw.buffer().get_mapped_range_mut(first..end).map_err(map_error)?;
        mapped
            .slice(skip..skip + host_size(view.bytes))
            .copy_from_slice(bytemuck::cast_slice(data));
        Ok(())
    }

    /// Returns the first `len` elements; the buffer must be mapped, and stays mapped.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`] past the end, [`Error::Map`] if the buffer is not mapped,
    /// [`Error::HostMemory`] if they do not fit.
    pub fn read(&self, len: usize) -> Result<Vec<T>> {
        let mut data = host_vec(len.min(self.len))?;
        self.with(len, |seen| data.copy_from_slice(seen))?;
        Ok(data)
    }

    /// Calls a function with the first `len` elements; the buffer must be mapped, and stays mapped.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`] past the end, [`Error::Map`] if the buffer is not mapped.
    pub fn with<R>(&self, len: usize, see: impl FnOnce(&[T]) -> R) -> Result<R> {
        let view = self.view_of(0, len)?;
        if len == 0 {
            return Ok(see(&[]));
        }
        // Mapped memory is aligned to 8 bytes at least, but elements may need more.
        with_mapped(&self.raw, 0, view.bytes, |bytes| match bytemuck::try_cast_slice(bytes) {
            Ok(elements) => Ok(see(elements)),
            Err(_) => {
                let mut data = host_vec::<T>(len)?;
                bytemuck::cast_slice_mut(&mut data).copy_from_slice(bytes);
                Ok(see(&data))
            }
        })?
    }
}

impl<T: Pod> Drop for HostBuffer<T> {
    fn drop(&mut self) {
        // A mapped buffer must not reach the pool.
        self.unmap();
    }
}
