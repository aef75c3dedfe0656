//! Counting sparse layers: work and memory by the connection.

use crate::cost::Costs;
use crate::dense::matches;
use crate::{Cpu, dispatch};
use aleatron_core::{
    Connections, Error, Length, Polarity, Quantity, Result, StreamAddress, Threshold, memory,
};

/// Neurons a thread takes at a time.
const GRAIN: usize = 8;

impl Cpu {
    /// The counts of a sparse layer, row-major of samples by neurons: `weights` holds one packed stream per connection,
    /// `inputs` packed rows of samples by inputs. Tails must be clean.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where there is not one weight stream per connection, [`Error::Ragged`] where the inputs are not
    /// whole samples, [`Error::Memory`] where the counts do not fit.
    pub fn sparse_counts(
        &self,
        connections: &Connections,
        length: Length,
        polarity: Polarity,
        weights: &[u64],
        inputs: &[u64],
    ) -> Result<Vec<u64>> {
        let words = length.words();
        let expected = connections.len().saturating_mul(words);
        if weights.len() != expected {
            return Err(Error::Mismatch { what: Quantity::Words, expected, actual: weights.len() });
        }
        let row_words = connections.n_inputs().saturating_mul(words);
        if !inputs.len().is_multiple_of(row_words) {
            return Err(Error::Ragged { what: Quantity::Words, actual: inputs.len(), divisor: row_words });
        }
        let n_neurons = connections.n_neurons();
        let n_samples = inputs.len() / row_words;
        let mut counts = memory::zeros(n_neurons as u128 * n_samples as u128, Quantity::Counts)?;
        let cost = Costs::of(self.tier).count(weights.len().saturating_mul(n_samples));
        let items: Vec<_> = counts
            .chunks_mut(n_neurons)
            .zip(inputs.chunks_exact(row_words))
            .flat_map(|(counts, inputs)| {
                let blocks = counts.chunks_mut(GRAIN).zip((0..).step_by(GRAIN));
                blocks.map(move |(counts, first)| (first, counts, inputs))
            })
            .collect();
        self.pool.for_each(items.into_iter(), cost, |(first, counts, inputs)| {
            for (neuron, count) in (first..).zip(counts) {
                let start = connections.offsets()[neuron];
                let streams = weights[start * words..].chunks_exact(words);
                let pairs = connections.inputs_of(neuron).iter().zip(streams);
                *count = pairs
                    .map(|(&input, w)| {
                        let x = &inputs[input as usize * words..][..words];
                        self.product(polarity, length, w, x)
                    })
                    .sum();
            }
        });
        Ok(counts)
    }

    /// The counts of inputs that are yet to be encoded: `inputs` are thresholds of samples by inputs, that of input 0 of the
    /// first sample is drawn at `address`. The rest is as for [`Self::sparse_counts`].
    ///
    /// # Errors
    /// As [`Self::sparse_counts`] and [`Self::encode_rows`].
    pub fn sparse_counts_of(
        &self,
        connections: &Connections,
        length: Length,
        polarity: Polarity,
        weights: &[u64],
        inputs: &[Threshold],
        address: StreamAddress,
    ) -> Result<Vec<u64>> {
        let (n_inputs, n_neurons) = (connections.n_inputs(), connections.n_neurons());
        if !inputs.len().is_multiple_of(n_inputs) {
            return Err(Error::Ragged { what: Quantity::Inputs, actual: inputs.len(), divisor: n_inputs });
        }
        let count = |words: &[u64]| self.sparse_counts(connections, length, polarity, weights, words);
        self.encode_in_pieces(inputs, n_inputs, length, address, n_neurons, count)
    }

    fn product(&self, polarity: Polarity, length: Length, w: &[u64], x: &[u64]) -> u64 {
        let shared = dispatch::and_ones(self.tier, w, x);
        match polarity {
            Polarity::Unipolar => shared,
            Polarity::Bipolar => {
                let ones = |words| dispatch::ones(self.tier, words);
                matches(shared, ones(w), ones(x), length.bits() as u64)
            }
        }
    }
}
