//! Reductions over any axes.
//!
//! # What results are
//!
//! - **Axes.** No axis named means all of them. [`Dims::Keep`] leaves reduced axes with size 1.
//! - **Types.** 16-bit floats are summed in 32 bits and rounded once. Sums and products of bytes are 32-bit integers; integers wrap.
//!   Places are 32-bit integers.
//! - **No elements.** The sum is 0, the product 1, the mean NaN, `any` false, `all` true, `logsumexp` minus infinity; the
//!   largest and the smallest of nothing, and their places, are errors.
//! - **NaN.** One NaN makes the sum, the mean, the product, the largest and the smallest NaN, and its place is that of both. The first of
//!   equal elements is the one whose place counts.
//! - **Order.** Sums are taken in an order that depends on the shape, the strides and the kind of device alone: results are the same from run
//!   to run and for any number of threads. No element goes through more than [`SUM_DEPTH`] additions, so a sum of n floats is off by at most
//!   min(n, `SUM_DEPTH`) 2^-24 times the sum of their magnitudes.

use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::layout;
use crate::op::Reducer;
use crate::storage::Storage;
use crate::tensor::{Place, Tensor};
use crate::trace::report;

/// The most additions any element of a sum goes through.
pub const SUM_DEPTH: usize = 640;

/// What becomes of reduced axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dims {
    /// They are gone.
    #[default]
    Drop,
    /// They have size 1.
    Keep,
}

/// What many elements become one by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The sum over the number.
    Mean,
    /// The product.
    Prod,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The place of the largest.
    ArgMax,
    /// The place of the smallest.
    ArgMin,
    /// ln of the sum of the exponentials.
    LogSumExp,
    /// Whether one is not zero.
    Any,
    /// Whether none is zero.
    All,
}

impl Reduction {
    /// Every reduction.
    pub const ALL: &'static [Self] = &[
        Self::Sum,
        Self::Mean,
        Self::Prod,
        Self::Max,
        Self::Min,
        Self::ArgMax,
        Self::ArgMin,
        Self::LogSumExp,
        Self::Any,
        Self::All,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
            Self::ArgMax => "argmax",
            Self::ArgMin => "argmin",
            Self::LogSumExp => "logsumexp",
            Self::Any => "any",
            Self::All => "all",
        }
    }
}

/// The shape with axes reduced.
fn reduced_shape(shape: &[usize], axes: &[usize], dims: Dims) -> Vec<usize> {
    let sizes = shape.iter().enumerate().filter_map(|(axis, &size)| match (axes.contains(&axis), dims) {
        (false, _) => Some(size),
        (true, Dims::Keep) => Some(1),
        (true, Dims::Drop) => None,
    });
    sizes.collect()
}

/// Folds axes, named in ascending order. The result has the type that is computed in.
pub(crate) fn fold(
    op: &'static str,
    x: &Tensor,
    axes: &[usize],
    dims: Dims,
    reducer: &Reducer,
) -> Result<Tensor> {
    let shape = reduced_shape(x.shape(), axes, dims);
    let computed = Reducer::computed_in(x.dtype());
    let count = layout::elements(&axes.iter().map(|&axis| x.shape()[axis]).collect::<Vec<_>>())?;
    if count == 0 || shape.contains(&0) {
        let value = match reducer.of_nothing(computed) {
            Some(value) => value,
            None if shape.contains(&0) => crate::tensor::small(0, reducer.result(computed)),
            None => return Err(Error::argument(op, "elements", 0, "there must be at least one")),
        };
        return Tensor::full(&shape, value, reducer.result(computed), &x.device());
    }
    if matches!(reducer, Reducer::ArgMax | Reducer::ArgMin) {
        crate::gpu::reduce::check_axis_length(count)?;
    }
    match x.storage() {
        Storage::Cpu(_) => {
            Tensor::from_cpu(crate::cpu::reduce::reduce(&x.host_view(op)?, axes, reducer)?, &shape)
        }
        Storage::Gpu(storage) => {
            let gpu = storage.device().clone();
            // What is still to be computed is computed on the way.
            let expr = match storage.share(x.layout()) {
                Some(expr) => expr,
                None => {
                    let view = crate::gpu::GpuView { data: storage.data()?, layout: x.layout().clone() };
                    Expr::leaf(view, x.dtype())
                }
            };
            let expr = if expr.dtype().is_float() { expr } else { expr.cast(computed) };
            Tensor::from_gpu_data(
                &gpu,
                crate::gpu::reduce::launch(&gpu, &expr, x.shape(), axes, reducer)?,
                &shape,
            )
        }
    }
}

/// Folds axes, named in ascending order, of 32-bit floats with a user's operation: an expression on GPUs, a function on the host.
pub(crate) fn fold_custom(
    op: &'static str,
    x: &Tensor,
    axes: &[usize],
    wgsl: &'static str,
    identity: f32,
    combine: fn(f32, f32) -> f32,
) -> Result<Tensor> {
    match x.storage() {
        Storage::Cpu(_) => {
            let shape = reduced_shape(x.shape(), axes, Dims::Drop);
            let folded = crate::cpu::reduce::fold(&x.host_view(op)?, axes, DType::F32, identity, combine)?;
            Tensor::from_cpu(folded, &shape)
        }
        Storage::Gpu(_) => {
            let reducer = Reducer::Custom { wgsl: wgsl.to_owned(), identity: identity.to_bits() };
            fold(op, x, axes, Dims::Drop, &reducer)
        }
    }
}

impl Tensor {
    /// The view of a tensor on the host.
    fn host_view(&self, op: &'static str) -> Result<crate::cpu::CpuView> {
        match self.place()? {
            Place::Cpu(view) => Ok(view),
            Place::Gpu(..) => Err(Error::argument(op, "device", self.device(), "it must be the host")),
        }
    }

    /// Reduces axes, all of them where none is named. The rules are in [`Reduction`]'s module.
    ///
    /// ```
    /// use aleatron_tensor::{Device, Dims, Reduction, Tensor};
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3], &Device::Cpu)?;
    /// assert_eq!(x.reduce(Reduction::Sum, &[-1], Dims::Drop)?.to_vec::<f32>()?, [6.0, 15.0]);
    /// assert_eq!(x.reduce(Reduction::Max, &[], Dims::Keep)?.shape(), [1, 1]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Axis`] or [`Error::RepeatedAxis`] for axes there are not, [`Error::DType`] for elements it is not for,
    /// [`Error::Argument`] for the largest or smallest of nothing, [`Error::TooLarge`] for places past 32 bits, or where there is no room.
    pub fn reduce(&self, reduction: Reduction, axes: &[isize], dims: Dims) -> Result<Self> {
        let op = reduction.name();
        let axes = layout::axes(op, axes, self.rank())?;
        let (dtype, kind) = (self.dtype(), self.dtype().kind());
        let needed = |expected| Error::DType { op, dtype, expected };
        let simple = |reducer| fold(op, self, &axes, dims, &reducer);
        let result = match reduction {
            _ if kind == Kind::Bool && !matches!(reduction, Reduction::Any | Reduction::All) => {
                return Err(needed("numbers"));
            }
            Reduction::Mean | Reduction::LogSumExp if kind != Kind::Float => return Err(needed("floats")),
            Reduction::Sum => in_type(simple(Reducer::Sum)?, dtype)?,
            Reduction::Prod => in_type(simple(Reducer::Prod)?, dtype)?,
            Reduction::Max => simple(Reducer::Max)?.cast(dtype)?,
            Reduction::Min => simple(Reducer::Min)?.cast(dtype)?,
            Reduction::ArgMax => simple(Reducer::ArgMax)?,
            Reduction::ArgMin => simple(Reducer::ArgMin)?,
            Reduction::Mean => {
                let count: usize = axes.iter().map(|&axis| self.shape()[axis]).product();
                simple(Reducer::Sum)?.div(count as f64)?.cast(dtype)?
            }
            Reduction::LogSumExp => self.log_sum_exp(&axes, dims)?.cast(dtype)?,
            // Of an empty set the largest is 0, and the smallest 1.
            Reduction::Any | Reduction::All => {
                let truth = self.truth()?.cast(DType::I32)?;
                let count: usize = axes.iter().map(|&axis| self.shape()[axis]).product();
                let is_any = reduction == Reduction::Any;
                if count == 0 {
                    let shape = reduced_shape(self.shape(), &axes, dims);
                    Self::full(&shape, !is_any, DType::Bool, &self.device())?
                } else {
                    let reducer = if is_any { Reducer::Max } else { Reducer::Min };
                    fold(op, &truth, &axes, dims, &reducer)?.cast(DType::Bool)?
                }
            }
        };
        Ok(report(op, result))
    }

    /// Whether each element is not zero.
    fn truth(&self) -> Result<Self> {
        self.cast(DType::Bool)
    }

    /// In 32-bit floats, over axes in ascending order.
    pub(crate) fn log_sum_exp(&self, axes: &[usize], dims: Dims) -> Result<Self> {
        const OP: &str = "logsumexp";
        let shape = reduced_shape(self.shape(), axes, dims);
        if axes.iter().any(|&axis| self.shape()[axis] == 0) {
            return Self::full(&shape, f64::NEG_INFINITY, DType::F32, &self.device());
        }
        let shift = self.shift(OP, axes)?;
        let sum = fold(OP, &self.cast(DType::F32)?.sub(&shift)?.exp()?, axes, Dims::Keep, &Reducer::Sum)?;
        sum.log()?.add(&shift)?.reshape(&shape)
    }

    /// The largest along axes where it is finite, else 0: what can be taken off before exponentials.
    pub(crate) fn shift(&self, op: &'static str, axes: &[usize]) -> Result<Self> {
        let largest = fold(op, self, axes, Dims::Keep, &Reducer::Max)?;
        largest.is_finite()?.where_(&largest, 0.0)
    }

    /// The sum over axes, all where none is named.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn sum(&self, axes: &[isize], dims: Dims) -> Result<Self> {
        self.reduce(Reduction::Sum, axes, dims)
    }

    /// The mean over axes, all where none is named.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn mean(&self, axes: &[isize], dims: Dims) -> Result<Self> {
        self.reduce(Reduction::Mean, axes, dims)
    }

    /// The product over axes, all where none is named.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn prod(&self, axes: &[isize], dims: Dims) -> Result<Self> {
        self.reduce(Reduction::Prod, axes, dims)
    }

    /// The largest over axes, all where none is named.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn max(&self, axes: &[isize], dims: Dims) -> Result<Self> {
        self.reduce(Reduction::Max, axes, dims)
    }

    /// The smallest over axes, all where none is named.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn min(&self, axes: &[isize], dims: Dims) -> Result<Self> {
        self.reduce(Reduction::Min, axes, dims)
    }

    /// The place of the largest along axes, counted in row-major order over them.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn argmax(&self, axes: &[isize], dims: Dims) -> Result<Self> {
        self.reduce(Reduction::ArgMax, axes, dims)
    }

    /// The place of the smallest along axes, counted in row-major order over them.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn argmin(&self, axes: &[isize], dims: Dims) -> Result<Self> {
        self.reduce(Reduction::ArgMin, axes, dims)
    }

    /// ln of the sum of the exponentials, which overflow nowhere.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn logsumexp(&self, axes: &[isize], dims: Dims) -> Result<Self> {
        self.reduce(Reduction::LogSumExp, axes, dims)
    }

    /// Whether one element is not zero.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn any(&self, axes: &[isize], dims: Dims) -> Result<Self> {
        self.reduce(Reduction::Any, axes, dims)
    }

    /// Whether no element is zero.
    ///
    /// # Errors
    /// As [`Self::reduce`].
    pub fn all(&self, axes: &[isize], dims: Dims) -> Result<Self> {
        self.reduce(Reduction::All, axes, dims)
    }

    /// The mean squared distance from the mean, over the number of elements less `correction`.
    ///
    /// # Errors
    /// As [`Self::mean`].
    pub fn var(&self, axes: &[isize], correction: f64, dims: Dims) -> Result<Self> {
        const OP: &str = "var";
        let dtype = self.dtype();
        if !dtype.is_float() {
            return Err(Error::DType { op: OP, dtype, expected: "floats" });
        }
        let places = layout::axes(OP, axes, self.rank())?;
        let count = places.iter().map(|&axis| self.shape()[axis] as f64).product::<f64>();
        let wide = self.cast(DType::F32)?;
        let mean = fold(OP, &wide, &places, Dims::Keep, &Reducer::Sum)?.div(count)?;
        let squares = fold(OP, &wide.sub(&mean)?.square()?, &places, dims, &Reducer::Sum)?;
        squares.div((count - correction).max(0.0))?.cast(dtype).map(|tensor| report(OP, tensor))
    }
}

/// Bytes stay 32-bit integers; floats return to their type.
fn in_type(x: Tensor, dtype: DType) -> Result<Tensor> {
    if dtype.is_float() { x.cast(dtype) } else { Ok(x) }
}
