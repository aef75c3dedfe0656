//! Gradients of elements found by indices, and of resizing.

use super::node::attach;
use crate::cpu;
use crate::dtype::DType;
use crate::error::Result;
use crate::layout::{self, Layout};
use crate::ops::resize::{OUTSIDE, Taps};
use crate::tensor::{DeviceView, Tensor};

/// Records a gathering of elements.
pub(crate) fn gather(x: &Tensor, axis: isize, indices: &Tensor) -> Result<Tensor> {
    const OP: &str = "gather";
    let output = x.detach().gather(axis, indices)?;
    let axis = layout::axis(OP, axis, x.rank())?;
    let (indices, shape) = (indices.detach(), x.shape().to_vec());
    let faults = IndexFaults::of(&output);
    Ok(attach(OP, &[x], &output, move |g| {
        let g = &faults.carry_over(g)?;
        let indices = indices.broadcast_to(g.shape())?;
        Ok(vec![Some(scatter_add(OP, g, axis, &indices, shape[axis])?)])
    }))
}

/// Records a selection of parts of an axis.
pub(crate) fn index_select(x: &Tensor, axis: isize, indices: &Tensor) -> Result<Tensor> {
    const OP: &str = "index_select";
    let output = x.detach().index_select(axis, indices)?;
    let axis = layout::axis(OP, axis, x.rank())?;
    let (indices, len) = (indices.detach(), x.shape()[axis]);
    let faults = IndexFaults::of(&output);
    Ok(attach(OP, &[x], &output, move |g| {
        let g = &faults.carry_over(g)?;
        let shape = g.shape();
        let joined = [&shape[..axis], &[indices.len()], &shape[axis + indices.rank()..]].concat();
        let flat = indices.reshape(&[indices.len()])?;
        Ok(vec![Some(index_add(OP, &g.reshape(&joined)?, axis, &flat, len)?)])
    }))
}

/// The result of a gathering on a GPU, which carries the report of an index outside its axis. On
/// the CPU, such an index is an error at once.
struct IndexFaults(Option<Tensor>);

impl IndexFaults {
    fn of(output: &Tensor) -> Self {
        Self(output.device().is_gpu().then(|| output.detach()))
    }

    /// Returns a gradient whose readers get the report, too.
    fn carry_over(&self, g: &Tensor) -> Result<Tensor> {
        match &self.0 {
            Some(output) => Tensor::full(&[], false, DType::Bool, &g.device())?.where_(output, g),
            None => Ok(g.clone()),
        }
    }
}

/// Adds the parts of an axis of `g` to those of a new axis of `len` elements that the indices name.
fn index_add(
    op: &'static str,
    g: &Tensor,
    axis: usize,
    indices: &Tensor,
    len: usize,
) -> Result<Tensor> {
    let mut shape = vec![1; g.rank()];
    shape[axis] = indices.len();
    scatter_add(op, g, axis, &indices.reshape(&shape)?.broadcast_to(g.shape())?, len)
}

/// Adds each element of `g` to the element of a new axis of `len` elements that its index names.
fn scatter_add(
    op: &'static str,
    g: &Tensor,
    axis: usize,
    indices: &Tensor,
    len: usize,
) -> Result<Tensor> {
    let mut shape = g.shape().to_vec();
    shape[axis] = len;
    if g.is_empty() || shape.contains(&0) {
        return Tensor::zeros(&shape, g.dtype(), &g.device());
    }
    if g.shape()[axis] == 1 {
        return one_hot(g, axis, indices, len);
    }
    match (g.device_view()?, indices.device_view()?) {
        (DeviceView::Cpu(_), DeviceView::Cpu(indices)) => {
            let values = g.cast(g.dtype().computed())?;
            let out = Layout::contiguous(&shape)?;
            let storage = cpu::scatter::add(op, &values.host_view()?, &indices, axis, &out)?;
            Tensor::from_cpu(storage, &shape)?.cast(g.dtype())
        }
        _ => {
            // Along a new axis after the old one, each element is compared with every index; the
            // sum is computed by one kernel.
            let (next, g) = (axis as isize + 1, g.cast(DType::F32)?);
            let wide = one_hot(
                &g.unsqueeze(axis as isize)?,
                axis,
                &indices.unsqueeze(axis as isize)?,
                len,
            )?;
            wide.sum(next)
        }
    }
}

/// Returns an axis of `len` elements that is zero except at the index of each element, whose axis
/// has size 1.
fn one_hot(g: &Tensor, axis: usize, indices: &Tensor, len: usize) -> Result<Tensor> {
    let mut shape = vec![1; g.rank()];
    shape[axis] = len;
    let indices =
        if indices.dtype() == DType::I64 { indices.clone() } else { indices.cast(DType::I32)? };
    let numbers = Tensor::arange(0, len as i64, 1, indices.dtype(), &g.device())?;
    // Indices that count from the end are compared with negative numbers.
    let from_start = indices.eq(&numbers.reshape(&shape)?)?;
    let from_end = indices.eq(&numbers.sub(len as i64)?.reshape(&shape)?)?;
    from_start.or(&from_end)?.where_(g, 0.0)
}

/// Records a weighted selection of the neighbours of an axis.
pub(crate) fn resample(x: &Tensor, axis: usize, taps: &Taps, output: &Tensor) -> Result<Tensor> {
    const OP: &str = "resize";
    let (taps, len) = (taps.clone(), x.shape()[axis]);
    Ok(attach(OP, &[x], output, move |g| {
        let device = g.device();
        let count = taps.positions.len() / taps.count.max(1);
        let mut factor_shape = vec![1; g.rank()];
        factor_shape[axis] = count;
        let mut sum: Option<Tensor> = None;
        for tap in 0..taps.count {
            let of_tap = |i: usize| i * taps.count + tap;
            let is_outside = |i: usize| taps.positions[of_tap(i)] == OUTSIDE;
            let positions: Vec<i32> = (0..count)
                .map(|i| if is_outside(i) { 0 } else { taps.positions[of_tap(i)] as i32 })
                .collect();
            let weights: Vec<f32> = (0..count)
                .map(|i| if is_outside(i) { 0.0 } else { taps.weights[of_tap(i)] })
                .collect();
            let weights = Tensor::from_slice(&weights, &factor_shape, &device)?;
            let positions = Tensor::from_slice(&positions, &[count], &device)?;
            let part = index_add(OP, &g.cast(DType::F32)?.mul(&weights)?, axis, &positions, len)?;
            sum = Some(match sum {
                Some(sum) => Tensor::add(&sum, &part)?,
                None => part,
            });
        }
        Ok(vec![sum])
    }))
}
