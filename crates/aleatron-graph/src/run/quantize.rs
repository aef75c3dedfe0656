//! Quantized operators.
//!
//! Products of 8-bit integers run as products of 32-bit floats, which are exact as long as all sums stay below 2^24: the second operand is
//! split into digits so small that they do.

use aleatron_tensor::{DType, Device, Tensor};

use super::array::{Array, len};
use super::inputs::{Inputs, axis, floats, size};
use super::{elementwise, product};
use crate::error::{Error, Result};
use crate::op::{Quantized, Window};

/// Integers up to this are exact as 32-bit floats.
const EXACT: u64 = 1 << 24;

/// Which parameter of a quantized tensor belongs to each element.
struct Grid {
    /// The elements that follow each other with the same index along the axis.
    inner: usize,
    /// The size of the axis.
    n: usize,
    /// Indices of the axis with one parameter; 0 for one parameter of all elements.
    block: usize,
    /// Parameters along the axis, and whether there are parameters for each of the other axes.
    parameters: usize,
    is_full: bool,
}

impl Grid {
    fn new(x: &Tensor, scale: &Tensor, number: i64, block_size: i64) -> Result<Self> {
        let block = size(block_size, "block_size")?;
        if scale.len() == 1 && block == 0 {
            return Ok(Self { inner: 1, n: 1, block: 0, parameters: 1, is_full: false });
        }
        let axis = axis(number, x.rank())?;
        let (n, inner) = (x.shape()[axis], len(&x.shape()[axis + 1..])?);
        let fault = |expected: &[usize]| {
            Error::input(1, format!("scale has shape {:?}, expected {expected:?}", scale.shape()))
        };
        if block == 0 {
            return match scale.shape() == [n] {
                true => Ok(Self { inner, n, block: 1, parameters: n, is_full: false }),
                false => Err(fault(&[n])),
            };
        }
        let mut expected = x.shape().to_vec();
        expected[axis] = n.div_ceil(block);
        match scale.shape() == expected {
            true => Ok(Self { inner, n, block, parameters: expected[axis], is_full: true }),
            false => Err(fault(&expected)),
        }
    }

    /// Returns the index of the parameter of an element.
    fn parameter(&self, element: usize) -> usize {
        if self.block == 0 {
            return 0;
        }
        let along = element / self.inner % self.n / self.block;
        match self.is_full {
            false => along,
            true => {
                let outer = element / (self.inner * self.n);
                (outer * self.parameters + along) * self.inner + element % self.inner
            }
        }
    }
}

/// The elements of a tensor of integers.
fn integers(k: usize, tensor: &Tensor) -> Result<Vec<i32>> {
    match tensor.dtype() {
        DType::U8 => Ok(tensor.to_vec::<u8>()?.into_iter().map(i32::from).collect()),
        DType::I32 => Ok(tensor.to_vec::<i32>()?),
        other => Err(Error::input(k, format!("integers of at most 32 bits are needed, not {other}"))),
    }
}

/// The zero points of an input, which must go with its scales; zeros if it is left out.
fn zero_points(inputs: &Inputs<'_>, k: usize, scales: usize) -> Result<Vec<i32>> {
    let points = match inputs.maybe(k) {
        Some(tensor) => integers(k, tensor)?,
        None => vec![0; scales],
    };
    match points.len() == scales {
        true => Ok(points),
        false => Err(Error::input(k, format!("{} zero points for {scales} scales", points.len()))),
    }
}

/// Returns the integer nearest to a value, ties to even, moved by the zero point and saturated to the type.
fn saturated(value: f32, zero_point: i32, to: Quantized) -> i32 {
    let (low, high) = to.range();
    let shifted = f64::from(value.round_ties_even()) + f64::from(zero_point);
    shifted.clamp(f64::from(low), f64::from(high)) as i32
}

fn tensor_of(values: Vec<i32>, shape: &[usize], to: Quantized) -> Result<Tensor> {
    Ok(match to.dtype() {
        DType::U8 => {
            // Saturated to bytes before.
            let bytes: Vec<u8> = values.into_iter().map(|value| value as u8).collect();
            Tensor::from_slice(&bytes, shape, &Device::Cpu)?
        }
        _ => Tensor::from_slice(&values, shape, &Device::Cpu)?,
    })
}

pub(super) fn quantize(inputs: &Inputs<'_>, axis: i64, block_size: i64, to: Quantized) -> Result<Tensor> {
    let (x, scale) = (inputs.get(0)?, inputs.get(1)?);
    let grid = Grid::new(x, scale, axis, block_size)?;
    let scales = floats(scale)?;
    let points = zero_points(inputs, 2, scales.len())?;
    let values = elementwise::cast(x, DType::F32)?.to_vec::<f32>()?;
    let quantized = values.iter().enumerate().map(|(k, &value)| {
        let parameter = grid.parameter(k);
        saturated(value / scales[parameter], points[parameter], to)
    });
    tensor_of(quantized.collect(), x.shape(), to)
}

pub(super) fn dequantize(inputs: &Inputs<'_>, axis: i64, block_size: i64) -> Result<Tensor> {
    let (x, scale) = (inputs.get(0)?, inputs.get(1)?);
    let grid = Grid::new(x, scale, axis, block_size)?;
    let scales = floats(scale)?;
    let points = zero_points(inputs, 2, scales.len())?;
    let values = integers(0, x)?;
    let data = values.iter().enumerate().map(|(k, &value)| {
        let parameter = grid.parameter(k);
        value.wrapping_sub(points[parameter]) as f32 * scales[parameter]
    });
    Array { shape: x.shape().to_vec(), data: data.collect() }.tensor_as(scale.dtype())
}

/// Bytes that cover the range of all elements and zero, their scale and their zero point.
pub(super) fn dynamic(x: &Tensor) -> Result<Vec<Tensor>> {
    let values = floats(x)?;
    let low = values.iter().copied().fold(0.0_f32, f32::min);
    let high = values.iter().copied().fold(0.0_f32, f32::max);
    // Zeros alone have no range; any scale represents them.
    let scale = if high == low { 1.0 } else { (high - low) / 255.0 };
    let zero_point = (0.0 - low / scale).clamp(0.0, 255.0).round_ties_even() as i32;
    let quantized = values.iter().map(|&value| saturated(value / scale, zero_point, Quantized::UInt8));
    Ok(vec![
        tensor_of(quantized.collect(), x.shape(), Quantized::UInt8)?,
        Tensor::from_slice(&[scale], &[], &Device::Cpu)?,
        tensor_of(vec![zero_point], &[], Quantized::UInt8)?,
    ])
}

/// Returns an operand less its zero point; several zero points lie along an axis.
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

fn largest(values: &[i32]) -> u64 {
    values.iter().map(|value| u64::from(value.unsigned_abs())).max().unwrap_or(0)
}

/// Returns the exact sums of `depth` products of integers each, computed by a product of floats.
fn exact(
    x: &Tensor,
    w: &Tensor,
    depth: usize,
    product: impl Fn(Tensor, Tensor) -> Result<Tensor>,
) -> Result<Array<i32>> {
    let (x_values, w_values) = (x.to_vec::<i32>()?, w.to_vec::<i32>()?);
    let most = largest(&x_values).max(1).saturating_mul(depth.max(1) as u64);
    let bits = 64 - largest(&w_values).leading_zeros();
    // The digits of a number are its low bits; the last one has the sign.
    let digit = (1..=bits.max(1)).rev().find(|&digit| most.saturating_mul(1 << digit) <= EXACT);
    let Some(digit) = digit else {
        let reason = format!("sums of {depth} products are too large; at most {EXACT} is supported");
        return Err(Error::input(0, reason));
    };
    let as_floats = |values: &[i32], shape: &[usize]| -> Result<Tensor> {
        let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
    };
    let x = as_floats(&x_values, x.shape())?;
    let (mut shape, mut sums) = (Vec::new(), Vec::new());
    let mut rest = w_values;
    let mut shift = 0;
    loop {
        let is_last = shift + digit >= bits;
        let mask = (1 << digit) - 1;
        let part: Vec<i32> = rest.iter().map(|&value| if is_last { value } else { value & mask }).collect();
        let made = product(x.clone(), as_floats(&part, w.shape())?)?;
        let values = floats(&made)?;
        if shift == 0 {
            shape = made.shape().to_vec();
            sums = vec![0_i32; values.len()];
        }
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = sum.wrapping_add((value as i32).wrapping_shl(shift));
        }
        if is_last {
            return Ok(Array { shape, data: sums });
        }
        rest.iter_mut().for_each(|value| *value >>= digit);
        shift += digit;
    }
}

fn multiplied(inputs: &Inputs<'_>, places: [usize; 4]) -> Result<Array<i32>> {
    let [a, a_point, b, b_point] = places;
    let a = centered(inputs, a, a_point, Along::Rows)?;
    let b = centered(inputs, b, b_point, Along::Columns)?;
    let depth = a.shape().last().copied().unwrap_or(1);
    exact(&a, &b, depth, |a, b| product::matmul(&a, &b))
}

pub(super) fn matmul_integer(inputs: &Inputs<'_>) -> Result<Tensor> {
    multiplied(inputs, [0, 2, 1, 3])?.tensor()
}

fn convolved(inputs: &Inputs<'_>, places: [usize; 4], window: &Window, groups: i64) -> Result<Array<i32>> {
    let [x, x_point, w, w_point] = places;
    let x = centered(inputs, x, x_point, Along::Channels)?;
    let w = centered(inputs, w, w_point, Along::Channels)?;
    let depth = len(w.shape().get(1..).unwrap_or_default())?;
    exact(&x, &w, depth, |x, w| product::conv(&Inputs(&[Some(x), Some(w)]), window, groups))
}

pub(super) fn conv_integer(inputs: &Inputs<'_>, window: &Window, groups: i64) -> Result<Tensor> {
    if inputs.maybe(2).is_some_and(|point| point.len() != 1) {
        return Err(Error::input(2, "one zero point is needed"));
    }
    convolved(inputs, [0, 2, 1, 3], window, groups)?.tensor()
}

/// Returns sums of quantized products as quantized numbers.
fn requantized(sums: &Array<i32>, factors: &Tensor, inputs: &Inputs<'_>, to: Quantized) -> Result<Tensor> {
    let scale = inputs.float(6)?;
    let points = zero_points(inputs, 7, 1)?;
    let factors = factors.broadcast_to(&sums.shape)?.to_vec::<f32>()?;
    let values = sums.data.iter().zip(&factors);
    let quantized = values.map(|(&sum, factor)| saturated(sum as f32 * (factor / scale), points[0], to));
    tensor_of(quantized.collect(), &sums.shape, to)
}

pub(super) fn linear_matmul(inputs: &Inputs<'_>, to: Quantized) -> Result<Tensor> {
    let sums = multiplied(inputs, [0, 2, 3, 5])?;
    let rank = sums.shape.len();
    let scale = |k: usize, along: Along| -> Result<Tensor> {
        along.broadcast(&elementwise::cast(inputs.get(k)?, DType::F32)?, rank)
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
    let (channels, positions) = match sums.shape.as_slice() {
        [_, channels, positions @ ..] => (*channels, len(positions)?),
        _ => return Err(Error::input(0, "rank 3 at least is needed")),
    };
    if let Some(bias) = inputs.maybe(8) {
        let bias = integers(8, bias)?;
        if bias.len() != channels {
            return Err(Error::input(8, format!("{channels} biases are needed, not {}", bias.len())));
        }
        for (k, sum) in sums.data.iter_mut().enumerate() {
            *sum = sum.wrapping_add(bias[k / positions.max(1) % channels]);
        }
    }
    let scales = floats(inputs.get(4)?)?;
    if ![1, channels].contains(&scales.len()) {
        return Err(Error::input(4, format!("1 or {channels} scales are needed, not {}", scales.len())));
    }
    let x_scale = inputs.float(1)?;
    let factors: Vec<f32> = scales.iter().map(|scale| x_scale * scale).collect();
    let mut shape = vec![1; sums.shape.len()];
    shape[1] = factors.len();
    requantized(&sums, &Tensor::from_slice(&factors, &shape, &Device::Cpu)?, inputs, to)
}
