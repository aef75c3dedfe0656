//! Where the time of kernels goes: timestamps around each, beside what the device's memory could do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::{GpuBuffer, HostBuffer, Memory};
use crate::context::GpuContext;
use crate::error::{Error, Result};
use crate::kernels::StreamKernel;
use crate::pipeline::grid;

/// Dispatches timed in one recording; later ones run untimed.
const CAPACITY: u32 = 1024;

/// The time one kernel took.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileRow {
    /// The kernel.
    pub kernel: &'static str,
    /// Its dispatches.
    pub calls: u64,
    /// Their time on the device.
    pub time: Duration,
    /// What they read and wrote.
    pub bytes: u64,
}

impl ProfileRow {
    /// Bytes per second.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64()
    }
}

/// Times kernels; pass it to a recording.
pub struct Profiler {
    context: Arc<GpuContext>,
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    staging: HostBuffer<u64>,
    pending: Vec<(&'static str, u64)>,
    rows: Vec<ProfileRow>,
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiler").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Profiler {
    /// A profiler for recordings of one device.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the device cannot time kernels.
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
        let staging = HostBuffer::new(context, 2 * CAPACITY as usize, Memory::Readback)?;
        let context = Arc::clone(context);
        Ok(Self { context, queries, resolved, staging, pending: Vec::new(), rows: Vec::new() })
    }

    /// The timestamps of the next pass.
    pub(crate) fn next(
        &mut self,
        kernel: &'static str,
        bytes: u64,
    ) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let index = 2 * self.pending.len() as u32;
        if index >= 2 * CAPACITY {
            return None;
        }
        self.pending.push((kernel, bytes));
        Some(wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(index),
            end_of_pass_write_index: Some(index + 1),
        })
    }

    pub(crate) fn resolve(&self, encoder: &mut wgpu::CommandEncoder) {
        let n = 2 * self.pending.len() as u32;
        if let Ok(staging) = self.staging.buffer.view()
            && n > 0
        {
            encoder.resolve_query_set(&self.queries, 0..n, &self.resolved, 0);
            encoder.copy_buffer_to_buffer(&self.resolved, 0, &staging.raw.buffer, 0, u64::from(n) * 8);
        }
    }

    /// Adds up what the recordings submitted since the last call took, and waits for them.
    ///
    /// # Errors
    /// What the device reports.
    pub fn collect(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let period = f64::from(self.context.queue().get_timestamp_period());
        self.staging.wait()?;
        let stamps = self.staging.read(2 * self.pending.len())?;
        for ((kernel, bytes), stamps) in self.pending.drain(..).zip(stamps.chunks_exact(2)) {
            let time = Duration::from_secs_f64(stamps[1].saturating_sub(stamps[0]) as f64 * period * 1e-9);
            match self.rows.iter_mut().find(|row| row.kernel == kernel) {
                Some(row) => {
                    row.calls += 1;
                    row.time += time;
                    row.bytes += bytes;
                }
                None => self.rows.push(ProfileRow { kernel, calls: 1, time, bytes }),
            }
        }
        Ok(())
    }

    /// The kernels timed so far, in order of their first call.
    #[must_use]
    pub fn rows(&self) -> &[ProfileRow] {
        &self.rows
    }

    /// The time of one kernel, zero where it did not run.
    #[must_use]
    pub fn time_of(&self, kernel: &str) -> Duration {
        self.rows.iter().find(|row| row.kernel == kernel).map_or(Duration::ZERO, |row| row.time)
    }

    /// Forgets what was timed.
    pub fn reset(&mut self) {
        self.rows.clear();
    }

    /// The rows as a table, beside the bandwidth the device's memory has.
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

/// What a device's memory does, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bandwidth {
    /// Reading.
    pub read: f64,
    /// Reading and writing, both counted.
    pub copy: f64,
}

impl Bandwidth {
    /// Measures both over `bytes` of memory, the best of several runs.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without timestamps, or what the device reports.
    pub fn measure(context: &Arc<GpuContext>, bytes: u64) -> Result<Self> {
        let n = (bytes.min(context.max_binding_bytes()) / 16).max(2048) / 2048 * 2048;
        let source: GpuBuffer<[u32; 4]> = context.buffer(n as usize, Memory::Device)?;
        let target: GpuBuffer<[u32; 4]> = context.buffer(n as usize, Memory::Device)?;
        let mut profiler = Profiler::new(context)?;
        let mut best = |write: u32, moved: u64| -> Result<f64> {
            let pipeline = context.pipeline(StreamKernel::Probe, &[("WRITE", write)])?;
            let bound = context.bind(&pipeline, &[source.view()?, target.view()?])?;
            let mut rate = 0f64;
            for _ in 0..6 {
                profiler.reset();
                let mut recorder = context.recorder(Some(&mut profiler))?;
                let groups = grid(n.div_ceil(2048), context.info().max_workgroups)?;
                recorder.dispatch(&bound, &(n as u32), groups, moved)?;
                recorder.submit()?;
                profiler.collect()?;
                rate = profiler.rows().iter().map(ProfileRow::bandwidth).fold(rate, f64::max);
            }
            Ok(rate)
        };
        Ok(Self { read: best(0, 16 * n)?, copy: best(1, 32 * n)? })
    }
}
