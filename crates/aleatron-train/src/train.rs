//! The training loop.

use std::collections::BTreeMap;
use std::path::PathBuf;

use aleatron_core::Cancel;
use aleatron_core::conformance::Digest;
use aleatron_data::{Dataset, LabelKind};
use aleatron_engine::network::Network;
use aleatron_tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::batches::{Augmentation, shuffled, split};
use crate::checkpoint::{Checkpoint, Record};
use crate::forward::{Forward, Model};
use crate::loss::{self, Loss};
use crate::optimizer::{Optimizer, OptimizerKind, clip_grad_norm};
use crate::schedule::Schedule;
use crate::score::{Samples, Score};
use crate::{Error, Result};

/// The settings of a training. The defaults suit fine-tuning of a trained network.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOptions {
    /// Passes over the data.
    pub epochs: usize,
    /// Samples of a step.
    pub batch: usize,
    /// The rule of the updates, with its learning rate.
    pub optimizer: OptimizerKind,
    /// The schedule of the learning rate.
    pub schedule: Schedule,
    /// The loss.
    pub loss: Loss,
    /// The forward pass of training.
    pub forward: Forward,
    /// Random changes of the training samples.
    pub augmentation: Augmentation,
    /// The largest norm of the gradients of a step, if it is limited.
    pub clip: Option<f64>,
    /// The share of the samples that is not trained on, by which the best epoch is chosen. With 0,
    /// the last epoch is the result.
    pub validation: f64,
    /// The number of epochs without a better validation score after which training ends.
    pub patience: Option<usize>,
    /// Decides the split, the order of samples, augmentation and random streams.
    pub seed: u64,
    /// The device of gradients. Streams run on the device of their configuration.
    pub device: Device,
    /// A file that is written after every epoch. If it exists and belongs to the same training,
    /// training resumes from it.
    pub checkpoint: Option<PathBuf>,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            epochs: 20,
            batch: 64,
            optimizer: OptimizerKind::default(),
            schedule: Schedule::default(),
            loss: Loss::Automatic,
            forward: Forward::Float,
            augmentation: Augmentation::default(),
            clip: None,
            validation: 0.1,
            patience: None,
            seed: 0,
            device: Device::Cpu,
            checkpoint: None,
        }
    }
}

/// The record of one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// The epoch, counted from 1.
    pub epoch: usize,
    /// The mean loss of its steps.
    pub loss: f64,
    /// The learning rate of its last step.
    pub rate: f64,
    /// The score of the validation samples after it, with the forward pass of training; `None`
    /// without such samples.
    pub validation: Option<Score>,
}

/// The result of a training.
#[derive(Debug, Clone)]
pub struct Trained {
    /// The network after the best epoch, or the given network if no epoch was better.
    pub network: Network,
    /// The score of the validation samples before training.
    pub before: Option<Score>,
    /// All epochs.
    pub history: Vec<Epoch>,
    /// The epoch of the result, counted from 1; 0 if no epoch was better than the given network.
    pub best_epoch: usize,
}

impl Trained {
    /// Returns the result of a training without epochs.
    pub(crate) fn unchanged(network: Network) -> Self {
        Self { network, before: None, history: Vec::new(), best_epoch: 0 }
    }
}

/// A report from a training.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// The score of the validation samples before training.
    Start {
        /// The score; none without such samples.
        validation: Option<Score>,
        /// Steps of an epoch.
        steps: usize,
    },
    /// A step has finished.
    Step {
        /// The epoch, counted from 1.
        epoch: usize,
        /// The step of the epoch, counted from 1.
        step: usize,
        /// The loss.
        loss: f64,
    },
    /// An epoch has finished.
    Epoch(&'a Epoch),
}

/// Trains a network on samples with labels or targets.
///
/// # Errors
/// [`Error::Option`] for options outside their range, [`Error::Data`] for samples that do not fit
/// the network, [`Error::NoGradient`] with the node that cannot be differentiated,
/// [`Error::NotFinite`] if training diverges, [`Error::Engine`] if the network cannot run so.
pub fn train(network: &Network, data: &Dataset, options: &TrainOptions) -> Result<Trained> {
    train_with(network, data, options, Cancel::NEVER, &mut |_| {})
}

/// Trains like [`train`], with cancellation and reports.
///
/// # Errors
/// As [`train`], and [`aleatron_core::Error::Cancelled`].
pub fn train_with(
    network: &Network,
    data: &Dataset,
    options: &TrainOptions,
    cancel: Cancel<'_>,
    report: &mut dyn FnMut(Progress<'_>),
) -> Result<Trained> {
    check(network, data, options)?;
    let mut run = Run::new(network, data, options)?;
    let mut before = run.resume()?;
    if before.is_none() {
        before = run.validate(cancel)?;
        run.best_score = before;
    }
    report(Progress::Start { validation: before, steps: run.steps() });
    while run.history.len() < options.epochs && !run.is_exhausted() {
        let epoch = run.epoch(cancel, report)?;
        report(Progress::Epoch(&epoch));
        run.save(before)?;
    }
    let Run { history, best_epoch, .. } = &run;
    let (history, best_epoch) = (history.clone(), *best_epoch);
    Ok(Trained { network: run.result()?, before, history, best_epoch })
}

/// Checks everything that can be known before the first step.
pub(crate) fn check(network: &Network, data: &Dataset, options: &TrainOptions) -> Result<()> {
    data.check_shape(&network.input_shape())?;
    match data.label_kind() {
        LabelKind::Classes => {
            let classes = network.n_classes();
            data.check_classes(classes)?;
            if let Some((sample, &label)) =
                data.labels().iter().enumerate().find(|(_, l)| **l >= classes)
            {
                return Err(Error::Label { sample, label, classes });
            }
        }
        LabelKind::Numbers if data.n_targets() != network.n_outputs() => {
            let value = format!("{} for {} outputs", data.n_targets(), network.n_outputs());
            return Err(Error::option(
                "number of targets",
                value,
                "there must be one for each output",
            ));
        }
        _ => {}
    }
    if data.is_empty() {
        return Err(Error::option("number of samples", 0, "there must be at least one"));
    }
    if options.batch == 0 {
        return Err(Error::option("batch", 0, "it must be at least 1"));
    }
    if let Some(batch) = network.batch()
        && batch != options.batch
    {
        let expected = "the network takes a fixed number of samples; use it as the batch";
        return Err(Error::option("batch", options.batch, expected));
    }
    if let Some(limit) = options.clip
        && (limit.is_nan() || limit <= 0.0)
    {
        return Err(Error::option("limit of the gradient norm", limit, "it must be positive"));
    }
    options.loss.check()?;
    options.augmentation.check(data.sample_shape())?;
    options.forward.check(network)?;
    if let Some(parent) = options.checkpoint.as_ref().and_then(|path| path.parent())
        && !parent.as_os_str().is_empty()
        && !parent.is_dir()
    {
        let reason = "the folder does not exist; create it first".to_owned();
        return Err(Error::File { path: parent.to_owned(), reason });
    }
    Ok(())
}

/// State of one in-flight training.
struct Run<'a> {
    data: &'a Dataset,
    options: &'a TrainOptions,
    model: Model,
    optimizer: Box<dyn Optimizer>,
    training: Vec<usize>,
    validation: Vec<usize>,
    history: Vec<Epoch>,
    best: BTreeMap<String, Tensor>,
    best_score: Option<Score>,
    best_epoch: usize,
    fingerprint: String,
}

impl<'a> Run<'a> {
    fn new(network: &Network, data: &'a Dataset, options: &'a TrainOptions) -> Result<Self> {
        let model = Model::new(network, &options.device)?;
        let optimizer = options.optimizer.build(model.parameters())?;
        let (training, validation) = split(data.len(), options.validation, options.seed)?;
        let fingerprint = fingerprint(network, data, options)?;
        let mut run = Self {
            data,
            options,
            model,
            optimizer,
            training,
            validation,
            history: Vec::new(),
            best: BTreeMap::new(),
            best_score: None,
            best_epoch: 0,
            fingerprint,
        };
        run.best = run.parameters();
        Ok(run)
    }

    fn parameters(&self) -> BTreeMap<String, Tensor> {
        self.model
            .named()
            .map(|(name, parameter)| (name.to_owned(), parameter.tensor().detach()))
            .collect()
    }

    fn steps(&self) -> usize {
        match self.model.batch() {
            // A partial batch cannot run.
            Some(batch) => self.training.len() / batch,
            None => self.training.len().div_ceil(self.options.batch),
        }
    }

    /// Returns whether the last epochs brought no better score.
    fn is_exhausted(&self) -> bool {
        let since = self.history.len().saturating_sub(self.best_epoch);
        self.options
            .patience
            .is_some_and(|patience| !self.validation.is_empty() && since >= patience.max(1))
    }

    /// Runs one epoch and records it.
    fn epoch(&mut self, cancel: Cancel<'_>, report: &mut dyn FnMut(Progress<'_>)) -> Result<Epoch> {
        let (options, epoch) = (self.options, self.history.len() + 1);
        let (steps, total) = (self.steps(), self.steps() * self.options.epochs);
        let order = shuffled(self.training.len(), options.seed, epoch as u64);
        let order: Vec<usize> = order.into_iter().map(|index| self.training[index]).collect();
        let (mut sum, mut rate) = (0.0, 0.0);
        for (step, samples) in order.chunks(options.batch).take(steps).enumerate() {
            cancel.check()?;
            let done = (epoch - 1) * steps + step;
            rate = options.optimizer.rate() * options.schedule.factor(done, total);
            self.optimizer.set_rate(rate);
            let chosen = Samples { data: self.data, indices: samples, loss: options.loss };
            let mut features = chosen.features()?;
            let width = self.data.n_features();
            for (sample, &index) in features.chunks_exact_mut(width.max(1)).zip(samples) {
                options.augmentation.apply(
                    sample,
                    self.data.sample_shape(),
                    options.seed,
                    epoch as u64,
                    index,
                );
            }
            let scores = self
                .model
                .scores(&features, &options.forward, options.seed, done as u64, cancel)
                .map_err(|error| self.diverged(error, epoch, step + 1))?;
            let loss = chosen.loss(&scores)?;
            let value = loss::finite(&loss)?;
            let fault = |what, value| Error::NotFinite { what, value, epoch, step: step + 1 };
            if !value.is_finite() {
                return Err(fault("loss", value));
            }
            loss.backward()?;
            if let Some(limit) = options.clip {
                let norm = clip_grad_norm(self.optimizer.parameters(), limit)?;
                if !norm.is_finite() {
                    return Err(fault("norm of the gradients", norm));
                }
            }
            self.optimizer.step()?;
            self.model.project()?;
            sum += value * samples.len() as f64;
            report(Progress::Step { epoch, step: step + 1, loss: value });
        }
        let validation =
            self.validate(cancel).map_err(|error| self.diverged(error, epoch, steps))?;
        let is_better = match (&validation, &self.best_score) {
            (Some(new), Some(best)) => new.is_better_than(best),
            _ => true,
        };
        if is_better {
            (self.best, self.best_score, self.best_epoch) = (self.parameters(), validation, epoch);
        }
        let loss = sum / self.training.len().max(1) as f64;
        let record = Epoch { epoch, loss, rate, validation };
        self.history.push(record);
        Ok(record)
    }

    /// Returns the error of a network with a weight that is not finite as that of a training that
    /// diverged, and other errors as they are.
    fn diverged(&self, error: Error, epoch: usize, step: usize) -> Error {
        let weights = self.model.named().filter_map(|(_, parameter)| {
            let values = parameter.tensor().to_vec::<f32>().ok()?;
            values.into_iter().find(|value| !value.is_finite())
        });
        let weight = match error {
            Error::Engine(_) => weights.into_iter().next(),
            _ => None,
        };
        match weight {
            Some(value) => {
                let (what, value) = ("value of a weight", f64::from(value));
                Error::NotFinite { what, value, epoch, step }
            }
            None => error,
        }
    }

    /// Evaluates the validation samples as the network is trained to run, over all configurations.
    fn validate(&self, cancel: Cancel<'_>) -> Result<Option<Score>> {
        if self.validation.is_empty() {
            return Ok(None);
        }
        let configs = self.options.forward.configs();
        let samples =
            Samples { data: self.data, indices: &self.validation, loss: self.options.loss };
        samples.score(&self.model.network()?, &configs, cancel).map(Some)
    }

    /// Returns the network with the best parameters.
    fn result(&self) -> Result<Network> {
        for (name, parameter) in self.model.named() {
            if let Some(best) = self.best.get(name) {
                parameter.set(best)?;
            }
        }
        self.model.network()
    }

    /// Writes the checkpoint, if there is one.
    fn save(&self, before: Option<Score>) -> Result<()> {
        let Some(path) = &self.options.checkpoint else { return Ok(()) };
        let record =
            Record::new(self.fingerprint.clone(), self.history.clone(), before, self.best_epoch);
        let checkpoint = Checkpoint {
            parameters: self.parameters(),
            best: self.best.clone(),
            optimizer: self.optimizer.state()?,
            record,
        };
        checkpoint.save(path)
    }

    /// Resumes from the checkpoint, if there is one; returns the validation score before training.
    fn resume(&mut self) -> Result<Option<Score>> {
        let Some(path) = self.options.checkpoint.as_ref().filter(|path| path.exists()) else {
            return Ok(None);
        };
        let Checkpoint::<Record> { parameters, best, optimizer, record } = Checkpoint::load(path)?;
        if record.fingerprint != self.fingerprint {
            let reason = "the checkpoint belongs to another training (network, data or options differ); \
                          remove it or choose another file";
            return Err(Error::File { path: path.clone(), reason: reason.to_owned() });
        }
        for (name, parameter) in self.model.named() {
            let (Some(value), true) = (parameters.get(name), best.contains_key(name)) else {
                let reason = format!("parameter \"{name}\" is missing");
                return Err(Error::File { path: path.clone(), reason });
            };
            parameter.set(&value.to_device(&self.options.device)?)?;
        }
        self.optimizer.load_state(&optimizer)?;
        self.best_epoch = record.best_epoch;
        self.best_score = match self.best_epoch.checked_sub(1) {
            Some(index) => record.history.get(index).and_then(|epoch| epoch.validation),
            None => record.before,
        };
        let mut on_device = BTreeMap::new();
        for (name, tensor) in best {
            on_device.insert(name, tensor.to_device(&self.options.device)?);
        }
        (self.best, self.history) = (on_device, record.history);
        Ok(record.before)
    }
}

/// Returns a hash of everything that decides the result of a training, except for the device and
/// the file of the checkpoint.
pub(crate) fn fingerprint(
    network: &Network,
    data: &Dataset,
    options: &TrainOptions,
) -> Result<String> {
    let mut digest = Digest::default();
    let settings = TrainOptions { checkpoint: None, device: Device::Cpu, ..options.clone() };
    for bytes in [&network.to_onnx()?[..], format!("{settings:?}").as_bytes()] {
        digest.answer(bytes.iter().map(|&byte| u64::from(byte)));
    }
    for (_, chunk) in data.chunks(1024) {
        chunk?.iter().for_each(|feature| digest.word(feature.to_bits()));
    }
    digest.answer(data.labels().iter().map(|&label| label as u64));
    digest.answer(data.targets().iter().map(|target| target.to_bits()));
    Ok(format!("{:016x}", digest.finish()))
}
