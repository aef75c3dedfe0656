//! Softmax and normalisation over any axes.
//!
//! Everything is computed in 32-bit floats and rounded once. A row of minus infinities, or with an
//! infinity, has a softmax of NaN where that is 0 / 0 or infinity / infinity. Empty tensors have
//! empty results.

use crate::autograd::{self, is_recorded};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::layout;
use crate::op::Reducer;
use crate::ops::Dims;
use crate::ops::fold::fold;
use crate::storage::Storage;
use crate::tensor::Tensor;
use crate::trace::report;

/// A normalisation of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Normal {
    /// Exponentials over their sum.
    Softmax,
    /// The logarithm of the softmax.
    LogSoftmax,
    /// Mean 0 and variance 1.
    Layer,
    /// Mean square 1.
    Rms,
}

/// The longest row that one workgroup of a GPU normalises.
const LONGEST: usize = 1 << 18;

impl Tensor {
    /// Returns the exponentials over their sum along axes; an empty list stands for all axes.
    ///
    /// ```
    /// use aleatron_tensor::{Device, Tensor};
    /// let x = Tensor::from_slice(&[1000.0f32, 1000.0], &[2], &Device::Cpu)?;
    /// assert_eq!(x.softmax(&[0])?.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Axis`] or [`Error::RepeatedAxis`] for axes out of range, [`Error::DType`] for
    /// others than floats, [`Error::Memory`] if memory is exhausted.
    pub fn softmax(&self, axes: &[isize]) -> Result<Self> {
        const OP: &str = "softmax";
        if is_recorded([self]) {
            return autograd::softmax(self, axes);
        }
        let (dtype, axes) = (self.dtype(), float_axes(OP, self, axes)?);
        if self.is_empty() {
            return Ok(self.clone());
        }
        if let Some(done) = self.rows(OP, &axes, Normal::Softmax, &[], 0.0)? {
            return Ok(done);
        }
        let wide = self.cast(dtype.computed())?;
        let shift = wide.shift(OP, &axes)?;
        let exponentials = wide.sub(&shift)?.exp()?;
        let sum = fold(OP, &exponentials, &axes, Dims::Keep, &Reducer::Sum)?;
        exponentials.div(&sum)?.cast(dtype).map(|tensor| report(OP, tensor))
    }

    /// Returns the logarithm of [`Self::softmax`], without loss of precision where the softmax is
    /// near 0.
    ///
    /// # Errors
    /// As [`Self::softmax`].
    pub fn log_softmax(&self, axes: &[isize]) -> Result<Self> {
        const OP: &str = "log_softmax";
        if is_recorded([self]) {
            return autograd::log_softmax(self, axes);
        }
        let (dtype, axes) = (self.dtype(), float_axes(OP, self, axes)?);
        if self.is_empty() {
            return Ok(self.clone());
        }
        if let Some(done) = self.rows(OP, &axes, Normal::LogSoftmax, &[], 0.0)? {
            return Ok(done);
        }
        let wide = self.cast(dtype.computed())?;
        let shifted = wide.sub(&wide.shift(OP, &axes)?)?;
        let sum = fold(OP, &shifted.exp()?, &axes, Dims::Keep, &Reducer::Sum)?;
        shifted.sub(&sum.log()?)?.cast(dtype).map(|tensor| report(OP, tensor))
    }

    /// Normalizes to mean 0 and variance 1 along axes, all axes for an empty list: (x - mean) /
    /// sqrt(variance + epsilon), times a scale, plus a shift, which are broadcast.
    ///
    /// # Errors
    /// As [`Self::softmax`]; [`Error::Shapes`] if the scale or the shift does not broadcast to
    /// these shapes.
    pub fn layer_norm(
        &self,
        axes: &[isize],
        scale: Option<&Self>,
        shift: Option<&Self>,
        epsilon: f32,
    ) -> Result<Self> {
        const OP: &str = "layer_norm";
        if is_recorded([Some(self), scale, shift].into_iter().flatten()) {
            return autograd::layer_norm(self, axes, scale, shift, epsilon);
        }
        let (dtype, axes) = (self.dtype(), float_axes(OP, self, axes)?);
        self.check_weights(OP, &[scale, shift])?;
        if self.is_empty() {
            return Ok(self.clone());
        }
        let unit;
        let weights: &[&Self] = match (scale, shift) {
            (None, None) => &[],
            (Some(scale), None) => &[scale],
            (Some(scale), Some(shift)) => &[scale, shift],
            (None, Some(shift)) => {
                unit = Self::ones(&[], DType::F32, &self.device())?;
                &[&unit, shift]
            }
        };
        if let Some(done) = self.rows(OP, &axes, Normal::Layer, weights, epsilon)? {
            return Ok(done);
        }
        let wide = self.cast(dtype.computed())?;
        let count = axes.iter().map(|&axis| self.shape()[axis] as f64).product::<f64>();
        let mean = fold(OP, &wide, &axes, Dims::Keep, &Reducer::Sum)?.div(count)?;
        let centred = wide.sub(&mean)?;
        let variance =
            fold(OP, &centred.square()?, &axes, Dims::Keep, &Reducer::Sum)?.div(count)?;
        weighted(centred.mul(&variance.add(f64::from(epsilon))?.rsqrt()?)?, weights)?
            .cast(dtype)
            .map(|tensor| report(OP, tensor))
    }

    /// Normalizes to mean square 1 along axes, all axes for an empty list: x / sqrt(mean of x^2 +
    /// epsilon), times a scale, which is broadcast.
    ///
    /// # Errors
    /// As [`Self::layer_norm`].
    pub fn rms_norm(&self, axes: &[isize], scale: Option<&Self>, epsilon: f32) -> Result<Self> {
        const OP: &str = "rms_norm";
        if is_recorded([Some(self), scale].into_iter().flatten()) {
            return autograd::rms_norm(self, axes, scale, epsilon);
        }
        let (dtype, axes) = (self.dtype(), float_axes(OP, self, axes)?);
        self.check_weights(OP, &[scale])?;
        if self.is_empty() {
            return Ok(self.clone());
        }
        let weights: Vec<&Self> = scale.into_iter().collect();
        if let Some(done) = self.rows(OP, &axes, Normal::Rms, &weights, epsilon)? {
            return Ok(done);
        }
        let wide = self.cast(dtype.computed())?;
        let count = axes.iter().map(|&axis| self.shape()[axis] as f64).product::<f64>();
        let square = fold(OP, &wide.square()?, &axes, Dims::Keep, &Reducer::Sum)?.div(count)?;
        weighted(wide.mul(&square.add(f64::from(epsilon))?.rsqrt()?)?, &weights)?
            .cast(dtype)
            .map(|tensor| report(OP, tensor))
    }

    fn check_weights(&self, op: &'static str, weights: &[Option<&Self>]) -> Result<()> {
        for weight in weights.iter().flatten() {
            self.check_device(op, weight)?;
            if !weight.dtype().is_float() {
                return Err(Error::DType { op, dtype: weight.dtype(), expected: "floats" });
            }
            weight.layout().broadcast_to(op, self.shape())?;
        }
        Ok(())
    }

    /// Normalises by one kernel, if possible: on GPUs, over rows that are whole vectors and not too
    /// long. Weights must differ along the axes alone.
    fn rows(
        &self,
        op: &'static str,
        axes: &[usize],
        normal: Normal,
        weights: &[&Self],
        epsilon: f32,
    ) -> Result<Option<Self>> {
        let Storage::Gpu(storage) = self.storage() else { return Ok(None) };
        let n: usize = axes.iter().map(|&axis| self.shape()[axis]).product();
        let rows = self.len() / n.max(1);
        // One long row would leave most of the device idle.
        let is_long = n > LONGEST || (n > 1 << 14 && rows < 64);
        if self.is_empty() || !n.is_multiple_of(4) || is_long {
            return Ok(None);
        }
        let kept: Vec<usize> = (0..self.rank()).filter(|axis| !axes.contains(axis)).collect();
        let mut own = Vec::with_capacity(weights.len());
        for weight in weights {
            let over = weight.layout().broadcast_to(op, self.shape())?;
            if kept.iter().any(|&axis| self.shape()[axis] > 1 && over.strides()[axis] != 0) {
                return Ok(None);
            }
            let sizes = axes.iter().map(|&axis| self.shape()[axis]).collect::<Vec<_>>();
            let strides = axes.iter().map(|&axis| over.strides()[axis]).collect();
            let row =
                weight.with_layout(crate::layout::Layout::raw(&sizes, strides, over.offset()));
            own.push(row.cast(DType::F32)?.whole()?.gpu_view()?);
        }
        let gpu = storage.device().clone();
        let mut expr = match storage.share(self.layout()) {
            Some(expr) => expr,
            None => {
                let view =
                    crate::gpu::GpuView { data: storage.data()?, layout: self.layout().clone() };
                Expr::leaf(view, self.dtype())
            }
        };
        let order: Vec<isize> =
            [&kept[..], axes].concat().into_iter().map(|axis| axis as isize).collect();
        for leaf in &mut expr.leaves {
            leaf.layout = leaf.layout.permute(op, &order)?;
        }
        let data = crate::gpu::normalize::launch(
            &gpu,
            &expr,
            [rows, n],
            normal,
            &own,
            epsilon,
            self.dtype(),
        )?;
        let shape: Vec<usize> = order.iter().map(|&axis| self.shape()[axis as usize]).collect();
        let mut back = vec![0isize; self.rank()];
        for (index, &axis) in order.iter().enumerate() {
            back[axis as usize] = index as isize;
        }
        let done = Self::from_gpu_data(&gpu, data, &shape)?.permute(&back)?;
        Ok(Some(report(op, done)))
    }
}

fn float_axes(op: &'static str, x: &Tensor, axes: &[isize]) -> Result<Vec<usize>> {
    if !x.dtype().is_float() {
        return Err(Error::DType { op, dtype: x.dtype(), expected: "floats" });
    }
    layout::axes(op, axes, x.rank())
}

fn weighted(x: Tensor, weights: &[&Tensor]) -> Result<Tensor> {
    let x = match weights.first() {
        Some(scale) => x.mul(&scale.cast(x.dtype())?)?,
        None => x,
    };
    match weights.get(1) {
        Some(shift) => x.add(&shift.cast(x.dtype())?),
        None => Ok(x),
    }
}
