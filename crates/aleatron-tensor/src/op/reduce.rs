//! Reductions of many values to one.

use crate::dtype::{DType, Kind, Scalar};

/// The operation that a kernel reduces axes with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Reducer {
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The largest element; NaN if there is a NaN.
    Max,
    /// The smallest element; NaN if there is a NaN.
    Min,
    /// The index of the largest element, the first of equal ones; NaN counts as the largest.
    ArgMax,
    /// The index of the smallest element, the first of equal ones; NaN counts as the smallest.
    ArgMin,
    /// A user-defined operation on 32-bit floats.
    Custom {
        /// The combination of `a` and `b`, in WGSL.
        wgsl: String,
        /// The bits of the neutral element.
        identity: u32,
    },
}

impl Reducer {
    /// Returns the type of the computation for elements of a type.
    pub(crate) fn computed_in(dtype: DType) -> DType {
        match dtype {
            DType::F64 => DType::F64,
            DType::F16 | DType::F32 => DType::F32,
            DType::Bool | DType::U8 | DType::I32 => DType::I32,
            DType::I64 => DType::I64,
        }
    }

    /// Returns the type of the result for elements of the type of the computation.
    pub(crate) fn result(&self, dtype: DType) -> DType {
        match self {
            Self::ArgMax | Self::ArgMin => DType::I32,
            _ => dtype,
        }
    }

    /// Returns the result for no elements, if it is defined.
    pub(crate) fn of_no_elements(&self, dtype: DType) -> Option<Scalar> {
        let number = |value: i64| match dtype.kind() {
            Kind::Float => Scalar::Float(value as f64),
            _ => Scalar::Int(value),
        };
        match self {
            Self::Sum => Some(number(0)),
            Self::Prod => Some(number(1)),
            Self::Custom { identity, .. } => Some(Scalar::Float(f32::from_bits(*identity).into())),
            Self::Max | Self::Min | Self::ArgMax | Self::ArgMin => None,
        }
    }
}
