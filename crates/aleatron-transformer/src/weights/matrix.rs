//! Matrices of weights: rows of one precision, padded to whole vectors.

use aleatron_core::{Quantity, memory};
use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::config::Precision;
use crate::error::Result;

/// The elements of a matrix, row by row.
#[derive(Debug, Clone)]
pub enum MatrixData {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 16-bit floats.
    F16(Vec<f16>),
    /// Integers from -127 to 127, and the factor of each row.
    Int8(Vec<i8>, Vec<f32>),
}

/// A matrix. Rows are padded with zeros to a multiple of [`Self::PADDING`] elements.
#[derive(Debug, Clone)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    data: MatrixData,
}

impl Matrix {
    /// The divisor of the row length: 16 bytes of the smallest element.
    pub const PADDING: usize = 16;

    /// Creates a matrix of zeros.
    ///
    /// # Errors
    /// [`aleatron_core::Error::Memory`] if it does not fit into memory.
    pub fn new(rows: usize, columns: usize, precision: Precision) -> Result<Self> {
        let len = rows as u128 * columns.next_multiple_of(Self::PADDING) as u128;
        let data = match precision {
            Precision::F32 => MatrixData::F32(memory::zeros(len, Quantity::Weights)?),
            Precision::F16 => MatrixData::F16(memory::zeros(len, Quantity::Weights)?),
            Precision::Int8 => MatrixData::Int8(
                memory::zeros(len, Quantity::Weights)?,
                memory::zeros(rows as u128, Quantity::Weights)?,
            ),
        };
        Ok(Self { rows, columns, data })
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns, without padding.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of elements of a row, padding included.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.columns.next_multiple_of(Self::PADDING)
    }

    /// Returns the elements.
    #[must_use]
    pub fn data(&self) -> &MatrixData {
        &self.data
    }

    /// Returns the size of the elements in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.data {
            MatrixData::F32(data) => data.len() * 4,
            MatrixData::F16(data) => data.len() * 2,
            MatrixData::Int8(data, scales) => data.len() + scales.len() * 4,
        }
    }

    /// Sets a row; the error is a number that the precision cannot represent.
    pub(crate) fn set_row(&mut self, row: usize, values: &[f32]) -> Result<(), f32> {
        let (start, columns) = (row * self.stride(), self.columns);
        match &mut self.data {
            MatrixData::F32(data) => data[start..start + columns].copy_from_slice(values),
            MatrixData::F16(data) => {
                let target = &mut data[start..start + columns];
                target.convert_from_f32_slice(values);
                if let Some(at) = target.iter().position(|x| x.is_infinite()) {
                    return Err(values[at]);
                }
            }
            MatrixData::Int8(data, scales) => {
                let largest = values.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                if let Some(bad) = values.iter().find(|x| !x.is_finite()) {
                    return Err(*bad);
                }
                let scale = largest / 127.0;
                scales[row] = scale;
                if scale > 0.0 {
                    for (x, value) in data[start..].iter_mut().zip(values) {
                        *x = (value / scale).round().clamp(-127.0, 127.0) as i8;
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies a row as 32-bit floats, without padding.
    pub(crate) fn row(&self, row: usize, out: &mut [f32]) {
        let start = row * self.stride();
        match &self.data {
            MatrixData::F32(data) => out.copy_from_slice(&data[start..start + self.columns]),
            MatrixData::F16(data) => data[start..start + self.columns].convert_to_f32_slice(out),
            MatrixData::Int8(data, scales) => {
                out.iter_mut()
                    .zip(&data[start..])
                    .for_each(|(x, value)| *x = f32::from(*value) * scales[row]);
            }
        }
    }
}
