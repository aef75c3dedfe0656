//! Pooling over windows.

use aleatron_tensor::{DType, Padding, PoolOptions, Scalar, Tensor};

use super::array::{Array, len};
use super::elementwise::cast;
use super::inputs::{Inputs, size};
use super::window::{Geometry, Sum, spatial, spread};
use crate::error::{Error, Result};
use crate::op::{Pooling, Rounding, Window};

pub(super) fn pool(
    x: &Tensor,
    pooling: Pooling,
    window: &Window,
    rounding: Rounding,
    n_outputs: usize,
) -> Result<Vec<Tensor>> {
    let (_, _, input) = spatial(x.shape())?;
    let geometry = Geometry::new(window, input, &[], rounding)?;
    if x.dtype().is_float()
        && n_outputs < 2
        && let Some(pooled) = on_tensors(x, pooling, &geometry, rounding)?
    {
        return Ok(vec![pooled]);
    }
    match pooling {
        Pooling::Max { column_major } => max_pool(x, &geometry, column_major, n_outputs),
        Pooling::Average { count_padding } => {
            let sum = sum_of_taps(&x.cast(DType::F32)?, &geometry)?;
            let counts = geometry.counts(padding(count_padding), &x.device())?;
            Ok(vec![sum.div(&counts)?.cast(x.dtype())?])
        }
        Pooling::Lp { p } => {
            let powers = power(&x.cast(DType::F32)?, p)?;
            Ok(vec![root(&sum_of_taps(&powers, &geometry)?, p)?.cast(x.dtype())?])
        }
    }
}

fn padding(count_padding: bool) -> Padding {
    if count_padding { Padding::Counted } else { Padding::Ignored }
}

/// Returns the magnitudes of elements to the power of p.
fn power(x: &Tensor, p: i64) -> Result<Tensor> {
    Ok(match p {
        1 => x.abs()?,
        2 => x.square()?,
        p => x.abs()?.pow(p as f64)?,
    })
}

fn root(x: &Tensor, p: i64) -> Result<Tensor> {
    Ok(match p {
        1 => x.clone(),
        2 => x.sqrt()?,
        p => x.pow(1.0 / p as f64)?,
    })
}

fn sum_of_taps(x: &Tensor, geometry: &Geometry) -> Result<Tensor> {
    let mut sum = Sum::default();
    geometry.each_tap(x, Scalar::Int(0), |_, met| sum.add(met))?;
    sum.total()
}

/// Computes a pool by the operations of tensors: one or two axes, means and maxima.
fn on_tensors(
    x: &Tensor,
    pooling: Pooling,
    geometry: &Geometry,
    rounding: Rounding,
) -> Result<Option<Tensor>> {
    fn options<const D: usize>(geometry: &Geometry, rounding: Rounding) -> PoolOptions<D> {
        PoolOptions {
            kernel: std::array::from_fn(|axis| geometry.kernel[axis]),
            stride: std::array::from_fn(|axis| geometry.strides[axis]),
            padding: std::array::from_fn(|axis| [geometry.begins[axis], geometry.ends[axis]]),
            dilation: std::array::from_fn(|axis| geometry.dilations[axis]),
            rounding,
        }
    }
    Ok(Some(match (pooling, geometry.input.len()) {
        (Pooling::Max { .. }, 1) => x.max_pool1d(&options(geometry, rounding))?,
        (Pooling::Max { .. }, 2) => x.max_pool2d(&options(geometry, rounding))?,
        (Pooling::Average { count_padding }, 1) => {
            x.avg_pool1d(&options(geometry, rounding), padding(count_padding))?
        }
        (Pooling::Average { count_padding }, 2) => {
            x.avg_pool2d(&options(geometry, rounding), padding(count_padding))?
        }
        _ => return Ok(None),
    }))
}

/// Returns the largest element of each window, and on request its position in all of `x`.
fn max_pool(
    x: &Tensor,
    geometry: &Geometry,
    column_major: bool,
    n_outputs: usize,
) -> Result<Vec<Tensor>> {
    let lowest = match x.dtype() {
        DType::I64 => Scalar::Int(i64::MIN),
        DType::I32 => Scalar::Int(i32::MIN.into()),
        DType::U8 => Scalar::Int(0),
        dtype if dtype.is_float() => Scalar::Float(f64::NEG_INFINITY),
        other => return Err(Error::input(0, format!("numbers are needed, not {other}"))),
    };
    let mut best: Option<Tensor> = None;
    if n_outputs < 2 {
        geometry.each_tap(x, lowest, |_, met| {
            best = Some(match &best {
                Some(best) => best.maximum(&met)?,
                None => met,
            });
            Ok(())
        })?;
        return Ok(best.into_iter().collect());
    }
    let (device, plane) = (x.device(), len(&geometry.input)?);
    // Positions are 64-bit integers where the device has them; on other devices, tensors have fewer
    // than 2^31 elements here.
    let dtype = if device.supports(DType::I64) { DType::I64 } else { DType::I32 };
    let count = i64::try_from(x.len()).map_err(|_| Error::input(0, "it has too many elements"))?;
    let numbers = |shape: &[usize], step: usize| -> Result<Tensor> {
        let n = len(shape)? as i64;
        Ok(Tensor::arange(0_i64, n * step as i64, step.max(1) as i64, dtype, &device)?
            .reshape(shape)?)
    };
    let positions = match column_major {
        false => numbers(&geometry.input, 1)?,
        true => {
            let turned: Vec<usize> = geometry.input.iter().rev().copied().collect();
            let back: Vec<isize> = (0..turned.len() as isize).rev().collect();
            numbers(&turned, 1)?.permute(&back)?
        }
    };
    let mut met_positions = Vec::new();
    let positions = positions.unsqueeze(0)?.unsqueeze(0)?;
    geometry.each_tap(&positions, Scalar::Int(-1), |_, met| {
        met_positions.push(met);
        Ok(())
    })?;
    let mut found: Option<Tensor> = None;
    geometry.each_tap(x, lowest, |tap, met| {
        let here = &met_positions[tap];
        let (Some(old), Some(old_position)) = (&best, &found) else {
            (best, found) = (Some(met.clone()), Some(here.broadcast_to(met.shape())?));
            return Ok(());
        };
        // Padding is never the largest; the first element of the input is the largest until another
        // is larger.
        let is_element = here.ge(Scalar::Int(0))?;
        let mut is_better = met.gt(old)?;
        if x.dtype().is_float() {
            is_better = is_better.or(&met.is_nan()?.and(&old.is_nan()?.not()?)?)?;
        }
        is_better = is_element.and(&is_better.or(&old_position.lt(Scalar::Int(0))?)?)?;
        let (new, new_position) =
            (is_better.where_(&met, old)?, is_better.where_(here, old_position)?);
        (best, found) = (Some(new), Some(new_position));
        Ok(())
    })?;
    let (Some(best), Some(found)) = (best, found) else {
        return Err(Error::model("window", "internal error: it has no taps"));
    };
    let images = &x.shape()[..2];
    let ones = vec![1; geometry.input.len()];
    let first = match count {
        0 => Tensor::zeros(&[&[1, 1], ones.as_slice()].concat(), dtype, &device)?,
        _ => numbers(images, plane)?.reshape(&[images, &ones].concat())?,
    };
    // A window without elements has position 0.
    let found = found.maximum(Scalar::Int(0))?.add(&first)?;
    Ok(vec![best, cast(&found, DType::I64)?])
}

/// Computes a pool over each whole channel.
pub(super) fn global(x: &Tensor, pooling: Pooling) -> Result<Tensor> {
    let (_, _, input) = spatial(x.shape())?;
    if len(input)? == 0 {
        return Err(Error::input(0, format!("shape {:?} has no elements to pool", x.shape())));
    }
    match pooling {
        Pooling::Average { .. } => Ok(x.global_avg_pool()?),
        Pooling::Max { .. } => Ok(x.global_max_pool()?),
        Pooling::Lp { p } => {
            let axes: Vec<isize> = (2..x.rank() as isize).collect();
            let sum = power(&x.cast(DType::F32)?, p)?.sum_keepdim(&axes)?;
            Ok(root(&sum, p)?.cast(x.dtype())?)
        }
    }
}

/// Writes elements back to the positions that a pool took them from.
pub(super) fn unpool(inputs: &Inputs<'_>, window: &Window) -> Result<Tensor> {
    let (x, positions) = (inputs.get(0)?, inputs.ints(1)?);
    let (batch, channels, input) = spatial(x.shape())?;
    let smallest: Vec<usize> = {
        // The size of each axis before the pool, without dropped elements.
        let strides =
            if window.strides.is_empty() { vec![1; input.len()] } else { window.strides.clone() };
        let pads = match &window.padding {
            crate::op::Padding::Explicit(pads) if pads.len() == 2 * input.len() => pads.clone(),
            _ => vec![0; 2 * input.len()],
        };
        if strides.len() != input.len() || window.kernel.len() != input.len() {
            return Err(Error::attribute(
                "kernel_shape",
                &window.kernel,
                "one for each axis is needed",
            ));
        }
        (0..input.len())
            .map(|axis| {
                let n = (input[axis] as i64 - 1) * strides[axis] + window.kernel[axis];
                size(n - pads[axis] - pads[input.len() + axis], "pads")
            })
            .collect::<Result<_>>()?
    };
    let inner = [&[batch, channels], smallest.as_slice()].concat();
    let shape = match inputs.maybe_ints(2)? {
        Some(shape) => {
            shape.iter().map(|&n| size(n, "output_shape")).collect::<Result<Vec<_>>>()?
        }
        None => inner.clone(),
    };
    if shape.len() != inner.len() {
        return Err(Error::input(2, format!("rank {} is needed", inner.len())));
    }
    let array = Array::floats(x)?;
    let mut out = Array::<f32>::full(&shape, 0.0)?;
    for (index, (&value, &at)) in array.data.iter().zip(&positions).enumerate() {
        // Positions count in the smallest shape that the pool could have had.
        let mut rest =
            usize::try_from(at).map_err(|_| Error::input(1, format!("{at} at index {index}")))?;
        let mut coordinates = vec![0; inner.len()];
        for axis in (0..inner.len()).rev() {
            coordinates[axis] = rest % inner[axis].max(1);
            rest /= inner[axis].max(1);
        }
        let target = coordinates.iter().zip(&shape).fold(0, |all, (a, n)| all * n + a);
        match out.data.get_mut(target) {
            Some(element) if coordinates.iter().zip(&shape).all(|(a, n)| a < n) => *element = value,
            _ => return Err(Error::input(1, format!("{at} at index {index} is outside"))),
        }
    }
    out.tensor_as(x.dtype())
}

/// Adds columns of windows to an image.
pub(super) fn col2im(inputs: &Inputs<'_>, window: &Window) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let sizes =
        |k| -> Result<Vec<usize>> { inputs.ints(k)?.iter().map(|&n| size(n, "shape")).collect() };
    let (image, block) = (sizes(1)?, sizes(2)?);
    let geometry = Geometry::new(window, &image, &block, Rounding::Down)?;
    let (taps, positions) = (len(&block)?, len(&geometry.output)?);
    let &[batch, rows, columns] = x.shape() else {
        return Err(Error::input(0, format!("rank 3 is needed, not {:?}", x.shape())));
    };
    if taps == 0 || rows % taps != 0 || columns != positions {
        return Err(Error::input(
            0,
            format!("{:?} does not go with {positions} blocks of {taps}", x.shape()),
        ));
    }
    let blocks = x.reshape(&[&[batch, rows / taps, taps], geometry.output.as_slice()].concat())?;
    let mut sum = Sum::default();
    for tap in 0..taps {
        let (mut placed, mut rest) = (blocks.select(2, tap)?, tap);
        for axis in (0..block.len()).rev() {
            let begin = rest % block[axis] * geometry.dilations[axis];
            rest /= block[axis];
            let total = image[axis] + geometry.begins[axis] + geometry.ends[axis];
            placed = spread(&placed, axis + 2, geometry.strides[axis], begin, total)?;
        }
        sum.add(placed)?;
    }
    let mut sum = sum.total()?;
    for (axis, &n) in image.iter().enumerate() {
        sum = sum.slice(axis as isize + 2, geometry.begins[axis]..geometry.begins[axis] + n)?;
    }
    Ok(sum)
}
