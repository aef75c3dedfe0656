//! Normalisations.

use aleatron_tensor::{DType, Padding, PoolOptions, Tensor};

use super::array::len;
use super::inputs::{Inputs, axes, axis};
use super::reduce::signed;
use crate::error::{Error, Result};

/// Returns the values of each channel in a shape that broadcasts to `x`.
fn per_channel(x: &Tensor, values: &Tensor) -> Result<Tensor> {
    let mut shape = vec![1; x.rank().max(2)];
    shape[1] = values.len();
    if x.rank() == 1 {
        shape = vec![values.len()];
    }
    Ok(values.reshape(&shape)?)
}

pub(super) fn batch(
    inputs: &Inputs<'_>,
    epsilon: f32,
    momentum: f32,
    training: bool,
) -> Result<Vec<Tensor>> {
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
        let others: Vec<isize> = (0..x.rank() as isize).filter(|&axis| axis != 1).collect();
        let dtype = mean.dtype();
        let of_channels =
            |tensor: Tensor| -> Result<Tensor> { Ok(tensor.reshape(&[channels])?.cast(dtype)?) };
        let wide = x.cast(DType::F32)?;
        let new_mean = of_channels(wide.mean(&others)?)?;
        let new_variance = of_channels(wide.var(&others, 0.0)?)?;
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

fn scaled(y: &Tensor, scale: &Tensor, bias: &Tensor) -> Result<Tensor> {
    Ok(y.mul(&per_channel(y, scale)?)?.add(&per_channel(y, bias)?)?)
}

pub(super) fn instance(inputs: &Inputs<'_>, epsilon: f32) -> Result<Tensor> {
    let x = inputs.get(0)?;
    if x.rank() < 3 {
        return Err(Error::input(0, format!("spatial axes are needed, not shape {:?}", x.shape())));
    }
    let spatial: Vec<isize> = (2..x.rank() as isize).collect();
    scaled(&x.layer_norm(&spatial, None, None, epsilon)?, inputs.get(1)?, inputs.get(2)?)
}

pub(super) fn group(inputs: &Inputs<'_>, epsilon: f32, groups: i64) -> Result<Tensor> {
    let (x, scale, bias) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
    let &[batch, channels, ..] = x.shape() else {
        return Err(Error::input(
            0,
            format!("an axis of channels is needed, not shape {:?}", x.shape()),
        ));
    };
    let groups = usize::try_from(groups).unwrap_or(0);
    if groups == 0 || channels % groups != 0 {
        return Err(Error::attribute(
            "num_groups",
            groups,
            format!("it must divide {channels} channels"),
        ));
    }
    let run = len(&x.shape()[1..])? / groups;
    let y = x
        .reshape(&[batch, groups, run])?
        .layer_norm(&[2], None, None, epsilon)?
        .reshape(x.shape())?;
    // Before operator set 21 there was one scale per group.
    let of_channels = |tensor: &Tensor| -> Result<Tensor> {
        if tensor.len() == channels {
            return Ok(tensor.clone());
        }
        if tensor.len() != groups {
            return Err(Error::input(
                1,
                format!("{channels} values are needed, not {}", tensor.len()),
            ));
        }
        Ok(tensor.reshape(&[groups])?.repeat(channels / groups, 0)?)
    };
    scaled(&y, &of_channels(scale)?, &of_channels(bias)?)
}

pub(super) fn layer(
    inputs: &Inputs<'_>,
    number: i64,
    epsilon: f32,
    n_outputs: usize,
) -> Result<Vec<Tensor>> {
    let x = inputs.get(0)?;
    let first = axis(number, x.rank())?;
    let over: Vec<isize> = (first..x.rank()).map(|axis| axis as isize).collect();
    let mut made = vec![x.layer_norm(&over, Some(inputs.get(1)?), inputs.maybe(2), epsilon)?];
    if n_outputs > 1 {
        let wide = x.cast(DType::F32)?;
        made.push(wide.mean_keepdim(&over)?);
        made.push(wide.var_keepdim(&over, 0.0)?.add(epsilon)?.rsqrt()?);
    }
    Ok(made)
}

pub(super) fn rms(inputs: &Inputs<'_>, number: i64, epsilon: f32) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let over: Vec<isize> = (axis(number, x.rank())?..x.rank()).map(|axis| axis as isize).collect();
    Ok(x.rms_norm(&over, Some(inputs.get(1)?), epsilon)?)
}

pub(super) fn lp(x: &Tensor, number: i64, p: i64) -> Result<Tensor> {
    let axis = [axis(number, x.rank())? as isize];
    let wide = x.cast(DType::F32)?;
    let norm = match p {
        1 => wide.abs()?.sum_keepdim(axis)?,
        2 => wide.square()?.sum_keepdim(axis)?.sqrt()?,
        _ => return Err(Error::attribute("p", p, "1 or 2 is possible")),
    };
    Ok(norm.eq(0.0)?.where_(0.0, &wide.div(&norm)?)?.cast(x.dtype())?)
}

pub(super) fn lrn(x: &Tensor, alpha: f32, beta: f32, bias: f32, size: i64) -> Result<Tensor> {
    let Some(size) = usize::try_from(size).ok().filter(|&size| size > 0) else {
        return Err(Error::attribute("size", size, "a positive number is needed"));
    };
    let [batch, channels, rest @ ..] = x.shape() else {
        return Err(Error::input(0, "channels are needed"));
    };
    if x.is_empty() {
        return Ok(x.clone());
    }
    // The mean of squares over neighbouring channels; channels outside are zeros.
    let last = channels - 1;
    let around = [((size - 1) / 2).min(last), (size / 2).min(last)];
    let width = around[0] + around[1] + 1;
    let options =
        PoolOptions { stride: [1, 1], padding: [around, [0, 0]], ..PoolOptions::new([width, 1]) };
    let squares = x.cast(DType::F32)?.square()?.reshape(&[*batch, 1, *channels, len(rest)?])?;
    let mean = squares.avg_pool2d(&options, Padding::Counted)?.reshape(x.shape())?;
    let base = mean.mul(f64::from(alpha) * (width as f64 / size as f64))?.add(bias)?;
    Ok(x.cast(DType::F32)?.div(&base.pow(beta)?)?.cast(x.dtype())?)
}

pub(super) fn mean_variance(x: &Tensor, numbers: &[i64]) -> Result<Tensor> {
    let over = axes(numbers, x.rank())?;
    match over.is_empty() {
        // The mean of one element is the element.
        true => Ok(x.sub(x)?),
        false => Ok(x.layer_norm(&signed(&over), None, None, 1e-9)?),
    }
}
