//! The shader functions that kernels are written with, as WGSL. Each takes and gives `vec4<f32>`.

/// NaN, infinity, division and roots.
pub const BASIC: &str = include_str!("../../math/basic.wgsl");

/// Exponentials, after [`BASIC`] and [`LOGARITHMS`].
pub const EXPONENTIALS: &str = include_str!("../../math/exp.wgsl");

/// Logarithms, after [`BASIC`].
pub const LOGARITHMS: &str = include_str!("../../math/log.wgsl");

/// The error function, after [`EXPONENTIALS`].
pub const ERROR_FUNCTION: &str = include_str!("../../math/erf.wgsl");

/// Sine and cosine, after [`BASIC`].
pub const TRIGONOMETRY: &str = include_str!("../../math/trig.wgsl");

/// Powers, after [`LOGARITHMS`].
pub const POWERS: &str = include_str!("../../math/pow.wgsl");

/// 16-bit floats in words.
pub const HALVES: &str = include_str!("../../math/half.wgsl");
