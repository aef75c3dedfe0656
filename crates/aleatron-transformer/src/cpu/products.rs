//! Linear products of the CPU pass with an executor or observer.

use aleatron_core::{Quantity, memory};

use super::linear::Activations;
use super::{CpuForwardPass, Row};
use crate::error::{Error, Result};
use crate::products::{LinearId, LinearProduct, ProductOutcome, TokenPosition};
use crate::weights::Matrix;

impl CpuForwardPass {
    /// Computes the products of a matrix with activations, one row for each of `rows`.
    pub(super) fn product<'a>(
        &self,
        linear: LinearId,
        matrix: &Matrix,
        rows: impl Iterator<Item = &'a Row>,
        x: &Activations,
    ) -> Result<Activations> {
        let Some(products) = &self.products else { return Ok(self.workers().product(matrix, x)) };
        let positions: Vec<TokenPosition> = rows
            .map(|row| TokenPosition { sequence: row.number, position: row.position })
            .collect();
        let inputs: Vec<f32> = (0..x.rows()).flat_map(|row| x.row(row)).copied().collect();
        let len = x.rows() as u128 * matrix.rows() as u128;
        let mut outputs: Vec<f32> = memory::zeros(len, Quantity::Counts)?;
        let product = LinearProduct { linear, inputs: &inputs, positions: &positions };
        match products.product(&product, &mut outputs)? {
            ProductOutcome::Declined => Ok(self.workers().product(matrix, x)),
            ProductOutcome::Computed => {
                let mut out = Activations::new(x.rows(), matrix.rows());
                for (i, row) in outputs.chunks_exact(matrix.rows().max(1)).enumerate() {
                    out.row_mut(i).copy_from_slice(row);
                }
                Ok(out)
            }
        }
    }

    /// Returns the matrix of a linear product in 32-bit floats.
    pub(super) fn weights_of(&self, linear: LinearId) -> Result<Vec<f32>> {
        let matrix = match linear {
            LinearId::Layer { layer, slot } => {
                &self.layer_map(layer, slot).ok_or_else(|| self.unknown(linear))?.matrix
            }
            LinearId::Head => self.head(),
        };
        let len = matrix.rows() as u128 * matrix.columns() as u128;
        let mut weights: Vec<f32> = memory::zeros(len, Quantity::Weights)?;
        for (i, row) in weights.chunks_exact_mut(matrix.columns().max(1)).enumerate() {
            matrix.row(i, row);
        }
        Ok(weights)
    }

    /// Returns the error of a product that the model does not have.
    pub(super) fn unknown(&self, linear: LinearId) -> Error {
        Error::UnknownProduct { linear, layers: self.layers.len() }
    }
}
