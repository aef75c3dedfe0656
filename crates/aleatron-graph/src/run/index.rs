//! Elements by their index.

use aleatron_tensor::{DType, Scalar, Tensor};

use super::array::{Array, Number, each_coordinate, for_dtype, for_number, len, offset, strides};
use super::inputs::{Inputs, axis};
use crate::error::{Error, Result};
use crate::op::Scatter;

/// Returns an index of an axis; negative ones count from the end.
fn index(number: i64, n: usize, position: usize) -> Result<usize> {
    let from_start = if number < 0 { number.checked_add(n as i64) } else { Some(number) };
    let found = from_start.and_then(|index| usize::try_from(index).ok()).filter(|&index| index < n);
    found.ok_or_else(|| {
        Error::input(
            1,
            format!(
                "index {number} at position {position} is out of range for an axis of length {n}"
            ),
        )
    })
}

pub(super) fn gather(x: &Tensor, which: &Tensor, number: i64) -> Result<Tensor> {
    let axis = axis(number, x.rank())?;
    check_integers(which)?;
    Ok(x.index_select(axis as isize, which)?)
}

fn check_integers(which: &Tensor) -> Result<()> {
    match which.dtype() {
        DType::I32 | DType::I64 => Ok(()),
        other => Err(Error::input(1, format!("integers are needed, not {other}"))),
    }
}

/// Checks that the indices of an elementwise operation lie in the shape of the data, except along
/// the axis.
fn check_elements(x: &Tensor, which: &Tensor, axis: usize) -> Result<()> {
    check_integers(which)?;
    let fits = which.rank() == x.rank()
        && (0..x.rank()).all(|other| other == axis || which.shape()[other] <= x.shape()[other]);
    if fits {
        return Ok(());
    }
    Err(Error::input(1, format!("indices {:?} for shape {:?}", which.shape(), x.shape())))
}

pub(super) fn gather_elements(inputs: &Inputs<'_>, number: i64) -> Result<Tensor> {
    let (x, which) = (inputs.get(0)?, inputs.get(1)?);
    let axis = axis(number, x.rank())?;
    check_elements(x, which, axis)?;
    // Along other axes, indices may be fewer than elements.
    let mut part = x.clone();
    for (other, &n) in which.shape().iter().enumerate() {
        if other != axis {
            part = part.slice(other as isize, ..n)?;
        }
    }
    Ok(part.gather(axis as isize, which)?)
}

pub(super) fn gather_nd(inputs: &Inputs<'_>, batch_dims: i64) -> Result<Tensor> {
    let (x, which) = (inputs.get(0)?, inputs.get(1)?);
    check_integers(which)?;
    let fault =
        || Error::input(1, format!("indices {:?} for shape {:?}", which.shape(), x.shape()));
    let batch = usize::try_from(batch_dims).map_err(|_| fault())?;
    let Some(&depth) = which.shape().last() else { return Err(fault()) };
    let fits = which.rank() > batch
        && batch + depth <= x.rank()
        && which.shape()[..batch] == x.shape()[..batch];
    if !fits {
        return Err(fault());
    }
    let (lead, rest) = (&which.shape()[..which.rank() - 1], &x.shape()[batch + depth..]);
    let (n_batches, per_batch, run) = (len(&lead[..batch])?, len(&lead[batch..])?, len(rest)?);
    let indexed = &x.shape()[batch..batch + depth];
    let n = len(indexed)?;
    let shape = [lead, rest].concat();
    if len(&shape)? == 0 {
        return Ok(Tensor::zeros(&shape, x.dtype(), &x.device())?);
    }
    // The indexed axes become one. A coordinate that is outside makes the position outside as well.
    let mut position = Tensor::zeros(&[n_batches, per_batch], which.dtype(), &which.device())?;
    let mut is_outside = Tensor::full(&[], false, DType::Bool, &which.device())?;
    let numbers = which.reshape(&[n_batches, per_batch, depth])?;
    for (k, &size) in indexed.iter().enumerate() {
        let size = Scalar::Int(i64::try_from(size).map_err(|_| fault())?);
        let number = numbers.select(2, k)?;
        let from_start = number.lt(Scalar::Int(0))?.where_(&number.add(size)?, &number)?;
        let inside = from_start.ge(Scalar::Int(0))?.and(&from_start.lt(size)?)?;
        is_outside = is_outside.or(&inside.not()?)?;
        position = position.mul(size)?.add(&from_start)?;
    }
    let position = is_outside.where_(Scalar::Int(n as i64), &position)?;
    let rows = x.reshape(&[n_batches, n, run])?;
    Ok(rows.gather(1, &position.unsqueeze(2)?)?.reshape(&shape)?)
}

/// Combines an element with an update.
fn combine<T: Number>(scatter: Scatter, old: T, new: T) -> T {
    match scatter {
        Scatter::Replace => new,
        Scatter::Add => old.plus(new),
        Scatter::Mul => old.times(new),
        Scatter::Max => {
            if new > old {
                new
            } else {
                old
            }
        }
        Scatter::Min => {
            if new < old {
                new
            } else {
                old
            }
        }
    }
}

/// Applies updates at offsets, one after another.
fn update(
    x: &Tensor,
    updates: &Tensor,
    offsets: &[usize],
    run: usize,
    scatter: Scatter,
) -> Result<Tensor> {
    if updates.dtype() != x.dtype() {
        return Err(Error::input(2, format!("{} does not match {}", updates.dtype(), x.dtype())));
    }
    if scatter == Scatter::Replace {
        return for_dtype!(x, T => {
            let (mut array, updates) = (Array::<T>::read(x)?, Array::<T>::read(updates)?);
            for (k, &first) in offsets.iter().enumerate() {
                array.data[first..first + run].copy_from_slice(&updates.data[k * run..(k + 1) * run]);
            }
            array.tensor()
        });
    }
    for_number!(x, T => {
        let (mut array, updates) = (Array::<T>::read(x)?, Array::<T>::read(updates)?);
        for (k, &first) in offsets.iter().enumerate() {
            for j in 0..run {
                let element = &mut array.data[first + j];
                *element = combine(scatter, *element, updates.data[k * run + j]);
            }
        }
        array.tensor()
    })
}

pub(super) fn scatter_elements(
    inputs: &Inputs<'_>,
    number: i64,
    scatter: Scatter,
) -> Result<Tensor> {
    let (x, which, updates) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
    let axis = axis(number, x.rank())?;
    check_elements(x, which, axis)?;
    if updates.shape() != which.shape() {
        return Err(Error::input(
            2,
            format!("updates {:?} for indices {:?}", updates.shape(), which.shape()),
        ));
    }
    let n = x.shape()[axis];
    let numbers = inputs.ints(1)?.into_iter().enumerate();
    let picked =
        numbers.map(|(position, number)| index(number, n, position)).collect::<Result<Vec<_>>>()?;
    let steps = strides(x.shape());
    let mut offsets = Vec::with_capacity(picked.len());
    let mut picked = picked.iter();
    each_coordinate(which.shape(), |at| {
        if let Some(&k) = picked.next() {
            offsets.push(offset(at, &steps) - at[axis] * steps[axis] + k * steps[axis]);
        }
    });
    update(x, updates, &offsets, 1, scatter)
}

pub(super) fn scatter_nd(inputs: &Inputs<'_>, scatter: Scatter) -> Result<Tensor> {
    let (x, which, updates) = (inputs.get(0)?, inputs.get(1)?, inputs.get(2)?);
    let numbers = inputs.ints(1)?;
    let fault =
        || Error::input(1, format!("indices {:?} for shape {:?}", which.shape(), x.shape()));
    let Some(&depth) = which.shape().last() else { return Err(fault()) };
    if depth > x.rank() {
        return Err(fault());
    }
    let rest = &x.shape()[depth..];
    if updates.shape() != [&which.shape()[..which.rank() - 1], rest].concat() {
        return Err(Error::input(
            2,
            format!("updates {:?} for indices {:?}", updates.shape(), which.shape()),
        ));
    }
    let steps = strides(x.shape());
    let mut offsets = Vec::with_capacity(numbers.len() / depth.max(1));
    if depth > 0 {
        for (i, row) in numbers.chunks_exact(depth).enumerate() {
            let mut first = 0;
            for (k, &number) in row.iter().enumerate() {
                first += index(number, x.shape()[k], i * depth + k)? * steps[k];
            }
            offsets.push(first);
        }
    } else {
        offsets = vec![0; len(&which.shape()[..which.rank() - 1])?];
    }
    update(x, updates, &offsets, len(rest)?, scatter)
}
