//! Compiled networks on a GPU: inputs are uploaded, outputs are downloaded, and no intermediate
//! slot leaves the GPU.

pub(crate) mod params;
mod step;
mod workspace;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use aleatron_core::backend::PrepareOptions;
use aleatron_core::program::{
    KernelTime, PreparedProgram, Program, ProgramBatch, ProgramOutput, SlotData, SlotId, StepKind,
};
use aleatron_core::{Cancel, Quantity, memory};

use crate::backend::name_of;
use crate::driver::{CudaContext, Stream};
use crate::error::Result;
use crate::layer::{CudaLayer, LayerUse};
use crate::queue::Profiler;
use step::{FusedStage, LIMIT, StageStep};
use workspace::{Layout, RunOptions, Workspace};

/// The largest number of samples of a chunk.
const MAX_CHUNK: usize = 1024;

/// The divisor of the free memory for the slots of a chunk.
const SLOT_SHARE: u64 = 4;

/// The largest number of idle workspaces.
const MAX_IDLE: usize = 2;

/// A step of a program on a card.
#[derive(Debug)]
enum CardStep {
    Product {
        layer: usize,
        /// The steps after the layer that run with it if nothing else needs their intermediate
        /// slots.
        fused: Option<Fused>,
    },
    Stage {
        stage: StageStep,
        /// The number of following steps that run in the same launch: 0 or 1.
        n_fused: usize,
    },
}

impl CardStep {
    /// Returns the number of steps that run in the launch of this step, without it.
    fn n_fused(&self) -> usize {
        match self {
            Self::Product { fused, .. } => fused.as_ref().map_or(0, |fused| fused.n_steps),
            Self::Stage { n_fused, .. } => *n_fused,
        }
    }
}

/// Steps that run with the preceding layer.
#[derive(Debug)]
struct Fused {
    stage: FusedStage,
    /// The number of steps.
    n_steps: usize,
    /// The slot that they compute.
    output: SlotId,
}

/// A program on a card.
#[derive(Debug)]
pub(crate) struct CudaProgram {
    context: Arc<CudaContext>,
    program: Arc<Program>,
    layers: Vec<CudaLayer>,
    steps: Vec<CardStep>,
    n_quantized: usize,
    chunk: usize,
    /// Workspaces whose slots share buffers as far as their uses allow.
    shared: Mutex<Vec<Workspace>>,
    /// Workspaces in which every slot has a separate buffer, for runs that return slots other than
    /// the outputs.
    separate: Mutex<Vec<Workspace>>,
}

impl CudaProgram {
    /// Prepares a program; `None` if a step has no kernel.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        program: &Arc<Program>,
        options: &PrepareOptions<'_>,
    ) -> Result<Option<Self>> {
        let Some(magnitudes) = program.magnitudes(LIMIT) else { return Ok(None) };
        let stream = Stream::new(context)?;
        let (mut steps, mut n_quantized) = (Vec::new(), 0);
        for (k, step) in program.steps().iter().enumerate() {
            if let StepKind::Product { layer } = step.kind() {
                let fused = fused(context, &stream, program, k, &magnitudes)?;
                steps.push(CardStep::Product { layer: *layer, fused });
                continue;
            }
            match StageStep::new(context, &stream, program, step, &magnitudes, &mut n_quantized)? {
                Some(stage) => {
                    if let Some(CardStep::Stage { stage: before, n_fused }) = steps.last_mut()
                        && *n_fused == 0
                        && is_only_use(program, k - 1)
                        && before.fuses_with(&stage)
                    {
                        *n_fused = 1;
                    }
                    steps.push(CardStep::Stage { stage, n_fused: 0 });
                }
                None => return Ok(None),
            }
        }
        let bytes =
            program.slots().iter().fold(0_u64, |sum, slot| sum.saturating_add(8 * slot.len as u64));
        let fitting = context.free_bytes()? / SLOT_SHARE / bytes.max(1);
        let mut chunk = usize::try_from(fitting).unwrap_or(MAX_CHUNK).clamp(1, MAX_CHUNK);
        let mut layers = Vec::new();
        for layer in program.layers() {
            options.cancel.check()?;
            let options =
                PrepareOptions { max_batch: chunk.saturating_mul(layer.rows), ..*options };
            let prepared = CudaLayer::new(
                context,
                &layer.spec,
                &layer.weights,
                layer.input_sign,
                LayerUse::Program,
                &options,
            )?;
            // Layers run in the buffers of the program.
            prepared.release();
            let samples = prepared.chunk() / layer.rows;
            if samples == 0 {
                return Ok(None);
            }
            chunk = chunk.min(samples);
            layers.push(prepared);
        }
        Ok(Some(Self {
            context: Arc::clone(context),
            program: Arc::clone(program),
            layers,
            steps,
            n_quantized,
            chunk,
            shared: Mutex::default(),
            separate: Mutex::default(),
        }))
    }

    fn idle(&self, layout: Layout) -> &Mutex<Vec<Workspace>> {
        match layout {
            Layout::Shared => &self.shared,
            Layout::Separate => &self.separate,
        }
    }

    fn run_batch(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        options: &RunOptions<'_>,
    ) -> Result<ProgramOutput> {
        batch.check(&self.program)?;
        let of_kind = |id: &SlotId| SlotData::empty(self.program.slot(*id).kind);
        let saturated = vec![0; self.program.layers().len()];
        let mut output = ProgramOutput { slots: slots.iter().map(of_kind).collect(), saturated };
        let wanted: u128 = slots.iter().map(|&id| self.program.slot(id).len as u128).sum();
        memory::check(wanted.saturating_mul(8 * batch.n_samples as u128), Quantity::Samples)?;
        let is_usual = slots.iter().all(|slot| self.program.outputs().contains(slot));
        let layout = if is_usual { Layout::Shared } else { Layout::Separate };
        // Two chunks are in flight: the host copies one while the GPU computes the other.
        let mut in_flight: VecDeque<(Workspace, Range<usize>)> = VecDeque::new();
        for start in (0..batch.n_samples).step_by(self.chunk) {
            options.cancel.check()?;
            let range = start..batch.n_samples.min(start + self.chunk);
            let inputs = batch.samples(range.start, range.end)?;
            let chunk = batch.part(&inputs, range.start, range.end)?;
            let idle = self.idle(layout).lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut workspace = match idle {
                Some(workspace) => workspace,
                None => Workspace::new(self, layout)?,
            };
            workspace.submit(self, &chunk, slots, options)?;
            in_flight.push_back((workspace, range));
            if in_flight.len() > 1
                && let Some((workspace, range)) = in_flight.pop_front()
            {
                self.receive(workspace, layout, batch, range, slots, &mut output)?;
            }
        }
        for (workspace, range) in in_flight {
            self.receive(workspace, layout, batch, range, slots, &mut output)?;
        }
        Ok(output)
    }

    /// Waits for a chunk and adds its results. A workspace whose run failed is not reused.
    fn receive(
        &self,
        mut workspace: Workspace,
        layout: Layout,
        batch: &ProgramBatch<'_>,
        range: Range<usize>,
        slots: &[SlotId],
        output: &mut ProgramOutput,
    ) -> Result<()> {
        workspace.receive(self, range.len(), slots, output)?;
        let inputs = batch.samples(range.start, range.end)?;
        let refused = workspace.refused(self, &batch.part(&inputs, range.start, range.end)?, slots);
        let mut idle = self.idle(layout).lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(workspace);
        }
        match refused {
            Some(error) => Err(self.program.shifted(error, range.start).into()),
            None => Ok(()),
        }
    }
}

/// Returns whether the next step, and nothing else, uses the output of a step.
fn is_only_use(program: &Program, step: usize) -> bool {
    let steps = program.steps();
    let slot = steps[step].output();
    let users = steps.iter().filter(|step| step.inputs().contains(&slot)).count();
    let is_next = steps.get(step + 1).is_some_and(|step| step.inputs() == [slot]);
    users == 1 && is_next && !program.outputs().contains(&slot)
}

/// Returns the steps that can run with the layer at a step: those that are the only users of the
/// previous step's output.
fn fused(
    context: &Arc<CudaContext>,
    stream: &Stream,
    program: &Program,
    product: usize,
    magnitudes: &[u128],
) -> Result<Option<Fused>> {
    let steps = program.steps();
    let Some(first) = steps.get(product + 1).filter(|_| is_only_use(program, product)) else {
        return Ok(None);
    };
    let second = steps.get(product + 2).filter(|_| is_only_use(program, product + 1));
    for (second, n_steps) in [(second, 2), (None, 1)] {
        if n_steps == 2 && second.is_none() {
            continue;
        }
        if let Some(stage) = FusedStage::new(context, stream, program, first, second, magnitudes)? {
            let output = second.unwrap_or(first).output();
            return Ok(Some(Fused { stage, n_steps, output }));
        }
    }
    Ok(None)
}

impl PreparedProgram for CudaProgram {
    fn run(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> aleatron_core::Result<ProgramOutput> {
        Ok(self.run_batch(batch, slots, &RunOptions { cancel, profiler: None })?)
    }

    fn profile(
        &self,
        batch: &ProgramBatch<'_>,
        slots: &[SlotId],
        cancel: Cancel<'_>,
    ) -> aleatron_core::Result<Vec<KernelTime>> {
        let profiler = Profiler::default();
        self.run_batch(batch, slots, &RunOptions { cancel, profiler: Some(&profiler) })?;
        Ok(profiler.times()?)
    }

    fn is_lost(&self) -> bool {
        self.context.is_lost()
    }

    fn backend_for(&self, _: usize) -> Option<String> {
        Some(name_of(self.context.info().index))
    }
}
