//! The operators `+`, `-`, `*`, `/` and unary `-`.
//!
//! # Errors
//!
//! An operator returns a [`Result`], like the method of the same meaning: it fails for shapes that
//! do not broadcast, types that do not combine and tensors of two devices. An argument is a tensor,
//! a reference to one, or a number; a number on the left is an `f64` or an `i64`, which is what
//! literals become. The result of another operator may be combined with a tensor without `?`: its
//! error becomes the error of the whole expression.
//!
//! ```
//! use aleatron_tensor::{Device, Tensor};
//!
//! let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3], &Device::Cpu)?;
//! let y = (2.0 * &x + &x)?; // the same as x.mul(2.0)?.add(&x)?
//! assert_eq!(y.to_vec::<f32>()?, [3.0, 6.0, 9.0]);
//! let z = (&y - (&x / 2.0))?;
//! assert_eq!((-z)?.to_vec::<f32>()?, [-2.5, -5.0, -7.5]);
//! let longer = Tensor::from_slice(&[1.0f32; 4], &[4], &Device::Cpu)?;
//! assert!((2.0 * &x + &longer).is_err());
//! # Ok::<(), aleatron_tensor::Error>(())
//! ```

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::dtype::Scalar;
use crate::error::Result;
use crate::op::{BinaryOp, UnaryOp};
use crate::ops::Operand;
use crate::tensor::Tensor;

mod sealed {
    pub trait Sealed {}
}

/// A right argument of an operator: a tensor, a reference, a number, or the result of another
/// operator.
pub trait Argument: sealed::Sealed {
    /// Applies an operation to a tensor and this argument.
    #[doc(hidden)]
    fn apply(self, op: BinaryOp, left: &Tensor) -> Result<Tensor>;
}

impl sealed::Sealed for Tensor {}
impl Argument for Tensor {
    fn apply(self, op: BinaryOp, left: &Tensor) -> Result<Tensor> {
        Tensor::binary(op, left, &self)
    }
}

impl sealed::Sealed for &Tensor {}
impl Argument for &Tensor {
    fn apply(self, op: BinaryOp, left: &Tensor) -> Result<Tensor> {
        Tensor::binary(op, left, self)
    }
}

impl sealed::Sealed for Result<Tensor> {}
impl Argument for Result<Tensor> {
    fn apply(self, op: BinaryOp, left: &Tensor) -> Result<Tensor> {
        Tensor::binary(op, left, &self?)
    }
}

macro_rules! number {
    ($($type:ty)*) => {$(
        impl sealed::Sealed for $type {}
        impl Argument for $type {
            fn apply(self, op: BinaryOp, left: &Tensor) -> Result<Tensor> {
                Tensor::binary(op, left, Operand::Scalar(Scalar::from(self)))
            }
        }
    )*};
}

number!(u8 i32 i64 half::f16 f32 f64);

macro_rules! operator {
    ($($trait:ident $method:ident)*) => {$(
        impl<R: Argument> $trait<R> for &Tensor {
            type Output = Result<Tensor>;

            fn $method(self, right: R) -> Result<Tensor> {
                right.apply(BinaryOp::$trait, self)
            }
        }

        impl<R: Argument> $trait<R> for Tensor {
            type Output = Result<Tensor>;

            fn $method(self, right: R) -> Result<Tensor> {
                right.apply(BinaryOp::$trait, &self)
            }
        }

        impl $trait<&Tensor> for Result<Tensor> {
            type Output = Result<Tensor>;

            fn $method(self, right: &Tensor) -> Result<Tensor> {
                Tensor::binary(BinaryOp::$trait, &self?, right)
            }
        }

        impl $trait<Tensor> for Result<Tensor> {
            type Output = Result<Tensor>;

            fn $method(self, right: Tensor) -> Result<Tensor> {
                Tensor::binary(BinaryOp::$trait, &self?, &right)
            }
        }

        operator!(@left $trait $method f64 i64);
    )*};
    // Two types only: with a second one of either kind, the type of a literal would be ambiguous.
    (@left $trait:ident $method:ident $($type:ty)*) => {$(
        impl $trait<&Tensor> for $type {
            type Output = Result<Tensor>;

            fn $method(self, right: &Tensor) -> Result<Tensor> {
                Tensor::binary(BinaryOp::$trait, self, right)
            }
        }

        impl $trait<Tensor> for $type {
            type Output = Result<Tensor>;

            fn $method(self, right: Tensor) -> Result<Tensor> {
                Tensor::binary(BinaryOp::$trait, self, &right)
            }
        }
    )*};
}

operator!(Add add Sub sub Mul mul Div div);

impl Neg for &Tensor {
    type Output = Result<Tensor>;

    fn neg(self) -> Result<Tensor> {
        self.unary(UnaryOp::Neg)
    }
}

impl Neg for Tensor {
    type Output = Result<Tensor>;

    fn neg(self) -> Result<Tensor> {
        self.unary(UnaryOp::Neg)
    }
}
