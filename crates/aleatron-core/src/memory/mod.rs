//! Memory, asked for before it is taken: what cannot fit is an error with its bytes, never an
//! abort.
//!
//! Allocators of today promise more than there is and leave the process to be killed when it
//! touches it, so anything large is first compared with what the system has left.

#[cfg(target_os = "linux")]
mod linux;

use crate::error::{Error, Quantity, Result};

/// From this many bytes on a size is compared with what the system has left; asking takes longer
/// than a small allocation.
const ASK_FROM: u128 = 16 << 20;

/// The most bytes of a fuzzed program: on a small machine, what is too large is refused before it
/// takes long.
const FUZZED: u64 = 256 << 20;

/// Checks that `bytes` more for `what` would fit.
///
/// # Errors
/// [`Error::Memory`] where they would not.
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

/// An empty vector with room for `len` elements, which may be any product of sizes.
///
/// # Errors
/// [`Error::Memory`] where they would not fit.
pub fn with_capacity<T>(len: u128, what: Quantity) -> Result<Vec<T>> {
    let bytes = len.saturating_mul(size_of::<T>() as u128);
    check(bytes, what)?;
    let mut vector = Vec::new();
    match usize::try_from(len).map(|len| vector.try_reserve_exact(len)) {
        Ok(Ok(())) => Ok(vector),
        _ => Err(Error::Memory { what, bytes, available: available() }),
    }
}

/// A vector of `len` zeros, which may be any product of sizes.
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
/// [`Error::Memory`] where they would not fit.
pub fn zeros<T: Clone + Default>(len: u128, what: Quantity) -> Result<Vec<T>> {
    let mut vector = with_capacity(len, what)?;
    vector.resize(len as usize, T::default());
    Ok(vector)
}

/// The bytes this process may still take, where the system says: the least of what the machine and
/// the process's control groups have left.
#[must_use]
pub fn available() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        linux::available(std::path::Path::new("/"))
    }
    #[cfg(not(target_os = "linux"))]
    None
}
