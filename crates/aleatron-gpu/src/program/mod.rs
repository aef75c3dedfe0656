//! Compiled networks on a device: thresholds are uploaded, integers are downloaded, and no
//! intermediate slot leaves the device.
//!
//! WGSL has no f64, so floats are computed on the host: it quantizes inputs before a chunk is
//! submitted, and restores outputs after it has returned. Programs with floats between two layers
//! are not supported.

mod layer;
mod placement;
mod step;
mod workspace;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aleatron_core::backend::PrepareOptions;
use aleatron_core::program::{
    KernelTime, PreparedProgram, Program, ProgramBatch, ProgramOutput, SlotData, SlotId, Step,
    StepKind,
};
use aleatron_core::{Backend, Cancel, Quantity, memory};
use aleatron_device::{GpuContext, Profiler};

use crate::backend::GpuBackend;
use crate::error::Result;
use layer::{LayerWords, ResidentLayer};
use placement::{Buffers, Layout, Placement};
use step::{CountStage, LIMIT, RawSign, StageStep};
use workspace::{Chunk, Workspace};

/// The largest number of samples of a chunk.
const MAX_CHUNK: usize = 256;

/// The largest size of a chunk on the device in bytes.
const CHUNK_BYTES: u64 = 1 << 30;

/// The largest number of idle workspaces.
const MAX_IDLE: usize = 8;

/// A step of a program.
#[derive(Debug)]
enum DeviceStep {
    /// A step on the host.
    Host,
    /// The counts of a layer.
    Product {
        layer: usize,
        counts: CountStage,
        /// The next step, which can run with it if nothing else needs the counts.
        fused: Option<Fused>,
    },
    /// A step of the inter-layer arithmetic.
    Stage(StageStep),
}

/// The accumulators directly after a layer.
#[derive(Debug)]
struct Fused {
    stage: CountStage,
    output: SlotId,
}

/// A program on a device.
#[derive(Debug)]
pub(crate) struct GpuProgram {
    name: String,
    context: Arc<GpuContext>,
    program: Arc<Program>,
    placements: Vec<Placement>,
    layers: Vec<ResidentLayer>,
    steps: Vec<DeviceStep>,
    /// The slots that the host computes and the device reads.
    uploaded: Vec<SlotId>,
    /// The layer of each step that requantizes.
    requantized: Vec<usize>,
    /// Whether the counts of a layer are differences.
    has_differences: bool,
    /// Number of samples per submission.
    chunk: usize,
    /// Workspaces whose slots share buffers as far as their uses allow.
    shared: Mutex<Vec<Workspace>>,
    /// Workspaces in which every slot has a separate buffer, for runs that return slots other than
    /// the outputs.
    separate: Mutex<Vec<Workspace>>,
}

impl GpuProgram {
    /// Prepares a program; `None` if a step has no kernel.
    pub(crate) fn new(
        backend: &GpuBackend,
        context: &Arc<GpuContext>,
        program: &Arc<Program>,
        options: &PrepareOptions<'_>,
    ) -> Result<Option<Self>> {
        let (Some(placements), Some(magnitudes)) =
            (placement::placements(program), program.magnitudes(LIMIT))
        else {
            return Ok(None);
        };
        let limit = context.max_binding_bytes();
        // Two chunks of a batch are in flight at a time.
        let mut chunk = options.max_batch.div_ceil(2).clamp(1, MAX_CHUNK);
        for slot in program.slots() {
            let fitting = limit / (8 * slot.len.max(1) as u64);
            chunk = chunk.min(usize::try_from(fitting).unwrap_or(MAX_CHUNK));
        }
        if chunk == 0 {
            return Ok(None);
        }
        for layer in program.layers() {
            // Streams and thresholds of a sample, and its counts: the allocation of layers when
            // they are prepared.
            let (spec, rows) = (&layer.spec, layer.rows as u64);
            let streams =
                (spec.n_inputs() as u64).saturating_mul(8 * spec.length().words() as u64 + 12);
            let bytes = streams.saturating_add(8 * spec.n_neurons() as u64).saturating_mul(rows);
            let fitting = usize::try_from(CHUNK_BYTES / bytes.max(1)).unwrap_or(MAX_CHUNK);
            chunk = chunk.min(fitting.max(1));
        }
        let mut layers = Vec::new();
        for layer in program.layers() {
            let rows = chunk.saturating_mul(layer.rows);
            let Some(resident) = ResidentLayer::new(backend, context, layer, rows, options)? else {
                return Ok(None);
            };
            chunk = chunk.min(resident.rows() / layer.rows);
            if chunk == 0 {
                return Ok(None);
            }
            layers.push(resident);
        }
        let (mut steps, mut requantized) = (Vec::new(), Vec::new());
        for (k, step) in program.steps().iter().enumerate() {
            if placements[step.output().index()] != Placement::Device {
                steps.push(DeviceStep::Host);
                continue;
            }
            if let StepKind::Product { layer } = step.kind() {
                let resident = &layers[*layer];
                let counts = CountStage::counts(
                    context,
                    program.layers()[*layer].spec.n_neurons(),
                    &resident.bases(),
                )?;
                let fused = fused(context, program, k, resident)?;
                steps.push(DeviceStep::Product { layer: *layer, counts, fused });
                continue;
            }
            if let StepKind::Requantize { layer, .. } = step.kind() {
                requantized.push(*layer);
            }
            let mut n_requantized = requantized.len().saturating_sub(1);
            match StageStep::new(context, program, step, &magnitudes, &mut n_requantized)? {
                Some(stage) if stage.constant_bytes() <= limit => {
                    steps.push(DeviceStep::Stage(stage))
                }
                _ => return Ok(None),
            }
        }
        let mut prepared = Self {
            name: backend.name(),
            context: Arc::clone(context),
            program: Arc::clone(program),
            uploaded: placement::uploaded(program, &placements),
            placements,
            has_differences: layers.iter().any(|layer| layer.raw_sign() == RawSign::Difference),
            layers,
            steps,
            requantized,
            chunk,
            shared: Mutex::default(),
            separate: Mutex::default(),
        };
        let sample = prepared
            .layer_words(1)
            .bytes()
            .saturating_add(8 * prepared.buffers(Layout::Shared).elements());
        let fitting = usize::try_from(CHUNK_BYTES / sample.max(1)).unwrap_or(MAX_CHUNK);
        prepared.chunk = chunk.min(fitting.max(1));
        Ok(Some(prepared))
    }

    /// Returns the words that the layers need for `n_samples` samples.
    fn layer_words(&self, n_samples: usize) -> LayerWords {
        let layers = self.layers.iter().zip(self.program.layers());
        let words = layers.map(|(resident, layer)| resident.words(n_samples * layer.rows));
        words.fold(LayerWords::default(), LayerWords::max)
    }

    /// Returns the buffers of slots.
    fn buffers(&self, layout: Layout) -> Buffers {
        // Counts that are accumulated immediately need no buffer.
        let fused =
            self.steps.iter().zip(self.program.steps()).filter_map(|(device, step)| match device {
                DeviceStep::Product { fused: Some(_), .. } if layout == Layout::Shared => {
                    Some(step.output())
                }
                _ => None,
            });
        Buffers::new(&self.program, &self.placements, layout, &fused.collect::<Vec<_>>())
    }

    fn idle(&self, layout: Layout) -> MutexGuard<'_, Vec<Workspace>> {
        let idle = match layout {
            Layout::Shared => &self.shared,
            Layout::Separate => &self.separate,
        };
        // The list is consistent between any two statements.
        idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns which slots the host must compute from slots of the device: the requested ones,
    /// their dependencies, and thresholds, since it counts saturated values.
    fn needed_after(&self, slots: &[SlotId]) -> Vec<bool> {
        let mut needed = vec![false; self.program.slots().len()];
        slots.iter().for_each(|id| needed[id.index()] = true);
        let is_after = |step: &&Step| self.placements[step.output().index()] == Placement::After;
        for step in self.program.steps().iter().rev().filter(is_after) {
            let output = &mut needed[step.output().index()];
            *output |= matches!(step.kind(), StepKind::Quantize { .. });
            if *output {
                step.inputs().iter().for_each(|id| needed[id.index()] = true);
            }
        }
        needed
    }

    fn run_batch(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
        mut profiler: Option<&mut Profiler>,
    ) -> Result<ProgramOutput> {
        batch.check(&self.program)?;
        let of_kind = |id: &SlotId| SlotData::empty(self.program.slot(*id).kind);
        let saturated = vec![0; self.program.layers().len()];
        let mut output = ProgramOutput { slots: slots.iter().map(of_kind).collect(), saturated };
        let wanted: u128 = slots.iter().map(|&id| self.program.slot(id).len as u128).sum();
        memory::check(wanted.saturating_mul(8 * batch.n_samples as u128), Quantity::Samples)?;
        let is_usual = slots.iter().all(|slot| self.program.outputs().contains(slot));
        let layout = if is_usual { Layout::Shared } else { Layout::Separate };
        let needed = self.needed_after(slots);
        let is_fetched =
            |id: &SlotId| needed[id.index()] && self.placements[id.index()] == Placement::Device;
        let fetched: Vec<SlotId> =
            self.program.steps().iter().map(Step::output).filter(is_fetched).collect();
        // Times are collected chunk by chunk. Otherwise the host prepares one chunk while the
        // device computes the other.
        let ahead = if profiler.is_some() { 0 } else { 1 };
        let mut in_flight: VecDeque<(Workspace, Chunk, Range<usize>)> = VecDeque::new();
        let mut receive = |(mut workspace, chunk, range): (Workspace, Chunk, Range<usize>)| {
            let received = workspace.receive(self, chunk, &fetched, slots, &mut output);
            received.map_err(|error| self.shifted(error, range.start))?;
            let mut idle = self.idle(layout);
            if idle.len() < MAX_IDLE {
                idle.push(workspace);
            }
            Ok::<_, crate::Error>(())
        };
        for start in (0..batch.n_samples).step_by(self.chunk) {
            cancel.check()?;
            let range = start..batch.n_samples.min(start + self.chunk);
            let inputs = batch.samples(range.start, range.end)?;
            let part = batch.part(&inputs, range.start, range.end)?;
            let idle = self.idle(layout).pop();
            let mut workspace = match idle {
                Some(workspace) => workspace,
                None => Workspace::new(self, layout)?,
            };
            let submitted = workspace.submit(self, &part, &fetched, profiler.as_deref_mut());
            let chunk = submitted.map_err(|error| self.shifted(error, range.start))?;
            in_flight.push_back((workspace, chunk, range));
            while in_flight.len() > ahead
                && let Some(chunk) = in_flight.pop_front()
            {
                receive(chunk)?;
                profiler.as_deref_mut().map_or(Ok(()), Profiler::collect)?;
            }
        }
        in_flight.into_iter().try_for_each(receive)?;
        Ok(output)
    }

    /// Shifts the indices of an error of a chunk to those of the batch.
    fn shifted(&self, error: crate::Error, first: usize) -> crate::Error {
        match error {
            crate::Error::Core(error) => self.program.shifted(error, first).into(),
            error => error,
        }
    }
}

/// Returns the accumulators directly after a product, if nothing else uses its counts.
fn fused(
    context: &Arc<GpuContext>,
    program: &Program,
    product: usize,
    resident: &ResidentLayer,
) -> Result<Option<Fused>> {
    let counts = program.steps()[product].output();
    let n_users = program.steps().iter().filter(|step| step.inputs().contains(&counts)).count();
    let is_output = program.outputs().contains(&counts);
    let Some(next) = program.steps().get(product + 1).filter(|next| next.inputs() == [counts])
    else {
        return Ok(None);
    };
    let StepKind::Accumulate { layer, accumulator } = next.kind() else { return Ok(None) };
    let spec = &program.layers()[*layer].spec;
    if n_users != 1 || is_output {
        return Ok(None);
    }
    let stage = CountStage::accumulate(context, spec, accumulator, &resident.bases())?;
    Ok(Some(Fused { stage, output: next.output() }))
}

impl PreparedProgram for GpuProgram {
    fn run(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> aleatron_core::Result<ProgramOutput> {
        Ok(self.run_batch(batch, slots, cancel, None)?)
    }

    fn profile(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> aleatron_core::Result<Vec<KernelTime>> {
        let mut profiler = Profiler::new(self.context()).map_err(crate::Error::from)?;
        self.run_batch(batch, slots, cancel, Some(&mut profiler))?;
        Ok(crate::backend::kernel_times(&profiler))
    }

    fn is_lost(&self) -> bool {
        self.context.is_lost()
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some(self.name.clone())
    }
}
