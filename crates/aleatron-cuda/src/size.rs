//! Sizes as kernels and hosts take them, by checked conversions.
//!
//! Kernels count most things with 32 bits. Every size, count, offset and divisor of that width
//! passes [`size_u32`]; one that does not fit is an error with its name. What is wider is 64 bits
//! in the parameters, and `View::check` compares its bytes in 128 bits.

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

/// Converts a number of bytes or elements of a card that the host counts, too. The host counts all
/// memory that it can name.
pub(crate) fn host_size(value: impl TryInto<usize>) -> usize {
    value.try_into().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_past_32_bits_is_refused_by_name() {
        assert_eq!(size_u32(u32::MAX as usize, "samples"), Ok(u32::MAX));
        for value in [1u64 << 32, (1 << 32) + 7, u64::MAX] {
            let error = size_u32(value, "samples").unwrap_err().to_string();
            assert!(error.contains("samples") && error.contains(&value.to_string()), "{error}");
        }
    }
}
