//! Queues of work: a stream, with optional timing of each step.

use std::sync::{Mutex, PoisonError};

use crate::driver::{Event, Grid, Kernel, Stream};
use crate::error::Result;
use aleatron_core::program::KernelTime;

/// Times the kernels of calls.
///
/// ```
/// let profiler = aleatron_cuda::Profiler::default();
/// assert!(profiler.times()?.is_empty());
/// # Ok::<(), aleatron_cuda::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Profiler {
    launches: Mutex<Vec<TimedLaunch>>,
}

#[derive(Debug)]
struct TimedLaunch {
    name: String,
    bytes: u64,
    start: Event,
    end: Event,
}

impl Profiler {
    /// Returns the times since the last call, by kernel in the order of their first launches.
    ///
    /// # Errors
    /// Returns errors of the driver.
    pub fn times(&self) -> Result<Vec<KernelTime>> {
        let launches =
            std::mem::take(&mut *self.launches.lock().unwrap_or_else(PoisonError::into_inner));
        let mut times: Vec<KernelTime> = Vec::new();
        for TimedLaunch { name, bytes, start, end } in launches {
            let time = end.since(&start)?;
            match times.iter_mut().find(|seen| seen.name == name) {
                Some(seen) => {
                    seen.launches += 1;
                    seen.time += time;
                    seen.bytes += bytes;
                }
                None => times.push(KernelTime { name, launches: 1, time, bytes }),
            }
        }
        Ok(times)
    }

    /// Formats the times as a table, with the bandwidth of each kernel.
    ///
    /// # Errors
    /// As for [`Self::times`].
    pub fn table(&self) -> Result<String> {
        let mut table =
            format!("{:<36}{:>9}{:>12}{:>10}{:>10}\n", "kernel", "launches", "us", "MB", "GB/s");
        for KernelTime { name, launches, time, bytes } in self.times()? {
            let (us, megabytes) = (time.as_secs_f64() * 1e6, bytes as f64 / 1e6);
            let rate = if us > 0.0 { 1e3 * megabytes / us } else { 0.0 };
            table += &format!("{name:<36}{launches:>9}{us:>12.2}{megabytes:>10.2}{rate:>10.0}\n");
        }
        Ok(table)
    }
}

/// A stream for work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) profiler: Option<&'a Profiler>,
}

impl<'a> Queue<'a> {
    pub(crate) fn new(stream: &'a Stream) -> Self {
        Self { stream, profiler: None }
    }

    /// Launches a kernel that moves about this number of bytes.
    pub(crate) fn launch<P: Copy>(
        &self,
        kernel: &Kernel<P>,
        grid: Grid,
        shared_bytes: u32,
        params: &P,
        bytes: u64,
    ) -> Result<()> {
        let context = self.stream.context();
        let Some(profiler) = self.profiler else {
            return context.launch(kernel, grid, shared_bytes, params, self.stream);
        };
        let (start, end) = (Event::timed(context)?, Event::timed(context)?);
        start.record(self.stream)?;
        context.launch(kernel, grid, shared_bytes, params, self.stream)?;
        end.record(self.stream)?;
        let name = kernel.name().to_owned();
        let mut launches = profiler.launches.lock().unwrap_or_else(PoisonError::into_inner);
        launches.push(TimedLaunch { name, bytes, start, end });
        Ok(())
    }
}
