//! Putting parts together: cells come of the passes whose pieces are all there.

use super::checkpoint;
use super::early::{self, CertainStop, Look};
use super::outline::{FLOAT, Outline, Task};
use super::part::{Part, Piece};
use super::result::{Cell, Evaluation};
use crate::{Error, Result};
use aleatron_engine::stream::LayerStats;
use std::collections::BTreeMap;

/// What is done of an outline. Parts come in any order, and twice where a task was run twice; what comes of them is the same.
///
/// ```
/// use aleatron_core::Cancel;
/// use aleatron_data::Dataset;
/// use aleatron_eval::{Assembly, Job, Plan, evaluate};
/// use aleatron_engine::network::Network;
/// use std::borrow::Cow;
///
/// let plan = Plan { lengths: vec![16], generators: vec!["sobol".parse()?], ..Plan::default() };
/// let (network, data) = (Network::digits_noise_aware()?, Dataset::digits_test());
/// let job = Job::new(network.clone().into(), Cow::Borrowed(&data), plan.clone())?;
/// let mut assembly = Assembly::new(job.outline().clone(), None)?;
/// for task in job.outline().split(&assembly.missing(), 5).iter().rev() {
///     assembly.add(job.run(task, Cancel::NEVER, &mut || ())?)?;
/// }
/// let whole = evaluate(&network, &data, &plan, None, Cancel::NEVER, |_| ())?;
/// assert_eq!(assembly.finish()?.without_times(), whole.without_times());
/// # Ok::<(), aleatron_eval::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Assembly {
    outline: Outline,
    /// The cells that are done.
    evaluation: Evaluation,
    /// What the accuracy in floating point must be.
    expected_accuracy: Option<f64>,
    passes: Vec<Done>,
}

/// What is done of a pass.
#[derive(Debug, Clone, Default)]
struct Done {
    pieces: BTreeMap<usize, Piece>,
    notes: Vec<String>,
}

impl Assembly {
    /// Nothing is done but the cells of `checkpoint`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] where it is of something else.
    pub fn new(outline: Outline, checkpoint: Option<Evaluation>) -> Result<Self> {
        let mut evaluation = outline.evaluation.clone();
        let expected_accuracy = checkpoint.as_ref().map(|checkpoint| checkpoint.float_accuracy);
        if let Some(checkpoint) = checkpoint {
            checkpoint::go_on_from(&mut evaluation, checkpoint)?;
        }
        let passes = vec![Done::default(); outline.passes.len()];
        Ok(Self { outline, evaluation, expected_accuracy, passes })
    }

    /// Returns the evaluation with the cells that are done.
    #[must_use]
    pub fn evaluation(&self) -> &Evaluation {
        &self.evaluation
    }

    /// What there is to do.
    #[must_use]
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Takes what a task found.
    ///
    /// # Errors
    /// [`Error::Format`] where it cannot be a part of this outline.
    pub fn add(&mut self, part: Part) -> Result<()> {
        part.validate(&self.outline)?;
        let done = &mut self.passes[part.pass];
        add_new(&mut done.notes, part.notes.into_iter());
        for (piece, found) in (part.first..).zip(part.pieces) {
            done.pieces.entry(piece).or_insert(found);
        }
        Ok(())
    }

    /// The tasks that are not done, of all that is needed.
    #[must_use]
    pub fn missing(&self) -> Vec<Task> {
        let mut needed = vec![false; self.passes.len()];
        needed[FLOAT] = true;
        for cell in (0..self.outline.cells.len()).filter(|&cell| !self.has(cell)) {
            self.outline.cells[cell].looks.iter().for_each(|&(_, pass)| needed[pass] = true);
        }
        let mut tasks = self.outline.tasks();
        tasks.retain(|task| needed[task.pass]);
        self.missing_of(&tasks)
    }

    /// What is not done of some tasks.
    #[must_use]
    pub fn missing_of(&self, tasks: &[Task]) -> Vec<Task> {
        let mut missing: Vec<Task> = Vec::new();
        for task in tasks {
            let Some(done) = self.passes.get(task.pass) else { continue };
            let mut run: Option<Task> = None;
            for first in task.first..task.first.saturating_add(task.pieces).min(self.outline.n_pieces()) {
                match (&mut run, done.pieces.contains_key(&first)) {
                    (run, true) => missing.extend(run.take()),
                    (Some(run), false) => run.pieces += 1,
                    (run, false) => *run = Some(Task { pass: task.pass, first, pieces: 1 }),
                }
            }
            missing.extend(run);
        }
        missing
    }

    /// What is not done of one cell.
    pub(super) fn missing_of_cell(&self, cell: usize) -> Vec<Task> {
        let pieces = self.outline.n_pieces();
        let looks = self.outline.cells.get(cell).map_or(&[][..], |cell| &cell.looks);
        let tasks: Vec<Task> = looks.iter().map(|&(_, pass)| Task { pass, first: 0, pieces }).collect();
        self.missing_of(&tasks)
    }

    /// Whether a cell was made, or was in the checkpoint.
    pub(super) fn has(&self, cell: usize) -> bool {
        let cell = &self.outline.cells[cell];
        let key = (&cell.generator, cell.seed, cell.length);
        self.evaluation.cells.iter().any(|known| (&known.generator, known.seed, known.length) == key)
    }

    /// The classes in floating point of all samples.
    ///
    /// # Errors
    /// [`Error::Format`] where some are missing, [`Error::Checkpoint`] where the checkpoint says that others are right.
    pub(super) fn float_classes(&mut self) -> Result<Vec<usize>> {
        let outline = &self.outline;
        if let Some(task) = self.missing_of(&outline.tasks()[..1]).first() {
            let reason = format!("the classes in floating point of piece {} are not there", task.first);
            return Err(Error::Format { file: "evaluation".to_owned(), reason });
        }
        let pieces = self.passes[FLOAT].pieces.values();
        let classes: Vec<usize> = pieces.flat_map(|piece| piece.classes.iter().copied()).collect();
        let accuracy = share_of(&classes, &outline.labels);
        if self.expected_accuracy.is_some_and(|expected| expected != accuracy) {
            return Err(Error::Checkpoint("the accuracy in floating point"));
        }
        self.evaluation.float_accuracy = accuracy;
        add_new(&mut self.evaluation.warnings, self.passes[FLOAT].notes.iter().cloned());
        self.settle();
        Ok(classes)
    }

    /// Makes a cell, all of whose passes are done, and forgets passes that no later cell looks at.
    pub(super) fn close(&mut self, cell: usize, float_classes: &[usize]) {
        let plan = &self.outline.cells[cell];
        for (_, pass) in &plan.looks {
            add_new(&mut self.evaluation.warnings, self.passes[*pass].notes.iter().cloned());
        }
        add_new(&mut self.evaluation.warnings, plan.warnings.iter().cloned());
        self.evaluation.cells.push(self.cell(cell, float_classes));
        let later = |pass: usize| {
            self.outline.cells[cell + 1..].iter().any(|cell| cell.looks.iter().any(|look| look.1 == pass))
        };
        let over: Vec<usize> = plan.looks.iter().map(|look| look.1).filter(|&pass| !later(pass)).collect();
        over.into_iter().for_each(|pass| self.passes[pass].pieces.clear());
        self.settle();
    }

    /// The evaluation with all cells whose passes are done.
    ///
    /// # Errors
    /// [`Error::Format`] where the classes in floating point are missing, [`Error::Checkpoint`] where the checkpoint differs in them.
    pub fn finish(mut self) -> Result<Evaluation> {
        let float_classes = self.float_classes()?;
        for cell in 0..self.outline.cells.len() {
            if !self.has(cell) && self.missing_of_cell(cell).is_empty() {
                self.close(cell, &float_classes);
            }
        }
        Ok(self.into_evaluation())
    }

    /// Sorts the cells and counts those that are missing, so that the evaluation can be saved as it is.
    fn settle(&mut self) {
        self.evaluation.unfinished = (0..self.outline.cells.len()).filter(|&cell| !self.has(cell)).count();
        self.evaluation.sort();
    }

    /// Returns the evaluation with the cells that are done.
    pub(super) fn into_evaluation(mut self) -> Evaluation {
        self.settle();
        self.evaluation
    }

    fn cell(&self, cell: usize, float_classes: &[usize]) -> Cell {
        let plan = &self.outline.cells[cell];
        let (labels, n_classes) = (&self.outline.labels, self.outline.n_classes);
        let looks = plan.looks.iter().map(|&(_, pass)| {
            let lengths = &self.outline.passes[pass].lengths[..];
            (lengths, self.passes[pass].pieces.values().flat_map(Piece::looks).collect())
        });
        let looks: Vec<(&[usize], Vec<Look>)> = looks.collect();
        let lengths = looks.last().map_or_else(Vec::new, |(lengths, _)| lengths.to_vec());
        let n_layers = self.outline.evaluation.network.layers.len();
        let sorted = self.outline.margins();
        let early = self.outline.evaluation.plan.margins.iter().map(|&margin| {
            let rank = sorted.partition_point(|&other| other < margin);
            early::early_stop(&looks, labels, margin, rank)
        });
        let pieces: Vec<&Piece> =
            plan.looks.last().map_or_else(Vec::new, |look| self.passes[look.1].pieces.values().collect());
        let classes: Vec<usize> = pieces.iter().flat_map(|piece| piece.classes.iter().copied()).collect();
        let mut confusion = vec![vec![0; n_classes]; n_classes];
        for (&label, &class) in labels.iter().zip(&classes) {
            confusion[label][class] += 1;
        }
        let mut layers = vec![LayerStats::default(); n_layers];
        for piece in &pieces {
            layers.iter_mut().zip(&piece.layers).for_each(|(sum, more)| merge(sum, more));
        }
        let certain: Option<Vec<[u64; 2]>> = pieces.iter().map(|piece| piece.certain).collect();
        let seconds: f64 = pieces.iter().map(|piece| piece.seconds).sum();
        let samples_per_second = labels.len() as f64 / seconds.max(1e-9);
        let n = labels.len().max(1) as f64;
        Cell {
            generator: plan.generator.clone(),
            length: plan.length,
            lengths,
            seed: plan.seed,
            accuracy: share_of(&classes, labels),
            agreement: share_of(&classes, float_classes),
            confusion,
            layers,
            early: early.collect(),
            certain: certain.map(|pieces| CertainStop {
                mean_cycles: pieces.iter().map(|piece| piece[0]).sum::<u64>() as f64 / n,
                stopped: pieces.iter().map(|piece| piece[1]).sum::<u64>() as f64 / n,
            }),
            clipped: pieces.iter().map(|piece| piece.clipped).sum(),
            seconds,
            samples_per_second,
            bit_macs_per_second: samples_per_second * plan.bits,
        }
    }
}

/// Adds the errors of some samples to those of others.
pub(super) fn merge(sum: &mut LayerStats, more: &LayerStats) {
    let counts = sum.counts + more.counts;
    let weight = if counts == 0 { 0.0 } else { more.counts as f64 / counts as f64 };
    sum.mean_count += (more.mean_count - sum.mean_count) * weight;
    sum.mean_value += (more.mean_value - sum.mean_value) * weight;
    sum.worst_count = sum.worst_count.max(more.worst_count);
    sum.worst_value = sum.worst_value.max(more.worst_value);
    sum.saturated += more.saturated;
    sum.counts = counts;
}

/// Appends what is not there yet.
pub(super) fn add_new(all: &mut Vec<String>, more: impl Iterator<Item = String>) {
    for text in more {
        if !all.contains(&text) {
            all.push(text);
        }
    }
}

/// The share of equal entries.
pub(super) fn share_of(classes: &[usize], others: &[usize]) -> f64 {
    let equal = classes.iter().zip(others).filter(|(a, b)| a == b).count();
    equal as f64 / others.len().max(1) as f64
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

    /// What passes found is forgotten with the last cell that looks at them.
    #[test]
    fn passes_are_forgotten_where_no_later_cell_looks_at_them() {
        let (network, digits) = (Network::digits_noise_aware().unwrap(), Dataset::digits_test());
        let data = Dataset::new("few", 64, digits.features()[..128].to_vec(), vec![0, 1]).unwrap();
        let generators = vec!["sobol".parse().unwrap(), "bernoulli".parse().unwrap()];
        let plan = Plan { lengths: vec![8, 16], generators, seeds: 1, ..Plan::default() };
        let job = Job::new(network.into(), Cow::Borrowed(&data), plan).unwrap();
        let mut assembly = Assembly::new(job.outline().clone(), None).unwrap();
        for task in job.outline().tasks() {
            assembly.add(job.run(&task, Cancel::NEVER, &mut || ()).unwrap()).unwrap();
        }
        let classes = assembly.float_classes().unwrap();
        let held = |assembly: &Assembly| -> Vec<bool> {
            assembly.passes[1..].iter().map(|pass| !pass.pieces.is_empty()).collect()
        };
        let mut seen = vec![held(&assembly)];
        for cell in 0..4 {
            assembly.close(cell, &classes);
            seen.push(held(&assembly));
        }
        // Streams of 16 bits are looked at after 8 of them, too, which is what a run of 8 is.
        let looks: Vec<&[(usize, usize)]> = job.outline().cells.iter().map(|cell| &cell.looks[..]).collect();
        assert_eq!(looks, [&[(8, 1)][..], &[(8, 1), (16, 2)], &[(8, 3)], &[(8, 3), (16, 4)]]);
        let (all, half, none) = ([true; 4], [false, false, true, true], [false; 4]);
        assert_eq!(seen, [all, all, half, half, none]);
    }
}
