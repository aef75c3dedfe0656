//! Counting sparse layers, with work and memory proportional to the connections.

use crate::cost::Costs;
use crate::dense::matches;
use crate::encode::Thresholds;
use crate::{Cpu, dispatch};
use aleatron_core::{
    Connections, Error, Length, Polarity, Quantity, Result, StreamAddress, Threshold, memory,
};
use std::ops::Range;

/// Number of neurons that a thread takes at a time.
const GRAIN: usize = 8;

/// The weights of a sparse layer: a packed stream per connection, with the signs of a signed layer.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionWeights<'a> {
    pub(crate) connections: &'a Connections,
    pub(crate) length: Length,
    pub(crate) polarity: Polarity,
    pub(crate) streams: &'a [u64],
    pub(crate) negative: &'a [bool],
}

impl Cpu {
    /// Counts a sparse layer without signs, row-major of samples by neurons: `weights` holds one
    /// packed stream per connection, `inputs` packed rows of samples by inputs. Bits beyond the
    /// length must be zero.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] unless there is one weight stream per connection, or if signs
    /// are needed, [`Error::Ragged`] unless the inputs are whole samples, [`Error::Memory`] if the
    /// counts do not fit.
    pub fn sparse_counts(
        &self,
        connections: &Connections,
        length: Length,
        polarity: Polarity,
        weights: &[u64],
        inputs: &[u64],
    ) -> Result<Vec<u64>> {
        let weights =
            ConnectionWeights { connections, length, polarity, streams: weights, negative: &[] };
        self.connection_counts(&weights, inputs, &[])
    }

    /// Counts a sparse layer; for a signed layer, the inputs are streams of magnitudes with their
    /// signs.
    pub(crate) fn connection_counts(
        &self,
        weights: &ConnectionWeights<'_>,
        inputs: &[u64],
        negative: &[bool],
    ) -> Result<Vec<u64>> {
        let ConnectionWeights { connections, length, polarity, streams, .. } = *weights;
        let words = length.words();
        let expected = connections.len().saturating_mul(words);
        if streams.len() != expected {
            return Err(Error::Mismatch { what: Quantity::Words, expected, actual: streams.len() });
        }
        let row_words = connections.n_inputs().saturating_mul(words);
        if !inputs.len().is_multiple_of(row_words) {
            return Err(Error::Ragged {
                what: Quantity::Words,
                actual: inputs.len(),
                divisor: row_words,
            });
        }
        let (n_inputs, n_neurons) = (connections.n_inputs(), connections.n_neurons());
        let n_samples = inputs.len() / row_words;
        if polarity == Polarity::Signed {
            for (expected, actual) in [
                (connections.len(), weights.negative.len()),
                (n_samples * n_inputs, negative.len()),
            ] {
                if expected != actual {
                    return Err(Error::Mismatch { what: Quantity::Signs, expected, actual });
                }
            }
        }
        let mut counts = memory::zeros(n_neurons as u128 * n_samples as u128, Quantity::Counts)?;
        let cost = Costs::of(self.tier).count(streams.len().saturating_mul(n_samples));
        let items: Vec<_> = counts
            .chunks_mut(n_neurons)
            .zip(inputs.chunks_exact(row_words))
            .enumerate()
            .flat_map(|(sample, (counts, inputs))| {
                let blocks = counts.chunks_mut(GRAIN).zip((0..).step_by(GRAIN));
                blocks.map(move |(counts, first)| (sample, first, counts, inputs))
            })
            .collect();
        self.pool.for_each(items.into_iter(), cost, |(sample, first, counts, inputs)| {
            let is_down = |connection: usize, input: usize| {
                weights.negative[connection] != negative[sample * n_inputs + input]
            };
            for (neuron, count) in (first..).zip(counts) {
                let start = connections.offsets()[neuron];
                let streams = streams[start * words..].chunks_exact(words).enumerate();
                let pairs = connections.inputs_of(neuron).iter().zip(streams);
                *count = pairs
                    .map(|(&input, (k, w))| {
                        let x = &inputs[input as usize * words..][..words];
                        let shared = dispatch::and_ones(self.tier, w, x);
                        let ones = |words| dispatch::ones(self.tier, words);
                        let bits = length.bits() as u64;
                        match polarity {
                            Polarity::Unipolar => shared,
                            Polarity::Bipolar => matches(shared, ones(w), ones(x), bits),
                            // Wraps instead of panicking for counts that no streams have.
                            Polarity::Signed if is_down(start + k, input as usize) => {
                                bits.wrapping_sub(shared)
                            }
                            Polarity::Signed => bits + shared,
                        }
                    })
                    .fold(0, u64::wrapping_add);
            }
        });
        Ok(counts)
    }

    /// Encodes and counts inputs: `inputs` are thresholds of samples by inputs, and input 0 of the
    /// first sample is drawn at `address`. Other arguments are as for [`Self::sparse_counts`].
    ///
    /// # Errors
    /// As for [`Self::sparse_counts`] and [`Self::encode_rows`].
    pub fn sparse_counts_of(
        &self,
        connections: &Connections,
        length: Length,
        polarity: Polarity,
        weights: &[u64],
        inputs: &[Threshold],
        address: StreamAddress,
    ) -> Result<Vec<u64>> {
        let weights =
            ConnectionWeights { connections, length, polarity, streams: weights, negative: &[] };
        self.connection_counts_of(&weights, inputs, &[], address)
    }

    /// Encodes and counts inputs; for a signed layer, thresholds of their magnitudes with their
    /// signs.
    pub(crate) fn connection_counts_of(
        &self,
        weights: &ConnectionWeights<'_>,
        inputs: &[Threshold],
        negative: &[bool],
        address: StreamAddress,
    ) -> Result<Vec<u64>> {
        let (n_inputs, n_neurons) =
            (weights.connections.n_inputs(), weights.connections.n_neurons());
        if !inputs.len().is_multiple_of(n_inputs) {
            return Err(Error::Ragged {
                what: Quantity::Inputs,
                actual: inputs.len(),
                divisor: n_inputs,
            });
        }
        let count = |samples: Range<usize>, words: &mut [u64]| {
            let signs = match weights.polarity {
                Polarity::Signed => &negative[samples.start * n_inputs..samples.end * n_inputs],
                Polarity::Unipolar | Polarity::Bipolar => &[],
            };
            self.connection_counts(weights, words, signs)
        };
        let inputs = Thresholds::Checked(inputs);
        self.encode_in_chunks(inputs, n_inputs, weights.length, address, n_neurons, count)
    }
}
