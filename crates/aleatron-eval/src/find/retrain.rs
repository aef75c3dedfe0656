//! Searches that train the network for the lengths of each trial.

use super::{Candidates, Found, Measured, Search, Setup, trials::Weights};
use crate::subject::Subject;
use crate::{Plan, Result};
use aleatron_core::Cancel;
use aleatron_data::Dataset;
use aleatron_engine::network::{Network, StreamConfig};
use std::sync::Arc;

/// The training of a search. `aleatron_train::train_lengths` is such a search.
pub trait Retrain {
    /// Returns a network trained for a configuration, from the weights that it has.
    ///
    /// # Errors
    /// Those of the training; [`crate::Error::Retraining`] has room for errors of other crates.
    fn retrain(
        &mut self,
        network: &Network,
        config: &StreamConfig,
        cancel: Cancel<'_>,
    ) -> Result<Network>;

    /// Called before and after each trial with the state of the search and the network of the last
    /// accepted trial, from which the search can be resumed.
    ///
    /// # Errors
    /// An error ends the search.
    fn report(&mut self, found: &Found, network: &Network) -> Result<()>;
}

/// Searches for the shortest streams like [`super::find()`], and trains the network for the lengths
/// of each trial, from the weights of the last accepted trial. One length for all layers is halved
/// from the longest down until a trial fails; then the most expensive layer is tried with half its
/// length. A layer whose half failed keeps its length.
///
/// `data` are samples that `retrain` does not train on. `known` is the state of an earlier search
/// with the same arguments except for the budget. Returns the search and the network that it ended
/// with.
///
/// # Errors
/// As [`super::find()`], and those of `retrain`.
pub fn find_retrained(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    search: &Search,
    known: Option<(Found, Network)>,
    cancel: Cancel<'_>,
    retrain: &mut dyn Retrain,
) -> Result<(Found, Network)> {
    let Setup { plan, found, .. } = Setup::new(network, data, plan, search, cancel)?;
    let layers = found.layers.clone();
    let (known, network) = match known {
        Some((known, network)) => (Some(known), network),
        None => (None, network.clone()),
    };
    let mut candidates =
        Trained { data, plan, search, layers, cancel, network, candidate: None, retrain };
    let found = found.search(known, search, &mut candidates)?;
    Ok((found, candidates.network))
}

/// The candidates of a search that trains.
struct Trained<'a> {
    data: &'a Dataset,
    plan: Plan,
    search: &'a Search,
    layers: Vec<String>,
    cancel: Cancel<'a>,
    /// The network of the last accepted trial.
    network: Network,
    /// The network of the last trial.
    candidate: Option<Network>,
    retrain: &'a mut dyn Retrain,
}

impl Trained<'_> {
    fn score(&self, network: &Network, lengths: &[usize]) -> Result<f64> {
        let subject = Subject::new(Arc::new(network.clone()))?;
        subject.mean_score(self.data, &self.plan, self.search, &self.layers, lengths, self.cancel)
    }
}

impl Candidates for Trained<'_> {
    fn weights(&self) -> Weights {
        Weights::Trained
    }

    fn measure(&mut self, lengths: &[usize]) -> Result<Measured> {
        let untrained = Some(self.score(&self.network, lengths)?);
        let config = self.search.config(&self.plan, &self.layers, lengths, 0);
        let candidate = self.retrain.retrain(&self.network, &config, self.cancel)?;
        let score = self.score(&candidate, lengths)?;
        self.candidate = Some(candidate);
        Ok(Measured { score, untrained })
    }

    fn accept(&mut self) {
        if let Some(candidate) = self.candidate.take() {
            self.network = candidate;
        }
    }

    fn report(&mut self, found: &Found) -> Result<()> {
        self.retrain.report(found, &self.network)
    }
}
