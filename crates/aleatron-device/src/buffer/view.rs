//! Ranges of buffers.

use std::sync::Arc;

use super::pool::RawBuffer;
use crate::error::{Error, Owner, Result};
use crate::size::host_size;

/// A range of the elements of a buffer, for kernels and copies.
///
/// A binding consists of 32-bit words. If a view of smaller elements ends inside a word, its
/// binding includes the rest of that word, and `arrayLength` counts it.
#[derive(Debug, Clone, Copy)]
pub struct BufferView<'a> {
    pub(crate) raw: &'a Arc<RawBuffer>,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// The byte offset of the end of the whole buffer's elements; padding follows.
    pub(crate) end: u64,
    pub(super) element: u64,
}

impl<'a> BufferView<'a> {
    /// Creates a view of a whole buffer of `len` elements of `element` bytes.
    pub(crate) fn whole(raw: &'a Arc<RawBuffer>, len: usize, element: usize) -> Self {
        let (bytes, element) = (len as u64 * element as u64, element as u64);
        Self { raw, offset: 0, bytes, end: bytes, element }
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        host_size(self.bytes / self.element)
    }

    /// Returns whether the view is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the byte offset in the buffer.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the [id](crate::GpuContext::id) of the buffer's context.
    #[must_use]
    pub fn context_id(&self) -> u64 {
        self.raw.context.id()
    }

    /// Returns a view of `len` of its elements from `start`.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`] past the end.
    pub fn part(&self, start: usize, len: usize) -> Result<Self> {
        match start.checked_add(len) {
            Some(end) if end <= self.len() => Ok(Self {
                offset: self.offset + start as u64 * self.element,
                bytes: len as u64 * self.element,
                ..*self
            }),
            end => {
                Err(Error::OutOfBounds { start, end: end.unwrap_or(usize::MAX), len: self.len() })
            }
        }
    }

    /// Extends the view at its front to the nearest multiple of `alignment` bytes at which an
    /// element begins, and returns the index of its old first element in it. With
    /// [`GpuContext::binding_alignment`](crate::GpuContext::binding_alignment) the result can be
    /// bound to a kernel that takes this index as a parameter.
    ///
    /// ```no_run
    /// # use aleatron_device::{AdapterChoice, GpuContext};
    /// # let context = GpuContext::get(&AdapterChoice::from_env())?;
    /// let buffer = context.upload(&[0f32; 1000])?;
    /// let (view, first) = buffer.view_of(70, 10)?.aligned(256);
    /// assert_eq!((view.offset(), view.len(), first), (256, 16, 6));
    /// # Ok::<(), aleatron_device::Error>(())
    /// ```
    #[must_use]
    pub fn aligned(&self, alignment: u64) -> (Self, usize) {
        // The least common multiple, for elements whose size is not a power of two.
        let step = self.element / gcd(self.element, alignment.max(1)) * alignment.max(1);
        let before = self.offset % step;
        let view = Self { offset: self.offset - before, bytes: self.bytes + before, ..*self };
        (view, host_size(before / self.element))
    }

    /// Checks that the view is of the context `user`.
    pub(crate) fn check_owner(&self, user: u64) -> Result<()> {
        let owner = self.context_id();
        if owner == user {
            return Ok(());
        }
        Err(Error::Foreign {
            what: "buffer",
            owner: Owner::Context(owner),
            user: Owner::Context(user),
        })
    }

    /// Returns whether copy commands support the view.
    pub(crate) fn is_whole_words(&self) -> bool {
        self.offset.is_multiple_of(4) && self.bytes.is_multiple_of(4)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
