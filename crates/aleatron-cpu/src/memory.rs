//! Large buffers of words: aligned to cache lines, on huge pages where the system has them, and refused with an error
//! where they would not fit.
//!
//! A layer of 64 MB is 16,000 small pages; walking their tables costs a third of the bandwidth, so buffers past a few
//! megabytes are aligned to 2 MiB and advised to be huge before they are first touched.

use aleatron_core::{Error, Quantity, Result, memory};
use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const CACHE_LINE: usize = 64;
const HUGE_PAGE: usize = 2 << 20;

/// A fixed-size buffer of 64-bit words, zero at first.
pub struct WordBuffer {
    start: NonNull<u64>,
    len: usize,
}

// SAFETY: the buffer owns its memory and gives it out by the borrowing rules of slices alone.
unsafe impl Send for WordBuffer {}
// SAFETY: as above; a shared buffer can only be read.
unsafe impl Sync for WordBuffer {}

impl WordBuffer {
    /// A buffer of `len` zero words for `what`.
    ///
    /// # Errors
    /// [`Error::Memory`] where it would take more than the machine has free, or the allocator refuses.
    pub fn zeroed(len: usize, what: Quantity) -> Result<Self> {
        let bytes = len as u128 * 8;
        memory::check(bytes, what)?;
        let refused = || Error::Memory { what, bytes, available: memory::available() };
        let layout = Self::layout(len).ok_or_else(refused)?;
        if len == 0 {
            return Ok(Self { start: NonNull::dangling(), len });
        }
        // SAFETY: the layout is not of size zero.
        let start = NonNull::new(unsafe { alloc(layout) }.cast::<u64>()).ok_or_else(refused)?;
        if layout.align() == HUGE_PAGE {
            advise_huge_pages(start, layout.size());
        }
        // SAFETY: the allocation holds `len` words, and all-zero bytes are a valid u64.
        unsafe { start.write_bytes(0, len) };
        Ok(Self { start, len })
    }

    fn layout(len: usize) -> Option<Layout> {
        let size = len.checked_mul(8)?;
        let align = if size >= 2 * HUGE_PAGE { HUGE_PAGE } else { CACHE_LINE };
        Layout::from_size_align(size, align).ok()
    }
}

/// Asks for huge pages; a refusal only costs speed.
fn advise_huge_pages(start: NonNull<u64>, size: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range is one fresh allocation of ours, and the advice changes no contents.
    unsafe {
        libc::madvise(start.as_ptr().cast(), size, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, size);
}

impl Drop for WordBuffer {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len).filter(|_| self.len > 0) {
            // SAFETY: `zeroed` allocated `start` with this very layout.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

impl Deref for WordBuffer {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        // SAFETY: `start` holds `len` initialised words (dangling but aligned for none), borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for WordBuffer {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for WordBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WordBuffer({} words)", self.len)
    }
}
