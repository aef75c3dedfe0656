//! Logarithms.

use super::exp::{LN2_HIGH, LN2_LOW, LOG2_E};
use super::polynomial;

/// (ln(1 + f) - f + f^2 / 2) / f^3 for 1 + f between the roots of 1/2 and 2.
const LOG: [f32; 9] = [
    0.333_333_1,
    -0.249_999_87,
    0.200_021_46,
    -0.166_692_17,
    0.142_200_25,
    -0.123_855_434,
    0.118_650_995,
    -0.117_807_41,
    0.069_211_73,
];

/// The bits of the root of 1/2.
const ROOT_HALF: u32 = 0x3f35_04f3;

/// Returns the exponent, and the significand less 1, which is between the roots of 1/2 and 2, less
/// 1; for finite positive x.
#[inline(always)]
pub(super) fn split(x: f32) -> (f32, f32) {
    let is_small = x < f32::MIN_POSITIVE;
    let bits = (if is_small { x * 8_388_608.0 } else { x }).to_bits();
    let shifted = bits.wrapping_add(0x3f80_0000 - ROOT_HALF);
    let exponent = (shifted >> 23) as i32 - if is_small { 127 + 23 } else { 127 };
    (exponent as f32, f32::from_bits((shifted & 0x007f_ffff) + ROOT_HALF) - 1.0)
}

/// ln(1 + f) - f for 1 + f between the roots of 1/2 and 2.
#[inline(always)]
pub(super) fn log_rest(f: f32) -> f32 {
    let square = f * f;
    square * (f * polynomial(f, LOG)) - 0.5 * square
}

/// Returns the value for arguments that are not finite and positive, otherwise `value`.
#[inline(always)]
fn special(x: f32, value: f32) -> f32 {
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    let value = if x < 0.0 { f32::NAN } else { value };
    // Infinity and NaN.
    if x < f32::INFINITY { value } else { x }
}

/// ln x.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    let (n, f) = split(x);
    special(x, n * LN2_HIGH + (f + (log_rest(f) + n * LN2_LOW)))
}

/// log2 x; exact for powers of 2.
#[inline(always)]
pub(crate) fn log2(x: f32) -> f32 {
    let (n, f) = split(x);
    let rest = log_rest(f);
    special(x, n + (f * LOG2_E + rest * LOG2_E))
}

/// log10 x.
#[inline(always)]
pub(crate) fn log10(x: f32) -> f32 {
    log(x) * std::f32::consts::LOG10_E
}

/// ln(1 + x), relatively accurate near 0 too.
#[inline(always)]
pub(crate) fn log1p(x: f32) -> f32 {
    let sum = 1.0 + x;
    // The rounding error of the sum, at most half a unit in the last place.
    let lost = x - (sum - 1.0);
    let (n, f) = split(sum);
    let value = n * LN2_HIGH + (f + (log_rest(f) + (n * LN2_LOW + lost / sum)));
    let value = if sum == 1.0 { x } else { value };
    special(sum, value)
}
