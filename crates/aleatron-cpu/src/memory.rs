//! Large buffers: aligned to cache lines, on huge pages if the system has them, and an error if
//! they would not fit.
//!
//! A layer of 64 MB is 16,000 small pages; walking their tables costs a third of the bandwidth, so
//! buffers larger than a few megabytes are aligned to 2 MiB and advised to be huge before they are
//! first touched.

use aleatron_core::{Error, Quantity, Result, memory};
use bytemuck::Pod;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const CACHE_LINE: usize = 64;
const HUGE_PAGE: usize = 2 << 20;

/// Number of words of scratch memory that a thread retains.
const MAX_SPARE: usize = 1 << 20;

/// A fixed-size buffer of plain data, zero at first, that begins with a cache line.
///
/// ```
/// use aleatron_core::Quantity;
/// use aleatron_cpu::AlignedBuffer;
///
/// let mut buffer = AlignedBuffer::<f32>::zeroed(1000, Quantity::Words)?;
/// buffer[999] = 1.5;
/// assert_eq!(buffer.iter().sum::<f32>(), 1.5);
/// assert_eq!(buffer.as_ptr().addr() % 64, 0);
/// # Ok::<(), aleatron_core::Error>(())
/// ```
pub struct AlignedBuffer<T> {
    start: NonNull<T>,
    len: usize,
    /// The allocation, if any: the elements and their alignment padding.
    allocation: Option<(NonNull<u8>, Layout)>,
}

/// A buffer of packed words.
pub type WordBuffer = AlignedBuffer<u64>;

// SAFETY: the buffer owns its memory and lends it by the borrowing rules of slices alone.
unsafe impl<T: Send> Send for AlignedBuffer<T> {}
// SAFETY: as above; a shared buffer can only be read.
unsafe impl<T: Sync> Sync for AlignedBuffer<T> {}

impl<T: Pod> AlignedBuffer<T> {
    /// Creates a buffer of `len` zeros for `what`.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if it would take more than the machine has free, or if the
    /// allocator fails.
    pub fn zeroed(len: usize, what: Quantity) -> Result<Self> {
        const { assert!(align_of::<T>() <= CACHE_LINE) };
        let bytes = len as u128 * size_of::<T>() as u128;
        memory::check(bytes, what)?;
        if bytes == 0 {
            return Ok(Self { start: NonNull::dangling(), len, allocation: None });
        }
        let refused = || Error::Memory { what, bytes, available: memory::available() };
        let align = if bytes >= 2 * HUGE_PAGE as u128 { HUGE_PAGE } else { CACHE_LINE };
        // Aligned by hand: an allocator that is asked for aligned zeros writes them itself, one
        // page after another, although fresh pages are zero and are better touched first by the
        // threads that fill them.
        let size = usize::try_from(bytes)
            .ok()
            .and_then(|size| size.checked_add(align))
            .ok_or_else(refused)?;
        let layout = Layout::from_size_align(size, align_of::<T>()).map_err(|_| refused())?;
        // SAFETY: the layout is not of size zero.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(refused)?;
        // The distance to the next multiple of `align`, a power of two.
        let offset = allocated.addr().get().wrapping_neg() % align;
        // SAFETY: the offset is below `align`, so it and the `bytes` after it lie within the
        // allocation.
        let start = unsafe { allocated.add(offset) };
        if align == HUGE_PAGE {
            advise_huge_pages(start, size - align);
        }
        Ok(Self { start: start.cast(), len, allocation: Some((allocated, layout)) })
    }
}

/// Requests huge pages; a refusal only costs speed.
fn advise_huge_pages(start: NonNull<u8>, size: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range is one fresh allocation of ours, and the advice changes no contents.
    unsafe {
        libc::madvise(start.as_ptr().cast(), size, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, size);
}

impl<T> Drop for AlignedBuffer<T> {
    fn drop(&mut self) {
        if let Some((start, layout)) = self.allocation {
            // SAFETY: `zeroed` allocated it with this very layout; plain data needs no dropping.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

impl<T> Deref for AlignedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `start` is aligned (for no bytes: dangling) and holds `len` elements, borrowed as
        // `self` is. They are initialized: only `zeroed` creates buffers, of types for which zeros
        // are a value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for AlignedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> fmt::Debug for AlignedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({} x {})", self.len, std::any::type_name::<T>())
    }
}

thread_local! {
    /// Scratch memory of the last user.
    static SPARE: Cell<Option<WordBuffer>> = const { Cell::new(None) };
}

/// Initialized words of unspecified contents: zeros, or the words of an earlier user of the buffer.
pub(crate) struct Scratch {
    words: Option<WordBuffer>,
    len: usize,
}

impl Scratch {
    /// Creates `len` words for `what`.
    pub(crate) fn new(len: usize, what: Quantity) -> Result<Self> {
        let spare = SPARE.take();
        let words = match spare.filter(|words| words.len() >= len) {
            Some(words) => words,
            None => WordBuffer::zeroed(len, what)?,
        };
        Ok(Self { words: Some(words), len })
    }
}

impl Deref for Scratch {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        self.words.as_ref().map_or(&[], |words| &words[..self.len])
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u64] {
        self.words.as_mut().map_or(&mut [], |words| &mut words[..self.len])
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        SPARE.set(self.words.take().filter(|words| words.len() <= MAX_SPARE));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check<T: Pod + PartialEq + std::fmt::Debug>(one: T) {
        for len in [1, 7, 1000, (4 << 20) / size_of::<T>() - 1, (4 << 20) / size_of::<T>() + 3] {
            let mut buffer = AlignedBuffer::<T>::zeroed(len, Quantity::Words).unwrap();
            let align = if len * size_of::<T>() < 4 << 20 { CACHE_LINE } else { HUGE_PAGE };
            assert_eq!((buffer.len(), buffer.as_ptr().addr() % align), (len, 0), "{buffer:?}");
            assert!(buffer.iter().all(|element| *element == T::zeroed()));
            buffer.fill(one);
            assert_eq!(buffer[len - 1], one);
        }
        assert!(AlignedBuffer::<T>::zeroed(0, Quantity::Words).unwrap().is_empty());
        for len in [usize::MAX, usize::MAX / size_of::<T>(), 1 << 50] {
            let bytes = len as u128 * size_of::<T>() as u128;
            let refused = AlignedBuffer::<T>::zeroed(len, Quantity::Words);
            assert!(
                matches!(refused, Err(Error::Memory { bytes: asked, .. }) if asked == bytes),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn zeroed_buffers_are_aligned() {
        check(1_u8);
        check(1_u16);
        check(1_i32);
        check(1_i64);
        check(1_u64);
        check(1.0_f32);
        check(1.0_f64);
        check([1_u32; 3]);
    }
}
