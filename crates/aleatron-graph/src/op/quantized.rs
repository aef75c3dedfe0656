//! The integer types that quantization results in.

use aleatron_tensor::DType;

use crate::narrow::Narrow;

/// An integer type that quantization results in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantized {
    /// Signed 8-bit integers.
    Int8,
    /// Unsigned 8-bit integers.
    UInt8,
    /// Signed 16-bit integers.
    Int16,
    /// Unsigned 16-bit integers.
    UInt16,
}

impl Quantized {
    /// Returns the type that a narrow type is, if quantization can result in it.
    pub(crate) const fn of(narrow: Narrow) -> Option<Self> {
        match narrow {
            Narrow::Int8 => Some(Self::Int8),
            Narrow::Int16 => Some(Self::Int16),
            Narrow::UInt16 => Some(Self::UInt16),
            Narrow::UInt32 | Narrow::UInt64 => None,
        }
    }

    /// Returns the smallest and the largest value.
    pub(crate) const fn range(self) -> (i32, i32) {
        match self {
            Self::Int8 => (i8::MIN as i32, i8::MAX as i32),
            Self::UInt8 => (0, u8::MAX as i32),
            Self::Int16 => (i16::MIN as i32, i16::MAX as i32),
            Self::UInt16 => (0, u16::MAX as i32),
        }
    }

    /// Returns the type of tensors that holds it.
    #[must_use]
    pub const fn dtype(self) -> DType {
        match self {
            Self::UInt8 => DType::U8,
            Self::Int8 | Self::Int16 | Self::UInt16 => DType::I32,
        }
    }
}
