//! Searches for the shortest stream lengths of layers, with retraining.
//!
//! The trials, their order and their scores are those of
//! [`find_retrained`](aleatron_eval::find_retrained): this module trains the network of each trial
//! and saves the state after it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use aleatron_core::Cancel;
use aleatron_core::conformance::Digest;
use aleatron_data::Dataset;
use aleatron_engine::Device as StreamDevice;
use aleatron_engine::network::{Network, StreamConfig};
use aleatron_eval::{Found, Plan, Retrain, Search, find, find_retrained};
use aleatron_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::batches::split;
use crate::checkpoint::{Checkpoint, FORMAT};
use crate::train::{check, fingerprint};
use crate::{Epoch, Error, Forward, Progress, Result, Score, TrainOptions, Trained, train_with};

/// The result of a search for stream lengths with retraining.
#[derive(Debug, Clone)]
pub struct TrainedLengths {
    /// The training of the last accepted trial, with the network of the result. If no trial ran,
    /// the given network without epochs.
    pub trained: Trained,
    /// The search with retraining. Scores are those of the validation samples.
    pub found: Found,
    /// The search for the given network without training, on the same samples with the same
    /// permitted loss and budget.
    pub without_retraining: Found,
}

/// A report from a search for stream lengths with retraining.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum LengthProgress<'a> {
    /// The training of a trial.
    Training {
        /// The trial, counted from 1.
        trial: usize,
        /// The progress of its training.
        progress: Progress<'a>,
    },
    /// The training of a trial diverged, so that the trial has the weights that it began with.
    Diverged {
        /// The trial, counted from 1.
        trial: usize,
        /// The loss or the gradient that is not finite.
        error: &'a Error,
    },
    /// The state of the search before or after a trial.
    Search(&'a Found),
    /// The state of the search without training, before or after a trial.
    WithoutRetraining(&'a Found),
}

/// Searches for the shortest streams of each layer, and trains the network for them.
///
/// Every trial trains through the streams of its lengths with `options`, from the weights of the
/// last accepted trial, and passes if the score of the validation samples is within `search.loss`
/// of the floating-point score of the given network. A trial whose training diverges has the weights
/// that it began with. The lengths are halved for all layers first,
/// from `search.longest` down, then for one layer at a time, the most expensive one first. `plan`
/// gives the other settings of the streams; its lengths and generators, and `options.forward`, are
/// not used.
///
/// `options.checkpoint` is written after each trial; a search with the same arguments, except for
/// the budget and devices, resumes from it. The epochs of a trial that was interrupted are run
/// again.
///
/// ```
/// use aleatron_core::Cancel;
/// use aleatron_data::Dataset;
/// use aleatron_engine::network::{Network, ValueRange};
/// use aleatron_eval::{Plan, Search};
/// use aleatron_train::{TrainOptions, train_lengths};
///
/// let network = Network::digits_plain()?;
/// let data = Dataset::digits_train();
/// let plan = Plan { range: ValueRange::Saturate, ..Plan::default() };
/// let search = Search { generator: "sobol".parse()?, loss: 2.0, longest: 16, shortest: 8, budget: 4 };
/// let options = TrainOptions { epochs: 1, ..TrainOptions::default() };
/// let found = train_lengths(&network, &data, &plan, &search, &options, Cancel::NEVER, &mut |_| ())?;
/// assert!(found.found.bit_macs <= found.without_retraining.bit_macs);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`train_with`] and [`find()`]; [`Error::Option`] if there are no validation samples.
pub fn train_lengths(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    search: &Search,
    options: &TrainOptions,
    cancel: Cancel<'_>,
    report: &mut dyn FnMut(LengthProgress<'_>),
) -> Result<TrainedLengths> {
    let settings = TrainOptions { forward: Forward::Float, ..options.clone() };
    check(network, data, &settings)?;
    let (_, validation) = split(data.len(), options.validation, options.seed)?;
    if validation.is_empty() {
        let expected = "a search chooses lengths by the score of validation samples; use a share \
                        above 0 that covers at least one sample";
        return Err(Error::option("validation share", options.validation, expected));
    }
    let samples = data.subset(format!("{} (validation)", data.name()), &validation)?;
    let mut retraining = Retraining {
        given: network,
        data,
        options,
        report,
        identity: identity(network, data, plan, search, &settings)?,
        trial: 1,
        last: Trained::unchanged(network.clone()),
        accepted: Trained::unchanged(network.clone()),
        saved: 0,
    };
    let known = retraining.resume()?;
    let run = find_retrained(network, &samples, plan, search, known, cancel, &mut retraining);
    let (found, network) = run?;
    // A cancelled search returns its trials.
    cancel.check()?;
    let trained = Trained { network, ..retraining.accepted };
    let without_retraining =
        find(retraining.given, &samples, plan, search, None, cancel, |found| {
            (retraining.report)(LengthProgress::WithoutRetraining(found))
        })?;
    cancel.check()?;
    Ok(TrainedLengths { trained, found, without_retraining })
}

/// The training of the trials of one search.
struct Retraining<'a> {
    given: &'a Network,
    data: &'a Dataset,
    options: &'a TrainOptions,
    report: &'a mut dyn FnMut(LengthProgress<'_>),
    /// A hash of everything that decides the result.
    identity: String,
    /// The trial to run, counted from 1.
    trial: usize,
    /// The training of the last trial.
    last: Trained,
    /// The training of the last accepted trial.
    accepted: Trained,
    /// The number of trials in the checkpoint.
    saved: usize,
}

impl Retrain for Retraining<'_> {
    fn retrain(
        &mut self,
        network: &Network,
        config: &StreamConfig,
        cancel: Cancel<'_>,
    ) -> aleatron_eval::Result<Network> {
        let options = TrainOptions {
            forward: Forward::Streams(vec![config.clone()]),
            checkpoint: None,
            ..self.options.clone()
        };
        let (trial, report) = (self.trial, &mut *self.report);
        let trained = train_with(network, self.data, &options, cancel, &mut |progress| {
            report(LengthProgress::Training { trial, progress });
        });
        self.last = match trained {
            Err(error @ Error::NotFinite { .. }) => {
                report(LengthProgress::Diverged { trial, error: &error });
                Trained::unchanged(network.clone())
            }
            trained => trained.map_err(Error::into_evaluation)?,
        };
        Ok(self.last.network.clone())
    }

    fn report(&mut self, found: &Found, network: &Network) -> aleatron_eval::Result<()> {
        self.trial = found.trials.len() + 1;
        if found.trials.len() > self.saved {
            // The lengths of the search are those of the last accepted trial.
            if found.trials.last().is_some_and(|trial| trial.lengths == found.lengths) {
                self.accepted = self.last.clone();
            }
            self.save(found, network).map_err(Error::into_evaluation)?;
            self.saved = found.trials.len();
        }
        (self.report)(LengthProgress::Search(found));
        Ok(())
    }
}

impl Retraining<'_> {
    /// Writes the checkpoint, if there is one.
    fn save(&self, found: &Found, network: &Network) -> Result<()> {
        let Some(path) = &self.options.checkpoint else { return Ok(()) };
        let parameters = network.parameters()?.into_iter();
        let checkpoint = Checkpoint {
            parameters: parameters.map(|parameter| (parameter.name, parameter.value)).collect(),
            best: BTreeMap::new(),
            optimizer: BTreeMap::new(),
            record: Record {
                format: FORMAT,
                search: self.identity.clone(),
                found: found.clone(),
                history: self.accepted.history.clone(),
                before: self.accepted.before,
                best_epoch: self.accepted.best_epoch,
            },
        };
        checkpoint.save(path)
    }

    /// Reads the checkpoint, if there is one: the state of the search, and the network of its last
    /// accepted trial.
    fn resume(&mut self) -> Result<Option<(Found, Network)>> {
        let Some(path) = self.options.checkpoint.as_ref().filter(|path| path.exists()) else {
            return Ok(None);
        };
        let Checkpoint::<Record> { parameters, record, .. } = Checkpoint::load(path)?;
        if record.search != self.identity {
            let reason = "the checkpoint belongs to another search (network, data or options differ); \
                          remove it or choose another file";
            return Err(fault(path, reason));
        }
        let found = Found::from_json(&record.found.to_json()?)?;
        let mut values = HashMap::new();
        for parameter in self.given.parameters()? {
            let value: Option<&Tensor> = parameters.get(&parameter.name);
            let value = value.filter(|value| value.shape() == parameter.value.shape());
            let Some(value) = value else {
                let name = &parameter.name;
                return Err(fault(
                    path,
                    &format!("parameter \"{name}\" is missing or has another shape"),
                ));
            };
            values.insert(parameter.id, value.clone());
        }
        let network = self.given.with_parameters(&values)?;
        let Record { history, before, best_epoch, .. } = record;
        self.accepted = Trained { network: network.clone(), before, history, best_epoch };
        self.saved = found.trials.len();
        Ok(Some((found, network)))
    }
}

/// The part of a checkpoint that is not a tensor.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    format: u32,
    /// The settings and the data that the checkpoint belongs to.
    search: String,
    found: Found,
    /// The training of the last accepted trial.
    history: Vec<Epoch>,
    before: Option<Score>,
    best_epoch: usize,
}

/// Returns a hash of everything that decides the result of a search, except for the budget, devices
/// and the file of the checkpoint.
fn identity(
    network: &Network,
    data: &Dataset,
    plan: &Plan,
    search: &Search,
    options: &TrainOptions,
) -> Result<String> {
    let training = fingerprint(network, data, options)?;
    let (lengths, generators) = (Vec::new(), Vec::new());
    let plan = Plan { lengths, generators, device: StreamDevice::Cpu, ..plan.clone() };
    let search = Search { budget: 0, ..*search };
    let text = format!("{training} {plan:?} {search:?}");
    let mut digest = Digest::default();
    digest.answer(text.bytes().map(u64::from));
    Ok(format!("{:016x}", digest.finish()))
}

fn fault(path: &Path, reason: &str) -> Error {
    Error::File { path: path.to_owned(), reason: reason.to_owned() }
}
