//! Reductions: what one value is made of many by.

use crate::dtype::{DType, Kind, Scalar};

/// What a kernel folds the elements of some axes with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Reducer {
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The largest; NaN where there is one.
    Max,
    /// The smallest; NaN where there is one.
    Min,
    /// The place of the largest, the first of equal ones; NaN counts as the largest.
    ArgMax,
    /// The place of the smallest, the first of equal ones; NaN counts as the smallest.
    ArgMin,
    /// A user's own, of 32-bit floats.
    Custom {
        /// The combination of `a` and `b`, in WGSL.
        wgsl: String,
        /// The bits of what changes nothing.
        identity: u32,
    },
}

impl Reducer {
    /// Returns the type it is computed in, for elements of a type.
    pub(crate) fn computed_in(dtype: DType) -> DType {
        match dtype {
            DType::F64 => DType::F64,
            DType::F16 | DType::F32 => DType::F32,
            DType::Bool | DType::U8 | DType::I32 => DType::I32,
            DType::I64 => DType::I64,
        }
    }

    /// Returns the type of the result, for elements it is computed in.
    pub(crate) fn result(&self, dtype: DType) -> DType {
        match self {
            Self::ArgMax | Self::ArgMin => DType::I32,
            _ => dtype,
        }
    }

    /// Returns the value of no elements, where there is one.
    pub(crate) fn of_nothing(&self, dtype: DType) -> Option<Scalar> {
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
