//! Inter-layer arithmetic in f64.

use crate::layer::LayerSpec;
use crate::polarity::Polarity;

/// The function applied to a layer's sums before the next layer encodes them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Activation {
    /// The identity.
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
    /// Returns the least and the greatest value of the activation.
    #[must_use]
    pub const fn bounds(self) -> [f64; 2] {
        match self {
            Self::Identity => [f64::NEG_INFINITY, f64::INFINITY],
            Self::Relu => [0.0, f64::INFINITY],
            Self::Clamp { low, high } => [low, high],
        }
    }

    /// Applies the activation to a value.
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

/// Inter-layer arithmetic in f64.
#[derive(Debug, Clone, PartialEq)]
pub struct FloatStage {
    /// The value of a sum of 1: the scale of the inputs times that of the weights. A single scale
    /// for all rows of weights, or one per row.
    pub scales: Vec<f64>,
    /// One bias per row of weights: per neuron, or per output channel.
    pub bias: Vec<f64>,
    /// The activation.
    pub activation: Activation,
}

impl FloatStage {
    /// Returns the layer's outputs for its counts, row-major of samples by neurons.
    #[must_use]
    pub fn outputs(&self, spec: &LayerSpec, counts: &[u64]) -> Vec<f64> {
        let mut values = spec.decode_all(counts);
        // One loop per activation, because the compiler vectorizes loops without a match inside.
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
        // A single scale is repeated, so that one loop serves both cases.
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

/// Divides values by `scale` and limits them to the interval of `polarity`. Returns the number of
/// values outside.
pub fn saturate(values: &mut [f64], scale: f64, polarity: Polarity) -> u64 {
    let [low, high] = polarity.interval();
    let mut saturated = 0;
    // In chunks that stay in the L1 cache between the two loops.
    for chunk in values.chunks_mut(1024) {
        divide(chunk, scale);
        for value in chunk {
            saturated += u64::from(!((low <= *value) & (*value <= high)));
            *value = value.clamp(low, high);
        }
    }
    saturated
}

/// Divides values by `divisor`. Powers of two have exact reciprocals, so that a multiplication
/// rounds to the same numbers.
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
