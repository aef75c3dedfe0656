//! Reductions and other operations along axes.

use aleatron_tensor::{DType, Dims, Order, Reduction as Fold, Scalar, Tensor};

use super::elementwise::{cast, divide_by};
use super::inputs::{Inputs, axes, axis, size};
use crate::error::{Error, Result};
use crate::op::{Extreme, NoAxes, Reduction, Softmax, SoftmaxAxes, Tie};

/// Converts axes to the type of tensor operations.
pub(super) fn signed(axes: &[usize]) -> Vec<isize> {
    axes.iter().map(|&axis| axis as isize).collect()
}

pub(super) fn reduce(
    inputs: &Inputs<'_>,
    reduction: Reduction,
    given: Option<&[i64]>,
    dims: Dims,
    no_axes: NoAxes,
) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let from_input = inputs.maybe_ints(1)?;
    let numbers = given.or(from_input.as_deref()).unwrap_or_default();
    let over = match (numbers, no_axes) {
        ([], NoAxes::All) => (0..x.rank()).collect(),
        // Without axes each element is reduced alone.
        ([], NoAxes::None) => Vec::new(),
        (numbers, _) => axes(numbers, x.rank())?,
    };
    reduce_axes(x, reduction, &over, dims)
}

/// Reduces axes; without axes, each element is reduced alone.
fn reduce_axes(x: &Tensor, reduction: Reduction, over: &[usize], dims: Dims) -> Result<Tensor> {
    let dtype = x.dtype();
    let wide = match (dtype, reduction) {
        (DType::Bool, _) => {
            return Ok(reduce_axes(&x.cast(DType::U8)?, reduction, over, dims)?.cast(dtype)?);
        }
        // Squares of 32-bit numbers may overflow where their root does not. Fractional results of
        // integers are rounded towards zero.
        (_, Reduction::L2) if x.device().supports(DType::F64) => x.cast(DType::F64)?,
        (_, Reduction::L2 | Reduction::LogSum | Reduction::LogSumExp) | (DType::F16, _) => {
            x.cast(DType::F32)?
        }
        (DType::F32, _) | (_, Reduction::Max | Reduction::Min) => x.clone(),
        // The sum of a mean may be too large for the type of its elements.
        (_, Reduction::Mean) => cast(x, DType::I64)?,
        _ => x.clone(),
    };
    let axes = signed(over);
    let fold = |x: &Tensor, how: Fold| -> Result<Tensor> {
        match over.is_empty() {
            true => Ok(x.clone()),
            false => Ok(x.reduce(how, &axes, dims)?),
        }
    };
    let count = over.iter().map(|&axis| x.shape()[axis] as i128).product::<i128>();
    let result = match reduction {
        Reduction::L1 => fold(&wide.abs()?, Fold::Sum)?,
        Reduction::L2 => fold(&wide.square()?, Fold::Sum)?.sqrt()?,
        Reduction::LogSum => fold(&wide, Fold::Sum)?.log()?,
        Reduction::LogSumExp => fold(&wide, Fold::LogSumExp)?,
        Reduction::Mean if dtype.is_float() => fold(&wide, Fold::Mean)?,
        Reduction::Mean => {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            if count == 0 {
                return Err(Error::input(0, "the mean of no integers is undefined"));
            }
            divide_by(&fold(&wide, Fold::Sum)?, count)?
        }
        Reduction::Prod => fold(&wide, Fold::Prod)?,
        Reduction::Sum => fold(&wide, Fold::Sum)?,
        Reduction::SumSquare => fold(&wide.square()?, Fold::Sum)?,
        Reduction::Max | Reduction::Min if count == 0 => {
            let shape = fold(&wide.cast(DType::F32)?, Fold::Sum)?.shape().to_vec();
            return Ok(Tensor::full(&shape, of_no_elements(dtype, reduction), dtype, &x.device())?);
        }
        Reduction::Max => fold(&wide, Fold::Max)?,
        Reduction::Min => fold(&wide, Fold::Min)?,
    };
    cast(&result, dtype)
}

/// Returns the largest or the smallest of no elements.
fn of_no_elements(dtype: DType, reduction: Reduction) -> Scalar {
    let is_max = reduction == Reduction::Max;
    match dtype {
        DType::I64 => Scalar::Int(if is_max { i64::MIN } else { i64::MAX }),
        DType::I32 => Scalar::Int(if is_max { i32::MIN.into() } else { i32::MAX.into() }),
        DType::U8 | DType::Bool => Scalar::Int(if is_max { 0 } else { u8::MAX.into() }),
        _ => Scalar::Float(if is_max { f64::NEG_INFINITY } else { f64::INFINITY }),
    }
}

pub(super) fn arg_reduce(
    x: &Tensor,
    extreme: Extreme,
    number: i64,
    dims: Dims,
    tie: Tie,
) -> Result<Tensor> {
    let axis = axis(number, x.rank())?;
    if x.shape()[axis] == 0 {
        return Err(Error::input(0, "the axis has no elements"));
    }
    let along = axis as isize;
    let x = if x.dtype() == DType::Bool { x.cast(DType::U8)? } else { x.clone() };
    let fold = if extreme == Extreme::Max { Fold::ArgMax } else { Fold::ArgMin };
    let indices = match tie {
        Tie::First => x.reduce(fold, &[along], dims)?,
        Tie::Last => {
            let last = x.shape()[axis] as i64 - 1;
            x.flip(along)?.reduce(fold, &[along], dims)?.neg()?.add(Scalar::Int(last))?
        }
    };
    cast(&indices, DType::I64)
}

pub(super) fn softmax(x: &Tensor, function: Softmax, over: SoftmaxAxes) -> Result<Tensor> {
    if x.rank() == 0 {
        return softmax(&x.reshape(&[1])?, function, over).and_then(|y| Ok(y.reshape(&[])?));
    }
    let axes: Vec<isize> = match over {
        SoftmaxAxes::One(number) => vec![axis(number, x.rank())? as isize],
        SoftmaxAxes::From(number) => {
            (axis(number, x.rank())?..x.rank()).map(|axis| axis as isize).collect()
        }
    };
    Ok(match function {
        _ if x.is_empty() => x.clone(),
        Softmax::Softmax => x.softmax(&axes)?,
        Softmax::LogSoftmax => x.log_softmax(&axes)?,
        Softmax::Hardmax => {
            // Positions count over all of the axes in row-major order.
            let count: usize = axes.iter().map(|&axis| x.shape()[axis as usize]).product();
            let mut shape = vec![1; x.rank()];
            axes.iter().for_each(|&axis| shape[axis as usize] = x.shape()[axis as usize]);
            let indices =
                Tensor::arange(0, count as i64, 1, DType::I32, &x.device())?.reshape(&shape)?;
            indices.eq(&x.argmax_keepdim(&axes)?)?.cast(x.dtype())?
        }
    })
}

/// The operation of a cumulative reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cumulate {
    Sum,
    Product,
}

pub(super) fn cumulate(
    inputs: &Inputs<'_>,
    exclusive: bool,
    reverse: bool,
    how: Cumulate,
) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let axis = axis(inputs.int(1)?, x.rank())?;
    let (along, n) = (axis as isize, x.shape()[axis]);
    if x.is_empty() {
        return Ok(x.clone());
    }
    let turned =
        |x: &Tensor| -> Result<Tensor> { Ok(if reverse { x.flip(along)? } else { x.clone() }) };
    let mut terms = turned(x)?;
    if exclusive {
        let mut shape = x.shape().to_vec();
        shape[axis] = 1;
        let start = Scalar::Int(i64::from(how == Cumulate::Product));
        let start = Tensor::full(&shape, start, x.dtype(), &x.device())?;
        terms = Tensor::concat(&[&start, &terms.slice(along, ..n - 1)?], along)?;
    }
    let sums = match how {
        Cumulate::Sum => terms.cumsum(along)?,
        Cumulate::Product => terms.cumprod(along)?,
    };
    Ok(turned(&sums)?.cast(x.dtype())?)
}

pub(super) fn top_k(inputs: &Inputs<'_>, number: i64, extreme: Extreme) -> Result<Vec<Tensor>> {
    let x = inputs.get(0)?;
    let axis = axis(number, x.rank())?;
    let wanted = size(inputs.int(1)?, "k")?;
    if wanted > x.shape()[axis] {
        return Err(Error::input(1, format!("{wanted} of {} elements", x.shape()[axis])));
    }
    let order = if extreme == Extreme::Max { Order::Descending } else { Order::Ascending };
    // GPUs sort numbers of at most 32 bits.
    let x = if x.dtype() == DType::I64 {
        x.to_device(&aleatron_tensor::Device::Cpu)?
    } else {
        x.clone()
    };
    let (values, indices) = x.topk(wanted, axis as isize, order)?;
    Ok(vec![values, cast(&indices, DType::I64)?])
}
