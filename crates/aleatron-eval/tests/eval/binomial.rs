//! Models of Bernoulli streams in floating point: every linear product has its exact mean and the
//! variance of its binomial counts, and is normally distributed.
//!
//! A product bit is 1 with probability p = |w x|, so that a sum over inputs has the variance `sum
//! of p (1 - p) / L`. With the bits X of an input and W of a weight, the deviation of one product
//! is `(X - x) w + x (W - w) + (X - x) (W - w)`, whose parts are uncorrelated and have the
//! variances `x (1 - x) w^2`, `x^2 w (1 - w)` and `x (1 - x) w (1 - w)`, over L, for magnitudes x
//! and w. Their sum is p (1 - p). All outputs of a position share the first part, all positions
//! share the second.

use aleatron_eval::language::InputScales;
use aleatron_transformer::{
    Config, ForwardPass, LinearId, LinearProduct, LinearProducts, Logits, ProductOutcome, Result,
    Segment,
};
use std::sync::Arc;

/// The products that deviate together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Covariance {
    /// Every product deviates on its own.
    Independent,
    /// Outputs share the deviations of inputs, and positions those of weights, as they share
    /// streams.
    Shared,
}

/// Computes the linear products of a model with the noise of streams.
#[derive(Debug)]
pub(crate) struct BinomialProducts {
    config: Config,
    length: usize,
    seed: u64,
    covariance: Covariance,
    products: Vec<Product>,
}

#[derive(Debug)]
struct Product {
    input_scale: f64,
    n_inputs: usize,
    /// The weights over the largest of their row, and these.
    weights: Vec<f64>,
    rows: Vec<f64>,
    /// The deviations of weights that all positions share.
    deviations: Vec<f64>,
}

impl BinomialProducts {
    /// Prepares the products of a pass with streams of `length` bits.
    pub(crate) fn new(
        pass: &dyn ForwardPass,
        scales: &InputScales,
        length: usize,
        seed: u64,
        covariance: Covariance,
    ) -> Result<Self> {
        let all = LinearId::all(pass.config());
        let products =
            all.iter().zip(&scales.scales).enumerate().map(|(index, (&linear, &input_scale))| {
                let n_inputs = linear.shape(pass.config())[1];
                let weights = pass.linear_weights(linear)?;
                let largest =
                    |row: &[f32]| row.iter().fold(0.0_f64, |most, w| most.max(f64::from(w.abs())));
                let rows: Vec<f64> = weights.chunks(n_inputs).map(largest).collect();
                let scaled =
                    weights.iter().enumerate().map(|(k, &w)| f64::from(w) / rows[k / n_inputs]);
                let weights: Vec<f64> = scaled.collect();
                let deviation = |(k, &w): (usize, &f64)| {
                    deviation(w, length) * normal(seed, [WEIGHTS, index as u64, 0, k as u64])
                };
                let deviations = match covariance {
                    Covariance::Independent => vec![0.0; weights.len()],
                    Covariance::Shared => weights.iter().enumerate().map(deviation).collect(),
                };
                Ok(Product { input_scale, n_inputs, weights, rows, deviations })
            });
        let products = products.collect::<Result<_>>()?;
        Ok(Self { config: pass.config().clone(), length, seed, covariance, products })
    }

    /// Returns the outputs of one position from its inputs between -1 and 1; `key` identifies the
    /// product and the position.
    fn outputs(&self, own: &Product, x: &[f64], key: [u64; 3]) -> Vec<f64> {
        let normal =
            |kind: u64, k: usize| normal(self.seed, [kind ^ key[0], key[1], key[2], k as u64]);
        let noisy = |(k, &x): (usize, &f64)| match self.covariance {
            Covariance::Independent => x,
            Covariance::Shared => x + deviation(x, self.length) * normal(INPUTS, k),
        };
        let noisy: Vec<f64> = x.iter().enumerate().map(noisy).collect();
        let rows =
            own.weights.chunks_exact(own.n_inputs).zip(own.deviations.chunks_exact(own.n_inputs));
        let output = |(neuron, (weights, deviations)): (usize, (&[f64], &[f64]))| {
            let (mut sum, mut variance) = (0.0, 0.0);
            for (((w, d), x), noisy) in weights.iter().zip(deviations).zip(x).zip(&noisy) {
                sum += w * noisy + x * d;
                let p = (w * x).abs();
                variance += match self.covariance {
                    Covariance::Independent => p * (1.0 - p),
                    Covariance::Shared => p * (1.0 - w.abs()) * (1.0 - x.abs()),
                };
            }
            let noise = (variance / self.length as f64).sqrt() * normal(OUTPUTS, neuron);
            (sum + noise) * own.input_scale * own.rows[neuron]
        };
        rows.enumerate().map(output).collect()
    }
}

impl LinearProducts for BinomialProducts {
    fn product(&self, product: &LinearProduct<'_>, outputs: &mut [f32]) -> Result<ProductOutcome> {
        let index = product.linear.index(&self.config);
        let own = &self.products[index];
        let rows =
            product.inputs.chunks_exact(own.n_inputs).zip(outputs.chunks_exact_mut(own.rows.len()));
        for (position, (x, outputs)) in product.positions.iter().zip(rows) {
            let x: Vec<f64> =
                x.iter().map(|&x| (f64::from(x) / own.input_scale).clamp(-1.0, 1.0)).collect();
            let values =
                self.outputs(own, &x, [index as u64, position.sequence, position.position as u64]);
            outputs.iter_mut().zip(values).for_each(|(output, value)| *output = value as f32);
        }
        Ok(ProductOutcome::Computed)
    }
}

/// The kinds of normal numbers.
const OUTPUTS: u64 = 1 << 32;
const INPUTS: u64 = 2 << 32;
const WEIGHTS: u64 = 3 << 32;

/// Returns the standard deviation of the share of ones in a stream of a value.
fn deviation(value: f64, length: usize) -> f64 {
    (value.abs() * (1.0 - value.abs()) / length as f64).sqrt()
}

/// Returns a normal number, by the method of Box and Muller from two hashes.
fn normal(seed: u64, words: [u64; 4]) -> f64 {
    let hash = words.iter().fold(mix(seed), |hash, &word| mix(hash ^ word));
    let uniform = |hash: u64| ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    (-2.0 * uniform(hash).ln()).sqrt() * (std::f64::consts::TAU * uniform(mix(hash))).cos()
}

/// Returns the next output of SplitMix64 (Steele, Lea and Flood, 2014) after a state.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the mean loss of a pass with some products, in nats per token, on sequences of `context`
/// tokens.
pub(crate) fn loss(
    pass: &mut dyn ForwardPass,
    products: Option<Arc<dyn LinearProducts>>,
    tokens: &[u32],
    context: usize,
) -> Result<f64> {
    pass.set_linear_products(products)?;
    let (n, mut nats) = (tokens.len() - 1, 0.0);
    for (number, start) in (0_u64..).zip((0..n).step_by(context)) {
        let end = n.min(start + context);
        let sequence = pass.open()?;
        pass.set_sequence_number(sequence, number)?;
        let logits =
            pass.forward(&[Segment { sequence, tokens: &tokens[start..end] }], Logits::All)?;
        pass.close(sequence);
        let vocabulary = pass.config().vocabulary;
        for (row, &target) in logits.chunks_exact(vocabulary).zip(&tokens[start + 1..=end]) {
            let largest = row.iter().fold(f64::MIN, |most, &logit| most.max(logit.into()));
            let sum: f64 = row.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum();
            nats += sum.ln() + largest - f64::from(row[target as usize]);
        }
    }
    pass.set_linear_products(None)?;
    Ok(nats / n as f64)
}
