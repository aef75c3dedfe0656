//! Checked conversions of sizes for kernels and hosts.
//!
//! Kernels count with 32 bits. Every size, count, offset and divisor for a kernel passes
//! [`size_u32`]; a value that does not fit is an error with its name.

use crate::error::{Error, Limit, Result};

/// Converts a size, a count or an offset to the 32 bits that kernels count with.
///
/// ```
/// use aleatron_device::size_u32;
/// assert_eq!(size_u32(7usize, "rows")?, 7);
/// let error = size_u32(1u64 << 32, "rows").unwrap_err();
/// assert_eq!(error.to_string(), "rows: 4294967296, the device's maximum is 4294967295");
/// # Ok::<(), aleatron_device::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::TooLarge`] with the name above 2^32 - 1.
pub fn size_u32<T: Copy + TryInto<u32> + TryInto<u128>>(
    value: T,
    what: &'static str,
) -> Result<u32> {
    value.try_into().map_err(|_| {
        let actual = TryInto::<u128>::try_into(value).unwrap_or(u128::MAX);
        Error::TooLarge { what: Limit::Kernel(what), actual, limit: u32::MAX.into() }
    })
}

/// Converts bytes or elements of a device to a size of the host, which can address all memory it
/// counts.
pub(crate) fn host_size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
