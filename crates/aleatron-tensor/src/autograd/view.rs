//! Gradients of views and copies.

use super::node::{attach, is_recorded};
use crate::device::Device;
use crate::error::Result;
use crate::layout::Layout;
use crate::ops::PadMode;
use crate::tensor::Tensor;

/// A view, with the sizes that its gradient needs.
pub(crate) enum View {
    Slice { axis: usize, start: usize, step: usize, len: usize },
    Select { axis: usize, index: usize, len: usize },
    Flip { axis: usize },
    Permute { inverse: Vec<isize> },
    Reshape { shape: Vec<usize> },
    Broadcast,
}

impl View {
    /// Returns the view that permutes axes; negative ones count from the end.
    pub(crate) fn permutation(order: &[isize]) -> Self {
        let rank = order.len() as isize;
        let mut inverse = vec![0; order.len()];
        for (position, &axis) in order.iter().enumerate() {
            inverse[(if axis < 0 { axis + rank } else { axis }) as usize] = position as isize;
        }
        Self::Permute { inverse }
    }

    /// Returns the view that reshapes a tensor.
    pub(crate) fn reshape(x: &Tensor) -> Self {
        Self::Reshape { shape: x.shape().to_vec() }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Slice { .. } => "slice",
            Self::Select { .. } => "select",
            Self::Flip { .. } => "flip",
            Self::Permute { .. } => "permute",
            Self::Reshape { .. } => "reshape",
            Self::Broadcast => "broadcast_to",
        }
    }

    fn gradient(&self, g: &Tensor) -> Result<Tensor> {
        match self {
            Self::Slice { axis, start, step, len } => unslice(g, *axis, [*start, *step], *len),
            Self::Select { axis, index, len } => {
                unslice(&g.unsqueeze(*axis as isize)?, *axis, [*index, 1], *len)
            }
            Self::Flip { axis } => g.flip(*axis as isize),
            Self::Permute { inverse } => g.permute(inverse),
            Self::Reshape { shape } => g.reshape(shape),
            // The engine sums the axes that were broadcast.
            Self::Broadcast => Ok(g.clone()),
        }
    }
}

/// Returns a view of a tensor, recorded if the tensor is tracked.
pub(crate) fn viewed(x: &Tensor, layout: Layout, view: impl FnOnce() -> View) -> Tensor {
    let output = x.with_layout(layout);
    if !is_recorded([x]) {
        return output;
    }
    let view = view();
    attach(view.name(), &[x], &output, move |g| Ok(vec![Some(view.gradient(g)?)]))
}

/// Records a copy in another layout or of the same elements.
pub(crate) fn same_elements(op: &'static str, x: &Tensor, output: Tensor) -> Tensor {
    if !is_recorded([x]) {
        return output;
    }
    attach(op, &[x], &output, |g| Ok(vec![Some(g.clone())]))
}

/// Records the move to another device.
pub(crate) fn to_device(x: &Tensor, device: &Device) -> Result<Tensor> {
    let output = x.detach().to_device(device)?;
    let origin = x.device();
    Ok(attach("to_device", &[x], &output, move |g| Ok(vec![Some(g.to_device(&origin)?)])))
}

/// Returns an axis of `len` elements, zero except for every `step`th element from `start` on.
fn unslice(g: &Tensor, axis: usize, [start, step]: [usize; 2], len: usize) -> Result<Tensor> {
    let count = g.shape()[axis];
    if count == 0 {
        let mut shape = g.shape().to_vec();
        shape[axis] = len;
        return Tensor::zeros(&shape, g.dtype(), &g.device());
    }
    let zeros = PadMode::Constant(0.0.into());
    let around = |rank: usize, axis: usize, pair: (usize, usize)| {
        let mut around = vec![(0, 0); rank];
        around[axis] = pair;
        around
    };
    let mut spread = g.clone();
    if step > 1 && count > 1 {
        let gaps = g.unsqueeze(axis as isize + 1)?;
        let gaps = gaps.pad(&around(gaps.rank(), axis + 1, (0, step - 1)), zeros)?;
        // The zeros after the last element may reach past the end.
        spread = gaps
            .flatten(axis as isize, axis as isize + 1)?
            .slice(axis as isize, ..(count - 1) * step + 1)?;
    }
    let after = len - start - spread.shape()[axis];
    spread.pad(&around(g.rank(), axis, (start, after)), zeros)
}
