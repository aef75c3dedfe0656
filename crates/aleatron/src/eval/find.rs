//! Looking for the shortest streams that are good enough, layer by layer.
//!
//! A greedy search: every layer begins with the longest streams. The layer that costs most is tried with half its length; where the accuracy
//! stays within the loss allowed, the half is kept, else the layer is left as it is. The search ends when no layer can be shortened, or the
//! budget of trials is spent. Every trial is kept, and none is run twice, so a search that was interrupted goes on from its trials.

use super::assembly::share_of;
use super::graph::{classes, float_scores};
use super::job::check_fit;
use super::outline::PIECE;
use super::plan::Plan;
use crate::data::Dataset;
use crate::graph::{GraphNetwork, Mode, Statistics};
use crate::network::LayerOverride;
use crate::{Error, Result};
use aleatron_core::Cancel;
use aleatron_core::generator::GeneratorName;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a search may lose, and how long it may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The generator.
    pub generator: GeneratorName,
    /// Percentage points of accuracy below floating point that are allowed.
    pub loss: f64,
    /// The length that all layers begin with.
    pub longest: usize,
    /// The length that no layer goes below.
    pub shortest: usize,
    /// The most trials.
    pub budget: usize,
}

/// One choice of lengths, and how good it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The length of each layer that runs as streams.
    pub lengths: Vec<usize>,
    /// The accuracy, over all seeds.
    pub accuracy: f64,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The generator.
    pub generator: String,
    /// The layers that run as streams.
    pub layers: Vec<String>,
    /// The products of one sample in each.
    pub products: Vec<u64>,
    /// The shortest lengths found that are good enough; those of the start where not even they are.
    pub lengths: Vec<usize>,
    /// The accuracy with them.
    pub accuracy: f64,
    /// The accuracy in floating point.
    pub float_accuracy: f64,
    /// The accuracy that is good enough.
    pub bar: f64,
    /// Products of bits of one sample with all layers at their longest.
    pub bit_macs_before: u64,
    /// Products of bits of one sample with the lengths found.
    pub bit_macs: u64,
    /// Every trial.
    pub trials: Vec<Trial>,
    /// Whether the search came to its end.
    pub is_finished: bool,
}

/// Searches for the shortest streams of a graph with one generator. `known` are the trials of an earlier search of the same network, data and
/// plan; `progress` is called with the number of trials before each.
///
/// # Errors
/// As [`super::evaluate_graph`], and [`Error::Nothing`] for lengths of 0 or no budget.
pub fn find(
    network: &GraphNetwork,
    data: &Dataset,
    plan: &Plan,
    search: &Search,
    known: Vec<Trial>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(usize),
) -> Result<Found> {
    let generator = &search.generator;
    if search.shortest == 0 || search.longest < search.shortest {
        return Err(Error::Nothing("lengths to search"));
    }
    if search.budget == 0 {
        return Err(Error::Nothing("trials"));
    }
    check_fit(data, network.n_features(), network.n_classes(), plan)?;
    let inspection = network.inspect(1)?;
    let (layers, products): (Vec<String>, Vec<u64>) = network
        .layers()
        .iter()
        .filter(|layer| layer.mode == Mode::Streams)
        .map(|layer| {
            let stream = inspection.nodes.get(layer.node).and_then(|node| node.stream.as_ref());
            (layer.name.clone(), stream.map_or(0, |stream| stream.products))
        })
        .unzip();
    if layers.is_empty() {
        return Err(Error::Nothing("layers that run as streams"));
    }
    let float_accuracy = share_of(&classes(&float_scores(network, data, cancel)?, network), data.labels());
    // Accuracies are counts over samples: the slack is for the rounding of f64 alone.
    let bar = float_accuracy - search.loss / 100.0 - 1e-9;
    let network = Arc::new(network.clone());
    let cost = |lengths: &[usize]| -> u64 {
        products.iter().zip(lengths).map(|(&products, &length)| products.saturating_mul(length as u64)).sum()
    };
    let mut trials: Vec<Trial> =
        known.into_iter().filter(|trial| trial.lengths.len() == layers.len()).collect();
    let mut try_lengths = |lengths: &[usize], trials: &mut Vec<Trial>| -> Result<Option<f64>> {
        if let Some(trial) = trials.iter().find(|trial| trial.lengths == lengths) {
            return Ok(Some(trial.accuracy));
        }
        if trials.len() >= search.budget {
            return Ok(None);
        }
        progress(trials.len());
        let seeds = plan.seeds_of(generator);
        let (mut sum, n) = (0.0, seeds.len().max(1));
        for seed in seeds {
            let mut config = plan.config(generator, search.longest, seed as u64);
            for (name, &length) in layers.iter().zip(lengths) {
                let own = config.layers.get(name).copied().unwrap_or_default();
                config.layers.insert(name.clone(), LayerOverride { length: Some(length), ..own });
            }
            let streams = Arc::clone(&network).into_streams(&config)?;
            let mut found = Vec::with_capacity(data.len());
            for (first, piece) in data.pieces(PIECE) {
                // There are at most 2^32 samples.
                let output = streams.run(&piece?, first as u32, Statistics::LeftOut, cancel)?;
                found.extend(classes(&output.scores, &network));
            }
            sum += share_of(&found, data.labels());
        }
        let accuracy = sum / n as f64;
        trials.push(Trial { lengths: lengths.to_vec(), accuracy });
        Ok(Some(accuracy))
    };
    let mut best = vec![search.longest; layers.len()];
    let before = cost(&best);
    let mut is_open = vec![true; layers.len()];
    let (mut accuracy, mut is_finished) = (0.0, true);
    let mut run = || -> Result<()> {
        accuracy = try_lengths(&best, &mut trials)?.unwrap_or(0.0);
        if accuracy < bar {
            return Ok(());
        }
        loop {
            let open = (0..layers.len()).filter(|&k| is_open[k] && best[k] / 2 >= search.shortest);
            let Some(k) = open.max_by_key(|&k| products[k].saturating_mul(best[k] as u64)) else {
                return Ok(());
            };
            let mut next = best.clone();
            next[k] /= 2;
            match try_lengths(&next, &mut trials)? {
                None => {
                    is_finished = false;
                    return Ok(());
                }
                Some(found) if found >= bar => (best, accuracy) = (next, found),
                Some(_) => is_open[k] = false,
            }
        }
    };
    match run() {
        Ok(()) => {}
        Err(Error::Core(aleatron_core::Error::Cancelled)) => is_finished = false,
        Err(error) => return Err(error),
    }
    Ok(Found {
        generator: generator.to_string(),
        bit_macs_before: before,
        bit_macs: cost(&best),
        layers,
        products,
        lengths: best,
        accuracy,
        float_accuracy,
        bar,
        trials,
        is_finished,
    })
}
