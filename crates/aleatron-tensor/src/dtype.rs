//! Element types, their promotion, and conversions of Rust values to elements.
//!
//! Two tensors can be combined if their types are of one kind: booleans with booleans, integers
//! with integers, floats with floats. The result has the wider of the two types
//! ([`DType::promote`]). A number combined with a tensor takes the type of the tensor, if it is
//! representable ([`Scalar::to_dtype`]).

use std::fmt;

use bytemuck::Pod;
use half::f16;

use crate::error::{Error, Result};

/// The type of the elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DType {
    /// True or false, a byte each.
    Bool,
    /// Unsigned 8-bit integers.
    U8,
    /// Signed 32-bit integers.
    I32,
    /// Signed 64-bit integers, which not every GPU supports.
    I64,
    /// 16-bit floats. Operations compute in 32 bits and round to the nearest 16-bit float, ties to
    /// even.
    F16,
    /// 32-bit floats.
    F32,
    /// 64-bit floats, on the CPU.
    F64,
}

/// The kind of the numbers of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// True or false.
    Bool,
    /// Integers, which wrap on overflow.
    Integer,
    /// Floats.
    Float,
}

impl DType {
    /// Every type.
    pub const ALL: [Self; 7] =
        [Self::Bool, Self::U8, Self::I32, Self::I64, Self::F16, Self::F32, Self::F64];

    /// Returns the size of an element in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 => 1,
            Self::F16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// Returns the kind of the numbers of this type.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Bool => Kind::Bool,
            Self::U8 | Self::I32 | Self::I64 => Kind::Integer,
            Self::F16 | Self::F32 | Self::F64 => Kind::Float,
        }
    }

    /// Returns the type that floats of this type are computed in: 64-bit floats in 64 bits, others
    /// in 32.
    #[must_use]
    pub(crate) const fn computed(self) -> Self {
        match self {
            Self::F64 => Self::F64,
            _ => Self::F32,
        }
    }

    /// Returns whether this is a type of floats.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    /// Returns the type of the combination of two types: the wider one of two of one kind. `None`
    /// for two of different kinds, which do not combine without a cast.
    ///
    /// ```
    /// use aleatron_tensor::DType;
    /// assert_eq!(DType::F16.promote(DType::F32), Some(DType::F32));
    /// assert_eq!(DType::U8.promote(DType::I32), Some(DType::I32));
    /// assert_eq!(DType::I32.promote(DType::F32), None);
    /// ```
    #[must_use]
    pub fn promote(self, other: Self) -> Option<Self> {
        // In order of declaration, each type of a kind holds all values of those before it.
        (self.kind() == other.kind()).then(|| self.max(other))
    }

    /// Returns the name of the type.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type of elements.
pub trait Element: Copy + PartialEq + fmt::Debug + Send + Sync + sealed::Sealed + 'static {
    /// The stored form: the type itself, or a byte for `bool`.
    type Stored: Pod + PartialEq + Send + Sync;

    /// The element type of a tensor of this type.
    const DTYPE: DType;

    /// Converts a value to its stored form.
    fn to_stored(self) -> Self::Stored;

    /// Converts a stored value back.
    fn from_stored(stored: Self::Stored) -> Self;
}

macro_rules! element {
    ($type:ty, $dtype:ident) => {
        impl sealed::Sealed for $type {}
        impl Element for $type {
            type Stored = $type;
            const DTYPE: DType = DType::$dtype;
            fn to_stored(self) -> $type {
                self
            }
            fn from_stored(stored: $type) -> $type {
                stored
            }
        }
    };
}

element!(f64, F64);
element!(f32, F32);
element!(f16, F16);
element!(i32, I32);
element!(i64, I64);
element!(u8, U8);

impl sealed::Sealed for bool {}
impl Element for bool {
    type Stored = u8;
    const DTYPE: DType = DType::Bool;
    fn to_stored(self) -> u8 {
        self.into()
    }
    fn from_stored(stored: u8) -> bool {
        stored != 0
    }
}

/// A number without a fixed type, which takes the type of the tensor it is combined with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
}

impl Scalar {
    /// Returns the kind of the number.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Bool(_) => Kind::Bool,
            Self::Int(_) => Kind::Integer,
            Self::Float(_) => Kind::Float,
        }
    }

    /// Returns the number as an element. A float is rounded to the nearest one of the type, an
    /// integer may become a float; nothing else changes its kind.
    ///
    /// # Errors
    /// [`Error::Scalar`] for a number of another kind or an integer that the type cannot hold.
    pub fn to_dtype(self, dtype: DType) -> Result<Constant> {
        let refused = || Error::Scalar { value: self, dtype };
        let integer = |value: i64, fits: bool| if fits { Ok(value) } else { Err(refused()) };
        Ok(match (self, dtype) {
            (Self::Bool(value), DType::Bool) => Constant { dtype, bits: value.into() },
            (Self::Int(value), DType::U8) => {
                Constant { dtype, bits: integer(value, u8::try_from(value).is_ok())? as u64 }
            }
            (Self::Int(value), DType::I32) => Constant {
                dtype,
                bits: integer(value, i32::try_from(value).is_ok())? as u32 as u64,
            },
            (Self::Int(value), DType::I64) => Constant { dtype, bits: value as u64 },
            (Self::Int(value), DType::F64) => Constant::double(value as f64),
            (Self::Float(value), DType::F64) => Constant::double(value),
            (Self::Int(value), DType::F32) => Constant::float(value as f32, dtype),
            (Self::Int(value), DType::F16) => {
                Constant::float(f16::from_f64(value as f64).to_f32(), dtype)
            }
            (Self::Float(value), DType::F32) => Constant::float(value as f32, dtype),
            (Self::Float(value), DType::F16) => {
                Constant::float(f16::from_f64(value).to_f32(), dtype)
            }
            _ => return Err(refused()),
        })
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => fmt::Debug::fmt(value, f),
        }
    }
}

macro_rules! scalar {
    ($type:ty, $variant:ident) => {
        impl From<$type> for Scalar {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    };
}

scalar!(bool, Bool);
scalar!(u8, Int);
scalar!(i32, Int);
scalar!(i64, Int);
scalar!(f16, Float);
scalar!(f32, Float);
scalar!(f64, Float);

/// A number of a type: a [`Scalar`] converted to the type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Constant {
    dtype: DType,
    /// The bits of an `f64` for 64-bit floats, of an `f32` for other floats, of an integer
    /// otherwise; what is above them is zero.
    bits: u64,
}

impl Constant {
    pub(crate) fn float(value: f32, dtype: DType) -> Self {
        Self { dtype, bits: value.to_bits().into() }
    }

    pub(crate) fn double(value: f64) -> Self {
        Self { dtype: DType::F64, bits: value.to_bits() }
    }

    /// Returns the type of the constant.
    #[must_use]
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// Returns the value of a 64-bit float.
    pub(crate) fn as_f64(self) -> f64 {
        f64::from_bits(self.bits)
    }

    /// Returns the value of a float.
    pub(crate) fn as_f32(self) -> f32 {
        f32::from_bits(self.bits as u32)
    }

    /// Returns the value of an integer or a boolean.
    pub(crate) fn as_i64(self) -> i64 {
        match self.dtype {
            DType::I32 => (self.bits as u32 as i32).into(),
            _ => self.bits as i64,
        }
    }

    pub(crate) fn bits(self) -> u64 {
        self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_one_kind_promote_to_the_wider_one() {
        use DType::{Bool, F16, F32, I32, I64, U8};
        for a in DType::ALL {
            assert_eq!(a.promote(a), Some(a));
            for b in DType::ALL {
                assert_eq!(a.promote(b), b.promote(a));
                assert_eq!(a.promote(b).is_some(), a.kind() == b.kind(), "{a} {b}");
            }
        }
        assert_eq!(U8.promote(I64), Some(I64));
        assert_eq!(I32.promote(U8), Some(I32));
        assert_eq!(F32.promote(F16), Some(F32));
        assert_eq!(Bool.promote(U8), None);
    }

    #[test]
    fn scalars_convert_to_types_that_represent_them() {
        let value = |scalar: Scalar, dtype| scalar.to_dtype(dtype).map(Constant::as_i64);
        assert_eq!(value(Scalar::Int(255), DType::U8), Ok(255));
        assert_eq!(value(Scalar::Int(-5), DType::I32), Ok(-5));
        assert_eq!(value(Scalar::Int(i64::MIN), DType::I64), Ok(i64::MIN));
        for (scalar, dtype) in [
            (Scalar::Int(256), DType::U8),
            (Scalar::Int(-1), DType::U8),
            (Scalar::Int(1 << 31), DType::I32),
            (Scalar::Float(1.0), DType::I32),
            (Scalar::Bool(true), DType::F32),
            (Scalar::Int(1), DType::Bool),
        ] {
            assert_eq!(scalar.to_dtype(dtype), Err(Error::Scalar { value: scalar, dtype }));
        }
        let float = |scalar: Scalar, dtype| scalar.to_dtype(dtype).map(Constant::as_f32);
        assert_eq!(float(Scalar::Float(0.1), DType::F32), Ok(0.1));
        assert_eq!(float(Scalar::Float(1e6), DType::F16), Ok(f32::INFINITY));
        assert_eq!(float(Scalar::Int(3), DType::F16), Ok(3.0));
    }
}
