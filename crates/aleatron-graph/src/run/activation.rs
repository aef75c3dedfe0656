//! The functions of recurrent cells, for many elements at once.

use crate::error::{Error, Result};
use crate::op::Unary;

/// Added to a float below 2^22, this leaves its nearest integer in the low bits.
const ROUND: f32 = 12_582_912.0;

/// Returns e^x, off by less than two units in the last place; without branches, so that loops over it become vector instructions.
fn exp(x: f32) -> f32 {
    // The logarithm of 2 in two parts, of which the first has so few bits that its products are exact.
    const HIGH: f32 = 0.693_359_4;
    const LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 88.0);
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = x - n * HIGH - n * LOW;
    // The series of e^r for r of at most half the logarithm of 2.
    let series = 1.0 / 5040.0;
    let series = series * r + 1.0 / 720.0;
    let series = series * r + 1.0 / 120.0;
    let series = series * r + 1.0 / 24.0;
    let series = series * r + 1.0 / 6.0;
    let series = series * r + 0.5;
    let series = series * r * r + r + 1.0;
    // The low bits of the sum are n; moved into the exponent of 1, they are 2^n.
    series * f32::from_bits((rounded.to_bits() << 23).wrapping_add(0x3f80_0000))
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

fn tanh(x: f32) -> f32 {
    // Near 0 the difference below would lose digits: the series of the hyperbolic tangent.
    let z = x * x;
    let series = -1382.0 / 155_925.0;
    let series = series * z + 62.0 / 2835.0;
    let series = series * z - 17.0 / 315.0;
    let series = series * z + 2.0 / 15.0;
    let series = series * z - 1.0 / 3.0;
    let near = x + x * z * series;
    let far = 1.0 - 2.0 / (1.0 + exp(2.0 * x));
    if z < 0.0625 { near } else { far }
}

/// A function of a recurrent cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Activation {
    Sigmoid,
    Tanh,
    Relu,
    Softplus,
    Softsign,
    LeakyRelu(f32),
    ThresholdedRelu(f32),
    Elu(f32),
    HardSigmoid(f32, f32),
}

impl Activation {
    pub(super) fn new(function: Unary) -> Result<Self> {
        Ok(match function {
            Unary::Sigmoid => Self::Sigmoid,
            Unary::Tanh => Self::Tanh,
            Unary::Relu => Self::Relu,
            Unary::Softplus => Self::Softplus,
            Unary::Softsign => Self::Softsign,
            Unary::LeakyRelu { alpha } => Self::LeakyRelu(alpha),
            Unary::ThresholdedRelu { alpha } => Self::ThresholdedRelu(alpha),
            Unary::Elu { alpha } => Self::Elu(alpha),
            Unary::HardSigmoid { alpha, beta } => Self::HardSigmoid(alpha, beta),
            other => return Err(Error::attribute("activations", other.name(), "a cell does not have it")),
        })
    }

    /// Applies the function to every element.
    pub(super) fn apply(self, x: &mut [f32]) {
        match self {
            Self::Sigmoid => x.iter_mut().for_each(|x| *x = sigmoid(*x)),
            Self::Tanh => x.iter_mut().for_each(|x| *x = tanh(*x)),
            Self::Relu => x.iter_mut().for_each(|x| *x = x.max(0.0)),
            Self::Softplus => {
                // For large elements the exponential would overflow.
                x.iter_mut().for_each(|x| *x = x.max(0.0) + (-x.abs()).exp().ln_1p());
            }
            Self::Softsign => x.iter_mut().for_each(|x| *x /= 1.0 + x.abs()),
            Self::LeakyRelu(alpha) => {
                x.iter_mut().for_each(|x| *x = if *x < 0.0 { alpha * *x } else { *x });
            }
            Self::ThresholdedRelu(alpha) => {
                x.iter_mut().for_each(|x| *x = if *x > alpha { *x } else { 0.0 });
            }
            Self::Elu(alpha) => {
                x.iter_mut().for_each(|x| *x = if *x < 0.0 { alpha * x.exp_m1() } else { *x });
            }
            Self::HardSigmoid(alpha, beta) => {
                x.iter_mut().for_each(|x| *x = (alpha * *x + beta).clamp(0.0, 1.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both functions are compared with 64-bit ones all over their range, and at its ends.
    #[test]
    fn sigmoid_and_tanh_match_64_bit_functions() {
        let points = (-40_000..=40_000).map(|k| k as f32 / 1000.0 * 1.000_1);
        let tiny = (1..60).flat_map(|k| [0.7_f32.powi(k), -(0.7_f32.powi(k))]);
        for x in points.chain(tiny).chain([0.0, 1e-30, -100.0, 100.0, f32::MAX, f32::MIN]) {
            let wide = f64::from(x);
            let mut values = [x];
            Activation::Tanh.apply(&mut values);
            let error = (f64::from(values[0]) - wide.tanh()).abs() / wide.tanh().abs().max(1e-30);
            assert!(error < 6e-7, "tanh({x}) is {}, off by {error}", values[0]);
            values = [x];
            Activation::Sigmoid.apply(&mut values);
            let expected = 1.0 / (1.0 + (-wide).exp());
            let error = (f64::from(values[0]) - expected).abs();
            assert!(error < 6e-7 * expected + 2e-38, "sigmoid({x}) is {}, off by {error}", values[0]);
        }
        let mut values = [f32::NAN];
        Activation::Sigmoid.apply(&mut values);
        assert!(values[0].is_nan());
    }
}
