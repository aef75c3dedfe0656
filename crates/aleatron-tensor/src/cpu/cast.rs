//! Conversions between element types.
//!
//! Floats are truncated to integers and saturate, and NaN becomes 0. Wide integers keep their low
//! bits. Integers and 64-bit floats become 16-bit floats through 32-bit ones. Every value except
//! zero becomes true, including NaN.

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::simd::map;
use crate::dtype::DType;

/// Values of a block in the type of the computation: 16-bit floats as 32-bit ones, booleans as
/// bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Values<'a> {
    F64(&'a [f64]),
    F32(&'a [f32]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
}

/// A buffer for the values of a block.
#[derive(Debug)]
pub(crate) enum ValuesMut<'a> {
    F64(&'a mut [f64]),
    F32(&'a mut [f32]),
    I32(&'a mut [i32]),
    I64(&'a mut [i64]),
    U8(&'a mut [u8]),
}

macro_rules! convert {
    ($x:expr, $out:expr, $to:ty) => {
        match $x {
            Values::F64(x) => map(x, $out, |x| x as $to),
            Values::F32(x) => map(x, $out, |x| x as $to),
            Values::I32(x) => map(x, $out, |x| x as $to),
            Values::I64(x) => map(x, $out, |x| x as $to),
            Values::U8(x) => map(x, $out, |x| x as $to),
        }
    };
}

/// Converts values to a type.
pub(crate) fn cast(x: Values<'_>, out: ValuesMut<'_>, dtype: DType) {
    match out {
        ValuesMut::F64(out) => convert!(x, out, f64),
        ValuesMut::F32(out) => {
            convert!(x, out, f32);
            if dtype == DType::F16 {
                round_to_half(out);
            }
        }
        ValuesMut::I32(out) => convert!(x, out, i32),
        ValuesMut::I64(out) => convert!(x, out, i64),
        ValuesMut::U8(out) if dtype == DType::Bool => match x {
            Values::F64(x) => map(x, out, |x| u8::from(x != 0.0)),
            Values::F32(x) => map(x, out, |x| u8::from(x != 0.0)),
            Values::I32(x) => map(x, out, |x| u8::from(x != 0)),
            Values::I64(x) => map(x, out, |x| u8::from(x != 0)),
            Values::U8(x) => map(x, out, |x| u8::from(x != 0)),
        },
        ValuesMut::U8(out) => convert!(x, out, u8),
    }
}

/// The number of elements converted at a time, on the stack.
const CHUNK: usize = 256;

/// Rounds to the nearest 16-bit floats, stored as 32-bit ones.
pub(crate) fn round_to_half(values: &mut [f32]) {
    let mut halves = [f16::ZERO; CHUNK];
    for values in values.chunks_mut(CHUNK) {
        let halves = &mut halves[..values.len()];
        halves.convert_from_f32_slice(values);
        halves.convert_to_f32_slice(values);
    }
}

/// Converts 16-bit floats to 32-bit ones.
pub(crate) fn widen(halves: &[f16], out: &mut [f32]) {
    halves.convert_to_f32_slice(out);
}

/// Rounds 32-bit floats to the nearest 16-bit ones.
pub(crate) fn narrow(values: &[f32], out: &mut [f16]) {
    out.convert_from_f32_slice(values);
}
