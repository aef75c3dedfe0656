//! Selection of elements by values, and creation of tensors from numbers.

use aleatron_core::{Quantity, memory};
use aleatron_tensor::{DType, Tensor};

use super::array::{Array, Number, each_coordinate, for_number, len};
use super::inputs::{Inputs, axis, size};
use super::shape::ints;
use crate::error::{Error, Result};
use crate::op::Triangle;

pub(super) fn compress(inputs: &Inputs<'_>, number: Option<i64>) -> Result<Tensor> {
    let x = match number {
        Some(_) => inputs.get(0)?.clone(),
        None => inputs.get(0)?.flatten(0, -1)?,
    };
    let axis = axis(number.unwrap_or(0), x.rank())?;
    let chosen = inputs.get(1)?.to_vec::<bool>()?;
    let n = x.shape()[axis];
    if chosen.len() > n && chosen[n..].contains(&true) {
        return Err(Error::input(1, format!("{} conditions for an axis of {n}", chosen.len())));
    }
    let which: Vec<i64> =
        (0..n.min(chosen.len())).filter(|&k| chosen[k]).map(|k| k as i64).collect();
    super::index::gather(&x, &ints(&which, &[which.len()])?, axis as i64)
}

pub(super) fn one_hot(inputs: &Inputs<'_>, number: i64) -> Result<Tensor> {
    let (which, values) = (inputs.get(0)?, inputs.get(2)?);
    let depth = match inputs.get(1)?.cast(DType::I64)?.to_vec::<i64>()?.as_slice() {
        [depth] => size(*depth, "depth")?,
        other => return Err(Error::input(1, format!("{} depths", other.len()))),
    };
    if values.len() != 2 {
        return Err(Error::input(2, format!("two values are needed, not {}", values.len())));
    }
    let axis = axis(number, which.rank() + 1)?;
    let mut shape = vec![1; which.rank() + 1];
    shape[axis] = depth;
    // Indices may be floats that hold integers.
    let which = if which.dtype().is_float() { which.trunc()? } else { which.clone() };
    let last = i64::try_from(depth).map_err(|_| Error::input(1, format!("a depth of {depth}")))?;
    let from_start =
        which.lt(0_i64)?.where_(&which.add(last)?, &which)?.unsqueeze(axis as isize)?;
    // An index out of range selects no element.
    let numbers =
        Tensor::arange(0_i64, last, 1_i64, which.dtype(), &which.device())?.reshape(&shape)?;
    let values = values.reshape(&[2])?;
    Ok(numbers.eq(&from_start)?.where_(&values.slice(0, 1..2)?, &values.slice(0, 0..1)?)?)
}

pub(super) fn trilu(inputs: &Inputs<'_>, triangle: Triangle) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let diagonal = if inputs.maybe(1).is_some() { inputs.int(1)? } else { 0 };
    let &[.., rows, columns] = x.shape() else {
        return Err(Error::input(0, format!("matrices are needed, not {:?}", x.shape())));
    };
    // Diagonals past the corners are equivalent.
    let limit = |n: usize| i64::try_from(n).unwrap_or(i64::MAX).min(i64::from(i32::MAX) - 1);
    let diagonal = diagonal.clamp(-limit(rows) - 1, limit(columns) + 1) as i32;
    Ok(match triangle {
        Triangle::Lower => x.tril(diagonal)?,
        Triangle::Upper => x.triu(diagonal)?,
    })
}

pub(super) fn eye_like(x: &Tensor, diagonal: i64, dtype: Option<DType>) -> Result<Tensor> {
    let &[rows, columns] = x.shape() else {
        return Err(Error::input(0, format!("a matrix is needed, not {:?}", x.shape())));
    };
    let numbers = |n: usize| Tensor::arange(0_i64, n as i64, 1_i64, DType::I64, &x.device());
    let is_on = numbers(columns)?.sub(diagonal)?.eq(&numbers(rows)?.unsqueeze(1)?)?;
    Ok(is_on.cast(dtype.unwrap_or(x.dtype()))?)
}

pub(super) fn non_zero(x: &Tensor) -> Result<Tensor> {
    let mut indices: Vec<Vec<i64>> = vec![Vec::new(); x.rank()];
    let elements = x.cast(DType::Bool)?.to_vec::<bool>()?;
    let mut elements = elements.iter();
    each_coordinate(x.shape(), |at| {
        if elements.next() == Some(&true) {
            indices.iter_mut().zip(at).for_each(|(list, &a)| list.push(a as i64));
        }
    });
    let n = indices.first().map_or(0, Vec::len);
    ints(&indices.concat(), &[x.rank(), n])
}

pub(super) fn reverse_sequence(
    inputs: &Inputs<'_>,
    batch_axis: i64,
    time_axis: i64,
) -> Result<Tensor> {
    let (x, lengths) = (inputs.get(0)?, inputs.ints(1)?);
    let (batch, time) = (axis(batch_axis, x.rank())?, axis(time_axis, x.rank())?);
    if batch == time || lengths.len() != x.shape()[batch] {
        return Err(Error::input(
            1,
            format!("{} lengths for shape {:?}", lengths.len(), x.shape()),
        ));
    }
    let n = x.shape()[time];
    let lengths = lengths
        .iter()
        .map(|&length| Some(size(length, "length").ok()?).filter(|&length| length <= n))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Error::input(1, format!("lengths are at most {n}")))?;
    // The source position of each element of the result.
    let from = lengths.iter().flat_map(|&length| {
        (0..n).map(move |k| if k < length { length - 1 - k } else { k } as i32)
    });
    let mut shape = vec![1; x.rank()];
    (shape[batch], shape[time]) = (lengths.len(), n);
    let mut from = Tensor::from_vec(from.collect::<Vec<i32>>(), &[lengths.len(), n], &x.device())?;
    if time < batch {
        from = from.t()?;
    }
    Ok(x.gather(time as isize, &from.reshape(&shape)?)?)
}

pub(super) fn unique(x: &Tensor, number: Option<i64>, sorted: bool) -> Result<Vec<Tensor>> {
    let flat = if number.is_none() { x.flatten(0, -1)? } else { x.clone() };
    let axis = axis(number.unwrap_or(0), flat.rank())?;
    let n = flat.shape()[axis];
    memory::check(48 * n as u128, Quantity::Value)?;
    // Each slice along the axis becomes a row.
    let mut order: Vec<isize> = (0..flat.rank() as isize).collect();
    order.remove(axis);
    order.insert(0, axis as isize);
    let moved = flat.permute(&order)?;
    let run = len(&moved.shape()[1..])?;
    for_number!(flat, T => {
        let array = Array::<T>::read(&moved)?;
        let row = |k: usize| &array.data[k * run..(k + 1) * run];
        let compare = |a: usize, b: usize| {
            let pairs = row(a).iter().zip(row(b)).map(|(a, b)| a.wide().total_cmp(&b.wide()));
            pairs.into_iter().find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        };
        let mut by_value: Vec<usize> = (0..n).collect();
        by_value.sort_by(|&a, &b| compare(a, b).then(a.cmp(&b)));
        // The first index of each value, and which value each index has.
        let (mut firsts, mut value_of) = (Vec::new(), vec![0_usize; n]);
        for (k, &at) in by_value.iter().enumerate() {
            if k == 0 || compare(by_value[k - 1], at).is_ne() {
                firsts.push(at);
            }
            value_of[at] = firsts.len() - 1;
        }
        let mut ranks: Vec<usize> = (0..firsts.len()).collect();
        if !sorted {
            ranks.sort_by_key(|&value| firsts[value]);
        }
        let mut index_of = vec![0; firsts.len()];
        for (index, &value) in ranks.iter().enumerate() {
            index_of[value] = index;
        }
        let mut counts = vec![0_i64; firsts.len()];
        let inverse: Vec<i64> = value_of.iter().map(|&value| {
            counts[index_of[value]] += 1;
            index_of[value] as i64
        }).collect();
        let indices: Vec<i64> = ranks.iter().map(|&value| firsts[value] as i64).collect();
        let k = indices.len();
        let y = super::index::gather(&flat, &ints(&indices, &[k])?, axis as i64)?;
        Ok(vec![y, ints(&indices, &[k])?, ints(&inverse, &[n])?, ints(&counts, &[k])?])
    })
}

pub(super) fn range(inputs: &Inputs<'_>) -> Result<Tensor> {
    let start = inputs.get(0)?;
    // Not all 64-bit integers are representable as floats.
    if start.dtype() == DType::I64 {
        let (start, limit, delta) = (inputs.int(0)?, inputs.int(1)?, inputs.int(2)?);
        if delta == 0 {
            return Err(Error::input(2, format!("a step of 0 from {start} to {limit}")));
        }
        let (distance, step) = (i128::from(limit) - i128::from(start), i128::from(delta));
        let is_ahead = (distance > 0) == (step > 0);
        let n = if is_ahead { distance / step + i128::from(distance % step != 0) } else { 0 };
        let n =
            usize::try_from(n).map_err(|_| Error::input(1, format!("{n} numbers are too many")))?;
        let mut out = Array::<i64>::full(&[n], start)?;
        let mut next = start;
        for element in &mut out.data {
            *element = next;
            next = next.wrapping_add(delta);
        }
        return out.tensor();
    }
    for_number!(start, T => {
        let one = |k: usize| -> Result<T> {
            match inputs.get(k)?.to_vec::<T>()?.as_slice() {
                [value] => Ok(*value),
                values => Err(Error::input(k, format!("one number is needed, not {}", values.len()))),
            }
        };
        let (start, limit, delta) = (one(0)?, one(1)?, one(2)?);
        let n = ((limit.wide() - start.wide()) / delta.wide()).ceil();
        if n.is_nan() || n >= 1e15 {
            return Err(Error::input(2, format!("a step of {} from {} to {}", delta.wide(), start.wide(), limit.wide())));
        }
        let n = n.max(0.0) as usize;
        let mut out = Array::<T>::full(&[n], start)?;
        for (k, element) in out.data.iter_mut().enumerate() {
            *element = T::narrow(start.wide() + k as f64 * delta.wide());
        }
        out.tensor()
    })
}
