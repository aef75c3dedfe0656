//! The one suite of [`aleatron_core::conformance`], answered by a device.

use std::sync::Arc;

use aleatron_core::conformance::{Backend, Case, DenseCase, SparseCase};
use aleatron_core::{BitStream, DenseShape, Polarity, StreamAddress, Threshold};

use crate::context::GpuContext;
use crate::dense::GpuDense;
use crate::encode::encode;
use crate::error::{Error, Result};
use crate::sparse::GpuSparse;

/// A device as a backend of the suite: encoding, dense and sparse layers, and counts of two streams.
#[derive(Debug, Clone)]
pub struct GpuBackend(pub Arc<GpuContext>);

impl Backend for GpuBackend {
    type Error = Error;

    fn run(&self, case: &Case) -> Option<Result<Vec<u64>>> {
        let context = &self.0;
        Some(match case {
            Case::Encode { thresholds, length, address } => {
                encode(context, thresholds, thresholds.len(), *length, *address).map(|made| made.into_words())
            }
            Case::Popcount { a } => self.product(Polarity::Unipolar, a, None),
            Case::AndPopcount { a, b } => self.product(Polarity::Unipolar, a, Some(b)),
            // XNOR counts what is equal.
            Case::Hamming { a, b } => self
                .product(Polarity::Bipolar, a, Some(b))
                .map(|equal| equal.into_iter().map(|n| a.length().bits() as u64 - n).collect()),
            Case::Dense(dense) => self.dense(dense),
            Case::Sparse(sparse) => self.sparse(sparse),
            _ => return None,
        })
    }
}

impl GpuBackend {
    /// A layer of one weight: `a`, over `b` or a stream of ones.
    fn product(&self, polarity: Polarity, a: &BitStream, b: Option<&BitStream>) -> Result<Vec<u64>> {
        let shape = DenseShape::new(1, 1, a.length(), polarity)?;
        let layer = GpuDense::from_words(&self.0, shape, 1, a.words())?;
        match b {
            Some(b) => layer.counts_of_streams(b.words()),
            None => layer.counts(&[Threshold::ONE], StreamAddress::input(0, 0, 0)),
        }
    }

    fn dense(&self, case: &DenseCase) -> Result<Vec<u64>> {
        let weights = StreamAddress::weight(case.weight_seed, 0, 0).in_layer(case.layer);
        let inputs = StreamAddress::input(case.input_seed, 0, case.first_row).in_layer(case.layer);
        let layer = GpuDense::from_thresholds(&self.0, case.shape, 64, &case.weights, weights)?;
        layer.counts(&case.inputs, inputs)
    }

    fn sparse(&self, case: &SparseCase) -> Result<Vec<u64>> {
        let layer = GpuSparse::from_thresholds(
            &self.0,
            case.connections.clone(),
            case.length,
            case.polarity,
            64,
            &case.weights,
            StreamAddress::weight(case.weight_seed, 0, 0),
        )?;
        layer.counts(&case.inputs, StreamAddress::input(case.input_seed, 0, case.first_row))
    }
}
