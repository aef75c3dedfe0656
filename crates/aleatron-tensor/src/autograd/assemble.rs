//! Gradients of concatenation and padding.

use super::node::attach;
use crate::error::Result;
use crate::layout;
use crate::ops::PadMode;
use crate::tensor::Tensor;

/// Records a concatenation.
pub(crate) fn concat(tensors: &[&Tensor], axis: isize) -> Result<Tensor> {
    const OP: &str = "concat";
    let values: Vec<Tensor> = tensors.iter().map(|tensor| tensor.detach()).collect();
    let output = Tensor::concat(&values.iter().collect::<Vec<_>>(), axis)?;
    let index = layout::axis(OP, axis, output.rank())?;
    let parts: Vec<(usize, bool)> =
        tensors.iter().map(|tensor| (tensor.shape()[index], tensor.is_tracked())).collect();
    Ok(attach(OP, tensors, &output, move |g| {
        let mut start = 0;
        let part = |&(size, is_tracked): &(usize, bool)| {
            let range = start..start + size;
            start += size;
            is_tracked.then(|| g.slice(index as isize, range)).transpose()
        };
        parts.iter().map(part).collect()
    }))
}

/// Records a padding with a constant.
pub(crate) fn pad(x: &Tensor, around: &[(usize, usize)], mode: PadMode) -> Result<Tensor> {
    let output = x.detach().pad(around, mode)?;
    let (around, shape) = (around.to_vec(), x.shape().to_vec());
    Ok(attach("pad", &[x], &output, move |g| {
        let mut inner = g.clone();
        for (axis, (&(before, _), &size)) in around.iter().zip(&shape).enumerate() {
            inner = inner.slice(axis as isize, before..before + size)?;
        }
        Ok(vec![Some(inner)])
    }))
}
