//! The binary side in f64.

use crate::layer::LayerSpec;
use crate::polarity::Polarity;

/// What happens to a layer's sums before the next layer encodes them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Activation {
    /// Nothing.
    #[default]
    Identity,
    /// Negative values become 0.
    Relu,
    /// Values are limited to an interval; -1 to 1 is the hard tanh.
    Clamp {
        /// The least value.
        low: f64,
        /// The greatest value.
        high: f64,
    },
}

impl Activation {
    /// Returns the least and the greatest value that the activation lets through.
    #[must_use]
    pub const fn bounds(self) -> [f64; 2] {
        match self {
            Self::Identity => [f64::NEG_INFINITY, f64::INFINITY],
            Self::Relu => [0.0, f64::INFINITY],
            Self::Clamp { low, high } => [low, high],
        }
    }

    /// The activation of a value.
    #[inline]
    #[must_use]
    pub fn apply(self, value: f64) -> f64 {
        match self {
            Self::Identity => value,
            Self::Relu => value.max(0.0),
            Self::Clamp { low, high } => value.max(low).min(high),
        }
    }
}

/// The binary side in f64.
#[derive(Debug, Clone, PartialEq)]
pub struct FloatStage {
    /// The value that a sum of 1 stands for: the scale of the inputs times that of the weights.
    /// One for all rows of weights, or one for each.
    pub scales: Vec<f64>,
    /// One per row of weights: per neuron, or per output channel.
    pub bias: Vec<f64>,
    /// The activation.
    pub activation: Activation,
}

impl FloatStage {
    /// The layer's outputs for its counts, row-major of samples by neurons.
    #[must_use]
    pub fn outputs(&self, spec: &LayerSpec, counts: &[u64]) -> Vec<f64> {
        let mut values = spec.decode_all(counts);
        // A loop for each activation: the compiler makes vector code of one without a match inside.
        match self.activation {
            Activation::Identity => self.each(spec, &mut values, |value| value),
            Activation::Relu => self.each(spec, &mut values, |value| value.max(0.0)),
            Activation::Clamp { low, high } => {
                self.each(spec, &mut values, |value| value.max(low).min(high))
            }
        }
        values
    }

    #[inline]
    fn each(&self, spec: &LayerSpec, values: &mut [f64], activation: impl Fn(f64) -> f64) {
        let (per_row, n_rows) = (spec.neurons_per_row(), self.bias.len().max(1));
        // One scale for all rows is repeated, so that one loop serves both cases.
        let scales = self.scales.iter().cycle().take(n_rows);
        let rows: Vec<(f64, f64)> = scales.copied().zip(self.bias.iter().copied()).collect();
        for sample in values.chunks_mut(n_rows * per_row) {
            if per_row == 1 {
                for (value, &(scale, bias)) in sample.iter_mut().zip(&rows) {
                    *value = activation(*value * scale + bias);
                }
                continue;
            }
            for (row, &(scale, bias)) in sample.chunks_mut(per_row).zip(&rows) {
                row.iter_mut().for_each(|value| *value = activation(*value * scale + bias));
            }
        }
    }
}

/// Divides values by `scale` and limits them to what streams of `polarity` can hold; how many were
/// outside.
pub fn saturate(values: &mut [f64], scale: f64, polarity: Polarity) -> u64 {
    let [low, high] = polarity.interval();
    let mut saturated = 0;
    // In pieces that stay in the first cache between the two loops.
    for piece in values.chunks_mut(1024) {
        divide(piece, scale);
        for value in piece {
            saturated += u64::from(!((low <= *value) & (*value <= high)));
            *value = value.clamp(low, high);
        }
    }
    saturated
}

/// Divides values by `divisor`. Powers of two have exact reciprocals: multiplying by those rounds
/// to the same numbers.
pub(crate) fn divide(values: &mut [f64], divisor: f64) {
    const FRACTION: u64 = (1 << 52) - 1;
    if divisor == 1.0 {
        return;
    }
    if divisor.is_normal() && divisor.to_bits() & FRACTION == 0 {
        let reciprocal = 1.0 / divisor;
        values.iter_mut().for_each(|value| *value *= reciprocal);
    } else {
        values.iter_mut().for_each(|value| *value /= divisor);
    }
}
