//! Where the memory of buffers comes from, and where it goes.
//!
//! Buffers come in size classes and go back to the pool when dropped, so that a program which does the same thing
//! twice allocates once. What does not fit the pool is freed, and the device is polled for it, since wgpu gives memory back
//! at no other time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::context::{GpuContext, lock};
use crate::error::{Error, Limit, Result};
use crate::wait::Watch;

/// Who can reach a buffer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Memory {
    /// Kernels and copies: the fastest for them.
    Device,
    /// Written by the host, read by copies, and by kernels where the device has
    /// [`mapped_buffers`](crate::Capabilities::mapped_buffers).
    Upload,
    /// Written by copies (and kernels, likewise), read by the host.
    Readback,
}

impl Memory {
    fn usage(self, context: &GpuContext) -> wgpu::BufferUsages {
        use wgpu::BufferUsages as U;
        let host = match self {
            Self::Device => return U::STORAGE | U::COPY_SRC | U::COPY_DST,
            Self::Upload => U::MAP_WRITE | U::COPY_SRC,
            Self::Readback => U::MAP_READ | U::COPY_DST,
        };
        if context.capabilities().mapped_buffers { host | U::STORAGE } else { host }
    }
}

/// Sizes are rounded up to an eighth of their power of two, and whole 16-byte vectors: few classes, at most an eighth wasted,
/// and room after odd numbers of bytes.
fn class_of(bytes: u64) -> u64 {
    let bytes = bytes.max(256);
    let step = (1u64 << (63 - bytes.leading_zeros())) / 8;
    bytes.checked_next_multiple_of(step.max(16)).unwrap_or(bytes)
}

/// Memory of a device.
#[derive(Debug, Clone)]
pub(crate) struct Allocation {
    pub(crate) id: u64,
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) memory: Memory,
}

/// Memory in use: back in the pool when its last user is gone.
///
/// Views, bound kernels and recordings share it, so that a buffer dropped between recording and submission is not handed
/// to somebody else meanwhile.
#[derive(Debug)]
pub(crate) struct RawBuffer {
    pub(crate) allocation: Allocation,
    pub(crate) context: Arc<GpuContext>,
}

impl RawBuffer {
    pub(crate) fn id(&self) -> u64 {
        self.allocation.id
    }

    pub(crate) fn buffer(&self) -> &wgpu::Buffer {
        &self.allocation.buffer
    }

    pub(crate) fn memory(&self) -> Memory {
        self.allocation.memory
    }
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        self.context.give_back(self.allocation.clone());
    }
}

/// Buffers waiting to be used again.
#[derive(Debug)]
pub(crate) struct BufferPool {
    /// By kind and size; of equal ones the oldest first, whatever the order of return: a program that repeats itself gets the
    /// same buffers in the same roles, and so the same bind groups.
    free: HashMap<(Memory, u64), BTreeMap<u64, (Allocation, u64)>>,
    /// Kind, size and id by the order of return.
    returned: BTreeMap<u64, (Memory, u64, u64)>,
    bytes: u64,
    limit: u64,
    next: u64,
}

impl BufferPool {
    pub(crate) fn new(limit: u64) -> Self {
        Self { free: HashMap::new(), returned: BTreeMap::new(), bytes: 0, limit, next: 0 }
    }

    fn take(&mut self, memory: Memory, size: u64) -> Option<Allocation> {
        let (_, (allocation, stamp)) = self.free.get_mut(&(memory, size))?.pop_first()?;
        self.returned.remove(&stamp);
        self.bytes -= size;
        Some(allocation)
    }

    /// Keeps an allocation, and hands out those that have waited longest where there is no room for all.
    fn keep(&mut self, allocation: Allocation) -> Vec<Allocation> {
        let (memory, size) = (allocation.memory, allocation.buffer.size());
        if size > self.limit {
            return vec![allocation];
        }
        let mut evicted = Vec::new();
        while self.bytes + size > self.limit
            && let Some((_, (memory, size, id))) = self.returned.pop_first()
        {
            let old = self.free.get_mut(&(memory, size)).and_then(|class| class.remove(&id));
            evicted.extend(old.map(|(allocation, _)| allocation));
            self.bytes -= size;
        }
        let (stamp, id) = (self.next, allocation.id);
        self.next += 1;
        self.bytes += size;
        self.returned.insert(stamp, (memory, size, id));
        self.free.entry((memory, size)).or_default().insert(id, (allocation, stamp));
        evicted
    }

    fn empty(&mut self) -> Vec<Allocation> {
        let all = std::mem::replace(self, Self::new(self.limit));
        all.free.into_values().flat_map(BTreeMap::into_values).map(|(allocation, _)| allocation).collect()
    }
}

/// Freed bytes from which on the device is polled: asking costs about as much as freeing a small buffer.
const POLL_BYTES: u64 = 1 << 20;

/// Freed bytes that commands under way may hold before the next one to free any waits for them.
const HELD_BYTES: u64 = 256 << 20;

impl GpuContext {
    /// Memory for `bytes`.
    pub(crate) fn allocate(self: &Arc<Self>, bytes: u128, memory: Memory) -> Result<Arc<RawBuffer>> {
        let limit = self.info().max_buffer_bytes;
        let size = match u64::try_from(bytes) {
            Ok(bytes) if bytes <= limit / 4 * 4 => class_of(bytes).min(limit / 4 * 4),
            _ => return Err(Error::TooLarge { what: Limit::BufferBytes, actual: bytes, limit }),
        };
        let allocation = self.allocation(size, memory)?;
        Ok(Arc::new(RawBuffer { allocation, context: Arc::clone(self) }))
    }

    fn allocation(&self, size: u64, memory: Memory) -> Result<Allocation> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        self.check()?;
        if let Some(allocation) = lock(&self.pool).take(memory, size) {
            return Ok(allocation);
        }
        let usage = memory.usage(self);
        let descriptor =
            wgpu::BufferDescriptor { label: Some("aleatron"), size, usage, mapped_at_creation: false };
        let buffer = self.scoped_in_memory(|device| device.create_buffer(&descriptor))?;
        self.counters.buffers.fetch_add(1, Ordering::Relaxed);
        Ok(Allocation { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), buffer, memory })
    }

    fn give_back(&self, allocation: Allocation) {
        let freed = if self.is_lost() { vec![allocation] } else { lock(&self.pool).keep(allocation) };
        self.free(freed);
    }

    fn free(&self, freed: Vec<Allocation>) {
        if freed.is_empty() {
            return;
        }
        let bytes: u64 = freed.iter().map(|allocation| allocation.buffer.size()).sum();
        // Bind groups keep their buffers alive.
        let mut bind_groups = lock(&self.bind_groups);
        freed.iter().for_each(|allocation| bind_groups.forget(allocation.id));
        drop(bind_groups);
        // Not `destroy`: that waits for whoever is waiting for the device.
        drop(freed);
        self.release(bytes);
    }

    /// Has wgpu give back what was freed. It holds buffers until the commands that use them, and writes not yet submitted, are
    /// done and somebody asks.
    fn release(&self, bytes: u64) {
        let unreleased = self.unreleased.fetch_add(bytes, Ordering::AcqRel) + bytes;
        if unreleased < POLL_BYTES || self.is_lost() {
            return;
        }
        self.flush();
        // Errors are for those who compute, not for those who free.
        let busy = matches!(self.poll_as(wgpu::PollType::Poll), Ok(false));
        if busy && unreleased <= HELD_BYTES && self.watch(Watch::Everything) {
            return;
        }
        if busy {
            let _ = self.poll_as(wgpu::PollType::wait_indefinitely());
        }
        self.unreleased.store(0, Ordering::Release);
    }

    /// Frees every pooled buffer that is not in use, and waits for the device to give the memory back.
    pub fn trim(&self) {
        let freed = lock(&self.pool).empty();
        self.free(freed);
        self.flush();
        let _ = self.poll_as(wgpu::PollType::wait_indefinitely());
    }

    /// The bytes the pool keeps for reuse.
    #[must_use]
    pub fn pooled_bytes(&self) -> u64 {
        lock(&self.pool).bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_an_eighth() {
        for bytes in
            [1u64, 255, 256, 257, 1000, 4096, 4097, 1 << 20, (1 << 20) + 1, 64_000_000, (1 << 31) - 5]
        {
            let class = class_of(bytes);
            assert!(class >= bytes && class.is_multiple_of(16), "{bytes} -> {class}");
            assert!(bytes < 256 || class - bytes <= bytes / 8, "{bytes} -> {class}");
        }
        assert_eq!(class_of(257), 288);
        assert_eq!(class_of(258), class_of(257));
    }
}
