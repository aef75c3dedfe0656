//! The finished tasks of an evaluation, and the cells whose passes are finished.

use super::checkpoint;
use super::early::{self, CertainStop, Decision};
use super::figures::{Classification, Errors, Figures, FloatAccuracy, Regression, share_of};
use super::finished::{Finished, FinishedPass, add_new, whole_lines};
use super::provenance::Provenance;
use super::result::{Cell, Evaluation};
use super::schedule::{FLOAT, Labels, Schedule};
use super::task::{Chunk, Task, TaskResult, fault};
use crate::{Error, Result};
use aleatron_engine::stream::LayerStats;

/// The finished tasks of a schedule. Results may come in any order and more than once; the
/// evaluation is the same.
///
/// ```
/// use aleatron_core::Cancel;
/// use aleatron_data::Dataset;
/// use aleatron_eval::{Job, Plan, evaluate};
/// use aleatron_engine::network::Network;
/// use std::borrow::Cow;
///
/// let plan = Plan { lengths: vec![16], generators: vec!["sobol".parse()?], ..Plan::default() };
/// let (network, data) = (Network::digits_noise_aware()?, Dataset::digits_test());
/// let job = Job::new(network.clone().into(), Cow::Borrowed(&data), plan.clone())?;
/// let mut journal = job.journal(None)?;
/// for task in job.schedule().split(&journal.missing(), 5).iter().rev() {
///     journal.add(job.run(task, Cancel::NEVER, &mut || ())?)?;
/// }
/// let whole = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ())?;
/// assert_eq!(journal.finish()?.without_times(), whole.without_times());
/// # Ok::<(), aleatron_eval::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Journal {
    schedule: Schedule,
    /// The cells that are finished.
    evaluation: Evaluation,
    /// The score in floating point that the checkpoint has.
    expected_score: Option<f64>,
    finished: Finished<Chunk>,
}

impl FinishedPass<Chunk> {
    fn classes(&self) -> Vec<usize> {
        self.chunks.values().flat_map(|chunk| chunk.classes.iter().copied()).collect()
    }

    fn outputs(&self) -> Vec<f64> {
        self.chunks.values().flat_map(|chunk| chunk.outputs.iter().copied()).collect()
    }

    fn decisions(&self) -> Vec<Decision> {
        let decisions =
            self.chunks.values().flat_map(|chunk| chunk.classes.iter().zip(&chunk.reached));
        decisions.map(|(&class, &reached)| Decision { class, reached }).collect()
    }
}

impl Journal {
    /// Creates a journal with the cells of `checkpoint` alone.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if it is of another evaluation.
    pub(super) fn new(schedule: Schedule, checkpoint: Option<Evaluation>) -> Result<Self> {
        let mut evaluation = schedule.header.evaluation.clone();
        let expected_score = checkpoint.as_ref().map(|checkpoint| checkpoint.float.score());
        if let Some(checkpoint) = checkpoint {
            checkpoint::resume(&mut evaluation, checkpoint)?;
        }
        let finished = Finished::new(schedule.passes.len(), schedule.n_chunks());
        Ok(Self { schedule, evaluation, expected_score, finished })
    }

    /// Reads a file of lines: a schedule, then results of tasks and the provenance of runs. A last line without an end, left
    /// by a process that was killed, is ignored.
    ///
    /// # Errors
    /// [`Error::Format`] with the line that cannot be read.
    pub fn read(text: &str) -> Result<Self> {
        let at_line = |line: usize, error: Error| fault(format!("line {line}: {error}"));
        let mut lines = whole_lines(text).lines().zip(1..);
        let Some((head, _)) = lines.next() else { return Err(fault("it is empty".to_owned())) };
        let schedule = Schedule::from_line(head).map_err(|error| at_line(1, error))?;
        let mut journal = Self::new(schedule, None)?;
        for (line, number) in lines {
            let added = match Provenance::from_line(line) {
                Some(run) => run.map(|run| journal.evaluation.provenance.push(run)),
                None => TaskResult::from_line(line).and_then(|result| journal.add(result)),
            };
            added.map_err(|error| at_line(number, error))?;
        }
        Ok(journal)
    }

    /// Adds the tasks of another journal.
    ///
    /// # Errors
    /// [`Error::OtherEvaluation`] if it is of another network, data set, plan or version.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        if self.schedule != other.schedule {
            return Err(Error::OtherEvaluation);
        }
        self.finished.merge(other.finished);
        self.evaluation.provenance.extend(other.evaluation.provenance);
        Ok(())
    }

    /// Returns the evaluation with the cells that are finished.
    #[must_use]
    pub fn evaluation(&self) -> &Evaluation {
        &self.evaluation
    }

    /// Returns the schedule.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Adds the result of a task.
    ///
    /// # Errors
    /// [`Error::Format`] if it is inconsistent with the schedule.
    pub fn add(&mut self, result: TaskResult) -> Result<()> {
        result.validate(&self.schedule)?;
        self.finished.add(result.pass, result.first, result.chunks, result.notes);
        Ok(())
    }

    /// Returns the tasks that cells need and that are not finished.
    #[must_use]
    pub fn missing(&self) -> Vec<Task> {
        let mut needed = vec![false; self.finished.passes.len()];
        needed[FLOAT] = true;
        for cell in (0..self.schedule.cells.len()).filter(|&cell| !self.has(cell)) {
            self.schedule.cells[cell].passes.iter().for_each(|&pass| needed[pass] = true);
        }
        let mut tasks = self.schedule.tasks();
        tasks.retain(|task| needed[task.pass]);
        self.missing_of(&tasks)
    }

    /// Returns the unfinished chunks of some tasks.
    #[must_use]
    pub fn missing_of(&self, tasks: &[Task]) -> Vec<Task> {
        self.finished.missing_of(tasks)
    }

    /// Returns the unfinished tasks of floating point.
    #[must_use]
    pub fn missing_float(&self) -> Vec<Task> {
        self.missing_of(&[Task { pass: FLOAT, first: 0, chunks: self.schedule.n_chunks() }])
    }

    /// Returns the unfinished tasks of one cell.
    pub(super) fn missing_of_cell(&self, cell: usize) -> Vec<Task> {
        let chunks = self.schedule.n_chunks();
        let passes = self.schedule.cells.get(cell).map_or(&[][..], |cell| &cell.passes);
        let tasks: Vec<Task> = passes.iter().map(|&pass| Task { pass, first: 0, chunks }).collect();
        self.missing_of(&tasks)
    }

    /// Returns whether a cell is finished, or was in the checkpoint.
    pub(super) fn has(&self, cell: usize) -> bool {
        let cell = &self.schedule.cells[cell];
        let key = (cell.generator, cell.faults, cell.seed, cell.length);
        let cells = &self.evaluation.cells;
        cells.iter().any(|known| (known.generator, known.faults, known.seed, known.length) == key)
    }

    /// Computes the figures of floating point from the chunks of all samples.
    ///
    /// # Errors
    /// [`Error::Format`] if chunks are missing, [`Error::Checkpoint`] if the checkpoint has another
    /// score.
    pub(super) fn close_float(&mut self) -> Result<()> {
        if let Some(task) = self.missing_float().first() {
            return Err(fault(format!("chunk {} of floating point is missing", task.first)));
        }
        let pass = &self.finished.passes[FLOAT];
        let float = match &self.schedule.header.labels {
            Labels::Classes { labels, .. } => Figures::Classification(FloatAccuracy {
                accuracy: share_of(&pass.classes(), labels),
            }),
            Labels::Targets { targets, n_outputs } => {
                Figures::Regression(Errors::new(&pass.outputs(), targets, *n_outputs))
            }
        };
        if self.expected_score.is_some_and(|expected| expected != float.score()) {
            return Err(Error::Checkpoint("the score in floating point"));
        }
        self.evaluation.float = float;
        add_new(&mut self.evaluation.warnings, self.finished.passes[FLOAT].notes.iter().cloned());
        self.settle();
        Ok(())
    }

    /// Computes a cell, all of whose passes are finished, and frees passes that no later cell
    /// needs.
    pub(super) fn close(&mut self, cell: usize) {
        let scheduled = &self.schedule.cells[cell];
        for &pass in &scheduled.passes {
            add_new(
                &mut self.evaluation.warnings,
                self.finished.passes[pass].notes.iter().cloned(),
            );
        }
        self.evaluation.cells.push(self.cell(cell));
        let is_needed = |pass: &usize| {
            self.schedule.cells[cell + 1..].iter().any(|later| later.passes.contains(pass))
        };
        let over: Vec<usize> =
            scheduled.passes.iter().copied().filter(|pass| !is_needed(pass)).collect();
        over.into_iter().for_each(|pass| self.finished.passes[pass].chunks.clear());
        self.settle();
    }

    /// Returns the evaluation with all cells whose passes are finished.
    ///
    /// # Errors
    /// [`Error::Format`] if the pass in floating point is not finished, [`Error::Checkpoint`] if
    /// the checkpoint has another score of it.
    pub fn finish(mut self) -> Result<Evaluation> {
        self.close_float()?;
        for cell in 0..self.schedule.cells.len() {
            if !self.has(cell) && self.missing_of_cell(cell).is_empty() {
                self.close(cell);
            }
        }
        Ok(self.into_evaluation())
    }

    /// Sorts the cells and counts those that are missing, so that the evaluation can be saved as it
    /// is.
    fn settle(&mut self) {
        self.evaluation.unfinished =
            (0..self.schedule.cells.len()).filter(|&cell| !self.has(cell)).count();
        self.evaluation.sort();
    }

    /// Returns the evaluation with the cells that are finished.
    pub(super) fn into_evaluation(mut self) -> Evaluation {
        self.settle();
        self.evaluation
    }

    fn cell(&self, cell: usize) -> Cell {
        let scheduled = &self.schedule.cells[cell];
        let whole = scheduled.passes.last().copied().unwrap_or(FLOAT);
        let pass = &self.finished.passes[whole];
        let mut layers = vec![LayerStats::default(); self.evaluation.network.layers.len()];
        for chunk in pass.chunks.values() {
            layers.iter_mut().zip(&chunk.layers).for_each(|(sum, more)| merge(sum, more));
        }
        let figures = match &self.schedule.header.labels {
            Labels::Classes { labels, n_classes } => {
                Figures::Classification(self.classification(&scheduled.passes, labels, *n_classes))
            }
            Labels::Targets { targets, n_outputs } => {
                let outputs = pass.outputs();
                Figures::Regression(Regression {
                    to_targets: Errors::new(&outputs, targets, *n_outputs),
                    to_float: Errors::new(
                        &outputs,
                        &self.finished.passes[FLOAT].outputs(),
                        *n_outputs,
                    ),
                })
            }
        };
        let seconds: f64 = pass.chunks.values().map(|chunk| chunk.seconds).sum();
        let samples_per_second = self.schedule.header.labels.n_samples() as f64 / seconds.max(1e-9);
        Cell {
            generator: scheduled.generator,
            faults: scheduled.faults,
            length: scheduled.length,
            lengths: self.schedule.passes[whole].lengths.clone(),
            seed: scheduled.seed,
            figures,
            layers,
            clipped: pass.chunks.values().map(|chunk| chunk.clipped).sum(),
            seconds,
            samples_per_second,
            bit_macs_per_second: samples_per_second * scheduled.bits,
        }
    }

    /// Computes the figures of a cell of classes from its passes.
    fn classification(
        &self,
        passes: &[usize],
        labels: &[usize],
        n_classes: usize,
    ) -> Classification {
        let steps = passes.iter().map(|&pass| {
            let lengths = &self.schedule.passes[pass].lengths[..];
            (lengths, self.finished.passes[pass].decisions())
        });
        let steps: Vec<(&[usize], Vec<Decision>)> = steps.collect();
        let margins = &self.evaluation.plan.margins;
        let sorted = early::sorted(margins);
        let early = margins.iter().map(|&margin| {
            let rank = sorted.partition_point(|&other| other < margin);
            early::early_stop(&steps, labels, margin, rank)
        });
        let whole = &self.finished.passes[passes.last().copied().unwrap_or(FLOAT)];
        let classes = whole.classes();
        let mut confusion = vec![vec![0; n_classes]; n_classes];
        for (&label, &class) in labels.iter().zip(&classes) {
            confusion[label][class] += 1;
        }
        let certain: Option<Vec<[u64; 2]>> =
            whole.chunks.values().map(|chunk| chunk.certain).collect();
        let n = labels.len().max(1) as f64;
        Classification {
            accuracy: share_of(&classes, labels),
            agreement: share_of(&classes, &self.finished.passes[FLOAT].classes()),
            confusion,
            early: early.collect(),
            certain: certain.map(|chunks| CertainStop {
                mean_cycles: chunks.iter().map(|chunk| chunk[0]).sum::<u64>() as f64 / n,
                stopped: chunks.iter().map(|chunk| chunk[1]).sum::<u64>() as f64 / n,
            }),
        }
    }
}

/// Adds the errors of some samples to those of others.
fn merge(sum: &mut LayerStats, more: &LayerStats) {
    let counts = sum.counts + more.counts;
    let weight = if counts == 0 { 0.0 } else { more.counts as f64 / counts as f64 };
    sum.mean_count += (more.mean_count - sum.mean_count) * weight;
    sum.mean_value += (more.mean_value - sum.mean_value) * weight;
    sum.mean_signal += (more.mean_signal - sum.mean_signal) * weight;
    sum.worst_count = sum.worst_count.max(more.worst_count);
    sum.worst_value = sum.worst_value.max(more.worst_value);
    sum.saturated += more.saturated;
    sum.counts = counts;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Job, Plan};
    use super::*;
    use aleatron_core::Cancel;
    use aleatron_data::Dataset;
    use aleatron_engine::network::Network;
    use std::borrow::Cow;

    #[test]
    fn passes_are_freed_with_the_last_cell_that_needs_them() {
        let (network, digits) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
        let data = Dataset::new("few", 64, digits.features()[..128].to_vec(), vec![0, 1]).unwrap();
        let generators = vec!["sobol".parse().unwrap(), "bernoulli".parse().unwrap()];
        let plan = Plan { lengths: vec![8, 16], generators, seeds: 1, ..Plan::default() };
        let job = Job::new(network.into(), Cow::Borrowed(&data), plan).unwrap();
        let mut journal = job.journal(None).unwrap();
        for task in job.schedule().tasks() {
            journal.add(job.run(&task, Cancel::NEVER, &mut || ()).unwrap()).unwrap();
        }
        journal.close_float().unwrap();
        let held = |journal: &Journal| -> Vec<bool> {
            journal.finished.passes[1..].iter().map(|pass| !pass.chunks.is_empty()).collect()
        };
        let mut seen = vec![held(&journal)];
        for cell in 0..4 {
            journal.close(cell);
            seen.push(held(&journal));
        }
        // The first 8 cycles of streams of 16 bits are the pass of 8 bits.
        let passes: Vec<&[usize]> =
            job.schedule().cells.iter().map(|cell| &cell.passes[..]).collect();
        assert_eq!(passes, [&[1][..], &[1, 2], &[3], &[3, 4]]);
        let (all, half, none) = ([true; 4], [false, false, true, true], [false; 4]);
        assert_eq!(seen, [all, all, half, half, none]);
    }
}
