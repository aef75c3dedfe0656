//! Functions of 32-bit floats, twice: in Rust for the CPU, and in the `.wgsl` file of the same name
//! for GPUs.
//!
//! Both follow one design of additions and multiplications, which every device rounds alike,
//! instead of the functions of the shading language, whose errors drivers may choose. The Rust
//! versions are free of branches and of fused multiply-adds, so that loops over them become vector
//! instructions that give the same bits on every tier. Drivers may fuse multiplications with
//! additions and divide with an error of 2.5 units in the last place, so GPUs give nearly the same.
//! The bound of each function is in the table of operations ([`crate::op`]).
//!
//! The polynomials are minimax approximations on the reduced ranges; their relative errors, below
//! 2^-27, are part of the bounds.

mod erf;
mod exp;
mod inverse;
mod log;
mod pow;
mod trig;

pub(crate) use erf::{erf, gelu};
pub(crate) use exp::{elu, exp, expm1, gelu_tanh, sigmoid, silu, softplus, tanh};
pub(crate) use inverse::{logaddexp, nextafter};
pub(crate) use log::{log, log1p, log2, log10};
pub(crate) use pow::{int_pow, pow};
pub(crate) use trig::{cos_all, sin_all};

/// A file of functions for GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Helper {
    /// NaN, infinity, division and roots.
    Basic,
    /// Exponentials and functions based on them.
    Exp,
    /// Logarithms.
    Log,
    /// Powers.
    Pow,
    /// Sine and cosine.
    Trig,
    /// The error function and functions based on it.
    Erf,
    /// Inverse and hyperbolic functions.
    Inverse,
    /// Remainders of floats.
    Remainder,
    /// Floats to integers.
    Cast,
    /// Floats to 64-bit integers.
    Cast64,
    /// 16-bit floats.
    Half,
    /// Functions of integers: a template, in which `TYPE` stands for their type.
    Integer,
}

impl Helper {
    /// Returns the WGSL source of the functions. Each maps four floats to four floats.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::Basic => include_str!("basic.wgsl"),
            Self::Exp => include_str!("exp.wgsl"),
            Self::Log => include_str!("log.wgsl"),
            Self::Pow => include_str!("pow.wgsl"),
            Self::Trig => include_str!("trig.wgsl"),
            Self::Erf => include_str!("erf.wgsl"),
            Self::Inverse => include_str!("inverse.wgsl"),
            Self::Remainder => include_str!("remainder.wgsl"),
            Self::Cast => include_str!("cast.wgsl"),
            Self::Cast64 => include_str!("cast64.wgsl"),
            Self::Half => include_str!("half.wgsl"),
            Self::Integer => include_str!("integer.wgsl"),
        }
    }

    /// Returns the files whose functions this one calls.
    pub(crate) fn needs(self) -> &'static [Self] {
        match self {
            Self::Basic | Self::Half | Self::Integer => &[],
            Self::Log | Self::Trig | Self::Remainder | Self::Cast | Self::Cast64 => &[Self::Basic],
            Self::Exp => &[Self::Basic, Self::Log],
            Self::Inverse => &[Self::Basic, Self::Exp, Self::Log, Self::Trig],
            Self::Pow | Self::Erf => &[Self::Basic, Self::Exp, Self::Log],
        }
    }
}

/// Returns the value of a polynomial whose coefficients are given from the lowest power on.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut value = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        value = value * x + coefficients[i];
    }
    value
}

/// Returns the nearest integer, ties to even, as a float and as an integer; for |x| below 2^22.
#[inline(always)]
fn nearest(x: f32) -> (f32, i32) {
    // Adding this pushes the fraction out of the float.
    const SHIFT: f32 = 12_582_912.0;
    let shifted = x + SHIFT;
    (shifted - SHIFT, (shifted.to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32))
}

/// Returns 2^n for n in -126..=127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// Returns x 2^n for n in -252..=254.
#[inline(always)]
fn scale(x: f32, n: i32) -> f32 {
    let half = n >> 1;
    x * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

#[cfg(test)]
mod tests {
    use super::trig::{cos, sin};
    use super::*;

    /// Returns the points at which a function is tested: every n-th float of a range, and its ends.
    fn floats(low: f32, high: f32, step: usize) -> impl Iterator<Item = f32> {
        let key = |x: f32| {
            let bits = x.to_bits() as i32;
            if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits }
        };
        let value = |key: i32| {
            f32::from_bits(if key < 0 { i32::MIN.wrapping_sub(key) as u32 } else { key as u32 })
        };
        let (low, high) = (i64::from(key(low)), i64::from(key(high)));
        (low..=high).step_by(step).chain([high]).map(move |key| value(key as i32))
    }

    /// Returns the largest error in units in the last place of the result, which has at least the
    /// place of the smallest normal float.
    fn worst(
        f: impl Fn(f32) -> f32,
        exact: impl Fn(f64) -> f64,
        low: f32,
        high: f32,
        step: usize,
    ) -> f64 {
        let (mut worst, mut at) = (0.0, 0.0);
        for x in floats(low, high, step) {
            let (got, want) = (f64::from(f(x)), exact(f64::from(x)));
            let unit = (want.abs().log2().floor().max(-126.0) - 23.0).exp2();
            let error = if got == want { 0.0 } else { (got - want).abs() / unit };
            // Past the largest float, infinity is right.
            if got.is_infinite() && want.abs() > f64::from(f32::MAX) {
                continue;
            }
            if error.is_nan() || error > worst {
                (worst, at) = (error, x);
            }
        }
        println!("{worst:.3} at {at:e}");
        worst
    }

    const STEP: usize = 997;

    #[test]
    fn exponentials_are_within_their_error_bounds() {
        assert!(worst(exp, f64::exp, -104.0, 89.0, STEP) < 1.0);
        assert!(worst(expm1, libm::expm1, -20.0, 89.0, STEP) < 1.5);
        assert!(worst(tanh, f64::tanh, -12.0, 12.0, STEP) < 3.0);
        assert!(worst(sigmoid, |x| 1.0 / (1.0 + (-x).exp()), -100.0, 100.0, STEP) < 2.5);
        assert!(worst(silu, |x| x / (1.0 + (-x).exp()), -85.0, 100.0, STEP) < 3.0);
        assert!(
            worst(softplus, |x| libm::log1p((-x.abs()).exp()) + x.max(0.0), -100.0, 1e5, STEP)
                < 2.5
        );
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(
            (exp(0.0), expm1(-0.0).to_bits(), expm1(f32::NEG_INFINITY)),
            (1.0, (-0f32).to_bits(), -1.0)
        );
        assert_eq!(
            (tanh(f32::INFINITY), tanh(f32::NEG_INFINITY), tanh(-0.0).to_bits()),
            (1.0, -1.0, 1 << 31)
        );
        assert_eq!((silu(f32::NEG_INFINITY), silu(f32::INFINITY)), (0.0, f32::INFINITY));
        for f in [exp, expm1, tanh, sigmoid, silu, softplus, log, log1p, log2, erf, gelu, sin, cos]
        {
            assert!(f(f32::NAN).is_nan());
        }
    }

    #[test]
    fn logarithms_are_within_their_error_bounds() {
        assert!(worst(log, f64::ln, f32::MIN_POSITIVE, f32::MAX, STEP) < 1.2);
        assert!(worst(log, f64::ln, 1e-45, f32::MIN_POSITIVE, STEP) < 1.2);
        assert!(worst(log, f64::ln, 0.7, 1.5, 97) < 1.2);
        assert!(worst(log2, f64::log2, f32::MIN_POSITIVE, f32::MAX, STEP) < 2.5);
        assert!(worst(log2, f64::log2, 0.7, 1.5, 97) < 2.5);
        assert!(worst(log10, f64::log10, 0.7, 1.5, 97) < 2.5);
        assert!(worst(log1p, libm::log1p, -0.999_999, 1e30, STEP) < 2.0);
        assert_eq!(
            (log(0.0), log(-0.0), log(f32::INFINITY)),
            (f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY)
        );
        assert!(log(-1.0).is_nan() && log(f32::NEG_INFINITY).is_nan() && log1p(-1.5).is_nan());
        assert_eq!((log1p(-1.0), log1p(f32::INFINITY)), (f32::NEG_INFINITY, f32::INFINITY));
        assert!((-149..128).all(|n| log2((n as f64).exp2() as f32) == n as f32));
    }

    #[test]
    fn error_functions_are_within_their_error_bounds() {
        assert!(worst(erf, libm::erf, -6.0, 6.0, STEP) < 3.0);
        let phi = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
        assert!(worst(gelu, |x| x * phi(x), -12.5, 1e5, STEP) < 6.0);
        assert_eq!(
            (gelu(f32::INFINITY), gelu(f32::NEG_INFINITY), erf(f32::INFINITY)),
            (f32::INFINITY, 0.0, 1.0)
        );
        let tanh_form = |x: f64| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            x / (1.0 + (-2.0 * inner).exp())
        };
        assert!(worst(gelu_tanh, tanh_form, -1.0, 1e5, STEP) < 12.0);
        assert!(worst(gelu_tanh, tanh_form, -4.0, -1.0, STEP) < 50.0);
        assert_eq!(gelu_tanh(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn sines_and_cosines_are_within_their_error_bounds() {
        for (low, high) in [(-10.0f32, 10.0f32), (-8192.0, 8192.0), (8192.0, f32::MAX)] {
            assert!(worst(sin, f64::sin, low, high, STEP) < 2.0);
            assert!(worst(cos, f64::cos, low, high, STEP) < 2.0);
        }
        assert!(sin(f32::INFINITY).is_nan() && cos(f32::NEG_INFINITY).is_nan());
        assert_eq!(sin(-0.0).to_bits(), 1 << 31);
        let x: Vec<f32> =
            (0..1000).map(|i| (i as f32 - 500.0) * if i % 7 == 0 { 1e9 } else { 0.1 }).collect();
        let mut out = vec![0.0; x.len()];
        sin_all(&x, &mut out);
        assert!(out.iter().zip(&x).all(|(out, &x)| out.to_bits() == sin(x).to_bits()));
        cos_all(&x, &mut out);
        assert!(out.iter().zip(&x).all(|(out, &x)| out.to_bits() == cos(x).to_bits()));
    }

    #[test]
    fn powers_are_within_their_error_bounds() {
        let mut worst = 0.0f64;
        for x in floats(1e-30, 1e30, 99_991) {
            for y in [-7.3f32, -2.0, -0.5, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 11.7, 40.0] {
                let (got, want) = (f64::from(pow(x, y)), f64::from(x).powf(f64::from(y)));
                if (1e-37..1e38).contains(&want) {
                    let scaled = (f64::from(y) * f64::from(x).log2()).abs();
                    worst = worst
                        .max((got - want).abs() / want * 2f64.powi(24) / (2.0 + 0.25 * scaled));
                }
            }
        }
        println!("{worst}");
        assert!(worst < 1.0);
        let inf = f32::INFINITY;
        // As IEEE 754 says for pow.
        for (x, y, want) in [
            (0.0f32, 0.0f32, 1.0f32),
            (f32::NAN, 0.0, 1.0),
            (1.0, f32::NAN, 1.0),
            (1.0, inf, 1.0),
            (-1.0, inf, 1.0),
            (-2.0, 3.0, -8.0),
            (-2.0, 2.0, 4.0),
            (-2.0, -1.0, -0.5),
            (0.0, 2.0, 0.0),
            (-0.0, 3.0, -0.0),
            (0.0, -1.0, inf),
            (-0.0, -1.0, -inf),
            (-0.0, -2.0, inf),
            (inf, 2.0, inf),
            (inf, -2.0, 0.0),
            (-inf, 3.0, -inf),
            (-inf, 2.0, inf),
            (-inf, -3.0, -0.0),
            (0.5, inf, 0.0),
            (2.0, inf, inf),
            (2.0, -inf, 0.0),
            (2.0, 128.0, inf),
            (2.0, -150.0, 0.0),
            (2.0, 127.0, 1.701_411_8e38),
            (10.0, 2.0, 100.0),
            (3.0, 4.0, 81.0),
        ] {
            assert_eq!(pow(x, y).to_bits(), want.to_bits(), "{x} ^ {y} = {}", pow(x, y));
        }
        assert!(
            pow(-2.0, 0.5).is_nan() && pow(f32::NAN, 1.0).is_nan() && pow(2.0, f32::NAN).is_nan()
        );
        assert_eq!(
            (int_pow(3i32, 4), int_pow(-2i64, 63), int_pow(7i32, -1), int_pow(-1i32, -3)),
            (81, i64::MIN, 0, -1)
        );
        assert_eq!(
            (int_pow(3u8, 6), int_pow(0i32, 0), int_pow(1i64, -5), int_pow(2i32, 32)),
            (217, 1, 1, 0)
        );
    }
}
