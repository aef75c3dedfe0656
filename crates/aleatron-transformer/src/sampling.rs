//! Choosing the next token.

use aleatron_core::philox::{key, philox4x32};

use crate::error::{Error, Result};

/// Options of the choice of the next token from its logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The divisor of the logits; 0 takes the token with the largest logit, the first of several.
    pub temperature: f32,
    /// The number of tokens with the largest logits to choose from, ties included; 0 for all.
    pub top_k: u32,
    /// The total probability of the tokens with the largest logits to choose from, ties included.
    pub top_p: f32,
    /// The seed: the same one, prompt and device give the same text.
    pub seed: u64,
}

impl Sampling {
    /// Options that always choose the token with the largest logit.
    pub const GREEDY: Self = Self { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0 };

    /// Checks the options.
    ///
    /// # Errors
    /// [`Error::Sampling`] with the option that is out of range.
    pub fn check(&self) -> Result<()> {
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            let value = self.temperature.to_string();
            return Err(Error::Sampling {
                option: "temperature",
                value,
                range: "a finite number from 0 on",
            });
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            let value = self.top_p.to_string();
            return Err(Error::Sampling { option: "top_p", value, range: "above 0 and at most 1" });
        }
        Ok(())
    }

    /// Returns the random number of a step, in [0, 1): a function of the seed, the position and the
    /// number of the sequence alone.
    #[must_use]
    pub fn draw(&self, position: u32, row: u32) -> f32 {
        let word = philox4x32([position, row, 0, 0x7472_6e73], key(self.seed))[0];
        (word >> 8) as f32 / 16_777_216.0
    }

    /// Chooses a token from logits; `None` if no logit is finite.
    ///
    /// A threshold on logits is found by bisection over their bits, so that equal logits are
    /// included or excluded together.
    #[must_use]
    pub fn choose(&self, logits: &[f32], position: u32, row: u32) -> Option<u32> {
        let (mut best, mut largest) = (None, f32::NEG_INFINITY);
        for (token, &logit) in logits.iter().enumerate() {
            // NaN is never larger.
            if logit > largest {
                (best, largest) = (Some(token as u32), logit);
            }
        }
        if !largest.is_finite() {
            return None;
        }
        if self.temperature == 0.0 {
            return best;
        }
        let scale = 1.0 / self.temperature;
        let mass = |logit: f32| ((logit - largest) * scale).exp();
        let kept = |threshold: u32| logits.iter().filter(move |&&logit| order(logit) >= threshold);
        let mut threshold = order(f32::MIN);
        if self.top_k > 0 {
            threshold =
                largest_where(threshold, |t| kept(t).count() as u64 >= u64::from(self.top_k));
        }
        if self.top_p < 1.0 {
            let total: f32 = kept(threshold).map(|&logit| mass(logit)).sum();
            let wanted = self.top_p * total;
            let lowest = threshold;
            threshold =
                largest_where(lowest, |t| kept(t).map(|&logit| mass(logit)).sum::<f32>() >= wanted);
        }
        let total: f32 = kept(threshold).map(|&logit| mass(logit)).sum();
        let target = self.draw(position, row) * total;
        let mut sum = 0.0;
        for (token, &logit) in logits.iter().enumerate() {
            if order(logit) >= threshold {
                sum += mass(logit);
                if sum > target {
                    return Some(token as u32);
                }
            }
        }
        // Rounding may leave the sum just below its total.
        best
    }
}

/// Returns bits that compare as the numbers do; NaN comes first.
fn order(x: f32) -> u32 {
    let bits = x.to_bits();
    match x {
        _ if x.is_nan() => 0,
        _ if bits >> 31 == 1 => !bits,
        _ => bits | 0x8000_0000,
    }
}

/// Returns the largest threshold from `lowest` on for which `holds`, which must be true up to some
/// threshold and false beyond it.
fn largest_where(lowest: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let mut threshold = 0;
    for bit in (0..32).rev() {
        let candidate = threshold | 1 << bit;
        if holds(candidate) {
            threshold = candidate;
        }
    }
    threshold.max(lowest)
}
