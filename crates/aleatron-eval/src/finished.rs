//! The finished chunks of passes. Results may come in any order and more than once.

use super::task::Task;
use std::collections::BTreeMap;

/// The finished chunks of all passes.
#[derive(Debug, Clone)]
pub(super) struct Finished<C> {
    pub(super) passes: Vec<FinishedPass<C>>,
    n_chunks: usize,
}

/// The finished chunks of a pass.
#[derive(Debug, Clone)]
pub(super) struct FinishedPass<C> {
    pub(super) chunks: BTreeMap<usize, C>,
    pub(super) notes: Vec<String>,
}

impl<C> Finished<C> {
    /// Returns passes without finished chunks.
    pub(super) fn new(n_passes: usize, n_chunks: usize) -> Self {
        let empty = || FinishedPass { chunks: BTreeMap::new(), notes: Vec::new() };
        Self { passes: (0..n_passes).map(|_| empty()).collect(), n_chunks }
    }

    /// Adds chunks of a pass, unless they are known, and notes.
    pub(super) fn add(&mut self, pass: usize, first: usize, chunks: Vec<C>, notes: Vec<String>) {
        let Some(pass) = self.passes.get_mut(pass) else { return };
        add_new(&mut pass.notes, notes.into_iter());
        for (index, chunk) in (first..).zip(chunks) {
            pass.chunks.entry(index).or_insert(chunk);
        }
    }

    /// Adds the chunks of others of the same passes.
    pub(super) fn merge(&mut self, other: Self) {
        for (own, other) in self.passes.iter_mut().zip(other.passes) {
            add_new(&mut own.notes, other.notes.into_iter());
            other
                .chunks
                .into_iter()
                .for_each(|(index, chunk)| _ = own.chunks.entry(index).or_insert(chunk));
        }
    }

    /// Returns the unfinished chunks of some tasks.
    pub(super) fn missing_of(&self, tasks: &[Task]) -> Vec<Task> {
        let mut missing: Vec<Task> = Vec::new();
        for task in tasks {
            let Some(finished) = self.passes.get(task.pass) else { continue };
            let mut run: Option<Task> = None;
            for first in task.first..task.first.saturating_add(task.chunks).min(self.n_chunks) {
                match (&mut run, finished.chunks.contains_key(&first)) {
                    (run, true) => missing.extend(run.take()),
                    (Some(run), false) => run.chunks += 1,
                    (run, false) => *run = Some(Task { pass: task.pass, first, chunks: 1 }),
                }
            }
            missing.extend(run);
        }
        missing
    }
}

/// Appends texts that are not in a list yet.
pub(super) fn add_new(all: &mut Vec<String>, more: impl Iterator<Item = String>) {
    for text in more {
        if !all.contains(&text) {
            all.push(text);
        }
    }
}

/// Returns the whole lines of a file that a process may have been writing when it was killed.
#[must_use]
pub fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}
