//! The order of trials of a search, which is the same for fixed and for trained weights.

use super::{Found, Search, Trial};
use crate::Result;

/// The scores of one trial.
pub(crate) struct Measured {
    /// The mean score of all seeds.
    pub(crate) score: f64,
    /// The score before the training of the trial, if there was one.
    pub(crate) untrained: Option<f64>,
}

/// The weights that a trial begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weights {
    /// Those of the given network. A length for all layers is searched from the shortest up.
    Fixed,
    /// Those of the last accepted trial. A length for all layers is searched from the longest down,
    /// so that the weights follow the lengths.
    Trained,
}

/// The measurements of a search.
pub(crate) trait Candidates {
    /// Returns the weights that a trial begins with.
    fn weights(&self) -> Weights {
        Weights::Fixed
    }

    /// Measures some lengths.
    fn measure(&mut self, lengths: &[usize]) -> Result<Measured>;

    /// Takes the weights of the last measurement as those that later trials begin with.
    fn accept(&mut self) {}

    /// Reports the state of the search; called before and after each trial.
    fn report(&mut self, found: &Found) -> Result<()>;
}

/// Runs a search; returns whether it came to its end within the budget.
pub(super) fn run(
    search: &Search,
    candidates: &mut dyn Candidates,
    found: &mut Found,
) -> Result<bool> {
    Trials { search, candidates, accepted: None }.run(found)
}

/// A search in progress.
struct Trials<'a> {
    search: &'a Search,
    candidates: &'a mut dyn Candidates,
    /// The last trial that was accepted.
    accepted: Option<usize>,
}

impl Trials<'_> {
    fn run(&mut self, found: &mut Found) -> Result<bool> {
        if !self.shorten_all(found)? {
            return Ok(false);
        }
        if found.score < found.bar {
            return Ok(true);
        }
        let mut is_open = vec![true; found.layers.len()];
        loop {
            let open = (0..found.layers.len())
                .filter(|&k| is_open[k] && found.lengths[k] / 2 >= self.search.shortest);
            let Some(k) =
                open.max_by_key(|&k| found.products[k].saturating_mul(found.lengths[k] as u64))
            else {
                return Ok(true);
            };
            let mut next = found.lengths.clone();
            next[k] /= 2;
            match self.attempt(found, next)? {
                None => return Ok(false),
                Some(passes) => is_open[k] = passes,
            }
        }
    }

    /// Finds one length for all layers; returns whether the budget sufficed.
    fn shorten_all(&mut self, found: &mut Found) -> Result<bool> {
        let (longest, shortest) = (self.search.longest, self.search.shortest);
        let halves = std::iter::successors(Some(longest), |length| Some(length / 2));
        let mut uniform: Vec<usize> = halves.take_while(|&length| length >= shortest).collect();
        let weights = self.candidates.weights();
        if weights == Weights::Fixed {
            uniform.reverse();
        }
        for length in uniform {
            let Some(passes) = self.attempt(found, vec![length; found.layers.len()])? else {
                return Ok(false);
            };
            // Fixed weights end with the first length that passes, trained ones with the first that
            // does not.
            if passes == (weights == Weights::Fixed) {
                break;
            }
        }
        Ok(true)
    }

    /// Measures some lengths and takes them as the result if they are good enough, or are the
    /// longest ones. Returns whether they are good enough; `None` if the budget is spent.
    fn attempt(&mut self, found: &mut Found, lengths: Vec<usize>) -> Result<Option<bool>> {
        let start = match self.candidates.weights() {
            Weights::Fixed => None,
            Weights::Trained => self.accepted,
        };
        let is_same = |trial: &Trial| trial.lengths == lengths && trial.start == start;
        let known = found.trials.iter().position(is_same);
        if known.is_none() {
            if found.trials.len() >= self.search.budget {
                return Ok(None);
            }
            self.candidates.report(found)?;
            let Measured { score, untrained } = self.candidates.measure(&lengths)?;
            found.trials.push(Trial { lengths: lengths.clone(), score, untrained, start });
        }
        let index = known.unwrap_or(found.trials.len() - 1);
        let score = found.trials[index].score;
        let passes = score >= found.bar;
        if passes || lengths.iter().all(|&length| length == self.search.longest) {
            found.take(lengths, score);
            self.accepted = Some(index);
            if known.is_none() {
                self.candidates.accept();
            }
        }
        if known.is_none() {
            self.candidates.report(found)?;
        }
        Ok(Some(passes))
    }
}
