//! Norms of matrices.

use faer::MatRef;

use super::matrix::{Float, Matrices, Output, by_type, scaled};
use crate::dtype::DType;
use crate::error::{Error, MatrixFault, Result};
use crate::tensor::Tensor;
use crate::trace::report;

const OP: &str = "matrix_norm";

/// A norm of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MatrixNorm {
    /// The root of the sum of the squares of the elements.
    Frobenius,
    /// The largest sum of the magnitudes of a column.
    One,
    /// The largest sum of the magnitudes of a row.
    Infinity,
    /// The largest singular value.
    Spectral,
    /// The sum of the singular values.
    Nuclear,
}

impl Tensor {
    /// Returns norms of matrices.
    ///
    /// ```
    /// use aleatron_tensor::{Device, Tensor, linalg::MatrixNorm};
    /// let x = Tensor::from_slice(&[3.0f64, 0.0, 0.0, 4.0], &[2, 2], &Device::Cpu)?;
    /// assert_eq!(x.matrix_norm(MatrixNorm::Frobenius)?.item::<f64>()?, 5.0);
    /// assert_eq!(x.matrix_norm(MatrixNorm::Nuclear)?.item::<f64>()?, 7.0);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::svd`].
    pub fn matrix_norm(&self, norm: MatrixNorm) -> Result<Self> {
        by_type!(OP, self, norms(self, norm))
    }
}

fn norms<T: Float>(x: &Tensor, norm: MatrixNorm) -> Result<Tensor> {
    let matrices = Matrices::<T>::new(OP, x)?.normalized();
    let mut norms = Output::new(&matrices, &[])?;
    for (index, matrix, exponent) in matrices.iter() {
        let value = match norm {
            MatrixNorm::Frobenius => frobenius(matrix),
            MatrixNorm::One => largest_sum(matrix.transpose()),
            MatrixNorm::Infinity => largest_sum(matrix),
            MatrixNorm::Spectral => singular_values(matrix, index)?.into_iter().fold(0.0, f64::max),
            MatrixNorm::Nuclear => singular_values(matrix, index)?.into_iter().sum(),
        };
        norms.push_value(scaled(value, exponent));
    }
    Ok(report(OP, norms.finish()?))
}

fn magnitudes<T: Float>(matrix: MatRef<'_, T>, row: usize) -> impl Iterator<Item = f64> {
    (0..matrix.ncols()).map(move |column| {
        let value: f64 = matrix[(row, column)].into();
        value.abs()
    })
}

fn frobenius<T: Float>(matrix: MatRef<'_, T>) -> f64 {
    let all = (0..matrix.nrows()).flat_map(|row| magnitudes(matrix, row));
    all.map(|value| value * value).sum::<f64>().sqrt()
}

fn largest_sum<T: Float>(matrix: MatRef<'_, T>) -> f64 {
    (0..matrix.nrows()).map(|row| magnitudes(matrix, row).sum()).fold(0.0, f64::max)
}

fn singular_values<T: Float>(matrix: MatRef<'_, T>, index: usize) -> Result<Vec<f64>> {
    let fault = MatrixFault::NoConvergence;
    let values = matrix.singular_values().map_err(|_| Error::Matrix { op: OP, index, fault })?;
    Ok(values.into_iter().map(Into::into).collect())
}
