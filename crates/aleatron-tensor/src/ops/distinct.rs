//! Reductions of views that repeat elements: each element is read once, however often it occurs.

use crate::dtype::DType;
use crate::error::Result;
use crate::op::Reducer;
use crate::ops::Dims;
use crate::ops::fold::{fold, reduced_shape};
use crate::tensor::Tensor;

/// A reduction over a view in which no element is repeated along an axis.
pub(super) struct Distinct<'a> {
    original: &'a Tensor,
    pub(super) view: Tensor,
    reduced: &'a [usize],
    dims: Dims,
    /// The number of repetitions of each element along the reduced axes of the original.
    pub(super) repeats: usize,
}

impl<'a> Distinct<'a> {
    pub(super) fn of(x: &'a Tensor, reduced: &'a [usize], dims: Dims) -> Self {
        let (mut layout, mut repeats) = (x.layout().clone(), 1);
        if !x.is_empty() {
            for axis in (0..x.rank()).filter(|&axis| x.layout().is_repeated(axis)) {
                // Below the number of elements, which a layout has counted.
                repeats *= if reduced.contains(&axis) { x.shape()[axis] } else { 1 };
                layout = layout.with_axis(axis, 1, 0);
            }
        }
        Self { original: x, view: x.with_layout(layout), reduced, dims, repeats }
    }

    fn has_repeats(&self) -> bool {
        self.view.shape() != self.original.shape()
    }

    /// Returns the treatment of reduced axes before [`Self::restore`].
    fn own_dims(&self) -> Dims {
        if self.has_repeats() { Dims::Keep } else { self.dims }
    }

    pub(super) fn fold(&self, op: &'static str, x: &Tensor, reducer: &Reducer) -> Result<Tensor> {
        fold(op, x, self.reduced, self.own_dims(), reducer)
    }

    /// Returns the shape of results before [`Self::restore`].
    pub(super) fn shape(&self) -> Vec<usize> {
        reduced_shape(self.view.shape(), self.reduced, self.own_dims())
    }

    /// Returns the sum over all repetitions of each element.
    pub(super) fn repeat_sum(&self, sum: Tensor) -> Result<Tensor> {
        let repeats = self.repeats as i64;
        match sum.dtype() {
            _ if repeats == 1 => Ok(sum),
            dtype if dtype.is_float() => sum.mul(repeats as f64),
            // Modulo 2^32, as the sum is.
            DType::I32 => sum.mul(repeats as i32),
            _ => sum.mul(repeats),
        }
    }

    /// Returns the product over all repetitions of each element: its power, by repeated squaring.
    pub(super) fn repeat_product(&self, product: Tensor) -> Result<Tensor> {
        let (mut left, mut square, mut power) = (self.repeats, product, None);
        loop {
            if left % 2 == 1 {
                power = Some(match power {
                    Some(power) => Tensor::mul(&power, &square)?,
                    None => square.clone(),
                });
            }
            left /= 2;
            match power {
                Some(power) if left == 0 => return Ok(power),
                _ => square = square.mul(&square)?,
            }
        }
    }

    /// Converts indices among the distinct elements to indices among all elements along the reduced
    /// axes: those of the first repetition.
    pub(super) fn repeat_indices(&self, indices: Tensor) -> Result<Tensor> {
        if self.repeats == 1 {
            return Ok(indices);
        }
        let (mut step, mut own_step) = (1i64, 1i64);
        let mut sum = indices.mul(0i64)?;
        for &axis in self.reduced.iter().rev() {
            let [size, own_size] =
                [self.original.shape()[axis], self.view.shape()[axis]].map(|size| size as i64);
            if own_size > 1 {
                sum = sum.add(&indices.floor_divide(own_step)?.remainder(own_size)?.mul(step)?)?;
            }
            (step, own_step) = (step * size, own_step * own_size);
        }
        Ok(sum)
    }

    /// Returns ln of the sum of the exponentials, in the type of the computation.
    pub(super) fn log_sum_exp(&self) -> Result<Tensor> {
        const OP: &str = "logsumexp";
        let x = &self.view;
        if x.count_along(self.reduced)? == 0 {
            return Tensor::full(
                &self.shape(),
                f64::NEG_INFINITY,
                x.dtype().computed(),
                &x.device(),
            );
        }
        let shift = x.shift(OP, self.reduced)?;
        let exponentials = x.cast(x.dtype().computed())?.sub(&shift)?.exp()?;
        let sum = fold(OP, &exponentials, self.reduced, Dims::Keep, &Reducer::Sum)?;
        self.repeat_sum(sum)?.log()?.add(&shift)?.reshape(&self.shape())
    }

    /// Broadcasts a result over the kept axes of the original.
    pub(super) fn restore(&self, result: Tensor) -> Result<Tensor> {
        if !self.has_repeats() {
            return Ok(result);
        }
        let shape = reduced_shape(self.original.shape(), self.reduced, Dims::Keep);
        let mut result = result.broadcast_to(&shape)?;
        if self.dims == Dims::Drop {
            for &axis in self.reduced.iter().rev() {
                result = result.squeeze(axis as isize)?;
            }
        }
        Ok(result)
    }
}
