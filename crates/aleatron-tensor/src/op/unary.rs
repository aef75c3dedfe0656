//! Operations of one argument.

use std::str::FromStr;

use super::Integers;
use crate::cpu::simd::map;
use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::math::{self, Helper};

/// A float function of one argument.
#[derive(Clone, Copy)]
pub(crate) struct FloatUnary {
    /// The loop of the CPU.
    pub(crate) run: fn(&[f32], &mut [f32]),
    /// The function in 64 bits.
    pub(crate) exact: fn(f64) -> f64,
    pub(crate) wgsl: &'static str,
    pub(crate) helpers: &'static [Helper],
    /// The error in units in the last place on any device, for an argument.
    pub(crate) ulps: fn(f64) -> f64,
}

/// A predicate of floats.
#[derive(Clone, Copy)]
pub(crate) struct Predicate {
    pub(crate) run: fn(&[f32], &mut [u8]),
    pub(crate) exact: fn(f64) -> bool,
    pub(crate) wgsl: &'static str,
    pub(crate) helpers: &'static [Helper],
}

type Loop<T> = fn(&[T], &mut [T]);

/// The table entry of an operation.
#[derive(Clone, Copy)]
pub(crate) struct UnaryEntry {
    pub(crate) name: &'static str,
    pub(crate) float: Option<FloatUnary>,
    pub(crate) integer: Option<Integers<Loop<i32>, Loop<i64>, Loop<u8>>>,
    pub(crate) boolean: Option<(Loop<u8>, &'static str)>,
    pub(crate) predicate: Option<Predicate>,
}

const NOTHING: UnaryEntry =
    UnaryEntry { name: "", float: None, integer: None, boolean: None, predicate: None };

macro_rules! float {
    ($run:expr, $exact:expr, $wgsl:literal, [$($helper:ident)*], $ulps:expr) => {
        float!(@loop |x, out| map(x, out, $run), $exact, $wgsl, [$($helper)*], $ulps)
    };
    (@loop $run:expr, $exact:expr, $wgsl:literal, [$($helper:ident)*], $ulps:expr) => {
        Some(FloatUnary { run: $run, exact: $exact, wgsl: $wgsl, helpers: &[$(Helper::$helper),*], ulps: $ulps })
    };
}

macro_rules! integer {
    ($run:expr, $wgsl:literal) => {
        Some(Integers {
            i32: |x, out| map(x, out, $run),
            i64: |x, out| map(x, out, $run),
            u8: |x, out| map(x, out, $run),
            wgsl: $wgsl,
            helpers: &[],
        })
    };
}

macro_rules! table {
    ($($(#[$doc:meta])* $op:ident $name:literal { $($field:ident: $value:expr),* $(,)? })*) => {
        /// An operation of one argument.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum UnaryOp {
            $($(#[$doc])* $op),*
        }

        impl UnaryOp {
            /// Every operation.
            pub const ALL: &'static [Self] = &[$(Self::$op),*];

            pub(crate) fn entry(self) -> &'static UnaryEntry {
                match self {
                    $(Self::$op => const { &UnaryEntry { name: $name, $($field: $value,)* ..NOTHING } }),*
                }
            }
        }
    };
}

const EXACT: fn(f64) -> f64 = |_| 0.0;

table! {
    /// -x.
    Neg "neg" {
        float: float!(|x: f32| -x, |x| -x, "(-{x})", [], EXACT),
        integer: integer!(|x| x.negative(), "({T}(0) - {x})"),
    }
    /// The absolute value.
    Abs "abs" {
        float: float!(f32::abs, f64::abs, "abs({x})", [], EXACT),
        integer: integer!(|x| x.magnitude(), "abs({x})"),
    }
    /// -1, 0 or 1.
    Sign "sign" {
        float: float!(
            // Adding 0 makes 0 of -0, and NaN of NaN.
            |x: f32| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { x + 0.0 },
            |x| if x == 0.0 || x.is_nan() { x + 0.0 } else { x.signum() },
            "keep_nan({x}, select(sign({x}), vec4<f32>(0.0), magnitude_bits({x}) == vec4<u32>(0u)))", [Basic], EXACT
        ),
        integer: integer!(|x| x.sign_of(), "{T}(select({T}(0), {T}(1), {x} > {T}(0)) - select({T}(0), {T}(1), {x} < {T}(0)))"),
    }
    /// The square.
    Square "square" {
        float: float!(|x: f32| x * x, |x| x * x, "({x} * {x})", [], |_| 0.5),
        integer: integer!(|x| x.wrapping_mul(x), "({x} * {x})"),
    }
    /// 1 / x.
    Recip "reciprocal" {
        float: float!(|x: f32| 1.0 / x, |x| 1.0 / x, "divide(vec4<f32>(1.0), {x})", [Basic], |_| 2.5),
    }
    /// The square root; NaN of negative numbers.
    Sqrt "sqrt" {
        float: float!(f32::sqrt, f64::sqrt, "root({x})", [Basic], |_| 1.5),
    }
    /// 1 / sqrt(x).
    Rsqrt "rsqrt" {
        float: float!(|x: f32| 1.0 / x.sqrt(), |x| 1.0 / x.sqrt(), "reciprocal_root({x})", [Basic], |_| 2.0),
    }
    /// e^x.
    Exp "exp" {
        float: float!(math::exp, f64::exp, "m_exp({x})", [Exp], |_| 1.5),
    }
    /// e^x - 1, accurate near 0.
    Expm1 "expm1" {
        float: float!(math::expm1, libm::expm1, "m_expm1({x})", [Exp], |_| 2.0),
    }
    /// The natural logarithm; NaN of negative numbers.
    Log "log" {
        float: float!(math::log, f64::ln, "m_log({x})", [Log], |_| 1.5),
    }
    /// ln(1 + x), accurate near 0.
    Log1p "log1p" {
        float: float!(math::log1p, libm::log1p, "m_log1p({x})", [Log], |_| 4.0),
    }
    /// The logarithm to base 2; exact for powers of 2.
    Log2 "log2" {
        float: float!(math::log2, f64::log2, "m_log2({x})", [Log], |_| 3.0),
    }
    /// The logarithm to base 10.
    Log10 "log10" {
        float: float!(math::log10, f64::log10, "m_log10({x})", [Log], |_| 3.0),
    }
    /// The sine.
    Sin "sin" {
        float: float!(@loop math::sin_all, f64::sin, "m_sin({x})", [Trig], near_zero_of_a_period),
    }
    /// The cosine.
    Cos "cos" {
        float: float!(@loop math::cos_all, f64::cos, "m_cos({x})", [Trig], |x| near_zero_of_a_period(x + std::f64::consts::FRAC_PI_2)),
    }
    /// The tangent.
    Tan "tan" {
        float: float!(libm::tanf, f64::tan, "m_tan({x})", [Inverse],
            |x| 4.0 + near_zero_of_a_period(x) + near_zero_of_a_period(x + std::f64::consts::FRAC_PI_2)),
    }
    /// The inverse sine; NaN outside [-1, 1].
    Asin "asin" { float: float!(libm::asinf, f64::asin, "m_asin({x})", [Inverse], |_| 4.0), }
    /// The inverse cosine; NaN outside [-1, 1].
    Acos "acos" { float: float!(libm::acosf, f64::acos, "m_acos({x})", [Inverse], |_| 4.0), }
    /// The inverse tangent.
    Atan "atan" { float: float!(libm::atanf, f64::atan, "m_atan({x})", [Inverse], |_| 4.0), }
    /// The hyperbolic sine, accurate near 0.
    Sinh "sinh" { float: float!(libm::sinhf, f64::sinh, "m_sinh({x})", [Inverse], |_| 6.0), }
    /// The hyperbolic cosine.
    Cosh "cosh" { float: float!(libm::coshf, f64::cosh, "m_cosh({x})", [Inverse], |_| 6.0), }
    /// The inverse hyperbolic sine, accurate near 0.
    Asinh "asinh" { float: float!(libm::asinhf, libm::asinh, "m_asinh({x})", [Inverse], |_| 6.0), }
    /// The inverse hyperbolic cosine; NaN below 1.
    Acosh "acosh" { float: float!(|x: f32| if x < 1.0 { f32::NAN } else { libm::acoshf(x) }, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, "m_acosh({x})", [Inverse], |_| 6.0), }
    /// The inverse hyperbolic tangent, accurate near 0; NaN outside [-1, 1].
    Atanh "atanh" { float: float!(libm::atanhf, libm::atanh, "m_atanh({x})", [Inverse], |_| 6.0), }
    /// The hyperbolic tangent, accurate near 0.
    Tanh "tanh" {
        float: float!(math::tanh, f64::tanh, "m_tanh({x})", [Exp], |_| 4.0),
    }
    /// The error function, accurate near 0.
    Erf "erf" {
        float: float!(math::erf, libm::erf, "m_erf({x})", [Erf], |_| 4.0),
    }
    /// 1 / (1 + e^-x).
    Sigmoid "sigmoid" {
        float: float!(math::sigmoid, |x| 1.0 / (1.0 + (-x).exp()), "m_sigmoid({x})", [Exp], |_| 4.0),
    }
    /// The larger of x and 0.
    Relu "relu" {
        float: float!(
            |x: f32| if x < 0.0 { 0.0 } else { x },
            |x| if x < 0.0 { 0.0 } else { x },
            "select({x}, vec4<f32>(0.0), {x} < vec4<f32>(0.0))", [], EXACT
        ),
        integer: integer!(|x| x.positive(), "max({x}, {T}(0))"),
    }
    /// x times the probability that a normal variable is below x; 0 for minus infinity.
    Gelu "gelu" {
        float: float!(math::gelu, |x| if x == f64::NEG_INFINITY { 0.0 } else { x * 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2) },
            "m_gelu({x})", [Erf], |x| 8.0 + far_below(x, 12.5)),
    }
    /// The approximation of GELU through tanh; 0 for minus infinity.
    GeluTanh "gelu_tanh" {
        float: float!(math::gelu_tanh, |x| {
            let inner = (8.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            if x < -30.0 { 0.0 } else { x / (1.0 + (-inner).exp()) }
        }, "m_gelu_tanh({x})", [Exp], |x| 6.0 + 4.0 * (1.6 * x + 0.0714 * x * x * x).abs().min(110.0) + far_below(x, 9.0)),
    }
    /// x / (1 + e^-x); 0 for minus infinity.
    Silu "silu" {
        float: float!(math::silu, |x| if x < -200.0 { 0.0 } else { x / (1.0 + (-x).exp()) }, "m_silu({x})", [Exp], |x| 5.0 + far_below(x, 85.0)),
    }
    /// ln(1 + e^x).
    Softplus "softplus" {
        float: float!(math::softplus,
            |x| if x.is_nan() { x } else { libm::log1p((-x.abs()).exp()) + x.max(0.0) },
            "m_softplus({x})", [Exp], |_| 3.0),
    }
    /// The nearest integer, ties to even.
    Round "round" {
        float: float!(f32::round_ties_even, f64::round_ties_even, "round({x})", [], EXACT),
        integer: integer!(|x| x, "{x}"),
    }
    /// The largest integer that is not larger than x.
    Floor "floor" {
        float: float!(f32::floor, f64::floor, "floor({x})", [], EXACT),
        integer: integer!(|x| x, "{x}"),
    }
    /// The smallest integer that is not smaller than x.
    Ceil "ceil" {
        float: float!(f32::ceil, f64::ceil, "ceil({x})", [], EXACT),
        integer: integer!(|x| x, "{x}"),
    }
    /// The integer part.
    Trunc "trunc" {
        float: float!(f32::trunc, f64::trunc, "trunc({x})", [], EXACT),
        integer: integer!(|x| x, "{x}"),
    }
    /// The complement: logical not, or bitwise not for integers.
    Not "not" {
        integer: integer!(|x| !x, "(~{x})"),
        boolean: Some((|x, out| map(x, out, |x: u8| x ^ 1), "(!{x})")),
    }
    /// Whether x is NaN.
    IsNan "isnan" {
        predicate: Some(Predicate { run: |x, out| map(x, out, |x: f32| u8::from(x.is_nan())), exact: f64::is_nan,
            wgsl: "is_nan({x})", helpers: &[Helper::Basic] }),
    }
    /// Whether the sign bit of x is set, as it is for -0.
    SignBit "signbit" {
        predicate: Some(Predicate { run: |x, out| map(x, out, |x: f32| u8::from(x.is_sign_negative())), exact: f64::is_sign_negative,
            wgsl: "is_negative({x})", helpers: &[Helper::Basic] }),
    }
    /// Whether x is infinite.
    IsInf "isinf" {
        predicate: Some(Predicate { run: |x, out| map(x, out, |x: f32| u8::from(x.is_infinite())), exact: f64::is_infinite,
            wgsl: "is_inf({x})", helpers: &[Helper::Basic] }),
    }
    /// Whether x is neither NaN nor infinite.
    IsFinite "isfinite" {
        predicate: Some(Predicate { run: |x, out| map(x, out, |x: f32| u8::from(x.is_finite())), exact: f64::is_finite,
            wgsl: "is_finite({x})", helpers: &[Helper::Basic] }),
    }
}

/// Returns an error bound that admits any result if parts of the computation are subnormal.
fn far_below(x: f64, limit: f64) -> f64 {
    if x < -limit { 1e9 } else { 0.0 }
}

/// Near the zeros of a sine that are not at 0 the argument, less a multiple of half a turn, keeps
/// 43 bits behind the point.
fn near_zero_of_a_period(x: f64) -> f64 {
    let half_turns = (x / std::f64::consts::PI).round();
    let off = (x - half_turns * std::f64::consts::PI).abs().max(1e-12);
    2.5 + if half_turns == 0.0 { 0.0 } else { 2f64.powi(-43) / off * 2f64.powi(24) }
}

/// Integer functions with the same name for the three integer types.
trait Numbers: Sized {
    fn negative(self) -> Self;
    fn magnitude(self) -> Self;
    fn sign_of(self) -> Self;
    fn positive(self) -> Self;
}

macro_rules! numbers {
    ($type:ty, $magnitude:expr, $sign:expr, $positive:expr) => {
        impl Numbers for $type {
            #[inline(always)]
            fn negative(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                $magnitude(self)
            }
            #[inline(always)]
            fn sign_of(self) -> Self {
                $sign(self)
            }
            #[inline(always)]
            fn positive(self) -> Self {
                $positive(self)
            }
        }
    };
}

numbers!(i32, i32::wrapping_abs, i32::signum, |x: i32| x.max(0));
numbers!(i64, i64::wrapping_abs, i64::signum, |x: i64| x.max(0));
numbers!(u8, |x| x, |x: u8| x.min(1), |x| x);

impl UnaryOp {
    /// Returns the name of the operation.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns the type of the result for an argument of a type.
    ///
    /// # Errors
    /// [`Error::DType`] if the operation is not defined for this type.
    pub fn result(self, dtype: DType) -> Result<DType> {
        let entry = self.entry();
        let (is_there, result) = match dtype.kind() {
            Kind::Float if entry.predicate.is_some() => (true, DType::Bool),
            Kind::Float => (entry.float.is_some(), dtype),
            Kind::Integer => (entry.integer.is_some(), dtype),
            Kind::Bool => (entry.boolean.is_some(), dtype),
        };
        if is_there {
            return Ok(result);
        }
        let expected = match (&entry.float, &entry.integer, &entry.boolean) {
            (Some(_), Some(_), _) => "numbers",
            (None, Some(_), Some(_)) => "integers or booleans",
            _ => "floats",
        };
        Err(Error::DType { op: entry.name, dtype, expected })
    }

    /// Returns the value in 64-bit floats; `None` if the operation is not defined for floats or has
    /// no bound.
    #[must_use]
    pub fn exact(self, x: f64) -> Option<f64> {
        let entry = self.entry();
        match (&entry.float, &entry.predicate) {
            (Some(float), _) => Some((float.exact)(x)),
            (None, Some(predicate)) => Some(f64::from(u8::from((predicate.exact)(x)))),
            _ => None,
        }
    }

    /// Returns the error bound of a 32-bit result for a float on any device, in units in the last
    /// place.
    #[must_use]
    pub fn ulps(self, x: f64) -> f64 {
        self.entry().float.map_or(0.0, |float| (float.ulps)(x))
    }
}

impl FromStr for UnaryOp {
    type Err = Error;

    /// Returns the operation with this name.
    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().copied().find(|op| op.name() == name);
        found
            .ok_or_else(|| Error::Name { what: "operation of one argument", name: name.to_owned() })
    }
}
