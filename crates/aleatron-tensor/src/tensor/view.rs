//! Views: other shapes of the same elements. No view copies elements, except [`Tensor::reshape`] of
//! elements that are not contiguous and [`Tensor::contiguous`].

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use super::{DeviceView, Tensor};
use crate::autograd::{View, same_elements, viewed};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::gpu::GpuStorage;
use crate::layout;
use crate::storage::Storage;
use crate::trace::report;

/// A slice of an axis: every `step`th element from `start` up to but excluding `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The first element.
    pub start: usize,
    /// One past the last element; `None` for the end of the axis.
    pub end: Option<usize>,
    /// The distance between elements that are taken, at least 1.
    pub step: usize,
}

impl Slice {
    /// Sets the step.
    #[must_use]
    pub fn step(self, step: usize) -> Self {
        Self { step, ..self }
    }
}

impl From<Range<usize>> for Slice {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, end: Some(range.end), step: 1 }
    }
}

impl From<RangeFrom<usize>> for Slice {
    fn from(range: RangeFrom<usize>) -> Self {
        Self { start: range.start, end: None, step: 1 }
    }
}

impl From<RangeTo<usize>> for Slice {
    fn from(range: RangeTo<usize>) -> Self {
        Self { start: 0, end: Some(range.end), step: 1 }
    }
}

impl From<RangeFull> for Slice {
    fn from(_: RangeFull) -> Self {
        Self { start: 0, end: None, step: 1 }
    }
}

impl Tensor {
    /// Slices an axis.
    ///
    /// ```
    /// use aleatron_tensor::{DType, Device, Slice, Tensor};
    /// let x = Tensor::arange(0, 10, 1, DType::I32, &Device::Cpu)?;
    /// assert_eq!(x.slice(0, 2..5)?.to_vec::<i32>()?, [2, 3, 4]);
    /// assert_eq!(x.slice(-1, Slice::from(1..).step(4))?.to_vec::<i32>()?, [1, 5, 9]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range, [`Error::Range`] past its end, [`Error::Argument`]
    /// for a step of 0.
    pub fn slice(&self, axis: isize, slice: impl Into<Slice>) -> Result<Self> {
        let (axis, slice) = (layout::axis("slice", axis, self.rank())?, slice.into());
        let end = slice.end.unwrap_or(self.shape()[axis]);
        let layout = self.layout.slice(axis, slice.start, end, slice.step)?;
        Ok(viewed(self, layout, || View::Slice {
            axis,
            start: slice.start,
            step: slice.step,
            len: self.shape()[axis],
        }))
    }

    /// Returns the elements at one index of an axis, which is removed.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range, [`Error::Range`] past its end.
    pub fn select(&self, axis: isize, index: usize) -> Result<Self> {
        let axis = layout::axis("select", axis, self.rank())?;
        let one = self.layout.slice(axis, index, index.saturating_add(1), 1)?;
        let len = self.shape()[axis];
        Ok(viewed(self, one.squeeze(axis)?, || View::Select { axis, index, len }))
    }

    /// Reverses an axis.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range.
    pub fn flip(&self, axis: isize) -> Result<Self> {
        let axis = layout::axis("flip", axis, self.rank())?;
        Ok(viewed(self, self.layout.flip(axis), || View::Flip { axis }))
    }

    /// Exchanges two axes.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range.
    pub fn transpose(&self, one: isize, other: isize) -> Result<Self> {
        let [one, other] = [
            layout::axis("transpose", one, self.rank())?,
            layout::axis("transpose", other, self.rank())?,
        ];
        let mut order: Vec<isize> = (0..self.rank() as isize).collect();
        order.swap(one, other);
        self.permute(&order)
    }

    /// Transposes a matrix, or a batch of matrices: exchanges the last two axes.
    ///
    /// # Errors
    /// [`Error::Axis`] below rank 2.
    pub fn t(&self) -> Result<Self> {
        self.transpose(-2, -1)
    }

    /// Permutes the axes.
    ///
    /// # Errors
    /// [`Error::Argument`], [`Error::Axis`] or [`Error::RepeatedAxis`] if the order does not name
    /// each axis once.
    pub fn permute(&self, order: &[isize]) -> Result<Self> {
        let layout = self.layout.permute("permute", order)?;
        Ok(viewed(self, layout, || View::permutation(order)))
    }

    /// Removes an axis of size 1.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range, [`Error::Argument`] for one of another size.
    pub fn squeeze(&self, axis: isize) -> Result<Self> {
        let axis = layout::axis("squeeze", axis, self.rank())?;
        Ok(viewed(self, self.layout.squeeze(axis)?, || View::reshape(self)))
    }

    /// Inserts an axis of size 1 at an index.
    ///
    /// # Errors
    /// [`Error::Axis`] past the rank.
    pub fn unsqueeze(&self, axis: isize) -> Result<Self> {
        let index = layout::axis("unsqueeze", axis, self.rank() + 1)?;
        let unsqueezed = self.layout.unsqueeze(index);
        layout::elements(unsqueezed.shape())?;
        Ok(viewed(self, unsqueezed, || View::reshape(self)))
    }

    /// Broadcasts to a shape: axes of size 1, and missing leading axes, are repeated.
    ///
    /// # Errors
    /// [`Error::Shapes`] if the tensor does not broadcast to the shape.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Self> {
        Ok(viewed(self, self.layout.broadcast_to("broadcast_to", shape)?, || View::Broadcast))
    }

    /// Returns the same elements in another shape: a view if possible, otherwise a copy.
    ///
    /// # Errors
    /// [`Error::Reshape`] for another number of elements, or if there is no memory for the copy.
    pub fn reshape(&self, shape: &[usize]) -> Result<Self> {
        match self.layout.reshape(shape)? {
            Some(layout) => Ok(viewed(self, layout, || View::reshape(self))),
            None => self.contiguous()?.reshape(shape),
        }
    }

    /// Returns the same elements in another shape, never a copy.
    ///
    /// # Errors
    /// [`Error::Reshape`] if that requires a copy, or for another number of elements.
    pub fn view(&self, shape: &[usize]) -> Result<Self> {
        let refused = || Error::Reshape { from: self.shape().to_vec(), to: shape.to_vec() };
        let layout = self.layout.reshape(shape)?.ok_or_else(refused)?;
        Ok(viewed(self, layout, || View::reshape(self)))
    }

    /// Joins the axes from `start` to `end`, both included, into one.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range, [`Error::Range`] if the end is before the start.
    pub fn flatten(&self, start: isize, end: isize) -> Result<Self> {
        if self.rank() == 0 {
            return self.reshape(&[1]);
        }
        let [first, last] = [
            layout::axis("flatten", start, self.rank())?,
            layout::axis("flatten", end, self.rank())?,
        ];
        if first > last {
            return Err(Error::Range { op: "flatten", start: first, end: last, len: self.rank() });
        }
        let shape = self.shape();
        let joined = layout::elements(&shape[first..=last])?;
        self.reshape(&[&shape[..first], &[joined], &shape[last + 1..]].concat())
    }

    /// Returns a contiguous tensor in row-major order: this one, or a copy.
    ///
    /// # Errors
    /// An error if there is no memory for the copy.
    pub fn contiguous(&self) -> Result<Self> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        let copy = self.copied().map(|tensor| report("contiguous", tensor))?;
        Ok(same_elements("contiguous", self, copy))
    }

    /// Records the commands that compute the elements, if they are pending: an expression that is
    /// never read, recorded or used in another one is never computed.
    ///
    /// # Errors
    /// An error if memory is exhausted.
    pub fn record(&self) -> Result<()> {
        if let Storage::Gpu(storage) = &self.storage {
            storage.data()?;
        }
        Ok(())
    }

    /// Copies the elements in row-major order to a new storage that holds nothing else.
    pub(crate) fn copied(&self) -> Result<Self> {
        match self.device_view()? {
            DeviceView::Cpu(view) => {
                let expr = Expr::leaf(view, self.dtype());
                Self::from_cpu(crate::cpu::elementwise::evaluate(&expr, self.len())?, self.shape())
            }
            DeviceView::Gpu(gpu, view) => {
                let storage =
                    GpuStorage::pending(&gpu, Expr::leaf(view, self.dtype()), self.shape())?;
                // Recorded now, so that the elements are contiguous.
                storage.data()?;
                Self::from_gpu(storage, self.shape())
            }
        }
    }

    /// Returns a tensor that covers its whole storage in order, copying if necessary.
    pub(crate) fn whole(&self) -> Result<Self> {
        let len = match &self.storage {
            Storage::Cpu(storage) => storage.len(),
            Storage::Gpu(storage) => storage.len(),
        };
        if self.is_contiguous() && self.layout.offset() == 0 && len == self.len() {
            return Ok(self.clone());
        }
        self.copied()
    }
}
