//! The loss of a model on a text.

use crate::{Error, Result};
use aleatron_core::Cancel;
use aleatron_transformer::{ForwardPass, Logits, Segment};
use std::ops::Range;

/// The predictions of a model on a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Score {
    /// The sum of the negative logarithms of the probabilities of all predicted tokens.
    pub(super) nats: f64,
    /// The most probable token at each position.
    pub(super) best: Vec<u32>,
}

/// The reading of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading<'a> {
    /// The tokens. All but the first are predicted.
    pub(super) tokens: &'a [u32],
    /// Positions that run at once.
    pub(super) chunk: usize,
    pub(super) cancel: Cancel<'a>,
}

impl Reading<'_> {
    /// Reads the tokens of a range as one sequence and predicts the token after each of them.
    pub(super) fn score(
        &self,
        pass: &mut dyn ForwardPass,
        number: usize,
        range: Range<usize>,
        read: &mut dyn FnMut(usize),
    ) -> Result<Score> {
        let mut score = Score::default();
        let sequence = pass.open()?;
        let scored =
            pass.set_sequence_number(sequence, number as u64).map_err(Error::from).and_then(|()| {
                range.clone().step_by(self.chunk).try_for_each(|from| {
                    self.cancel.check()?;
                    let to = range.end.min(from.saturating_add(self.chunk));
                    let tokens = &self.tokens[from..to];
                    let logits = pass.forward(&[Segment { sequence, tokens }], Logits::All)?;
                    score.add(&logits, &self.tokens[from + 1..=to], from + 1)?;
                    read(to - from);
                    Ok(())
                })
            });
        pass.close(sequence);
        scored.map(|()| score)
    }
}

impl Score {
    /// Adds the logits of some positions, whose next tokens are `targets`.
    fn add(&mut self, logits: &[f32], targets: &[u32], first: usize) -> Result<()> {
        let vocabulary = logits.len() / targets.len().max(1);
        for (k, (row, &target)) in logits.chunks_exact(vocabulary.max(1)).zip(targets).enumerate() {
            let (mut best, mut largest) = (0_u32, f32::NEG_INFINITY);
            for (token, &logit) in (0_u32..).zip(row) {
                if logit > largest {
                    (best, largest) = (token, logit);
                }
            }
            let largest = f64::from(largest);
            let sum: f64 = row.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum();
            let logit = usize::try_from(target).ok().and_then(|target| row.get(target)).copied();
            let nats = sum.ln() + largest - f64::from(logit.unwrap_or(f32::NAN));
            if !nats.is_finite() {
                let remedy = "check the weights of the model and its precision".to_owned();
                let (what, value) = (format!("loss of token {}", first + k), nats.to_string());
                return Err(Error::Language { what, value, remedy });
            }
            self.nats += nats;
            self.best.push(best);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_is_the_cross_entropy_and_ties_have_the_first_token() -> Result<()> {
        let mut score = Score::default();
        // Probabilities 1/2, 1/4, 1/4 and 1/2, 1/2, 0.
        let (two, tiny) = (2f32.ln(), f32::NEG_INFINITY);
        score.add(&[two, 0.0, 0.0, 5.0, 5.0, tiny], &[1, 0], 1)?;
        assert!((score.nats - (4f64.ln() + 2f64.ln())).abs() < 1e-7, "{}", score.nats);
        assert_eq!(score.best, [0, 0]);
        assert!(score.add(&[0.0, f32::NAN], &[1], 1).is_err());
        assert!(score.add(&[0.0, tiny], &[1], 1).is_err());
        Ok(())
    }
}
