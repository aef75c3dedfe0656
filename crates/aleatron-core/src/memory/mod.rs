//! Checked allocation: a size that cannot fit is an error with its bytes, never an abort.
//!
//! Allocators overcommit, and the process is killed when it touches the memory, so any large size
//! is first compared with the memory that the system has available.

#[cfg(target_os = "linux")]
mod linux;

use crate::error::{Error, Quantity, Result};

/// Sizes from this many bytes are compared with the available memory; the query takes longer than a
/// small allocation.
const ASK_FROM: u128 = 16 << 20;

/// The largest allocation of a fuzzed program: on a small machine, larger sizes are rejected before
/// they take long.
const FUZZED: u64 = 256 << 20;

/// Checks that `bytes` more for `what` fit into memory.
///
/// # Errors
/// Returns [`Error::Memory`] if they do not.
pub fn check(bytes: u128, what: Quantity) -> Result<()> {
    if bytes < ASK_FROM {
        return Ok(());
    }
    let left = if cfg!(fuzzing) { Some(FUZZED) } else { available() };
    match left {
        Some(left) if bytes > left.into() => {
            Err(Error::Memory { what, bytes, available: Some(left) })
        }
        _ => Ok(()),
    }
}

/// Creates an empty vector with capacity for `len` elements, which may be any product of sizes.
///
/// # Errors
/// Returns [`Error::Memory`] if they do not fit.
pub fn with_capacity<T>(len: u128, what: Quantity) -> Result<Vec<T>> {
    let bytes = len.saturating_mul(size_of::<T>() as u128);
    check(bytes, what)?;
    let mut vector = Vec::new();
    match usize::try_from(len).map(|len| vector.try_reserve_exact(len)) {
        Ok(Ok(())) => Ok(vector),
        _ => Err(Error::Memory { what, bytes, available: available() }),
    }
}

/// Creates a vector of `len` zeros, which may be any product of sizes.
///
/// ```
/// use aleatron_core::{Error, Quantity, memory};
/// assert_eq!(memory::zeros::<u64>(3, Quantity::Counts)?, [0, 0, 0]);
/// let refused = memory::zeros::<u64>(1 << 70, Quantity::Counts);
/// assert!(matches!(refused, Err(Error::Memory { bytes, .. }) if bytes == 8 << 70));
/// # Ok::<(), aleatron_core::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::Memory`] if they do not fit.
pub fn zeros<T: Clone + Default>(len: u128, what: Quantity) -> Result<Vec<T>> {
    let mut vector = with_capacity(len, what)?;
    vector.resize(len as usize, T::default());
    Ok(vector)
}

/// Returns the bytes that this process may still allocate, if known: the least of the available
/// memory of the machine and of the process's control groups.
#[must_use]
pub fn available() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        linux::available(std::path::Path::new("/"))
    }
    #[cfg(not(target_os = "linux"))]
    None
}
