//! Integer types of ONNX that tensors hold in a wider type.
//!
//! A value of such a type is a tensor of `i32` or `i64` whose elements all fit the type. The graph
//! knows the type of each of its values; what a node computes is reduced to it, so sums and
//! products wrap as those of the type do.

use std::fmt;

use aleatron_tensor::{DType, Tensor};

use crate::error::{Error, Result};

/// An integer type that tensors hold in a wider one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Narrow {
    /// Signed 8-bit integers.
    Int8,
    /// Signed 16-bit integers.
    Int16,
    /// Unsigned 16-bit integers.
    UInt16,
    /// Unsigned 32-bit integers.
    UInt32,
    /// Unsigned 64-bit integers, of which those below 2^63 can be held.
    UInt64,
}

impl fmt::Display for Narrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Narrow {
    /// Returns the name of the type in ONNX.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::UInt16 => "uint16",
            Self::UInt32 => "uint32",
            Self::UInt64 => "uint64",
        }
    }

    /// Returns the type of tensors that holds it.
    #[must_use]
    pub const fn dtype(self) -> DType {
        match self {
            Self::Int8 | Self::Int16 | Self::UInt16 => DType::I32,
            Self::UInt32 | Self::UInt64 => DType::I64,
        }
    }

    /// Returns the smallest and the largest value.
    pub(crate) const fn range(self) -> (i64, i64) {
        match self {
            Self::Int8 => (i8::MIN as i64, i8::MAX as i64),
            Self::Int16 => (i16::MIN as i64, i16::MAX as i64),
            Self::UInt16 => (0, u16::MAX as i64),
            Self::UInt32 => (0, u32::MAX as i64),
            Self::UInt64 => (0, i64::MAX),
        }
    }

    /// Returns whether a tensor holds the type and all of its elements are values of it.
    pub(crate) fn holds(self, tensor: &Tensor) -> Result<bool> {
        let (low, high) = self.range();
        Ok(match (tensor.dtype() == self.dtype(), tensor.dtype()) {
            (true, DType::I32) => tensor
                .to_vec::<i32>()?
                .iter()
                .all(|&value| (low..=high).contains(&i64::from(value))),
            (true, _) => tensor.to_vec::<i64>()?.iter().all(|value| (low..=high).contains(value)),
            (false, _) => false,
        })
    }

    /// Returns a tensor whose elements are reduced to the type: each keeps its low bits.
    ///
    /// # Errors
    /// [`Error::Model`] for a tensor that does not hold the type, and for a 64-bit element from
    /// 2^63 on.
    pub(crate) fn wrap(self, tensor: &Tensor) -> Result<Tensor> {
        if tensor.dtype() != self.dtype() {
            let reason =
                format!("internal error: {} holds {self}, not {}", self.dtype(), tensor.dtype());
            return Err(Error::model("result", reason));
        }
        let shifted =
            |bits: i64| -> Result<Tensor> { Ok(tensor.shift_left(bits)?.shift_right(bits)?) };
        match self {
            Self::Int8 => shifted(24),
            Self::Int16 => shifted(16),
            Self::UInt16 => Ok(tensor.and(i64::from(u16::MAX))?),
            Self::UInt32 => Ok(tensor.and(i64::from(u32::MAX))?),
            Self::UInt64 if tensor.is_empty() || tensor.min_all()?.item::<i64>()? >= 0 => {
                Ok(tensor.clone())
            }
            Self::UInt64 => {
                let reason = "an element of uint64 is 2^63 or more, which is not supported; cast to int64 before";
                Err(Error::model("result", reason))
            }
        }
    }
}
