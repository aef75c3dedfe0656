//! Reductions, and what else runs along axes.

use aleatron_core::{Quantity, memory};
use aleatron_tensor::{DType, Tensor};

use super::array::{Array, Number, each_place, for_number, len, place, strides};
use super::inputs::{Inputs, axes, axis, size};
use crate::error::{Error, Result};
use crate::op::{Extreme, NoAxes, Reduced, Reduction, Softmax, SoftmaxAxes, Tie};

pub(super) fn reduce(
    inputs: &Inputs<'_>,
    reduction: Reduction,
    given: Option<&[i64]>,
    reduced: Reduced,
    no_axes: NoAxes,
) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let from_input = inputs.maybe_ints(1)?;
    let numbers = given.or(from_input.as_deref()).unwrap_or_default();
    let over = match (numbers, no_axes) {
        ([], NoAxes::All) => (0..x.rank()).collect(),
        // Without axes each element is a set of its own.
        ([], NoAxes::None) => Vec::new(),
        (numbers, _) => axes(numbers, x.rank())?,
    };
    let mut kept = x.shape().to_vec();
    for &axis in &over {
        kept[axis] = 1;
    }
    let shape: Vec<usize> = match reduced {
        Reduced::Kept => kept.clone(),
        Reduced::Dropped => {
            (0..x.rank()).filter(|axis| !over.contains(axis)).map(|axis| x.shape()[axis]).collect()
        }
    };
    if x.dtype() == DType::Bool {
        let bytes = reduce_host::<u8>(&x.cast(DType::U8)?, reduction, &kept)?;
        return Ok(bytes.cast(DType::Bool)?.reshape(&shape)?);
    }
    let result = for_number!(x, T => reduce_host::<T>(x, reduction, &kept))?;
    Ok(result.reshape(&shape)?)
}

/// Sums are kept in 64 bits, of floats and of integers.
fn reduce_host<T: Number>(x: &Tensor, reduction: Reduction, kept: &[usize]) -> Result<Tensor> {
    let array = Array::<T>::read(x)?;
    let n = len(kept)?;
    // An empty tensor may become a large one.
    memory::check(4 * 8 * n as u128, Quantity::Value)?;
    let is_integer = !x.dtype().is_float();
    let mut steps = strides(kept);
    for (step, &size) in steps.iter_mut().zip(kept) {
        if size == 1 {
            *step = 0;
        }
    }
    let start = match reduction {
        Reduction::Max | Reduction::LogSumExp => f64::NEG_INFINITY,
        Reduction::Min => f64::INFINITY,
        Reduction::Prod => 1.0,
        Reduction::L1
        | Reduction::L2
        | Reduction::LogSum
        | Reduction::Mean
        | Reduction::Sum
        | Reduction::SumSquare => 0.0,
    };
    let mut sums = vec![start; n];
    // Integers past 2^53 need integers.
    let mut exact = vec![i64::from(reduction == Reduction::Prod); n];
    let mut counts = vec![0_u64; n];
    let mut values = array.data.iter();
    let mut all_places = |f: &mut dyn FnMut(usize, T)| {
        each_place(&array.shape, |at| {
            if let Some(&value) = values.next() {
                f(place(at, &steps), value);
            }
        });
    };
    all_places(&mut |k, value| {
        let (wide, whole) = (value.wide(), whole(value));
        counts[k] += 1;
        let sum = &mut sums[k];
        match reduction {
            Reduction::L1 => {
                *sum += wide.abs();
                exact[k] = exact[k].wrapping_add(whole.wrapping_abs());
            }
            Reduction::L2 | Reduction::SumSquare => {
                *sum += wide * wide;
                exact[k] = exact[k].wrapping_add(whole.wrapping_mul(whole));
            }
            Reduction::LogSum | Reduction::Mean | Reduction::Sum => {
                *sum += wide;
                exact[k] = exact[k].wrapping_add(whole);
            }
            Reduction::Prod => {
                *sum *= wide;
                exact[k] = exact[k].wrapping_mul(whole);
            }
            // NaN wins.
            Reduction::Max | Reduction::LogSumExp if wide > *sum || wide.is_nan() => {
                *sum = wide;
                exact[k] = whole;
            }
            Reduction::Min if wide < *sum || wide.is_nan() => {
                *sum = wide;
                exact[k] = whole;
            }
            // An element that is not better than the best so far.
            Reduction::Max | Reduction::LogSumExp | Reduction::Min => {}
        }
    });
    if reduction == Reduction::LogSumExp {
        let mut totals = vec![0.0_f64; n];
        let mut values = array.data.iter();
        each_place(&array.shape, |at| {
            let k = place(at, &steps);
            if let Some(value) = values.next() {
                let shift = if sums[k].is_finite() { sums[k] } else { 0.0 };
                totals[k] += (value.wide() - shift).exp();
            }
        });
        for (sum, total) in sums.iter_mut().zip(totals) {
            let shift = if sum.is_finite() { *sum } else { 0.0 };
            *sum = shift + total.ln();
        }
    }
    let data = (0..n).map(|k| {
        let sum = sums[k];
        let value = match reduction {
            Reduction::L2 => sum.sqrt(),
            Reduction::LogSum => sum.ln(),
            Reduction::Mean => sum / counts[k] as f64,
            _ => sum,
        };
        let is_exact = is_integer
            && !matches!(
                reduction,
                Reduction::L2 | Reduction::LogSum | Reduction::LogSumExp | Reduction::Mean
            )
            && (counts[k] > 0 || !matches!(reduction, Reduction::Max | Reduction::Min));
        if is_exact { from_whole(exact[k]) } else { T::narrow(value) }
    });
    Array { shape: kept.to_vec(), data: data.collect::<Vec<T>>() }.tensor()
}

/// An integer; 0 for floats that are none.
fn whole<T: Number>(value: T) -> i64 {
    // Of 64-bit integers, a cast through f64 would lose bits.
    let any: &dyn std::any::Any = &value;
    match any.downcast_ref::<i64>() {
        Some(&value) => value,
        None => value.wide() as i64,
    }
}

fn from_whole<T: Number>(value: i64) -> T {
    let any: &dyn std::any::Any = &value;
    match any.downcast_ref::<T>() {
        Some(&value) => value,
        // A narrower integer: its low bits.
        None => match T::DTYPE {
            DType::I32 => T::narrow(f64::from(value as i32)),
            DType::U8 => T::narrow(f64::from(value as u8)),
            _ => T::narrow(value as f64),
        },
    }
}

/// The shape before an axis, its size, and the shape after it, as three numbers.
pub(super) fn around(shape: &[usize], axis: usize) -> Result<[usize; 3]> {
    Ok([len(&shape[..axis])?, shape[axis], len(&shape[axis + 1..])?])
}

pub(super) fn arg_reduce(
    x: &Tensor,
    extreme: Extreme,
    number: i64,
    reduced: Reduced,
    tie: Tie,
) -> Result<Tensor> {
    let axis = axis(number, x.rank())?;
    let [before, n, after] = around(x.shape(), axis)?;
    if n == 0 {
        return Err(Error::input(0, "the axis has no elements"));
    }
    let mut shape = x.shape().to_vec();
    match reduced {
        Reduced::Kept => shape[axis] = 1,
        Reduced::Dropped => drop(shape.remove(axis)),
    }
    let x = if x.dtype() == DType::Bool { x.cast(DType::U8)? } else { x.clone() };
    for_number!(x, T => {
        let array = Array::<T>::read(&x)?;
        let mut data = Vec::with_capacity(before * after);
        for i in 0..before {
            for j in 0..after {
                let value = |k: usize| array.data[(i * n + k) * after + j];
                let mut best = 0;
                for k in 1..n {
                    let (new, old) = (value(k), value(best));
                    let better = match extreme {
                        Extreme::Max => new > old,
                        Extreme::Min => new < old,
                    };
                    let is_first_nan = new.wide().is_nan() && !old.wide().is_nan();
                    if better || is_first_nan || (tie == Tie::Last && new == old) {
                        best = k;
                    }
                }
                data.push(best as i64);
            }
        }
        Array { shape, data }.tensor()
    })
}

pub(super) fn softmax(x: &Tensor, function: Softmax, over: SoftmaxAxes) -> Result<Tensor> {
    if x.rank() == 0 {
        return softmax(&x.reshape(&[1])?, function, over).and_then(|y| Ok(y.reshape(&[])?));
    }
    let (shape, axis) = match over {
        SoftmaxAxes::One(number) => (x.shape().to_vec(), axis(number, x.rank())?),
        SoftmaxAxes::From(number) => {
            let axis = axis(number, x.rank())?;
            (vec![len(&x.shape()[..axis])?, len(&x.shape()[axis..])?], 1)
        }
    };
    let array = Array::floats(x)?;
    let [before, n, after] = around(&shape, axis)?;
    let mut data = vec![0.0_f32; array.data.len()];
    for i in 0..before {
        for j in 0..after {
            let at = |k: usize| (i * n + k) * after + j;
            let values = (0..n).map(|k| array.data[at(k)]);
            let largest =
                values.clone().fold(f32::NEG_INFINITY, |a, b| if b > a || b.is_nan() { b } else { a });
            match function {
                Softmax::Hardmax => {
                    if let Some(k) = (0..n).find(|&k| array.data[at(k)] == largest) {
                        data[at(k)] = 1.0;
                    }
                }
                Softmax::Softmax | Softmax::LogSoftmax => {
                    let total: f64 = values.map(|value| f64::from(value - largest).exp()).sum();
                    for k in 0..n {
                        let shifted = f64::from(array.data[at(k)] - largest);
                        data[at(k)] = match function {
                            Softmax::LogSoftmax => (shifted - total.ln()) as f32,
                            _ => (shifted.exp() / total) as f32,
                        };
                    }
                }
            }
        }
    }
    Array { shape: x.shape().to_vec(), data }.tensor_as(x.dtype())
}

/// What elements along an axis are joined by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cumulate {
    Sum,
    Product,
}

pub(super) fn cumulate(inputs: &Inputs<'_>, exclusive: bool, reverse: bool, how: Cumulate) -> Result<Tensor> {
    let x = inputs.get(0)?;
    let axis = axis(inputs.int(1)?, x.rank())?;
    let [before, n, after] = around(x.shape(), axis)?;
    for_number!(x, T => {
        let mut array = Array::<T>::read(x)?;
        let start = T::narrow(if how == Cumulate::Sum { 0.0 } else { 1.0 });
        for i in 0..before {
            for j in 0..after {
                let mut sum = start;
                for k in 0..n {
                    let k = if reverse { n - 1 - k } else { k };
                    let element = &mut array.data[(i * n + k) * after + j];
                    let next = if how == Cumulate::Sum { sum.plus(*element) } else { sum.times(*element) };
                    *element = if exclusive { sum } else { next };
                    sum = next;
                }
            }
        }
        array.tensor()
    })
}

pub(super) fn top_k(inputs: &Inputs<'_>, number: i64, extreme: Extreme) -> Result<Vec<Tensor>> {
    let x = inputs.get(0)?;
    let axis = axis(number, x.rank())?;
    let wanted = size(inputs.int(1)?, "k")?;
    let [before, n, after] = around(x.shape(), axis)?;
    if wanted > n {
        return Err(Error::input(1, format!("{wanted} of {n} elements")));
    }
    let mut shape = x.shape().to_vec();
    shape[axis] = wanted;
    for_number!(x, T => {
        let array = Array::<T>::read(x)?;
        let total = len(&shape)?;
        let mut values = Array::<T>::full(&shape, T::narrow(0.0))?;
        let mut indices = vec![0_i64; total];
        for i in 0..before {
            for j in 0..after {
                let value = |k: usize| array.data[(i * n + k) * after + j];
                let mut order: Vec<usize> = (0..n).collect();
                // Stable: of equal ones the first comes first.
                order.sort_by(|&a, &b| {
                    let (a, b) = (value(a).wide(), value(b).wide());
                    if extreme == Extreme::Max { b.total_cmp(&a) } else { a.total_cmp(&b) }
                });
                for (rank, &k) in order.iter().take(wanted).enumerate() {
                    values.data[(i * wanted + rank) * after + j] = value(k);
                    indices[(i * wanted + rank) * after + j] = k as i64;
                }
            }
        }
        Ok(vec![values.tensor()?, Array { shape, data: indices }.tensor()?])
    })
}
