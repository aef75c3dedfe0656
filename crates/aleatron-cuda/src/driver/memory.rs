//! Memory of the card, and memory of the host that the card reads and writes.

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

/// Memory of the host that the card sees under the same address.
const MAPPED: u32 = 2;

/// Bytes from which on copying is worth several threads, and those of one piece.
const PIECE_BYTES: usize = 256 << 10;

/// Bytes that one thread copies in a nanosecond, about.
const COPY_RATE: u64 = 8;

/// A range of memory that a kernel may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    address: u64,
    bytes: u64,
    owner: PhantomData<&'a ()>,
}

impl View<'_> {
    /// The address, once a kernel was found to reach no further than `needed` bytes from it: what
    /// kernels rest on, which check nothing themselves.
    pub(crate) fn check(&self, needed: u128) -> Result<u64> {
        if needed > self.bytes.into() {
            return Err(Error::OutOfBounds { needed, bytes: self.bytes });
        }
        Ok(self.address)
    }

    /// The rest from a byte on.
    pub(crate) fn from(&self, byte: u64) -> Result<Self> {
        if byte > self.bytes {
            return Err(Error::OutOfBounds { needed: byte.into(), bytes: self.bytes });
        }
        Ok(Self { address: self.address + byte, bytes: self.bytes - byte, owner: PhantomData })
    }

    /// The memory of an array that another library allocated, once the driver has said that it is
    /// of this card and so large, and that it is none of this crate's own buffers.
    pub(crate) fn of_array<'a>(context: &CudaContext, array: &DeviceArray<'a>) -> Result<View<'a>> {
        let (address, bytes) = (array.address(), array.bytes());
        // Numbers of the driver's attributes, and of the kind of memory that is the card's.
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
        // SAFETY: there are as many answers as attributes, each of the type that its attribute has.
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
/// everything else that kernels trust. Addresses are those of the process, whatever card and
/// context they are of.
static INTERNAL: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

fn internal() -> MutexGuard<'static, BTreeMap<u64, u64>> {
    // The map is whole between any two statements.
    INTERNAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a range has bytes of this crate's own buffers.
fn is_internal(address: u64, bytes: u64) -> bool {
    let end = address.saturating_add(bytes.max(1));
    // Allocations do not overlap: the last one that begins before the end is the only one that can
    // reach into the range, or begins in it.
    internal()
        .range(..end)
        .next_back()
        .is_some_and(|(start, len)| start.saturating_add(*len) > address)
}

/// Memory of the card: `len` elements.
#[derive(Debug)]
pub(crate) struct DeviceBuffer<T> {
    context: Arc<CudaContext>,
    address: u64,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> DeviceBuffer<T> {
    /// Memory for `len` elements, at least one, which hold anything.
    pub(crate) fn new(context: &Arc<CudaContext>, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(len.max(1))?;
        let _current = context.enter()?;
        let mut address = 0;
        // SAFETY: the pointer is that of a number for the driver to write to, and the context is
        // current.
        let made = unsafe { call!(context.driver, cuMemAlloc_v2(&mut address, bytes)) };
        context.note(made.map_err(|error| out_of_memory(context, error, bytes)))?;
        context.count_allocation();
        internal().insert(address, bytes as u64);
        Ok(Self { context: Arc::clone(context), address, len, element: PhantomData })
    }

    /// Memory with these elements, once it is done.
    pub(crate) fn with(
        context: &Arc<CudaContext>,
        elements: &[T],
        stream: &Stream,
    ) -> Result<Self> {
        let buffer = Self::new(context, elements.len())?;
        // In pieces, so that no more memory of the host is taken than these.
        let piece = (PINNED_BYTES / size_of::<T>()).max(1).min(elements.len());
        let mut staged = PinnedBuffer::new(context, piece)?;
        for (k, elements) in elements.chunks(piece.max(1)).enumerate() {
            staged.as_mut_slice()[..elements.len()].copy_from_slice(elements);
            staged.send(0, elements.len(), &buffer, k * piece, stream)?;
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

    /// All of it, for kernels.
    pub(crate) fn view(&self) -> View<'_> {
        // Its size was found to fit an address when it was allocated.
        let bytes = (self.len * size_of::<T>()) as u64;
        View { address: self.address, bytes, owner: PhantomData }
    }

    /// Sets all 32-bit words of it.
    pub(crate) fn fill(&self, word: u32, stream: &Stream) -> Result<()> {
        let words = self.len * size_of::<T>() / 4;
        if words == 0 {
            return Ok(());
        }
        let _current = self.context.enter()?;
        // SAFETY: the buffer has so many words, and elements that are made of them.
        self.context.note(unsafe {
            call!(self.context.driver, cuMemsetD32Async(self.address, word, words, stream.raw()))
        })
    }

    /// Reads all elements, once all work given to the stream is done.
    pub(crate) fn read(&self, stream: &Stream) -> Result<Vec<T>> {
        self.read_range(0, self.len, stream)
    }

    /// Reads `n` elements from `first` on.
    pub(crate) fn read_range(&self, first: usize, n: usize, stream: &Stream) -> Result<Vec<T>> {
        let mut elements =
            aleatron_core::memory::with_capacity(n as u128, aleatron_core::Quantity::Words)?;
        let piece = (PINNED_BYTES / size_of::<T>()).max(1).min(n.max(1));
        let staged = PinnedBuffer::new(&self.context, piece)?;
        let end = first.saturating_add(n);
        for start in (first..end).step_by(piece) {
            let n = piece.min(end - start);
            staged.receive(0, n, self, start, stream)?;
            stream.synchronize()?;
            elements.extend_from_slice(&staged.as_slice()[..n]);
        }
        Ok(elements)
    }
}

impl DeviceBuffer<u64> {
    /// Gives the buffer to users: layers may read it and write results to it from now on.
    pub(crate) fn publish(&self) {
        internal().remove(&self.address);
    }

    /// The buffer as inputs of a layer.
    pub(crate) fn array(&self, element: DeviceElement) -> DeviceArray<'_> {
        // SAFETY: the buffer is allocated as long as it is borrowed, has so many elements of eight
        // bytes, and is written through `array_mut` alone, which borrows it exclusively.
        unsafe { DeviceArray::from_raw(self.address, self.len, element) }
    }

    /// The buffer as results of a layer.
    pub(crate) fn array_mut(&mut self, element: DeviceElement) -> DeviceArrayMut<'_> {
        // SAFETY: as for `array`, and it is borrowed exclusively.
        unsafe { DeviceArrayMut::from_raw(self.address, self.len, element) }
    }
}

impl<T> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        internal().remove(&self.address);
        if let (Ok(_current), Some(driver)) = (self.context.enter(), open_driver()) {
            // SAFETY: it was allocated by this, and is not used again: the driver waits for work
            // that does.
            let _ = unsafe { (driver.cuMemFree_v2)(self.address) };
        }
    }
}

/// Bytes staged at a time where it is not a matter of speed.
const PINNED_BYTES: usize = 8 << 20;

/// Memory of the host that the card reads and writes by itself. Slices of it may be used only while
/// no work that uses it is under way: after the stream was waited for.
#[derive(Debug)]
pub(crate) struct PinnedBuffer<T> {
    context: Arc<CudaContext>,
    pointer: *mut T,
    len: usize,
}

// SAFETY: the memory is this buffer's alone.
unsafe impl<T: Send> Send for PinnedBuffer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PinnedBuffer<T> {}

impl<T: Pod> PinnedBuffer<T> {
    /// Memory for `len` elements, at least one, all zero.
    pub(crate) fn new(context: &Arc<CudaContext>, len: usize) -> Result<Self> {
        let len = len.max(1);
        let bytes = bytes_of::<T>(len)?;
        aleatron_core::memory::check(bytes as u128, aleatron_core::Quantity::Words)?;
        let _current = context.enter()?;
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the pointer is that of a pointer for the driver to write to, and the context is
        // current.
        let made = unsafe { call!(context.driver, cuMemHostAlloc(&mut pointer, bytes, MAPPED)) };
        context.note(made.map_err(|error| out_of_memory(context, error, bytes)))?;
        context.count_allocation();
        let pointer = pointer.cast::<T>();
        // SAFETY: the driver gave so many bytes, aligned to pages, and zeros are a value of any
        // `Pod` type.
        unsafe { std::ptr::write_bytes(pointer, 0, len) };
        Ok(Self { context: Arc::clone(context), pointer, len })
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: the memory was initialised, is this buffer's, and nothing writes to it by the
        // contract of the type.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as for `as_slice`, and nothing reads it either.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }

    /// All of it, for kernels.
    pub(crate) fn view(&self) -> View<'_> {
        let bytes = (self.len * size_of::<T>()) as u64;
        View { address: self.pointer as u64, bytes, owner: PhantomData }
    }

    /// Copies elements from `start` on to the card.
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

    /// Copies elements from the card to `start` on.
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

    /// Pointer and address of ranges of both buffers, which must have them.
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
    /// Looks at words until kernels have written something else than `pending` to each, but no
    /// longer than `limit`; whether they have.
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
        let mut looks = 0_u32;
        for index in words {
            // SAFETY: the word is inside the buffer. The card writes it whole, at any time, which
            // is why it is read as volatile.
            while unsafe { std::ptr::read_volatile(self.pointer.add(index)) } == pending {
                looks += 1;
                if looks.is_multiple_of(64) && start.elapsed() > limit {
                    return false;
                }
                std::hint::spin_loop();
            }
        }
        // What the kernels have written before is read after.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        true
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        if let (Ok(_current), Some(driver)) = (self.context.enter(), open_driver()) {
            // SAFETY: it was allocated by this, and is not used again: the driver waits for work
            // that does.
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
    // SAFETY: both ranges were checked, and memory of the host that is pinned has one address for
    // both.
    context.note(unsafe { call!(context.driver, cuMemcpy2DAsync_v2(&copy, stream.raw())) })
}

fn bytes_of<T>(len: usize) -> Result<usize> {
    len.checked_mul(size_of::<T>())
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or(Error::OutOfMemory { bytes: len as u128 * size_of::<T>() as u128, free: 0 })
}

/// Says how much was asked for and how much there was.
fn out_of_memory(context: &CudaContext, error: Error, bytes: usize) -> Error {
    match error {
        Error::OutOfMemory { .. } => {
            Error::OutOfMemory { bytes: bytes as u128, free: context.free_bytes().unwrap_or(0) }
        }
        error => error,
    }
}

/// Copies elements with as many threads as pay.
pub(crate) fn copy_parallel(from: &[u64], to: &mut [u64]) -> Result<()> {
    let piece = PIECE_BYTES / 8;
    if from.len() <= piece {
        to.copy_from_slice(from);
        return Ok(());
    }
    let pieces = from.chunks(piece).zip(to.chunks_mut(piece));
    let cost = Duration::from_nanos(from.len() as u64 * 8 / COPY_RATE);
    aleatron_cpu::threads::current()?.for_each(pieces, cost, |(from, to)| to.copy_from_slice(from));
    Ok(())
}

/// Appends elements with as many threads as pay; there must be room for them.
pub(crate) fn append_parallel(to: &mut Vec<u64>, from: &[u64]) -> Result<()> {
    let piece = PIECE_BYTES / 8;
    if from.len() <= piece {
        to.extend_from_slice(from);
        return Ok(());
    }
    to.reserve(from.len());
    let room = &mut to.spare_capacity_mut()[..from.len()];
    let pieces = from.chunks(piece).zip(room.chunks_mut(piece));
    let cost = Duration::from_nanos(from.len() as u64 * 8 / COPY_RATE);
    aleatron_cpu::threads::current()?.for_each(pieces, cost, |(from, to)| {
        for (from, to) in from.iter().zip(to) {
            to.write(*from);
        }
    });
    // SAFETY: every element of that room was written above.
    unsafe { to.set_len(to.len() + from.len()) };
    Ok(())
}
