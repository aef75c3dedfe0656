//! Division of work among the threads of the process, which the streams also use.

use std::time::Duration;

use aleatron_cpu::threads;
use bytemuck::Pod;

use crate::error::Result;

/// Runs `task` on chunks of a slice, each with the index of its first element. `nanoseconds` is
/// about what an element takes on one thread. The result does not depend on the thread of a chunk.
pub(crate) fn for_each_chunk<T: Pod + Send>(
    out: &mut [T],
    chunk: usize,
    nanoseconds: f64,
    task: impl Fn(usize, &mut [T]) -> Result<()> + Sync,
) -> Result<()> {
    let cost = cost(out.len() as f64 * nanoseconds);
    let chunk = chunk.max(1);
    threads::current()?.try_for_each(out.chunks_mut(chunk).enumerate(), cost, |(index, part)| {
        task(index * chunk, part)
    })
}

/// Runs `task` on items; all of them together take about `nanoseconds` on one thread.
pub(crate) fn for_each_item<I: Send>(
    items: Vec<I>,
    nanoseconds: f64,
    task: impl Fn(I) -> Result<()> + Sync,
) -> Result<()> {
    threads::current()?.try_for_each(items.into_iter(), cost(nanoseconds), task)
}

fn cost(nanoseconds: f64) -> Duration {
    // The estimate is limited to a minute, which is always divided among threads and cannot
    // overflow.
    Duration::from_nanos(nanoseconds.clamp(0.0, 6e10) as u64)
}
