//! Checked conversions of sizes for kernels and hosts.
//!
//! Kernels count most sizes with 32 bits. Every size, count, offset and divisor of that width
//! passes [`size_u32`]; a value that does not fit is an error with its name. Wider parameters have
//! 64 bits, and `View::check` compares their bytes in 128 bits.

use crate::error::{Error, Limit, Result};

/// Converts a size, a count or an offset to the 32 bits that kernels count with.
pub(crate) fn size_u32<T: Copy + TryInto<u32> + TryInto<u128>>(
    value: T,
    what: &'static str,
) -> Result<u32> {
    value.try_into().map_err(|_| {
        let actual = TryInto::<u128>::try_into(value).unwrap_or(u128::MAX);
        Error::TooLarge { what: Limit::Kernel(what), actual, limit: u32::MAX.into() }
    })
}

/// Converts a number of bytes or elements of device memory to a size of the host, which can address
/// all memory it counts.
pub(crate) fn host_size(value: impl TryInto<usize>) -> usize {
    value.try_into().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_above_32_bits_is_an_error_with_its_name() {
        assert_eq!(size_u32(u32::MAX as usize, "samples"), Ok(u32::MAX));
        for value in [1u64 << 32, (1 << 32) + 7, u64::MAX] {
            let error = size_u32(value, "samples").unwrap_err().to_string();
            assert!(error.contains("samples") && error.contains(&value.to_string()), "{error}");
        }
    }
}
