//! Fine-tuning of language models: of all weights, or by low-rank adapters (LoRA, Hu and others,
//! [2021](https://arxiv.org/abs/2106.09685)).
//!
//! [`LanguageModel`] is a model of the Llama family with the forward pass of `aleatron-transformer`
//! out of tensor operations with gradients. [`finetune`] trains its weights, or the corrections of
//! an adapter beside frozen weights, in floating point or through streams ([`LanguageStreams`]); [`data`]
//! reads texts.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use aleatron_tensor::Device;
//! use aleatron_train::language::{FinetuneOptions, LanguageModel, Reader, Trained, finetune};
//! use aleatron_transformer::{Adapter, AdapterOptions, ModelSource};
//!
//! let source = ModelSource::named(Path::new("model"));
//! let (config, tokenizer) = (source.config()?, source.tokenizer()?);
//! let reader = Reader { config: &config, tokenizer: tokenizer.as_ref(), length: 256 };
//! let corpus = reader.read(Path::new("text.txt"))?;
//! let adapter = Adapter::create(&config, &AdapterOptions { alpha: 16.0, ..AdapterOptions::default() }, 0)?;
//! let trained = Trained::Adapter(adapter);
//! let model = LanguageModel::from_pretrained(&source, &config, trained, &Device::Cpu)?;
//! let steps = finetune(&model, &corpus.sequences, &FinetuneOptions { steps: 50, ..FinetuneOptions::default() })?;
//! println!("loss {:.3} in the first step, {:.3} in the last", steps[0].loss, steps[49].loss);
//! model.save(Path::new("adapter"), &source)?;
//! # Ok::<(), aleatron_train::Error>(())
//! ```

pub mod data;
mod model;
mod streams;

pub use data::{Corpus, Reader, Sequence};
pub use model::{Activations, LanguageModel, ProductKind, Trained};
pub use streams::LanguageStreams;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use aleatron_core::Cancel;
use aleatron_core::conformance::Digest;
use serde::{Deserialize, Serialize};

use crate::batches::{seed_of, shuffled};
use crate::checkpoint::{Checkpoint, FORMAT};
use crate::optimizer::{Adam, AdamOptions, Optimizer, clip_grad_norm};
use crate::{Error, Result, Schedule, loss};
use model::{Dropout, PassOptions};

/// The time between two checkpoints.
const SAVE_EVERY: Duration = Duration::from_secs(30);

/// The order of sequences in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SequenceOrder {
    /// Another order in each pass over the data, which the seed decides.
    #[default]
    Shuffled,
    /// The order of the data.
    Sequential,
}

/// The settings of fine-tuning.
#[derive(Debug, Clone, PartialEq)]
pub struct FinetuneOptions {
    /// Updates.
    pub steps: usize,
    /// Sequences whose gradients are computed at once.
    pub batch: usize,
    /// Batches whose gradients are added up for one update. The update equals that of a single
    /// batch of all their sequences.
    pub accumulation: usize,
    /// The settings of AdamW; the defaults are those of torch, with a learning rate of 2e-4.
    pub adam: AdamOptions,
    /// The schedule of the learning rate.
    pub schedule: Schedule,
    /// The largest norm of the gradients of a step, if it is limited.
    pub clip: Option<f64>,
    /// The order of sequences.
    pub order: SequenceOrder,
    /// Whether intermediate values are retained.
    pub activations: Activations,
    /// Decides the order of sequences and the dropout.
    pub seed: u64,
    /// A file that is written every half minute and at the end. If it exists and belongs to the
    /// same training, training resumes from it.
    pub checkpoint: Option<PathBuf>,
}

impl Default for FinetuneOptions {
    fn default() -> Self {
        Self {
            steps: 100,
            batch: 4,
            accumulation: 1,
            adam: AdamOptions { rate: 2e-4, weight_decay: 0.01, ..AdamOptions::default() },
            schedule: Schedule::Linear { warmup: 0, floor: 0.0 },
            clip: None,
            order: SequenceOrder::Shuffled,
            activations: Activations::Retained,
            seed: 0,
            checkpoint: None,
        }
    }
}

/// The record of one step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The step, counted from 1.
    pub step: usize,
    /// The mean cross entropy of its labels, before the update.
    pub loss: f64,
    /// The learning rate.
    pub rate: f64,
    /// The norm of all gradients, before it was limited.
    pub norm: f64,
    /// The labels that were predicted.
    pub targets: usize,
}

/// Trains the adapter or the weights of a model on sequences, and returns the steps.
///
/// # Errors
/// [`Error::Option`] for options outside their range and for tokens that the model does not have,
/// [`Error::StepNotFinite`] if training diverges, [`Error::File`] for a checkpoint that cannot be
/// read or written, or belongs to another training.
pub fn finetune(
    model: &LanguageModel,
    data: &[Sequence],
    options: &FinetuneOptions,
) -> Result<Vec<Step>> {
    finetune_with(model, data, options, Cancel::NEVER, &mut |_| {})
}

/// Trains like [`finetune`], with cancellation and a report of every step. A cancelled training
/// writes its checkpoint.
///
/// # Errors
/// As [`finetune`], and [`aleatron_core::Error::Cancelled`].
pub fn finetune_with(
    model: &LanguageModel,
    data: &[Sequence],
    options: &FinetuneOptions,
    cancel: Cancel<'_>,
    report: &mut dyn FnMut(&Step),
) -> Result<Vec<Step>> {
    options.check()?;
    options.check_files(model, data)?;
    let mut run = Run::new(model, data, options)?;
    run.resume()?;
    run.history.iter().for_each(&mut *report);
    let mut saved = Instant::now();
    while run.history.len() < options.steps {
        if let Err(cancelled) = cancel.check() {
            run.save()?;
            return Err(cancelled.into());
        }
        report(&run.step()?);
        if run.history.len() == options.steps || saved.elapsed() >= SAVE_EVERY {
            run.save()?;
            saved = Instant::now();
        }
    }
    Ok(run.history)
}

impl FinetuneOptions {
    /// Checks everything that depends on neither the model nor the data.
    ///
    /// # Errors
    /// [`Error::Option`] for an option outside its range.
    pub fn check(&self) -> Result<()> {
        for (option, value) in
            [("steps", self.steps), ("batch", self.batch), ("accumulation", self.accumulation)]
        {
            if value == 0 {
                return Err(Error::option(option, 0, "it must be at least 1"));
            }
        }
        if self
            .batch
            .checked_mul(self.accumulation)
            .and_then(|n| n.checked_mul(self.steps))
            .is_none()
        {
            return Err(Error::option(
                "steps",
                self.steps,
                "batch times accumulation times steps is too large",
            ));
        }
        if let Some(limit) = self.clip
            && (limit.is_nan() || limit <= 0.0)
        {
            return Err(Error::option("limit of the gradient norm", limit, "it must be positive"));
        }
        Adam::new(Vec::new(), self.adam).map(drop)
    }

    /// Checks the data for a model, and the folder of the checkpoint.
    fn check_files(&self, model: &LanguageModel, data: &[Sequence]) -> Result<()> {
        if data.is_empty() {
            return Err(Error::option("number of sequences", 0, "there must be at least one"));
        }
        data.iter().try_for_each(|sequence| sequence.check(model.config()))?;
        if let Some(parent) = self.checkpoint.as_ref().and_then(|path| path.parent())
            && !parent.as_os_str().is_empty()
            && !parent.is_dir()
        {
            let reason = "the folder does not exist; create it first".to_owned();
            return Err(Error::File { path: parent.to_owned(), reason });
        }
        if let Some(path) = self.checkpoint.as_ref().filter(|path| path.exists() && !path.is_file())
        {
            let reason = "not a regular file; choose another path for the checkpoint".to_owned();
            return Err(Error::File { path: path.clone(), reason });
        }
        Ok(())
    }
}

/// The part of a checkpoint that is not a tensor.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    format: u32,
    fingerprint: String,
    steps: Vec<Step>,
}

/// State of one in-flight fine-tuning.
struct Run<'a> {
    model: &'a LanguageModel,
    data: &'a [Sequence],
    options: &'a FinetuneOptions,
    optimizer: Adam,
    dropout: f64,
    history: Vec<Step>,
    /// The order of the sequences in one pass over the data, and the pass.
    order: (usize, Vec<usize>),
    fingerprint: Option<String>,
}

impl<'a> Run<'a> {
    fn new(
        model: &'a LanguageModel,
        data: &'a [Sequence],
        options: &'a FinetuneOptions,
    ) -> Result<Self> {
        let products =
            if model.streams().is_some() { ProductKind::Streams } else { ProductKind::Float };
        model.trained().check(products)?;
        // Reading all weights takes time: only a checkpoint needs it.
        let fingerprint =
            options.checkpoint.as_ref().map(|_| fingerprint(model, data, options)).transpose()?;
        Ok(Self {
            model,
            data,
            options,
            optimizer: Adam::new(model.parameters(), options.adam)?,
            dropout: model.trained().dropout(),
            history: Vec::new(),
            order: (0, ordered(data.len(), options, 0)),
            fingerprint,
        })
    }

    /// Returns a sequence of the endless row of passes over the data.
    fn sequence(&mut self, index: usize) -> &'a Sequence {
        let (pass, position) = (index / self.data.len(), index % self.data.len());
        if self.order.0 != pass {
            self.order = (pass, ordered(self.data.len(), self.options, pass));
        }
        &self.data[self.order.1[position]]
    }

    /// Computes the gradients of one step, updates the parameters and records the step.
    fn step(&mut self) -> Result<Step> {
        let (options, done) = (self.options, self.history.len());
        let size = options.batch * options.accumulation;
        let sequences: Vec<&Sequence> =
            (done * size..(done + 1) * size).map(|i| self.sequence(i)).collect();
        let targets = sequences.iter().map(|sequence| sequence.targets()).sum();
        let rate = options.adam.rate * options.schedule.factor(done, options.steps);
        self.optimizer.set_rate(rate);
        let fault = |what, value| Error::StepNotFinite { what, value, step: done + 1 };
        let mut sum = 0.0;
        for (k, batch) in sequences.chunks(options.batch).enumerate() {
            let seed = seed_of(options.seed, (done * options.accumulation + k) as u64);
            let dropout = Dropout::Enabled { share: self.dropout, seed };
            let pass = PassOptions { dropout, activations: options.activations, seed };
            let loss = self.model.partial_loss(batch, targets, pass)?;
            let value = loss::finite(&loss)?;
            if !value.is_finite() {
                self.optimizer.zero_grad();
                return Err(fault("loss", value));
            }
            loss.backward()?;
            sum += value;
        }
        let norm =
            clip_grad_norm(self.optimizer.parameters(), options.clip.unwrap_or(f64::INFINITY))?;
        if !norm.is_finite() {
            self.optimizer.zero_grad();
            return Err(fault("norm of the gradients", norm));
        }
        self.optimizer.step()?;
        let record = Step { step: done + 1, loss: sum, rate, norm, targets };
        self.history.push(record);
        Ok(record)
    }

    /// Writes the checkpoint, if there is one.
    fn save(&self) -> Result<()> {
        let (Some(path), Some(fingerprint)) = (&self.options.checkpoint, &self.fingerprint) else {
            return Ok(());
        };
        let named = self.model.named_parameters().into_iter();
        let checkpoint = Checkpoint {
            parameters: named
                .map(|(name, parameter)| (name, parameter.tensor().detach()))
                .collect(),
            best: BTreeMap::new(),
            optimizer: self.optimizer.state()?,
            record: Record {
                format: FORMAT,
                fingerprint: fingerprint.clone(),
                steps: self.history.clone(),
            },
        };
        checkpoint.save(path)
    }

    /// Goes on from the checkpoint, if it exists.
    fn resume(&mut self) -> Result<()> {
        let Some(path) = self.options.checkpoint.as_ref().filter(|path| path.exists()) else {
            return Ok(());
        };
        let fault = |reason: String| Error::File { path: path.clone(), reason };
        let Checkpoint::<Record> { parameters, optimizer, record, .. } = Checkpoint::load(path)?;
        if Some(&record.fingerprint) != self.fingerprint.as_ref() {
            let reason = "the checkpoint belongs to another training (model, adapter, data or options differ); \
                          remove it or choose another file";
            return Err(fault(reason.to_owned()));
        }
        for (name, parameter) in self.model.named_parameters() {
            let value =
                parameters.get(&name).ok_or_else(|| fault(format!("\"{name}\" is missing")))?;
            parameter.set(&value.to_device(&parameter.tensor().device())?)?;
        }
        self.optimizer.load_state(&optimizer)?;
        self.history = record.steps;
        Ok(())
    }
}

/// Returns the order of sequences in one pass over the data.
fn ordered(n: usize, options: &FinetuneOptions, pass: usize) -> Vec<usize> {
    match options.order {
        SequenceOrder::Shuffled => shuffled(n, options.seed, pass as u64),
        SequenceOrder::Sequential => (0..n).collect(),
    }
}

/// Returns a hash of everything that decides the result, except for the file of the checkpoint.
fn fingerprint(
    model: &LanguageModel,
    data: &[Sequence],
    options: &FinetuneOptions,
) -> Result<String> {
    let mut digest = Digest::default();
    let settings = FinetuneOptions { checkpoint: None, ..options.clone() };
    let (config, streams) = (model.config(), model.streams());
    let text = format!("{settings:?} {config:?} {} {streams:?}", model.trained().dropout());
    digest.answer(text.bytes().map(u64::from).collect::<Vec<_>>());
    model.digest(&mut digest)?;
    for sequence in data {
        digest.answer(sequence.tokens().iter().map(|&token| u64::from(token)));
        digest.answer(sequence.labels().iter().map(|&label| label as u64));
    }
    Ok(format!("{:016x}", digest.finish()))
}
