//! Gathering of elements by indices, which count from the end if they are negative. On GPUs an
//! index outside its axis is reported when a dependent value is read.

use crate::autograd::{self, is_recorded};
use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::gpu::GpuView;
use crate::layout::{self, Layout};
use crate::tensor::{DeviceView, Tensor};
use crate::trace::report;
use crate::{cpu, gpu};

/// Describes a gather on a GPU: the view without its axis over the shape of the result, the axis,
/// and the position of each index.
pub(crate) struct GpuJob<'a> {
    pub(crate) op: &'static str,
    pub(crate) x: &'a GpuView,
    /// The layout of `x` over the result, with stride 0 along the axes of the indices.
    pub(crate) base: Layout,
    pub(crate) axis_stride: isize,
    pub(crate) axis_len: usize,
    /// The indices as they are, and over the result.
    pub(crate) indices: &'a GpuView,
    pub(crate) over: Layout,
    /// The number of each element's index among the indices: strides over the result.
    pub(crate) numbers: Vec<usize>,
}

/// Checks indices and converts them to a type that kernels support.
fn checked_indices(op: &'static str, x: &Tensor, indices: &Tensor) -> Result<Tensor> {
    x.check_device(op, indices)?;
    match indices.dtype() {
        DType::I32 | DType::I64 => Ok(indices.clone()),
        dtype if dtype.kind() == Kind::Integer => indices.cast(DType::I32),
        dtype => Err(Error::DType { op, dtype, expected: "integers" }),
    }
}

/// Gathers along an axis. `base` and `over` are over the result; `numbers` are the strides of the
/// indices in row-major order, over it.
fn run(
    op: &'static str,
    x: &Tensor,
    axis: usize,
    indices: &Tensor,
    base: Layout,
    over: Layout,
    numbers: Vec<usize>,
) -> Result<Tensor> {
    let (axis_stride, axis_len) = (x.layout().strides()[axis], x.shape()[axis]);
    let shape = base.shape().to_vec();
    if axis_len == 0 && !base.is_empty() {
        return Err(Error::argument(op, "elements of the axis", 0, "there must be one to find"));
    }
    if shape.is_empty() {
        // Kernels take at least one axis.
        return run(op, x, axis, indices, base.unsqueeze(0), over.unsqueeze(0), vec![0])?
            .reshape(&[]);
    }
    let tensor = match (x.device_view()?, indices.device_view()?) {
        (DeviceView::Cpu(x), DeviceView::Cpu(indices)) => {
            let job = cpu::gather::Job {
                op,
                x: &x,
                base,
                axis_stride,
                axis_len,
                indices: &indices,
                over,
            };
            Tensor::from_cpu(cpu::gather::gather(&job)?, &shape)?
        }
        (DeviceView::Gpu(device, x), DeviceView::Gpu(_, indices)) => {
            let job =
                GpuJob { op, x: &x, base, axis_stride, axis_len, indices: &indices, over, numbers };
            Tensor::from_gpu_data(&device, gpu::gather::launch(&device, &job)?, &shape)?
        }
        _ => {
            return Err(Error::Devices {
                op,
                left: x.device().to_string(),
                right: indices.device().to_string(),
            });
        }
    };
    Ok(report(op, tensor))
}

impl Tensor {
    /// Returns, for each position of `indices`, the element whose coordinate along `axis` is the
    /// index there. All axes except `axis` are broadcast to those of this tensor.
    ///
    /// # Errors
    /// [`Error::Shapes`] if the shapes are not compatible, [`Error::DType`] for indices that are
    /// not integers, [`Error::Index`] for an index out of range, on GPUs when the result is read;
    /// [`Error::Devices`] for tensors of two devices, [`Error::Memory`] if memory is exhausted.
    pub fn gather(&self, axis: isize, indices: &Self) -> Result<Self> {
        const OP: &str = "gather";
        if is_recorded([self]) {
            return autograd::gather(self, axis, indices);
        }
        let axis = layout::axis(OP, axis, self.rank())?;
        let indices = checked_indices(OP, self, indices)?;
        let refused = || Error::shapes(OP, self.shape(), indices.shape());
        if indices.rank() != self.rank() {
            return Err(refused());
        }
        let mut shape = self.shape().to_vec();
        shape[axis] = indices.shape()[axis];
        let over = indices.layout().broadcast_to(OP, &shape).map_err(|_| refused())?;
        let base = self.layout().with_axis(axis, indices.shape()[axis], 0);
        let plain = Layout::contiguous(indices.shape())?;
        let numbers = (0..self.rank())
            .map(|a| if indices.shape()[a] == 1 { 0 } else { plain.strides()[a] as usize });
        let numbers = numbers.collect();
        run(OP, self, axis, &indices, base, over, numbers)
    }

    /// Selects slices along an axis by indices, in their order. The axis is replaced by the axes of
    /// the indices.
    ///
    /// ```
    /// use aleatron_tensor::{DType, Device, Tensor};
    /// let x = Tensor::arange(0, 6, 1, DType::I32, &Device::Cpu)?.reshape(&[2, 3])?;
    /// let i = Tensor::from_slice(&[2i32, 0, -1], &[3], &Device::Cpu)?;
    /// assert_eq!(x.index_select(1, &i)?.to_vec::<i32>()?, [2, 0, 2, 5, 3, 5]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::gather`].
    pub fn index_select(&self, axis: isize, indices: &Self) -> Result<Self> {
        const OP: &str = "index_select";
        if is_recorded([self]) {
            return autograd::index_select(self, axis, indices);
        }
        let axis = layout::axis(OP, axis, self.rank())?;
        let indices = checked_indices(OP, self, indices)?;
        let (before, after) = (&self.shape()[..axis], &self.shape()[axis + 1..]);
        let shape = [before, indices.shape(), after].concat();
        layout::elements(&shape)?;
        let plain = Layout::contiguous(indices.shape())?;
        let own = self.layout().strides();
        let zeros = |n: usize| vec![0isize; n];
        let base = [&own[..axis], &zeros(indices.rank()), &own[axis + 1..]].concat();
        let over =
            [&zeros(before.len())[..], indices.layout().strides(), &zeros(after.len())].concat();
        let numbers: Vec<usize> = [&zeros(before.len())[..], plain.strides(), &zeros(after.len())]
            .concat()
            .into_iter()
            .map(|stride| stride as usize)
            .collect();
        let base = Layout::raw(&shape, base, self.layout().offset());
        let over = Layout::raw(&shape, over, indices.layout().offset());
        run(OP, self, axis, &indices, base, over, numbers)
    }
}
