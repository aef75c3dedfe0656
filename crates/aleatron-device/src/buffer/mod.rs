//! Typed buffers and views of them.
//!
//! A [`GpuBuffer`] holds elements of any size, including 8-bit and 16-bit ones; a [`BufferView`] is
//! a range of a buffer, for kernels and copies. A [`HostBuffer`] can be mapped by the host, a
//! [`PendingRead`] is a read in flight. Memory comes from a pool (`pool.rs`) and is not cleared:
//! kernels must write the memory that they read.
//!
//! The copy commands of devices need 32-bit words at 32-bit offsets. Ranges of smaller elements may
//! begin and end anywhere: if one shares a word with its neighbours, a kernel merges it into that
//! word (`transfer.rs`).

mod host;
mod pool;
mod read;
mod transfer;
mod view;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::Pod;

use crate::context::GpuContext;
use crate::error::{Error, Result};

pub use host::HostBuffer;
pub(crate) use pool::{BufferPool, Memory, RawBuffer};
pub use read::PendingRead;
pub(crate) use read::ReadSlot;
#[cfg(test)]
pub(crate) use transfer::TransferKernel;
pub use view::BufferView;

impl GpuContext {
    /// Allocates a buffer of `len` elements with unspecified contents.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] above the device's largest buffer, [`Error::OutOfMemory`] if
    /// device memory is exhausted.
    pub fn buffer<T: Pod>(self: &Arc<Self>, len: usize) -> Result<GpuBuffer<T>> {
        const { assert!(size_of::<T>() > 0, "elements take memory") };
        let raw = self.allocate(len as u128 * size_of::<T>() as u128, Memory::Device)?;
        Ok(GpuBuffer { raw, len, element: PhantomData })
    }

    /// Allocates a buffer that holds `data`.
    ///
    /// # Errors
    /// As for [`Self::buffer`] and [`GpuBuffer::write`].
    pub fn upload<T: Pod>(self: &Arc<Self>, data: &[T]) -> Result<GpuBuffer<T>> {
        let buffer = self.buffer(data.len())?;
        buffer.write(0, data)?;
        Ok(buffer)
    }
}

/// A buffer of `T`s on a device. Its memory returns to the pool of the device when it is dropped.
///
/// ```no_run
/// use aleatron_device::{AdapterChoice, GpuContext};
///
/// let context = GpuContext::get(&AdapterChoice::from_env())?;
/// let buffer = context.upload(&[1u8, 2, 3, 4, 5])?;
/// buffer.write(1, &[7, 8])?;
/// assert_eq!(buffer.read()?, [1, 7, 8, 4, 5]);
/// assert_eq!(buffer.read_of(2, 2)?, [8, 4]);
/// # Ok::<(), aleatron_device::Error>(())
/// ```
pub struct GpuBuffer<T: Pod> {
    raw: Arc<RawBuffer>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> fmt::Debug for GpuBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuBuffer")
            .field("len", &self.len)
            .field("context", &self.context().id())
            .finish()
    }
}

/// Bytes written to the device at a time: each chunk is staged in host memory until the device has
/// it.
const WRITE_BYTES: usize = 64 << 20;

impl<T: Pod> GpuBuffer<T> {
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

    /// Returns the device of the buffer.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.raw.context
    }

    pub(crate) fn raw(&self) -> &Arc<RawBuffer> {
        &self.raw
    }

    /// Returns a view of the whole buffer.
    #[must_use]
    pub fn view(&self) -> BufferView<'_> {
        BufferView::whole(&self.raw, self.len, size_of::<T>())
    }

    /// Returns a view of `len` elements from `start`.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`] past the end.
    pub fn view_of(&self, start: usize, len: usize) -> Result<BufferView<'_>> {
        self.view().part(start, len)
    }

    /// Copies `data` to the elements from `start` on. All commands that are submitted later see the
    /// data, including commands that were recorded before this call.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`] past the end, and errors of the device.
    pub fn write(&self, start: usize, data: &[T]) -> Result<()> {
        let view = self.view_of(start, data.len())?;
        let bytes: &[u8] = bytemuck::cast_slice(data);
        if bytes.is_empty() {
            return Ok(());
        }
        let whole = bytes.len() / 4 * 4;
        let at_end = start + data.len() == self.len;
        if !view.offset.is_multiple_of(4) || (whole < bytes.len() && !at_end) {
            // The words at the edges are shared with neighbours: a kernel merges the bytes into
            // them.
            let staged = self.context().upload(bytes)?;
            let mut recorder = self.context().recorder(None)?;
            recorder.copy(staged.view(), view)?;
            return recorder.submit().map(drop);
        }
        self.write_words(view.offset, &bytes[..whole])?;
        if whole < bytes.len() {
            // Bytes after the last element are padding.
            let mut last = [0; 4];
            last[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.write_words(view.offset + whole as u64, &last)?;
        }
        Ok(())
    }

    fn write_words(&self, mut offset: u64, bytes: &[u8]) -> Result<()> {
        let context = self.context();
        for part in bytes.chunks(WRITE_BYTES) {
            context.scoped_in_memory(|_| {
                context.queue.write_buffer(self.raw.buffer(), offset, part)
            })?;
            context.writes_pending.store(true, Ordering::Release);
            offset += part.len() as u64;
            if bytes.len() > WRITE_BYTES {
                context.finish()?;
            }
        }
        Ok(())
    }

    /// Copies the elements to the host.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn read(&self) -> Result<Vec<T>> {
        self.start_read(0, self.len)?.wait()
    }

    /// Copies `len` elements from `start` to the host.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`] past the end, and errors of the device.
    pub fn read_of(&self, start: usize, len: usize) -> Result<Vec<T>> {
        self.start_read(start, len)?.wait()
    }

    /// Starts to read `len` elements from `start`, without waiting for them.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`] past the end, and errors of the device.
    pub fn start_read(&self, start: usize, len: usize) -> Result<PendingRead<T>> {
        let mut recorder = self.context().recorder(None)?;
        let read = recorder.read(self.view_of(start, len)?)?;
        recorder.submit()?;
        Ok(read)
    }
}

/// Returns a vector of `len` zeros, or an error if the host has no memory for it.
pub(crate) fn host_vec<T: Pod>(len: usize) -> Result<Vec<T>> {
    let mut data = Vec::new();
    data.try_reserve_exact(len)
        .map_err(|_| Error::HostMemory { bytes: len.saturating_mul(size_of::<T>()) })?;
    data.resize(len, T::zeroed());
    Ok(data)
}
