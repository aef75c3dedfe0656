//! A plan with its network and data, whose tasks can be run.

use super::outline::{Outline, PassKind, Task, cells_of, config, names};
use super::part::{Part, Piece};
use super::pass::Pass;
use super::plan::Plan;
use super::subject::Subject;
use crate::{Error, Result};
use aleatron_core::{Cancel, Error as CoreError, Quantity, memory};
use aleatron_data::Dataset;
use aleatron_engine::Error as EngineError;
use aleatron_engine::network::Network;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Passes whose encoded weights a job keeps, the last used ones.
const KEPT: usize = 2;

/// An evaluation to be run as tasks, on any machine that has the network and the data; see [`super::Assembly`].
pub struct Job<'a> {
    pub(super) subject: Subject,
    pub(super) data: Cow<'a, Dataset>,
    pub(super) plan: Plan,
    outline: Outline,
    /// By the place of the pass in the outline, the latest last.
    kept: Mutex<VecDeque<(usize, Arc<Pass>)>>,
}

impl<'a> Job<'a> {
    /// Checks all that can be known before anything is run.
    ///
    /// # Errors
    /// [`Error`] for a plan that cannot be run, or data that do not fit the network.
    pub fn new(network: Arc<Network>, data: Cow<'a, Dataset>, plan: Plan) -> Result<Self> {
        let subject = Subject::new(network)?;
        let plan = plan.resolved(&subject);
        subject.check(&plan)?;
        check_fit(&subject, &data, &plan)?;
        let outline = Outline::new(&subject, &data, &plan)?;
        Ok(Self { subject, data, plan, outline, kept: Mutex::default() })
    }

    /// What there is to do.
    #[must_use]
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Where its tasks run.
    #[must_use]
    pub fn device(&self) -> &aleatron_engine::Device {
        &self.plan.device
    }

    /// The same job on another device, which changes times and nothing else; also its name in results stays.
    #[must_use]
    pub fn on(mut self, device: aleatron_engine::Device) -> Self {
        self.plan.device = device;
        self.release();
        self
    }

    /// Runs a task; `tick` is called before each piece.
    ///
    /// # Errors
    /// [`Error::Format`] for a task of another outline, [`CoreError::Cancelled`] when cancelled, and what fails on the way.
    pub fn run(&self, task: &Task, cancel: Cancel<'_>, tick: &mut dyn FnMut()) -> Result<Part> {
        let end = task.first.checked_add(task.pieces).filter(|&end| end <= self.outline.n_pieces());
        let (Some(pass), Some(end)) = (self.outline.passes.get(task.pass), end) else {
            let reason = format!("there is no pass {} with pieces from {} on", task.pass, task.first);
            return Err(Error::Format { file: "task".to_owned(), reason });
        };
        let pass = match &pass.kind {
            PassKind::Float => None,
            PassKind::Streams { .. } => Some(self.pass(task.pass, &pass.kind, cancel)?),
        };
        let mut pieces = Vec::with_capacity(task.pieces);
        let mut notes = Vec::new();
        for index in task.first..end {
            tick();
            cancel.check()?;
            let first = index * self.outline.chunk;
            let end = first.saturating_add(self.outline.chunk).min(self.data.len());
            let features = &*self.data.samples(first..end)?;
            let found = match &pass {
                None => self.subject.forward(features, cancel).map(|scores| Piece {
                    classes: self.subject.network().classes(&scores),
                    ..Piece::default()
                }),
                // Fits: a job has at most 2^32 samples.
                Some(pass) => pass.run(features, first as u32, cancel),
            };
            pieces.push(found.map_err(|error| from_sample(error, first))?);
            if pass.is_none() && index == 0 {
                notes.extend(self.subject.input_warnings(features, cancel)?);
            }
        }
        notes.extend(pass.iter().flat_map(|pass| pass.notes()));
        Ok(Part { pass: task.pass, first: task.first, pieces, notes })
    }

    /// Forgets the encoded weights of passes.
    pub fn release(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn pass(&self, place: usize, kind: &PassKind, cancel: Cancel<'_>) -> Result<Arc<Pass>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut kept = kept();
            let known = kept.iter().position(|(known, _)| *known == place).and_then(|k| kept.remove(k));
            if let Some((_, pass)) = known {
                kept.push_back((place, Arc::clone(&pass)));
                return Ok(pass);
            }
        }
        let made = match self.prepare(kind, cancel) {
            // What is kept may be what there is no room beside.
            Err(error) if matches!(error.core(), Some(CoreError::Memory { .. })) => {
                self.release();
                self.prepare(kind, cancel)?
            }
            made => made?,
        };
        let made = Arc::new(made);
        let mut kept = kept();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((place, Arc::clone(&made)));
        Ok(made)
    }

    fn prepare(&self, kind: &PassKind, cancel: Cancel<'_>) -> Result<Pass> {
        let PassKind::Streams { generator, seed, cycles, length, purpose } = kind else {
            return Err(CoreError::Internal { place: "eval::Job::prepare" }.into());
        };
        let generator = generator.parse()?;
        let config = config(&names(self.subject.layers()), &self.plan, &generator, *seed, *cycles, *length);
        Pass::new(&self.subject, &self.outline.evaluation.plan.margins, &config, *purpose, cancel)
    }
}

impl std::fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// An error of a piece that begins with a sample, as one of the whole.
pub(super) fn from_sample(error: Error, first: usize) -> Error {
    match error {
        Error::Engine(EngineError::Feature { sample, feature, value, low, high }) => {
            EngineError::Feature { sample: first + sample, feature, value, low, high }.into()
        }
        Error::Engine(EngineError::NotWhole { sample, feature, value, input }) => {
            EngineError::NotWhole { sample: first + sample, feature, value, input }.into()
        }
        Error::Output { sample, output, value } => Error::Output { sample: first + sample, output, value },
        error => error,
    }
}

/// Checks that samples are ones of a network, and that there is room for what is found of them.
fn check_fit(subject: &Subject, data: &Dataset, plan: &Plan) -> Result<()> {
    check_samples(data, subject.network().n_features())?;
    subject.check_labels(data)?;
    let n_cells = cells_of(plan).iter().map(|(_, seeds)| seeds.len()).sum::<usize>() * plan.lengths.len();
    let n_classes = subject.network().n_classes() as u128;
    let entries = n_classes.saturating_mul(n_classes).saturating_mul(n_cells as u128);
    memory::check(entries.saturating_mul(size_of::<u64>() as u128), Quantity::Confusion)?;
    subject.check_features(data)
}

/// Checks that samples have so many features, and that they can be numbered.
pub(super) fn check_samples(data: &Dataset, n_features: usize) -> Result<()> {
    let (expected, actual) = (n_features, data.n_features());
    if expected != actual {
        return Err(Error::FeatureCount { expected, actual });
    }
    check_numbers(data.len())
}

/// Checks that samples can be numbered: the number of one is part of the addresses of its streams.
fn check_numbers(n_samples: usize) -> Result<()> {
    let (actual, limit) = (n_samples as u128, 1 << 32);
    match actual <= limit {
        true => Ok(()),
        false => Err(CoreError::TooLarge { what: Quantity::Samples, actual, limit }.into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use aleatron_engine::network::Network;
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

    /// The encoded weights of the last two passes are kept until they are released.
    #[test]
    fn the_last_passes_are_kept() {
        let data = data();
        let job = job(&data);
        let places = |job: &Job<'_>| job.kept.lock().unwrap().iter().map(|(place, _)| *place).collect();
        let run = |place: usize| -> Vec<usize> {
            let task = Task { pass: place, first: 0, pieces: 1 };
            job.run(&task, Cancel::NEVER, &mut || ()).unwrap();
            places(&job)
        };
        // The pass in floating point has none.
        assert_eq!((run(0), run(1), run(2)), (vec![], vec![1], vec![1, 2]));
        let first = Arc::clone(&job.kept.lock().unwrap()[0].1);
        assert_eq!(run(1), [2, 1]);
        assert!(Arc::ptr_eq(&first, &job.kept.lock().unwrap()[1].1));
        assert_eq!(run(3), [1, 3]);
        job.release();
        assert!(places(&job).is_empty());
        assert_eq!(run(1), [1]);
        assert!(places(&job.on(aleatron_engine::Device::Cpu)).is_empty());
    }

    /// Passes that cannot be prepared are tried again where memory ran out, and only there.
    #[test]
    fn what_is_cancelled_is_not_tried_again() {
        let (data, looks) = (data(), AtomicUsize::new(0));
        let at_once = || looks.fetch_add(1, Ordering::Relaxed) == 0;
        // The first pass of random streams, which are made before anything is counted.
        let task = Task { pass: 3, first: 0, pieces: 1 };
        let cancelled = job(&data).run(&task, Cancel::when(&at_once), &mut || ());
        assert!(matches!(cancelled, Err(Error::Core(CoreError::Cancelled))), "{cancelled:?}");
        assert_eq!(looks.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn samples_have_numbers_of_32_bits() {
        assert!(check_numbers(1 << 32).is_ok());
        assert!(check_numbers((1 << 32) + 1).is_err());
    }
}
