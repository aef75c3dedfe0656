//! Folding of axes, the basis of reductions and normalisations.

use crate::device::MAX_ELEMENTS;
use crate::dtype::DType;
use crate::error::{Error, Limit, Result};
use crate::expr::Expr;
use crate::layout;
use crate::op::Reducer;
use crate::ops::Dims;
use crate::storage::Storage;
use crate::tensor::Tensor;

/// Returns the shape with axes reduced.
pub(super) fn reduced_shape(shape: &[usize], axes: &[usize], dims: Dims) -> Vec<usize> {
    let sizes =
        shape.iter().enumerate().filter_map(|(axis, &size)| match (axes.contains(&axis), dims) {
            (false, _) => Some(size),
            (true, Dims::Keep) => Some(1),
            (true, Dims::Drop) => None,
        });
    sizes.collect()
}

/// Folds axes, given in ascending order. The result has the type of the computation.
pub(crate) fn fold(
    op: &'static str,
    x: &Tensor,
    axes: &[usize],
    dims: Dims,
    reducer: &Reducer,
) -> Result<Tensor> {
    let limit = if x.device().is_gpu() { MAX_ELEMENTS } else { usize::MAX };
    fold_within(limit, op, x, axes, dims, reducer)
}

/// Like [`fold`], in steps of at most `limit` elements.
fn fold_within(
    limit: usize,
    op: &'static str,
    x: &Tensor,
    axes: &[usize],
    dims: Dims,
    reducer: &Reducer,
) -> Result<Tensor> {
    if x.len() > limit {
        let folded = fold_halves(limit, op, x, axes, reducer)?;
        return folded.view(&reduced_shape(x.shape(), axes, dims));
    }
    let shape = reduced_shape(x.shape(), axes, dims);
    let computed = Reducer::computed_in(x.dtype());
    let count = layout::elements(&axes.iter().map(|&axis| x.shape()[axis]).collect::<Vec<_>>())?;
    if count == 0 || shape.contains(&0) {
        let value = match reducer.of_no_elements(computed) {
            Some(value) => value,
            None if shape.contains(&0) => crate::tensor::small(0, reducer.result(computed)),
            None => return Err(Error::argument(op, "elements", 0, "there must be at least one")),
        };
        return Tensor::full(&shape, value, reducer.result(computed), &x.device());
    }
    if matches!(reducer, Reducer::ArgMax | Reducer::ArgMin) {
        layout::check_axis_length(count)?;
    }
    match x.storage() {
        Storage::Cpu(_) => {
            Tensor::from_cpu(crate::cpu::reduce::reduce(&x.host_view()?, axes, reducer)?, &shape)
        }
        Storage::Gpu(storage) => {
            let gpu = storage.device().clone();
            // A pending expression is computed by the same kernel.
            let expr = match storage.share(x.layout()) {
                Some(expr) => expr,
                None => {
                    let view =
                        crate::gpu::GpuView { data: storage.data()?, layout: x.layout().clone() };
                    Expr::leaf(view, x.dtype())
                }
            };
            let expr = if expr.dtype().is_float() { expr } else { expr.cast(computed) };
            Tensor::from_gpu_data(
                &gpu,
                crate::gpu::reduce::launch(&gpu, &expr, x.shape(), axes, reducer)?,
                &shape,
            )
        }
    }
}

/// Folds both halves of the longest axis and joins the results. Indices and results of user-defined
/// operations cannot be joined: for these, a kept axis is halved.
fn fold_halves(
    limit: usize,
    op: &'static str,
    x: &Tensor,
    axes: &[usize],
    reducer: &Reducer,
) -> Result<Tensor> {
    let can_join = matches!(reducer, Reducer::Sum | Reducer::Prod | Reducer::Max | Reducer::Min);
    let candidates = (0..x.rank()).filter(|axis| can_join || !axes.contains(axis));
    let longest =
        candidates.max_by_key(|&axis| x.shape()[axis]).filter(|&axis| x.shape()[axis] > 1);
    let Some(axis) = longest else {
        let (actual, limit) = (x.len() as u128, limit as u128);
        return Err(Error::TooLarge { what: Limit::GpuElements, actual, limit });
    };
    let (along, middle) = (axis as isize, x.shape()[axis] / 2);
    let half = |part: Tensor| fold_within(limit, op, &part, axes, Dims::Keep, reducer);
    let (first, second) = (half(x.slice(along, ..middle)?)?, half(x.slice(along, middle..)?)?);
    match reducer {
        _ if !axes.contains(&axis) => Tensor::concat(&[&first, &second], along),
        Reducer::Sum => first.add(&second),
        Reducer::Prod => first.mul(&second),
        Reducer::Max => first.maximum(&second),
        Reducer::Min => first.minimum(&second),
        Reducer::ArgMax | Reducer::ArgMin | Reducer::Custom { .. } => {
            Err(Error::internal("ops::reduce::fold_halves"))
        }
    }
}

/// Folds axes, named in ascending order, of 32-bit floats with a user's operation: an expression on
/// GPUs, a function on the host.
pub(crate) fn fold_custom(
    op: &'static str,
    x: &Tensor,
    axes: &[usize],
    wgsl: Option<&'static str>,
    identity: f32,
    combine: fn(f32, f32) -> f32,
) -> Result<Tensor> {
    match x.storage() {
        Storage::Cpu(_) => {
            let shape = reduced_shape(x.shape(), axes, Dims::Drop);
            let folded =
                crate::cpu::reduce::fold(&x.host_view()?, axes, DType::F32, identity, combine)?;
            Tensor::from_cpu(folded, &shape)
        }
        Storage::Gpu(storage) => {
            let Some(wgsl) = wgsl else {
                let device = storage.device().to_string();
                return Err(Error::Unsupported {
                    device,
                    what: "WGSL expression of this reduction (ReduceOp::WGSL)",
                });
            };
            let reducer = Reducer::Custom { wgsl: wgsl.to_owned(), identity: identity.to_bits() };
            fold(op, x, axes, Dims::Drop, &reducer)
        }
    }
}

impl Tensor {
    /// Returns the number of elements along some axes.
    pub(super) fn count_along(&self, axes: &[usize]) -> Result<usize> {
        layout::elements(&axes.iter().map(|&axis| self.shape()[axis]).collect::<Vec<_>>())
    }

    /// Returns the largest element along axes, or 0 if it is not finite: the shift before
    /// exponentials.
    pub(crate) fn shift(&self, op: &'static str, axes: &[usize]) -> Result<Self> {
        let largest = fold(op, self, axes, Dims::Keep, &Reducer::Max)?;
        largest.is_finite()?.where_(&largest, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn fold_in_small_steps_equals_fold_in_one_step() {
        let values: Vec<i32> = (0..168).map(|i| (i * 37 + 11) % 53 - 26).collect();
        let x = Tensor::from_slice(&values, &[6, 7, 4], &Device::Cpu).unwrap();
        let reducers = [
            Reducer::Sum,
            Reducer::Prod,
            Reducer::Max,
            Reducer::Min,
            Reducer::ArgMax,
            Reducer::ArgMin,
        ];
        for reducer in &reducers {
            for axes in [&[0][..], &[1], &[2], &[0, 2], &[0, 1, 2]] {
                let fold = |limit| {
                    fold_within(limit, "fold", &x, axes, Dims::Drop, reducer)
                        .map(|tensor| (tensor.shape().to_vec(), tensor.to_vec::<i32>().unwrap()))
                };
                let is_index = matches!(reducer, Reducer::ArgMax | Reducer::ArgMin);
                let own: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
                if is_index && own > 10 {
                    // A result with more elements than a step can number is an error.
                    assert!(
                        matches!(fold(10), Err(Error::TooLarge { .. })),
                        "{reducer:?} {axes:?}"
                    );
                } else {
                    assert_eq!(fold(10), fold(usize::MAX), "{reducer:?} {axes:?}");
                }
            }
        }
    }
}
