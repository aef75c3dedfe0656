//! Products of matrices.

use crate::autograd::{self, is_recorded};
use crate::cpu;
use crate::dtype::{DType, Kind};
use crate::error::{Error, RankNeeded, Result};
use crate::gpu::matmul as gpu;
use crate::gpu::matmul::MatmulPlan;
use crate::layout::broadcast_shapes;
use crate::tensor::{DeviceView, Tensor};
use crate::trace::report;

const OP: &str = "matmul";

impl Tensor {
    /// Returns the product of matrices: the last two axes of both are rows and columns, all others
    /// are a batch and broadcast. A tensor of rank 1 is a row on the left and a column on the
    /// right; the result lacks this axis.
    ///
    /// Views are used without copies. 16-bit floats are accumulated in 32 bits and rounded once;
    /// integers wrap. An empty sum is 0. On a GPU an element depends on its row and its column
    /// alone: one row of a product is that row of any larger product, bit for bit.
    ///
    /// ```
    /// use aleatron_tensor::{Device, Tensor};
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2], &Device::Cpu)?;
    /// let y = Tensor::from_slice(&[1.0f32, 10.0], &[2], &Device::Cpu)?;
    /// assert_eq!(x.matmul(&y)?.to_vec::<f32>()?, [21.0, 43.0]);
    /// assert_eq!(x.matmul(&x.t()?)?.to_vec::<f32>()?, [5.0, 11.0, 11.0, 25.0]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Rank`] for a tensor without axes, [`Error::Shapes`] if the common axes differ or
    /// the batches do not broadcast, [`Error::Promotion`] or [`Error::DType`] for types without
    /// products, [`Error::Devices`] for two devices, [`Error::Unsupported`] for integers on a GPU,
    /// [`Error::Memory`] if memory is exhausted.
    pub fn matmul(&self, other: &Self) -> Result<Self> {
        self.matmul_by(other, MatmulPlan::Automatic)
    }

    /// Like [`Self::matmul`], by a plan, which the CPU ignores.
    pub(crate) fn matmul_by(&self, other: &Self, plan: MatmulPlan) -> Result<Self> {
        if is_recorded([self, other]) {
            return autograd::matmul(self, other, plan);
        }
        self.check_device(OP, other)?;
        let (left, right) = (self.as_matrices(Side::Left)?, other.as_matrices(Side::Right)?);
        let refused = || Error::shapes(OP, self.shape(), other.shape());
        let ([.., m, k], [.., k_right, n]) = (left.shape(), right.shape()) else {
            return Err(refused());
        };
        let (m, k, n) = (*m, *k, *n);
        if k != *k_right {
            return Err(refused());
        }
        let (left_batch, right_batch) =
            (&left.shape()[..left.rank() - 2], &right.shape()[..right.rank() - 2]);
        let batch = broadcast_shapes(OP, left_batch, right_batch).map_err(|_| refused())?;
        let dtype = self.dtype().promote(other.dtype());
        let (left_dtype, right_dtype) = (self.dtype(), other.dtype());
        let dtype =
            dtype.ok_or(Error::Promotion { op: OP, left: left_dtype, right: right_dtype })?;
        if dtype.kind() == Kind::Bool {
            return Err(Error::DType { op: OP, dtype, expected: "numbers" });
        }
        let mut shape = batch.clone();
        shape.extend((self.rank() > 1).then_some(m));
        shape.extend((other.rank() > 1).then_some(n));
        let len = crate::layout::elements(&shape)?;
        let device = self.device();
        if let (true, Kind::Integer) = (device.is_gpu(), dtype.kind()) {
            let what = "integer matrix products; move the tensors to the CPU";
            return Err(Error::Unsupported { device: device.to_string(), what });
        }
        let product = if len == 0 || k == 0 {
            Self::zeros(&shape, dtype, &device)?
        } else {
            product(&left, &right, &batch, dtype, plan)?.reshape(&shape)?
        };
        Ok(report(OP, product))
    }

    /// Converts vectors to matrices: inserts an axis for the rows of a single row, or the columns
    /// of a single column.
    fn as_matrices(&self, side: Side) -> Result<Self> {
        match (self.rank(), side) {
            (0, _) => Err(Error::Rank {
                op: OP,
                expected: RankNeeded::AtLeast(1),
                shape: self.shape().to_vec(),
            }),
            (1, Side::Left) => self.unsqueeze(0),
            (1, Side::Right) => self.unsqueeze(1),
            _ => Ok(self.clone()),
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

/// Returns the product of matrices that are not empty, over a batch.
fn product(
    left: &Tensor,
    right: &Tensor,
    batch: &[usize],
    dtype: DType,
    plan: MatmulPlan,
) -> Result<Tensor> {
    let (m, n) = (left.shape()[left.rank() - 2], right.shape()[right.rank() - 1]);
    // Many matrices times one are one matrix of many rows.
    if right.rank() == 2 && left.rank() > 2 {
        let rows = left.len() / left.shape()[left.rank() - 1];
        if let Ok(joined) = left.view(&[rows, left.shape()[left.rank() - 1]]) {
            return product(&joined, right, &[], dtype, plan);
        }
    }
    // A column is a row of the transposed product, with the same elements in the same order.
    if n == 1 && m > 1 {
        return product(&right.t()?, &left.t()?, batch, dtype, plan);
    }
    let shape = [batch, &[m, n]].concat();
    // 16-bit floats of the CPU become 32-bit ones before they are repeated.
    let of_cpu = |tensor: &Tensor| -> Result<Tensor> {
        match (tensor.device().is_gpu(), dtype.is_float()) {
            (true, _) => Ok(tensor.clone()),
            (false, true) => tensor.cast(dtype.computed()),
            (false, false) => tensor.cast(dtype),
        }
    };
    let broadcast = |tensor: &Tensor| -> Result<Tensor> {
        let tensor = of_cpu(tensor)?;
        let sides = tensor.shape()[tensor.rank() - 2..].to_vec();
        tensor.broadcast_to(&[batch, &sides].concat())
    };
    let (left, right) = (broadcast(left)?, broadcast(right)?);
    match (left.device_view()?, right.device_view()?) {
        (DeviceView::Cpu(a), DeviceView::Cpu(b)) => {
            let storage = match dtype {
                DType::F64 => cpu::matmul::simple::<f64>(dtype, &a, &b)?,
                DType::F32 | DType::F16 => cpu::matmul::floats(&a, &b)?,
                DType::I32 => cpu::matmul::simple::<i32>(dtype, &a, &b)?,
                DType::I64 => cpu::matmul::simple::<i64>(dtype, &a, &b)?,
                DType::U8 | DType::Bool => cpu::matmul::simple::<u8>(dtype, &a, &b)?,
            };
            let sums = Tensor::from_cpu(storage, &shape)?;
            if dtype == DType::F16 { sums.cast(dtype) } else { Ok(sums) }
        }
        (DeviceView::Gpu(device, a), DeviceView::Gpu(_, b)) => {
            let data = gpu::launch(&device, &a, &b, dtype, plan)?;
            Tensor::from_gpu_data(&device, data, &shape)
        }
        _ => Err(Error::Devices {
            op: OP,
            left: left.device().to_string(),
            right: right.device().to_string(),
        }),
    }
}
