//! The division of passes into tasks and shards of about the same cost.

use super::task::Task;

/// The passes of an evaluation, all of the same number of chunks.
#[derive(Debug, Clone)]
pub(super) struct Workload {
    /// The cost of a chunk of each pass.
    pub(super) costs: Vec<u64>,
    /// The chunks of a pass.
    pub(super) n_chunks: usize,
}

impl Workload {
    /// Returns one task for each pass.
    pub(super) fn tasks(&self) -> Vec<Task> {
        (0..self.costs.len()).map(|pass| Task { pass, first: 0, chunks: self.n_chunks }).collect()
    }

    /// Splits tasks into `n` of about the same cost, or more; the most expensive first, those of a
    /// pass one after the other.
    pub(super) fn split(&self, tasks: &[Task], n: usize) -> Vec<Task> {
        let total: u64 = tasks.iter().map(|task| self.cost(task)).fold(0, u64::saturating_add);
        let most = (total / n.max(1) as u64).max(1);
        let mut split: Vec<Task> = Vec::new();
        for task in tasks {
            let wanted = usize::try_from(self.cost(task).div_ceil(most)).unwrap_or(usize::MAX);
            let parts = wanted.clamp(1, task.chunks.max(1));
            let bound = |part: usize| {
                task.first + (task.chunks as u128 * part as u128 / parts as u128) as usize
            };
            split.extend((0..parts).map(|part| Task {
                pass: task.pass,
                first: bound(part),
                chunks: bound(part + 1) - bound(part),
            }));
        }
        split.sort_by_key(|task| (std::cmp::Reverse(self.costs.get(task.pass).copied()), *task));
        split
    }

    /// Returns the tasks of a shard, `shard` of `n` counted from 0: about the same cost for each,
    /// and no chunk twice.
    pub(super) fn shard(&self, shard: usize, n: usize) -> Vec<Task> {
        let tasks = self.tasks();
        let total: u128 = tasks.iter().map(|task| u128::from(self.cost(task))).sum();
        let mut before = 0_u128;
        let mut own: Vec<Task> = Vec::new();
        for Task { pass, chunks, .. } in tasks {
            for first in 0..chunks {
                let cost = u128::from(self.cost(&Task { pass, first, chunks: 1 }));
                let middle = 2 * before + cost;
                before += cost;
                if middle * n as u128 / (2 * total).max(1) != shard as u128 {
                    continue;
                }
                match own.last_mut() {
                    // Middles ascend, so that chunks of a pass follow each other.
                    Some(last) if last.pass == pass => last.chunks += 1,
                    _ => own.push(Task { pass, first, chunks: 1 }),
                }
            }
        }
        own
    }

    /// Returns the cost of a task.
    fn cost(&self, task: &Task) -> u64 {
        self.costs.get(task.pass).map_or(0, |cost| cost.saturating_mul(task.chunks as u64))
    }
}
