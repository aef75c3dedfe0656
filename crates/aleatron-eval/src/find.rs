//! Looking for the shortest streams that are good enough, layer by layer.
//!
//! A greedy search: every layer begins with the longest streams. The layer that costs most is tried with half its length; where the accuracy
//! stays within the loss allowed, the half is kept, else the layer is left as it is. The search ends when no layer can be shortened, or the
//! budget of trials is spent. Every trial is kept, and none is run twice, so a search that was interrupted goes on from its trials.

use super::assembly::share_of;
use super::plan::Plan;
use super::subject::{Subject, accuracy as accuracy_of};
use crate::{Error, Result};
use aleatron_core::Cancel;
use aleatron_core::generator::GeneratorName;
use aleatron_data::Dataset;
use aleatron_engine::network::LayerOverride;
use serde::{Deserialize, Serialize};

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
    /// A hash of the network, the data and the settings.
    pub identity: String,
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

/// Searches for the shortest streams of a network's layers with one generator. `known` is what an earlier search of the same found;
/// `progress` is called with the number of trials before each.
///
/// ```
/// use aleatron_core::Cancel;
/// use aleatron_data::Dataset;
/// use aleatron_eval::{Plan, Search, find};
/// use aleatron_engine::network::Network;
///
/// let network = Network::digits_noise_aware()?;
/// let search = Search { generator: "sobol".parse()?, loss: 1.0, longest: 64, shortest: 16, budget: 10 };
/// let data = Dataset::digits_test();
/// let found = find(&network, &data, &Plan::default(), &search, None, Cancel::NEVER, |_| ())?;
/// assert!(found.is_good() && found.bit_macs < found.bit_macs_before);
/// # Ok::<(), aleatron_eval::Error>(())
/// ```
///
/// # Errors
/// As [`super::evaluate`], [`Error::Nothing`] for lengths of 0 or no budget, and [`Error::Checkpoint`] where `known` is of something else.
pub fn find(
    network: impl Into<Subject>,
    data: &Dataset,
    plan: &Plan,
    search: &Search,
    known: Option<Found>,
    cancel: Cancel<'_>,
    mut progress: impl FnMut(usize),
) -> Result<Found> {
    let (subject, generator) = (network.into(), &search.generator);
    if search.shortest == 0 || search.longest < search.shortest {
        return Err(Error::Nothing("lengths to search"));
    }
    if search.budget == 0 {
        return Err(Error::Nothing("trials"));
    }
    if !(0.0..=100.0).contains(&search.loss) {
        return Err(Error::Loss(search.loss));
    }
    let plan = &Plan {
        lengths: vec![search.shortest, search.longest],
        generators: vec![search.generator],
        ..plan.clone()
    };
    subject.check(plan)?;
    subject.check_labels(data)?;
    subject.check_features(data, plan)?;
    let identity = subject.identity(data, plan)?;
    let (layers, products): (Vec<String>, Vec<u64>) =
        subject.streamed()?.into_iter().map(|layer| (layer.name, layer.products)).unzip();
    let mut trials = match known {
        Some(known) => known.trials_of(&identity, &search.generator, &layers)?,
        None => Vec::new(),
    };
    let float_accuracy = share_of(&subject.classes(&subject.forward_all(data, cancel)?), data.labels());
    // Accuracies are counts over samples: the slack is for the rounding of f64 alone.
    let bar = float_accuracy - search.loss / 100.0 - 1e-9;
    let cost = |lengths: &[usize]| -> u64 {
        let each = products.iter().zip(lengths);
        let each = each.map(|(&products, &length)| products.saturating_mul(length as u64));
        each.fold(0, u64::saturating_add)
    };
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
            sum += accuracy_of(&subject, data, &config, cancel)?;
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
        let Some(first) = try_lengths(&best, &mut trials)? else {
            is_finished = false;
            return Ok(());
        };
        accuracy = first;
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
        identity,
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

impl Found {
    /// Whether the search came to its end with lengths that are good enough.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.is_finished && self.accuracy >= self.bar
    }

    /// Reads what was written as JSON.
    ///
    /// # Errors
    /// [`Error::Format`] with what is wrong.
    pub fn from_json(text: &str) -> Result<Self> {
        let fault = |reason: String| Error::Format { file: "search".to_owned(), reason };
        let read: Self = serde_json::from_str(text).map_err(|error| fault(error.to_string()))?;
        let n = read.layers.len();
        if read.lengths.len() != n || read.products.len() != n {
            return Err(fault("it has not one length for each layer".to_owned()));
        }
        let is_sound = |trial: &&Trial| trial.lengths.len() == n && (0.0..=1.0).contains(&trial.accuracy);
        match read.trials.iter().position(|trial| !is_sound(&trial)) {
            Some(k) => Err(fault(format!("trial {k} cannot be true"))),
            None => Ok(read),
        }
    }

    /// It as JSON.
    ///
    /// # Errors
    /// What the writer of JSON says; not for what [`find`] found.
    pub fn to_json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map_err(|error| Error::Format { file: "search".to_owned(), reason: error.to_string() })
    }

    /// The trials, where they are those of the same search.
    fn trials_of(self, identity: &str, generator: &GeneratorName, layers: &[String]) -> Result<Vec<Trial>> {
        for (what, same) in [
            ("the network, the data or the settings", self.identity == identity && self.layers == layers),
            ("the generator", self.generator == generator.to_string()),
        ] {
            if !same {
                return Err(Error::Checkpoint(what));
            }
        }
        Ok(self.trials)
    }
}
