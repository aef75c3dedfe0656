//! Copies, clears and reads of ranges at any byte offset.
//!
//! The copy commands of devices need whole 32-bit words. If a range shares a word with its
//! neighbours, `copy_bytes.wgsl` copies it instead and merges it into that word: on the device, in
//! order with all other commands, without a round trip to the host.

use std::borrow::Cow;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::pool::{Memory, RawBuffer};
use super::read::{PendingRead, ReadSlot};
use super::view::BufferView;
use crate::capability::Capabilities;
use crate::error::{Error, Result};
use crate::kernel::{Access, Kernel};
use crate::pipeline::grid;
use crate::record::Recorder;
use crate::size::{host_size, size_u32};

/// The kernel of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TransferKernel;

impl Kernel for TransferKernel {
    fn name(&self) -> Cow<'static, str> {
        "copy bytes".into()
    }

    fn source(&self, _: Capabilities) -> Cow<'static, str> {
        include_str!("../shaders/copy_bytes.wgsl").into()
    }

    fn bindings(&self) -> Cow<'static, [Access]> {
        Cow::Borrowed(&[Access::Read, Access::ReadWrite])
    }

    fn immediate_bytes(&self) -> usize {
        size_of::<Params>()
    }
}

/// Parameters of `copy_bytes.wgsl`, which documents each.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct Params {
    source_begin: u32,
    target_begin: u32,
    n_bytes: u32,
}

/// Bytes of one dispatch: including alignment, they fit 32 bits.
const DISPATCH_BYTES: u64 = 1 << 28;

/// Threads of a workgroup of `copy_bytes.wgsl`.
const THREADS: u64 = 64;

impl Recorder<'_> {
    /// Copies `from` to the beginning of `to`, at any offsets; they may overlap.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`] if it does not fit, [`Error::Foreign`] for a buffer of
    /// another device, [`Error::Unaligned`] if `to` is a part of a
    /// [`HostBuffer`](crate::HostBuffer) that is not whole words.
    pub fn copy(&mut self, from: BufferView<'_>, to: BufferView<'_>) -> Result<()> {
        from.check_owner(self.context().id())?;
        to.check_owner(self.context().id())?;
        if from.bytes > to.bytes {
            return Err(Error::OutOfBounds {
                start: 0,
                end: host_size(from.bytes),
                len: host_size(to.bytes),
            });
        }
        let to = BufferView { bytes: from.bytes, ..to };
        if from.bytes == 0 {
            return Ok(());
        }
        if Arc::ptr_eq(from.raw, to.raw) {
            let staged = self.stage(from)?;
            let from = BufferView { raw: &staged, offset: from.offset % 4, ..from };
            return self.copy_between(from, to);
        }
        self.copy_between(from, to)
    }

    /// Copies like [`Self::copy`], between two different buffers.
    fn copy_between(&mut self, from: BufferView<'_>, to: BufferView<'_>) -> Result<()> {
        let aligned = from.offset.is_multiple_of(4) && to.offset.is_multiple_of(4);
        // Bytes after the last element are padding, so the last word can be copied as a whole.
        if aligned && (to.is_whole_words() || to.offset + to.bytes == to.end) {
            let bytes = from.bytes.next_multiple_of(4);
            self.copy_words(from.raw, from.offset, to.raw, to.offset, bytes);
            return Ok(());
        }
        if to.raw.memory() != Memory::Device {
            return Err(Error::Unaligned { offset: to.offset, alignment: 4 });
        }
        if from.raw.memory() != Memory::Device {
            let staged = self.stage(from)?;
            return self
                .merge(Some(BufferView { raw: &staged, offset: from.offset % 4, ..from }), to);
        }
        self.merge(Some(from), to)
    }

    /// Copies the whole words around a view, which then begins at byte `offset % 4`.
    fn stage(&mut self, view: BufferView<'_>) -> Result<Arc<RawBuffer>> {
        let (first, bytes) = words_around(view);
        let staged = self.context().allocate(bytes.into(), Memory::Device)?;
        self.copy_words(view.raw, first, &staged, 0, bytes);
        Ok(staged)
    }

    /// Sets every byte to zero, on the device.
    ///
    /// # Errors
    /// Returns [`Error::Foreign`] for a buffer of another device.
    pub fn clear(&mut self, view: BufferView<'_>) -> Result<()> {
        view.check_owner(self.context().id())?;
        if view.bytes == 0 {
            return Ok(());
        }
        let at_end = view.offset.is_multiple_of(4) && view.offset + view.bytes == view.end;
        if view.is_whole_words() || at_end {
            self.clear_words(view.raw, view.offset, view.bytes.next_multiple_of(4));
            return Ok(());
        }
        self.merge(None, view)
    }

    /// Copies bytes, or clears them, with the kernel. Source and target must be different buffers.
    fn merge(&mut self, from: Option<BufferView<'_>>, to: BufferView<'_>) -> Result<()> {
        let context = Arc::clone(self.context());
        let (alignment, limit) = (context.binding_alignment(), context.info().max_workgroups);
        let constants = [("CLEAR", from.is_none().into())];
        let pipeline = context.pipeline(&TransferKernel, &constants)?;
        // Clearing reads no source, but the binding must exist.
        let unread = context.buffer::<u32>(4)?;
        let largest =
            (context.max_binding_bytes() / 2 / alignment * alignment).clamp(4, DISPATCH_BYTES);
        let mut done = 0;
        while done < to.bytes {
            let bytes = largest.min(to.bytes - done);
            let part = |view: BufferView<'_>| -> Result<(u64, u64, u32)> {
                let offset = view.offset + done;
                let begin = offset % alignment;
                Ok((offset - begin, begin + bytes, size_u32(begin, "first byte of a copy")?))
            };
            let (target_at, target_bytes, target_begin) = part(to)?;
            let target = BufferView { offset: target_at, bytes: target_bytes, ..to };
            let (source, source_begin) = match from {
                Some(from) => {
                    let (at, bytes, begin) = part(from)?;
                    (BufferView { offset: at, bytes, ..from }, begin)
                }
                None => (unread.view(), 0),
            };
            let bound = context.bind(&pipeline, &[source, target])?;
            let params =
                Params { source_begin, target_begin, n_bytes: size_u32(bytes, "bytes of a copy")? };
            let words = (u64::from(target_begin % 4) + bytes).div_ceil(4);
            self.dispatch(&bound, &params, grid(words.div_ceil(THREADS), limit)?, 2 * bytes)?;
            done += bytes;
        }
        Ok(())
    }

    /// Records a read of a view, after the commands recorded so far. The result is in flight once
    /// the recording is submitted.
    ///
    /// # Errors
    /// Returns [`Error::ElementSize`] unless the view holds whole `T`s, [`Error::Foreign`] for a
    /// buffer of another device, and errors of the device.
    pub fn read<T: Pod>(&mut self, view: BufferView<'_>) -> Result<PendingRead<T>> {
        const { assert!(size_of::<T>() > 0, "elements take memory") };
        view.check_owner(self.context().id())?;
        let element = size_of::<T>();
        if !view.bytes.is_multiple_of(element as u64) {
            return Err(Error::ElementSize { bytes: view.bytes, element });
        }
        let len = host_size(view.bytes / element as u64);
        if len == 0 {
            return Ok(PendingRead::new(None, 0, 0));
        }
        let (first, bytes) = words_around(view);
        let staging = self.context().allocate(bytes.into(), Memory::Readback)?;
        self.copy_words(view.raw, first, &staging, 0, bytes);
        let slot = Arc::new(ReadSlot::new(staging));
        self.await_read(Arc::clone(&slot));
        Ok(PendingRead::new(Some(slot), view.offset - first, len))
    }
}

/// Returns the offset and the size of the whole words that a view overlaps. Memory is allocated in
/// whole words, so they exist.
fn words_around(view: BufferView<'_>) -> (u64, u64) {
    let first = view.offset / 4 * 4;
    (first, (view.offset + view.bytes).next_multiple_of(4) - first)
}
