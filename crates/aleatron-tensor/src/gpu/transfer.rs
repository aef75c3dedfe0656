//! Copies of elements to GPUs and back.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use aleatron_device::PendingRead;

use super::data::{GpuData, GpuView, words};
use super::device::GpuDevice;
use crate::device::check_dtype;
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::storage::CpuStorage;

/// Copies elements of the host to a GPU.
pub(crate) fn upload(gpu: &GpuDevice, storage: &CpuStorage) -> Result<GpuData> {
    let (dtype, len) = (storage.dtype(), storage.len());
    check_dtype(gpu, dtype)?;
    let buffer = gpu.context().buffer::<u32>(words(dtype, len)?)?;
    let bytes = storage.bytes();
    let whole = bytes.len() / 4;
    let data = match bytemuck::try_cast_slice::<u8, u32>(&bytes[..4 * whole]) {
        Ok(words) => buffer.write(0, words),
        // Foreign memory may have any alignment.
        Err(_) => buffer.write(0, &bytemuck::pod_collect_to_vec(&bytes[..4 * whole])),
    };
    data?;
    if 4 * whole < bytes.len() {
        let mut last = [0; 4];
        last[..bytes.len() - 4 * whole].copy_from_slice(&bytes[4 * whole..]);
        buffer.write(whole, &[u32::from_le_bytes(last)])?;
    }
    Ok(GpuData {
        buffer,
        dtype,
        len,
        recording: gpu.current_recording(),
        faults: Default::default(),
    })
}

/// A read of the elements of a contiguous view that is in flight.
#[derive(Debug)]
pub(crate) struct GpuRead {
    read: PendingRead<u32>,
    gpu: GpuDevice,
    view: GpuView,
    /// The bytes of the first word that belong to other elements.
    skip: usize,
}

impl GpuRead {
    /// Starts to read the elements of a contiguous view.
    pub(crate) fn start(gpu: GpuDevice, view: GpuView) -> Result<Self> {
        let size = view.data.dtype.size();
        let begin = view.layout.offset() * size;
        let end = begin + view.layout.len() * size;
        let words = end.div_ceil(4) - begin / 4;
        let read = gpu.read(view.data.buffer.view_of(begin / 4, words)?)?;
        Ok(Self { read, gpu, view, skip: begin % 4 })
    }

    /// Waits for the elements.
    pub(crate) fn wait<T: Element>(self) -> Result<Vec<T>> {
        let Self { read, gpu, view, skip } = self;
        decode(&read.wait()?, &gpu, &view, skip)
    }

    /// Returns whether [`Self::wait`] would return at once.
    pub(crate) fn is_ready(&self) -> bool {
        self.read.is_ready()
    }

    /// Returns the elements if they have arrived, and otherwise wakes the task when they have.
    pub(crate) fn poll<T: Element>(&mut self, task: &mut Context<'_>) -> Poll<Result<Vec<T>>> {
        let words = std::task::ready!(Pin::new(&mut self.read).poll(task));
        Poll::Ready(
            words
                .map_err(Error::from)
                .and_then(|words| decode(&words, &self.gpu, &self.view, self.skip)),
        )
    }
}

fn decode<T: Element>(
    words: &[u32],
    gpu: &GpuDevice,
    view: &GpuView,
    skip: usize,
) -> Result<Vec<T>> {
    gpu.check_recording(view.data.recording)?;
    view.data.faults.check(gpu)?;
    let (size, len) = (T::DTYPE.size(), view.layout.len());
    let bytes = &bytemuck::cast_slice::<u32, u8>(words)[skip..skip + len * size];
    let mut values =
        aleatron_core::memory::with_capacity(len as u128, aleatron_core::Quantity::Words)?;
    match bytemuck::try_cast_slice::<u8, T::Stored>(bytes) {
        Ok(stored) => values.extend(stored.iter().map(|&stored| T::from_stored(stored))),
        Err(_) => {
            let stored = bytes.chunks_exact(size).map(bytemuck::pod_read_unaligned::<T::Stored>);
            values.extend(stored.map(T::from_stored));
        }
    }
    Ok(values)
}
