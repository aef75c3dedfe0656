//! The buffers of a call, which every later call uses again, and the chunks of samples it runs in.
//!
//! Two chunks are under way at a time, so that the host prepares one while the card counts the
//! other. Counts, ones and the state of a call are zero between calls: the kernel that takes the
//! results leaves them so.

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

/// Words at the head of what goes up and what comes down: the seed, and what was found about the
/// values.
pub(crate) const HEAD: usize = 8;

/// What stands in the place of a report or a count that is yet to come; no index of a value and no
/// count is so large.
pub(crate) const PENDING: u64 = u64::MAX - 1;

/// The bit of the reports of one sample's neurons that says that the rest is the index of a value
/// outside its interval.
const BAD_VALUE: u64 = 1 << 63;

/// What the state of a call is between calls: no bad value, no block done.
pub(crate) const CLEAN_STATE: [u64; 2] = [u64::MAX, 0];

/// Where the head of what goes up has a word for the state of a call.
const STATE_IN_HEAD: usize = 2;

/// How long a report is looked for before the driver is asked: longer than any call for which it
/// matters.
pub(crate) const LOOK_TIME: Duration = Duration::from_micros(200);

/// Sets that are kept idle at most: more were in use at a time, and will rarely be again.
const MAX_IDLE: usize = 8;

/// Recorded calls that a set keeps at most.
const MAX_GRAPHS: usize = 8;

/// How to count: nothing here changes a count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountOptions<'a> {
    /// Asked before each chunk of samples.
    pub(crate) cancel: Cancel<'a>,
    /// Times the kernels.
    pub(crate) profiler: Option<&'a Profiler>,
    /// What every chunk waits for on the card.
    pub(crate) after: Option<&'a Event>,
    /// The program that the call is a step of, if it is one: nothing comes from the host or goes
    /// there.
    pub(crate) program: Option<ProgramCall<'a>>,
}

/// A program that runs on the stream of a set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramCall<'a> {
    /// Where the [`CallSeed`] of the layer lies on the card.
    pub(crate) seed: View<'a>,
}

/// A layer's part in a call that runs in chunks.
pub(crate) trait ChunkRun {
    /// Gives a chunk to the stream of the set.
    fn submit(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()>;

    /// Takes the results of a chunk; the stream was waited for.
    fn receive(&mut self, set: &mut BufferSet, samples: Range<usize>) -> Result<()>;
}

/// Sizes of a set for one chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetSizes {
    /// Values of the inputs.
    pub(crate) values: usize,
    /// 32-bit words between inputs and counts: streams, or rows of tables.
    pub(crate) work: usize,
    /// 32-bit words of what is counted.
    pub(crate) counts: usize,
    /// Results.
    pub(crate) results: usize,
    /// Samples.
    pub(crate) samples: usize,
}

impl SetSizes {
    /// Returns sizes that are enough for either.
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

/// What decides a recorded call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GraphKey {
    pub(crate) n_samples: usize,
    pub(crate) kind: ValueKind,
}

#[derive(Debug)]
enum Recorded {
    /// It was made once: recording would not have paid.
    Once,
    Graph(Graph),
}

/// Values in, work between, results out.
#[derive(Debug)]
pub(crate) struct BufferSet {
    // Dropped in this order: graphs and the stream use everything that follows.
    graphs: HashMap<GraphKey, Recorded>,
    few: Option<RepeatedLaunch<FewParams>>,
    pub(crate) stream: Arc<Stream>,
    /// The seed and the values of the chunk, on the host and on the card.
    pub(crate) upload: PinnedBuffer<u64>,
    pub(crate) inputs: DeviceBuffer<u64>,
    pub(crate) work: DeviceBuffer<u32>,
    pub(crate) counts: DeviceBuffer<u32>,
    pub(crate) row_ones: DeviceBuffer<u32>,
    pub(crate) state: DeviceBuffer<u64>,
    /// What was found about the values, and the results, on the card and on the host.
    pub(crate) results: DeviceBuffer<u64>,
    pub(crate) download: PinnedBuffer<u64>,
    /// Packed streams on their way to the card.
    pub(crate) packed: Option<PinnedBuffer<u64>>,
    /// What the kernel of the chunk writes to the host last of all.
    expected: Expected,
}

/// What the host can look for, instead of asking the driver whether a chunk is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Expected {
    #[default]
    Nothing,
    /// The report of the chunk, when everything else is there.
    Report,
    /// A report of each of so many neurons.
    Neurons(usize),
}

impl BufferSet {
    pub(crate) fn new(context: &Arc<CudaContext>, sizes: SetSizes) -> Result<Self> {
        Self::on_stream(context, Arc::new(Stream::new(context)?), sizes)
    }

    /// A set whose work goes to a given stream.
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
        // Kernels write one word of the head, and all of it comes down with the results.
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

    /// Says that the next launch writes its report to the host, when everything else it has for the
    /// host is there.
    pub(crate) fn expect_report(&mut self) {
        self.download.as_mut_slice()[0] = PENDING;
        self.expected = Expected::Report;
    }

    /// Says that the next launch writes a report of each of so many neurons to the host, where
    /// counts go.
    pub(crate) fn expect_neurons(&mut self, n: usize) {
        self.download.as_mut_slice()[HEAD..HEAD + n].fill(PENDING);
        self.expected = Expected::Neurons(n);
    }

    /// Waits until the chunk is done. Where a report is expected, it is looked for: that takes less
    /// than half the time of asking the driver.
    fn wait(&mut self) -> Result<()> {
        let expected = std::mem::take(&mut self.expected);
        let reports = match expected {
            Expected::Nothing => 0..0,
            Expected::Report => 0..1,
            Expected::Neurons(n) => HEAD..HEAD + n,
        };
        if reports.is_empty() || !self.download.wait_for_changes(reports, PENDING, LOOK_TIME) {
            self.stream.synchronize()?;
        }
        if let Expected::Neurons(_) = expected {
            self.take_neuron_reports()?;
        }
        Ok(())
    }

    /// Puts what the neurons report of the values where a chunk has its report. A bad value is
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

    /// Launches the kernel of few samples: as it was launched before, where it was.
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

    /// The values of the chunk on the card.
    pub(crate) fn values(&self) -> Result<View<'_>> {
        self.inputs.view().from(8 * HEAD as u64)
    }

    /// Gives a call to the stream: as recorded, where it was made before.
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
                    // Sizes keep changing: start over rather than keep what may never come again.
                    self.stream.synchronize()?;
                    self.graphs.clear();
                }
                self.graphs.insert(key, Recorded::Once);
                give(self)
            }
        }
    }

    /// What was found about the values of the chunk: the index of the first one outside its
    /// interval.
    pub(crate) fn bad_value(&self) -> Option<usize> {
        Some(self.download.as_slice()[0]).filter(|&index| index != u64::MAX).map(host_size)
    }

    /// Appends the results of the chunk.
    pub(crate) fn take_results(&self, n: usize, to: &mut Vec<u64>) -> Result<()> {
        append_parallel(to, &self.download.as_slice()[HEAD..HEAD + n])
    }
}

/// The sets of a layer that no call uses at the moment.
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
        // The list is whole between any two statements.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `n_samples` in chunks; each is given to the card before the results of the one before
    /// are taken.
    pub(crate) fn run(
        &self,
        n_samples: usize,
        chunk: usize,
        options: &CountOptions<'_>,
        make: impl Fn() -> Result<BufferSet>,
        run: &mut impl ChunkRun,
    ) -> Result<()> {
        // A set whose chunk failed is not kept: its buffers may not be zero.
        let mut under_way: VecDeque<(BufferSet, Range<usize>)> = VecDeque::new();
        for start in (0..n_samples).step_by(chunk.max(1)) {
            options.cancel.check()?;
            let samples = start..n_samples.min(start.saturating_add(chunk));
            let idle = self.lock().pop();
            let mut set = idle.map_or_else(&make, Ok)?;
            options.after.map_or(Ok(()), |event| set.stream.wait_for(event))?;
            run.submit(&mut set, samples.clone())?;
            under_way.push_back((set, samples));
            while under_way.len() > 1
                && let Some(first) = under_way.pop_front()
            {
                self.receive(first, run)?;
            }
        }
        under_way.into_iter().try_for_each(|chunk| self.receive(chunk, run))
    }

    fn receive(
        &self,
        (mut set, samples): (BufferSet, Range<usize>),
        run: &mut impl ChunkRun,
    ) -> Result<()> {
        set.wait()?;
        let received = run.receive(&mut set, samples);
        // What a bad value leaves behind is what any call does.
        self.keep(set);
        received
    }
}
