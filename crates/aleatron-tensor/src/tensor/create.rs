//! Creation of tensors.

use bytemuck::Pod;

use super::Tensor;
use crate::cpu::filled;
use crate::device::{Device, check_dtype};
use crate::dtype::{DType, Element, Kind, Scalar};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::gpu::GpuStorage;
use crate::layout::{Layout, elements};
use crate::storage::CpuStorage;
use crate::trace::report;

impl Tensor {
    /// Creates a tensor with these elements in row-major order.
    ///
    /// # Errors
    /// [`Error::Elements`] if the number of elements does not match the shape, [`Error::Memory`] or
    /// `Error::Device` if memory is exhausted.
    pub fn from_slice<T: Element>(data: &[T], shape: &[usize], device: &Device) -> Result<Self> {
        check_len(shape, data.len())?;
        let storage = filled(T::DTYPE, data.len(), |buffer| {
            for (stored, value) in buffer.slice_mut::<T::Stored>()?.iter_mut().zip(data) {
                *stored = value.to_stored();
            }
            Ok(())
        })?;
        Self::from_cpu(storage, shape)?.to_device(device)
    }

    /// Like [`Self::from_slice`], without a copy if the tensor stays on the host and its elements
    /// are stored unchanged.
    ///
    /// # Errors
    /// As [`Self::from_slice`].
    pub fn from_vec<T: Element>(data: Vec<T>, shape: &[usize], device: &Device) -> Result<Self>
    where
        Vec<T>: crate::storage::HostMemory + 'static,
    {
        check_len(shape, data.len())?;
        let storage = CpuStorage::foreign(T::DTYPE, Box::new(data))?;
        Self::from_cpu(storage, shape)?.to_device(device)
    }

    /// Creates a tensor of one value.
    ///
    /// # Errors
    /// [`Error::Scalar`] if the type cannot hold it, [`Error::Memory`] or `Error::Device` if memory
    /// is exhausted.
    pub fn full(
        shape: &[usize],
        value: impl Into<Scalar>,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let constant = value.into().to_dtype(dtype)?;
        let len = elements(shape)?;
        let tensor = match device {
            Device::Cpu => {
                let storage = crate::cpu::elementwise::evaluate(&Expr::constant(constant), len)?;
                Self::from_cpu(storage, shape)?
            }
            // Computed on demand, and never stored if it is part of a fused expression.
            Device::Gpu(gpu) => {
                check_dtype(gpu, dtype)?;
                Self::from_gpu(GpuStorage::pending(gpu, Expr::constant(constant), shape)?, shape)?
            }
        };
        Ok(report("full", tensor))
    }

    /// Creates a tensor of zeros, which are false for booleans.
    ///
    /// # Errors
    /// As [`Self::full`].
    pub fn zeros(shape: &[usize], dtype: DType, device: &Device) -> Result<Self> {
        Self::full(shape, small(0, dtype), dtype, device)
    }

    /// Creates a tensor of ones, which are true for booleans.
    ///
    /// # Errors
    /// As [`Self::full`].
    pub fn ones(shape: &[usize], dtype: DType, device: &Device) -> Result<Self> {
        Self::full(shape, small(1, dtype), dtype, device)
    }

    /// Returns the numbers from `start` on in steps of `step`, up to but excluding `end`. Floats
    /// are start + i step, computed in 64 bits.
    ///
    /// ```
    /// use aleatron_tensor::{DType, Device, Tensor};
    /// let x = Tensor::arange(1, 10, 3, DType::I32, &Device::Cpu)?;
    /// assert_eq!(x.to_vec::<i32>()?, [1, 4, 7]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] for a step of 0 or numbers that are not finite, [`Error::Scalar`] for
    /// one that the type cannot hold, [`Error::Memory`] if memory is exhausted.
    pub fn arange(
        start: impl Into<Scalar>,
        end: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        const OP: &str = "arange";
        let (start, end, step) = (start.into(), end.into(), step.into());
        if dtype.kind() == Kind::Bool {
            return Err(Error::DType { op: OP, dtype, expected: "numbers" });
        }
        let storage = if dtype.is_float() {
            let [from, to, by] = [float(start, dtype)?, float(end, dtype)?, float(step, dtype)?];
            if by == 0.0 || !(from.is_finite() && to.is_finite() && by.is_finite()) {
                return Err(Error::argument(
                    OP,
                    "range",
                    (from, to, by),
                    "it must be finite, with a step that is not 0",
                ));
            }
            let n = ((to - from) / by).ceil().max(0.0);
            let len = count(n)?;
            let value = |i: usize| from + i as f64 * by;
            match dtype {
                DType::F16 => generate(len, |i| half::f16::from_f64(value(i)))?,
                DType::F64 => generate(len, value)?,
                _ => generate(len, |i| value(i) as f32)?,
            }
        } else {
            let [from, to, by] =
                [integer(start, dtype)?, integer(end, dtype)?, integer(step, dtype)?];
            if by == 0 {
                return Err(Error::argument(OP, "step", by, "it must not be 0"));
            }
            let span = to - from;
            let n = if (span > 0) == (by > 0) {
                span.unsigned_abs().div_ceil(by.unsigned_abs())
            } else {
                0
            };
            let len = count(n as f64)?;
            let value = |i: usize| from + i as i128 * by;
            // Between the start and the end, which 64 bits hold.
            for end in [0, len.saturating_sub(1)].into_iter().take(len) {
                Scalar::Int(value(end) as i64).to_dtype(dtype)?;
            }
            match dtype {
                DType::U8 => generate(len, |i| value(i) as u8)?,
                DType::I32 => generate(len, |i| value(i) as i32)?,
                _ => generate(len, |i| value(i) as i64)?,
            }
        };
        let len = storage.len();
        Self::from_cpu(storage, &[len])?.to_device(device).map(|tensor| report(OP, tensor))
    }
}

fn check_len(shape: &[usize], actual: usize) -> Result<()> {
    let expected = elements(shape)?;
    if expected == actual {
        return Ok(());
    }
    Err(Error::Elements { shape: shape.to_vec(), expected: expected as u128, actual })
}

/// Returns 0 or 1 in the kind of a type.
pub(crate) fn small(value: u8, dtype: DType) -> Scalar {
    match dtype.kind() {
        Kind::Bool => Scalar::Bool(value != 0),
        Kind::Integer => Scalar::Int(value.into()),
        Kind::Float => Scalar::Float(value.into()),
    }
}

fn float(value: Scalar, dtype: DType) -> Result<f64> {
    match value {
        Scalar::Float(value) => Ok(value),
        Scalar::Int(value) => Ok(value as f64),
        Scalar::Bool(_) => Err(Error::Scalar { value, dtype }),
    }
}

fn integer(value: Scalar, dtype: DType) -> Result<i128> {
    // One past the largest number is a valid end.
    match value {
        Scalar::Int(value) => Ok(value.into()),
        _ => Err(Error::Scalar { value, dtype }),
    }
}

/// Converts a computed number of elements.
fn count(n: f64) -> Result<usize> {
    // Past 2^53 the number is not exact, but there is no memory for so many either.
    if n < 9e15 {
        return Ok(n as usize);
    }
    Err(Error::TooLarge { what: crate::error::Limit::Elements, actual: n as u128, limit: 1 << 53 })
}

fn generate<T: Element<Stored = T> + Pod>(
    len: usize,
    value: impl Fn(usize) -> T + Sync,
) -> Result<CpuStorage> {
    filled(T::DTYPE, len, |buffer| {
        crate::cpu::parallel::for_each_chunk(
            buffer.slice_mut::<T>()?,
            1 << 16,
            1.0,
            |start, chunk| {
                for (i, element) in chunk.iter_mut().enumerate() {
                    *element = value(start + i);
                }
                Ok(())
            },
        )
    })
}

/// Returns a contiguous layout of a shape that was checked.
pub(super) fn contiguous(shape: &[usize]) -> Result<Layout> {
    Layout::contiguous(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stay_inside_their_type() {
        let range =
            |from: i64, to: i64, by: i64, dtype| Tensor::arange(from, to, by, dtype, &Device::Cpu);
        let outside = |value: i64, dtype| Some(Error::Scalar { value: Scalar::Int(value), dtype });
        assert_eq!(range(0, 257, 1, DType::U8).err(), outside(256, DType::U8));
        assert_eq!(range(-1, 3, 1, DType::U8).err(), outside(-1, DType::U8));
        assert_eq!(range(5, -4, -3, DType::U8).err(), outside(-1, DType::U8));
        assert_eq!(
            range(1 << 31, (1 << 31) + 1, 1, DType::I32).err(),
            outside(1 << 31, DType::I32)
        );
        // The end is not an element, and an empty range has no elements.
        assert_eq!(range(254, 256, 1, DType::U8).unwrap().to_vec::<u8>().unwrap(), [254, 255]);
        assert_eq!(range(300, 0, 1, DType::U8).unwrap().shape(), [0]);
        let last =
            range(i64::MIN, i64::MAX, i64::MAX, DType::I64).unwrap().to_vec::<i64>().unwrap();
        assert_eq!(last, [i64::MIN, -1, i64::MAX - 1]);
    }
}
