//! The repetition penalty. It depends on the whole text, so the host applies it to the logits of
//! each step.

use std::collections::BTreeSet;

use crate::error::{Error, Result};

/// The state of the repetition penalty: the tokens of each text.
#[derive(Debug)]
pub(crate) struct RepetitionPenalty {
    factor: f32,
    seen: Vec<BTreeSet<u32>>,
}

impl RepetitionPenalty {
    /// Creates the state of texts that begin with `prompts`; `None` for a factor of 1, which has no
    /// effect.
    pub(crate) fn new(factor: f32, prompts: &[&[u32]]) -> Option<Self> {
        let seen = || prompts.iter().map(|prompt| prompt.iter().copied().collect()).collect();
        (factor != 1.0).then(|| Self { factor, seen: seen() })
    }

    /// Checks the factor.
    pub(crate) fn check(factor: f32) -> Result<()> {
        if factor > 0.0 && factor.is_finite() {
            return Ok(());
        }
        let range = "a finite number above 0";
        Err(Error::Sampling { option: "repetition_penalty", value: factor.to_string(), range })
    }

    /// Divides the positive logits of the tokens of a text by the factor and multiplies the
    /// negative ones with it.
    pub(crate) fn apply(&self, text: usize, logits: &mut [f32]) {
        for &token in self.seen.get(text).into_iter().flatten() {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = if *logit < 0.0 { *logit * self.factor } else { *logit / self.factor };
            }
        }
    }

    /// Appends a token to a text.
    pub(crate) fn push(&mut self, text: usize, token: u32) {
        if let Some(seen) = self.seen.get_mut(text) {
            seen.insert(token);
        }
    }
}
