//! The one suite of [`aleatron_core::conformance`], answered by a device.

use std::sync::Arc;

use aleatron_core::conformance::{Backend, Case, DenseCase, SparseCase};
use aleatron_core::{BitStream, StreamAddress, StreamMatrix};
use aleatron_device::GpuContext;

use crate::dense::GpuDense;
use crate::encode::encode;
use crate::error::{Error, Result};
use crate::gates;
use crate::sparse::GpuSparse;

/// A device as a backend of the suite: encoding, gates, counts of streams, dense and sparse layers.
#[derive(Debug, Clone)]
pub struct GpuBackend(pub Arc<GpuContext>);

impl Backend for GpuBackend {
    type Error = Error;

    fn run(&self, case: &Case) -> Option<Result<Vec<u64>>> {
        let context = &self.0;
        let words = |made: Result<StreamMatrix>| made.map(StreamMatrix::into_words);
        Some(match case {
            Case::Encode { thresholds, length, address } => {
                words(encode(context, thresholds, thresholds.len(), *length, *address))
            }
            Case::Gate { gate, a, b } => {
                with_two(a, b, |a, b| gates::gate(context, *gate, a, b).map(StreamMatrix::into_words))
            }
            Case::Not { a } => words(matrix(a).and_then(|a| gates::not(context, &a))),
            Case::Mux { select, a, b } => {
                let select = matrix(select);
                with_two(a, b, |a, b| gates::mux(context, &select?, a, b).map(StreamMatrix::into_words))
            }
            Case::Popcount { a } => matrix(a).and_then(|a| gates::popcount(context, &a)),
            Case::AndPopcount { a, b } => with_two(a, b, |a, b| gates::and_popcount(context, a, b)),
            Case::Hamming { a, b } => with_two(a, b, |a, b| gates::hamming_distance(context, a, b)),
            Case::Dense(dense) => self.dense(dense),
            Case::Sparse(sparse) => self.sparse(sparse),
            _ => return None,
        })
    }
}

/// One stream as a matrix.
fn matrix(stream: &BitStream) -> Result<StreamMatrix> {
    Ok(StreamMatrix::from_words(stream.words().to_vec(), 1, stream.length())?)
}

fn with_two<T>(
    a: &BitStream,
    b: &BitStream,
    run: impl FnOnce(&StreamMatrix, &StreamMatrix) -> Result<T>,
) -> Result<T> {
    run(&matrix(a)?, &matrix(b)?)
}

impl GpuBackend {
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
