//! The buffer pool.
//!
//! Buffers come in size classes and return to the pool when dropped, so that a program that repeats
//! itself allocates once. Above the limit of the pool the least recently returned ones are freed.
//! wgpu releases freed memory only when the device is polled, so freeing polls it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::context::{GpuContext, lock};
use crate::error::{Error, Limit, Result};
use crate::wait::PollRequest;

/// The access to a buffer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Memory {
    /// By kernels and copies: the fastest for them.
    Device,
    /// Written by the host, read by copies, and by kernels if the device has
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

/// Rounds sizes up to an eighth of their power of two, and whole 16-byte vectors: few classes, at
/// most an eighth wasted, and room after odd numbers of bytes.
fn class_of(bytes: u64) -> u64 {
    let bytes = bytes.max(256);
    let step = (1u64 << (63 - bytes.leading_zeros())) / 8;
    bytes.checked_next_multiple_of(step.max(16)).unwrap_or(bytes)
}

/// A buffer of wgpu with an identity: bind groups are cached by it.
#[derive(Debug, Clone)]
pub(crate) struct Allocation {
    pub(crate) id: u64,
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) memory: Memory,
}

/// An allocation in use; it returns to the pool when the last reference is dropped.
///
/// Bound kernels and recordings hold references, so that a buffer dropped between recording and
/// submission is not reused before its commands are submitted.
#[derive(Debug)]
pub(crate) struct RawBuffer {
    pub(crate) allocation: Allocation,
    pub(crate) context: Arc<GpuContext>,
    /// Whether handles of the memory exist outside this crate, so that it must not be used for
    /// another buffer.
    is_shared: AtomicBool,
}

impl RawBuffer {
    pub(crate) fn id(&self) -> u64 {
        self.allocation.id
    }

    pub(crate) fn buffer(&self) -> &wgpu::Buffer {
        &self.allocation.buffer
    }

    /// Returns the buffer, whose memory does not return to the pool from now on.
    #[cfg(feature = "raw")]
    pub(crate) fn share(&self) -> &wgpu::Buffer {
        self.is_shared.store(true, Ordering::Relaxed);
        &self.allocation.buffer
    }

    pub(crate) fn memory(&self) -> Memory {
        self.allocation.memory
    }
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        let allocation = self.allocation.clone();
        if self.is_shared.load(Ordering::Relaxed) {
            self.context.free(vec![allocation]);
        } else {
            self.context.give_back(allocation);
        }
    }
}

/// Allocations that are not in use.
#[derive(Debug)]
pub(crate) struct BufferPool {
    /// By kind and size, then by id. The lowest id is taken first: a program that repeats itself
    /// gets the same buffers in the same roles, and so the same bind groups.
    free: HashMap<(Memory, u64), BTreeMap<u64, (Allocation, u64)>>,
    /// Kind, size and id in order of return, for eviction.
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

    /// Retains an allocation. Returns the evicted ones, the least recently returned first.
    fn retain_allocation(&mut self, allocation: Allocation) -> Vec<Allocation> {
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
        all.free
            .into_values()
            .flat_map(BTreeMap::into_values)
            .map(|(allocation, _)| allocation)
            .collect()
    }
}

/// Number of freed bytes from which the device is polled: a poll costs about as much as freeing a
/// small buffer.
const POLL_BYTES: u64 = 1 << 20;

/// Number of freed bytes that submitted commands may still hold; above this limit, freeing waits
/// for the commands.
const HELD_BYTES: u64 = 256 << 20;

impl GpuContext {
    /// Allocates memory for `bytes`.
    pub(crate) fn allocate(
        self: &Arc<Self>,
        bytes: u128,
        memory: Memory,
    ) -> Result<Arc<RawBuffer>> {
        let limit = self.info().max_buffer_bytes;
        let size = match u64::try_from(bytes) {
            Ok(bytes) if bytes <= limit / 4 * 4 => class_of(bytes).min(limit / 4 * 4),
            _ => return Err(Error::TooLarge { what: Limit::BufferBytes, actual: bytes, limit }),
        };
        let allocation = self.allocation(size, memory)?;
        let is_shared = AtomicBool::new(false);
        Ok(Arc::new(RawBuffer { allocation, context: Arc::clone(self), is_shared }))
    }

    fn allocation(&self, size: u64, memory: Memory) -> Result<Allocation> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        self.check()?;
        if let Some(allocation) = lock(&self.pool).take(memory, size) {
            return Ok(allocation);
        }
        let usage = memory.usage(self);
        let descriptor = wgpu::BufferDescriptor {
            label: Some("aleatron"),
            size,
            usage,
            mapped_at_creation: false,
        };
        let buffer = self.scoped_in_memory(|device| device.create_buffer(&descriptor))?;
        self.counters.buffers.fetch_add(1, Ordering::Relaxed);
        Ok(Allocation { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), buffer, memory })
    }

    fn give_back(&self, allocation: Allocation) {
        let freed = if self.is_lost() {
            vec![allocation]
        } else {
            lock(&self.pool).retain_allocation(allocation)
        };
        self.free(freed);
    }

    fn free(&self, freed: Vec<Allocation>) {
        if freed.is_empty() {
            return;
        }
        let bytes: u64 = freed.iter().map(|allocation| allocation.buffer.size()).sum();
        // Bind groups keep their buffers alive.
        let mut bind_groups = lock(&self.bind_groups);
        freed.iter().for_each(|allocation| bind_groups.evict_buffer(allocation.id));
        drop(bind_groups);
        // Not `destroy`: it takes a lock that is held by threads waiting for the device.
        drop(freed);
        self.release(bytes);
    }

    /// Makes wgpu release freed memory, which it holds until pending writes and submitted commands
    /// that use it are done and the device is polled.
    fn release(&self, bytes: u64) {
        let unreleased = self.unreleased.fetch_add(bytes, Ordering::AcqRel) + bytes;
        if unreleased < POLL_BYTES || self.is_lost() {
            return;
        }
        self.flush();
        // A lost device is reported by the next operation.
        let busy = matches!(self.poll_as(wgpu::PollType::Poll), Ok(false));
        if busy && unreleased <= HELD_BYTES && self.request_poll(PollRequest::Everything) {
            return;
        }
        if busy {
            let _ = self.poll_as(wgpu::PollType::wait_indefinitely());
        }
        self.unreleased.store(0, Ordering::Release);
    }

    /// Frees all buffers of the pool, and waits until the device has released their memory.
    pub fn trim(&self) {
        let freed = lock(&self.pool).empty();
        self.free(freed);
        self.flush();
        let _ = self.poll_as(wgpu::PollType::wait_indefinitely());
    }

    /// Returns the number of bytes that the pool retains for reuse.
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
        for bytes in [
            1u64,
            255,
            256,
            257,
            1000,
            4096,
            4097,
            1 << 20,
            (1 << 20) + 1,
            64_000_000,
            (1 << 31) - 5,
        ] {
            let class = class_of(bytes);
            assert!(class >= bytes && class.is_multiple_of(16), "{bytes} -> {class}");
            assert!(bytes < 256 || class - bytes <= bytes / 8, "{bytes} -> {class}");
        }
        assert_eq!(class_of(257), 288);
        assert_eq!(class_of(258), class_of(257));
    }
}
