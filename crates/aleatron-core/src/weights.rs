//! Random weights, drawn from the same counters on every platform.

use crate::address::{Domain, LayerIndex};
use crate::philox;
use crate::polarity::Polarity;

/// Returns the weight of `input` at `neuron` (of a tap, at an output channel): word `input % 4` of
/// Philox at (input / 4, 0, neuron, weight initialization), divided by 2^32. A bipolar or signed
/// layer scales the same number to [-1, 1).
///
/// ```
/// use aleatron_core::{LayerIndex, Polarity, weights};
/// let w = weights::random(0x5eed, LayerIndex::ALONE, 0, 5, Polarity::Unipolar);
/// assert_eq!(w, 0.21578505681827664);
/// ```
#[must_use]
pub fn random(seed: u64, layer: LayerIndex, neuron: u32, input: u32, polarity: Polarity) -> f64 {
    polarity.value_of(four(seed, layer, neuron, input / 4)[input as usize % 4])
}

/// Fills `row` with the weights of one neuron for inputs 0, 1, ….
pub fn fill_row(seed: u64, layer: LayerIndex, neuron: u32, polarity: Polarity, row: &mut [f64]) {
    for (quad, weights) in (0u32..).zip(row.chunks_mut(4)) {
        let words = four(seed, layer, neuron, quad);
        for (weight, word) in weights.iter_mut().zip(words) {
            *weight = polarity.value_of(word);
        }
    }
}

fn four(seed: u64, layer: LayerIndex, neuron: u32, quad: u32) -> [f64; 4] {
    let tag = Domain::WeightInit as u32 | layer.get() << 4;
    philox::philox4x32([quad, 0, neuron, tag], philox::key(seed))
        .map(|word| f64::from(word) / 4_294_967_296.0)
}
