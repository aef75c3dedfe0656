//! Operations of two arguments.

use std::str::FromStr;

use super::Integers;
use crate::cpu::simd::{map2, map2_plain};
use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::math::{self, Helper};

/// A float function of two arguments.
#[derive(Clone, Copy)]
pub(crate) struct FloatBinary {
    pub(crate) run: fn(&[f32], &[f32], &mut [f32]),
    pub(crate) exact: fn(f64, f64) -> f64,
    pub(crate) wgsl: &'static str,
    pub(crate) helpers: &'static [Helper],
    pub(crate) ulps: fn(f64, f64) -> f64,
}

type Loop<T> = fn(&[T], &[T], &mut [T]);
type Compare<T> = fn(&[T], &[T], &mut [u8]);

/// A comparison of elements of any type.
#[derive(Clone, Copy)]
pub(crate) struct Comparison {
    pub(crate) f32: Compare<f32>,
    pub(crate) i32: Compare<i32>,
    pub(crate) i64: Compare<i64>,
    pub(crate) u8: Compare<u8>,
    pub(crate) exact: fn(f64, f64) -> bool,
    /// For floats; NaN is unequal to everything.
    pub(crate) float_wgsl: &'static str,
    pub(crate) wgsl: &'static str,
    /// For booleans, if the comparison is defined for them.
    pub(crate) bool_wgsl: Option<&'static str>,
}

/// The table entry of an operation.
#[derive(Clone, Copy)]
pub(crate) struct BinaryEntry {
    pub(crate) name: &'static str,
    pub(crate) float: Option<FloatBinary>,
    pub(crate) integer: Option<Integers<Loop<i32>, Loop<i64>, Loop<u8>>>,
    pub(crate) boolean: Option<(Loop<u8>, &'static str)>,
    pub(crate) comparison: Option<Comparison>,
    /// For 64-bit floats, where `exact` is rounded to 32 bits.
    pub(crate) double: Option<fn(f64, f64) -> f64>,
}

const NOTHING: BinaryEntry = BinaryEntry {
    name: "",
    float: None,
    integer: None,
    boolean: None,
    comparison: None,
    double: None,
};

macro_rules! float {
    ($run:expr, $exact:expr, $wgsl:literal, [$($helper:ident)*], $ulps:expr) => {
        Some(FloatBinary { run: |x, y, out| map2(x, y, out, $run), exact: $exact, wgsl: $wgsl,
            helpers: &[$(Helper::$helper),*], ulps: $ulps })
    };
}

macro_rules! integer {
    ($map:ident, $run:expr, $wgsl:literal, [$($helper:ident)*]) => {
        Some(Integers {
            i32: |x, y, out| $map(x, y, out, $run),
            i64: |x, y, out| $map(x, y, out, $run),
            u8: |x, y, out| $map(x, y, out, $run),
            wgsl: $wgsl,
            helpers: &[$(Helper::$helper),*],
        })
    };
    ($run:expr, $wgsl:literal) => { integer!(map2, $run, $wgsl, []) };
}

macro_rules! comparison {
    ($operator:tt, $float_wgsl:literal, $wgsl:literal, $bool_wgsl:expr) => {
        Some(Comparison {
            f32: |x, y, out| map2(x, y, out, |x, y| u8::from(x $operator y)),
            i32: |x, y, out| map2(x, y, out, |x, y| u8::from(x $operator y)),
            i64: |x, y, out| map2(x, y, out, |x, y| u8::from(x $operator y)),
            u8: |x, y, out| map2(x, y, out, |x, y| u8::from(x $operator y)),
            exact: |x, y| x $operator y,
            float_wgsl: $float_wgsl,
            wgsl: $wgsl,
            bool_wgsl: $bool_wgsl,
        })
    };
}

macro_rules! table {
    ($($(#[$doc:meta])* $op:ident $name:literal { $($field:ident: $value:expr),* $(,)? })*) => {
        /// An operation of two arguments, which are broadcast.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum BinaryOp {
            $($(#[$doc])* $op),*
        }

        impl BinaryOp {
            /// Every operation.
            pub const ALL: &'static [Self] = &[$(Self::$op),*];

            pub(crate) fn entry(self) -> &'static BinaryEntry {
                match self {
                    $(Self::$op => const { &BinaryEntry { name: $name, $($field: $value,)* ..NOTHING } }),*
                }
            }
        }
    };
}

const EXACT: fn(f64, f64) -> f64 = |_, _| 0.0;
const ROUNDED: fn(f64, f64) -> f64 = |_, _| 0.5;

table! {
    /// The sum.
    Add "add" {
        float: float!(|x: f32, y| x + y, |x, y| x + y, "({x} + {y})", [], ROUNDED),
        integer: integer!(|x, y| x.wrapping_add(y), "({x} + {y})"),
    }
    /// The difference.
    Sub "sub" {
        float: float!(|x: f32, y| x - y, |x, y| x - y, "({x} - {y})", [], ROUNDED),
        integer: integer!(|x, y| x.wrapping_sub(y), "({x} - {y})"),
    }
    /// The product.
    Mul "mul" {
        float: float!(|x: f32, y| x * y, |x, y| x * y, "({x} * {y})", [], ROUNDED),
        integer: integer!(|x, y| x.wrapping_mul(y), "({x} * {y})"),
    }
    /// The quotient of floats.
    Div "div" {
        float: float!(|x: f32, y| x / y, |x, y| x / y, "divide({x}, {y})", [Basic], |_, _| 2.5),
    }
    /// The quotient, rounded down.
    FloorDiv "floor_divide" {
        float: float!(floor_div, |x, y| f64::from(floor_div(x as f32, y as f32)), "m_floor_div({x}, {y})", [Remainder],
            |x, y| if (x / y).abs() < 4e6 { 0.0 } else { 4.0 }),
        double: Some(floor_div_64),
        integer: integer!(map2_plain, |x, y| y.quotient_of(x), "m_int_floor_div_{t}({x}, {y})", [Integer]),
    }
    /// The remainder of a division that rounds down; it has the sign of the divisor.
    Rem "remainder" {
        float: float!(remainder, |x, y| f64::from(remainder(x as f32, y as f32)), "m_remainder({x}, {y})", [Remainder], EXACT),
        double: Some(remainder_64),
        integer: integer!(map2_plain, |x, y| y.remainder_of(x), "m_int_remainder_{t}({x}, {y})", [Integer]),
    }
    /// x to the power of y.
    Pow "pow" {
        float: float!(math::pow, f64::powf, "m_pow({x}, {y})", [Pow], |x, y| 2.0 + 0.5 * (y * x.abs().log2()).abs().min(300.0)),
        integer: integer!(map2_plain, math::int_pow, "m_int_pow_{t}({x}, {y})", [Integer]),
    }
    /// The smaller argument; NaN if either is NaN.
    Min "min" {
        float: float!(|x: f32, y: f32| if y < x || y.is_nan() { y } else { x }, |x, y| if y < x || y.is_nan() { y } else { x },
            "min_nan({x}, {y})", [Basic], EXACT),
        integer: integer!(|x, y| if y < x { y } else { x }, "min({x}, {y})"),
    }
    /// The larger argument; NaN if either is NaN.
    Max "max" {
        float: float!(|x: f32, y: f32| if y > x || y.is_nan() { y } else { x }, |x, y| if y > x || y.is_nan() { y } else { x },
            "max_nan({x}, {y})", [Basic], EXACT),
        integer: integer!(|x, y| if y > x { y } else { x }, "max({x}, {y})"),
    }
    /// x if it is positive, otherwise x times y.
    LeakyRelu "leaky_relu" {
        float: float!(|x: f32, y| if x > 0.0 { x } else { x * y }, |x, y| if x > 0.0 { x } else { x * y },
            "select({x} * {y}, {x}, {x} > vec4<f32>(0.0))", [], ROUNDED),
    }
    /// x if it is positive, otherwise y (e^x - 1).
    Elu "elu" {
        float: float!(math::elu, |x, y| if x > 0.0 { x } else { y * libm::expm1(x) }, "m_elu({x}, {y})", [Exp], |_, _| 3.0),
    }
    /// The angle of the point (y, x), in [-pi, pi].
    Atan2 "atan2" {
        float: float!(libm::atan2f, f64::atan2, "m_atan2({x}, {y})", [Inverse], |_, _| 5.0),
    }
    /// x with the sign of y.
    CopySign "copysign" {
        float: float!(|x: f32, y| x.copysign(y), f64::copysign, "copy_sign({x}, {y})", [Basic], EXACT),
    }
    /// The length of (x, y), without overflow on the way.
    Hypot "hypot" {
        float: float!(libm::hypotf, f64::hypot, "m_hypot({x}, {y})", [Inverse], |_, _| 4.0),
    }
    /// ln(e^x + e^y), without overflow on the way.
    LogAddExp "logaddexp" {
        float: float!(math::logaddexp, log_add_exp, "m_logaddexp({x}, {y})", [Inverse],
            // The two parts, at most ln 2 and the larger argument, may cancel.
            |x, y| 2.0 + 4.0 * (x.max(y).abs() + 1.0) / log_add_exp(x, y).abs().max(1e-30)),
    }
    /// The 32-bit float next to x in the direction of y.
    NextAfter "nextafter" {
        float: float!(math::nextafter, |x, y| f64::from(math::nextafter(x as f32, y as f32)), "m_nextafter({x}, {y})", [Inverse], EXACT),
        double: Some(libm::nextafter),
    }
    /// Whether both are equal; NaN is unequal to everything.
    Eq "equal" { comparison: comparison!(==, "({x} == {y})", "({x} == {y})", Some("({x} == {y})")) }
    /// Whether both differ.
    Ne "not_equal" { comparison: comparison!(!=, "(!({x} == {y}))", "({x} != {y})", Some("({x} != {y})")) }
    /// Whether x is smaller.
    Lt "less" { comparison: comparison!(<, "({x} < {y})", "({x} < {y})", None) }
    /// Whether x is not larger.
    Le "less_equal" { comparison: comparison!(<=, "({x} <= {y})", "({x} <= {y})", None) }
    /// Whether x is larger.
    Gt "greater" { comparison: comparison!(>, "({x} > {y})", "({x} > {y})", None) }
    /// Whether x is not smaller.
    Ge "greater_equal" { comparison: comparison!(>=, "({x} >= {y})", "({x} >= {y})", None) }
    /// Logical and; bitwise for integers.
    And "and" {
        integer: integer!(|x, y| x & y, "({x} & {y})"),
        boolean: Some((|x, y, out| map2(x, y, out, |x: u8, y| x & y), "({x} & {y})")),
    }
    /// Logical or; bitwise for integers.
    Or "or" {
        integer: integer!(|x, y| x | y, "({x} | {y})"),
        boolean: Some((|x, y, out| map2(x, y, out, |x: u8, y| x | y), "({x} | {y})")),
    }
    /// Exclusive or; bitwise for integers.
    Xor "xor" {
        integer: integer!(|x, y| x ^ y, "({x} ^ {y})"),
        boolean: Some((|x, y, out| map2(x, y, out, |x: u8, y| x ^ y), "({x} != {y})")),
    }
    /// x shifted left by y bits; 0 unless y is in 0..width.
    Shl "shift_left" { integer: integer!(map2_plain, |x, y| y.shifted_left(x), "m_shift_left_{t}({x}, {y})", [Integer]) }
    /// x shifted right by y bits, arithmetically for signed integers; shifts out all bits unless y
    /// is in 0..width.
    Shr "shift_right" { integer: integer!(map2_plain, |x, y| y.shifted_right(x), "m_shift_right_{t}({x}, {y})", [Integer]) }
}

fn log_add_exp(x: f64, y: f64) -> f64 {
    let large = if x > y || x.is_nan() { x } else { y };
    if x == y {
        return x + std::f64::consts::LN_2;
    }
    if large.is_infinite() && !x.is_nan() && !y.is_nan() {
        return large;
    }
    large + libm::log1p((-(x - y).abs()).exp())
}

/// Returns the quotient rounded down, computed exactly from the exact remainder. The array API
/// standard requires a zero of the sign of the quotient for finite numbers divided by infinity.
#[inline(always)]
fn floor_div(x: f32, y: f32) -> f32 {
    if x == 0.0 || y == 0.0 || x.is_infinite() || y.is_infinite() || x.is_nan() {
        return x / y;
    }
    // Adding 0 makes 0 of -0: a quotient between 0 and 1 is positive.
    ((x - remainder(x, y)) / y).round_ties_even() + 0.0
}

#[inline(always)]
fn remainder(x: f32, y: f32) -> f32 {
    let rest = x % y;
    let value = if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest };
    if value == 0.0 { 0f32.copysign(y) } else { value }
}

/// [`floor_div`] of 64-bit floats.
fn floor_div_64(x: f64, y: f64) -> f64 {
    if x == 0.0 || y == 0.0 || x.is_infinite() || y.is_infinite() || x.is_nan() {
        return x / y;
    }
    ((x - remainder_64(x, y)) / y).round_ties_even() + 0.0
}

/// [`remainder`] of 64-bit floats.
fn remainder_64(x: f64, y: f64) -> f64 {
    let rest = x % y;
    let value = if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest };
    if value == 0.0 { 0f64.copysign(y) } else { value }
}

/// Integer operations that are defined for some second arguments only.
trait SecondArgument: Sized {
    fn quotient_of(self, x: Self) -> Self;
    fn remainder_of(self, x: Self) -> Self;
    fn shifted_left(self, x: Self) -> Self;
    fn shifted_right(self, x: Self) -> Self;
}

macro_rules! second_argument {
    ($type:ty, $floors:expr, $emptied:expr) => {
        impl SecondArgument for $type {
            #[inline(always)]
            fn quotient_of(self, x: Self) -> Self {
                if self == 0 {
                    return 0;
                }
                let (quotient, rest) = (x.wrapping_div(self), x.wrapping_rem(self));
                if $floors(rest, self) { quotient.wrapping_sub(1) } else { quotient }
            }
            #[inline(always)]
            fn remainder_of(self, x: Self) -> Self {
                if self == 0 {
                    return 0;
                }
                let rest = x.wrapping_rem(self);
                if $floors(rest, self) { rest.wrapping_add(self) } else { rest }
            }
            #[inline(always)]
            fn shifted_left(self, x: Self) -> Self {
                u32::try_from(self).ok().and_then(|by| x.checked_shl(by)).unwrap_or(0)
            }
            #[inline(always)]
            fn shifted_right(self, x: Self) -> Self {
                u32::try_from(self).ok().and_then(|by| x.checked_shr(by)).unwrap_or($emptied(x))
            }
        }
    };
}

second_argument!(i32, |rest: i32, y: i32| rest != 0 && (rest < 0) != (y < 0), |x: i32| x >> 31);
second_argument!(i64, |rest: i64, y: i64| rest != 0 && (rest < 0) != (y < 0), |x: i64| x >> 63);
second_argument!(u8, |_, _| false, |_: u8| 0);

impl BinaryOp {
    /// Returns the name of the operation.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns the type of the result for two arguments of a type.
    ///
    /// # Errors
    /// [`Error::DType`] if the operation is not defined for this type.
    pub fn result(self, dtype: DType) -> Result<DType> {
        let entry = self.entry();
        if let Some(comparison) = &entry.comparison {
            return match dtype.kind() {
                Kind::Bool if comparison.bool_wgsl.is_none() => {
                    Err(Error::DType { op: entry.name, dtype, expected: "numbers" })
                }
                _ => Ok(DType::Bool),
            };
        }
        let is_there = match dtype.kind() {
            Kind::Float => entry.float.is_some(),
            Kind::Integer => entry.integer.is_some(),
            Kind::Bool => entry.boolean.is_some(),
        };
        if is_there {
            return Ok(dtype);
        }
        let expected = match (&entry.float, &entry.integer, &entry.boolean) {
            (Some(_), Some(_), _) => "numbers",
            (None, Some(_), Some(_)) => "integers or booleans",
            (None, Some(_), None) => "integers",
            _ => "floats",
        };
        Err(Error::DType { op: entry.name, dtype, expected })
    }

    /// Returns the value in 64-bit floats, 0 or 1 for a comparison; `None` if the operation is not
    /// defined for floats.
    #[must_use]
    pub fn exact(self, x: f64, y: f64) -> Option<f64> {
        let entry = self.entry();
        match (&entry.float, &entry.comparison) {
            (Some(float), _) => Some((float.exact)(x, y)),
            (None, Some(comparison)) => Some(f64::from(u8::from((comparison.exact)(x, y)))),
            _ => None,
        }
    }

    /// Returns the error bound of a 32-bit result for two floats on any device, in units in the
    /// last place.
    #[must_use]
    pub fn ulps(self, x: f64, y: f64) -> f64 {
        self.entry().float.map_or(0.0, |float| (float.ulps)(x, y))
    }
}

impl FromStr for BinaryOp {
    type Err = Error;

    /// Returns the operation with this name.
    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().copied().find(|op| op.name() == name);
        found.ok_or_else(|| Error::Name {
            what: "operation of two arguments",
            name: name.to_owned(),
        })
    }
}
