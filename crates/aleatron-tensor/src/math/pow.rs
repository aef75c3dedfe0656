//! Powers.

use super::exp::LOG2_E;
use super::log::{log_rest, split};
use super::{nearest, polynomial, scale};

/// The first 12 bits of 1 / ln 2, and the rest.
const LOG2_E_PARTS: [f32; 2] = [1.442_382_8, 0.000_312_228_4];

/// (2^r - 1) / r for |r| up to 1/2: (e^(r ln 2) - 1) / r.
const EXP2: [f32; 7] = [
    std::f32::consts::LN_2,
    0.240_226_5,
    0.055_504_11,
    0.009_618_129,
    0.001_333_355_8,
    0.000_154_035_3,
    1.525_273_4e-5,
];

/// Returns the first 12 bits of a float.
#[inline(always)]
fn first_half(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & 0xffff_f000)
}

/// a b as a float and what that float is off by.
#[inline(always)]
fn product(a: f32, b: f32) -> (f32, f32) {
    let rounded = a * b;
    let (a_high, b_high) = (first_half(a), first_half(b));
    let (a_low, b_low) = (a - a_high, b - b_high);
    let off = ((a_high * b_high - rounded) + a_high * b_low + a_low * b_high) + a_low * b_low;
    (rounded, off)
}

/// log2 x for finite positive x, as a float and a small rest.
#[inline(always)]
fn log2_parts(x: f32) -> (f32, f32) {
    let (n, f) = split(x);
    // ln(1 + f) = f - f^2 / 2 + …: only the first two terms are large enough to need more than a
    // float.
    let (half_square, half_square_off) = product(f, 0.5 * f);
    let rest = log_rest(f) + half_square + half_square_off;
    let sum = f - half_square;
    let sum_off = ((f - sum) - half_square) - half_square_off + rest;
    let (sum, sum_off) = (sum + sum_off, sum_off - ((sum + sum_off) - sum));
    // Times 1 / ln 2.
    let high = first_half(sum);
    let low = (sum - high) + sum_off;
    let main = high * LOG2_E_PARTS[0];
    let minor = low * LOG2_E + high * LOG2_E_PARTS[1];
    let total = n + main;
    (total, ((n - total) + main) + minor)
}

/// x^y, with the special cases of IEEE 754.
#[inline(always)]
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    let magnitude = x.abs();
    let (high, low) = log2_parts(magnitude);
    // For any logarithm, a larger |y| gives 0, 1 or infinity.
    let limited = y.clamp(-1e10, 1e10);
    let (main, off) = product(high, limited);
    let exponent = main + (off + low * limited);
    let inside = exponent.clamp(-200.0, 200.0);
    let (n, k) = nearest(inside);
    let r = if inside == exponent { (main - n) + (off + low * limited) } else { 0.0 };
    let value = scale(1.0 + r * polynomial(r, EXP2), k);

    let is_integer = y.trunc() == y;
    let half = y * 0.5;
    // Floats from 2^24 on are even.
    let is_odd = is_integer && half.trunc() != half;
    let grows = (magnitude > 1.0) == (y > 0.0);
    let value = if magnitude == 0.0 || magnitude == f32::INFINITY || y.abs() == f32::INFINITY {
        if grows { f32::INFINITY } else { 0.0 }
    } else {
        value
    };
    let value = if x < 0.0 && magnitude < f32::INFINITY && !is_integer { f32::NAN } else { value };
    let value = if x.is_sign_negative() && is_odd { -value } else { value };
    let value = if x.is_nan() || y.is_nan() { f32::NAN } else { value };
    let is_one = y == 0.0 || x == 1.0 || (magnitude == 1.0 && y.abs() == f32::INFINITY);
    if is_one { 1.0 } else { value }
}

/// The arithmetic of [`int_pow`].
pub(crate) trait Integer: Copy + PartialEq {
    /// Returns the product, wrapped.
    fn times(self, other: Self) -> Self;
    /// Returns the value of a small number.
    fn small(n: i8) -> Self;
    /// As 64 bits.
    fn wide(self) -> i64;
}

macro_rules! integer {
    ($type:ty) => {
        impl Integer for $type {
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn small(n: i8) -> Self {
                n as Self
            }
            #[inline(always)]
            fn wide(self) -> i64 {
                self as i64
            }
        }
    };
}

integer!(u8);
integer!(i32);
integer!(i64);

/// x^y, wrapped. A negative power is the reciprocal without its fraction; that of 0 is 0.
pub(crate) fn int_pow<T: Integer>(x: T, y: T) -> T {
    let (mut left, mut base, mut value) = (y.wide(), x, T::small(1));
    if left < 0 {
        return match x.wide() {
            1 => x,
            -1 if left & 1 == 0 => T::small(1),
            -1 => x,
            _ => T::small(0),
        };
    }
    while left > 0 {
        if left & 1 == 1 {
            value = value.times(base);
        }
        base = base.times(base);
        left >>= 1;
    }
    value
}
