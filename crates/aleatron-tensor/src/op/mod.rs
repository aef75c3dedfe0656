//! The elementwise operations, one table for those of one argument and one for those of two.
//!
//! An entry has the name of an operation, the loop of the CPU, the expression of GPUs, the function
//! in 64-bit floats, and the error bound of 32-bit results. Adding an operation is adding an entry.
//!
//! # What results are
//!
//! - **Floats.** NaN propagates, except through comparisons, predicates, and `pow(x, 0)` and
//!   `pow(1, y)`, which are 1. `min` and `max` of anything and NaN are NaN. Functions have their
//!   limits at infinity. GPUs may flush subnormal 32-bit floats to zero, as arguments and as
//!   results. A multiplication and an addition in one fused kernel may be rounded once instead of
//!   twice.
//! - **16-bit floats** are computed in 32 bits, and each result is rounded to the nearest one, ties
//!   to even, fused or not.
//! - **Integers** wrap. Division rounds down, and by zero gives 0, as does the remainder. Shifts by
//!   the width or more, or by less than 0, leave no bit.
//! - **Order.** Elementwise results do not depend on anything but their arguments. Fusing changes
//!   results only as described above.

mod binary;
mod reduce;
mod unary;

pub use binary::BinaryOp;
pub use unary::UnaryOp;

pub(crate) use binary::BinaryEntry;
pub(crate) use reduce::Reducer;
pub(crate) use unary::UnaryEntry;

use crate::dtype::DType;
use crate::math::Helper;

/// Loops over integers of the three widths, and the expression for GPUs.
#[derive(Clone, Copy)]
pub(crate) struct Integers<I32, I64, U8> {
    pub(crate) i32: I32,
    pub(crate) i64: I64,
    pub(crate) u8: U8,
    /// `{T}` stands for the type of the vectors, `{t}` for that of their elements.
    pub(crate) wgsl: &'static str,
    pub(crate) helpers: &'static [Helper],
}

/// Returns the distance from a number to the next float of a type, which is not below that of the
/// smallest normal float.
///
/// ```
/// use aleatron_tensor::{DType, op};
/// assert_eq!(op::unit_in_last_place(1.5, DType::F32), 2f64.powi(-23));
/// assert_eq!(op::unit_in_last_place(0.0, DType::F16), 2f64.powi(-24));
/// ```
#[must_use]
pub fn unit_in_last_place(x: f64, dtype: DType) -> f64 {
    let (lowest, digits) = match dtype {
        DType::F16 => (-14.0, 10.0),
        DType::F64 => (-1022.0, 52.0),
        _ => (-126.0, 23.0),
    };
    (x.abs().log2().floor().max(lowest) - digits).exp2()
}

/// Returns the error bound of a result of a type that was computed in 32 bits with an error of
/// `ulps` units in the last place.
#[must_use]
pub fn error_bound(ulps: f64, exact: f64, dtype: DType) -> f64 {
    // A device that flushes subnormal floats to zero is off by the smallest normal float.
    let computed = ulps * unit_in_last_place(exact, DType::F32) + f64::from(f32::MIN_POSITIVE);
    match dtype {
        DType::F16 => computed + 0.5 * unit_in_last_place(exact.abs() + computed, DType::F16),
        _ => computed,
    }
}
