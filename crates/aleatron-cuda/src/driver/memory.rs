//! Device memory, and pinned host memory that the GPU reads and writes.

use super::context::CudaContext;
use super::stream::Stream;
use super::symbols::{call, open_driver};
use crate::error::{Error, Result};
use crate::size::host_size;
use aleatron_core::backend::{DeviceArray, DeviceArrayMut, DeviceElement};
use bytemuck::Pod;
use cudarc::driver::sys::{CUDA_MEMCPY2D_v2, CUmemorytype};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Host memory that the GPU accesses under the same address.
const MAPPED: u32 = 2;

/// Size from which copying is worth several threads, and the size of one chunk.
const CHUNK_BYTES: usize = 256 << 10;

/// Approximate number of bytes that one thread copies in a nanosecond.
const COPY_RATE: u64 = 8;

/// A range of memory that a kernel may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    address: u64,
    bytes: u64,
    owner: PhantomData<&'a ()>,
}

impl View<'_> {
    /// Returns the address after checking that a kernel reaches no further than `needed` bytes from
    /// it. Kernels rely on this and check nothing themselves.
    pub(crate) fn check(&self, needed: u128) -> Result<u64> {
        if needed > self.bytes.into() {
            return Err(Error::OutOfBounds { needed, bytes: self.bytes });
        }
        Ok(self.address)
    }

    /// Returns the rest from a byte on.
    pub(crate) fn from(&self, byte: u64) -> Result<Self> {
        if byte > self.bytes {
            return Err(Error::OutOfBounds { needed: byte.into(), bytes: self.bytes });
        }
        Ok(Self { address: self.address + byte, bytes: self.bytes - byte, owner: PhantomData })
    }

    /// Returns the memory of an array that another library allocated, after the driver has
    /// confirmed that it is on this GPU and large enough, and that it is not one of this crate's
    /// own buffers.
    pub(crate) fn of_array<'a>(context: &CudaContext, array: &DeviceArray<'a>) -> Result<View<'a>> {
        let (address, bytes) = (array.address(), array.bytes());
        // Numbers of the driver's attributes, and of the kind of device memory.
        const MEMORY_TYPE: i32 = 2;
        const ORDINAL: i32 = 9;
        const RANGE_START: i32 = 11;
        const RANGE_SIZE: i32 = 12;
        const ON_CARD: u32 = 2;
        let _current = context.enter()?;
        let (mut kind, mut ordinal, mut start, mut size) = (0u32, 0i32, 0u64, 0usize);
        let mut attributes = [MEMORY_TYPE, ORDINAL, RANGE_START, RANGE_SIZE];
        let mut answers: [*mut std::ffi::c_void; 4] = [
            (&raw mut kind).cast(),
            (&raw mut ordinal).cast(),
            (&raw mut start).cast(),
            (&raw mut size).cast(),
        ];
        // SAFETY: there are as many results as attributes, each of the type of its attribute.
        unsafe {
            call!(
                context.driver,
                cuPointerGetAttributes(4, attributes.as_mut_ptr(), answers.as_mut_ptr(), address)
            )
        }
        .map_err(|_| {
            Error::Array("the array is not in memory that the CUDA driver knows".to_owned())
        })?;
        if kind != ON_CARD {
            return Err(Error::Array("the array is not in the memory of a card".to_owned()));
        }
        let expected = context.info().index;
        if usize::try_from(ordinal) != Ok(expected) {
            let message = format!("the array is on cuda:{ordinal}, the layer on cuda:{expected}");
            return Err(Error::Array(message));
        }
        let left = start.saturating_add(size as u64).saturating_sub(address);
        if address < start || bytes > left {
            let message = format!("the array has {bytes} bytes, but its memory ends after {left}");
            return Err(Error::Array(message));
        }
        if is_internal(address, bytes) {
            return Err(Error::Array("the array is in memory that a layer uses itself".to_owned()));
        }
        Ok(View { address, bytes, owner: PhantomData })
    }
}

/// The memory that this crate has allocated for itself, by address: bytes of weights, counts and
/// all other data that kernels rely on. Addresses are those of the process, whatever their GPU and
/// context.
static INTERNAL: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

fn internal() -> MutexGuard<'static, BTreeMap<u64, u64>> {
    // The map is consistent between any two statements.
    INTERNAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a range overlaps this crate's own buffers.
fn is_internal(address: u64, bytes: u64) -> bool {
    let end = address.saturating_add(bytes.max(1));
    // Allocations do not overlap: only the last one that begins before the end can overlap the
    // range.
    internal()
        .range(..end)
        .next_back()
        .is_some_and(|(start, len)| start.saturating_add(*len) > address)
}

/// Device memory: `len` elements.
#[derive(Debug)]
pub(crate) struct DeviceBuffer<T> {
    context: Arc<CudaContext>,
    address: u64,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> DeviceBuffer<T> {
    /// Allocates memory for `len` elements, at least one, with unspecified contents.
    pub(crate) fn new(context: &Arc<CudaContext>, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(len.max(1))?;
        let _current = context.enter()?;
        let mut address = 0;
        // SAFETY: the pointer is valid for the driver's write, and the context is current.
        let result = unsafe { call!(context.driver, cuMemAlloc_v2(&mut address, bytes)) };
        context.note(result.map_err(|error| out_of_memory(context, error, bytes)))?;
        context.count_allocation();
        internal().insert(address, bytes as u64);
        Ok(Self { context: Arc::clone(context), address, len, element: PhantomData })
    }

    /// Allocates memory with these elements, and waits for the copy.
    pub(crate) fn with(
        context: &Arc<CudaContext>,
        elements: &[T],
        stream: &Stream,
    ) -> Result<Self> {
        let buffer = Self::new(context, elements.len())?;
        // In chunks, to limit the pinned host memory.
        let chunk = (PINNED_BYTES / size_of::<T>()).max(1).min(elements.len());
        let mut staged = PinnedBuffer::new(context, chunk)?;
        for (k, elements) in elements.chunks(chunk.max(1)).enumerate() {
            staged.as_mut_slice()[..elements.len()].copy_from_slice(elements);
            staged.send(0, elements.len(), &buffer, k * chunk, stream)?;
            stream.synchronize()?;
        }
        Ok(buffer)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Returns a view of the whole buffer for kernels.
    pub(crate) fn view(&self) -> View<'_> {
        // Its size was checked when it was allocated.
        let bytes = (self.len * size_of::<T>()) as u64;
        View { address: self.address, bytes, owner: PhantomData }
    }

    /// Sets all of its 32-bit words.
    pub(crate) fn fill(&self, word: u32, stream: &Stream) -> Result<()> {
        let words = self.len * size_of::<T>() / 4;
        if words == 0 {
            return Ok(());
        }
        let _current = self.context.enter()?;
        // SAFETY: the buffer has this number of words, and its elements consist of them.
        self.context.note(unsafe {
            call!(self.context.driver, cuMemsetD32Async(self.address, word, words, stream.raw()))
        })
    }

    /// Reads all elements, once all work enqueued on the stream is done.
    pub(crate) fn read(&self, stream: &Stream) -> Result<Vec<T>> {
        self.read_range(0, self.len, stream)
    }

    /// Reads `n` elements from `first` on.
    pub(crate) fn read_range(&self, first: usize, n: usize, stream: &Stream) -> Result<Vec<T>> {
        let mut elements =
            aleatron_core::memory::with_capacity(n as u128, aleatron_core::Quantity::Words)?;
        let chunk = (PINNED_BYTES / size_of::<T>()).max(1).min(n.max(1));
        let staged = PinnedBuffer::new(&self.context, chunk)?;
        let end = first.saturating_add(n);
        for start in (first..end).step_by(chunk) {
            let n = chunk.min(end - start);
            staged.receive(0, n, self, start, stream)?;
            stream.synchronize()?;
            elements.extend_from_slice(&staged.as_slice()[..n]);
        }
        Ok(elements)
    }
}

impl DeviceBuffer<u64> {
    /// Publishes the buffer to users: layers may read it and write results to it from now on.
    pub(crate) fn publish(&self) {
        internal().remove(&self.address);
    }

    /// Returns the buffer as inputs of a layer.
    pub(crate) fn array(&self, element: DeviceElement) -> DeviceArray<'_> {
        // SAFETY: the buffer is allocated as long as it is borrowed, has this number of elements of
        // eight bytes, and is written only through `array_mut`, which borrows it exclusively.
        unsafe { DeviceArray::from_raw(self.address, self.len, element) }
    }

    /// Returns the buffer as results of a layer.
    pub(crate) fn array_mut(&mut self, element: DeviceElement) -> DeviceArrayMut<'_> {
        // SAFETY: as for `array`, and it is borrowed exclusively.
        unsafe { DeviceArrayMut::from_raw(self.address, self.len, element) }
    }
}

impl<T> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        internal().remove(&self.address);
        if let (Ok(_current), Some(driver)) = (self.context.enter(), open_driver()) {
            // SAFETY: it was allocated here, and is not used again: the driver waits for work that
            // uses it.
            let _ = unsafe { (driver.cuMemFree_v2)(self.address) };
        }
    }
}

/// Number of bytes staged at a time if speed does not matter.
const PINNED_BYTES: usize = 8 << 20;

/// Pinned host memory that the GPU reads and writes directly. Slices of it may be used only while
/// no work that uses it is in flight: after waiting for the stream.
#[derive(Debug)]
pub(crate) struct PinnedBuffer<T> {
    context: Arc<CudaContext>,
    pointer: *mut T,
    len: usize,
}

// SAFETY: the memory is owned by this buffer.
unsafe impl<T: Send> Send for PinnedBuffer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PinnedBuffer<T> {}

impl<T: Pod> PinnedBuffer<T> {
    /// Allocates memory for `len` elements, at least one, all zero.
    pub(crate) fn new(context: &Arc<CudaContext>, len: usize) -> Result<Self> {
        let len = len.max(1);
        let bytes = bytes_of::<T>(len)?;
        aleatron_core::memory::check(bytes as u128, aleatron_core::Quantity::Words)?;
        let _current = context.enter()?;
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the driver's write, and the context is current.
        let result = unsafe { call!(context.driver, cuMemHostAlloc(&mut pointer, bytes, MAPPED)) };
        context.note(result.map_err(|error| out_of_memory(context, error, bytes)))?;
        context.count_allocation();
        let pointer = pointer.cast::<T>();
        // SAFETY: the driver allocated this number of bytes, aligned to pages, and zeros are a
        // value of any `Pod` type.
        unsafe { std::ptr::write_bytes(pointer, 0, len) };
        Ok(Self { context: Arc::clone(context), pointer, len })
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: the memory was initialized, is owned by this buffer, and nothing writes to it by
        // the contract of the type.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as for `as_slice`, and nothing reads it either.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }

    /// Returns a view of the whole buffer for kernels.
    pub(crate) fn view(&self) -> View<'_> {
        let bytes = (self.len * size_of::<T>()) as u64;
        View { address: self.pointer as u64, bytes, owner: PhantomData }
    }

    /// Copies elements from `start` on to the GPU.
    pub(crate) fn send(
        &self,
        start: usize,
        n: usize,
        to: &DeviceBuffer<T>,
        to_start: usize,
        stream: &Stream,
    ) -> Result<()> {
        let (from, to) = self.both(start, n, to, to_start)?;
        if n == 0 {
            return Ok(());
        }
        let (_current, bytes) = (self.context.enter()?, n * size_of::<T>());
        // SAFETY: both ranges were checked.
        self.context.note(unsafe {
            call!(self.context.driver, cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, stream.raw()))
        })
    }

    /// Copies elements from the GPU to `start` on.
    pub(crate) fn receive(
        &self,
        start: usize,
        n: usize,
        from: &DeviceBuffer<T>,
        from_start: usize,
        stream: &Stream,
    ) -> Result<()> {
        let (to, from) = self.both(start, n, from, from_start)?;
        if n == 0 {
            return Ok(());
        }
        let (_current, bytes) = (self.context.enter()?, n * size_of::<T>());
        // SAFETY: both ranges were checked.
        self.context.note(unsafe {
            call!(self.context.driver, cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream.raw()))
        })
    }

    /// Returns pointer and address of checked ranges of both buffers.
    fn both(
        &self,
        start: usize,
        n: usize,
        other: &DeviceBuffer<T>,
        other_start: usize,
    ) -> Result<(*mut T, u64)> {
        for (start, len) in [(start, self.len), (other_start, other.len)] {
            if start > len || n > len - start {
                let size = size_of::<T>();
                let needed = (start as u128 + n as u128) * size as u128;
                return Err(Error::OutOfBounds { needed, bytes: (len * size) as u64 });
            }
        }
        // SAFETY: `start` is inside the buffer or at its end.
        let pointer = unsafe { self.pointer.add(start) };
        Ok((pointer, other.address + (other_start * size_of::<T>()) as u64))
    }
}

impl PinnedBuffer<u64> {
    /// Spins until kernels have changed every word from `pending`; returns false on timeout.
    pub(crate) fn wait_for_changes(
        &self,
        words: Range<usize>,
        pending: u64,
        limit: Duration,
    ) -> bool {
        if words.end > self.len {
            return false;
        }
        let start = Instant::now();
        let mut spins = 0_u32;
        for index in words {
            // SAFETY: the word is inside the buffer. The GPU writes it whole, at any time, so it is
            // read as volatile.
            while unsafe { std::ptr::read_volatile(self.pointer.add(index)) } == pending {
                spins += 1;
                if spins.is_multiple_of(64) && start.elapsed() > limit {
                    return false;
                }
                std::hint::spin_loop();
            }
        }
        // Previous writes of the kernels are read after this.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        true
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        if let (Ok(_current), Some(driver)) = (self.context.enter(), open_driver()) {
            // SAFETY: it was allocated here, and is not used again: the driver waits for work that
            // uses it.
            let _ = unsafe { (driver.cuMemFreeHost)(self.pointer.cast()) };
        }
    }
}

/// Rows that begin `pitch` bytes after each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pitched<'a> {
    pub(crate) view: View<'a>,
    pub(crate) pitch: u64,
}

/// Copies `rows` rows of `row_bytes` bytes.
pub(crate) fn copy_rows(
    context: &CudaContext,
    from: Pitched<'_>,
    to: Pitched<'_>,
    row_bytes: u64,
    rows: u64,
    stream: &Stream,
) -> Result<()> {
    if rows == 0 || row_bytes == 0 {
        return Ok(());
    }
    let (from_pitch, to_pitch) = (from.pitch, to.pitch);
    let reach = |pitch: u64| u128::from(rows - 1) * u128::from(pitch) + u128::from(row_bytes);
    let (from, to) = (from.view.check(reach(from_pitch))?, to.view.check(reach(to_pitch))?);
    let unified = CUmemorytype::CU_MEMORYTYPE_UNIFIED;
    let copy = CUDA_MEMCPY2D_v2 {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: unified,
        srcHost: std::ptr::null(),
        srcDevice: from,
        srcArray: std::ptr::null_mut(),
        srcPitch: host_size(from_pitch),
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: unified,
        dstHost: std::ptr::null_mut(),
        dstDevice: to,
        dstArray: std::ptr::null_mut(),
        dstPitch: host_size(to_pitch),
        WidthInBytes: host_size(row_bytes),
        Height: host_size(rows),
    };
    let _current = context.enter()?;
    // SAFETY: both ranges were checked, and pinned host memory has one address for both.
    context.note(unsafe { call!(context.driver, cuMemcpy2DAsync_v2(&copy, stream.raw())) })
}

fn bytes_of<T>(len: usize) -> Result<usize> {
    len.checked_mul(size_of::<T>())
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or(Error::OutOfMemory { bytes: len as u128 * size_of::<T>() as u128, free: 0 })
}

/// Returns the error with the requested and the available size.
fn out_of_memory(context: &CudaContext, error: Error, bytes: usize) -> Error {
    match error {
        Error::OutOfMemory { .. } => {
            Error::OutOfMemory { bytes: bytes as u128, free: context.free_bytes().unwrap_or(0) }
        }
        error => error,
    }
}

/// Copies elements with as many threads as pay off.
pub(crate) fn copy_parallel(from: &[u64], to: &mut [u64]) -> Result<()> {
    let chunk = CHUNK_BYTES / 8;
    if from.len() <= chunk {
        to.copy_from_slice(from);
        return Ok(());
    }
    let chunks = from.chunks(chunk).zip(to.chunks_mut(chunk));
    let cost = Duration::from_nanos(from.len() as u64 * 8 / COPY_RATE);
    aleatron_cpu::threads::current()?.for_each(chunks, cost, |(from, to)| to.copy_from_slice(from));
    Ok(())
}

/// Appends elements with as many threads as pay off; the capacity must suffice.
pub(crate) fn append_parallel(to: &mut Vec<u64>, from: &[u64]) -> Result<()> {
    let chunk = CHUNK_BYTES / 8;
    if from.len() <= chunk {
        to.extend_from_slice(from);
        return Ok(());
    }
    to.reserve(from.len());
    let room = &mut to.spare_capacity_mut()[..from.len()];
    let chunks = from.chunks(chunk).zip(room.chunks_mut(chunk));
    let cost = Duration::from_nanos(from.len() as u64 * 8 / COPY_RATE);
    aleatron_cpu::threads::current()?.for_each(chunks, cost, |(from, to)| {
        for (from, to) in from.iter().zip(to) {
            to.write(*from);
        }
    });
    // SAFETY: every element of that capacity was written above.
    unsafe { to.set_len(to.len() + from.len()) };
    Ok(())
}
