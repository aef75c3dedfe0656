//! Large buffers of words: aligned to cache lines, on huge pages where the system has them, and refused with an error
//! where they would not fit.
//!
//! A layer of 64 MB is 16,000 small pages; walking their tables costs a third of the bandwidth, so buffers past a few
//! megabytes are aligned to 2 MiB and advised to be huge before they are first touched.

use aleatron_core::{Error, Quantity, Result, memory};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Mutex;

const CACHE_LINE: usize = 64;
const HUGE_PAGE: usize = 2 << 20;

/// Words of scratch memory that are not given back to the system.
const MAX_SPARE: usize = 1 << 20;

/// A fixed-size buffer of 64-bit words, zero at first.
pub struct WordBuffer {
    start: NonNull<u64>,
    len: usize,
    /// What was allocated, if anything: the words and what aligning them takes.
    allocation: Option<(NonNull<u8>, Layout)>,
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
        if len == 0 {
            return Ok(Self { start: NonNull::dangling(), len, allocation: None });
        }
        let refused = || Error::Memory { what, bytes, available: memory::available() };
        let align = if bytes >= 2 * HUGE_PAGE as u128 { HUGE_PAGE } else { CACHE_LINE };
        // Aligned by hand: an allocator that is asked for aligned zeros writes them itself, one page after another, where
        // fresh pages are zero and are better touched first by the threads that fill them.
        let size = len.checked_mul(8).and_then(|size| size.checked_add(align)).ok_or_else(refused)?;
        let layout = Layout::from_size_align(size, align_of::<u64>()).map_err(|_| refused())?;
        // SAFETY: the layout is not of size zero.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(refused)?;
        // What is missing to the next multiple of `align`, a power of two.
        let offset = allocated.addr().get().wrapping_neg() % align;
        // SAFETY: the offset is below `align`, so it and the `8 * len` bytes after it lie within the allocation.
        let start = unsafe { allocated.add(offset) }.cast::<u64>();
        if align == HUGE_PAGE {
            advise_huge_pages(start, 8 * len);
        }
        Ok(Self { start, len, allocation: Some((allocated, layout)) })
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
        if let Some((start, layout)) = self.allocation {
            // SAFETY: `zeroed` allocated it with this very layout.
            unsafe { dealloc(start.as_ptr(), layout) };
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

/// Words that are initialised but hold anything: zeros, or what an earlier user of the same buffer left there.
pub(crate) struct Scratch {
    words: Option<WordBuffer>,
    len: usize,
}

/// The words of the last user.
static SPARE: Mutex<Option<WordBuffer>> = Mutex::new(None);

impl Scratch {
    /// `len` words for `what`.
    pub(crate) fn new(len: usize, what: Quantity) -> Result<Self> {
        // Whoever finds others at it does without.
        let spare = SPARE.try_lock().ok().and_then(|mut spare| spare.take());
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
        let words = self.words.take().filter(|words| words.len() <= MAX_SPARE);
        if let (Some(words), Ok(mut spare)) = (words, SPARE.try_lock()) {
            *spare = Some(words);
        }
    }
}

impl fmt::Debug for WordBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WordBuffer({} words)", self.len)
    }
}
