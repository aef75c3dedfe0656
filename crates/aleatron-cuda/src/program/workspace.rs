//! The memory of a run of a program: slots, and the buffers of layers.

use std::collections::HashMap;
use std::sync::Arc;

use aleatron_core::program::{Program, ProgramBatch, ProgramOutput, SlotData, SlotId, plain};
use aleatron_core::{Cancel, Error as CoreError, SampleSeed};

use super::step::StepViews;
use super::{CardStep, CudaProgram};
use crate::buffers::{BufferSet, CountOptions, PENDING, ProgramCall, SPIN_TIME, SetSizes};
use crate::driver::{
    DeviceBuffer, Graph, Grid, PinnedBuffer, Stream, View, copy_parallel, kernels,
};
use crate::encode::call_seed;
use crate::error::Result;
use crate::kernels::ResultKind;
use crate::program::params::{FinishStage, ReportParams};
use crate::queue::{Profiler, Queue};
use crate::results::CardResults;

/// The largest number of samples of a run that is recorded and repeated.
const RECORDED_SAMPLES: usize = 16;

/// Number of words of the constants of steps that run with a layer.
const STAGE_WORDS: usize = size_of::<FinishStage>() / 8;

/// The largest number of words of results that a kernel writes to host memory. The host may
/// spin-wait for words of a kernel, but not for those of a copy, which may be written in parts.
const REPORTED_WORDS: usize = 1 << 12;

/// Number of threads of a block of this kernel.
const REPORT_THREADS: u64 = 256;

/// The largest number of recorded runs.
const MAX_GRAPHS: usize = 8;

/// Options of a run; they never change a result.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunOptions<'a> {
    /// The cancellation token, polled before each layer.
    pub(super) cancel: Cancel<'a>,
    /// Times the kernels.
    pub(super) profiler: Option<&'a Profiler>,
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        Self { cancel: Cancel::NEVER, profiler: None }
    }
}

/// Whether slots share memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Slots whose uses do not overlap share a buffer.
    Shared,
    /// Every slot has a buffer.
    Separate,
}

/// The key of a recorded run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RunKey {
    n_samples: usize,
    seed: SampleSeed,
    slots: Vec<SlotId>,
}

/// The memory of a run of one chunk.
#[derive(Debug)]
pub(super) struct Workspace {
    // Dropped in this order: graphs use all following fields.
    graphs: HashMap<RunKey, Option<Graph>>,
    set: BufferSet,
    buffers: Vec<DeviceBuffer<u64>>,
    /// The buffer of each slot.
    buffer_of: Vec<usize>,
    /// The upload, on the host: the state of the run, the seeds of the layers, and then the inputs.
    upload: PinnedBuffer<u64>,
    /// The same on the GPU, after the outputs: the last outputs and the state are downloaded in one
    /// copy.
    exchange: DeviceBuffer<u64>,
    /// The constants of steps that run with the preceding layer, by layer.
    stages: DeviceBuffer<u64>,
    layout: Layout,
    sizes: ExchangeSizes,
    /// The requested slots, and then the state.
    download: PinnedBuffer<u64>,
    /// The number of words of `download` that the host spin-waits for; 0 to wait for the driver,
    /// which takes longer for a short run.
    expected: usize,
    stream: Arc<Stream>,
}

/// The words that a run exchanges with the host.
#[derive(Debug, Clone, Copy)]
struct ExchangeSizes {
    /// All outputs of a chunk, if they precede the state; otherwise 0.
    outputs: usize,
    /// The first rejected value of each step that quantizes, then the saturated inputs of each
    /// layer.
    state: usize,
    /// Two words for each layer.
    seeds: usize,
    /// All inputs of a chunk.
    inputs: usize,
}

impl ExchangeSizes {
    fn new(owner: &CudaProgram, layout: Layout) -> Self {
        let (program, outputs) = (&owner.program, owner.program.outputs());
        let of_chunk = |slots: &[SlotId]| wanted_words(program, slots, owner.chunk);
        // An input or a slot that is an output twice has only one position.
        let is_apart = outputs
            .iter()
            .enumerate()
            .all(|(k, id)| !program.inputs().contains(id) && !outputs[..k].contains(id));
        Self {
            outputs: if layout == Layout::Shared && is_apart { of_chunk(outputs) } else { 0 },
            state: owner.n_quantized + owner.layers.len(),
            seeds: 2 * owner.layers.len(),
            inputs: of_chunk(program.inputs()),
        }
    }

    /// Returns the largest number of uploaded words.
    fn upload(&self) -> usize {
        self.state + self.seeds + self.inputs
    }

    /// Returns the offset of the seeds on the GPU.
    fn seeds_start(&self) -> usize {
        self.outputs + self.state
    }

    /// Returns the offset of an input on the GPU, for `n` samples.
    fn input_start(&self, program: &Program, id: SlotId, n: usize) -> usize {
        let before = program.inputs().iter().take_while(|input| **input != id);
        self.seeds_start()
            + self.seeds
            + before.map(|&input| n * program.slot(input).len).sum::<usize>()
    }

    /// Returns the offset of an output on the GPU, for `n` samples: outputs end at the state.
    fn output_start(&self, program: &Program, id: SlotId, n: usize) -> usize {
        let from = program.outputs().iter().skip_while(|output| **output != id);
        self.outputs - from.map(|&output| n * program.slot(output).len).sum::<usize>()
    }
}

impl Workspace {
    pub(super) fn new(owner: &CudaProgram, layout: Layout) -> Result<Self> {
        let (context, program) = (&owner.context, &owner.program);
        let stream = Arc::new(Stream::new(context)?);
        let mut sizes = SetSizes { values: 0, work: 0, counts: 0, results: 0, samples: 0 };
        for layer in &owner.layers {
            sizes = sizes.max(layer.sizes()?);
        }
        let (buffer_of, lens) = match layout {
            Layout::Shared => share(owner),
            Layout::Separate => (
                (0..program.slots().len()).collect(),
                program.slots().iter().map(|s| s.len).collect(),
            ),
        };
        let buffers = lens.iter().map(|&len| DeviceBuffer::new(context, owner.chunk * len));
        let buffers = buffers.collect::<Result<Vec<_>>>()?;
        let exchanged = ExchangeSizes::new(owner, layout);
        let exchange = DeviceBuffer::new(context, exchanged.outputs + exchanged.upload())?;
        let mut stages = vec![0; owner.layers.len() * STAGE_WORDS];
        for step in &owner.steps {
            if let CardStep::Product { layer, fused: Some(fused) } = step {
                let saturated =
                    exchange.view().from(8 * (exchanged.outputs + owner.n_quantized) as u64)?;
                let words = fused.stage.words(saturated)?;
                stages[layer * STAGE_WORDS..(layer + 1) * STAGE_WORDS].copy_from_slice(&words);
            }
        }
        Ok(Self {
            graphs: HashMap::new(),
            set: BufferSet::on_stream(context, Arc::clone(&stream), sizes)?,
            buffers,
            buffer_of,
            upload: PinnedBuffer::new(context, exchanged.upload())?,
            exchange,
            stages: DeviceBuffer::with(context, &stages, &stream)?,
            layout,
            sizes: exchanged,
            download: PinnedBuffer::new(context, 1)?,
            expected: 0,
            stream,
        })
    }

    /// Returns the memory of the slots.
    fn memory(&self) -> SlotMemory<'_> {
        let Self { exchange, buffers, buffer_of, sizes, .. } = self;
        SlotMemory { exchange, buffers, buffer_of, sizes: *sizes }
    }

    /// Enqueues a chunk.
    pub(super) fn submit(
        &mut self,
        owner: &CudaProgram,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        options: &RunOptions<'_>,
    ) -> Result<()> {
        let (program, n, sizes) = (&owner.program, batch.n_samples, self.sizes);
        // No rejected value, and no saturated input.
        self.upload.as_mut_slice()[..sizes.state].fill(0);
        self.upload.as_mut_slice()[..owner.n_quantized].fill(u64::MAX);
        let mut seeds = Vec::with_capacity(owner.layers.len());
        for (k, layer) in program.layers().iter().enumerate() {
            let seed = batch.row_seed(layer.rows, 0)?;
            let words = call_seed(layer.spec.input_address(seed)).words();
            self.upload.as_mut_slice()[sizes.state + 2 * k..][..2].copy_from_slice(&words);
            seeds.push(seed);
        }
        let mut first = sizes.state + sizes.seeds;
        for input in batch.inputs {
            let words: &[u64] = bytemuck::cast_slice(input);
            copy_parallel(words, &mut self.upload.as_mut_slice()[first..first + words.len()])?;
            first += words.len();
        }
        let wanted = sizes.state + wanted_words(program, slots, n);
        if self.download.as_slice().len() < wanted {
            // Recorded runs write to the old one.
            self.graphs.clear();
            self.download = PinnedBuffer::new(&owner.context, wanted)?;
        }
        self.give(owner, batch, &seeds, slots, options)
    }

    /// Waits for the chunk and adds its results to the previous ones.
    pub(super) fn receive(
        &mut self,
        owner: &CudaProgram,
        n: usize,
        slots: &[SlotId],
        output: &mut ProgramOutput,
    ) -> Result<()> {
        let expected = std::mem::take(&mut self.expected);
        // A result may equal a pending word; the driver is asked after the time limit then.
        if expected == 0 || !self.download.wait_for_changes(0..expected, PENDING, SPIN_TIME) {
            self.stream.synchronize()?;
        }
        let counted = &self.state(owner, slots, n)[owner.n_quantized..];
        output.saturated.iter_mut().zip(counted).for_each(|(sum, more)| *sum += more);
        let mut first = 0;
        for (&id, all) in slots.iter().zip(&mut output.slots) {
            let len = n * owner.program.slot(id).len;
            let words = &self.download.as_slice()[first..first + len];
            first += len;
            match all {
                SlotData::Float(values) => {
                    values.extend(words.iter().map(|&word| f64::from_bits(word)))
                }
                SlotData::Integer(values) => values.extend(words.iter().map(|&word| word as i64)),
                SlotData::Words(all) => all.extend_from_slice(words),
            }
        }
        Ok(())
    }

    /// Enqueues a run, from its recording if there is one.
    fn give(
        &mut self,
        owner: &CudaProgram,
        batch: &ProgramBatch<'_>,
        seeds: &[SampleSeed],
        slots: &[SlotId],
        options: &RunOptions<'_>,
    ) -> Result<()> {
        let can_be_recorded = batch.n_samples <= RECORDED_SAMPLES
            && options.profiler.is_none()
            && owner.layers.iter().all(|layer| layer.is_kept());
        if !can_be_recorded {
            return self.give_steps(owner, batch.n_samples, seeds, slots, options);
        }
        let key = RunKey { n_samples: batch.n_samples, seed: batch.seed, slots: slots.to_vec() };
        match self.graphs.remove(&key) {
            Some(Some(graph)) => {
                self.expected = self.reported_words(owner, slots, batch.n_samples).unwrap_or(0);
                self.download.as_mut_slice()[..self.expected].fill(PENDING);
                graph.launch(&self.stream)?;
                self.graphs.insert(key, Some(graph));
            }
            Some(None) => {
                let stream = Arc::clone(&self.stream);
                let graph = Graph::record(&stream, || {
                    self.give_steps(owner, batch.n_samples, seeds, slots, &RunOptions::default())
                })?;
                graph.launch(&self.stream)?;
                self.graphs.insert(key, Some(graph));
            }
            None => {
                if self.graphs.len() >= MAX_GRAPHS {
                    self.graphs.clear();
                }
                // Recording does not pay off for a single run.
                self.graphs.insert(key, None);
                self.give_steps(owner, batch.n_samples, seeds, slots, options)?;
            }
        }
        Ok(())
    }

    fn give_steps(
        &mut self,
        owner: &CudaProgram,
        n: usize,
        seeds: &[SampleSeed],
        slots: &[SlotId],
        options: &RunOptions<'_>,
    ) -> Result<()> {
        let (program, stream, profiler) =
            (&owner.program, Arc::clone(&self.stream), options.profiler);
        let sizes = self.sizes;
        let upload = sizes.state + sizes.seeds + wanted_words(program, program.inputs(), n);
        self.upload.send(0, upload, &self.exchange, sizes.outputs, &stream)?;
        let mut skipped = 0;
        for (k, (step, card)) in program.steps().iter().zip(&owner.steps).enumerate() {
            if k < skipped {
                continue;
            }
            match card {
                CardStep::Product { layer, fused } => {
                    options.cancel.check()?;
                    let fused = fused.as_ref().filter(|_| self.layout == Layout::Shared);
                    let Self { set, buffers, buffer_of, exchange, stages, .. } = self;
                    let memory = SlotMemory { exchange, buffers, buffer_of, sizes };
                    let seed = 8 * (sizes.seeds_start() + 2 * layer) as u64;
                    let call = ProgramCall { seed: memory.exchange.view().from(seed)? };
                    let options = CountOptions {
                        cancel: Cancel::NEVER,
                        profiler,
                        after: None,
                        program: Some(call),
                    };
                    let rows = n * program.layers()[*layer].rows;
                    let results = match fused {
                        Some(fused) => {
                            skipped = k + 1 + fused.n_steps;
                            let stage = stages.view().from((8 * STAGE_WORDS * *layer) as u64)?;
                            let (view, kind) =
                                (memory.view(program, fused.output, n)?, ResultKind::Staged);
                            CardResults { view, kind, stage: Some(stage) }
                        }
                        None => CardResults::counts(memory.view(program, step.output(), n)?),
                    };
                    let thresholds = memory.view(program, step.input(), n)?;
                    owner.layers[*layer].enqueue(
                        set,
                        thresholds,
                        rows,
                        seeds[*layer],
                        results,
                        &options,
                    )?;
                }
                CardStep::Stage { stage, n_fused } => {
                    let last = match self.layout {
                        Layout::Separate => k,
                        Layout::Shared => k + n_fused,
                    };
                    let output = program.steps()[last].output();
                    let views = StepViews {
                        inputs: step
                            .inputs()
                            .iter()
                            .map(|&id| self.memory().view(program, id, n))
                            .collect::<Result<_>>()?,
                        output: self.memory().view(program, output, n)?,
                        found: self.exchange.view().from(8 * sizes.outputs as u64)?,
                        saturated: self
                            .exchange
                            .view()
                            .from(8 * (sizes.outputs + owner.n_quantized) as u64)?,
                    };
                    let queue = Queue { stream: &stream, profiler };
                    match owner.steps.get(last) {
                        Some(CardStep::Stage { stage: next, .. }) if last > k => {
                            stage.give_with(next, &queue, n, &views)?;
                        }
                        _ => stage.give(&queue, n, &views)?,
                    }
                    skipped = last + 1;
                }
            }
        }
        let wanted = wanted_words(program, slots, n);
        if let Some(words) = self.reported_words(owner, slots, n) {
            let (from, to) = (
                self.exchange.view().from(8 * (sizes.outputs - wanted) as u64)?,
                self.download.view(),
            );
            let bytes = 8 * words as u128;
            let params =
                ReportParams { from: from.check(bytes)?, to: to.check(bytes)?, n: words as u64 };
            let grid = Grid::row((words as u64).div_ceil(REPORT_THREADS))?;
            let queue = Queue { stream: &stream, profiler };
            return queue.launch(&kernels::STAGE_REPORT, grid, 0, &params, 16 * words as u64);
        }
        if sizes.outputs > 0 && slots == program.outputs() {
            let first = sizes.outputs - wanted;
            return self.download.receive(0, wanted + sizes.state, &self.exchange, first, &stream);
        }
        let mut first = 0;
        for &id in slots {
            let len = n * program.slot(id).len;
            let (buffer, start) = self.memory().slot(program, id, n);
            self.download.receive(first, len, buffer, start, &stream)?;
            first += len;
        }
        self.download.receive(wanted, sizes.state, &self.exchange, sizes.outputs, &stream)
    }

    /// Returns the number of words of the results of a run if a kernel writes them to host memory;
    /// `None` if they are copied.
    fn reported_words(&self, owner: &CudaProgram, slots: &[SlotId], n: usize) -> Option<usize> {
        let words = wanted_words(&owner.program, slots, n) + self.sizes.state;
        let is_apart = self.sizes.outputs > 0 && slots == owner.program.outputs();
        (is_apart && words <= REPORTED_WORDS).then_some(words)
    }

    /// Returns the state of the run, downloaded after the slots.
    fn state(&self, owner: &CudaProgram, slots: &[SlotId], n: usize) -> &[u64] {
        let first = wanted_words(&owner.program, slots, n);
        &self.download.as_slice()[first..first + self.sizes.state]
    }

    /// Returns the error of the first rejected value of the chunk.
    pub(super) fn refused(
        &self,
        owner: &CudaProgram,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
    ) -> Option<CoreError> {
        let quantized =
            owner.steps.iter().zip(owner.program.steps()).filter_map(|(card, step)| match card {
                CardStep::Stage { stage, .. } => Some((stage.quantized()?, step)),
                CardStep::Product { .. } => None,
            });
        let state = self.state(owner, slots, batch.n_samples);
        let is_refused = |index: usize| state[index] != u64::MAX;
        quantized.into_iter().find(|(index, _)| is_refused(*index))?;
        // The reference steps report the value. They need no counts: values are rejected before the
        // first layer that depends on them.
        let refusal = plain::run(&owner.program, batch, &[], |layer, thresholds, _| {
            let spec = &owner.program.layers()[layer].spec;
            Ok(vec![0; thresholds.len() / spec.n_inputs() * spec.n_neurons()])
        });
        let internal = CoreError::Internal { place: "cuda::program::Workspace::refused" };
        Some(refusal.err().unwrap_or(internal))
    }
}

/// The memory of the slots of a run.
#[derive(Debug, Clone, Copy)]
struct SlotMemory<'a> {
    exchange: &'a DeviceBuffer<u64>,
    buffers: &'a [DeviceBuffer<u64>],
    buffer_of: &'a [usize],
    sizes: ExchangeSizes,
}

impl<'a> SlotMemory<'a> {
    /// Returns the buffer of a slot, and the offset of `n` samples of it.
    fn slot(&self, program: &Program, id: SlotId, n: usize) -> (&'a DeviceBuffer<u64>, usize) {
        if program.inputs().contains(&id) {
            return (self.exchange, self.sizes.input_start(program, id, n));
        }
        if self.sizes.outputs > 0 && program.outputs().contains(&id) {
            return (self.exchange, self.sizes.output_start(program, id, n));
        }
        (&self.buffers[self.buffer_of[id.index()]], 0)
    }

    /// Returns the elements of `n` samples of a slot.
    fn view(&self, program: &Program, id: SlotId, n: usize) -> Result<View<'a>> {
        let (buffer, start) = self.slot(program, id, n);
        buffer.view().from(8 * start as u64)
    }
}

/// Returns the words of `n` samples of slots.
fn wanted_words(program: &Program, slots: &[SlotId], n: usize) -> usize {
    n * slots.iter().map(|&id| program.slot(id).len).sum::<usize>()
}

/// Assigns each slot a buffer that no slot in use at the same time has. Returns the buffer of each
/// slot, and the number of elements of each buffer.
fn share(owner: &CudaProgram) -> (Vec<usize>, Vec<usize>) {
    let program = &owner.program;
    let mut last_uses = program.last_uses();
    for (k, (step, card)) in program.steps().iter().zip(&owner.steps).enumerate() {
        // One launch may read the input of its first step in some blocks while others write the
        // output of its last one.
        let last = &mut last_uses[step.input().index()];
        *last = Some(last.unwrap_or(k).max(k + card.n_fused()));
    }
    let end = program.steps().len();
    for id in program.outputs() {
        last_uses[id.index()] = Some(end);
    }
    let mut buffer_of = vec![usize::MAX; program.slots().len()];
    let mut lens: Vec<usize> = Vec::new();
    // The step after which a buffer is free.
    let mut busy_until: Vec<usize> = Vec::new();
    let mut assign = |slot: usize, from: usize| {
        let len = program.slots()[slot].len;
        let last = last_uses[slot].unwrap_or(from);
        // The smallest free buffer that is large enough, or the largest one, which grows.
        let free = (0..lens.len()).filter(|&b| busy_until[b] < from);
        let fitting = free.clone().filter(|&b| lens[b] >= len).min_by_key(|&b| lens[b]);
        let buffer = fitting.or_else(|| free.max_by_key(|&b| lens[b])).unwrap_or_else(|| {
            lens.push(0);
            busy_until.push(0);
            lens.len() - 1
        });
        lens[buffer] = lens[buffer].max(len);
        busy_until[buffer] = last;
        buffer_of[slot] = buffer;
    };
    for (k, step) in program.steps().iter().enumerate() {
        // A step reads its inputs while it writes its output.
        assign(step.output().index(), k + usize::from(k == 0));
    }
    // Slots that no step computes are never used.
    for buffer in &mut buffer_of {
        if *buffer == usize::MAX {
            *buffer = 0;
        }
    }
    (buffer_of, lens)
}
