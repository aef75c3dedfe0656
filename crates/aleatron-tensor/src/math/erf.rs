//! The error function and GELU.

use super::exp::exp_of_sum;
use super::polynomial;

/// erf(x) / x in x^2, for |x| up to 1.
#[allow(clippy::approx_constant, reason = "the coefficient of a fit")]
const ERF: [f32; 7] = [
    1.128_379_1,
    -0.376_126_26,
    0.112_836,
    -0.026_854_444,
    0.005_189_533_3,
    -0.000_802_082_65,
    7.889_072e-5,
];

/// (1 + 2 x) e^(x^2) erfc(x) in (x - 3) / (x + 3), for x from 0 to 11.
const ERFCX: [f32; 11] = [
    1.253_008,
    -0.135_621_15,
    -0.047_562_5,
    0.129_646_54,
    -0.119_269_31,
    0.068_296_045,
    -0.023_806_272,
    0.002_559_16,
    0.002_014_048_9,
    -0.000_756_342_2,
    -0.000_259_766_76,
];

/// e^(x^2) erfc(x) for x from 0 to 11.
#[inline(always)]
fn scaled_erfc(x: f32) -> f32 {
    polynomial((x - 3.0) / (x + 3.0), ERFCX) / (1.0 + 2.0 * x)
}

/// e^(-x^2 factor), without the error of squaring; `factor` is a power of two, and the result at
/// least e^-104.
#[inline(always)]
fn exp_of_square(x: f32, factor: f32) -> f32 {
    // The square of the first 12 bits is exact.
    let high = f32::from_bits(x.to_bits() & 0xffff_f000);
    exp_of_sum(-(high * high) * factor, (high - x) * (high + x) * factor)
}

/// Returns the error function.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let magnitude = x.abs();
    let near = x * polynomial(x * x, ERF);
    let far_x = if magnitude > 5.0 { 5.0 } else { magnitude };
    let far = (1.0 - exp_of_square(far_x, 1.0) * scaled_erfc(far_x)).copysign(x);
    if magnitude < 1.0 { near } else { far }
}

/// x times the probability that a normal variable is below x; its limit 0 for minus infinity.
#[inline(always)]
pub(crate) fn gelu(x: f32) -> f32 {
    let x = if x < -14.4 { -14.4 } else { x };
    let magnitude = x.abs();
    let magnitude = if magnitude > 14.4 { 14.4 } else { magnitude };
    // The probability of being above the magnitude.
    let tail = 0.5
        * exp_of_square(magnitude, 0.5)
        * scaled_erfc(magnitude * std::f32::consts::FRAC_1_SQRT_2);
    let far = if x >= 0.0 { 1.0 - tail } else { tail };
    let scaled = x * std::f32::consts::FRAC_1_SQRT_2;
    let near = 0.5 + 0.5 * (scaled * polynomial(scaled * scaled, ERF));
    x * if magnitude < 0.75 { near } else { far }
}
