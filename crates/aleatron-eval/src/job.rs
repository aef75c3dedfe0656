//! An evaluation with its network and data, whose tasks can be run anywhere.

use super::journal::Journal;
use super::pass::PreparedPass;
use super::plan::Plan;
use super::result::Evaluation;
use super::schedule::{Header, Labels, PassKind, Schedule, config};
use super::subject::{self, Subject};
use super::task::{Chunk, Task, TaskResult};
use crate::{Error, Result};
use aleatron_core::{Cancel, Error as CoreError, Quantity, memory};
use aleatron_data::{Dataset, LabelKind};
use aleatron_engine::Error as EngineError;
use aleatron_engine::network::Network;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Passes whose encoded weights are cached, the last used ones.
const CACHED: usize = 2;

/// An evaluation to be run as tasks, on any machine that has the network and the data; see
/// [`Journal`].
pub struct Job<'a> {
    subject: Subject,
    data: Cow<'a, Dataset>,
    plan: Plan,
    schedule: Schedule,
    /// By the index of the pass in the schedule, the last used one at the end.
    cached: Mutex<VecDeque<(usize, Arc<PreparedPass>)>>,
}

impl<'a> Job<'a> {
    /// Checks everything that can be known before anything runs. Samples with class labels are a
    /// classification, samples with targets a regression.
    ///
    /// # Errors
    /// [`Error`] for a plan that cannot be run, or data that do not fit the network.
    pub fn new(network: Arc<Network>, data: Cow<'a, Dataset>, plan: Plan) -> Result<Self> {
        let subject = Subject::new(network)?;
        plan.check_faults()?;
        let mut plan = plan.resolved(&subject);
        subject.check(&plan)?;
        plan.margins = subject.margins(&plan, &data);
        subject.check_data(&data, &plan)?;
        let labels = match data.label_kind() {
            LabelKind::Classes => {
                let (labels, n_classes) = (data.labels().to_vec(), subject.network().n_classes());
                Labels::Classes { labels, n_classes }
            }
            LabelKind::Numbers => {
                let (targets, n_outputs) = (data.targets().to_vec(), data.n_targets());
                Labels::Targets { targets, n_outputs }
            }
        };
        let evaluation = Evaluation::new(&subject, &data, &plan)?;
        let layers = subject.layers().to_vec();
        let schedule =
            Schedule::new(Header { evaluation, labels, chunk: subject.chunk(data.len()), layers })?;
        check_matrices(&schedule)?;
        Ok(Self { subject, data, plan, schedule, cached: Mutex::default() })
    }

    /// Adds the cost of the circuit of each row to an evaluation of the job.
    pub fn add_costs(&self, evaluation: &mut Evaluation) {
        super::cost::add_costs(self.subject.network(), &self.data, evaluation);
    }

    /// Returns the job with the cost of the circuit of each row in its schedule, so that merged
    /// shards have them: a merge has no network.
    #[must_use]
    pub fn with_costs(mut self) -> Self {
        let evaluation = &mut self.schedule.header.evaluation;
        super::cost::add_planned_costs(self.subject.network(), &self.data, evaluation);
        self
    }

    /// Returns the work.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Returns a journal without finished tasks, but with the cells of `checkpoint`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if it is of another evaluation.
    pub fn journal(&self, checkpoint: Option<Evaluation>) -> Result<Journal> {
        Journal::new(self.schedule.clone(), checkpoint)
    }

    /// Returns the device that tasks run on.
    #[must_use]
    pub fn device(&self) -> &aleatron_engine::Device {
        &self.plan.device
    }

    /// Returns the same job on another device, which changes times and nothing else; results keep
    /// the name of the first device.
    #[must_use]
    pub fn on(mut self, device: aleatron_engine::Device) -> Self {
        self.plan.device = device;
        self.release();
        self
    }

    /// Runs a task; `tick` is called before each chunk.
    ///
    /// # Errors
    /// [`Error::Format`] for a task of another schedule, [`CoreError::Cancelled`] when cancelled,
    /// and every failure of the network.
    pub fn run(
        &self,
        task: &Task,
        cancel: Cancel<'_>,
        tick: &mut dyn FnMut(),
    ) -> Result<TaskResult> {
        let end =
            task.first.checked_add(task.chunks).filter(|&end| end <= self.schedule.n_chunks());
        let (Some(pass), Some(end)) = (self.schedule.passes.get(task.pass), end) else {
            let reason =
                format!("there is no pass {} with chunks from {} on", task.pass, task.first);
            return Err(Error::Format { file: "task".to_owned(), reason });
        };
        let pass = match &pass.kind {
            PassKind::Float => None,
            PassKind::Streams { .. } => Some(self.pass(task.pass, &pass.kind, cancel)?),
        };
        let mut chunks = Vec::with_capacity(task.chunks);
        let mut notes = Vec::new();
        for index in task.first..end {
            tick();
            cancel.check()?;
            let samples = self.schedule.samples_of(index);
            let first = samples.start;
            let features = &*self.data.samples(samples)?;
            let chunk = match &pass {
                None => self.float_chunk(features, cancel),
                // Fits: a job has at most 2^32 samples.
                Some(pass) => pass.run(features, first as u32, cancel),
            };
            chunks.push(chunk.map_err(|error| from_sample(error, first))?);
            if pass.is_none() && index == 0 {
                notes.extend(self.subject.input_warnings(features, cancel)?);
            }
        }
        notes.extend(pass.iter().flat_map(|pass| pass.notes()));
        Ok(TaskResult { pass: task.pass, first: task.first, chunks, notes })
    }

    fn float_chunk(&self, features: &[f64], cancel: Cancel<'_>) -> Result<Chunk> {
        let scores = self.subject.forward(features, cancel)?;
        let network = self.subject.network();
        Ok(match self.data.label_kind() {
            LabelKind::Classes => Chunk { classes: network.classes(&scores), ..Chunk::default() },
            LabelKind::Numbers => {
                subject::check_outputs(&scores, network.n_outputs())?;
                Chunk { outputs: scores, ..Chunk::default() }
            }
        })
    }

    /// Frees the encoded weights of passes.
    pub fn release(&self) {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn pass(&self, index: usize, kind: &PassKind, cancel: Cancel<'_>) -> Result<Arc<PreparedPass>> {
        let cached = || self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut cached = cached();
            let known =
                cached.iter().position(|(known, _)| *known == index).and_then(|k| cached.remove(k));
            if let Some((_, pass)) = known {
                cached.push_back((index, Arc::clone(&pass)));
                return Ok(pass);
            }
        }
        let prepared = match self.prepare(kind, cancel) {
            // The cached passes may take the memory that this one needs.
            Err(error) if matches!(error.core(), Some(CoreError::Memory { .. })) => {
                self.release();
                self.prepare(kind, cancel)?
            }
            prepared => prepared?,
        };
        let prepared = Arc::new(prepared);
        let mut cached = cached();
        if cached.len() >= CACHED {
            cached.pop_front();
        }
        cached.push_back((index, Arc::clone(&prepared)));
        Ok(prepared)
    }

    fn prepare(&self, kind: &PassKind, cancel: Cancel<'_>) -> Result<PreparedPass> {
        let &PassKind::Streams { generator, faults, seed, cycles, length, extent } = kind else {
            return Err(CoreError::Internal { place: "eval::Job::prepare" }.into());
        };
        let names: Vec<&str> =
            self.subject.layers().iter().map(|layer| layer.name.as_str()).collect();
        let config = config(&names, &self.plan, &generator, faults, seed, [cycles, length])?;
        let (labels, margins) = (self.data.label_kind(), &self.plan.margins);
        PreparedPass::new(&self.subject, labels, margins, &config, extent, cancel)
    }

    /// Returns the job as bytes, for workers of other processes and machines.
    ///
    /// Eight bytes hold the size of a JSON object; the object, the ONNX file of the network and the
    /// features follow. Numbers are little-endian.
    ///
    /// # Errors
    /// [`aleatron_core::Error::Memory`] if they do not fit.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let network = self.subject.network().to_onnx()?;
        let head = Head {
            id: self.schedule.id()?,
            network_bytes: network.len(),
            data: self.data.name().to_owned(),
            n_features: self.data.n_features(),
            labels: self.schedule.header.labels.clone(),
            plan: self.plan.clone(),
        };
        let head = super::task::to_line(&head)?;
        let values = self.data.len() as u128 * self.data.n_features() as u128;
        let size = 8 + head.len() as u128 + network.len() as u128 + 8 * values;
        let mut bytes: Vec<u8> = memory::with_capacity(size, Quantity::Value)?;
        bytes.extend((head.len() as u64).to_le_bytes());
        bytes.extend(head.as_bytes());
        bytes.extend(network);
        for (_, features) in self.data.chunks(self.schedule.header.chunk) {
            features?.iter().for_each(|feature| bytes.extend(feature.to_le_bytes()));
        }
        Ok(bytes)
    }
}

/// The first part of a job as bytes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// The hash of the schedule, which differs between versions.
    id: String,
    network_bytes: usize,
    data: String,
    n_features: usize,
    labels: Labels,
    plan: Plan,
}

impl Job<'static> {
    /// Reads bytes that [`Job::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] with the fault, also if the bytes were written by another version, and as
    /// [`Job::new`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let fault =
            |reason: &str| Error::Format { file: "job".to_owned(), reason: reason.to_owned() };
        let short = || fault("it ends too soon");
        let (size, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        let size = usize::try_from(u64::from_le_bytes(*size)).map_err(|_| short())?;
        let (head, rest) = rest.split_at_checked(size).ok_or_else(short)?;
        let head: Head = serde_json::from_slice(head).map_err(|error| fault(&error.to_string()))?;
        let (network, features) = rest.split_at_checked(head.network_bytes).ok_or_else(short)?;
        let network = Arc::new(Network::from_onnx(network)?);
        let (features, odd) = features.as_chunks::<8>();
        if !odd.is_empty() {
            return Err(short());
        }
        let features = features.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        let data = match head.labels {
            Labels::Classes { labels, .. } => {
                Dataset::new(head.data, head.n_features, features, labels)?
            }
            Labels::Targets { targets, n_outputs } => {
                Dataset::with_targets(head.data, head.n_features, features, n_outputs, targets)?
            }
        };
        let job = Self::new(network, Cow::Owned(data), head.plan)?;
        match job.schedule.id()? == head.id {
            true => Ok(job),
            false => Err(fault("it was written by another version of Aleatron")),
        }
    }
}

impl std::fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// Returns an error of a chunk that begins with sample `first` as one of all samples.
pub(super) fn from_sample(error: Error, first: usize) -> Error {
    match error {
        Error::Engine(EngineError::Feature { sample, feature, value, low, high }) => {
            EngineError::Feature { sample: first + sample, feature, value, low, high }.into()
        }
        Error::Engine(EngineError::NotWhole { sample, feature, value, input }) => {
            EngineError::NotWhole { sample: first + sample, feature, value, input }.into()
        }
        Error::Output { sample, output, value } => {
            Error::Output { sample: first + sample, output, value }
        }
        error => error,
    }
}

/// Checks that the confusion matrices of all cells fit into memory.
fn check_matrices(schedule: &Schedule) -> Result<()> {
    let Labels::Classes { n_classes, .. } = &schedule.header.labels else { return Ok(()) };
    let n_classes = *n_classes as u128;
    let entries = n_classes.saturating_mul(n_classes).saturating_mul(schedule.cells.len() as u128);
    Ok(memory::check(entries.saturating_mul(size_of::<u64>() as u128), Quantity::Confusion)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn job(data: &Dataset) -> Job<'_> {
        let generators = vec!["sobol".parse().unwrap(), "bernoulli".parse().unwrap()];
        let plan = Plan { lengths: vec![8, 16], generators, seeds: 1, ..Plan::default() };
        Job::new(Network::digits_noise_aware().unwrap().into(), Cow::Borrowed(data), plan).unwrap()
    }

    fn data() -> Dataset {
        let digits = Dataset::digits_test();
        Dataset::new("few", 64, digits.features()[..128].to_vec(), vec![0, 1]).unwrap()
    }

    #[test]
    fn the_last_passes_are_cached_until_they_are_released() {
        let data = data();
        let job = job(&data);
        let cached =
            |job: &Job<'_>| job.cached.lock().unwrap().iter().map(|(pass, _)| *pass).collect();
        let run = |pass: usize| -> Vec<usize> {
            let task = Task { pass, first: 0, chunks: 1 };
            job.run(&task, Cancel::NEVER, &mut || ()).unwrap();
            cached(&job)
        };
        // The pass in floating point has no encoded weights.
        assert_eq!((run(0), run(1), run(2)), (vec![], vec![1], vec![1, 2]));
        let first = Arc::clone(&job.cached.lock().unwrap()[0].1);
        assert_eq!(run(1), [2, 1]);
        assert!(Arc::ptr_eq(&first, &job.cached.lock().unwrap()[1].1));
        assert_eq!(run(3), [1, 3]);
        job.release();
        assert!(cached(&job).is_empty());
        assert_eq!(run(1), [1]);
        assert!(cached(&job.on(aleatron_engine::Device::Cpu)).is_empty());
    }

    /// Preparation is repeated only if memory ran out.
    #[test]
    fn cancelled_preparation_is_not_repeated() {
        let (data, calls) = (data(), AtomicUsize::new(0));
        let at_once = || calls.fetch_add(1, Ordering::Relaxed) == 0;
        // The first pass of random streams, which are encoded before anything is counted.
        let task = Task { pass: 3, first: 0, chunks: 1 };
        let cancelled = job(&data).run(&task, Cancel::when(&at_once), &mut || ());
        assert!(matches!(cancelled, Err(Error::Core(CoreError::Cancelled))), "{cancelled:?}");
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
