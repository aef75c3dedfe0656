//! Profiles of kernels: timestamps around each dispatch, compared with the device's memory
//! bandwidth.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::bandwidth::Bandwidth;
use crate::buffer::HostBuffer;
use crate::context::GpuContext;
use crate::error::{Error, Result};

/// Number of dispatches timed between two collections; later ones run untimed.
const CAPACITY: u32 = 1024;

/// The time of one kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileRow {
    /// The kernel.
    pub kernel: Cow<'static, str>,
    /// The number of dispatches.
    pub calls: u64,
    /// The total time on the device.
    pub time: Duration,
    /// The number of bytes read and written.
    pub bytes: u64,
}

impl ProfileRow {
    /// Returns the bytes per second.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64()
    }
}

/// Times kernels in recordings.
pub struct Profiler {
    context: Arc<GpuContext>,
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    staging: HostBuffer<u64>,
    /// The dispatches recorded since the last collection.
    pending: Vec<(Cow<'static, str>, u64)>,
    /// The number of these that were submitted.
    submitted: usize,
    rows: Vec<ProfileRow>,
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiler").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Profiler {
    /// Creates a profiler for recordings of one device.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the device cannot time kernels.
    pub fn new(context: &Arc<GpuContext>) -> Result<Self> {
        if !context.capabilities().timestamps {
            let adapter = context.name().to_owned();
            return Err(Error::Unsupported { adapter, feature: "timestamps" });
        }
        let (queries, resolved) = context.scoped(|device| {
            let queries = device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("profile"),
                ty: wgpu::QueryType::Timestamp,
                count: 2 * CAPACITY,
            });
            let resolved = device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("profile"),
                size: u64::from(2 * CAPACITY) * 8,
                usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            });
            (queries, resolved)
        })?;
        let staging = HostBuffer::readback(context, 2 * CAPACITY as usize)?;
        let context = Arc::clone(context);
        let (pending, rows) = (Vec::new(), Vec::new());
        Ok(Self { context, queries, resolved, staging, pending, submitted: 0, rows })
    }

    /// Returns the device of the profiler.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// Discards the dispatches of a dropped recording.
    pub(crate) fn begin(&mut self) {
        self.pending.truncate(self.submitted);
    }

    /// Returns the timestamps of the next pass.
    pub(crate) fn next(
        &mut self,
        kernel: Cow<'static, str>,
        bytes: u64,
    ) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let index =
            2 * u32::try_from(self.pending.len()).ok().filter(|&pending| pending < CAPACITY)?;
        self.pending.push((kernel, bytes));
        Some(wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(index),
            end_of_pass_write_index: Some(index + 1),
        })
    }

    pub(crate) fn resolve(&mut self, encoder: &mut wgpu::CommandEncoder) {
        self.submitted = self.pending.len();
        // `next` never exceeds the capacity.
        let n =
            2 * u32::try_from(self.submitted).map_or(CAPACITY, |submitted| submitted.min(CAPACITY));
        if n > 0 {
            let staging = self.staging.view();
            encoder.resolve_query_set(&self.queries, 0..n, &self.resolved, 0);
            encoder.copy_buffer_to_buffer(
                &self.resolved,
                0,
                staging.raw.buffer(),
                0,
                u64::from(n) * 8,
            );
        }
    }

    /// Adds the times of recordings submitted since the last call, waiting for them.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn collect(&mut self) -> Result<()> {
        self.begin();
        self.submitted = 0;
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        let period = f64::from(self.context.queue.get_timestamp_period());
        self.staging.map()?;
        let stamps = self.staging.read(2 * pending.len());
        self.staging.unmap();
        for ((kernel, bytes), stamps) in pending.into_iter().zip(stamps?.chunks_exact(2)) {
            let time =
                Duration::from_secs_f64(stamps[1].saturating_sub(stamps[0]) as f64 * period * 1e-9);
            match self.rows.iter_mut().find(|row| row.kernel == kernel) {
                Some(row) => {
                    row.calls += 1;
                    row.time += time;
                    row.bytes = row.bytes.saturating_add(bytes);
                }
                None => self.rows.push(ProfileRow { kernel, calls: 1, time, bytes }),
            }
        }
        Ok(())
    }

    /// Returns the kernels timed so far, in order of their first call.
    #[must_use]
    pub fn rows(&self) -> &[ProfileRow] {
        &self.rows
    }

    /// Returns the time of one kernel, zero if it did not run.
    #[must_use]
    pub fn time_of(&self, kernel: &str) -> Duration {
        self.rows.iter().find(|row| row.kernel == kernel).map_or(Duration::ZERO, |row| row.time)
    }

    /// Discards all times.
    pub fn reset(&mut self) {
        self.rows.clear();
    }

    /// Formats the rows as a table, with the bandwidth of the device's memory.
    #[must_use]
    pub fn table(&self, bandwidth: Bandwidth) -> String {
        let mut text = format!(
            "{:<14}{:>8}{:>14}{:>14}{:>12}{:>10}\n",
            "kernel", "calls", "time us", "MB", "GB/s", "of copy"
        );
        for row in &self.rows {
            let rate = row.bandwidth();
            text += &format!(
                "{:<14}{:>8}{:>14.1}{:>14.3}{:>12.1}{:>9.1}%\n",
                row.kernel,
                row.calls,
                row.time.as_secs_f64() * 1e6,
                row.bytes as f64 / 1e6,
                rate / 1e9,
                100.0 * rate / bandwidth.copy,
            );
        }
        text
    }
}
