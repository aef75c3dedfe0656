//! The buffers of a call, which later calls reuse, and its division into chunks of samples.
//!
//! Two chunks are in flight at a time, so that the host prepares one while the GPU counts the
//! other. Counts, ones and the state of a call are zero between calls: the kernel that reads the
//! results resets them.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aleatron_core::Cancel;

use crate::driver::{
    CudaContext, DeviceBuffer, Event, Graph, PinnedBuffer, RepeatedLaunch, Stream, View,
    append_parallel,
};
use crate::error::Result;
use crate::kernels::{CallSeed, FewParams, ValueKind};
use crate::launch::FewLaunch;
use crate::queue::{Profiler, Queue};
use crate::size::host_size;

/// Number of words at the head of uploads and downloads: the seed, and the findings about the
/// values.
pub(crate) const HEAD: usize = 8;

/// The value of a report or a count that is pending; no index of a value and no count is so large.
pub(crate) const PENDING: u64 = u64::MAX - 1;

/// The bit of the reports of one sample's neurons that marks the index of a value outside its
/// interval.
const BAD_VALUE: u64 = 1 << 63;

/// The state of a call between calls: no bad value, no block done.
pub(crate) const CLEAN_STATE: [u64; 2] = [u64::MAX, 0];

/// The index of the state of a call in the head of an upload.
const STATE_IN_HEAD: usize = 2;

/// How long to spin-wait for a report before the driver is asked: longer than any call for which it
/// matters.
pub(crate) const SPIN_TIME: Duration = Duration::from_micros(200);

/// The largest number of idle sets: more were in use at a time, and will rarely be again.
const MAX_IDLE: usize = 8;

/// The largest number of recorded calls of a set.
const MAX_GRAPHS: usize = 8;

/// Options of counting; they never change a count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountOptions<'a> {
    /// The cancellation token, polled before each chunk of samples.
    pub(crate) cancel: Cancel<'a>,
    /// Times the kernels.
    pub(crate) profiler: Option<&'a Profiler>,
    /// An event that every chunk waits for on the GPU.
    pub(crate) after: Option<&'a Event>,
    /// The program that the call is a step of, if any: nothing is transferred from or to the host.
    pub(crate) program: Option<ProgramCall<'a>>,
}

/// A program that runs on the stream of a set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramCall<'a> {
    /// The address of the [`CallSeed`] of the layer in device memory.
    pub(crate) seed: View<'a>,
}

/// The layer-specific part of a call that runs in chunks.
pub(crate) trait ChunkRun {
    /// Enqueues a chunk on the stream of the set.
    fn submit(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()>;

    /// Receives the results of a chunk; the stream was waited for.
    fn receive(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()>;
}

/// Sizes of a set for one chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetSizes {
    /// Number of values of the inputs.
    pub(crate) values: usize,
    /// Number of 32-bit words between inputs and counts: streams, or rows of tables.
    pub(crate) work: usize,
    /// Number of 32-bit words of counts.
    pub(crate) counts: usize,
    /// Number of results.
    pub(crate) results: usize,
    /// Number of samples.
    pub(crate) samples: usize,
}

impl SetSizes {
    /// Returns the larger of both sizes of each buffer.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            values: self.values.max(other.values),
            work: self.work.max(other.work),
            counts: self.counts.max(other.counts),
            results: self.results.max(other.results),
            samples: self.samples.max(other.samples),
        }
    }
}

/// The key of a recorded call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GraphKey {
    pub(crate) n_samples: usize,
    pub(crate) kind: ValueKind,
}

#[derive(Debug)]
enum Recorded {
    /// The call was made once: recording did not pay off yet.
    Once,
    Graph(Graph),
}

/// The buffers of a chunk: values, intermediate results, results.
#[derive(Debug)]
pub(crate) struct BufferSet {
    // Dropped in this order: graphs and the stream use all following fields.
    graphs: HashMap<GraphKey, Recorded>,
    few: Option<RepeatedLaunch<FewParams>>,
    pub(crate) stream: Arc<Stream>,
    /// The seed and the values of the chunk, on the host and on the GPU.
    pub(crate) upload: PinnedBuffer<u64>,
    pub(crate) inputs: DeviceBuffer<u64>,
    pub(crate) work: DeviceBuffer<u32>,
    pub(crate) counts: DeviceBuffer<u32>,
    pub(crate) row_ones: DeviceBuffer<u32>,
    pub(crate) state: DeviceBuffer<u64>,
    /// The findings about the values, and the results, on the GPU and on the host.
    pub(crate) results: DeviceBuffer<u64>,
    pub(crate) download: PinnedBuffer<u64>,
    /// Packed streams in transfer to the GPU.
    pub(crate) packed: Option<PinnedBuffer<u64>>,
    /// The last value that the kernel of the chunk writes to the host.
    expected: Expected,
}

/// A value that the host can poll, instead of asking the driver whether a chunk is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Expected {
    #[default]
    Nothing,
    /// The report of the chunk, written after everything else.
    Report,
    /// A report of each of this number of neurons.
    Neurons(usize),
}

impl BufferSet {
    pub(crate) fn new(context: &Arc<CudaContext>, sizes: SetSizes) -> Result<Self> {
        Self::on_stream(context, Arc::new(Stream::new(context)?), sizes)
    }

    /// Creates a set whose work runs on a given stream.
    pub(crate) fn on_stream(
        context: &Arc<CudaContext>,
        stream: Arc<Stream>,
        sizes: SetSizes,
    ) -> Result<Self> {
        let set = Self {
            upload: PinnedBuffer::new(context, HEAD + sizes.values)?,
            inputs: DeviceBuffer::new(context, HEAD + sizes.values)?,
            work: DeviceBuffer::new(context, sizes.work)?,
            counts: DeviceBuffer::new(context, sizes.counts)?,
            row_ones: DeviceBuffer::new(context, sizes.samples)?,
            state: DeviceBuffer::with(context, &CLEAN_STATE, &stream)?,
            results: DeviceBuffer::new(context, HEAD + sizes.results)?,
            download: PinnedBuffer::new(context, HEAD + sizes.results)?,
            packed: None,
            expected: Expected::Nothing,
            graphs: HashMap::new(),
            few: None,
            stream,
        };
        set.counts.fill(0, &set.stream)?;
        set.row_ones.fill(0, &set.stream)?;
        // Kernels write one word of the head, and all of it is downloaded with the results.
        set.results.fill(0, &set.stream)?;
        set.stream.synchronize()?;
        Ok(set)
    }

    pub(crate) fn queue<'a>(&'a self, options: &CountOptions<'a>) -> Queue<'a> {
        Queue { stream: &self.stream, profiler: options.profiler }
    }

    pub(crate) fn set_seed(&mut self, seed: CallSeed) {
        self.upload.as_mut_slice()[..2].copy_from_slice(&seed.words());
    }

    /// Declares that the next launch writes its report to the host, after all its other results.
    pub(crate) fn expect_report(&mut self) {
        self.download.as_mut_slice()[0] = PENDING;
        self.expected = Expected::Report;
    }

    /// Declares that the next launch writes a report of each of `n` neurons to the host, in place
    /// of counts.
    pub(crate) fn expect_neurons(&mut self, n: usize) {
        self.download.as_mut_slice()[HEAD..HEAD + n].fill(PENDING);
        self.expected = Expected::Neurons(n);
    }

    /// Waits until the chunk is done. An expected report is polled: that takes less than half the
    /// time of asking the driver.
    fn wait(&mut self) -> Result<()> {
        let expected = std::mem::take(&mut self.expected);
        let reports = match expected {
            Expected::Nothing => 0..0,
            Expected::Report => 0..1,
            Expected::Neurons(n) => HEAD..HEAD + n,
        };
        if reports.is_empty() || !self.download.wait_for_changes(reports, PENDING, SPIN_TIME) {
            self.stream.synchronize()?;
        }
        if let Expected::Neurons(_) = expected {
            self.take_neuron_reports()?;
        }
        Ok(())
    }

    /// Copies the neurons' findings about the values to the report of a chunk. A bad value is
    /// reported by all of them.
    fn take_neuron_reports(&mut self) -> Result<()> {
        let report = self.download.as_slice()[HEAD];
        let is_bad = report & BAD_VALUE != 0;
        self.download.as_mut_slice()[0] = if is_bad { report & !BAD_VALUE } else { u64::MAX };
        if is_bad {
            self.upload.as_mut_slice()[STATE_IN_HEAD..][..2].copy_from_slice(&CLEAN_STATE);
            self.upload.send(STATE_IN_HEAD, 2, &self.state, 0, &self.stream)?;
            self.stream.synchronize()?;
        }
        Ok(())
    }

    /// Launches the kernel of few samples, repeating a previous launch if possible.
    pub(crate) fn launch_few(&mut self, launch: FewLaunch) -> Result<()> {
        let FewLaunch { kernel, grid, shared_bytes, params, .. } = launch;
        let repeated = match self.few.take().filter(|few| few.is_of(&kernel, grid, shared_bytes)) {
            Some(repeated) => repeated,
            None => {
                RepeatedLaunch::new(self.stream.context(), kernel, grid, shared_bytes, &params)?
            }
        };
        self.few.insert(repeated).launch(&params, &self.stream)
    }

    /// Returns the values of the chunk on the GPU.
    pub(crate) fn values(&self) -> Result<View<'_>> {
        self.inputs.view().from(8 * HEAD as u64)
    }

    /// Enqueues a call, from its recording if there is one.
    pub(crate) fn repeat(
        &mut self,
        key: GraphKey,
        give: impl Fn(&Self) -> Result<()>,
    ) -> Result<()> {
        match self.graphs.get(&key) {
            Some(Recorded::Graph(graph)) => graph.launch(&self.stream),
            Some(Recorded::Once) => {
                let graph = Graph::record(&self.stream, || give(self))?;
                graph.launch(&self.stream)?;
                self.graphs.insert(key, Recorded::Graph(graph));
                Ok(())
            }
            None => {
                if self.graphs.len() == MAX_GRAPHS {
                    // Sizes keep changing: clear the recordings rather than keep those that may
                    // never be used again.
                    self.stream.synchronize()?;
                    self.graphs.clear();
                }
                self.graphs.insert(key, Recorded::Once);
                give(self)
            }
        }
    }

    /// Returns the index of the first value of the chunk outside its interval, if any.
    pub(crate) fn bad_value(&self) -> Option<usize> {
        Some(self.download.as_slice()[0]).filter(|&index| index != u64::MAX).map(host_size)
    }

    /// Appends the results of the chunk.
    pub(crate) fn take_results(&self, n: usize, to: &mut Vec<u64>) -> Result<()> {
        append_parallel(to, &self.download.as_slice()[HEAD..HEAD + n])
    }
}

/// The idle sets of a layer.
#[derive(Debug, Default)]
pub(crate) struct BufferSets {
    idle: Mutex<Vec<BufferSet>>,
}

impl BufferSets {
    pub(crate) fn keep(&self, set: BufferSet) {
        let mut idle = self.lock();
        if idle.len() < MAX_IDLE {
            idle.push(set);
        }
    }

    /// Frees the idle sets.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<BufferSet>> {
        // The list is consistent between any two statements.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `n_samples` in chunks; each is enqueued before the results of the previous one are
    /// received.
    pub(crate) fn run(
        &self,
        n_samples: usize,
        chunk: usize,
        options: &CountOptions<'_>,
        make: impl Fn() -> Result<BufferSet>,
        run: &mut impl ChunkRun,
    ) -> Result<()> {
        // A set whose chunk failed is dropped: its buffers may not be zero.
        let mut in_flight: VecDeque<(BufferSet, Range<usize>)> = VecDeque::new();
        for start in (0..n_samples).step_by(chunk.max(1)) {
            options.cancel.check()?;
            let samples = start..n_samples.min(start.saturating_add(chunk));
            let idle = self.lock().pop();
            let mut set = idle.map_or_else(&make, Ok)?;
            options.after.map_or(Ok(()), |event| set.stream.wait_for(event))?;
            run.submit(&mut set, samples.clone())?;
            in_flight.push_back((set, samples));
            while in_flight.len() > 1
                && let Some(first) = in_flight.pop_front()
            {
                self.receive(first, run)?;
            }
        }
        in_flight.into_iter().try_for_each(|chunk| self.receive(chunk, run))
    }

    fn receive(
        &self,
        (mut set, samples): (BufferSet, Range<usize>),
        run: &mut impl ChunkRun,
    ) -> Result<()> {
        set.wait()?;
        let received = run.receive(&mut set, samples);
        // A bad value leaves the same state as any call.
        self.keep(set);
        received
    }
}
