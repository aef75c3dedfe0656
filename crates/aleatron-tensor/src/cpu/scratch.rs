//! Working memory of a thread, for kernels that run many times.

use std::cell::Cell;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::storage::HostBuffer;

/// Floats that a thread retains; more are allocated for each call.
const RETAINED: usize = 1 << 18;

thread_local! {
    static SCRATCH: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Runs `task` on floats whose contents are unspecified. They are not cleared: that takes as long
/// as filling them.
///
/// # Errors
/// [`Error::Memory`] if memory is exhausted, or those of `task`.
pub(super) fn with_scratch<T>(len: usize, task: impl FnOnce(&mut [f32]) -> Result<T>) -> Result<T> {
    if len > RETAINED {
        let mut buffer = HostBuffer::for_elements(DType::F32, len)?;
        return task(buffer.slice_mut()?);
    }
    // A call inside another one finds no memory and allocates its own.
    let mut scratch = SCRATCH.take();
    if let Some(missing) = len.checked_sub(scratch.len()) {
        let bytes = 4 * len as u128;
        let refused = |_| Error::Memory { bytes, available: aleatron_core::memory::available() };
        scratch.try_reserve_exact(missing).map_err(refused)?;
        scratch.resize(len, 0.0);
    }
    let result = task(&mut scratch[..len]);
    SCRATCH.set(scratch);
    result
}
