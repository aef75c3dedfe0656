//! Quantized operators.
//!
//! Products of 8-bit integers run as products of 32-bit floats, which are exact as long as all sums
//! stay below 2^24: the second operand is split into sufficiently small digits.

use aleatron_tensor::{DType, Device, Tensor};

use super::array::len;
use super::inputs::{Inputs, axis, floats, size};
use super::{elementwise, product};
use crate::error::{Error, Result};
use crate::op::{Quantized, Window};

/// Integers up to this are exact as 32-bit floats.
const EXACT: u64 = 1 << 24;

/// Returns the parameters of a quantized tensor in a shape that is broadcast to its elements: one
/// for all, one for each index of an axis, or one for each block of an axis.
fn spread(x: &Tensor, parameters: &Tensor, number: i64, block_size: i64) -> Result<Tensor> {
    let block = size(block_size, "block_size")?;
    if parameters.len() == 1 && block == 0 {
        return Ok(parameters.reshape(&[])?);
    }
    let axis = axis(number, x.rank())?;
    let n = x.shape()[axis];
    let fault = |expected: &[usize]| {
        Error::input(1, format!("scale has shape {:?}, expected {expected:?}", parameters.shape()))
    };
    if block == 0 {
        let mut shape = vec![1; x.rank()];
        shape[axis] = n;
        return if parameters.shape() == [n] {
            Ok(parameters.reshape(&shape)?)
        } else {
            Err(fault(&[n]))
        };
    }
    let mut expected = x.shape().to_vec();
    expected[axis] = n.div_ceil(block);
    if parameters.shape() != expected {
        return Err(fault(&expected));
    }
    // A block may be longer than the axis.
    Ok(parameters.repeat(block.min(n.max(1)), axis as isize)?.slice(axis as isize, ..n)?)
}

/// Returns the zero points of an input as 32-bit integers, one for each of its scales; zero if it
/// is missing.
fn zero_points(inputs: &Inputs<'_>, k: usize, scale: &Tensor) -> Result<Tensor> {
    let Some(points) = inputs.maybe(k) else {
        return Ok(Tensor::zeros(scale.shape(), DType::I32, &scale.device())?);
    };
    if !matches!(points.dtype(), DType::U8 | DType::I32) {
        let reason = format!("integers of at most 32 bits are needed, not {}", points.dtype());
        return Err(Error::input(k, reason));
    }
    match points.len() == scale.len() {
        true => Ok(points.cast(DType::I32)?.reshape(scale.shape())?),
        false => {
            Err(Error::input(k, format!("{} zero points for {} scales", points.len(), scale.len())))
        }
    }
}

/// Returns the integers nearest to values, ties to even, moved by zero points and saturated to the
/// type.
fn saturated(values: &Tensor, points: &Tensor, to: Quantized) -> Result<Tensor> {
    let (low, high) = to.range();
    let points = points.cast(DType::F32)?;
    // Integers of at most 16 bits and their differences are exact.
    let end = |end: i32| points.neg()?.add(f64::from(end));
    Ok(values.round()?.clip(&end(low)?, &end(high)?)?.add(&points)?.cast(to.dtype())?)
}

pub(super) fn quantize(
    inputs: &Inputs<'_>,
    axis: i64,
    block_size: i64,
    to: Quantized,
) -> Result<Tensor> {
    let (x, scale) = (inputs.get(0)?, inputs.get(1)?);
    let points = spread(x, &zero_points(inputs, 2, scale)?, axis, block_size)?;
    let scale = spread(x, &scale.cast(DType::F32)?, axis, block_size)?;
    saturated(&elementwise::cast(x, DType::F32)?.div(&scale)?, &points, to)
}

pub(super) fn dequantize(inputs: &Inputs<'_>, axis: i64, block_size: i64) -> Result<Tensor> {
    let (x, scale) = (inputs.get(0)?, inputs.get(1)?);
    if !matches!(x.dtype(), DType::U8 | DType::I32) {
        return Err(Error::input(
            0,
            format!("integers of at most 32 bits are needed, not {}", x.dtype()),
        ));
    }
    let points = spread(x, &zero_points(inputs, 2, scale)?, axis, block_size)?;
    let factors = spread(x, &scale.cast(DType::F32)?, axis, block_size)?;
    let centered = x.cast(DType::I32)?.sub(&points)?;
    Ok(centered.cast(DType::F32)?.mul(&factors)?.cast(scale.dtype())?)
}

/// Quantizes dynamically: returns bytes that cover the range of all elements and zero, their scale
/// and their zero point.
pub(super) fn dynamic(x: &Tensor) -> Result<Vec<Tensor>> {
    let values = floats(x)?;
    let low = values.iter().copied().fold(0.0_f32, f32::min);
    let high = values.iter().copied().fold(0.0_f32, f32::max);
    // Zeros alone have no range; any scale represents them.
    let scale = if high == low { 1.0 } else { (high - low) / 255.0 };
    let zero_point = (0.0 - low / scale).clamp(0.0, 255.0).round_ties_even() as u8;
    let point = Tensor::from_slice(&[zero_point], &[], &Device::Cpu)?;
    Ok(vec![
        saturated(&x.cast(DType::F32)?.div(scale)?, &point, Quantized::UInt8)?,
        Tensor::from_slice(&[scale], &[], &Device::Cpu)?,
        point,
    ])
}

/// Subtracts the zero point from an operand; several zero points belong to an axis.
fn centered(inputs: &Inputs<'_>, k: usize, point: usize, along: Along) -> Result<Tensor> {
    let x = elementwise::cast(inputs.get(k)?, DType::I32)?;
    let Some(points) = inputs.maybe(point) else { return Ok(x) };
    let points = elementwise::cast(points, DType::I32)?;
    let points = along.broadcast(&points, x.rank())?;
    Ok(x.sub(&points)?)
}

/// The axis that parameters belong to.
#[derive(Clone, Copy)]
enum Along {
    /// The rows of matrices.
    Rows,
    /// The columns of matrices.
    Columns,
    /// The first axis, of output channels.
    Channels,
}

impl Along {
    /// Returns parameters in a shape that is broadcast to a tensor of `rank` axes.
    fn broadcast(self, parameters: &Tensor, rank: usize) -> Result<Tensor> {
        if parameters.len() == 1 {
            return Ok(parameters.reshape(&[])?);
        }
        if parameters.rank() != 1 {
            return Ok(parameters.clone());
        }
        let mut shape = vec![1; rank];
        let axis = match self {
            Self::Rows => rank.checked_sub(2),
            Self::Columns => rank.checked_sub(1),
            Self::Channels => Some(0),
        };
        let own = axis.and_then(|axis| shape.get_mut(axis));
        *own.ok_or_else(|| Error::input(0, format!("rank {rank} has no axis for zero points")))? =
            parameters.len();
        Ok(parameters.reshape(&shape)?)
    }
}

/// Returns the largest magnitude of integers.
fn largest(x: &Tensor) -> Result<u64> {
    if x.is_empty() {
        return Ok(0);
    }
    let ends = [x.max_all()?.item::<i32>()?, x.min_all()?.item::<i32>()?];
    Ok(ends.map(|end| u64::from(end.unsigned_abs())).into_iter().max().unwrap_or(0))
}

/// Returns the exact sums of `depth` products of integers each, computed by a product of floats.
fn exact(
    x: &Tensor,
    w: &Tensor,
    depth: usize,
    product: impl Fn(Tensor, Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let most = largest(x)?.max(1).saturating_mul(depth.max(1) as u64);
    let bits = 64 - largest(w)?.leading_zeros();
    // The digits of a number are its low bits; the last one has the sign.
    let digit = (1..=bits.max(1)).rev().find(|&digit| most.saturating_mul(1 << digit) <= EXACT);
    let Some(digit) = digit else {
        let reason =
            format!("sums of {depth} products are too large; at most {EXACT} is supported");
        return Err(Error::input(0, reason));
    };
    let x = x.cast(DType::F32)?;
    let (mut rest, mut shift, mut sums) = (w.clone(), 0, None::<Tensor>);
    loop {
        let is_last = shift + digit >= bits;
        let part = if is_last { rest.clone() } else { rest.and((1_i64 << digit) - 1)? };
        let made = product(x.clone(), part.cast(DType::F32)?)?
            .cast(DType::I32)?
            .shift_left(i64::from(shift))?;
        let sum = match sums {
            Some(sums) => sums.add(&made)?,
            None => made,
        };
        if is_last {
            return Ok(sum);
        }
        sums = Some(sum);
        rest = rest.shift_right(i64::from(digit))?;
        shift += digit;
    }
}

fn multiplied(inputs: &Inputs<'_>, slots: [usize; 4]) -> Result<Tensor> {
    let [a, a_point, b, b_point] = slots;
    let a = centered(inputs, a, a_point, Along::Rows)?;
    let b = centered(inputs, b, b_point, Along::Columns)?;
    let depth = a.shape().last().copied().unwrap_or(1);
    exact(&a, &b, depth, |a, b| product::matmul(&a, &b))
}

pub(super) fn matmul_integer(inputs: &Inputs<'_>) -> Result<Tensor> {
    multiplied(inputs, [0, 2, 1, 3])
}

fn convolved(
    inputs: &Inputs<'_>,
    slots: [usize; 4],
    window: &Window,
    groups: i64,
) -> Result<Tensor> {
    let [x, x_point, w, w_point] = slots;
    let x = centered(inputs, x, x_point, Along::Channels)?;
    let w = centered(inputs, w, w_point, Along::Channels)?;
    let depth = len(w.shape().get(1..).unwrap_or_default())?;
    exact(&x, &w, depth, |x, w| product::conv(&Inputs(&[Some(x), Some(w)]), window, groups))
}

pub(super) fn conv_integer(inputs: &Inputs<'_>, window: &Window, groups: i64) -> Result<Tensor> {
    if inputs.maybe(2).is_some_and(|point| point.len() != 1) {
        return Err(Error::input(2, "one zero point is needed"));
    }
    convolved(inputs, [0, 2, 1, 3], window, groups)
}

/// Returns sums of quantized products as quantized numbers.
fn requantized(
    sums: &Tensor,
    factors: &Tensor,
    inputs: &Inputs<'_>,
    to: Quantized,
) -> Result<Tensor> {
    let scale = inputs.float(6)?;
    let points = zero_points(inputs, 7, &Tensor::ones(&[], DType::F32, &sums.device())?)?;
    saturated(&sums.cast(DType::F32)?.mul(&factors.div(scale)?)?, &points, to)
}

pub(super) fn linear_matmul(inputs: &Inputs<'_>, to: Quantized) -> Result<Tensor> {
    let sums = multiplied(inputs, [0, 2, 3, 5])?;
    let scale = |k: usize, along: Along| -> Result<Tensor> {
        along.broadcast(&elementwise::cast(inputs.get(k)?, DType::F32)?, sums.rank())
    };
    let factors = scale(1, Along::Rows)?.mul(&scale(4, Along::Columns)?)?;
    requantized(&sums, &factors, inputs, to)
}

pub(super) fn linear_conv(
    inputs: &Inputs<'_>,
    window: &Window,
    groups: i64,
    to: Quantized,
) -> Result<Tensor> {
    let mut sums = convolved(inputs, [0, 2, 3, 5], window, groups)?;
    let channels = match sums.shape() {
        [_, channels, ..] => *channels,
        _ => return Err(Error::input(0, "rank 3 at least is needed")),
    };
    // Values of each channel, in a shape that broadcasts to the sums.
    let per_channel = |k: usize, tensor: &Tensor| -> Result<Tensor> {
        if ![1, channels].contains(&tensor.len()) {
            return Err(Error::input(
                k,
                format!("1 or {channels} values are needed, not {}", tensor.len()),
            ));
        }
        let mut shape = vec![1; sums.rank()];
        shape[1] = tensor.len();
        Ok(tensor.reshape(&shape)?)
    };
    let scales = per_channel(4, &elementwise::cast(inputs.get(4)?, DType::F32)?)?;
    if let Some(bias) = inputs.maybe(8) {
        if bias.len() != channels || bias.dtype() != DType::I32 {
            let reason = format!(
                "{channels} biases of int32 are needed, not {} of {}",
                bias.len(),
                bias.dtype()
            );
            return Err(Error::input(8, reason));
        }
        sums = sums.add(&per_channel(8, bias)?)?;
    }
    requantized(&sums, &scales.mul(inputs.float(1)?)?, inputs, to)
}
