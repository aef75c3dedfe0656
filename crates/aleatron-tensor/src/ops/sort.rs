//! Sorting along an axis. Equal elements keep their order; NaN counts as larger than everything.

use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::layout;
use crate::op::Reducer;
use crate::tensor::{DeviceView, Tensor};
use crate::trace::report;

/// The order of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// The smallest first.
    Ascending,
    /// The largest first.
    Descending,
}

impl Tensor {
    /// Returns the indices that sort an axis, as 32-bit integers.
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range, [`Error::DType`] for booleans, and for 64-bit
    /// integers on GPUs; [`Error::TooLarge`] for an axis past 32 bits, [`Error::Memory`] if memory is exhausted.
    pub fn argsort(&self, axis: isize, order: Order) -> Result<Self> {
        const OP: &str = "argsort";
        let index = layout::axis(OP, axis, self.rank())? as isize;
        let dtype = self.dtype();
        if dtype.kind() == Kind::Bool {
            return Err(Error::DType { op: OP, dtype, expected: "numbers" });
        }
        if dtype == DType::I64 && self.device().is_gpu() {
            return Err(Error::DType {
                op: OP,
                dtype,
                expected: "on a GPU, floats or integers of at most 32 bits",
            });
        }
        let n = self.shape()[index as usize];
        layout::check_axis_length(n)?;
        if self.is_empty() {
            return Self::zeros(self.shape(), DType::I32, &self.device());
        }
        let last = self.rank() as isize - 1;
        let rows = self.cast(Reducer::computed_in(dtype))?.transpose(index, last)?.contiguous()?;
        let indices = match rows.device_view()? {
            DeviceView::Cpu(view) => {
                Self::from_cpu(crate::cpu::sort::sorted_indices(&view, n, order)?, rows.shape())?
            }
            DeviceView::Gpu(gpu, view) => {
                let (data, row) = crate::gpu::sort::launch(&gpu, &view, n, order)?;
                let count = data.len;
                let all = Self::from_gpu_data(&gpu, data, &[count])?;
                let mut padded = rows.shape().to_vec();
                padded[last as usize] = row;
                all.slice(0, ..layout::elements(&padded)?)?.reshape(&padded)?.slice(last, ..n)?
            }
        };
        Ok(report(OP, indices.transpose(index, last)?))
    }

    /// Sorts the elements along an axis.
    ///
    /// ```
    /// use aleatron_tensor::{Device, Order, Tensor};
    /// let x = Tensor::from_slice(&[3.0f32, 1.0, 2.0], &[3], &Device::Cpu)?;
    /// assert_eq!(x.sort(0, Order::Ascending)?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::argsort`].
    pub fn sort(&self, axis: isize, order: Order) -> Result<Self> {
        let indices = self.argsort(axis, order)?;
        if self.is_empty() {
            return Ok(self.clone());
        }
        self.gather(axis, &indices).map(|tensor| report("sort", tensor))
    }

    /// Returns the first `k` elements along an axis in an order, and their indices.
    ///
    /// # Errors
    /// As [`Self::argsort`]; [`Error::Range`] if `k` exceeds the size of the axis.
    pub fn topk(&self, k: usize, axis: isize, order: Order) -> Result<(Self, Self)> {
        const OP: &str = "topk";
        let len = self.shape()[layout::axis(OP, axis, self.rank())?];
        if k > len {
            return Err(Error::Range { op: OP, start: 0, end: k, len });
        }
        let indices = self.argsort(axis, order)?.slice(axis, ..k)?;
        if k == 0 || self.is_empty() {
            return Ok((self.slice(axis, ..k)?, indices));
        }
        let values = self.gather(axis, &indices)?;
        Ok((report(OP, values), indices))
    }
}
