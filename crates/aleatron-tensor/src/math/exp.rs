//! Exponentials and functions based on them.

use super::{log1p, nearest, polynomial, power_of_two, scale};

/// 1 / ln 2.
pub(super) const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// The first 12 bits of ln 2: its products with integers of up to 12 bits are exact.
pub(super) const LN2_HIGH: f32 = 0.693_115_23;
/// The rest of it.
pub(super) const LN2_LOW: f32 = 3.194_618_3e-5;

/// (e^r - 1 - r) / r^2 for |r| up to half of ln 2.
const EXPM1: [f32; 6] =
    [0.5, 0.166_666_67, 0.041_666_463, 0.008_333_285, 0.001_393_382_2, 0.000_199_077_91];

/// e^r - 1 for |r| up to half of ln 2.
#[inline(always)]
fn expm1_reduced(r: f32) -> f32 {
    r + r * r * polynomial(r, EXPM1)
}

/// e^(high + low), where `low` is small beside `high`, which is in -104..=89.
#[inline(always)]
pub(super) fn exp_of_sum(high: f32, low: f32) -> f32 {
    let (n, k) = nearest((high + low) * LOG2_E);
    let r = ((high - n * LN2_HIGH) - n * LN2_LOW) + low;
    scale(1.0 + expm1_reduced(r), k)
}

/// e^x.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Past these ends the result is 0 or infinite anyway; a NaN stays one.
    exp_of_sum(x.clamp(-104.0, 89.0), 0.0)
}

/// e^x - 1.
#[inline(always)]
pub(crate) fn expm1(x: f32) -> f32 {
    let x = if x < -18.0 { -18.0 } else { x };
    let x_in_range = if x > 89.0 { 89.0 } else { x };
    let (n, k) = nearest(x_in_range * LOG2_E);
    let r = (x_in_range - n * LN2_HIGH) - n * LN2_LOW;
    // 1 - 2^-n is 0 for n = 0, where the polynomial alone is the result.
    let value = scale(expm1_reduced(r) + (1.0 - power_of_two(k.wrapping_neg().max(-126))), k);
    // A zero has the sign of x.
    value.copysign(x)
}

/// tanh x, relatively accurate near 0 too.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let magnitude = if magnitude > 10.0 { 10.0 } else { magnitude };
    let e = expm1(2.0 * magnitude);
    (e / (e + 2.0)).copysign(x)
}

/// 1 / (1 + e^-x), relatively accurate for large negative x too.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    let numerator = if x >= 0.0 { 1.0 } else { e };
    numerator / (1.0 + e)
}

/// x / (1 + e^-x); its limit 0 for minus infinity.
#[inline(always)]
pub(crate) fn silu(x: f32) -> f32 {
    let x = if x < -200.0 { -200.0 } else { x };
    x * sigmoid(x)
}

/// ln(1 + e^x).
#[inline(always)]
pub(crate) fn softplus(x: f32) -> f32 {
    let positive = if x < 0.0 { 0.0 } else { x };
    positive + log1p(exp(-x.abs()))
}

/// Returns x if it is positive, otherwise slope (e^x - 1).
#[inline(always)]
pub(crate) fn elu(x: f32, slope: f32) -> f32 {
    let negative = slope * expm1(x);
    if x > 0.0 { x } else { negative }
}

/// Returns the approximation of [`gelu`](super::gelu) through tanh: x / (1 + e^(-2 u)), u = sqrt(2
/// / pi) (x + 0.044715 x^3).
#[inline(always)]
pub(crate) fn gelu_tanh(x: f32) -> f32 {
    let x = if x < -30.0 { -30.0 } else { x };
    let inner = x * (1.595_769 + 0.071_354_81 * (x * x));
    x * sigmoid(inner)
}
