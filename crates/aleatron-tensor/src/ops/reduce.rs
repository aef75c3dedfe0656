//! Reductions over any axes.
//!
//! # What results are
//!
//! - **Axes.** An empty list of axes stands for all axes. [`Dims::Keep`] leaves reduced axes with
//!   size 1.
//! - **Types.** 16-bit floats are summed in 32 bits and rounded once. Sums and products of bytes
//!   are 32-bit integers; integers wrap. Indices are 32-bit integers.
//! - **No elements.** The sum is 0, the product 1, the mean NaN, `any` false, `all` true,
//!   `logsumexp` minus infinity; the largest and the smallest of no elements, and their indices,
//!   are errors.
//! - **NaN.** One NaN makes the sum, the mean, the product, the largest and the smallest NaN, and
//!   the index of both is that of the NaN. Of equal elements, the index of the first is returned.
//! - **Broadcast axes.** An element that a view repeats is read once: its sum is multiplied by the
//!   number of repetitions, its product raised to that power. Results along kept axes that are
//!   broadcast are broadcast, too. So reductions take as long as the elements behind a view need,
//!   however many the view has.
//! - **Order.** Sums are taken in an order that depends on the shape, the strides and the kind of
//!   device alone: results are the same from run to run and for any number of threads. No element
//!   goes through more than [`SUM_DEPTH`] additions, so a sum of n floats is off by at most min(n,
//!   `SUM_DEPTH`) 2^-24 times the sum of their magnitudes.

use crate::autograd::{self, is_recorded};
use crate::dtype::{DType, Kind};
use crate::error::{Error, Result};
use crate::layout;
use crate::op::Reducer;
use crate::ops::axes::Axes;
use crate::ops::distinct::Distinct;
use crate::ops::fold::fold;
use crate::tensor::Tensor;
use crate::trace::report;

/// The largest number of additions that any element of a sum goes through.
pub const SUM_DEPTH: usize = 640;

/// The treatment of reduced axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dims {
    /// Reduced axes are removed.
    #[default]
    Drop,
    /// Reduced axes have size 1.
    Keep,
}

/// An operation that reduces many elements to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The mean.
    Mean,
    /// The product.
    Prod,
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
    /// The index of the largest element.
    ArgMax,
    /// The index of the smallest element.
    ArgMin,
    /// ln of the sum of the exponentials.
    LogSumExp,
    /// Whether any element is not zero.
    Any,
    /// Whether no element is zero.
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

    /// Returns the name of the reduction.
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

impl Tensor {
    /// Reduces axes; an empty list stands for all axes. The rules are in [`Reduction`]'s module.
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
    /// [`Error::Axis`] or [`Error::RepeatedAxis`] for axes out of range, [`Error::DType`] if the
    /// reduction is not defined for the type, [`Error::Argument`] for the largest or smallest of no
    /// elements, [`Error::TooLarge`] for indices past 32 bits, [`Error::Memory`] if memory is
    /// exhausted.
    pub fn reduce(&self, reduction: Reduction, axes: &[isize], dims: Dims) -> Result<Self> {
        if is_recorded([self]) {
            return autograd::reduce(self, reduction, axes, dims);
        }
        let op = reduction.name();
        let axes = layout::axes(op, axes, self.rank())?;
        let (dtype, kind) = (self.dtype(), self.dtype().kind());
        let needed = |expected| Error::DType { op, dtype, expected };
        let distinct = Distinct::of(self, &axes, dims);
        let x = &distinct.view;
        let simple = |reducer| distinct.fold(op, x, &reducer);
        let result = match reduction {
            _ if kind == Kind::Bool && !matches!(reduction, Reduction::Any | Reduction::All) => {
                return Err(needed("numbers"));
            }
            Reduction::Mean | Reduction::LogSumExp if kind != Kind::Float => {
                return Err(needed("floats"));
            }
            Reduction::Sum => in_type(distinct.repeat_sum(simple(Reducer::Sum)?)?, dtype)?,
            Reduction::Prod => in_type(distinct.repeat_product(simple(Reducer::Prod)?)?, dtype)?,
            Reduction::Max => simple(Reducer::Max)?.cast(dtype)?,
            Reduction::Min => simple(Reducer::Min)?.cast(dtype)?,
            Reduction::ArgMax | Reduction::ArgMin => {
                layout::check_axis_length(self.count_along(&axes)?)?;
                let is_largest = reduction == Reduction::ArgMax;
                let indices = simple(if is_largest { Reducer::ArgMax } else { Reducer::ArgMin })?;
                distinct.repeat_indices(indices)?
            }
            // Copies change no mean.
            Reduction::Mean => {
                let count = x.count_along(&axes)?;
                simple(Reducer::Sum)?.div(count as f64)?.cast(dtype)?
            }
            Reduction::LogSumExp => distinct.log_sum_exp()?.cast(dtype)?,
            // For an empty set the largest is 0, and the smallest 1.
            Reduction::Any | Reduction::All => {
                let truth = x.truth()?.cast(DType::I32)?;
                let is_any = reduction == Reduction::Any;
                if x.count_along(&axes)? == 0 {
                    Self::full(&distinct.shape(), !is_any, DType::Bool, &self.device())?
                } else {
                    let reducer = if is_any { Reducer::Max } else { Reducer::Min };
                    distinct.fold(op, &truth, &reducer)?.cast(DType::Bool)?
                }
            }
        };
        Ok(report(op, distinct.restore(result)?))
    }

    /// Returns whether each element is not zero.
    fn truth(&self) -> Result<Self> {
        self.cast(DType::Bool)
    }

    /// Returns the mean squared distance from the mean along axes, over the number of elements less
    /// `correction`.
    ///
    /// # Errors
    /// As [`Self::mean`].
    pub fn var<'a>(&self, axes: impl Into<Axes<'a>>, correction: f64) -> Result<Self> {
        self.variance(&axes.into(), correction, Dims::Drop)
    }

    /// Like [`Self::var`], and keeps the reduced axes with size 1.
    ///
    /// # Errors
    /// As [`Self::mean`].
    pub fn var_keepdim<'a>(&self, axes: impl Into<Axes<'a>>, correction: f64) -> Result<Self> {
        self.variance(&axes.into(), correction, Dims::Keep)
    }

    /// Like [`Self::var`], over every element.
    ///
    /// # Errors
    /// As [`Self::mean`].
    pub fn var_all(&self, correction: f64) -> Result<Self> {
        self.variance(&[], correction, Dims::Drop)
    }

    fn variance(&self, axes: &[isize], correction: f64, dims: Dims) -> Result<Self> {
        const OP: &str = "var";
        if is_recorded([self]) {
            return autograd::variance(self, axes, correction, dims);
        }
        let dtype = self.dtype();
        if !dtype.is_float() {
            return Err(Error::DType { op: OP, dtype, expected: "floats" });
        }
        let indices = layout::axes(OP, axes, self.rank())?;
        let distinct = Distinct::of(self, &indices, dims);
        let (count, own_count) =
            (self.count_along(&indices)? as f64, distinct.view.count_along(&indices)? as f64);
        let wide = distinct.view.cast(dtype.computed())?;
        let mean = fold(OP, &wide, &indices, Dims::Keep, &Reducer::Sum)?.div(own_count)?;
        let squares = distinct.fold(OP, &wide.sub(&mean)?.square()?, &Reducer::Sum)?;
        let freedom = (count - correction).max(0.0) / distinct.repeats as f64;
        let variance = squares.div(freedom)?.cast(dtype)?;
        Ok(report(OP, distinct.restore(variance)?))
    }
}

/// Defines the three methods of each reduction: along axes, along axes that keep size 1, and over
/// every element.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $keepdim:ident $all:ident $variant:ident)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// An empty list of axes stands for all axes.
                ///
                /// # Errors
                /// As [`Self::reduce`].
                pub fn $name<'a>(&self, axes: impl Into<Axes<'a>>) -> Result<Self> {
                    self.reduce(Reduction::$variant, &axes.into(), Dims::Drop)
                }

                #[doc = concat!("Like [`Self::", stringify!($name), "`], and keeps the reduced axes with size 1.")]
                ///
                /// # Errors
                /// As [`Self::reduce`].
                pub fn $keepdim<'a>(&self, axes: impl Into<Axes<'a>>) -> Result<Self> {
                    self.reduce(Reduction::$variant, &axes.into(), Dims::Keep)
                }

                #[doc = concat!("Like [`Self::", stringify!($name), "`], over every element; the result has rank 0.")]
                ///
                /// # Errors
                /// As [`Self::reduce`].
                pub fn $all(&self) -> Result<Self> {
                    self.reduce(Reduction::$variant, &[], Dims::Drop)
                }
            )*
        }
    };
}

reductions! {
    /// Returns the sum along an axis, or along several.
    ///
    /// ```
    /// use aleatron_tensor::{Device, Tensor};
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3], &Device::Cpu)?;
    /// assert_eq!(x.sum(-1)?.to_vec::<f32>()?, [6.0, 15.0]);
    /// assert_eq!(x.sum([0, 1])?.shape(), [0usize; 0]);
    /// assert_eq!(x.sum_keepdim(0)?.shape(), [1, 3]);
    /// assert_eq!(x.sum_all()?.item::<f32>()?, 21.0);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    sum sum_keepdim sum_all Sum
    /// Returns the mean along an axis, or along several.
    mean mean_keepdim mean_all Mean
    /// Returns the product along an axis, or along several.
    prod prod_keepdim prod_all Prod
    /// Returns the largest element along an axis, or along several.
    max max_keepdim max_all Max
    /// Returns the smallest element along an axis, or along several.
    min min_keepdim min_all Min
    /// Returns the index of the largest element along axes, counted in row-major order over them.
    argmax argmax_keepdim argmax_all ArgMax
    /// Returns the index of the smallest element along axes, counted in row-major order over them.
    argmin argmin_keepdim argmin_all ArgMin
    /// Returns ln of the sum of the exponentials, without overflow.
    logsumexp logsumexp_keepdim logsumexp_all LogSumExp
    /// Returns whether an element is not zero.
    any any_keepdim any_all Any
    /// Returns whether no element is zero.
    all all_keepdim all_all All
}

/// Casts floats back to their type; sums of bytes stay 32-bit integers.
fn in_type(x: Tensor, dtype: DType) -> Result<Tensor> {
    if dtype.is_float() { x.cast(dtype) } else { Ok(x) }
}
