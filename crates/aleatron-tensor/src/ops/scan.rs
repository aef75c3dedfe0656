//! Running sums and products along an axis.
//!
//! Floats are added in an order that depends on the length of the axis alone, and no element goes
//! through more than [`SUM_DEPTH`](crate::SUM_DEPTH) additions. Types are those of [`Tensor::sum`].

use crate::autograd::{self, is_recorded};
use crate::dtype::Kind;
use crate::error::{Error, Result};
use crate::layout;
use crate::op::Reducer;
use crate::tensor::{DeviceView, Tensor};
use crate::trace::report;

/// The longest row that one workgroup of a GPU scans.
pub(crate) const ROW: usize = 1024;

impl Tensor {
    /// Returns the sum of all elements up to each element along an axis.
    ///
    /// ```
    /// use aleatron_tensor::{DType, Device, Tensor};
    /// let x = Tensor::arange(1, 5, 1, DType::F32, &Device::Cpu)?;
    /// assert_eq!(x.cumsum(0)?.to_vec::<f32>()?, [1.0, 3.0, 6.0, 10.0]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Axis`] for an axis out of range, [`Error::DType`] for booleans, [`Error::Memory`]
    /// if memory is exhausted.
    pub fn cumsum(&self, axis: isize) -> Result<Self> {
        self.scan("cumsum", axis, &Reducer::Sum)
    }

    /// Returns the product of all elements up to each element along an axis.
    ///
    /// # Errors
    /// As [`Self::cumsum`].
    pub fn cumprod(&self, axis: isize) -> Result<Self> {
        self.scan("cumprod", axis, &Reducer::Prod)
    }

    fn scan(&self, op: &'static str, axis: isize, reducer: &Reducer) -> Result<Self> {
        if is_recorded([self]) {
            return autograd::scan(op, self, axis, reducer);
        }
        let index = layout::axis(op, axis, self.rank())?;
        let dtype = self.dtype();
        if dtype.kind() == Kind::Bool {
            return Err(Error::DType { op, dtype, expected: "numbers" });
        }
        let computed = Reducer::computed_in(dtype);
        if self.is_empty() {
            return self.cast(if dtype.is_float() { dtype } else { computed });
        }
        let last = self.rank() as isize - 1;
        let rows = self.cast(computed)?.transpose(index as isize, last)?.contiguous()?;
        let scanned = rows.scan_rows(reducer)?.transpose(index as isize, last)?;
        let scanned = if dtype.is_float() { scanned.cast(dtype)? } else { scanned };
        Ok(report(op, scanned))
    }

    /// Scans the last axis of elements that lie in order.
    fn scan_rows(&self, reducer: &Reducer) -> Result<Self> {
        let n = *self.shape().last().ok_or(Error::internal("ops::scan, rows without an axis"))?;
        match self.device_view()? {
            DeviceView::Cpu(view) => {
                Self::from_cpu(crate::cpu::scan::scan(&view, n, reducer)?, self.shape())
            }
            DeviceView::Gpu(gpu, view) if n <= ROW => {
                let data = crate::gpu::scan::launch(&gpu, &view, n, reducer)?;
                Self::from_gpu_data(&gpu, data, self.shape())
            }
            // Rows are cut into chunks; each chunk begins with the result of the previous one.
            DeviceView::Gpu(..) => {
                let whole = n / ROW * ROW;
                let outer = &self.shape()[..self.rank() - 1];
                let cut = [outer, &[n / ROW, ROW]].concat();
                let chunks =
                    self.slice(-1, ..whole)?.reshape(&cut)?.contiguous()?.scan_rows(reducer)?;
                let ends = chunks.select(-1, ROW - 1)?.contiguous()?.scan_rows(reducer)?;
                let before = ends.slice(-1, ..n / ROW - 1)?.unsqueeze(-1)?;
                let join = |x: &Self, y: &Self| {
                    if *reducer == Reducer::Prod { x.mul(y) } else { x.add(y) }
                };
                let axis = self.rank() as isize - 1;
                let first = chunks.slice(axis, ..1)?;
                let others = join(&chunks.slice(axis, 1..)?, &before)?;
                let body =
                    Self::concat(&[&first, &others], axis)?.reshape(&[outer, &[whole]].concat())?;
                if whole == n {
                    return Ok(body);
                }
                let rest = self.slice(-1, whole..)?.contiguous()?.scan_rows(reducer)?;
                let total = ends.slice(-1, n / ROW - 1..)?;
                Self::concat(&[&body, &join(&rest, &total)?], axis)
            }
        }
    }
}
