//! Pools: what a window makes of the elements it meets.

use aleatron_tensor::{DType, PoolOptions, Tensor};

use super::array::{Array, Number, each_place, for_number, len};
use super::inputs::{Inputs, size};
use super::window::{Geometry, spatial};
use crate::error::{Error, Result};
use crate::op::{Pooling, Rounding, Window};

pub(super) fn pool(
    x: &Tensor,
    pooling: Pooling,
    window: &Window,
    rounding: Rounding,
    n_outputs: usize,
) -> Result<Vec<Tensor>> {
    let (batch, channels, input) = spatial(x.shape())?;
    let geometry = Geometry::new(window, input, &[], rounding)?;
    let shape = [&[batch, channels], geometry.output.as_slice()].concat();
    if x.dtype().is_float()
        && n_outputs < 2
        && let Some(pooled) = on_tensors(x, pooling, &geometry, rounding)?
    {
        return Ok(vec![pooled]);
    }
    match pooling {
        Pooling::Max { column_major } => {
            for_number!(x, T => max_pool::<T>(x, &geometry, &shape, column_major, n_outputs))
        }
        Pooling::Average { count_padding } => {
            let mean = |values: &mut dyn Iterator<Item = f64>, met: usize, padded: usize| {
                let n = if count_padding { padded } else { met };
                values.sum::<f64>() / n as f64
            };
            Ok(vec![each_window(x, &geometry, &shape, mean)?])
        }
        Pooling::Lp { p } => {
            let norm = |values: &mut dyn Iterator<Item = f64>, _: usize, _: usize| p_norm(values, p);
            Ok(vec![each_window(x, &geometry, &shape, norm)?])
        }
    }
}

/// The pool that tensors have: of one or two axes, means and largest ones.
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
            rounding: match rounding {
                Rounding::Floor => aleatron_tensor::Rounding::Down,
                Rounding::Ceil => aleatron_tensor::Rounding::Up,
            },
        }
    }
    let padding = |count_padding| match count_padding {
        true => aleatron_tensor::Padding::Counted,
        false => aleatron_tensor::Padding::Ignored,
    };
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

fn p_norm(values: &mut dyn Iterator<Item = f64>, p: i64) -> f64 {
    match p {
        1 => values.map(f64::abs).sum(),
        2 => values.map(|v| v * v).sum::<f64>().sqrt(),
        p => values.map(|v| v.abs().powf(p as f64)).sum::<f64>().powf(1.0 / p as f64),
    }
}

/// A float for every window, of its elements, their number, and their number with padding.
fn each_window(
    x: &Tensor,
    geometry: &Geometry,
    shape: &[usize],
    value: impl Fn(&mut dyn Iterator<Item = f64>, usize, usize) -> f64,
) -> Result<Tensor> {
    let array = Array::floats(x)?;
    let mut out = Array::<f32>::full(shape, 0.0)?;
    let (plane, positions) = (len(&geometry.input)?, len(&geometry.output)?);
    let (mut met, mut position) = (Vec::new(), 0);
    each_place(&geometry.output, |at| {
        met.clear();
        geometry.each_tap(at, |_, element| met.push(element));
        let padded = geometry.taps_with_padding(at);
        for image in 0..shape[0] * shape[1] {
            let elements = &array.data[image * plane..][..plane];
            let mut values = met.iter().map(|&element| f64::from(elements[element]));
            out.data[image * positions + position] = value(&mut values, met.len(), padded) as f32;
        }
        position += 1;
    });
    out.tensor_as(x.dtype())
}

fn max_pool<T: Number>(
    x: &Tensor,
    geometry: &Geometry,
    shape: &[usize],
    column_major: bool,
    n_outputs: usize,
) -> Result<Vec<Tensor>> {
    let array = Array::<T>::read(x)?;
    let lowest = match x.dtype() {
        DType::I64 => T::narrow(i64::MIN as f64),
        DType::I32 => T::narrow(f64::from(i32::MIN)),
        _ => T::narrow(f64::NEG_INFINITY),
    };
    let mut out = Array::<T>::full(shape, lowest)?;
    let mut indices = Array::<i64>::full(if n_outputs > 1 { shape } else { &[] }, 0)?;
    let (plane, positions) = (len(&geometry.input)?, len(&geometry.output)?);
    let (mut met, mut position) = (Vec::new(), 0);
    each_place(&geometry.output, |at| {
        met.clear();
        geometry.each_tap(at, |_, element| met.push(element));
        for image in 0..shape[0] * shape[1] {
            let elements = &array.data[image * plane..][..plane];
            let mut best: Option<usize> = None;
            for &element in &met {
                let is_better = best.is_none_or(|best| {
                    elements[element] > elements[best]
                        || (elements[element].wide().is_nan() && !elements[best].wide().is_nan())
                });
                if is_better {
                    best = Some(element);
                }
            }
            let target = image * positions + position;
            if let Some(best) = best {
                out.data[target] = elements[best];
                if n_outputs > 1 {
                    let place = if column_major { column_first(best, &geometry.input) } else { best };
                    indices.data[target] = (image * plane + place) as i64;
                }
            }
        }
        position += 1;
    });
    let mut made = vec![out.tensor()?];
    if n_outputs > 1 {
        made.push(indices.tensor()?);
    }
    Ok(made)
}

/// The place of an element where the first axis runs fastest.
fn column_first(mut place: usize, shape: &[usize]) -> usize {
    let mut at = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        at[axis] = place % shape[axis];
        place /= shape[axis];
    }
    at.iter().zip(shape).rev().fold(0, |all, (a, n)| all * n + a)
}

/// A pool over all of each channel.
pub(super) fn global(x: &Tensor, pooling: Pooling) -> Result<Tensor> {
    let (batch, channels, input) = spatial(x.shape())?;
    let plane = len(input)?;
    if plane == 0 {
        return Err(Error::input(0, format!("shape {:?} has nothing to pool", x.shape())));
    }
    match pooling {
        Pooling::Average { .. } if x.dtype().is_float() => return Ok(x.global_avg_pool()?),
        Pooling::Max { .. } if x.dtype().is_float() => return Ok(x.global_max_pool()?),
        _ => {}
    }
    let array = Array::floats(x)?;
    let data = array.data.chunks(plane).map(|elements| {
        let mut values = elements.iter().map(|&value| f64::from(value));
        let value = match pooling {
            Pooling::Average { .. } => values.sum::<f64>() / plane as f64,
            Pooling::Max { .. } => {
                values.fold(f64::NEG_INFINITY, |a, b| if b > a || b.is_nan() { b } else { a })
            }
            Pooling::Lp { p } => p_norm(&mut values, p),
        };
        value as f32
    });
    let shape = [&[batch, channels], vec![1; input.len()].as_slice()].concat();
    Array { shape, data: data.collect() }.tensor_as(x.dtype())
}

/// Elements back at the places a pool took them from.
pub(super) fn unpool(inputs: &Inputs<'_>, window: &Window) -> Result<Tensor> {
    let (x, places) = (inputs.get(0)?, inputs.ints(1)?);
    let (batch, channels, input) = spatial(x.shape())?;
    let smallest: Vec<usize> = {
        // Each axis as it was before the pool, without what was cut off.
        let strides = if window.strides.is_empty() { vec![1; input.len()] } else { window.strides.clone() };
        let pads = match &window.padding {
            crate::op::Padding::Explicit(pads) if pads.len() == 2 * input.len() => pads.clone(),
            _ => vec![0; 2 * input.len()],
        };
        if strides.len() != input.len() || window.kernel.len() != input.len() {
            return Err(Error::attribute("kernel_shape", &window.kernel, "one for each axis is needed"));
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
        Some(shape) => shape.iter().map(|&n| size(n, "output_shape")).collect::<Result<Vec<_>>>()?,
        None => inner.clone(),
    };
    if shape.len() != inner.len() {
        return Err(Error::input(2, format!("rank {} is needed", inner.len())));
    }
    let array = Array::floats(x)?;
    let mut out = Array::<f32>::full(&shape, 0.0)?;
    for (index, (&value, &at)) in array.data.iter().zip(&places).enumerate() {
        // Places count in the smallest shape that the pool could have had.
        let mut rest = usize::try_from(at).map_err(|_| Error::input(1, format!("{at} at index {index}")))?;
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

/// Columns of windows, added up where they overlap.
pub(super) fn col2im(inputs: &Inputs<'_>, window: &Window) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let sizes = |k| -> Result<Vec<usize>> { inputs.ints(k)?.iter().map(|&n| size(n, "shape")).collect() };
    let (image, block) = (sizes(1)?, sizes(2)?);
    let geometry = Geometry::new(window, &image, &block, Rounding::Floor)?;
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
    let (channels, plane) = (rows / taps, len(&image)?);
    let array = Array::floats(x)?;
    let mut out = Array::<f32>::full(&[&[batch, channels], image.as_slice()].concat(), 0.0)?;
    let mut position = 0;
    each_place(&geometry.output, |at| {
        geometry.each_tap(at, |tap, element| {
            for image in 0..batch * channels {
                out.data[image * plane + element] += array.data[(image * taps + tap) * positions + position];
            }
        });
        position += 1;
    });
    out.tensor_as(x.dtype())
}
