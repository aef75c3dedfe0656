//! Pooling: one value for each position of a window, in each channel.

use super::conv::{Rounding, window_positions};
use super::reduce::{Dims, Reduction};
use crate::autograd::{self, is_recorded};
use crate::cpu;
use crate::dtype::DType;
use crate::error::{Error, RankNeeded, Result};
use crate::gpu::pool as gpu;
use crate::tensor::{DeviceView, Tensor};
use crate::trace::report;

/// Options of pooling over images of `D` axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolOptions<const D: usize> {
    /// The size of the window.
    pub kernel: [usize; D],
    /// The steps of the window.
    pub stride: [usize; D],
    /// The positions before and after the image.
    pub padding: [[usize; 2]; D],
    /// The distance between neighbouring elements of the window.
    pub dilation: [usize; D],
    /// The treatment of a last window that reaches past the end.
    pub rounding: Rounding,
}

impl<const D: usize> PoolOptions<D> {
    /// Returns a window that steps over the image without overlap.
    ///
    /// ```
    /// use aleatron_tensor::PoolOptions;
    /// let options = PoolOptions { padding: [[1, 1]; 2], ..PoolOptions::new([3, 3]) };
    /// assert_eq!(options.stride, [3, 3]);
    /// ```
    #[must_use]
    pub fn new(kernel: [usize; D]) -> Self {
        Self {
            kernel,
            stride: kernel,
            padding: [[0; 2]; D],
            dilation: [1; D],
            rounding: Rounding::Down,
        }
    }
}

/// The weight of padding in an average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Padding {
    /// Padding is ignored: the average is over elements of the image.
    #[default]
    Ignored,
    /// Each padded position counts as a zero.
    Counted,
}

/// The value computed from a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Pool {
    /// The largest element; NaN if there is a NaN.
    Max,
    /// The average.
    Average(Padding),
}

/// The sizes of a pooling of images of two axes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    pub(crate) pool: Pool,
    /// Images, channels, rows and columns.
    pub(crate) shape: [usize; 4],
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) padding: [[usize; 2]; 2],
    pub(crate) out: [usize; 2],
}

impl Tensor {
    /// Returns the largest element of each window over sequences `[n, c, l]`.
    ///
    /// # Errors
    /// As [`Self::max_pool2d`].
    pub fn max_pool1d(&self, options: &PoolOptions<1>) -> Result<Self> {
        self.pool1d("max_pool1d", options, Pool::Max)
    }

    /// Returns the largest element of each window over images `[n, c, h, w]`; NaN if the window has
    /// one. Padding is never the largest: the result of a window without elements of the image is
    /// minus infinity.
    ///
    /// # Errors
    /// [`Error::Rank`] for another rank, [`Error::Argument`] for a window that does not fit,
    /// [`Error::DType`] for other types than floats, [`Error::Memory`] if memory is exhausted.
    pub fn max_pool2d(&self, options: &PoolOptions<2>) -> Result<Self> {
        self.pool("max_pool2d", options, Pool::Max)
    }

    /// Returns the average of each window over sequences `[n, c, l]`.
    ///
    /// # Errors
    /// As [`Self::max_pool2d`].
    pub fn avg_pool1d(&self, options: &PoolOptions<1>, padding: Padding) -> Result<Self> {
        self.pool1d("avg_pool1d", options, Pool::Average(padding))
    }

    /// Returns the average of each window over images `[n, c, h, w]`, accumulated in 32 bits row by
    /// row. Positions past the padding, which a last window may reach, never count; the result of a
    /// window without counted elements is NaN.
    ///
    /// ```
    /// use aleatron_tensor::{DType, Device, Padding, PoolOptions, Tensor};
    /// let image = Tensor::arange(0, 16, 1, DType::F32, &Device::Cpu)?.reshape(&[1, 1, 4, 4])?;
    /// let means = image.avg_pool2d(&PoolOptions::new([2, 2]), Padding::Ignored)?;
    /// assert_eq!(means.to_vec::<f32>()?, [2.5, 4.5, 10.5, 12.5]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::max_pool2d`].
    pub fn avg_pool2d(&self, options: &PoolOptions<2>, padding: Padding) -> Result<Self> {
        self.pool("avg_pool2d", options, Pool::Average(padding))
    }

    /// Returns the largest element of each channel: all axes after the second get size 1.
    ///
    /// # Errors
    /// As [`Self::max_pool2d`], and [`Error::Argument`] for an image without elements.
    pub fn global_max_pool(&self) -> Result<Self> {
        self.reduce_channels("global_max_pool", Reduction::Max)
    }

    /// Returns the average of each channel: all axes after the second get size 1.
    ///
    /// # Errors
    /// As [`Self::global_max_pool`].
    pub fn global_avg_pool(&self) -> Result<Self> {
        self.reduce_channels("global_avg_pool", Reduction::Mean)
    }

    fn reduce_channels(&self, op: &'static str, reduction: Reduction) -> Result<Self> {
        if self.rank() < 2 {
            return Err(Error::Rank {
                op,
                expected: RankNeeded::AtLeast(2),
                shape: self.shape().to_vec(),
            });
        }
        if !self.dtype().is_float() {
            return Err(Error::DType { op, dtype: self.dtype(), expected: "floats" });
        }
        let axes: Vec<isize> = (2..self.rank() as isize).collect();
        let result =
            if axes.is_empty() { self.clone() } else { self.reduce(reduction, &axes, Dims::Keep)? };
        Ok(report(op, result))
    }

    fn pool1d(&self, op: &'static str, options: &PoolOptions<1>, pool: Pool) -> Result<Self> {
        if self.rank() != 3 {
            return Err(Error::Rank {
                op,
                expected: RankNeeded::Exactly(3),
                shape: self.shape().to_vec(),
            });
        }
        let options = PoolOptions {
            kernel: [1, options.kernel[0]],
            stride: [1, options.stride[0]],
            padding: [[0; 2], options.padding[0]],
            dilation: [1, options.dilation[0]],
            rounding: options.rounding,
        };
        self.unsqueeze(2)?.pool(op, &options, pool)?.squeeze(2)
    }

    fn pool(&self, op: &'static str, options: &PoolOptions<2>, pool: Pool) -> Result<Self> {
        let shape: [usize; 4] = self.shape().try_into().map_err(|_| Error::Rank {
            op,
            expected: RankNeeded::Exactly(4),
            shape: self.shape().to_vec(),
        })?;
        let dtype = self.dtype();
        if !dtype.is_float() || dtype == DType::F64 {
            return Err(Error::DType { op, dtype, expected: "16- or 32-bit floats" });
        }
        let PoolOptions { kernel, stride, padding, dilation, rounding } = *options;
        let mut out = [0; 2];
        for axis in 0..2 {
            let sizes = [shape[axis + 2], kernel[axis], stride[axis], dilation[axis]];
            out[axis] = window_positions(op, sizes, padding[axis], rounding)?;
        }
        let windows = Windows { pool, shape, kernel, stride, dilation, padding, out };
        if is_recorded([self]) {
            let output = self.detach().pool(op, options, pool)?;
            return Ok(autograd::pool(op, self, windows, &output));
        }
        let out_shape = [shape[0], shape[1], out[0], out[1]];
        let result = match self.device_view()? {
            DeviceView::Cpu(_) => {
                let view = self.cast(DType::F32)?.host_view()?;
                Self::from_cpu(cpu::pool::run(&windows, &view)?, &out_shape)?.cast(dtype)?
            }
            DeviceView::Gpu(device, view) => {
                Self::from_gpu_data(&device, gpu::launch(&device, &windows, &view)?, &out_shape)?
            }
        };
        Ok(report(op, result))
    }
}
