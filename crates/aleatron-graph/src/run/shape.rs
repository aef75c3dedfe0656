//! Operations on shapes and slices.

use aleatron_core::{Quantity, memory};
use aleatron_tensor::{DType, Device, Scalar, Slice, Tensor};

use super::array::len;
use super::elementwise::broadcast_shapes;
use super::inputs::{Inputs, axes, axis, size};
use crate::error::{Error, Result};
use crate::op::{BlockOrder, PadMode, SliceGiven};

/// Creates a tensor of integers on the host.
pub(super) fn ints(values: &[i64], shape: &[usize]) -> Result<Tensor> {
    Ok(Tensor::from_slice(values, shape, &Device::Cpu)?)
}

pub(super) fn reshape(
    inputs: &Inputs<'_>,
    given: Option<&[i64]>,
    allow_zero: bool,
) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let wanted = match given {
        Some(shape) => shape.to_vec(),
        None => inputs.ints(1)?,
    };
    Ok(x.reshape(&reshaped_shape(x.shape(), &wanted, allow_zero)?)?)
}

/// Returns the shape that a tensor gets: 0 keeps a size unless zeros are allowed, -1 is inferred.
pub(crate) fn reshaped_shape(
    from: &[usize],
    wanted: &[i64],
    allow_zero: bool,
) -> Result<Vec<usize>> {
    let fault = || Error::input(1, format!("cannot reshape {from:?} to {wanted:?}"));
    let mut shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (axis, &number) in wanted.iter().enumerate() {
        shape.push(match number {
            0 if !allow_zero => from.get(axis).copied().ok_or_else(fault)?,
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            number => usize::try_from(number).map_err(|_| fault())?,
        });
    }
    let (elements, rest) = (len(from)?, len(&shape)?);
    match open {
        Some(_) if rest == 0 || elements % rest != 0 => return Err(fault()),
        Some(axis) => shape[axis] = elements / rest,
        None if elements != rest => return Err(fault()),
        None => {}
    }
    Ok(shape)
}

pub(super) fn flatten(x: &Tensor, number: i64) -> Result<Tensor> {
    // One past the last axis is possible.
    let rank = x.rank() as i64;
    let from = if number < 0 { number + rank } else { number };
    if !(0..=rank).contains(&from) {
        return Err(Error::attribute("axis", number, format!("the tensor has rank {rank}")));
    }
    let (before, after) = x.shape().split_at(from as usize);
    Ok(x.reshape(&[len(before)?, len(after)?])?)
}

pub(super) fn squeeze(inputs: &Inputs<'_>, given: Option<&[i64]>) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let from_input = inputs.maybe_ints(1)?;
    let over = match given.or(from_input.as_deref()) {
        Some(numbers) => axes(numbers, x.rank())?,
        None => (0..x.rank()).filter(|&axis| x.shape()[axis] == 1).collect(),
    };
    let mut squeezed = x.clone();
    for axis in over.into_iter().rev() {
        squeezed = squeezed.squeeze(axis as isize)?;
    }
    Ok(squeezed)
}

pub(super) fn unsqueeze(inputs: &Inputs<'_>, given: Option<&[i64]>) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let numbers = match given {
        Some(numbers) => numbers.to_vec(),
        None => inputs.ints(1)?,
    };
    let mut result = x.clone();
    for axis in axes(&numbers, x.rank() + numbers.len())? {
        result = result.unsqueeze(axis as isize)?;
    }
    Ok(result)
}

pub(super) fn transpose(x: &Tensor, order: Option<&[i64]>) -> Result<Tensor> {
    let order: Vec<isize> = match order {
        Some(order) => {
            let order = order.iter().map(|&number| Ok(axis(number, x.rank())? as isize));
            order.collect::<Result<_>>()?
        }
        None => (0..x.rank() as isize).rev().collect(),
    };
    Ok(x.permute(&order)?)
}

pub(super) fn expand(inputs: &Inputs<'_>) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let shape = inputs.ints(1)?.iter().map(|&n| size(n, "shape")).collect::<Result<Vec<_>>>()?;
    Ok(x.broadcast_to(&broadcast_shapes(x.shape(), &shape)?)?)
}

pub(super) fn tile(inputs: &Inputs<'_>) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let repeats =
        inputs.ints(1)?.iter().map(|&n| size(n, "repeats")).collect::<Result<Vec<_>>>()?;
    if repeats.len() != x.rank() {
        return Err(Error::input(1, format!("{} repeats for rank {}", repeats.len(), x.rank())));
    }
    // Each axis is preceded by an axis of repetitions, and both are joined.
    let (mut apart, mut wide, mut shape) = (Vec::new(), Vec::new(), Vec::new());
    for (&n, &repeat) in x.shape().iter().zip(&repeats) {
        apart.extend([1, n]);
        wide.extend([repeat, n]);
        shape.push(len(&[n, repeat])?);
    }
    len(&shape)?;
    Ok(x.reshape(&apart)?.broadcast_to(&wide)?.reshape(&shape)?)
}

pub(super) fn concat(inputs: &Inputs<'_>, number: i64) -> Result<Tensor> {
    let tensors: Vec<&Tensor> = inputs.all().collect();
    let Some(first) = tensors.first() else { return Err(Error::input(0, "it is missing")) };
    let axis = axis(number, first.rank())?;
    let mut shape = first.shape().to_vec();
    shape[axis] = 0;
    for (k, tensor) in tensors.iter().enumerate() {
        let fits = tensor.rank() == first.rank()
            && tensor.dtype() == first.dtype()
            && (0..first.rank())
                .all(|other| other == axis || tensor.shape()[other] == first.shape()[other]);
        if !fits {
            let text = format!(
                "{:?} {} after {:?} {}",
                tensor.shape(),
                tensor.dtype(),
                first.shape(),
                first.dtype()
            );
            return Err(Error::input(k, text));
        }
        let sum = shape[axis].checked_add(tensor.shape()[axis]);
        shape[axis] = sum.ok_or_else(|| Error::input(k, format!("axis {axis} is too large")))?;
    }
    len(&shape)?;
    Ok(Tensor::concat(&tensors, axis as isize)?)
}

pub(super) fn split(
    inputs: &Inputs<'_>,
    number: i64,
    given: Option<&[i64]>,
    parts: Option<i64>,
) -> Result<Vec<Tensor>> {
    let x = inputs.get(0)?;
    let axis = axis(number, x.rank())?;
    let n = x.shape()[axis];
    let from_input = inputs.maybe_ints(1)?;
    let sizes: Vec<usize> = match given.or(from_input.as_deref()) {
        Some(sizes) => sizes.iter().map(|&part| size(part, "split")).collect::<Result<_>>()?,
        None => {
            let parts = size(parts.unwrap_or(1), "num_outputs")?;
            if parts == 0 || parts > n.max(1) && n > 0 {
                return Err(Error::attribute(
                    "num_outputs",
                    parts,
                    format!("the axis has {n} elements"),
                ));
            }
            let each = n.div_ceil(parts);
            (0..parts).map(|k| each.min(n.saturating_sub(k * each))).collect()
        }
    };
    if sizes.iter().try_fold(0_usize, |sum, &part| sum.checked_add(part)) != Some(n) {
        return Err(Error::attribute("split", sizes, format!("the axis has {n} elements")));
    }
    let mut start = 0;
    let mut made = Vec::with_capacity(sizes.len());
    for part in sizes {
        made.push(x.slice(axis as isize, start..start + part)?);
        start += part;
    }
    Ok(made)
}

pub(super) fn slice(inputs: &Inputs<'_>, given: Option<&SliceGiven>) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let (starts, ends, numbers, steps) = match given {
        Some(given) => (given.starts.clone(), given.ends.clone(), given.axes.clone(), None),
        None => (inputs.ints(1)?, inputs.ints(2)?, inputs.maybe_ints(3)?, inputs.maybe_ints(4)?),
    };
    let n = starts.len();
    let numbers = numbers.unwrap_or_else(|| (0..n as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; n]);
    if ends.len() != n || numbers.len() != n || steps.len() != n {
        return Err(Error::input(
            1,
            format!(
                "{n} starts, {} ends, {} axes, {} steps",
                ends.len(),
                numbers.len(),
                steps.len()
            ),
        ));
    }
    axes(&numbers, x.rank())?;
    let mut result = x.clone();
    for k in 0..n {
        let axis = axis(numbers[k], x.rank())?;
        let size = result.shape()[axis] as i64;
        let from_start =
            |number: i64| if number < 0 { number.saturating_add(size) } else { number };
        let step = steps[k];
        if step == 0 {
            return Err(Error::input(4, "a step is 0"));
        }
        let stride = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
        if step > 0 {
            let start = from_start(starts[k]).clamp(0, size) as usize;
            let end = (from_start(ends[k]).clamp(0, size) as usize).max(start);
            result =
                result.slice(axis as isize, Slice::from(start..end).step(stride.min(1 << 40)))?;
        } else {
            // Backwards from the start, down to but excluding the end: a slice of the reversed
            // axis.
            let start = from_start(starts[k]).clamp(-1, size - 1);
            let end = from_start(ends[k]).clamp(-1, size - 1);
            let (first, last) = ((size - 1 - start) as usize, (size - 1 - end) as usize);
            let range = first..last.max(first);
            result = result
                .flip(axis as isize)?
                .slice(axis as isize, Slice::from(range).step(stride.min(1 << 40)))?;
        }
    }
    Ok(result)
}

pub(super) fn pad(
    inputs: &Inputs<'_>,
    mode: PadMode,
    given: Option<&(Vec<i64>, f32)>,
) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let pads = match given {
        Some(_) if !x.dtype().is_float() => {
            return Err(Error::input(
                0,
                format!("before operator set 11 it is of floats, not of {}", x.dtype()),
            ));
        }
        Some((pads, _)) => pads.clone(),
        None => inputs.ints(1)?,
    };
    let from_input = if given.is_none() { inputs.maybe_ints(3)? } else { None };
    let over = match from_input {
        Some(numbers) => numbers.iter().map(|&n| axis(n, x.rank())).collect::<Result<Vec<_>>>()?,
        None => (0..x.rank()).collect(),
    };
    if pads.len() != 2 * over.len() {
        return Err(Error::input(1, format!("{} pads for {} axes", pads.len(), over.len())));
    }
    let mut around = vec![[0_i64; 2]; x.rank()];
    for (k, &axis) in over.iter().enumerate() {
        around[axis] = [pads[k], pads[over.len() + k]];
    }
    let value = match (given, inputs.maybe(2)) {
        (Some((_, value)), _) => Scalar::Float((*value).into()),
        (None, Some(value)) => scalar(value)?,
        (None, None) => zero(x.dtype()),
    };
    pad_around(x, &around, mode, value)
}

/// Returns the only element of a tensor.
fn scalar(value: &Tensor) -> Result<Scalar> {
    if value.len() != 1 {
        return Err(Error::input(2, format!("one value is needed, not {}", value.len())));
    }
    Ok(match value.dtype() {
        DType::Bool => Scalar::Bool(value.item()?),
        DType::F32 | DType::F16 => Scalar::Float(f64::from(value.cast(DType::F32)?.item::<f32>()?)),
        _ => Scalar::Int(value.cast(DType::I64)?.item()?),
    })
}

fn zero(dtype: DType) -> Scalar {
    if dtype == DType::Bool { Scalar::Bool(false) } else { Scalar::Int(0) }
}

/// Pads or, for negative numbers, crops a tensor before and after each axis.
fn pad_around(x: &Tensor, around: &[[i64; 2]], mode: PadMode, value: Scalar) -> Result<Tensor> {
    let mut inside = x.clone();
    let mut shape = Vec::with_capacity(x.rank());
    for (axis, &[begin, end]) in around.iter().enumerate() {
        let n = i64::try_from(x.shape()[axis]).ok();
        let new = n.and_then(|n| n.checked_add(begin)?.checked_add(end));
        let (Some(n), Some(new)) = (n, new.filter(|new| (0..1 << 40).contains(new))) else {
            return Err(Error::input(1, format!("pads {around:?} of shape {:?}", x.shape())));
        };
        shape.push(new as usize);
        // An end may be cropped by more than the size if the other end is padded.
        let first = (-begin).clamp(0, n);
        let last = (n + end.min(0)).clamp(first, n);
        inside = inside.slice(axis as isize, first as usize..last as usize)?;
    }
    len(&shape)?;
    if mode == PadMode::Constant {
        let missing = |axis: usize| {
            let [begin, end] = around[axis].map(|n| usize::try_from(n).unwrap_or(0));
            // Elements cropped past the other end are removed from its padding.
            let extra = (begin + end + inside.shape()[axis])
                - shape[axis].min(begin + end + inside.shape()[axis]);
            match begin >= extra {
                true => (begin - extra, end),
                false => (begin, end - extra),
            }
        };
        let pairs: Vec<(usize, usize)> = (0..x.rank()).map(missing).collect();
        return Ok(inside.pad(&pairs, aleatron_tensor::PadMode::Constant(value))?);
    }
    if inside.is_empty() && len(&shape)? > 0 {
        return Err(Error::input(0, "there are no elements to repeat"));
    }
    for (axis, &[begin, _]) in around.iter().enumerate() {
        let (n, wanted) = (inside.shape()[axis] as i64, shape[axis]);
        if wanted == inside.shape()[axis] {
            continue;
        }
        let begin = begin.max(0);
        memory::check(8 * wanted as u128, Quantity::Value)?;
        let source = |k: usize| {
            let k = k as i64 - begin;
            (match mode {
                PadMode::Wrap => k.rem_euclid(n),
                PadMode::Reflect if n > 1 => {
                    let k = k.rem_euclid(2 * (n - 1));
                    k.min(2 * (n - 1) - k)
                }
                _ => k.clamp(0, n - 1),
            }) as i32
        };
        let from: Vec<i32> = (0..wanted).map(source).collect();
        let from = Tensor::from_slice(&from, &[wanted], &x.device())?;
        inside = inside.index_select(axis as isize, &from)?;
    }
    Ok(inside)
}

pub(super) fn center_crop_pad(inputs: &Inputs<'_>, numbers: Option<&[i64]>) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let wanted = inputs.ints(1)?;
    let over = match numbers {
        Some(numbers) => numbers.iter().map(|&n| axis(n, x.rank())).collect::<Result<Vec<_>>>()?,
        None => (0..x.rank()).collect(),
    };
    if wanted.len() != over.len() {
        return Err(Error::input(1, format!("{} sizes for {} axes", wanted.len(), over.len())));
    }
    let mut around = vec![[0_i64; 2]; x.rank()];
    for (&axis, &wanted) in over.iter().zip(&wanted) {
        let (old, new) = (x.shape()[axis] as i64, size(wanted, "shape")? as i64);
        // An odd element is removed or added at the end.
        let begin = if new < old { -((old - new) / 2) } else { (new - old) / 2 };
        around[axis] = [begin, new - old - begin];
    }
    pad_around(x, &around, PadMode::Constant, zero(x.dtype()))
}

fn blocks(x: &Tensor, block: i64) -> Result<([usize; 4], usize)> {
    let &[batch, channels, height, width] = x.shape() else {
        return Err(Error::input(0, format!("rank 4 is needed, not {:?}", x.shape())));
    };
    match usize::try_from(block) {
        Ok(block) if block > 0 => Ok(([batch, channels, height, width], block)),
        _ => Err(Error::attribute("blocksize", block, "a positive number is needed")),
    }
}

pub(super) fn depth_to_space(x: &Tensor, block: i64, order: BlockOrder) -> Result<Tensor> {
    let ([batch, channels, height, width], b) = blocks(x, block)?;
    let depth = b
        .checked_mul(b)
        .filter(|&squared| channels % squared == 0)
        .map(|squared| channels / squared);
    let Some(depth) = depth else {
        return Err(Error::attribute(
            "blocksize",
            block,
            format!("its square must divide {channels} channels"),
        ));
    };
    let moved = match order {
        BlockOrder::DepthColumnRow => {
            x.reshape(&[batch, b, b, depth, height, width])?.permute(&[0, 3, 4, 1, 5, 2])?
        }
        BlockOrder::ColumnRowDepth => {
            x.reshape(&[batch, depth, b, b, height, width])?.permute(&[0, 1, 4, 2, 5, 3])?
        }
    };
    Ok(moved.reshape(&[batch, depth, height * b, width * b])?)
}

pub(super) fn space_to_depth(x: &Tensor, block: i64) -> Result<Tensor> {
    let ([batch, channels, height, width], b) = blocks(x, block)?;
    if height % b != 0 || width % b != 0 {
        return Err(Error::attribute(
            "blocksize",
            block,
            format!("it must divide {height} and {width}"),
        ));
    }
    let apart = x.reshape(&[batch, channels, height / b, b, width / b, b])?;
    Ok(apart.permute(&[0, 3, 5, 1, 2, 4])?.reshape(&[
        batch,
        channels * b * b,
        height / b,
        width / b,
    ])?)
}

pub(super) fn shape(x: &Tensor, start: i64, end: Option<i64>) -> Result<Tensor> {
    let rank = x.rank() as i64;
    let bound = |number: i64| {
        (if number < 0 { number.saturating_add(rank) } else { number }).clamp(0, rank)
    };
    let (start, end) = (bound(start), bound(end.unwrap_or(rank)));
    let sizes: Vec<i64> =
        x.shape()[start as usize..end.max(start) as usize].iter().map(|&n| n as i64).collect();
    ints(&sizes, &[sizes.len()])
}

pub(super) fn count(x: &Tensor) -> Result<Tensor> {
    ints(&[x.len() as i64], &[])
}

pub(super) fn constant_of_shape(inputs: &Inputs<'_>, value: &Tensor) -> Result<Tensor> {
    let shape = inputs.ints(0)?.iter().map(|&n| size(n, "shape")).collect::<Result<Vec<_>>>()?;
    if value.len() != 1 {
        return Err(Error::attribute("value", value.shape(), "one element is needed"));
    }
    len(&shape)?;
    Ok(value.reshape(&[])?.broadcast_to(&shape)?)
}
