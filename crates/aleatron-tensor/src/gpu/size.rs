//! Checked conversions of sizes, offsets and strides to the 32 bits of kernels.
//!
//! Kernels check nothing themselves (`gpu/mod.rs`), and a broadcast view has any number of elements
//! without memory behind them. Every number of the host that reaches a kernel therefore passes a
//! function of this file; a number that does not fit is an error with its name.

use crate::device::MAX_ELEMENTS;
use crate::error::{Error, Limit, Result};
use crate::layout::Layout;

/// Converts a size or a count, of which indices below or slightly past it are formed.
pub(crate) fn size(what: &'static str, value: usize) -> Result<u32> {
    match u32::try_from(value) {
        Ok(size) if value <= MAX_ELEMENTS => Ok(size),
        _ => Err(too_large(what, value as u128)),
    }
}

/// Converts a size that kernels compare as a signed number.
pub(crate) fn signed_size(what: &'static str, value: usize) -> Result<u32> {
    let limit = i32::MAX as u128 - (1 << 16);
    if value as u128 <= limit {
        return size(what, value);
    }
    Err(Error::TooLarge { what: Limit::Kernel(what), actual: value as u128, limit })
}

/// Multiplies sizes; kernels count up to the product.
pub(crate) fn product(what: &'static str, sizes: &[usize]) -> Result<usize> {
    if sizes.contains(&0) {
        return Ok(0);
    }
    let product = sizes.iter().fold(1u128, |product, &size| product.saturating_mul(size as u128));
    match usize::try_from(product) {
        Ok(product) if product <= MAX_ELEMENTS => Ok(product),
        _ => Err(too_large(what, product)),
    }
}

/// Converts the offset of an element, or of a vector, in its buffer.
pub(crate) fn offset(value: usize) -> Result<u32> {
    u32::try_from(value).map_err(|_| too_large("offset of a view", value as u128))
}

/// Converts the step between neighbours along an axis. Steps are taken modulo 2^32, as are the sums
/// that kernels form with them: an offset inside a buffer is the same. The step along an axis of one
/// element is never taken and becomes 0.
pub(crate) fn step(size: usize, step: isize) -> Result<u32> {
    if size <= 1 {
        return Ok(0);
    }
    wrapped("step of a view", step)
}

/// Converts the steps of all axes of a layout.
pub(crate) fn steps(layout: &Layout) -> Result<Vec<u32>> {
    layout.shape().iter().zip(layout.strides()).map(|(&size, &stride)| step(size, stride)).collect()
}

/// Converts a number that may be negative to its residue modulo 2^32.
pub(crate) fn wrapped(what: &'static str, value: isize) -> Result<u32> {
    if value.unsigned_abs() as u128 > u128::from(u32::MAX) {
        return Err(too_large(what, value.unsigned_abs() as u128));
    }
    u32::try_from(value.rem_euclid(1 << 32)).map_err(|_| Error::internal("gpu::size::wrapped"))
}

/// Splits 64 bits into words, the low one first.
pub(crate) fn words_of(bits: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = bits.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

fn too_large(what: &'static str, actual: u128) -> Error {
    Error::TooLarge { what: Limit::Kernel(what), actual, limit: MAX_ELEMENTS as u128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_past_32_bits_is_an_error_with_its_name() {
        assert_eq!(size("rows", MAX_ELEMENTS).unwrap() as usize, MAX_ELEMENTS);
        for value in
            [MAX_ELEMENTS + 1, u32::MAX as usize, 1 << 32, (1 << 32) + 1, 1 << 33, usize::MAX]
        {
            let error = size("rows", value).unwrap_err().to_string();
            assert!(error.contains("rows") && error.contains(&value.to_string()), "{error}");
            assert!(signed_size("keys", value).is_err());
        }
        assert!(signed_size("keys", 1 << 31).is_err());
        assert_eq!(signed_size("keys", 1 << 30), Ok(1 << 30));
    }

    #[test]
    fn product_that_overflows_is_an_error() {
        assert_eq!(product("elements", &[1 << 16, 1 << 15]), Ok(1 << 31));
        assert_eq!(product("elements", &[usize::MAX, 0, usize::MAX]), Ok(0));
        for sizes in
            [&[1 << 16, 1 << 16][..], &[1 << 32, 1 << 32], &[usize::MAX, usize::MAX, usize::MAX]]
        {
            assert!(matches!(product("elements", sizes), Err(Error::TooLarge { .. })), "{sizes:?}");
        }
    }

    #[test]
    fn steps_of_single_elements_become_zero() {
        assert_eq!(step(2, -1), Ok(u32::MAX));
        assert_eq!(step(2, u32::MAX as isize), Ok(u32::MAX));
        assert_eq!(step(1, isize::MAX), Ok(0));
        assert!(step(2, 1 << 32).is_err());
        assert!(step(2, -(1 << 32)).is_err());
        assert_eq!(wrapped("padding", -3), Ok(u32::MAX - 2));
        assert_eq!(words_of(0x0123_4567_89ab_cdef), [0x89ab_cdef, 0x0123_4567]);
    }
}
