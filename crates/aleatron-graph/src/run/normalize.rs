//! Normalisations.

use aleatron_tensor::{DType, Tensor};

use super::array::{Array, len};
use super::inputs::{Inputs, axes, axis};
use super::reduce::around;
use crate::error::{Error, Result};

/// Values for each channel, in the shape that goes with the rest of `x`.
fn per_channel(x: &Tensor, values: &Tensor) -> Result<Tensor> {
    let mut shape = vec![1; x.rank().max(2)];
    shape[1] = values.len();
    if x.rank() == 1 {
        shape = vec![values.len()];
    }
    Ok(values.reshape(&shape)?)
}

pub(super) fn batch(inputs: &Inputs<'_>, epsilon: f32, momentum: f32, training: bool) -> Result<Vec<Tensor>> {
    let x = inputs.get(0)?;
    let mut parameters = Vec::with_capacity(4);
    for k in 1..5 {
        parameters.push(inputs.get(k)?);
    }
    if x.rank() == 0 {
        return Err(Error::input(0, "it has no channels"));
    }
    let channels = if x.rank() == 1 { 1 } else { x.shape()[1] };
    if let Some(k) = parameters.iter().position(|tensor| tensor.len() != channels) {
        return Err(Error::input(
            k + 1,
            format!("{channels} values are needed, not {}", parameters[k].len()),
        ));
    }
    let (mut mean, mut variance) = (parameters[2].clone(), parameters[3].clone());
    let mut running = Vec::new();
    if training {
        let array = Array::floats(x)?;
        let [before, _, after] = around(x.shape(), 1.min(x.rank() - 1))?;
        let n = (before * after).max(1) as f64;
        let (mut means, mut variances) = (vec![0.0_f32; channels], vec![0.0_f32; channels]);
        for channel in 0..channels {
            let values = (0..before).flat_map(|i| {
                let first = (i * channels + channel) * after;
                array.data[first..first + after].iter().map(|&value| f64::from(value))
            });
            let center = values.clone().sum::<f64>() / n;
            means[channel] = center as f32;
            variances[channel] = (values.map(|value| (value - center).powi(2)).sum::<f64>() / n) as f32;
        }
        let of = |data: Vec<f32>| -> Result<Tensor> {
            Ok(Array { shape: vec![channels], data }.tensor()?.to_device(&x.device())?.cast(mean.dtype())?)
        };
        let (new_mean, new_variance) = (of(means)?, of(variances)?);
        for (old, new) in [(&mean, &new_mean), (&variance, &new_variance)] {
            running.push(old.mul(momentum)?.add(&new.mul(1.0 - momentum)?)?);
        }
        (mean, variance) = (new_mean, new_variance);
    }
    let scale = parameters[0].div(&variance.add(epsilon)?.sqrt()?)?;
    let centered = x.sub(&per_channel(x, &mean)?.cast(x.dtype())?)?;
    let y = centered
        .mul(&per_channel(x, &scale)?.cast(x.dtype())?)?
        .add(&per_channel(x, parameters[1])?.cast(x.dtype())?)?;
    running.insert(0, y);
    Ok(running)
}

/// Normalises runs of elements: the mean becomes 0 and the variance 1. Gives means and reciprocal deviations too.
fn standardize(data: &mut [f32], run: usize, epsilon: f32) -> (Vec<f32>, Vec<f32>) {
    let (mut means, mut reciprocals) = (Vec::new(), Vec::new());
    for values in data.chunks_mut(run.max(1)) {
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
        let reciprocal = 1.0 / (variance + f64::from(epsilon)).sqrt();
        values.iter_mut().for_each(|v| *v = ((f64::from(*v) - mean) * reciprocal) as f32);
        means.push(mean as f32);
        reciprocals.push(reciprocal as f32);
    }
    (means, reciprocals)
}

fn scaled(y: &Tensor, scale: &Tensor, bias: &Tensor) -> Result<Tensor> {
    Ok(y.mul(&per_channel(y, scale)?)?.add(&per_channel(y, bias)?)?)
}

pub(super) fn instance(inputs: &Inputs<'_>, epsilon: f32) -> Result<Tensor> {
    let x = inputs.get(0)?;
    if x.rank() < 3 {
        return Err(Error::input(0, format!("spatial axes are needed, not shape {:?}", x.shape())));
    }
    let mut array = Array::floats(x)?;
    let run = len(&x.shape()[2..])?;
    standardize(&mut array.data, run, epsilon);
    scaled(&array.tensor_as(x.dtype())?.to_device(&x.device())?, inputs.get(1)?, inputs.get(2)?)
}

pub(super) fn group(inputs: &Inputs<'_>, epsilon: f32, groups: i64) -> Result<Tensor> {
    let (x, scale, bias) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
    let &[_, channels, ..] = x.shape() else {
        return Err(Error::input(0, format!("an axis of channels is needed, not shape {:?}", x.shape())));
    };
    let groups = usize::try_from(groups).unwrap_or(0);
    if groups == 0 || channels % groups != 0 {
        return Err(Error::attribute("num_groups", groups, format!("it must divide {channels} channels")));
    }
    let mut array = Array::floats(x)?;
    let run = len(&x.shape()[1..])? / groups;
    standardize(&mut array.data, run, epsilon);
    let y = array.tensor_as(x.dtype())?.to_device(&x.device())?;
    // Before operator set 21 there was one scale per group.
    let of_channels = |tensor: &Tensor| -> Result<Tensor> {
        if tensor.len() == channels {
            return Ok(tensor.clone());
        }
        if tensor.len() != groups {
            return Err(Error::input(1, format!("{channels} values are needed, not {}", tensor.len())));
        }
        let wide = tensor.reshape(&[groups, 1])?.broadcast_to(&[groups, channels / groups])?;
        Ok(wide.contiguous()?.reshape(&[channels])?)
    };
    scaled(&y, &of_channels(scale)?, &of_channels(bias)?)
}

pub(super) fn layer(inputs: &Inputs<'_>, number: i64, epsilon: f32) -> Result<Vec<Tensor>> {
    let x = inputs.get(0)?;
    let axis = axis(number, x.rank())?;
    let run = len(&x.shape()[axis..])?;
    let mut array = Array::floats(x)?;
    let (means, reciprocals) = standardize(&mut array.data, run, epsilon);
    let mut y = array.tensor_as(x.dtype())?.to_device(&x.device())?.mul(inputs.get(1)?)?;
    if let Some(bias) = inputs.maybe(2) {
        y = y.add(bias)?;
    }
    let mut shape = x.shape().to_vec();
    shape[axis..].fill(1);
    let statistics = |data: Vec<f32>| Array { shape: shape.clone(), data }.tensor();
    Ok(vec![y, statistics(means)?, statistics(reciprocals)?])
}

pub(super) fn rms(inputs: &Inputs<'_>, number: i64, epsilon: f32) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let axis = axis(number, x.rank())?;
    let run = len(&x.shape()[axis..])?.max(1);
    let mut array = Array::floats(x)?;
    for values in array.data.chunks_mut(run) {
        let mean = values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / run as f64;
        let reciprocal = 1.0 / (mean + f64::from(epsilon)).sqrt();
        values.iter_mut().for_each(|v| *v = (f64::from(*v) * reciprocal) as f32);
    }
    Ok(array.tensor_as(x.dtype())?.to_device(&x.device())?.mul(inputs.get(1)?)?)
}

pub(super) fn lp(x: &Tensor, number: i64, p: i64) -> Result<Tensor> {
    if !matches!(p, 1 | 2) {
        return Err(Error::attribute("p", p, "1 or 2 is possible"));
    }
    let [before, n, after] = around(x.shape(), axis(number, x.rank())?)?;
    let mut array = Array::floats(x)?;
    for i in 0..before {
        for j in 0..after {
            let at = |k: usize| (i * n + k) * after + j;
            let values = (0..n).map(|k| f64::from(array.data[at(k)]));
            let norm = match p {
                1 => values.map(f64::abs).sum::<f64>(),
                _ => values.map(|v| v * v).sum::<f64>().sqrt(),
            };
            for k in 0..n {
                let element = &mut array.data[at(k)];
                *element = if norm == 0.0 { 0.0 } else { (f64::from(*element) / norm) as f32 };
            }
        }
    }
    array.tensor_as(x.dtype())
}

pub(super) fn lrn(x: &Tensor, alpha: f32, beta: f32, bias: f32, size: i64) -> Result<Tensor> {
    let Some(size) = usize::try_from(size).ok().filter(|&size| size > 0) else {
        return Err(Error::attribute("size", size, "a positive number is needed"));
    };
    if x.rank() < 2 {
        return Err(Error::input(0, "channels are needed"));
    }
    let [before, channels, after] = around(x.shape(), 1)?;
    let array = Array::floats(x)?;
    let mut data = Vec::with_capacity(array.data.len());
    for i in 0..before {
        for channel in 0..channels {
            let first = channel.saturating_sub((size - 1) / 2);
            let last = (channel + size / 2).min(channels - 1);
            for j in 0..after {
                let at = |channel: usize| f64::from(array.data[(i * channels + channel) * after + j]);
                let squares: f64 = (first..=last).map(|near| at(near).powi(2)).sum();
                let base = f64::from(bias) + f64::from(alpha) / size as f64 * squares;
                data.push((at(channel) / base.powf(f64::from(beta))) as f32);
            }
        }
    }
    Array { shape: x.shape().to_vec(), data }.tensor_as(x.dtype())
}

pub(super) fn mean_variance(x: &Tensor, numbers: &[i64]) -> Result<Tensor> {
    let over = axes(numbers, x.rank())?;
    // The axes that are not normalised come first, so that each run lies together.
    let first: Vec<usize> = (0..x.rank()).filter(|axis| !over.contains(axis)).collect();
    let order: Vec<isize> = first.iter().chain(&over).map(|&axis| axis as isize).collect();
    let moved = x.permute(&order)?;
    let mut array = Array::floats(&moved)?;
    let run = len(&moved.shape()[first.len()..])?;
    standardize(&mut array.data, run, 1e-9);
    let mut back = vec![0; order.len()];
    for (k, &axis) in order.iter().enumerate() {
        back[axis as usize] = k as isize;
    }
    Ok(array.tensor_as(DType::F32)?.cast(x.dtype())?.permute(&back)?)
}
