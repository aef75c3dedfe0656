//! Elements in host memory.

use std::fmt;
use std::sync::Mutex;

use aleatron_core::Quantity;
use aleatron_cpu::AlignedBuffer;
use bytemuck::Pod;

use crate::dtype::DType;
use crate::error::{Error, Result};

/// Memory owned by another library that holds elements. It must not change while it is held.
pub trait HostMemory: Send + Sync {
    /// Returns the bytes.
    fn bytes(&self) -> &[u8];
}

impl<T: Pod + Send + Sync> HostMemory for Vec<T> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
}

/// Elements in host memory.
pub struct CpuStorage {
    dtype: DType,
    len: usize,
    memory: Memory,
}

enum Memory {
    Own(HostBuffer),
    Foreign(Box<dyn HostMemory>),
}

impl fmt::Debug for CpuStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuStorage({} x {})", self.len, self.dtype)
    }
}

impl CpuStorage {
    /// Creates a storage over a buffer of this crate.
    pub(crate) fn new(dtype: DType, len: usize, buffer: HostBuffer) -> Self {
        Self { dtype, len, memory: Memory::Own(buffer) }
    }

    /// Creates a storage over memory owned by another library, without a copy. Bytes of booleans
    /// must be 0 or 1.
    ///
    /// # Errors
    /// [`Error::Argument`] if the bytes are not whole elements, are not aligned for them, or are
    /// not booleans.
    pub fn foreign(dtype: DType, memory: Box<dyn HostMemory>) -> Result<Self> {
        const OP: &str = "foreign memory";
        let (bytes, size) = (memory.bytes(), dtype.size());
        if !bytes.len().is_multiple_of(size) {
            return Err(Error::argument(
                OP,
                "number of bytes",
                bytes.len(),
                "it must be that of whole elements",
            ));
        }
        if !bytes.as_ptr().addr().is_multiple_of(size) {
            return Err(Error::argument(
                OP,
                "address",
                bytes.as_ptr(),
                "it must be a multiple of the size of an element",
            ));
        }
        if dtype == DType::Bool
            && let Some((index, &byte)) = bytes.iter().enumerate().find(|(_, byte)| **byte > 1)
        {
            return Err(Error::argument(
                OP,
                "boolean",
                (index, byte),
                "the byte at an index must be 0 or 1",
            ));
        }
        Ok(Self { dtype, len: bytes.len() / size, memory: Memory::Foreign(memory) })
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of the elements.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Own(buffer) => buffer.bytes(),
            Memory::Foreign(memory) => memory.bytes(),
        }
    }

    /// Returns the elements as they are stored.
    ///
    /// # Errors
    /// [`Error::Internal`] for a type of another size.
    pub(crate) fn slice<T: Pod>(&self) -> Result<&[T]> {
        if self.len == 0 {
            // An empty slice may have any address.
            return Ok(&[]);
        }
        match bytemuck::try_cast_slice(self.bytes()) {
            Ok(elements) if elements.len() == self.len => Ok(elements),
            _ => Err(Error::internal("storage::CpuStorage::slice")),
        }
    }
}

/// A buffer of bytes that returns to a cache when dropped: pages that were touched before need not
/// be mapped again, which for large buffers takes longer than filling them.
pub(crate) struct HostBuffer {
    /// `None` only while it is dropped.
    buffer: Option<AlignedBuffer<u8>>,
    len: usize,
}

/// The size of the cache in bytes.
const CACHE_BYTES: usize = 512 << 20;

/// The number of buffers in the cache, which are searched one by one.
const CACHE_BUFFERS: usize = 256;

/// Smaller buffers are left to the allocator, which is fast for them.
const CACHED_FROM: usize = 1 << 16;

static CACHE: Mutex<Vec<AlignedBuffer<u8>>> = Mutex::new(Vec::new());

impl HostBuffer {
    /// Returns a buffer for `len` elements whose contents are unspecified: all of them must be
    /// written.
    ///
    /// # Errors
    /// [`Error::Memory`] if memory is exhausted.
    pub(crate) fn for_elements(dtype: DType, len: usize) -> Result<Self> {
        let bytes = len as u128 * dtype.size() as u128;
        let refused = || Error::Memory { bytes, available: aleatron_core::memory::available() };
        let len = usize::try_from(bytes).map_err(|_| refused())?;
        // No thread waits for the lock: allocating a new buffer takes less time, and a child of a
        // fork could block forever.
        let cached = if len >= CACHED_FROM {
            CACHE.try_lock().ok().and_then(|mut cache| {
                let fits = |buffer: &AlignedBuffer<u8>| {
                    buffer.len() >= len && buffer.len() - len <= len / 8
                };
                cache.iter().rposition(fits).map(|index| cache.remove(index))
            })
        } else {
            None
        };
        let buffer = match cached {
            Some(buffer) => buffer,
            None => AlignedBuffer::zeroed(len, Quantity::Words)?,
        };
        Ok(Self { buffer: Some(buffer), len })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer[..self.len])
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], |buffer| &mut buffer[..self.len])
    }

    /// Returns the elements as they are stored. Buffers begin with a cache line, so those of any
    /// type are aligned.
    ///
    /// # Errors
    /// [`Error::Internal`] for a type of which the buffer holds no whole elements.
    pub(crate) fn slice_mut<T: Pod>(&mut self) -> Result<&mut [T]> {
        if self.len == 0 {
            return Ok(&mut []);
        }
        bytemuck::try_cast_slice_mut(self.bytes_mut())
            .map_err(|_| Error::internal("storage::HostBuffer::slice_mut"))
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take().filter(|buffer| buffer.len() >= CACHED_FROM) else {
            return;
        };
        let Ok(mut cache) = CACHE.try_lock() else { return };
        let mut freed = Vec::new();
        let mut kept: usize = cache.iter().map(|buffer| buffer.len()).sum();
        // The oldest buffers are evicted first.
        while (kept + buffer.len() > CACHE_BYTES || cache.len() >= CACHE_BUFFERS)
            && !cache.is_empty()
        {
            let oldest = cache.remove(0);
            kept -= oldest.len();
            freed.push(oldest);
        }
        if kept + buffer.len() <= CACHE_BYTES {
            cache.push(buffer);
        } else {
            freed.push(buffer);
        }
        // Unmapping happens outside the lock.
        drop(cache);
        drop(freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_memory_must_hold_elements() {
        let storage = CpuStorage::foreign(DType::F32, Box::new(vec![1.5f32, 2.5])).unwrap();
        assert_eq!((storage.len(), storage.slice::<f32>()), (2, Ok(&[1.5f32, 2.5][..])));
        assert_eq!(storage.slice::<u16>(), Err(Error::internal("storage::CpuStorage::slice")));
        assert!(CpuStorage::foreign(DType::F32, Box::new(vec![1u8; 7])).is_err());
        assert!(CpuStorage::foreign(DType::Bool, Box::new(vec![0u8, 1])).is_ok());
        assert!(CpuStorage::foreign(DType::Bool, Box::new(vec![0u8, 2])).is_err());
        struct Odd(Vec<u64>);
        impl HostMemory for Odd {
            fn bytes(&self) -> &[u8] {
                &bytemuck::cast_slice(&self.0)[1..5]
            }
        }
        assert!(CpuStorage::foreign(DType::F32, Box::new(Odd(vec![0; 2]))).is_err());
    }

    #[test]
    fn large_buffers_are_reused_and_huge_ones_are_errors() {
        let len = (3 << 20) + 5;
        let mut first = HostBuffer::for_elements(DType::U8, len).unwrap();
        first.bytes_mut()[len - 1] = 77;
        let index = first.bytes().as_ptr();
        drop(first);
        let again = HostBuffer::for_elements(DType::U8, len - 3).unwrap();
        // Another thread may have taken the buffer.
        assert!(again.bytes().as_ptr() != index || again.bytes().len() == len - 3);
        assert!(matches!(
            HostBuffer::for_elements(DType::I64, usize::MAX),
            Err(Error::Memory { .. })
        ));
        assert!(matches!(HostBuffer::for_elements(DType::F32, 1 << 50), Err(Error::Memory { .. })));
    }
}
