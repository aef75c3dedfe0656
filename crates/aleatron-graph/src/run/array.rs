//! Arrays on the host, for operators that tensors do not support.

use aleatron_core::{Quantity, memory};
use aleatron_tensor::{DType, Device, Element, Tensor};
use half::f16;

use super::inputs::floats;
use crate::error::{Error, Result};

/// The elements of a tensor in row-major order.
#[derive(Debug, Clone)]
pub(crate) struct Array<T> {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<T>,
}

impl<T: Element> Array<T> {
    /// Reads a tensor of this type.
    pub(crate) fn read(tensor: &Tensor) -> Result<Self> {
        Ok(Self { shape: tensor.shape().to_vec(), data: tensor.to_vec::<T>()? })
    }

    /// Converts the array to a tensor on the host.
    pub(crate) fn tensor(&self) -> Result<Tensor> {
        Ok(Tensor::from_slice(&self.data, &self.shape, &Device::Cpu)?)
    }

    /// Creates an array of one value.
    pub(crate) fn full(shape: &[usize], value: T) -> Result<Self> {
        let mut data = allocate(shape)?;
        data.resize(len(shape)?, value);
        Ok(Self { shape: shape.to_vec(), data })
    }
}

impl Array<f32> {
    /// Reads a tensor of floats.
    pub(crate) fn floats(tensor: &Tensor) -> Result<Self> {
        Ok(Self { shape: tensor.shape().to_vec(), data: floats(tensor)? })
    }

    /// Converts the array to a tensor of another type of floats.
    pub(crate) fn tensor_as(&self, dtype: DType) -> Result<Tensor> {
        Ok(self.tensor()?.cast(dtype)?)
    }
}

/// Returns the number of elements of a shape.
pub(crate) fn len(shape: &[usize]) -> Result<usize> {
    let len = shape.iter().try_fold(1_usize, |len, &size| len.checked_mul(size));
    len.ok_or_else(|| Error::model("result", format!("shape {shape:?} is too large")))
}

/// Allocates an empty vector with capacity for the elements of a shape.
pub(crate) fn allocate<T>(shape: &[usize]) -> Result<Vec<T>> {
    Ok(memory::with_capacity(len(shape)? as u128, Quantity::Value)?)
}

/// Returns the strides of a shape in row-major order.
pub(crate) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    strides
}

/// Returns the offset of coordinates.
pub(crate) fn offset(at: &[usize], strides: &[usize]) -> usize {
    at.iter().zip(strides).map(|(a, s)| a * s).sum()
}

/// Calls `f` with every coordinate of a shape, in row-major order.
pub(crate) fn each_coordinate(shape: &[usize], mut f: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut at = vec![0; shape.len()];
    loop {
        f(&at);
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            at[axis] += 1;
            if at[axis] < shape[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
}

/// Numbers, for arithmetic on the host.
pub(crate) trait Number: Element + PartialOrd {
    /// Converts to a 64-bit float.
    fn wide(self) -> f64;
    /// Casts from a 64-bit float.
    fn narrow(value: f64) -> Self;
    /// Returns the wrapping sum.
    fn plus(self, other: Self) -> Self;
    /// Returns the wrapping product.
    fn times(self, other: Self) -> Self;
}

macro_rules! number {
    ($($type:ty)*) => {
        $(impl Number for $type {
            fn wide(self) -> f64 {
                self as f64
            }
            fn narrow(value: f64) -> Self {
                value as Self
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        })*
    };
}

number! { i32 i64 u8 }

impl Number for f32 {
    fn wide(self) -> f64 {
        self.into()
    }
    fn narrow(value: f64) -> Self {
        value as Self
    }
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
}

impl Number for f16 {
    fn wide(self) -> f64 {
        self.to_f64()
    }
    fn narrow(value: f64) -> Self {
        f16::from_f64(value)
    }
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
}

/// An expression for the Rust type of a tensor's elements.
macro_rules! for_dtype {
    ($tensor:expr, $t:ident => $body:expr) => {
        match $tensor.dtype() {
            aleatron_tensor::DType::Bool => {
                type $t = bool;
                $body
            }
            aleatron_tensor::DType::U8 => {
                type $t = u8;
                $body
            }
            aleatron_tensor::DType::I32 => {
                type $t = i32;
                $body
            }
            aleatron_tensor::DType::I64 => {
                type $t = i64;
                $body
            }
            aleatron_tensor::DType::F16 => {
                type $t = half::f16;
                $body
            }
            aleatron_tensor::DType::F32 => {
                type $t = f32;
                $body
            }
            other => Err($crate::Error::input(0, format!("elements of type {other}"))),
        }
    };
}
pub(crate) use for_dtype;

/// As [`for_dtype`], for numbers.
macro_rules! for_number {
    ($tensor:expr, $t:ident => $body:expr) => {
        match $tensor.dtype() {
            aleatron_tensor::DType::U8 => {
                type $t = u8;
                $body
            }
            aleatron_tensor::DType::I32 => {
                type $t = i32;
                $body
            }
            aleatron_tensor::DType::I64 => {
                type $t = i64;
                $body
            }
            aleatron_tensor::DType::F16 => {
                type $t = half::f16;
                $body
            }
            aleatron_tensor::DType::F32 => {
                type $t = f32;
                $body
            }
            other => Err($crate::Error::input(0, format!("numbers are needed, not {other}"))),
        }
    };
}
pub(crate) use for_number;
