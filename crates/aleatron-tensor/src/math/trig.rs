//! Sine and cosine.

use super::{nearest, polynomial};

/// Up to here the quarter turns of an argument are split off in floats.
const REDUCED: f32 = 8192.0;

/// A quarter turn in parts, the first three of 11 bits: their products with up to 13 bits are
/// exact.
const QUARTER: [f32; 4] = [1.570_312_5, 0.000_483_751_3, 7.549_533_6e-8, 2.563_344e-12];

const SIN: [f32; 4] = [-0.166_666_67, 0.008_333_332, -0.000_198_400_78, 2.724_877_7e-6];
const COS: [f32; 4] = [0.041_666_668, -0.001_388_888_8, 2.480_059_3e-5, -2.729_999_3e-7];

/// Returns the sine of `x + quarters` quarter turns, for |x| up to 8192.
#[inline(always)]
fn sin_near(x: f32, quarters: i32) -> f32 {
    let (n, k) = nearest(x * std::f32::consts::FRAC_2_PI);
    let r = (((x - n * QUARTER[0]) - n * QUARTER[1]) - n * QUARTER[2]) - n * QUARTER[3];
    let square = r * r;
    let sin = if r == 0.0 { r } else { r + r * square * polynomial(square, SIN) };
    let cos = 1.0 - 0.5 * square + square * square * polynomial(square, COS);
    let turned = k.wrapping_add(quarters);
    let value = if turned & 1 == 0 { sin } else { cos };
    // The second half of a turn is the first, negated.
    f32::from_bits(value.to_bits() ^ ((turned as u32 & 2) << 30))
}

/// sin x.
#[inline(always)]
pub(crate) fn sin(x: f32) -> f32 {
    if x.abs() <= REDUCED { sin_near(x, 0) } else { f64::from(x).sin() as f32 }
}

/// cos x.
#[inline(always)]
pub(crate) fn cos(x: f32) -> f32 {
    if x.abs() <= REDUCED { sin_near(x, 1) } else { f64::from(x).cos() as f32 }
}

/// Computes many sines, in vector registers except those of large arguments.
#[inline(always)]
pub(crate) fn sin_all(x: &[f32], out: &mut [f32]) {
    all(x, out, 0, sin);
}

/// Computes many cosines.
#[inline(always)]
pub(crate) fn cos_all(x: &[f32], out: &mut [f32]) {
    all(x, out, 1, cos);
}

#[inline(always)]
fn all(x: &[f32], out: &mut [f32], quarters: i32, each: impl Fn(f32) -> f32) {
    let mut largest = 0u32;
    for (out, &x) in out.iter_mut().zip(x) {
        *out = sin_near(x, quarters);
        // Compared as bits: NaN is the largest.
        largest = largest.max(x.abs().to_bits());
    }
    if largest > REDUCED.to_bits() {
        for (out, &x) in
            out.iter_mut().zip(x).filter(|(_, x)| x.abs().to_bits() > REDUCED.to_bits())
        {
            *out = each(x);
        }
    }
}
